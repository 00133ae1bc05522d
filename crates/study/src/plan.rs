//! A study as a file: its plan says which scenarios are run and by which word what they gave is judged. `gettys/plan.toml` is
//! an example; what is left in Rust is what makes rows.

use crate::cells::{Aim, Head};
use crate::document::Edition;
use crate::experiments::{Experiment, Judge, LAB};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a judge is told: the words of its experiment, as they stand in the plan.
#[derive(Clone, Debug)]
pub(crate) struct About(toml::Table);

impl About {
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
    /// The number of that name, if it is given.
    pub(crate) fn given(&self, key: &str) -> Option<f64> {
        match self.0.get(key)? {
            toml::Value::Integer(whole) => Some(*whole as f64),
            toml::Value::String(text) => text.parse().ok(),
            value => value.as_float(),
        }
    }
    /// That number.
    ///
    /// # Panics
    /// If the plan does not give it.
    pub(crate) fn number(&self, key: &str) -> f64 {
        self.given(key).unwrap_or_else(|| panic!("the plan lacks the number {key}"))
    }
    /// The whole number of that name.
    ///
    /// # Panics
    /// If the plan does not give it.
    pub(crate) fn whole(&self, key: &str) -> u32 {
        self.number(key) as u32
    }
    /// What stands there, as a case of a row has it.
    pub(crate) fn json(&self, key: &str) -> serde_json::Value {
        serde_json::to_value(&self.0[key]).expect("a value of a plan")
    }
    /// The head of its rows: words `id` and `stack`, and `case` with the words of the case, of which rows call some by the name after a `=`.
    pub(crate) fn head(&self) -> Head {
        let words = self.word("case").split_whitespace().map(|word| word.split_once('=').unwrap_or((word, word)));
        let case = words.filter(|(word, _)| self.has(word)).map(|(word, name)| (name, self.json(word)));
        let backend = if self.word("part") == LAB { LAB } else { "sim" };
        Head::new(self.word("id"), backend, &case.collect::<Vec<_>>(), &word(&[&self.0], "stack"))
    }
    /// The aim of that name, if it is given.
    ///
    /// # Panics
    /// If the plan gives something else there.
    pub(crate) fn aim(&self, key: &str) -> Option<Aim> {
        self.has(key).then(|| Aim::of(self.word(key)).unwrap_or_else(|| panic!("the plan's {key} is no aim")))
    }
    /// The numbers of that name.
    pub(crate) fn list(&self, key: &str) -> Vec<f64> {
        let numbers = self.0.get(key).and_then(toml::Value::as_array).into_iter().flatten();
        numbers.filter_map(|of| of.as_float().or_else(|| Some(of.as_integer()? as f64))).collect()
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
    /// Of an experiment that says nothing else, in the quick and in the full edition.
    seeds: [u32; 2],
    /// What judges are told, and what words stand for, where nothing else is said.
    #[serde(default)]
    about: toml::Table,
    #[serde(default)]
    words: With,
    experiment: Vec<Entry>,
    scenarios: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    part: String,
    #[serde(default)]
    judge: String,
    /// None: it is not of that edition. A case may have others, in a word of that name.
    seeds: Option<[u32; 2]>,
    /// It stands for one with each of these tables ...
    #[serde(default)]
    cases: Vec<toml::Table>,
    /// ... and with every combination of these.
    #[serde(default)]
    each: Each,
    /// In the quick edition these stand in the place of those of that name.
    #[serde(default)]
    quick: Each,
    #[serde(default)]
    about: toml::Table,
    /// What all its runs have in common.
    #[serde(default)]
    with: With,
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
    with: With,
    /// There is none where this word is empty.
    needs: Option<String>,
}

/// Values of words; a table has values of several, whatever it stands under.
type Each = BTreeMap<String, Vec<toml::Value>>;
/// What stands for words.
type With = BTreeMap<String, Words>;

/// Every combination, the values of the last name fastest.
fn combinations(each: &Each) -> Vec<toml::Table> {
    each.iter().fold(vec![toml::Table::new()], |all, (name, values)| {
        let with = |table: toml::Table| {
            let one = move |value: &toml::Value| {
                let mut table = table.clone();
                match value {
                    toml::Value::Table(several) => table.extend(several.clone()),
                    value => drop(table.insert(name.clone(), value.clone())),
                }
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

/// The words of an edition.
fn table(with: &With, edition: Edition) -> toml::Table {
    let of = |words: &Words| match words {
        Words::Always(text) => text.clone(),
        Words::By(texts) => texts[usize::from(edition == Edition::Full)].clone(),
    };
    with.iter().map(|(name, words)| (name.clone(), of(words).into())).collect()
}

/// What a word stands for in the first table that has it; words in it stand for something, too.
fn word(tables: &[&toml::Table], name: &str) -> String {
    match tables.iter().find_map(|table| table.get(name)) {
        Some(toml::Value::String(text)) => filled(text, |name| word(tables, name)),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// The experiments of a plan, in one of `parts` each; `judge` makes their judges.
///
/// # Panics
/// If the plan, which is a part of this program, is no plan.
pub(crate) fn experiments<S>(
    plan: &str,
    edition: Edition,
    parts: &[&'static str],
    judge: impl Fn(&str, About) -> Judge<S>,
) -> Vec<Experiment<(String, String), S>> {
    let file: File = toml::from_str(plan).unwrap_or_else(|why| panic!("a study's plan: {why}"));
    let scenario = |of: &str| file.scenarios.get(of).unwrap_or_else(|| panic!("the plan has no scenario {of}"));
    let usual = table(&file.words, edition);
    let mut all = Vec::new();
    for entry in &file.experiment {
        let one = [toml::Table::new()];
        let cases = if entry.cases.is_empty() { &one[..] } else { &entry.cases };
        let mut each = entry.each.clone();
        each.extend(entry.quick.clone().into_iter().filter(|_| edition == Edition::Quick));
        let cases = cases.iter().flat_map(|case| combinations(&each).into_iter().map(move |each| (case, each)));
        for (case, each) in cases {
            let mut told = file.about.clone();
            told.extend(entry.about.clone());
            told.extend(table(&entry.with, edition).into_iter().chain(each).chain(case.clone()));
            let own = told.get("seeds").map(|of| of.clone().try_into().expect("seeds in both editions"));
            let seeds: [u32; 2] = own.or(entry.seeds).unwrap_or(file.seeds);
            let seeds = seeds[usize::from(edition == Edition::Full)];
            if seeds == 0 {
                continue;
            }
            let part = filled(&entry.part, |name| word(&[&told], name));
            let part = parts.iter().find(|of| **of == part).expect("a part of the study");
            told.insert("seeds".to_owned(), i64::from(seeds).into());
            told.insert("part".to_owned(), (*part).into());
            let mut runs = Vec::new();
            for run in &entry.runs {
                let own = table(&run.with, edition);
                for given in combinations(&run.each) {
                    let word = |name: &str| word(&[&own, &given, &told, &usual], name);
                    if run.needs.as_ref().is_none_or(|name| !word(name).is_empty()) {
                        runs.push((filled(&run.name, word), filled(&repeated(scenario(&run.of), word), word)));
                    }
                }
            }
            all.push(Experiment { part, seeds, runs, judge: judge(&entry.judge, About(told)) });
        }
    }
    all
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
        let plan = "seeds = [3, 10]\n[words]\nshown = \"$knobs\"\n[[experiment]]\npart = \"p\"\njudge = \"j\"\n\
            cases = [{ case = \"a\" }, { case = \"b\" }]\neach = { hops = [1, 2], tenths = [3] }\nabout = { more = 4 }\n\
            with = { knobs = [\"quick $tenths\", \"full $tenths\"] }\n\
            runs = [{ name = \"$case-$hops-$on\", of = \"chain\", each = { on = [true, false] } }, { name = \"no\", of = \"chain\", needs = \"none\" }]\n\
            [[experiment]]\npart = \"p\"\njudge = \"j\"\nseeds = [0, 1]\nruns = []\n\
            [scenarios]\nchain = \"#each 1 $hops\\ng$m-g$n $on\\n#end\\n$shown$none\\n\"\n";
        let read = |edition| {
            experiments(plan, edition, &["p"], |word, about| {
                assert_eq!((word, about.given("none")), ("j", None));
                Box::new(move |_: &[()]| {
                    vec![
                        crate::Row::new(about.word("case"), "", "", "", "")
                            .bound_by(about.number("hops") + about.number("tenths")),
                    ]
                })
            })
        };
        let planned = read(Edition::Quick);
        let runs: Vec<(&str, &str)> =
            planned.iter().flat_map(|of| &of.runs).map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(
            runs[..4],
            [
                ("a-1-true", "g0-g1 true\nquick 3\n"),
                ("a-1-false", "g0-g1 false\nquick 3\n"),
                ("a-2-true", "g0-g1 true\ng1-g2 true\nquick 3\n"),
                ("a-2-false", "g0-g1 false\ng1-g2 false\nquick 3\n"),
            ]
        );
        let rows = (planned[3].judge)(&[]);
        assert_eq!((planned.len(), planned[0].seeds, rows[0].id.as_str(), rows[0].bound), (4, 3, "b", Some(5.0)));
        assert!(read(Edition::Full)[0].runs[0].1.ends_with("full 3\n"));
    }
}
