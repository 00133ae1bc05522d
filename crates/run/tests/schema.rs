//! The committed JSON schemas are those of the program.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::path::Path;

/// `WAVELANE_BLESS=1` writes it anew, which is right together with a reviewed change of the format.
fn committed(name: &str, schema: &schemars::Schema) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(name);
    let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("WAVELANE_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, text, "{name} is not the program's: WAVELANE_BLESS=1 cargo test -p wavelane-run");
}

#[test]
fn the_schema_of_the_record_is_the_committed_one() {
    let schema = wavelane_run::record_schema();
    committed("wavelane-run-1.schema.json", &schema);
    let frozen = include_str!("../../../testing/documents/record.json");
    let document: Value = serde_json::from_str(frozen).unwrap();
    let required = schema.as_value()["required"].as_array().unwrap();
    assert!(required.iter().all(|key| document.get(key.as_str().unwrap()).is_some()));
}

#[test]
fn the_schema_of_the_sweep_is_the_committed_one() {
    committed("wavelane-sweep-1.schema.json", &wavelane_run::sweep_schema());
}

#[test]
fn formats_words_and_ranges_are_stated() {
    let schema = wavelane_run::record_schema();
    let at = |path: &str| schema.as_value().pointer(path).unwrap_or_else(|| panic!("{path}")).clone();
    assert_eq!(at("/properties/format/const"), wavelane_run::RUN_FORMAT);
    let unanswered = format!("counts as {} ms at", wavelane_measure::LOST_RANK_MS);
    assert!(at("/$defs/FetchFigures/description").as_str().unwrap().contains(&unanswered), "{unanswered}");
    assert_eq!(at("/properties/backend/enum"), serde_json::json!(["sim", "lab"]));
    assert_eq!((at("/properties/repeat/minimum"), at("/properties/seed/maximum")), (1.into(), i64::MAX.into()));
    assert_eq!(at("/$defs/FlowFigures/properties/goodput_bps/minimum"), 0);
    assert_eq!(at("/$defs/VoiceFigures/properties/loss/maximum").as_f64(), Some(1.0));
    for words in ["StackResult/properties/stack", "FlowFigures/properties/app", "ClauseNote/properties/treatment"] {
        assert!(at(&format!("/$defs/{words}/enum")).as_array().unwrap().len() >= 2, "{words}");
    }
    let sweep = wavelane_run::sweep_schema();
    assert_eq!(sweep.as_value().pointer("/properties/format/const").unwrap(), wavelane_run::SWEEP_FORMAT);
}
