//! A file's text: declared settings are read by their declarations, all other keys by serde, and both refuse with the line and a remedy.

use super::ConfigError;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};
use wavelane_settings::{File, FileError, Group, Problem, Table, hint, line_of};

/// A file's document.
pub(crate) struct Document<'a> {
    text: &'a str,
    place: &'a str,
    root: Spanned<DeTable<'a>>,
    /// Tables of which settings were read, with their keys.
    known: Vec<(String, Vec<String>)>,
}

impl<'a> Document<'a> {
    /// Reads a text; `place` names it in messages.
    pub(crate) fn parse(text: &'a str, place: &'a str) -> Result<Self, ConfigError> {
        let root = DeTable::parse(text).map_err(|e| refused(place, &said_by_serde(text, &[], &e)))?;
        Ok(Self { text, place, root, known: Vec::new() })
    }

    /// The settings of a table, or of each of its name, which leave the document.
    pub(crate) fn take<S: Clone + Default>(&mut self, name: &str, group: &Group<S>) -> Result<Vec<S>, ConfigError> {
        let keys: Vec<String> = group.keys(File::Daemon).iter().map(ToString::to_string).collect();
        let mut all = Vec::new();
        for table in tables(self.root.get_mut(), name) {
            let read = group.read(File::Daemon, &Table::at(self.text, name, table));
            all.push(read.map_err(|error| refused(self.place, &error))?);
            for key in &keys {
                table.remove(key.as_str());
            }
        }
        self.known.push((name.to_owned(), keys));
        Ok(all)
    }

    /// All that was not taken.
    pub(crate) fn rest<T: DeserializeOwned>(self) -> Result<T, ConfigError> {
        let Self { text, place, root, known } = self;
        T::deserialize(Deserializer::from(root)).map_err(|e| refused(place, &said_by_serde(text, &known, &e)))
    }
}

/// The tables of a name such as `peer.lane`, in the file's order.
fn tables<'t, 'a>(root: &'t mut DeTable<'a>, name: &str) -> Vec<&'t mut DeTable<'a>> {
    name.split('.').fold(vec![root], |tables, word| {
        let found = tables.into_iter().filter_map(|table| table.get_mut(word));
        found.flat_map(|value| each(value.get_mut())).collect()
    })
}

/// The table, or those of a list.
fn each<'t, 'a>(value: &'t mut DeValue<'a>) -> Vec<&'t mut DeTable<'a>> {
    match value {
        DeValue::Array(list) => list.iter_mut().filter_map(|one| table_of(one.get_mut())).collect(),
        other => table_of(other).into_iter().collect(),
    }
}

fn table_of<'t, 'a>(value: &'t mut DeValue<'a>) -> Option<&'t mut DeTable<'a>> {
    match value {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

fn refused(place: &str, error: &FileError) -> ConfigError {
    let place = error.line.map_or_else(|| place.to_owned(), |line| format!("{place}, line {line}"));
    ConfigError::Malformed { place, what: error.problem.to_string() }
}

/// An error of serde's. Where it is about a word, its message holds those that are possible, each between backticks.
fn said_by_serde(text: &str, known: &[(String, Vec<String>)], error: &toml::de::Error) -> FileError {
    let message = error.message().replace('\n', ", ");
    let at = error.span().map(|span| span.start);
    let mut words = message.split('`').skip(1).step_by(2).map(str::to_owned);
    let unknown = words.next().unwrap_or_default();
    let mut possible: Vec<String> = words.collect();
    let hint = |possible: &[String]| hint(&unknown, possible.iter().map(String::as_str));
    let problem = if message.starts_with("unknown field") {
        let document = DeTable::parse(text).ok();
        let table = document.zip(at).and_then(|(root, at)| table_at(root.get_ref(), "", at)).unwrap_or_default();
        let taken = known.iter().filter(|(name, _)| *name == table).flat_map(|(_, keys)| keys);
        possible.extend(taken.cloned());
        let title = if table.is_empty() { "the top level".into() } else { format!("[{table}]") };
        Problem::UnknownKey { hint: hint(&possible), key: unknown, table: title }
    } else if message.starts_with("unknown variant") {
        Problem::UnknownWord { hint: hint(&possible), what: "word".into(), word: unknown }
    } else {
        Problem::Impossible(message)
    };
    FileError { file: None, line: at.map(|at| line_of(text, at)), problem: Box::new(problem) }
}

/// The path of the table in which a key stands at that octet.
fn table_at(table: &DeTable<'_>, path: &str, at: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        if key.span().start == at {
            return Some(path.to_owned());
        }
        let below = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        match value.get_ref() {
            DeValue::Table(inner) => table_at(inner, &below, at),
            DeValue::Array(list) => {
                list.iter().filter_map(|one| one.get_ref().as_table()).find_map(|inner| table_at(inner, &below, at))
            }
            _ => None,
        }
    })
}
