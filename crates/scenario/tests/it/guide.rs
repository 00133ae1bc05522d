//! Holds `docs/guide/scenarios.md` and `records.md` to the parser: every example is accepted, every list is complete.

use std::path::{Path, PathBuf};
use toml::{Table, Value};
use wavelane_scenario::{APPS, METRICS, SERIAL_KEYS, SERIAL_WAY_KEYS, STACKS, Scenario, WIFI_KEYS};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join("docs/guide").join(name)).unwrap()
}

/// The demo, into which the guide's fragments are put.
fn demo() -> Table {
    toml::from_str(&std::fs::read_to_string(root().join("scenarios/demo.toml")).unwrap()).unwrap()
}

fn parse(scenario: &Table) -> Result<Scenario, String> {
    Scenario::parse(&toml::to_string(scenario).unwrap(), &root()).map_err(|e| e.to_string())
}

/// Puts `from` over `into`, table by table.
fn lay(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) if !new.contains_key("kind") => lay(old, new),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

/// The blocks of a page fenced as `language`.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// The page's pieces of inline code.
fn inline(page: &str) -> Vec<String> {
    let outside = page.split("```").step_by(2).collect::<String>();
    outside.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_toml_block_is_part_of_a_scenario_that_loads() {
    let blocks = blocks(&page("scenarios.md"), "toml");
    assert!(blocks.len() >= 2, "the guide shows examples");
    for block in blocks {
        let mut scenario = demo();
        lay(&mut scenario, toml::from_str(&block).unwrap());
        parse(&scenario).unwrap_or_else(|why| panic!("{why}\nin the guide's\n{block}"));
    }
}

/// Values such as `{ kind = "random", p = "1/20" }` must be what at least one parameter of a direction takes.
#[test]
fn every_inline_value_is_one_that_some_parameter_takes() {
    let page = page("scenarios.md");
    let values: Vec<Table> = inline(&page)
        .iter()
        .filter(|code| (code.starts_with('{') || code.starts_with('[')) && code.contains(" = "))
        .map(|code| toml::from_str(&format!("value = {code}")).unwrap_or_else(|e| panic!("{code}: {e}")))
        .collect();
    assert!(values.len() >= 5, "{values:?}");
    for value in values {
        let value = &value["value"];
        // A recording needs its file, which the guide cannot have.
        if value.get("kind").and_then(Value::as_str) == Some("trace") {
            continue;
        }
        let tried = ["loss", "queue", "reorder", "outages", "policer"].map(|parameter| {
            let mut scenario = demo();
            let forward = scenario["channels"]["air"]["forward"].as_table_mut().unwrap();
            forward.insert(parameter.into(), value.clone());
            parse(&scenario)
        });
        assert!(tried.iter().any(Result::is_ok), "{value}: {tried:?}");
    }
}

#[test]
fn every_word_that_a_file_may_use_is_in_the_guide() {
    let page = page("scenarios.md");
    let words: Vec<String> = inline(&page).iter().flat_map(|c| c.split_whitespace().map(str::to_owned)).collect();
    let has = |word: &str| words.iter().any(|w| w == word);
    const OPTIONS: [&str; 4] = ["+rts", "+split", "+snoop", "+mirror"];
    assert!(OPTIONS.iter().all(|option| has(&format!("tcp-*{option}"))));
    for (stack, _) in STACKS.iter().filter(|(word, _)| OPTIONS.iter().all(|option| !word.ends_with(option))) {
        assert!(has(stack), "stack {stack}");
    }
    for (metric, _) in METRICS {
        assert!(has(metric), "metric {metric}");
    }
    for parameter in wavelane_scenario::DIRECTION_KEYS {
        assert!(has(parameter), "parameter {parameter}");
    }
    for key in wavelane_scenario::RATE_TRACE_KEYS.iter().chain(wavelane_scenario::DELAY_TRACE_KEYS) {
        assert!(has(key), "key of a recording {key}");
    }
    for key in WIFI_KEYS.iter().chain(SERIAL_KEYS).chain(SERIAL_WAY_KEYS) {
        assert!(has(key), "key {key}");
    }
    for (app, _) in APPS {
        assert!(has(app), "app {app}");
    }
    for unit in ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "ns", "us", "ms", "s", "min", "h", "B", "KiB", "GB", "GiB"] {
        assert!(has(unit), "unit {unit}");
    }
}

/// The keys that the guide lists for `record.json` are those of a record.
#[test]
fn the_records_keys_are_in_the_guide_in_their_order() {
    let block = page("records.md").split("```\n").nth(1).unwrap().to_owned();
    let golden = std::fs::read_to_string(root().join("testing/documents/record.json")).unwrap();
    let keys = |text: &str| -> Vec<String> {
        let words = text.split('"').skip(1).step_by(2);
        words.filter(|w| !w.contains('/')).map(str::to_owned).collect()
    };
    let documented = keys(&block);
    let record: serde_json::Value = serde_json::from_str(&golden).unwrap();
    let mut found = Vec::new();
    collect(&record, &mut found);
    for key in &found {
        assert!(documented.contains(key), "key {key} of a record is not in the guide");
    }
    for key in &documented {
        assert!(found.contains(key), "key {key} of the guide is not in a record");
    }
}

fn collect(value: &serde_json::Value, keys: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                keys.push(key.clone());
                collect(value, keys);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, keys)),
        _ => {}
    }
}
