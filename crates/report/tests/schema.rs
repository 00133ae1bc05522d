//! The committed JSON schema of a comparison is that of the program.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

/// `WAVELANE_BLESS=1` writes it anew, which is right together with a reviewed change of the format.
#[test]
fn the_schema_of_the_comparison_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/wavelane-compare-1.schema.json");
    let schema = wavelane_report::compare_schema();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if std::env::var_os("WAVELANE_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, text, "bless it: WAVELANE_BLESS=1 cargo test -p wavelane-report");
    let at = |path: &str| schema.as_value().pointer(path).unwrap_or_else(|| panic!("{path}")).clone();
    assert_eq!(at("/properties/format/const"), "wavelane-compare/1");
    assert_eq!(at("/$defs/CompareRow/properties/ratio/exclusiveMinimum"), 0);
    assert!(at("/$defs/CompareRow/properties/metric/enum").as_array().unwrap().len() > 10);
}
