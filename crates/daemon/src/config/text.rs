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
    } else if let Some((what, _)) = message.strip_prefix("unknown ").and_then(|rest| rest.split_once(" `")) {
        let what = if what == "variant" { "word" } else { what }.into();
        Problem::UnknownWord { hint: hint(&possible), what, word: unknown }
    } else {
        let key = at.and_then(|at| key_at(DeTable::parse(text).ok()?.get_ref(), "", at));
        Problem::Impossible(in_words(&key.unwrap_or_else(|| "it".into()), message))
    };
    FileError { file: None, line: at.map(|at| line_of(text, at)), problem: Box::new(problem) }
}

/// What serde says of a value, in words of the file instead of the program's.
fn in_words(key: &str, message: String) -> String {
    if let Some(missing) = message.strip_prefix("missing field ") {
        return format!("{} is missing here", missing.replace('`', "'"));
    }
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let Some((got, expected)) = rest.and_then(|rest| rest.rsplit_once(", expected ")) else {
        return match message.as_str() {
            "invalid IPv4 address syntax" => format!("{key} must be an IPv4 address, such as \"192.0.2.1\""),
            _ => format!("{key}: {message}"),
        };
    };
    if let ("map", "a sequence", true) = (got, expected, LISTED.contains(&key)) {
        let below = key
            .rsplit_once('.')
            .map_or(String::new(), |(of, _)| format!(", below the [{of}] or [[{of}]] that it belongs to"));
        return format!("{key} is a list of tables, each with a title of its own: write [[{key}]]{below}, not [{key}]");
    }
    let text = got.strip_prefix("string ").map(|text| text.trim_matches('"'));
    if let (Some(text), "a sequence") = (text, expected) {
        return format!("{key} must be a list, such as [\"{text}\"], not the text \"{text}\"");
    }
    let number = text.map(|text| text.chars().take_while(char::is_ascii_digit).collect::<String>());
    let remedy = match number {
        Some(number) if !number.is_empty() && expected.starts_with(['u', 'i']) => {
            format!(": write {number}, without quotes and unit")
        }
        _ => String::new(),
    };
    let got = match (got.split_once('`'), got) {
        (Some((_, value)), _) => value.trim_end_matches('`').to_owned(),
        (None, "sequence") => "a list".into(),
        (None, "map") => "a table".into(),
        (None, other) => other.replacen("string ", "the text ", 1),
    };
    let expected = match expected {
        "a sequence" => "a list, such as [\"a\", \"b\"]",
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number from 0",
        other => other,
    };
    format!("{key} must be {expected}, not {got}{remedy}")
}

/// Tables of which a file has several.
const LISTED: [&str; 6] = ["peer", "peer.lane", "forward", "edge", "proxy.side", "shaper"];

/// The line of a key in the words of errors: `tun.mtu`, `serial: rate`, `peer 'shore': routes`; of its table if it is not there.
pub(super) fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let (name, key) = match key.split_once(" '") {
        Some((list, rest)) => {
            let (name, rest) = rest.split_once('\'')?;
            (Some(name), format!("{list}{rest}"))
        }
        None => (None, key.to_owned()),
    };
    let mut table = root.get_ref();
    let mut at = None;
    for word in key.replace(": ", ".").split('.') {
        let Some((place, value)) = table.get_key_value(word) else { break };
        at = Some(place.span().start);
        let tables: Vec<(&DeTable<'_>, usize)> = match value.get_ref() {
            DeValue::Table(inner) => vec![(inner, place.span().start)],
            DeValue::Array(list) => {
                list.iter().filter_map(|one| Some((one.get_ref().as_table()?, one.span().start))).collect()
            }
            _ => break,
        };
        let is_it = |table: &DeTable<'_>| {
            name.is_none_or(|name| table.get("name").is_some_and(|value| value.get_ref().as_str() == Some(name)))
        };
        let Some((inner, start)) = tables.into_iter().find(|(table, _)| is_it(table)) else { break };
        (table, at) = (inner, Some(start));
    }
    at.map(|at| line_of(text, at))
}

/// The path of the key whose value stands at that octet.
fn key_at(table: &DeTable<'_>, path: &str, at: usize) -> Option<String> {
    let (key, value) = table.iter().find(|(_, value)| holds(value, at))?;
    let below = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
    let inner = match value.get_ref() {
        DeValue::Table(inner) => key_at(inner, &below, at),
        DeValue::Array(list) => {
            list.iter().filter_map(|one| one.get_ref().as_table()).find_map(|inner| key_at(inner, &below, at))
        }
        _ => None,
    };
    inner.or(Some(below))
}

/// Whether the octet is a value's, or one of what a table with a title of its own holds, whose place is its title.
fn holds(value: &Spanned<DeValue<'_>>, at: usize) -> bool {
    let of = |table: &DeTable<'_>| table.iter().any(|(_, value)| holds(value, at));
    value.span().contains(&at)
        || match value.get_ref() {
            DeValue::Table(inner) => of(inner),
            DeValue::Array(list) => {
                list.iter().any(|one| one.span().contains(&at) || one.get_ref().as_table().is_some_and(of))
            }
            _ => false,
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "what is refused is never read")]
    struct Top {
        list: Option<Vec<String>>,
        part: Option<Part>,
        one: Option<Vec<Part>>,
        peer: Option<Vec<Part>>,
        at: Option<std::net::Ipv4Addr>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "what is refused is never read")]
    struct Part {
        mtu: u16,
        is: Option<bool>,
        name: Option<String>,
    }

    #[test]
    fn the_line_of_a_key_is_found_by_the_words_of_errors() {
        let text = "[tun]\nmtu = 5\n[[peer]]\nname = \"a\"\n[[peer]]\nname = \"b\"\nroutes = []\n[serial]\nrate = 1\n";
        for (key, line) in [
            ("tun.mtu", Some(2)),
            ("tun.name", Some(1)),
            ("serial: rate", Some(9)),
            ("peer 'b': routes", Some(7)),
            ("peer 'a': routes", Some(3)),
            ("peer 'b': lane", Some(5)),
            ("nothing.of.it", None),
        ] {
            assert_eq!(line_of_key(text, key), line, "{key}");
        }
    }

    #[test]
    fn refusals_name_file_line_and_key_and_say_in_words_what_is_allowed() {
        for (text, says) in [
            ("list = \"x\"", "f, line 1: list must be a list, such as [\"x\"], not the text \"x\""),
            ("list = 3", "f, line 1: list must be a list, such as [\"a\", \"b\"], not 3"),
            (
                "[peer]\nmtu = 1",
                "f, line 1: peer is a list of tables, each with a title of its own: write [[peer]], not [peer]",
            ),
            ("at = \"10.0.0.256\"", "f, line 1: at must be an IPv4 address, such as \"192.0.2.1\""),
            ("\nlist = [\"a\", 3]", "f, line 2: list must be a text in quotes, not 3"),
            (
                "[part]\nmtu = \"1400 B\"",
                "f, line 2: part.mtu must be a whole number from 0 to 65535, not the text \"1400 B\": write 1400, without quotes and unit",
            ),
            ("[part]\nmtu = 70000", "f, line 2: part.mtu must be a whole number from 0 to 65535, not 70000"),
            ("[part]\nmtu = 1\nis = \"yes\"", "f, line 3: part.is must be true or false, not the text \"yes\""),
            ("[part]\nmtu = 1\nname = true", "f, line 3: part.name must be a text in quotes, not true"),
            (
                "[[one]]\nmtu = 1\n[[one]]\nmtu = [1]",
                "f, line 4: one.mtu must be a whole number from 0 to 65535, not a list",
            ),
            ("[part]\nname = \"x\"", "f, line 1: 'mtu' is missing here"),
        ] {
            let said = Document::parse(text, "f").and_then(Document::rest::<Top>).map(drop).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{says};")), "{text}: {said}");
        }
    }
}
