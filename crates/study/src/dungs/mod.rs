//! A performance enhancing proxy for wireless TCP (Dungs): what its experiments over 802.11b, Bluetooth, handovers and cellular links give
//! here, and when splitting TCP pays.
//!
//! `plan.toml` has the runs; all but what a mirror costs are the simulator's. What segments do is read from captures at both ends and on both sides of the proxy, as the
//! source read Ethereal's.

mod access;
mod acks;
mod bluetooth;
mod gain;
mod mirror;
mod outage;
mod page;
mod seen;
mod split;
mod wlan;

pub(crate) use page::charts;

use crate::cells::fingerprint_of;
use crate::document::{Edition, Row, StudyDocument};
use crate::experiments::{Experiment, Judge, LAB, no_lab};
use crate::kept::Kept;
use crate::runner::Runner;
use crate::{Setup, StudyError, plan};
use seen::Seen;
use wavelane_run::{RunError, Verdict};

/// The study's id.
pub(crate) const ID: &str = "dungs";
/// Its parts.
pub(crate) const PARTS: [&str; 8] = ["wlan", "outage", "bluetooth", "split", "acks", "access", "gain", LAB];
/// The flow that is judged.
const BULK: &str = "bulk";
/// Where segments are captured: both ends, both sides of the proxy, in a cell and else.
const POINTS: [[&str; 4]; 2] =
    [["server-wire", "p-wire", "p-lan", "mobile1-bus1"], ["server-wire", "p-wire", "p-air", "mobile1-air"]];

/// One run.
pub(super) struct Run {
    part: &'static str,
    /// What rows find it by, with its stack.
    name: String,
    stack: String,
    text: String,
    seed: u64,
    /// Where it is captured.
    points: Vec<&'static str>,
    /// Whether its curves are kept.
    drawn: bool,
    /// Between kernels.
    real: bool,
}

impl Run {
    /// A run of the plan: the name by which rows find it and its stack stand behind the words of what is not as usual.
    fn of(part: &'static str, (name, text): &(String, String), seed: u32) -> Self {
        let words: Vec<&str> = name.split(' ').collect();
        let [how @ .., name, stack] = &words[..] else { panic!("a run is {name}") };
        let [captured, drawn, real] = ["captured", "drawn", LAB].map(|word| how.contains(&word));
        let points = POINTS[usize::from(!text.contains("\"wifi\""))];
        Self {
            part,
            name: (*name).to_owned(),
            stack: (*stack).to_owned(),
            text: text.replace("STACK", stack),
            seed: seed.into(),
            points: if captured { points.to_vec() } else { Vec::new() },
            drawn: drawn && seed == 0,
            real,
        }
    }
    /// How long it takes, roughly: its seconds.
    fn cost(&self) -> f64 {
        let seconds = self.text.split("duration = \"").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        seconds.unwrap_or(0.0)
    }
    /// Stands for it in a file's name.
    fn key(&self) -> String {
        fingerprint_of(&format!("{} {} {} {:?}", self.stack, self.seed, self.text, (&self.points, self.drawn)))
    }
}

/// Runs with what they gave.
struct Found<'a> {
    runs: Vec<(&'a Run, Seen)>,
}

impl Found<'_> {
    /// What a run gave, by seed.
    fn of<'b>(&'b self, name: &'b str, stack: &'b str) -> impl Iterator<Item = &'b Seen> {
        self.runs.iter().filter(move |(run, _)| run.name == name && run.stack == stack).map(|(_, seen)| seen)
    }
    /// A figure by seed.
    fn values(&self, name: &str, stack: &str, of: impl Fn(&Seen) -> Option<f64>) -> Vec<f64> {
        self.of(name, stack).filter_map(of).collect()
    }
    fn goodputs(&self, name: &str, stack: &str) -> Vec<f64> {
        self.values(name, stack, |seen| Some(seen.goodput_bps))
    }
    /// A figure over another, by seed.
    fn ratios(
        &self,
        (name, stack): (&str, &str),
        (other, beside): (&str, &str),
        of: impl Fn(&Seen) -> Option<f64>,
    ) -> Vec<f64> {
        let pairs = self.of(name, stack).zip(self.of(other, beside));
        pairs.filter_map(|(a, b)| Some(of(a)? / of(b)?)).filter(|ratio| ratio.is_finite()).collect()
    }
}

/// What makes rows of a part's runs.
type Rows = fn(&Found<'_>, Edition) -> Vec<Row>;

const TABLE: [(&str, Rows); PARTS.len()] = [
    ("wlan", wlan::rows),
    ("outage", outage::rows),
    ("bluetooth", bluetooth::rows),
    ("split", split::rows),
    ("acks", acks::rows),
    ("access", access::rows),
    ("gain", gain::rows),
    (LAB, mirror::rows),
];

fn runs(edition: Edition, wanted: impl Fn(&str) -> bool) -> Vec<Run> {
    // Rows are made of a part's runs together.
    let judge = |_: &str, _| -> Judge<()> { Box::new(|_| Vec::new()) };
    let mut all = plan::experiments(include_str!("plan.toml"), edition, &PARTS, judge);
    all.retain(|of| wanted(of.part));
    let seeds = |of: &Experiment<(String, String), ()>| {
        let (part, seeds) = (of.part, of.seeds);
        of.runs.iter().flat_map(move |run| (0..seeds).map(move |seed| Run::of(part, run, seed))).collect::<Vec<_>>()
    };
    all.iter().flat_map(seeds).collect()
}

fn rows(found: &Found<'_>, edition: Edition) -> Vec<Row> {
    let there = |part: &str| found.runs.iter().any(|(run, _)| run.part == part);
    TABLE.iter().filter(|(part, _)| there(part)).flat_map(|(_, rows)| rows(found, edition)).collect()
}

/// Runs the edition's experiments and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let (real, simulated): (Vec<Run>, Vec<Run>) =
        runs(options.edition, |part| options.wants(part)).into_iter().partition(|run| run.real);
    let kept = Kept::open(options, ID);
    let all = |runs: &[Run], workers: usize| {
        let runner = Runner { what: "runs", workers, hooks };
        runner.run_kept(&kept, runs, Run::cost, Run::key, |run| seen::observe(run, options, hooks))
    };
    let seen = all(&simulated, options.workers())?;
    // Runs in real time have the machine to themselves.
    let measured = match all(&real, 1) {
        Err(StudyError::Run(why)) if !matches!(why, RunError::Cancelled) => Err(why.to_string()),
        measured => Ok(measured?),
    };
    let found = Found { runs: simulated.iter().zip(seen).collect() };
    let drawn: Vec<(&str, &Seen)> =
        found.runs.iter().filter(|(run, _)| run.drawn).map(|(run, seen)| (run.name.as_str(), seen)).collect();
    page::keep(&options.out.join(ID), &drawn).map_err(|(path, why)| RunError::Unwritable { path, why })?;
    let mut rows = rows(&found, options.edition);
    match measured {
        Ok(seen) => {
            let unsure = seen.iter().find_map(|seen| seen.inconclusive.clone());
            let found = Found { runs: real.iter().zip(seen).collect() };
            rows.extend(self::rows(&found, options.edition).into_iter().map(|row| match &unsure {
                Some(why) => Row { verdict: Verdict::Inconclusive, ..row.noting(why) },
                None => row,
            }));
        }
        Err(why) => rows.push(no_lab(ID, "tcp-cubic+mirror", &why)),
    }
    rows.iter().for_each(options.row);
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

#[cfg(test)]
mod tests;
