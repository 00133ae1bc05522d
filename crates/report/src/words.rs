//! Readable forms of a scenario's keys and values, for legends, axes and column heads.

/// Tables of a scenario whose names add nothing to the key.
const TABLES: [&str; 4] = ["channels", "flows", "checks", "gateways"];

/// A key in readable form: `channels.air.forward.rate` is `air forward rate`.
pub(crate) fn key_words(key: &str) -> String {
    let mut words: Vec<&str> =
        key.split(['.', '-', '_']).map(|word| word.trim_matches(['"', '\''])).filter(|word| !word.is_empty()).collect();
    if words.len() > 1 && TABLES.contains(&words[0]) {
        words.remove(0);
    }
    words.join(" ")
}

/// A value without TOML syntax: `"5 Mbit/s"` is `5 Mbit/s`, `{ kind = "random", p = "1/20" }` is `random p 1/20`.
pub(crate) fn value_words(value: &str) -> String {
    let inner = value.trim().strip_prefix('{').and_then(|v| v.strip_suffix('}')).unwrap_or(value);
    let plain = inner.replace(['"', '\'', '{', '}'], "");
    let words: Vec<&str> = plain.split([' ', '=', ',']).filter(|word| !matches!(*word, "" | "kind")).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_words() {
        for (key, words) in [
            ("air.forward.rate", "air forward rate"),
            ("channels.air.forward.rate", "air forward rate"),
            ("page.size", "page size"),
            ("duration", "duration"),
            ("flows", "flows"),
            ("gateways.near.micro-blocks", "near micro blocks"),
        ] {
            assert_eq!(key_words(key), words);
        }
        for (value, words) in [
            ("\"5 Mbit/s\"", "5 Mbit/s"),
            ("5 Mbit/s", "5 Mbit/s"),
            ("{ kind = \"random\", p = \"1/20\" }", "random p 1/20"),
            ("{ kind = \"none\" }", "none"),
            ("{kind=\"random\",p=\"1/20\"}", "random p 1/20"),
            ("true", "true"),
            ("[\"tcp-cubic\", \"wavelane\"]", "[tcp-cubic wavelane]"),
        ] {
            assert_eq!(value_words(value), words);
        }
    }
}
