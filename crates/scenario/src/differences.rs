//! The keys by which two scenarios differ.

use crate::Scenario;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

impl Scenario {
    /// The keys whose values differ between the two, except seeds, in order: `air.forward.rate`. Keys that only one of them has are
    /// included.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let (ours, theirs) = (keys(self), keys(other));
        let all: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        all.into_iter().filter(|key| ours.get(*key) != theirs.get(*key)).map(|key| plain(key)).collect()
    }
}

/// A channel's key in the form that `--set` accepts.
fn plain(key: &str) -> String {
    key.strip_prefix("channels.").unwrap_or(key).to_owned()
}

/// Every value with its dotted key.
fn keys(scenario: &Scenario) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let table: Table = scenario.to_toml().parse().unwrap_or_default();
    table.iter().filter(|(key, _)| *key != "seed").for_each(|(key, value)| note(value, key, &mut found));
    found
}

fn note(value: &Value, key: &str, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => table.iter().for_each(|(word, value)| note(value, &format!("{key}.{word}"), found)),
        value => {
            found.insert(key.to_owned(), value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Scenario, Seed, Setting};
    use std::path::Path;

    #[test]
    fn differing_keys_are_named_and_seeds_are_not() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo.toml");
        let with = |settings: &[&str]| {
            let settings: Vec<Setting> = settings.iter().map(|s| Setting::read(s).expect("a setting")).collect();
            Scenario::load_with(&file, &settings).expect("the demo")
        };
        let demo = with(&[]);
        assert!(demo.differences(&Scenario { seed: Seed(9), ..demo.clone() }).is_empty());
        let other = with(&["air.forward.rate=\"5 Mbit/s\"", "duration=\"61 s\""]);
        // The demo's reverse direction equals its forward direction.
        assert_eq!(demo.differences(&other), ["air.forward.rate", "air.reverse.rate", "duration"]);
    }
}
