//! A file's text, and what is said of it with the line.

use super::ConfigError;
use toml::de::{DeTable, DeValue};
use wavelane_settings::{FileError, Lines, Problem, Table};

/// Reads a text by its top level; `place` names it in messages.
pub(crate) fn with_root<T>(
    text: &str,
    place: &str,
    read: impl FnOnce(&Table<'_>) -> Result<T, FileError>,
) -> Result<T, ConfigError> {
    let lines = Lines::of(text);
    let root = DeTable::parse(text).map_err(|e| {
        let line = e.span().map(|span| lines.at(span.start));
        FileError { file: None, line, problem: Box::new(Problem::Impossible(e.message().replace('\n', ", "))) }
    });
    root.and_then(|root| read(&Table::root(&lines, root.get_ref()))).map_err(|error| {
        let place = error.line.map_or_else(|| place.to_owned(), |line| format!("{place}, line {line}"));
        ConfigError::Malformed { place, what: error.problem.to_string() }
    })
}

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
        table = inner;
        at = Some(start);
    }
    at.map(|at| Lines::of(text).at(at))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use wavelane_settings::{INTERCEPT, TUN};

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
            (
                "[intercept]\ninterfaces = \"x\"",
                "f, line 2: intercept.interfaces must be a list of interfaces, such as [\"x\"], not a text",
            ),
            (
                "[intercept]\ninterfaces = 3",
                "f, line 2: intercept.interfaces must be a list of interfaces, such as [\"eth0\"], not 3",
            ),
            (
                "[intercept]\ninterfaces = [\"a\", 3]",
                "f, line 2: intercept.interfaces must be a text in quotes, such as \"eth0\", not 3",
            ),
            (
                "[peer]\nname = 1",
                "f, line 1: peer is a list of tables, each with a title of its own: write [[peer]], not [peer]",
            ),
            ("[tun]\nmtu = \"1400 B\"", "f, line 2: tun.mtu must be a whole number from 0, such as 1400, not a text"),
            ("[tun]\nmtu = 70000", "f, line 2: tun.mtu = 70000 must lie between 1280 and 9000"),
            ("[tun]\noffload = \"yes\"", "f, line 2: tun.offload must be true or false, such as true, not a text"),
            ("[tun]\nname = true", "f, line 2: tun.name must be a text in quotes, such as \"eth0\", not true"),
            ("[[tun]]\nmtu = 1", "f, line 1: tun must be a table, such as [tun], not a list"),
            ("tun", "f, line 1: "),
        ] {
            let read = |root: &Table<'_>| {
                root.parts("peer")?;
                root.part("intercept", &INTERCEPT)?;
                root.part("tun", &TUN)
            };
            let said = with_root(text, "f", read).map(drop).unwrap_err().to_string();
            assert!(said.starts_with(says), "{text}: {said}");
        }
    }
}
