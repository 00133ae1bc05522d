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
    #[serde(default)]
    with: BTreeMap<String, Words>,
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
    let planned = |entry: Entry| {
        let text = |run: Run| {
            let text = scenarios.get(&run.of).unwrap_or_else(|| panic!("the plan has no scenario {}", run.of));
            let word = |name: &str| run.with.get(name).or_else(|| entry.with.get(name)).map_or("", |w| w.of(edition));
            (run.name, filled(text, word))
        };
        Planned {
            part: entry.part,
            judge: entry.judge,
            about: entry.about,
            runs: entry.runs.into_iter().map(text).collect(),
        }
    };
    experiment.into_iter().map(planned).collect()
}

/// A text with something in place of each `$word`.
fn filled<'a>(text: &str, word: impl Fn(&str) -> &'a str) -> String {
    let mut pieces = text.split('$');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(piece.len());
        out += word(&piece[..end]);
        out += &piece[end..];
    }
    out
}
