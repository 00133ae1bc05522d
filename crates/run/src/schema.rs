//! JSON schemas of documents, from the types that write them, with the limits that their figures keep.

use crate::drive::SEED_MAX;
use crate::record::RunDocument;
use crate::sweep::SweepDocument;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Value, json};

/// The words of a closed list.
pub(crate) fn words<T>(list: &[(&'static str, T)]) -> Vec<&'static str> {
    list.iter().map(|(word, _)| *word).collect()
}

/// No count, time, rate or share is negative, and seeds have a largest one.
fn bounded(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    let format = object.get("format").and_then(Value::as_str).unwrap_or_default();
    if format == "double" {
        object.entry("minimum").or_insert(json!(0));
    }
    if let Some(seed) = object.get_mut("properties").and_then(|p| p.get_mut("seed")).and_then(Value::as_object_mut) {
        seed.insert("maximum".into(), json!(SEED_MAX));
    }
}

fn schema_of<T: schemars::JsonSchema>() -> Schema {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    RecursiveTransform(bounded).transform(&mut schema);
    schema
}

/// The schema of `record.json`.
pub fn record_schema() -> Schema {
    schema_of::<RunDocument>()
}

/// The schema of `sweep.json`.
pub fn sweep_schema() -> Schema {
    schema_of::<SweepDocument>()
}
