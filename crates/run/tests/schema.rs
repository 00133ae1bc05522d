//! The committed JSON schema of the Record is that of the program.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

/// `WAVELANE_BLESS=1` writes it anew, which is right together with a reviewed change of the format.
#[test]
fn the_schema_of_the_record_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/wavelane-run-1.schema.json");
    let schema = schemars::schema_for!(wavelane_run::RunDocument);
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if std::env::var_os("WAVELANE_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap_or_default(),
        text,
        "bless it: WAVELANE_BLESS=1 cargo test -p wavelane-run"
    );
    let frozen = include_str!("../src/golden/record.json");
    let document: serde_json::Value = serde_json::from_str(frozen).unwrap();
    let required = schema.as_value()["required"].as_array().unwrap();
    assert!(required.iter().all(|key| document.get(key.as_str().unwrap()).is_some()));
}
