//! A study as a file: its plan says which scenarios are run and by which word what they gave is judged. `hop_mechanisms/plan.toml` is the
//! example; what is left in Rust is what makes rows.

use crate::document::Edition;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A plan's experiment, with the texts of its scenarios.
pub(crate) struct Planned {
    pub(crate) part: String,
    /// The judge's word.
    pub(crate) judge: String,
    pub(crate) about: About,
    /// Names and scenarios.
    pub(crate) runs: Vec<(String, String)>,
}

/// What a judge is told beside the runs.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct About(toml::Table);

impl About {
    /// The number of that name, if it is given.
    pub(crate) fn given(&self, key: &str) -> Option<f64> {
        self.0.get(key)?.as_float()
    }
    /// That number.
    ///
    /// # Panics
    /// If the plan does not give it.
    pub(crate) fn number(&self, key: &str) -> f64 {
        self.given(key).unwrap_or_else(|| panic!("the plan's `about` lacks the number {key}"))
    }
    /// The whole number of that name.
    ///
    /// # Panics
    /// If the plan does not give it.
    pub(crate) fn whole(&self, key: &str) -> u32 {
        let whole = self.0.get(key).and_then(toml::Value::as_integer).and_then(|whole| whole.try_into().ok());
        whole.unwrap_or_else(|| panic!("the plan's `about` lacks the whole number {key}"))
    }
    /// The texts of that name.
    pub(crate) fn words(&self, key: &str) -> Vec<String> {
        let words = self.0.get(key).and_then(toml::Value::as_array).into_iter().flatten();
        words.filter_map(toml::Value::as_str).map(str::to_owned).collect()
    }
    /// The text of that name, or none.
    pub(crate) fn word(&self, key: &str) -> &str {
        self.0.get(key).and_then(toml::Value::as_str).unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    experiment: Vec<Entry>,
    scenarios: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    part: String,
    judge: String,
    /// It stands for one with every combination of these, which its judge is told, too.
    #[serde(default)]
    each: Each,
    #[serde(default)]
    about: About,
    /// What all its runs have in common.
    #[serde(default)]
    with: BTreeMap<String, Words>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    name: String,
    of: String,
    /// It stands for one with every combination of these.
    #[serde(default)]
    each: Each,
    #[serde(default)]
    with: BTreeMap<String, Words>,
}

/// Values of words.
type Each = BTreeMap<String, Vec<toml::Value>>;

/// Every combination, the values of the last name fastest.
fn combinations(each: &Each) -> Vec<toml::Table> {
    each.iter().fold(vec![toml::Table::new()], |all, (name, values)| {
        let with = |table: toml::Table| {
            let one = move |value: &toml::Value| {
                let mut table = table.clone();
                table.insert(name.clone(), value.clone());
                table
            };
            values.iter().map(one)
        };
        all.into_iter().flat_map(with).collect()
    })
}

/// What stands for a word of a scenario: always, or in the quick and in the full edition.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    Always(String),
    By([String; 2]),
}

impl Words {
    fn of(&self, edition: Edition) -> &str {
        match self {
            Self::Always(text) => text,
            Self::By(texts) => &texts[usize::from(edition == Edition::Full)],
        }
    }
}

/// The experiments of a plan.
///
/// # Panics
/// If the plan, which is a part of this program, is no plan.
pub(crate) fn read(plan: &str, edition: Edition) -> Vec<Planned> {
    let File { experiment, scenarios } = toml::from_str(plan).unwrap_or_else(|why| panic!("a study's plan: {why}"));
    let scenario = |of: &str| scenarios.get(of).unwrap_or_else(|| panic!("the plan has no scenario {of}"));
    let planned = |entry: Entry| {
        let one = |told: toml::Table| {
            let mut runs = Vec::new();
            for run in &entry.runs {
                for given in combinations(&run.each) {
                    let given = |name: &str| match given.get(name).or_else(|| told.get(name)) {
                        Some(toml::Value::String(text)) => text.clone(),
                        Some(value) => value.to_string(),
                        None => String::new(),
                    };
                    let word = |name: &str| match run.with.get(name).or_else(|| entry.with.get(name)) {
                        Some(words) => filled(words.of(edition), given),
                        None => given(name),
                    };
                    runs.push((filled(&run.name, given), filled(&repeated(scenario(&run.of), word), word)));
                }
            }
            let about = About(told.iter().chain(&entry.about.0).map(|(k, v)| (k.clone(), v.clone())).collect());
            Planned { part: entry.part.clone(), judge: entry.judge.clone(), about, runs }
        };
        combinations(&entry.each).into_iter().map(one).collect::<Vec<_>>()
    };
    experiment.into_iter().flat_map(planned).collect()
}

/// A text in which lines between `#each A B` and `#end` stand once for every number `$n` from A to B, with those before as `$m` and `$l`.
fn repeated(text: &str, word: impl Fn(&str) -> String) -> String {
    let (mut out, mut lines) = (String::new(), text.split_inclusive('\n'));
    while let Some(line) = lines.next() {
        let Some(bounds) = line.strip_prefix("#each ") else {
            out += line;
            continue;
        };
        let body: String = lines.by_ref().take_while(|line| line.trim_end() != "#end").collect();
        let bounds: Vec<i64> = filled(bounds, &word).split_whitespace().flat_map(str::parse).collect();
        let [from, to] = bounds[..] else { panic!("the plan repeats lines by {line}") };
        for n in from..=to {
            out += &filled(&body, |word| match word {
                "n" => n.to_string(),
                "m" => (n - 1).to_string(),
                "l" => (n - 2).to_string(),
                other => format!("${other}"),
            });
        }
    }
    out
}

/// A text with something in place of each `$word`.
fn filled(text: &str, word: impl Fn(&str) -> String) -> String {
    let mut pieces = text.split('$');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(piece.len());
        out += &word(&piece[..end]);
        out += &piece[end..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_experiment_stands_for_every_combination_and_lines_for_every_number() {
        let plan = "[[experiment]]\npart = \"p\"\njudge = \"j\"\neach = { hops = [1, 2], tenths = [3] }\nabout = { more = 4 }\n\
            with = { knobs = [\"quick $tenths\", \"full $tenths\"] }\n\
            runs = [{ name = \"run-$hops-$on\", of = \"chain\", each = { on = [true, false] } }]\n\
            [scenarios]\nchain = \"#each 1 $hops\\ng$m-g$n $on\\n#end\\n$knobs$none\\n\"\n";
        let planned = read(plan, Edition::Quick);
        let runs: Vec<(&str, &str)> =
            planned.iter().flat_map(|of| &of.runs).map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(
            runs,
            [
                ("run-1-true", "g0-g1 true\nquick 3\n"),
                ("run-1-false", "g0-g1 false\nquick 3\n"),
                ("run-2-true", "g0-g1 true\ng1-g2 true\nquick 3\n"),
                ("run-2-false", "g0-g1 false\ng1-g2 false\nquick 3\n"),
            ]
        );
        let about = &planned[1].about;
        assert_eq!([about.whole("hops"), about.whole("tenths"), about.whole("more")], [2, 3, 4]);
        assert!(read(plan, Edition::Full)[0].runs[0].1.ends_with("full 3\n"));
    }
}
