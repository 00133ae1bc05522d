//! Why a scenario file is refused. Every message is one line with the place, the cause and the remedy.

use crate::units::UnitError;

/// A scenario file that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{}{problem}", file.as_ref().map(|f| format!("{f}:")).unwrap_or_default(), line.map(|l| format!("{l}: ")).unwrap_or_else(|| " ".into()))]
pub struct ScenarioError {
    /// The file, if it came from one.
    pub file: Option<String>,
    /// The line, from 1, if one can be named.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: Box<Problem>,
}

/// What is wrong with a scenario file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Problem {
    /// The file cannot be read.
    #[error("cannot read it: {0}; check the path and its permissions")]
    Unreadable(String),
    /// Not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A key this table does not have.
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
        what: &'static str,
        /// The word.
        word: String,
        /// The nearest word, or all of them.
        hint: String,
    },
    /// A key that must be there.
    #[error("{table} lacks '{key}': add {key} = {example}")]
    Missing {
        /// The table.
        table: String,
        /// The key.
        key: &'static str,
        /// An example value in TOML.
        example: &'static str,
    },
    /// A value of the wrong TOML type.
    #[error("{key} must be {expected}, such as {example}, not {got}")]
    WrongType {
        /// The key's full path.
        key: String,
        /// What it should be.
        expected: &'static str,
        /// An example in TOML.
        example: &'static str,
        /// What it is.
        got: &'static str,
    },
    /// A quantity that does not read.
    #[error("{key}: {error}")]
    Unit {
        /// The key's full path.
        key: String,
        /// Why.
        error: UnitError,
    },
    /// A contradiction or something that cannot be; cause and remedy.
    #[error("{0}")]
    Impossible(String),
}

impl Problem {
    /// This problem at a line.
    pub(crate) fn at(self, line: usize) -> ScenarioError {
        ScenarioError { file: None, line: Some(line), problem: Box::new(self) }
    }
}

/// `did you mean 'x'?` if a word of `known` is near, else the whole list.
pub(crate) fn hint<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = known.clone().map(|k| (distance(word, k), k)).min();
    match near {
        Some((d, k)) if d <= (word.len() + 1) / 3 => format!("did you mean '{k}'?"),
        _ => format!("use one of {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// Levenshtein's edit distance, for texts of a line's length.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_is_levenshteins() {
        assert_eq!(distance("duraton", "duration"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
