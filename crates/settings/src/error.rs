//! Why a file is refused. Every message is one line with the place, the cause and the remedy.

use wavelane_base::UnitError;

/// A file that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{}{}", file.as_ref().map(|f| format!("{f}:")).unwrap_or_default(), line.map(|l| format!("{l}: ")).unwrap_or_else(|| " ".into()), one_line(problem))]
pub struct FileError {
    /// The file, if it came from one.
    pub file: Option<String>,
    /// The line, from 1, if known.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: Box<Problem>,
}

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Problem {
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    Unreadable(String),
    /// Not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A key that this table does not have.
    #[error("unknown key '{key}' in {table}; {hint}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The table, such as `[flows.page]`.
        table: String,
        /// The nearest key, or all of them.
        hint: String,
    },
    /// A word outside a closed list.
    #[error("unknown {what} '{word}'; {hint}")]
    UnknownWord {
        /// What it names.
        what: String,
        /// The word.
        word: String,
        /// The nearest word, or all of them.
        hint: String,
    },
    /// A missing required key.
    #[error("{table} lacks '{key}': add {key} = {example}")]
    Missing {
        /// The table.
        table: String,
        /// The key.
        key: String,
        /// An example value in TOML.
        example: &'static str,
    },
    /// A value of the wrong TOML type.
    #[error("{key} must be {expected}, such as {example}, not {got}")]
    WrongType {
        /// The key's full path.
        key: String,
        /// The expected type.
        expected: String,
        /// An example in TOML.
        example: String,
        /// The actual type.
        got: String,
    },
    /// A quantity that cannot be parsed.
    #[error("{key}: {error}")]
    Unit {
        /// The key's full path.
        key: String,
        /// Why.
        error: UnitError,
    },
    /// A contradiction or an impossible value; cause and remedy.
    #[error("{0}")]
    Impossible(String),
}

impl Problem {
    /// This problem at the given line.
    pub fn at(self, line: usize) -> FileError {
        FileError { file: None, line: Some(line), problem: Box::new(self) }
    }
}

/// Most characters of a problem's message: a file may hold a key of any length.
const PROBLEM_MAX: usize = 4_096;

/// A problem's message, in which what the file's own keys and texts could do to a terminal is escaped.
fn one_line(problem: &Problem) -> String {
    wavelane_base::text::line(&problem.to_string(), PROBLEM_MAX).into_owned()
}

/// `did you mean 'x'?` if a word of `known` is similar, else the whole list.
pub fn hint<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = known.clone().map(|k| (distance(word, k), k)).min();
    match near {
        Some((d, k)) if d <= (word.len() + 1) / 3 => format!("did you mean '{k}'?"),
        _ => format!("use one of {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// Edit distance of texts of a line's length: letters inserted, removed, replaced, or two neighbours swapped, each at most once (optimal
/// string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut next = vec![i + 1];
        for j in 0..b.len() {
            let replaced = row[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_letters_and_swaps() {
        assert_eq!(distance("raet", "rate"), 1);
        assert_eq!(distance("reat", "rate"), 2);
        assert_eq!(distance("duraton", "duration"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
