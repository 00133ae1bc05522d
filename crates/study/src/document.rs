//! The JSON document of a study.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;
use wavelane_run::Verdict;

/// Format of one study's document.
pub const STUDY_FORMAT: &str = "wavelane-study/1";
/// Format of several studies' document.
pub const STUDIES_FORMAT: &str = "wavelane-studies/1";

/// Largest document that is read back.
const DOCUMENT_MAX: u64 = 256 << 20;

/// How thoroughly a study is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edition {
    /// In minutes: few seeds.
    Quick,
    /// As published, or with enough seeds for narrow intervals.
    Full,
}

impl Edition {
    /// Its word, which is its flag too.
    pub fn word(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// One study's outcome. Keys stand in this order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StudyDocument {
    /// [`STUDY_FORMAT`].
    pub format: String,
    /// Its id.
    pub study: String,
    /// Quick or full.
    pub edition: Edition,
    /// The first seed.
    pub seed: u64,
    /// The parts that were run, if not all were asked for: the verdict is of these alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// The members of a population that were run, if they were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draws: Option<String>,
    /// The total over the rows.
    pub verdict: Verdict,
    /// What was measured and judged.
    pub rows: Vec<Row>,
}

/// One measured value with what is known about it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The experiment's id.
    pub id: String,
    /// The cell; empty for claims across cells.
    pub case: Map<String, Value>,
    /// Where it ran.
    pub backend: String,
    /// The stack it is about.
    pub stack: String,
    /// What was measured.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Mean over the runs.
    pub value: Option<f64>,
    /// 95 % half-width; `null` for one run.
    pub ci95: Option<f64>,
    /// Runs.
    pub n: u64,
    /// The source's number.
    pub published: Option<f64>,
    /// Closed form or physical limit.
    pub bound: Option<f64>,
    /// Pass, fail, inconclusive, or info for what is reported and not judged.
    pub verdict: Verdict,
    /// The numbers or the reason behind the verdict.
    pub why: String,
}

impl Row {
    /// [`Row::why`] without the value that it often begins with, for places where the value stands before it.
    pub fn reason(&self) -> &str {
        let number = self.value.map(Self::number);
        let rest = number.and_then(|number| self.why.strip_prefix(&format!("{number}, ")));
        rest.unwrap_or(&self.why)
    }

    /// A value in [`Row::why`]: counts are whole numbers, all else has three decimals.
    pub(crate) fn number(value: f64) -> String {
        if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
    }

    /// A row without case, value and verdict.
    pub(crate) fn new(id: &str, backend: &str, stack: &str, metric: &str, unit: &str) -> Self {
        Self {
            id: id.into(),
            case: Map::new(),
            backend: backend.into(),
            stack: stack.into(),
            metric: metric.into(),
            unit: unit.into(),
            value: None,
            ci95: None,
            n: 0,
            published: None,
            bound: None,
            verdict: Verdict::Info,
            why: String::new(),
        }
    }
}

/// Several studies' outcomes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StudiesDocument {
    /// [`STUDIES_FORMAT`].
    pub format: String,
    /// In the order asked for.
    pub studies: Vec<StudyDocument>,
}

impl StudyDocument {
    /// A document whose verdict is the total over `rows`.
    pub fn new(study: &str, edition: Edition, seed: u64, rows: Vec<Row>) -> Self {
        let verdict = Verdict::total(rows.iter().map(|r| r.verdict));
        Self {
            format: STUDY_FORMAT.into(),
            study: study.into(),
            edition,
            seed,
            parts: Vec::new(),
            draws: None,
            verdict,
            rows,
        }
    }
    /// The document as text, with a newline at the end.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("text keys and finite numbers only") + "\n"
    }
    /// The documents in a study's directory, by name: `ID.json` of every study that there is.
    pub fn find(folder: &Path) -> Vec<Self> {
        let read = |study: &crate::Study| {
            let path = folder.join(format!("{}.json", study.id));
            let text = wavelane_scenario::read_regular(&path, DOCUMENT_MAX).ok()?;
            serde_json::from_str(&text).ok().filter(|found: &Self| found.format == STUDY_FORMAT)
        };
        crate::STUDIES.iter().filter_map(read).collect()
    }
}

impl StudiesDocument {
    /// Bundles studies.
    pub fn new(studies: Vec<StudyDocument>) -> Self {
        Self { format: STUDIES_FORMAT.into(), studies }
    }
    /// The document as text, with a newline at the end.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("text keys and finite numbers only") + "\n"
    }
}
