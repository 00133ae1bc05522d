//! A performance enhancing proxy for wireless TCP (Dungs): what its experiments over 802.11b, Bluetooth, handovers and cellular links give
//! here, and when splitting TCP pays.
//!
//! All but what a mirror costs runs in the simulator. What segments do is read from captures at both ends and on both sides of the proxy, as the
//! source read Ethereal's.

mod access;
mod acks;
mod bluetooth;
mod gain;
mod mirror;
mod net;
mod outage;
mod page;
mod seen;
mod split;
mod wlan;

pub(crate) use page::charts;

use crate::cells::fingerprint_of;
use crate::document::{Edition, Row, StudyDocument};
use crate::experiments::{LAB, no_lab};
use crate::kept::Kept;
use crate::runner::Runner;
use crate::{Setup, StudyError};
use net::Path;
use seen::Seen;
use wavelane_run::{RunError, Verdict};

/// The study's id.
pub(crate) const ID: &str = "dungs";
/// Its parts.
pub(crate) const PARTS: [&str; 8] = ["wlan", "outage", "bluetooth", "split", "acks", "access", "gain", LAB];
/// Seeds of each run in the full edition.
const FULL_SEEDS: u64 = 10;

/// One run.
pub(super) struct Run {
    part: &'static str,
    /// What rows find it by, with its stack.
    name: String,
    stack: &'static str,
    text: String,
    seed: u64,
    seconds: u32,
    /// Where it is captured.
    points: Vec<&'static str>,
    /// Whether its curves are kept.
    drawn: bool,
    /// Between kernels.
    real: bool,
}

impl Run {
    /// Stands for it in a file's name.
    fn key(&self) -> String {
        fingerprint_of(&format!("{} {} {} {:?}", self.stack, self.seed, self.text, (&self.points, self.drawn)))
    }
}

/// Runs as they are added.
struct Runs {
    part: &'static str,
    seeds: u64,
    all: Vec<Run>,
}

impl Runs {
    /// Runs of so many seeds, or more in the full edition.
    fn several(&mut self, name: &str, stack: &'static str, path: &Path, seeds: u64) {
        self.push(name, stack, path, (seeds.max(self.seeds), false, false));
    }
    /// A run of each seed.
    fn add(&mut self, name: &str, stack: &'static str, path: &Path) {
        self.push(name, stack, path, (self.seeds, false, false));
    }
    /// The same with captures.
    fn captured(&mut self, name: &str, stack: &'static str, path: &Path) {
        self.push(name, stack, path, (self.seeds, true, false));
    }
    /// The same, of which the first seed's curves are drawn.
    fn drawn(&mut self, name: &str, stack: &'static str, path: &Path) {
        self.push(name, stack, path, (self.seeds, true, true));
    }
    /// The same without captures: of datagrams.
    fn pictured(&mut self, name: &str, stack: &'static str, path: &Path) {
        self.push(name, stack, path, (self.seeds, false, true));
    }
    /// One seed: nothing in it is drawn by chance.
    fn once(&mut self, name: &str, stack: &'static str, path: &Path) {
        self.push(name, stack, path, (1, false, false));
    }
    /// A run of each seed between kernels.
    fn real(&mut self, name: &str, stack: &'static str, path: &Path) {
        let first = self.all.len();
        self.add(name, stack, path);
        self.all[first..].iter_mut().for_each(|run| run.real = true);
    }
    fn push(&mut self, name: &str, stack: &'static str, path: &Path, (seeds, captured, drawn): (u64, bool, bool)) {
        let text = path.text(stack);
        for seed in 0..seeds {
            self.all.push(Run {
                part: self.part,
                name: name.into(),
                stack,
                text: text.clone(),
                seed,
                seconds: path.seconds,
                points: if captured { path.points().to_vec() } else { Vec::new() },
                drawn: drawn && seed == 0,
                real: false,
            });
        }
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

/// A part: its runs, and what makes rows of them.
struct Part {
    word: &'static str,
    /// Seeds in the quick edition.
    seeds: u64,
    runs: fn(&mut Runs, Edition),
    rows: fn(&Found<'_>, Edition) -> Vec<Row>,
}

const TABLE: [Part; PARTS.len()] = [
    Part { word: "wlan", seeds: 4, runs: wlan::runs, rows: wlan::rows },
    Part { word: "outage", seeds: 1, runs: outage::runs, rows: outage::rows },
    Part { word: "bluetooth", seeds: 3, runs: bluetooth::runs, rows: bluetooth::rows },
    Part { word: "split", seeds: 3, runs: split::runs, rows: split::rows },
    Part { word: "acks", seeds: 3, runs: acks::runs, rows: acks::rows },
    Part { word: "access", seeds: 1, runs: access::runs, rows: access::rows },
    Part { word: "gain", seeds: 4, runs: gain::runs, rows: gain::rows },
    Part { word: LAB, seeds: 3, runs: mirror::runs, rows: mirror::rows },
];

fn runs(edition: Edition, wanted: impl Fn(&str) -> bool) -> Vec<Run> {
    let mut all = Vec::new();
    for part in TABLE.iter().filter(|part| wanted(part.word)) {
        let seeds = if edition == Edition::Full { FULL_SEEDS } else { part.seeds };
        let mut runs = Runs { part: part.word, seeds, all: Vec::new() };
        (part.runs)(&mut runs, edition);
        all.append(&mut runs.all);
    }
    all
}

fn rows(found: &Found<'_>, edition: Edition) -> Vec<Row> {
    let there = |part: &&Part| found.runs.iter().any(|(run, _)| run.part == part.word);
    TABLE.iter().filter(there).flat_map(|part| (part.rows)(found, edition)).collect()
}

/// Runs the edition's experiments and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let (real, simulated): (Vec<Run>, Vec<Run>) =
        runs(options.edition, |part| options.wants(part)).into_iter().partition(|run| run.real);
    let kept = Kept::open(options, ID);
    let cost = |run: &Run| f64::from(run.seconds);
    let all = |runs: &[Run], workers: usize| {
        let runner = Runner { what: "runs", workers, hooks };
        runner.run_kept(&kept, runs, cost, Run::key, |run| seen::observe(run, options, hooks))
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
