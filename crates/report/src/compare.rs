//! Compares records with the first one: differences and ratios with intervals, and overlaid pictures.

use crate::overlay::{legends, overlaid};
use crate::page::{First, Page, PageTable, write_page};
use crate::single::Single;
use crate::table::Table;
use crate::{ReportError, raster};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_measure::{mean, mean_ci95, sample_deviation, student_t_975};
use wavelane_run::figures::FlowFigures;
use wavelane_run::{RunDocument, StackResult, Verdict, shell};
use wavelane_scenario::Scenario;

/// The format's name and version.
const FORMAT: &str = "wavelane-compare/1";

/// Maximum number of findings in the sentence above the tables, which contain all.
pub(crate) const FINDINGS_MAX: usize = 6;

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

/// A loaded record.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// Its directory.
    pub record: PathBuf,
    /// Its document.
    pub document: RunDocument,
    /// Its scenario.
    pub scenario: Scenario,
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
    let (this, first) = (other.record.display(), first.record.display());
    Some(format!("{this} is of another scenario than {first}{named}: compare with care"))
}

/// `A` is the first.
pub(crate) fn letter(record: usize) -> &'static str {
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ".get(record..=record).unwrap_or("?")
}

/// Description of a record, in addition to its name.
fn about(r: &Compared) -> String {
    let RunDocument { backend, seed, repeat, verdict, .. } = &r.document;
    let seeds = if *repeat == 1 { format!("seed {seed}") } else { format!("{repeat} seeds from {seed}") };
    let doubt = if *verdict == Verdict::Inconclusive { ": it proves nothing" } else { "" };
    format!("on {backend}, {seeds}, {}{doubt}", verdict.word())
}

pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 || v == 0.0 => 2,
        v if v >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// Formats a value with this many additional decimals.
pub(crate) fn finer(value: f64, more: usize) -> String {
    let text = number(value);
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len()) + more;
    format!("{value:.decimals$}")
}

/// Maximum number of decimals added to make the ends of an interval differ.
pub(crate) const FINER_MAX: usize = 4;

fn estimate(e: Estimate, scale: f64, sign: bool) -> String {
    let one = |value: f64, more: usize| {
        let text = finer(value / scale, more);
        if sign && value > 0.0 { format!("+{text}") } else { text }
    };
    match e.interval {
        // All runs are equal: there is no uncertainty.
        Some((low, high)) if low < high => {
            let apart = |more: &usize| one(low, *more) != one(high, *more);
            let more = (0..FINER_MAX).find(apart).unwrap_or(FINER_MAX);
            format!("{} ({} to {})", one(e.value, more), one(low, more), one(high, more))
        }
        _ => one(e.value, 0),
    }
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
            names: records.iter().map(|r| r.record.display().to_string()).collect(),
            repeats: records.iter().map(|r| r.document.repeat as usize).collect(),
            differences,
            warnings: records[1..].iter().filter_map(|other| warning(first, other)).collect(),
        }
    }

    /// A mean, and its number of runs if those are not all.
    fn mean(&self, d: &Difference, side: usize) -> String {
        if FIGURES[d.figure].is_counted() {
            let runs = d.runs[side];
            return format!("{:.0} of {runs}", d.means[side] * runs as f64);
        }
        let all = self.repeats[[0, d.record][side]];
        let part = if d.runs[side] < all { format!(" ({} of {all})", d.runs[side]) } else { String::new() };
        number(d.means[side] / FIGURES[d.figure].scale) + &part
    }
    /// Whether a figure of this flow covers only some runs.
    fn is_partial(&self, d: &Difference) -> bool {
        d.runs[0] < self.repeats[0] || d.runs[1] < self.repeats[d.record]
    }

    fn table(&self, record: usize) -> Table {
        let mut heads = vec!["stack", "flow", "figure", "A", letter(record), "difference", "ratio"];
        let singles = self.singles(record).next().is_some();
        if singles {
            heads.push("the one run among the others");
        }
        let mut table = Table::new(3, &heads);
        for d in self.differences.iter().filter(|d| d.record == record) {
            let Figure { head, scale, .. } = FIGURES[d.figure];
            let counted = FIGURES[d.figure].is_counted();
            // Shown only where informative.
            if [("completed", 1.0), ("lost_share", 0.0)].contains(&(FIGURES[d.figure].key, d.means[0]))
                && d.means[0] == d.means[1]
            {
                continue;
            }
            let mut row = vec![
                d.stack.clone(),
                d.flow.clone(),
                head.to_owned(),
                self.mean(d, 0),
                self.mean(d, 1),
                estimate(d.difference, scale, true) + if counted { " %" } else { "" },
                d.ratio.map_or("-".into(), |ratio| estimate(ratio, 1.0, false)),
            ];
            if singles {
                // The counts show it.
                row.push(
                    d.single
                        .filter(|_| !counted)
                        .map_or("-".into(), |single| single.words(d.means[single.side], scale)),
                );
            }
            table.push(row);
        }
        table
    }

    /// Figures of a record for which one side has a single run and the other several.
    pub(crate) fn singles(&self, record: usize) -> impl Iterator<Item = (&Difference, Single)> {
        self.differences.iter().filter(move |d| d.record == record).filter_map(|d| Some((d, d.single?)))
    }

    /// The title of a record's table.
    fn title(&self, record: usize) -> String {
        format!("{} against A: {} against {}", letter(record), self.names[record], self.names[0])
    }

    /// The ratios that differ from 1 according to their intervals; `None` without intervals.
    fn findings(&self, record: usize) -> Option<String> {
        if let Some((_, single)) = self.singles(record).next() {
            return Some(self.finding_of_one(record, single));
        }
        let of_record = self.differences.iter().filter(|d| d.record == record);
        let ratios: Vec<_> = of_record.filter_map(|d| Some((d, d.ratio?, d.ratio?.interval?))).collect();
        let mut apart: Vec<_> = ratios.iter().filter(|(_, _, (low, high))| *low > 1.0 || *high < 1.0).collect();
        // The largest differences first: the sentence has space for only a few.
        apart.sort_by(|(_, a, _), (_, b, _)| b.value.ln().abs().total_cmp(&a.value.ln().abs()));
        let say = |(d, ratio, _): &(&Difference, Estimate, _)| {
            let figure = FIGURES[d.figure].head.rsplit_once(' ').map_or("", |(figure, _)| figure);
            let part = if self.is_partial(d) { ", of some runs only" } else { "" };
            format!("{} {}: {figure} x {}{part}", d.stack, d.flow, estimate(*ratio, 1.0, false))
        };
        let said: Vec<String> = apart.into_iter().map(say).collect();
        let beyond = match said.len() {
            0..=FINDINGS_MAX => String::new(),
            n => format!("; and {} more", n - FINDINGS_MAX),
        };
        let other = letter(record);
        (!ratios.is_empty()).then(|| match said.is_empty() {
            true => format!("{other} against A: no ratio differs from 1 beyond its interval."),
            false => format!("{other} against A: {}{beyond}.", said[..said.len().min(FINDINGS_MAX)].join("; ")),
        })
    }

    /// How to interpret the intervals.
    fn how(&self) -> String {
        let of_one = self.how_of_one();
        let intervals = self.differences.iter().any(|d| d.difference.interval.is_some());
        match of_one {
            Some(of_one) if intervals => format!("{} {of_one}", self.how_of_intervals()),
            Some(of_one) => of_one,
            None => self.how_of_intervals().to_owned(),
        }
    }

    fn how_of_intervals(&self) -> &'static str {
        let with = || self.differences.iter().filter(|d| d.difference.interval.is_some());
        let with_runs = self.differences.iter().any(|d| d.runs.iter().all(|runs| *runs > 1));
        let (paired, apart) = (with().any(|d| d.by_seed), with().any(|d| !d.by_seed));
        match (paired, apart) {
            (false, false) if with_runs => "Of a count of runs there is no interval.",
            (false, false) => "An interval takes two runs of each: run them with --repeat.",
            (true, false) => {
                "In brackets 95 % intervals; runs of the same seed are compared with each other, ratios are geometric means."
            }
            (false, true) => "In brackets 95 % intervals of the means (Welch's t; ratios on a logarithmic scale).",
            (true, true) => {
                "In brackets 95 % intervals; runs of the same seed are compared with each other where most seeds are common (ratios are geometric means), else means (Welch's t)."
            }
        }
    }

    /// Tables for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for record in 1..self.names.len() {
            let table = self.table(record);
            out += &self.title(record);
            out.push('\n');
            out += &if table.rows.is_empty() { NOTHING.to_owned() + "\n" } else { table.text() };
            if let Some((_, single)) = self.singles(record).next() {
                out += &format!("{}\n", self.finding_of_one(record, single));
            }
            out.push('\n');
        }
        out + &self.how() + "\n"
    }

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

    /// Writes `report.html` and `plots/` into `folder`, which will become `out`; returns the page's path, or `None` once `stop` is set.
    pub fn render(
        &self,
        folder: &Path,
        out: &Path,
        records: &[Compared],
        stop: &AtomicBool,
    ) -> Result<Option<PathBuf>, ReportError> {
        let stopped = || stop.load(Ordering::Relaxed);
        let rasteriser = raster::Rasteriser::new();
        let mut drawn = Vec::new();
        let (pictures, by_dash) = overlaid(records, &stopped)?;
        for picture in pictures {
            if stopped() {
                return Ok(None);
            }
            drawn.push(picture.write(&folder.join("plots"), &rasteriser)?);
        }
        if stopped() {
            return Ok(None);
        }
        let tables = (1..self.names.len()).map(|record| {
            let table = self.table(record);
            let heads = table.heads.iter().map(|head| (*head).to_owned()).collect();
            PageTable { title: self.title(record), heads, rows: table.rows }
        });
        let places = self.names.iter().zip(records).enumerate();
        let names = places.map(|(i, (name, r))| format!("{}: {name} ({})", letter(i), about(r)));
        let findings: Vec<String> = (1..self.names.len()).filter_map(|record| self.findings(record)).collect();
        let page = Page {
            title: crate::compare_place::TITLE.into(),
            headline: if findings.is_empty() { self.how() } else { findings.join(" ") },
            verdict: None,
            sentences: names
                .chain(self.warnings.iter().cloned())
                .chain((!findings.is_empty()).then(|| self.how()))
                .chain((!drawn.is_empty()).then(|| legends(records.len(), by_dash)))
                .collect(),
            charts: Vec::new(),
            tables: tables.filter(|table| !table.rows.is_empty()).collect(),
            rerun: {
                let names: Vec<String> = self.names.iter().map(|name| shell(name)).collect();
                format!("wavelane compare {} --out {}", names.join(" "), shell(&out.to_string_lossy()))
            },
        };
        write_page(folder, &page, &drawn, First::Tables).map(Some)
    }
}

/// Message for two records without a flow of the same name under the same stack.
const NOTHING: &str = "nothing to compare: no stack has a flow of the same name in both";

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
