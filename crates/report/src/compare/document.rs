//! A comparison as one JSON document.

use super::{Comparison, Difference, Estimate, FIGURES};
use schemars::JsonSchema;
use serde::Serialize;

/// The format's name and version.
const FORMAT: &str = "wavelane-compare/1";

/// What `--json` prints of a comparison.
#[derive(Serialize, JsonSchema)]
struct CompareDocument {
    /// The format's name and version.
    #[schemars(extend("const" = FORMAT))]
    format: &'static str,
    /// The record that the others are compared with.
    first: String,
    /// A row per record, stack, flow and figure.
    differences: Vec<CompareRow>,
}

/// One figure of one flow, in another record and in the first.
#[derive(Serialize, JsonSchema)]
struct CompareRow {
    /// The other record.
    record: String,
    /// The stack, or `FIRST -> OTHER` where each record has one and they differ.
    stack: String,
    /// The flow.
    flow: String,
    /// The figure; its key ends in its unit.
    #[schemars(extend("enum" = FIGURES.map(|figure| figure.key)))]
    metric: &'static str,
    /// The first record's mean.
    first: f64,
    /// The other's.
    other: f64,
    /// Of how many runs the first mean is.
    #[schemars(extend("minimum" = 1))]
    first_runs: usize,
    /// Of how many runs the other mean is.
    #[schemars(extend("minimum" = 1))]
    other_runs: usize,
    /// Other less first.
    difference: f64,
    /// Both ends of its 95 % interval; `null` of single runs and of `completed`, which counts runs.
    difference_ci95: Option<[f64; 2]>,
    /// Other over first; `null` where a value is not positive.
    #[schemars(extend("exclusiveMinimum" = 0))]
    ratio: Option<f64>,
    /// Both ends of its 95 % interval.
    ratio_ci95: Option<[f64; 2]>,
    /// Whether runs of equal seeds were compared with each other.
    by_seed: bool,
    /// Where one record has a single run and the other several: the least and the greatest of those.
    range: Option<[f64; 2]>,
    /// Whether the single run's value lies in that range.
    inside: Option<bool>,
}

/// The schema of what `wavelane compare --json` prints.
pub fn compare_schema() -> schemars::Schema {
    schemars::schema_for!(CompareDocument)
}

impl Comparison {
    /// One JSON document, with a newline at the end.
    pub fn to_json(&self) -> String {
        let ends = |e: Option<Estimate>| e.and_then(|e| e.interval).map(|(low, high)| [low, high]);
        let row = |d: &Difference| CompareRow {
            record: self.names[d.record].clone(),
            stack: d.stack.clone(),
            flow: d.flow.clone(),
            metric: FIGURES[d.figure].key,
            first: d.means[0],
            other: d.means[1],
            first_runs: d.runs[0],
            other_runs: d.runs[1],
            difference: d.difference.value,
            difference_ci95: ends(Some(d.difference)),
            ratio: d.ratio.map(|r| r.value),
            ratio_ci95: ends(d.ratio),
            by_seed: d.by_seed,
            range: d.single.map(|single| [single.range.0, single.range.1]),
            inside: d.single.map(|single| single.inside),
        };
        let document = CompareDocument {
            format: FORMAT,
            first: self.names.first().cloned().unwrap_or_default(),
            differences: self.differences.iter().map(row).collect(),
        };
        serde_json::to_string_pretty(&document).expect("text keys and finite numbers only") + "\n"
    }
}
