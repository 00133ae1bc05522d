//! The asymmetric network of 1998: data by radio, acknowledgements over a serial line.
//!
//! `plan.toml` has the experiments, a chain of four or what its text compares with that, and `judge.rs` makes rows of what came out. Which way
//! a packet takes, radio or modem, is `asymmetry`'s part `choice`.

mod hosts;
mod judge;
pub(crate) mod page;
mod radio;

use crate::cells::fingerprint_of;
use crate::document::{Edition, Row, StudyDocument};
use crate::experiments::{Experiment, LAB, no_lab};
use crate::kept::Kept;
use crate::observe::{ready, run_stack, short, simulate};
use crate::runner::Runner;
use crate::{Setup, StudyError, plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use wavelane_base::Seed;
use wavelane_run::figures::of_run;
use wavelane_run::{CaptureExtent, FlowRaw, LineRaw, RunContext, RunError, RunHooks, StackRaw, Verdict};
use wavelane_scenario::{Scenario, Stack};

/// The study's id.
pub(crate) const ID: &str = "maggs";
/// Its parts.
pub(crate) const PARTS: [&str; 11] =
    ["uplink", "framing", "loss", "radio", "keys", "uart", "hosts", "unsplit", "lane", "today", LAB];
/// The sender that is closest to NetBSD 1.1's.
const RENO: &str = "tcp-reno";
/// The download.
const DOWN: &str = "down";
/// Octets of a segment's data.
const SEGMENT: f64 = 1_460.0;
/// Goodput is counted from this share of a transfer without end on: before it windows grow.
const COUNTED_FROM: f64 = 0.2;

/// A scenario to run, one stack, one seed.
#[derive(Clone)]
struct Run {
    text: String,
    stack: String,
    seed: u64,
    /// Between kernels, in real time.
    real: bool,
    /// Its hosts are counted by a capture.
    captured: bool,
}

impl Run {
    /// A run of the plan: its name is the stack, after the word of what is not as usual.
    fn of((name, text): &(String, String), seed: u32) -> Self {
        let (how, stack) = name.rsplit_once(' ').unwrap_or(("", name));
        let (real, captured) = (how == LAB, how == "captured");
        let text = if captured { hosts::CAMPUS } else { text };
        Self { text: text.to_owned(), stack: stack.to_owned(), seed: u64::from(seed), real, captured }
    }
    fn key(&self) -> String {
        let place = if self.real { "real " } else { "" };
        fingerprint_of(&format!("{place}{} {} {}", self.stack, self.seed, self.text))
    }
}

/// What a flow gave.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct FlowSeen {
    flow: String,
    bytes: u64,
    /// Over the later part of the run, of flows without end.
    goodput_bps: f64,
    duration_ms: Option<f64>,
    /// The longest time without a byte, of flows with a body.
    silence_s: f64,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// Questions, and those that took more than a second.
    asked: u64,
    slow: u64,
}

/// What one direction of a line gave.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct LineSeen {
    way: String,
    sent: u64,
    octets: u64,
    received: u64,
    bad: u64,
    overrun: u64,
}

/// What a run gave.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Seen {
    flows: Vec<FlowSeen>,
    lines: Vec<LineSeen>,
    /// Retransmission timeouts of the endpoints, and packets that gateways sent again.
    timeouts: u64,
    repeated: u64,
    /// Of a run that was captured.
    #[serde(default)]
    hosts: Option<hosts::HostsSeen>,
    /// Why a run between kernels says nothing.
    #[serde(default)]
    inconclusive: Option<String>,
}

impl Seen {
    fn flow(&self, name: &str) -> FlowSeen {
        self.flows.iter().find(|flow| flow.flow == name).cloned().unwrap_or_default()
    }
    /// The line's direction from its first node to its second: up, towards the campus.
    fn up(&self) -> LineSeen {
        self.lines.iter().find(|line| line.way == "forward").cloned().unwrap_or_default()
    }
    fn down_bps(&self) -> f64 {
        self.flow(DOWN).goodput_bps
    }
    /// Segments per acknowledgement.
    fn ratio(&self) -> f64 {
        self.flow(DOWN).bytes as f64 / SEGMENT / (self.up().sent as f64).max(1.0)
    }
    fn silence_s(&self) -> f64 {
        self.flow(DOWN).silence_s
    }
    /// Octets on the line per packet up.
    fn octets_up(&self) -> f64 {
        self.up().octets as f64 / (self.up().sent as f64).max(1.0)
    }
}

fn late_goodput(raw: &FlowRaw, duration_s: f64) -> f64 {
    let from = duration_s * COUNTED_FROM;
    let at = |ns: u64| ns as f64 / 1e9;
    let octets: u64 = raw.arrivals.iter().filter(|(ns, _)| at(*ns) >= from).map(|(_, octets)| octets).sum();
    octets as f64 * 8.0 / (duration_s - from)
}

/// The longest time between two arrivals, or from the last to the end of the run.
fn silence_s(raw: &FlowRaw, duration_s: f64) -> f64 {
    let times = raw
        .arrivals
        .iter()
        .map(|(ns, _)| *ns as f64 / 1e9)
        .chain((!raw.completed || raw.arrivals.is_empty()).then_some(duration_s));
    let mut before = raw.connect_ns as f64 / 1e9;
    times.fold(0.0, |longest: f64, at| {
        let gap = at - before;
        before = at;
        longest.max(gap)
    })
}

/// Between kernels.
fn measure(scenario: &Scenario, stack: Stack, out: &Path, hooks: &RunHooks<'_>) -> Result<StackRaw, StudyError> {
    let (label, captures, cancelled) = (stack.word().to_owned(), CaptureExtent::Off, hooks.cancelled);
    let mut context = RunContext { out, label, captures, progress: &mut |told| (hooks.progress)(told), cancelled };
    run_stack(&mut wavelane_lab::LabBackend, (scenario, stack), &mut context)
}

fn observe(run: &Run, first: Seed, out: &Path, hooks: &RunHooks<'_>) -> Result<Seen, StudyError> {
    let (scenario, stack) = ready(&run.text, &run.stack, first.0 + run.seed)?;
    let (raw, hosts) = match run.captured {
        true => hosts::observe((&scenario, stack), out, hooks).map(|(raw, seen)| (raw, Some(seen)))?,
        false if run.real => (measure(&scenario, stack, out, hooks)?, None),
        false => (simulate(&scenario, stack, hooks.cancelled)?, None),
    };
    let seconds = scenario.duration.as_secs_f64();
    let figures = of_run(&scenario, &raw, scenario.seed);
    let flow = |(raw, of): (&FlowRaw, &wavelane_run::figures::FlowFigures)| {
        let slow = |probe: &&wavelane_run::Probe| probe.rtt_ns.is_none_or(|ns| ns > 1_000_000_000);
        FlowSeen {
            flow: of.flow.clone(),
            bytes: of.bytes,
            goodput_bps: short(late_goodput(raw, seconds)),
            duration_ms: of.duration_ms.map(short),
            silence_s: short(if raw.arrivals.is_empty() { 0.0 } else { silence_s(raw, seconds) }),
            p50_ms: of.rtt_p50_ms.map(short),
            p95_ms: of.rtt_p95_ms.map(short),
            p99_ms: of.rtt_p99_ms.map(short),
            asked: raw.probes.len() as u64,
            slow: raw.probes.iter().filter(slow).count() as u64,
        }
    };
    let line = |raw: &LineRaw| LineSeen {
        way: raw.way.to_owned(),
        sent: raw.tally.sent,
        octets: raw.tally.sent_octets,
        received: raw.tally.received,
        bad: raw.tally.bad,
        overrun: raw.tally.overrun,
    };
    Ok(Seen {
        flows: raw.flows.iter().zip(&figures).map(flow).collect(),
        lines: raw.lines.iter().map(line).collect(),
        timeouts: raw.timeouts.unwrap_or(0),
        repeated: raw.packets.map_or(0, |packets| packets.repeated),
        hosts,
        inconclusive: raw.inconclusive,
    })
}

/// Runs that are judged together.
type Task = Experiment<Run, Seen>;

fn tasks(edition: Edition) -> Vec<Task> {
    let seeds = |of: Experiment<(String, String), Seen>| {
        let runs = of.runs.iter().flat_map(|run| (0..of.seeds).map(move |seed| Run::of(run, seed))).collect();
        Task { part: of.part, seeds: of.seeds, runs, judge: of.judge }
    };
    plan::experiments(include_str!("plan.toml"), edition, &PARTS, judge::of).into_iter().map(seeds).collect()
}

/// Runs the edition's experiments on all processors and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let tasks: Vec<Task> = tasks(options.edition).into_iter().filter(|task| options.wants(task.part)).collect();
    let kept = Kept::open(options, ID);
    let out = options.out.join(ID);
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    // Those that are not known, each once.
    let all = |runs: &mut dyn Iterator<Item = &Run>, workers: usize, seen: &mut BTreeMap<String, Seen>| {
        let new: BTreeMap<String, &Run> =
            runs.map(|run| (run.key(), run)).filter(|(key, _)| !seen.contains_key(key)).collect();
        let runs: Vec<(String, &Run)> = new.into_iter().collect();
        let runner = Runner { what: "runs", workers, hooks };
        let work = |(_, run): &(String, &Run)| observe(run, options.seed, &out, hooks);
        let found = runner.run_kept(&kept, &runs, |_| 1.0, |(key, _)| key.clone(), work)?;
        seen.extend(runs.into_iter().map(|(key, _)| key).zip(found));
        Ok(())
    };
    all(&mut tasks.iter().flat_map(|task| &task.runs).filter(|run| !run.real), options.workers(), &mut seen)?;
    let mut rows = Vec::new();
    for task in &tasks {
        // Runs in real time have the machine to themselves.
        match all(&mut task.runs.iter().filter(|run| run.real), 1, &mut seen) {
            Err(StudyError::Run(why)) if !matches!(why, RunError::Cancelled) => {
                let row = no_lab(ID, RENO, &why.to_string());
                rows.extend((!rows.contains(&row)).then_some(row));
                continue;
            }
            measured => measured?,
        }
        let found: Vec<Seen> = task.runs.iter().filter_map(|run| seen.get(&run.key()).cloned()).collect();
        let unsure = found.iter().find_map(|seen| seen.inconclusive.clone());
        rows.extend((task.judge)(&found).into_iter().map(|row| match &unsure {
            Some(why) if row.verdict != Verdict::Info => Row { verdict: Verdict::Inconclusive, ..row.noting(why) },
            _ => row,
        }));
    }
    rows.iter().for_each(options.row);
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

#[cfg(test)]
mod tests;
