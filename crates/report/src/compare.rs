//! Compares records with the first one: differences and ratios with intervals.

mod document;
mod page;
mod words;

pub use document::compare_schema;
pub(crate) use words::{FINDINGS_MAX, FINER_MAX, figure_of, finer, letter, number};

use crate::single::Single;
use std::path::PathBuf;
use wavelane_base::text::ShownPath;
use wavelane_measure::{mean, mean_ci95, sample_deviation, student_t_975};
use wavelane_run::figures::FlowFigures;
use wavelane_run::{RunDocument, StackResult};
use wavelane_scenario::Scenario;

/// Most records that are compared at once: each has a letter.
pub const COMPARED_MAX: usize = 26;

/// A loaded record.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// Its directory.
    pub record: PathBuf,
    /// Its document.
    pub document: RunDocument,
    /// Its scenario.
    pub scenario: Scenario,
    /// The only stack that is compared, where the stacks of one record are.
    pub stack: Option<String>,
}

impl Compared {
    /// The stacks of one record, each as if it were a record of its own.
    #[must_use]
    pub fn by_stack(self) -> Vec<Self> {
        let of = |stack: &StackResult| Self {
            document: RunDocument { stacks: vec![stack.clone()], ..self.document.clone() },
            stack: Some(stack.stack.clone()),
            ..self.clone()
        };
        self.document.stacks.iter().map(of).collect()
    }

    fn name(&self) -> String {
        let record = self.record.shown();
        self.stack.as_ref().map_or_else(|| record.to_string(), |stack| format!("{stack} of {record}"))
    }
}

/// A compared figure: its key, its column head, its divisor in tables, and where it is found.
pub(crate) struct Figure {
    key: &'static str,
    pub(crate) head: &'static str,
    scale: f64,
    of: fn(&FlowFigures) -> Option<f64>,
}

pub(crate) const FIGURES: [Figure; 14] = [
    Figure { key: "goodput_bps", head: "goodput Mbit/s", scale: 1e6, of: |f| f.goodput_bps },
    Figure { key: "completed", head: "completed runs", scale: 0.01, of: completed },
    Figure { key: "duration_ms", head: "duration s", scale: 1e3, of: |f| f.duration_ms },
    Figure { key: "rtt_p50_ms", head: "echo p50 ms", scale: 1.0, of: |f| f.rtt_p50_ms },
    Figure { key: "rtt_p95_ms", head: "echo p95 ms", scale: 1.0, of: |f| f.rtt_p95_ms },
    Figure { key: "rtt_p99_ms", head: "echo p99 ms", scale: 1.0, of: |f| f.rtt_p99_ms },
    Figure { key: "age_p95_ms", head: "age p95 ms", scale: 1.0, of: |f| f.age_p95_ms },
    Figure {
        key: "fetch_total_mean_ms",
        head: "fetch mean ms",
        scale: 1.0,
        of: |f| Some(f.fetch.as_ref()?.total_mean_ms),
    },
    Figure { key: "response_mean_ms", head: "object mean ms", scale: 1.0, of: |f| f.web.as_ref()?.response_mean_ms },
    Figure { key: "page_mean_ms", head: "page mean ms", scale: 1.0, of: |f| f.web.as_ref()?.page_mean_ms },
    Figure { key: "voice_loss", head: "call loss %", scale: 0.01, of: |f| f.voice.as_ref()?.loss },
    Figure { key: "voice_delay_p95_ms", head: "call delay p95 ms", scale: 1.0, of: |f| f.voice.as_ref()?.delay_p95_ms },
    Figure { key: "voice_mos", head: "call MOS", scale: 1.0, of: |f| f.voice.as_ref()?.mos },
    Figure { key: "lost_share", head: "unanswered %", scale: 0.01, of: lost_share },
];

/// For a transfer, 1 if it completed.
fn completed(f: &FlowFigures) -> Option<f64> {
    matches!(f.app.as_str(), "download" | "upload").then_some(f64::from(u8::from(f.completed)))
}

/// Figures that are shares: a difference is between -1 and 1.
const SHARES: [&str; 2] = ["voice_loss", "lost_share"];

impl Figure {
    /// Whether it is yes or no for each run, so that runs are counted.
    fn is_counted(&self) -> bool {
        self.key == "completed"
    }
    /// A difference with its interval limited to possible values.
    fn bounded(&self, of: Estimate) -> Estimate {
        let ends = |(low, high): (f64, f64)| {
            if SHARES.contains(&self.key) { (low.max(-1.0), high.min(1.0)) } else { (low, high) }
        };
        Estimate { interval: of.interval.filter(|_| !self.is_counted()).map(ends), ..of }
    }
}

fn lost_share(f: &FlowFigures) -> Option<f64> {
    let (sent, lost) = (f.sent.filter(|sent| *sent > 0 && f.voice.is_none())?, f.lost?);
    Some(lost as f64 / sent as f64)
}

/// An estimate with its 95 % interval, which needs two runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower and upper end.
    pub interval: Option<(f64, f64)>,
}

/// One figure of one flow, in another record and in the first.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// The record; 0 is the first.
    pub record: usize,
    /// The stack, or `FIRST -> OTHER` where each record has one and they differ.
    pub stack: String,
    /// The flow.
    pub flow: String,
    pub(crate) figure: usize,
    /// Mean over the first record's seeds, and over the other's.
    pub means: [f64; 2],
    /// Number of runs of each: those that have the figure, and if compared by seed those of common seeds.
    pub runs: [usize; 2],
    /// Other minus first.
    pub difference: Estimate,
    /// Other divided by first; `None` where one is not positive.
    pub ratio: Option<Estimate>,
    /// Whether runs with equal seeds were compared with each other.
    pub by_seed: bool,
    /// A single run of one record against several of the other.
    pub single: Option<Single>,
}

/// Values of two records by seed, where they have any.
struct Two {
    first: Vec<(u64, f64)>,
    other: Vec<(u64, f64)>,
}

impl Two {
    /// The figure's values in both. If most seeds are common, runs of seeds that only one record has are left out, because they would
    /// prevent the comparison by seed.
    fn new(mut first: Vec<(u64, f64)>, mut other: Vec<(u64, f64)>) -> Self {
        let has = |of: &[(u64, f64)], seed: u64| of.iter().any(|(of, _)| *of == seed);
        let common = first.iter().filter(|(seed, _)| has(&other, *seed)).count();
        if common >= 2 && 2 * common > first.len().max(other.len()) {
            let of_first = first.clone();
            first.retain(|(seed, _)| has(&other, *seed));
            other.retain(|(seed, _)| has(&of_first, *seed));
        }
        Self { first, other }
    }
    fn values(of: &[(u64, f64)]) -> Vec<f64> {
        of.iter().map(|(_, value)| *value).collect()
    }
    /// A single run of one record against several of the other.
    fn single(&self) -> Option<Single> {
        let (side, one, several) = match (self.first.as_slice(), self.other.as_slice()) {
            ([one], several @ [_, _, ..]) => (0, *one, several),
            (several @ [_, _, ..], [one]) => (1, *one, several),
            _ => return None,
        };
        let same_seed = several.iter().find(|(seed, _)| *seed == one.0).copied();
        let one = one.1;
        let range = several.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v.1), h.max(v.1)));
        Some(Single { side, runs: several.len(), range, inside: range.0 <= one && one <= range.1, same_seed })
    }
    /// The same seeds, at least two: with equal random numbers, runs can be compared pairwise.
    fn by_seed(&self) -> bool {
        self.first.len() >= 2 && self.first.iter().map(|v| v.0).eq(self.other.iter().map(|v| v.0))
    }
    /// Mean and 95 % interval of a function of the pairs.
    fn pairs(&self, of: impl Fn(f64, f64) -> f64) -> Option<Estimate> {
        let all: Vec<f64> = self.first.iter().zip(&self.other).map(|(a, b)| of(a.1, b.1)).collect();
        let (value, half) = mean_ci95(&all)?;
        Some(Estimate { value, interval: half.map(|half| (value - half, value + half)) })
    }
    fn difference(&self, means: [f64; 2]) -> Option<Estimate> {
        if self.by_seed() {
            return self.pairs(|a, b| b - a);
        }
        let value = means[1] - means[0];
        let half = self.welch([1.0, 1.0]);
        Some(Estimate { value, interval: half.map(|half| (value - half, value + half)) })
    }
    /// Computed on a logarithmic scale, on which a ratio and its inverse are equally far from one.
    fn ratio(&self, means: [f64; 2]) -> Option<Estimate> {
        let positive = self.first.iter().chain(&self.other).all(|v| v.1 > 0.0);
        if !positive || means[0] <= 0.0 {
            return None;
        }
        if self.by_seed() {
            let log = self.pairs(|a, b| (b / a).ln())?;
            let interval = log.interval.map(|(low, high)| (low.exp(), high.exp()));
            return Some(Estimate { value: log.value.exp(), interval });
        }
        let value = means[1] / means[0];
        let half = self.welch(means);
        Some(Estimate { value, interval: half.map(|half| (value * (-half).exp(), value * half.exp())) })
    }
    /// Half the 95 % interval of the difference of both means, each divided by its `scale` (Welch's t, degrees of freedom by Satterthwaite,
    /// rounded down).
    fn welch(&self, scale: [f64; 2]) -> Option<f64> {
        let part = |of: &[(u64, f64)], scale: f64| {
            let values = Self::values(of);
            let deviation = sample_deviation(&values)? / scale;
            Some((deviation * deviation / values.len() as f64, values.len() as f64 - 1.0))
        };
        let ((va, fa), (vb, fb)) = (part(&self.first, scale[0])?, part(&self.other, scale[1])?);
        let all = va + vb;
        if all <= 0.0 {
            return Some(0.0);
        }
        let freedom = (all * all / (va * va / fa + vb * vb / fb)).floor().max(1.0);
        Some(student_t_975(freedom as u32)? * all.sqrt())
    }
}

fn of_flow(stack: &StackResult, flow: &str, figure: &Figure) -> Vec<(u64, f64)> {
    stack.flows.iter().filter(|f| f.flow == flow).filter_map(|f| Some((f.seed, (figure.of)(f)?))).collect()
}

/// The compared stacks of two records, with their labels.
fn stacks<'a>(first: &'a RunDocument, other: &'a RunDocument) -> Vec<(String, &'a StackResult, &'a StackResult)> {
    let same = |a: &'a StackResult| Some((a.stack.clone(), a, other.stacks.iter().find(|b| b.stack == a.stack)?));
    let found: Vec<_> = first.stacks.iter().filter_map(same).collect();
    match (found.is_empty(), first.stacks.as_slice(), other.stacks.as_slice()) {
        (true, [a], [b]) => vec![(format!("{} -> {}", a.stack, b.stack), a, b)],
        _ => found,
    }
}

/// Everything that can be compared.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Comparison {
    pub(crate) names: Vec<String>,
    /// Runs of each record.
    repeats: Vec<usize>,
    differences: Vec<Difference>,
    /// Which records have another scenario than the first, and the differences.
    warnings: Vec<String>,
}

/// Maximum number of differing keys listed.
const KEYS_SHOWN: usize = 8;

/// The differences between the scenarios of two records, if any besides the seed.
fn warning(first: &Compared, other: &Compared) -> Option<String> {
    let plain = |scenario: &Scenario| Scenario { seed: wavelane_scenario::Seed(0), ..scenario.clone() };
    if plain(&other.scenario) == plain(&first.scenario) {
        return None;
    }
    let keys = other.scenario.differences(&first.scenario);
    let more = keys.len().saturating_sub(KEYS_SHOWN);
    let named = keys[..keys.len() - more].join(", ");
    let named = match more {
        _ if keys.is_empty() => String::new(),
        0 => format!(", it differs in {named}"),
        more => format!(", it differs in {named} and {more} more keys"),
    };
    let (this, first) = (other.record.shown(), first.record.shown());
    Some(format!("{this} is of another scenario than {first}{named}: compare with care"))
}

impl Comparison {
    /// Which records have another scenario than the first, and the differences.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Compares every record with the first.
    pub fn of(records: &[Compared]) -> Self {
        let mut differences = Vec::new();
        let Some(first) = records.first() else { return Self::default() };
        for (record, other) in records.iter().enumerate().skip(1) {
            for (stack, a, b) in stacks(&first.document, &other.document) {
                for flow in first.scenario.flows.iter().map(|f| &f.name) {
                    for (figure, what) in FIGURES.iter().enumerate() {
                        let two = Two::new(of_flow(a, flow, what), of_flow(b, flow, what));
                        let both = mean(&Two::values(&two.first)).zip(mean(&Two::values(&two.other)));
                        let Some(means) = both.map(|(a, b)| [a, b]) else { continue };
                        let Some(difference) = two.difference(means) else { continue };
                        differences.push(Difference {
                            record,
                            stack: stack.clone(),
                            flow: flow.clone(),
                            figure,
                            means,
                            runs: [two.first.len(), two.other.len()],
                            difference: what.bounded(difference),
                            ratio: two.ratio(means),
                            by_seed: two.by_seed(),
                            single: two.single(),
                        });
                    }
                }
            }
        }
        Self {
            names: records.iter().map(Compared::name).collect(),
            repeats: records.iter().map(|r| r.document.repeat as usize).collect(),
            differences,
            warnings: records[1..].iter().filter_map(|other| warning(first, other)).collect(),
        }
    }

    /// Figures of a record for which one side has a single run and the other several.
    pub(crate) fn singles(&self, record: usize) -> impl Iterator<Item = (&Difference, Single)> {
        self.differences.iter().filter(move |d| d.record == record).filter_map(|d| Some((d, d.single?)))
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
