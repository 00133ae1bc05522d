//! What studies of several cells share: running a cell unless an interrupted run left it whole, and rows.

use crate::document::{Edition, Row};
use crate::runner::Runner;
use crate::{Setup, StudyError, StudyOptions};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use wavelane_base::Seed;
use wavelane_measure::mean_ci95;
use wavelane_run::figures::FlowFigures;
use wavelane_run::{CaptureExtent, Progress, RunDocument, RunHooks, RunOptions, StackResult, Verdict};
use wavelane_scenario::Scenario;

/// One cell: a scenario run over its stacks and seeds.
pub(crate) struct Cell<'a> {
    /// The study's id.
    pub(crate) study: &'static str,
    /// The cell's name, a word for a folder.
    pub(crate) name: &'a str,
    /// The scenario's text.
    pub(crate) text: &'a str,
    /// Seeds.
    pub(crate) repeat: u32,
    /// A first seed other than the study's, and the command that repeats this cell.
    pub(crate) own: Option<(Seed, String)>,
    /// What is captured, if one seed is run.
    pub(crate) captures: CaptureExtent,
}

impl<'a> Cell<'a> {
    /// With captures of headers where one seed is run.
    pub(crate) fn new(study: &'static str, name: &'a str, text: &'a str, repeat: u32) -> Self {
        Self { study, name, text, repeat, own: None, captures: CaptureExtent::Headers }
    }
    fn scenario(&self, options: &StudyOptions) -> Result<Scenario, StudyError> {
        let mut scenario = Scenario::parse(self.text, Path::new("."))?;
        scenario.seed = self.own.as_ref().map_or(options.seed, |(seed, _)| *seed);
        Ok(scenario)
    }

    /// Where its Record lies, and beside it the mark that the Record is whole.
    pub(crate) fn places(&self, options: &StudyOptions) -> (PathBuf, PathBuf) {
        let folder = options.out.join(self.study);
        (folder.join(self.name), folder.join(format!("{}.done", self.name)))
    }

    fn mark(&self, scenario: &Scenario) -> String {
        format!("{} {} {}\n{}", scenario.seed.0, self.repeat, fingerprint(), scenario.to_toml())
    }

    /// The Record that an interrupted run of the same study by the same program left in `--out`.
    pub(crate) fn kept(&self, options: &StudyOptions) -> Result<Option<RunDocument>, StudyError> {
        let (record, done) = self.places(options);
        let mark = self.mark(&self.scenario(options)?);
        let over = options.out.join(format!("{}.json", self.study)).exists();
        let whole = !over && std::fs::read_to_string(&done).is_ok_and(|found| found == mark);
        Ok(if whole { RunDocument::load(&record).ok() } else { None })
    }

    /// Runs it, or takes the Record that was kept.
    pub(crate) fn run(&self, setup: &Setup<'_>) -> Result<(Scenario, RunDocument), StudyError> {
        let Setup { make, options, hooks } = *setup;
        let scenario = self.scenario(options)?;
        if let Some(document) = self.kept(options)? {
            return Ok((scenario, document));
        }
        let (record, done) = self.places(options);
        let mark = self.mark(&scenario);
        let edition = if options.edition == Edition::Full { "--full" } else { "--quick" };
        let usual = || format!("wavelane study run {} {edition} --seed {}", self.study, options.seed.0);
        let run = RunOptions {
            captures: self.captures,
            name: format!("{}-{}", self.study, self.name),
            repeat: self.repeat,
            jobs: options.jobs.unwrap_or(1),
            out: record,
            rerun: self.own.as_ref().map_or_else(usual, |(_, command)| command.clone()),
        };
        // A mark left by an earlier run must not outlive the Record it speaks of.
        let _ = std::fs::remove_file(&done);
        // A study has many cells of the same stacks: each says which it is.
        let named = |told: Progress| {
            let note = if told.note.is_empty() { String::new() } else { format!(", {}", told.note) };
            (hooks.progress)(Progress { note: format!("cell {}{note}", self.name), ..told });
        };
        let hooks = RunHooks { progress: &named, ..hooks.without_count() };
        let document = wavelane_run::run(make, &scenario, &run, &hooks)?;
        // Without the mark the cell is run again: that costs time and nothing else.
        let _ = std::fs::write(&done, mark);
        Ok((scenario, document))
    }
}

/// Gives the document of a cell; nothing if it is to be run first.
pub(crate) type Take<'a> = &'a dyn Fn(&Cell<'_>) -> Result<Option<RunDocument>, StudyError>;

/// The rows of tasks that consist of cells, `rows_of` each, reported as soon as they are judged. `workers` tasks run at
/// once; the laboratory, which measures real time, has one.
pub(crate) fn rows_of_all<T: Sync>(
    tasks: &[T],
    workers: usize,
    setup: &Setup<'_>,
    rows_of: impl Fn(&T, Take<'_>) -> Result<Option<Vec<Row>>, StudyError> + Sync,
) -> Result<Vec<Row>, StudyError> {
    let told = |rows: Vec<Row>| {
        rows.iter().for_each(setup.options.row);
        rows
    };
    // A Record that cannot be read is run again, and reports then what is wrong.
    let found = |task: &T| rows_of(task, &|cell| cell.kept(setup.options)).ok().flatten().map(told);
    let work = |task: &T| {
        let rows = rows_of(task, &|cell| Ok(Some(cell.run(setup)?.1)))?;
        Ok(told(rows.unwrap_or_default()))
    };
    let runner = Runner { what: "runs", workers, hooks: setup.hooks };
    Ok(runner.run(tasks, |_| 1.0, found, work)?.into_iter().flatten().collect())
}

/// The documents of `cells`, in their order.
pub(crate) fn documents(
    cells: &[Cell<'_>],
    what: &'static str,
    workers: usize,
    setup: &Setup<'_>,
) -> Result<Vec<RunDocument>, StudyError> {
    // A Record that cannot be read is run again, and reports then what is wrong.
    let found = |cell: &Cell<'_>| cell.kept(setup.options).ok().flatten();
    let work = |cell: &Cell<'_>| Ok(cell.run(setup)?.1);
    Runner { what, workers, hooks: setup.hooks }.run(cells, |_| 1.0, found, work)
}

/// Tells this build of the program from others: a Record of another build is not taken over.
pub(crate) fn fingerprint() -> String {
    let exe = std::env::current_exe().and_then(std::fs::metadata);
    let words = |m: std::fs::Metadata| {
        let when = m.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
        format!("{} {}", m.len(), when.map_or(0, |t| t.as_nanos()))
    };
    exe.map(words).unwrap_or_default()
}

/// Stands for a text, such as a task's scenario.
pub(crate) fn fingerprint_of(text: &str) -> String {
    Sha256::digest(text).iter().take(12).map(|octet| format!("{octet:02x}")).collect()
}

/// What rows of one stack in one cell have in common.
#[derive(Clone)]
pub(crate) struct Head {
    /// The study's id.
    pub(crate) id: String,
    /// `lab` or `sim`.
    pub(crate) backend: String,
    /// The cell.
    pub(crate) case: Map<String, Value>,
    /// The stack.
    pub(crate) stack: String,
}

impl Head {
    pub(crate) fn new(id: &str, backend: &str, case: &[(&str, Value)], stack: &str) -> Self {
        let case = case.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        Self { id: id.to_owned(), backend: backend.to_owned(), case, stack: stack.to_owned() }
    }

    /// Of the simulator.
    pub(crate) fn sim(id: &str, case: &[(&str, Value)], stack: &str) -> Self {
        Self::new(id, "sim", case, stack)
    }

    /// The same with one more word in its case.
    pub(crate) fn and(&self, key: &str, value: &str) -> Self {
        let mut head = self.clone();
        head.case.insert(key.to_owned(), json!(value));
        head
    }

    /// A row with a figure of `n` runs together, not judged.
    pub(crate) fn one(&self, metric: &str, unit: &str, value: Option<f64>, n: usize) -> Row {
        Row { value, n: n as u64, ..self.row(metric, unit, &[]) }
    }

    /// A row with the mean of `values` over the seeds, not judged.
    pub(crate) fn row(&self, metric: &str, unit: &str, values: &[f64]) -> Row {
        let mean = mean_ci95(values);
        Row {
            case: self.case.clone(),
            value: mean.map(|(mean, _)| mean),
            ci95: mean.and_then(|(_, half)| half),
            n: values.len() as u64,
            ..Row::new(&self.id, &self.backend, &self.stack, metric, unit)
        }
    }
}

/// A limit that an aim sets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Aim {
    /// No smaller.
    AtLeast(f64),
    /// No larger.
    AtMost(f64),
    /// Larger.
    Above(f64),
    /// Smaller.
    Below(f64),
    /// Neither smaller than the first nor larger than the second.
    Between(f64, f64),
}

impl Aim {
    /// As [`Self::words`] says it.
    pub(crate) fn of(words: &str) -> Option<Self> {
        if let Some((low, high)) = words.split_once(" to ") {
            return Some(Self::Between(low.parse().ok()?, high.parse().ok()?));
        }
        let (kind, limit) = words.rsplit_once(' ')?;
        let limit = limit.parse().ok()?;
        match kind {
            "at least" => Some(Self::AtLeast(limit)),
            "at most" => Some(Self::AtMost(limit)),
            "more than" => Some(Self::Above(limit)),
            "less than" => Some(Self::Below(limit)),
            _ => None,
        }
    }
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
            Self::Above(limit) => value > limit,
            Self::Below(limit) => value < limit,
            Self::Between(low, high) => (low..=high).contains(&value),
        }
    }
    fn words(self) -> String {
        match self {
            Self::AtLeast(limit) => format!("at least {}", spelled(limit)),
            Self::AtMost(limit) => format!("at most {}", spelled(limit)),
            Self::Above(limit) => format!("more than {}", spelled(limit)),
            Self::Below(limit) => format!("less than {}", spelled(limit)),
            Self::Between(low, high) => format!("{} to {}", spelled(low), spelled(high)),
        }
    }
}

/// A limit as people write it: to four digits, and what stands before the point whole.
fn spelled(limit: f64) -> String {
    const DIGITS: i32 = 4;
    let decimals = DIGITS - 1 - limit.abs().log10().floor().max(-9.0) as i32;
    let text = format!("{limit:.*}", usize::try_from(decimals).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

impl Row {
    /// Judged by `aim`, if there is one: an interval of several runs that straddles the limit proves nothing, nor does a missing value.
    /// Of two limits the first that is not surely kept gives the verdict.
    pub(crate) fn judged(mut self, aim: impl Into<Option<Aim>>) -> Self {
        let Some(aim) = aim.into() else { return self };
        let Some(value) = self.value else {
            return self.inconclusive(format!("no run has the figure; wanted {}", aim.words()));
        };
        let half = self.ci95.unwrap_or(0.0);
        let by = |aim: &Aim| {
            let holds = aim.holds(value);
            match (aim.holds(value - half) == holds && aim.holds(value + half) == holds, holds) {
                (false, _) => Verdict::Inconclusive,
                (true, true) => Verdict::Pass,
                (true, false) => Verdict::Fail,
            }
        };
        let aims = match aim {
            Aim::Between(low, high) => vec![Aim::AtLeast(low), Aim::AtMost(high)],
            aim => vec![aim],
        };
        self.verdict = aims.iter().map(by).find(|verdict| *verdict != Verdict::Pass).unwrap_or(Verdict::Pass);
        let straddles = if self.verdict == Verdict::Inconclusive { ", and the 95 % interval straddles it" } else { "" };
        self.why = format!("{}, wanted {}{straddles}", Row::number(value), aim.words());
        self
    }
    /// Judged by both limits.
    pub(crate) fn between(self, low: f64, high: f64) -> Self {
        self.judged(Aim::Between(low, high))
    }
    /// With what physics or a closed form allows, and judged to be within this share of it.
    pub(crate) fn near(self, bound: f64, share: f64) -> Self {
        self.bound_by(bound).between(bound * (1.0 - share), bound * (1.0 + share))
    }
    pub(crate) fn bound_by(self, bound: impl Into<Option<f64>>) -> Self {
        Self { bound: bound.into(), ..self }
    }
    pub(crate) fn published_as(self, published: impl Into<Option<f64>>) -> Self {
        Self { published: published.into(), ..self }
    }
    /// Not to be judged, because of `why`.
    pub(crate) fn inconclusive(self, why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Inconclusive, why: why.into(), ..self }
    }
    /// With one more remark behind the reason.
    pub(crate) fn noting(self, what: &str) -> Self {
        Self { why: format!("{}; {what}", self.why), ..self }
    }
}

/// Values per seed joined, as far as both have them.
pub(crate) fn joined(a: &[f64], b: &[f64], by: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| by(*a, *b)).filter(|v| v.is_finite()).collect()
}

/// In order, as percentiles want them.
pub(crate) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Makes a row about invalid runs inconclusive.
pub(crate) fn unproven(row: &mut Row, stacks: &[&StackResult]) {
    if let Some(why) = stacks.iter().find_map(|s| s.inconclusive.as_ref()) {
        row.verdict = Verdict::Inconclusive;
        row.why.clone_from(why);
    }
}

/// A figure of a flow per seed, in the seeds' order; runs that lack it are left out.
pub(crate) fn values(stack: &StackResult, flow: &str, figure: impl Fn(&FlowFigures) -> Option<f64>) -> Vec<f64> {
    stack.flows.iter().filter(|f| f.flow == flow).filter_map(figure).collect()
}

/// Ours against theirs per seed, by `join`; nothing unless every seed has both.
pub(crate) fn pairs(
    ours: &StackResult,
    theirs: &StackResult,
    flow: &str,
    figure: impl Fn(&FlowFigures) -> Option<f64>,
    join: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let of = |stack: &StackResult| -> Vec<Option<f64>> {
        stack.flows.iter().filter(|f| f.flow == flow).map(&figure).collect()
    };
    let joined: Option<Vec<f64>> =
        of(ours).into_iter().zip(of(theirs)).map(|(a, b)| Some(join(a?, b?)).filter(|v| v.is_finite())).collect();
    joined.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn judged(values: &[f64], aim: Aim) -> (Verdict, String) {
        let head = Head { id: "x".into(), backend: "lab".into(), case: Map::new(), stack: "wavelane".into() };
        let row = head.row("m", "ratio", values).judged(aim);
        (row.verdict, row.why)
    }

    #[test]
    fn an_aim_passes_fails_or_is_inconclusive() {
        assert_eq!(judged(&[0.9], Aim::AtLeast(0.9)).0, Verdict::Pass);
        assert_eq!(judged(&[0.9], Aim::Above(0.9)).0, Verdict::Fail);
        assert_eq!(judged(&[150.1], Aim::AtMost(150.0)).0, Verdict::Fail);
        assert_eq!(judged(&[0.0], Aim::Below(0.0)).0, Verdict::Fail);
        assert_eq!(judged(&[0.768], Aim::AtMost(1.0 / 3.0)).1, "0.768, wanted at most 0.3333");
        assert_eq!(judged(&[480.0], Aim::AtLeast(501.55102)).1, "480, wanted at least 501.6");
        assert_eq!(judged(&[2_000.0], Aim::AtLeast(2460.735)).1, "2000, wanted at least 2461");
        assert_eq!(judged(&[0.677], Aim::AtMost(0.72756)).1, "0.677, wanted at most 0.7276");
        assert_eq!(judged(&[9e6], Aim::AtLeast(11_501_000.0)).1, "9000000, wanted at least 11501000");
        assert_eq!(judged(&[0.5], Aim::Below(1e-5)).1, "0.500, wanted less than 0.00001");
        assert_eq!(judged(&[0.0], Aim::AtMost(0.0)).1, "0, wanted at most 0");
        // Mean 0.92, half-width about 0.25 at three runs.
        assert_eq!(judged(&[0.82, 0.92, 1.02], Aim::AtLeast(0.9)).0, Verdict::Inconclusive);
        assert_eq!(judged(&[0.919, 0.92, 0.921], Aim::AtLeast(0.9)).0, Verdict::Pass);
        let (verdict, why) = judged(&[], Aim::AtLeast(0.9));
        assert!(verdict == Verdict::Inconclusive && why.contains("at least 0.9"), "{why}");
    }
}
