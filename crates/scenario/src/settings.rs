//! `--set KEY=VALUE`: values that replace a scenario file's own.

use crate::{Problem, ScenarioError, hint};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum number of settings of one run.
pub const SETTINGS_MAX: usize = 64;

/// Tables with entries named by the file, whose prefix a key may omit.
const NAMED: [&str; 3] = ["channels", "flows", "checks"];

/// One value that replaces the file's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// A key's full path; `channels.`, `flows.` or `checks.` may be omitted, as in `air.forward.rate`.
    pub key: String,
    /// A TOML value; anything else is taken as text, so that `5 Mbit/s` needs no quotes. Where a text is wanted a number is one, and where a
    /// list is wanted a single value is a list of one.
    pub value: String,
}

impl Setting {
    /// Reads `KEY=VALUE`.
    pub fn read(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' has no '=': write KEY=VALUE, such as air.forward.rate=\"5 Mbit/s\""))?;
        let (key, value) = (key.trim(), value.trim());
        if key.split('.').any(|word| word.is_empty()) {
            return Err(format!("'{key}' is no key: write one such as air.forward.rate"));
        }
        if value.is_empty() {
            return Err(format!("{key} has no value: write {key}=VALUE, with the value as the file would have it"));
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

/// The named table of a key, if given, and the rest.
fn parted(key: &str) -> (Option<&str>, &str) {
    let rest = |table: &&'static str| Some((Some(*table), key.strip_prefix(*table)?.strip_prefix('.')?));
    NAMED.iter().find_map(rest).unwrap_or((None, key))
}

/// Both keys without their named tables, if those do not differ: `channels.x.rate` is not `flows.x.rate`, and `x.rate` may be either.
fn comparable<'a>(one: &'a str, other: &'a str) -> Option<(&'a str, &'a str)> {
    let ((table, one), (other_table, other)) = (parted(one), parted(other));
    (table == other_table || table.is_none() || other_table.is_none()).then_some((one, other))
}

/// Whether two keys are the same, where one may omit its named table.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    comparable(one, other).is_some_and(|(one, other)| one == other)
}

/// Whether `key` is `table` or is in it: setting `table` later replaces the value set for `key`.
pub(crate) fn lies_in(key: &str, table: &str) -> bool {
    let rest = comparable(key, table).and_then(|(key, table)| key.strip_prefix(table));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Rejects settings of which a later one replaces an earlier one.
pub(crate) fn refuse_twice(settings: &[Setting]) -> Result<(), Problem> {
    for (number, later) in settings.iter().enumerate() {
        if let Some(earlier) = settings[..number].iter().find(|earlier| lies_in(&earlier.key, &later.key)) {
            let why = match is_same(&earlier.key, &later.key) {
                true => format!("{} is set twice: set it once", later.key),
                false => format!("{} takes the place of {}, set before it: set it first", later.key, earlier.key),
            };
            return Err(Problem::Impossible(why));
        }
    }
    Ok(())
}

/// Marks what a setting gave by an empty span, which nothing in a file has.
fn spanned<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

fn child<'a, 't>(table: &'a DeTable<'t>, key: &str) -> Option<&'a DeTable<'t>> {
    table.get(key)?.get_ref().as_table()
}

/// Entries created by settings so far that the file does not have.
pub(crate) struct Made {
    /// The next key's place, after the file's own.
    place: usize,
    /// New named tables, each with a similar existing name that may have been meant.
    tables: Vec<(String, Option<String>)>,
}

impl Made {
    /// The empty state, for a text of this length.
    pub(crate) fn new(length: usize) -> Self {
        Self { place: length, tables: Vec::new() }
    }

    /// A key placed after all others: order matters among channels and flows.
    fn key<'t>(&mut self, word: &str) -> Spanned<Cow<'t, str>> {
        self.place += 1;
        Spanned::new(self.place..self.place, Cow::Owned(word.to_owned()))
    }

    /// Records a new named table next to those of `beside`.
    fn table(&mut self, path: String, word: &str, beside: &DeTable<'_>) {
        let known: Vec<String> = beside.keys().map(|key| key.get_ref().to_string()).collect();
        let near = hint(word, known.iter().map(String::as_str));
        self.tables.push((path, near.starts_with("did you mean").then_some(near)));
    }

    /// Adds to an error about a new table that its name may be mistyped.
    pub(crate) fn explain(&self, error: ScenarioError) -> ScenarioError {
        let words = error.problem.to_string();
        let about = |path: &str| words.contains(&format!("[{path}")) || words.contains(&format!("{path}."));
        let Some((path, near)) = self.tables.iter().find(|(path, _)| about(path)) else { return error };
        let near = near.as_ref().map(|near| format!("; {near}")).unwrap_or_default();
        let why = format!("{words} (--set makes [{path}], which the file does not have{near})");
        ScenarioError { problem: Box::new(Problem::Impossible(why)), ..error }
    }
}

/// The named table in which `word` begins; `None` if it is a top-level key.
fn section(root: &DeTable<'_>, top: &[&str], key: &str, word: &str) -> Result<Option<&'static str>, Problem> {
    if top.contains(&word) {
        return Ok(None);
    }
    let holding: Vec<&'static str> =
        NAMED.into_iter().filter(|table| child(root, table).is_some_and(|t| t.contains_key(word))).collect();
    match holding.as_slice() {
        [one] => Ok(Some(one)),
        [] => {
            let named = NAMED.iter().filter_map(|table| child(root, table)).flat_map(|t| t.keys());
            let known: Vec<String> =
                named.map(|k| k.get_ref().to_string()).chain(top.iter().map(|t| (*t).to_owned())).collect();
            let mut hint = hint(word, known.iter().map(String::as_str));
            if !hint.starts_with("did you mean") {
                hint = format!("{hint}; a new one begins with its table, such as flows.{key}");
            }
            Err(Problem::UnknownWord { what: "beginning of a key".into(), word: word.to_owned(), hint })
        }
        several => {
            let choices: Vec<String> = several.iter().map(|table| format!("{table}.{key}")).collect();
            Err(Problem::Impossible(format!("{key} could mean any of several: write {}", choices.join(" or "))))
        }
    }
}

/// The value as TOML, or as text where it is not TOML or replaces a text.
fn value<'t>(text: &'t str, old: Option<&DeValue<'t>>) -> DeValue<'t> {
    let plain = || DeValue::String(Cow::Borrowed(text));
    match DeValue::parse(text) {
        Ok(new) => {
            let new = new.into_inner();
            let number = new.is_integer() || new.is_float();
            if number && old.is_some_and(DeValue::is_str) { plain() } else { new }
        }
        Err(_) => plain(),
    }
}

/// Inserts `setting` into the document, whose top-level keys are `top`. Missing tables on its path are created.
pub(crate) fn apply<'t>(
    root: &mut DeTable<'t>,
    top: &[&str],
    setting: &'t Setting,
    made: &mut Made,
) -> Result<(), Problem> {
    let key = setting.key.as_str();
    let first = key.split('.').next().unwrap_or_default();
    let within = section(root, top, key, first)?;
    let words: Vec<&str> = within.into_iter().chain(key.split('.')).collect();
    let Some((last, tables)) = words.split_last() else { return Ok(()) };
    let mut table = root;
    for (depth, word) in tables.iter().enumerate() {
        // The other direction becomes independent.
        if *word == "reverse" && table.get("reverse").is_some_and(|v| v.get_ref().as_str() == Some("same")) {
            let own = table.get("forward").cloned().unwrap_or_else(|| spanned(DeValue::Table(DeTable::new())));
            table.insert(spanned(Cow::Owned((*word).to_owned())), own);
        }
        let place = words[..=depth].join(".");
        if !table.contains_key(*word) {
            if depth == 1 {
                made.table(place.clone(), word, table);
            }
            table.insert(made.key(word), spanned(DeValue::Table(DeTable::new())));
        }
        table = match table.get_mut(*word).map(Spanned::get_mut) {
            Some(DeValue::Table(inner)) => inner,
            _ => return Err(Problem::Impossible(format!("{place} is no table, so {key} cannot be set"))),
        };
    }
    let new = spanned(value(&setting.value, table.get(*last).map(Spanned::get_ref)));
    match table.get_mut(*last) {
        Some(old) => *old = new,
        None => drop(table.insert(made.key(last), new)),
    }
    Ok(())
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
