//! The experiments of Hop (NSDI 2009) over radio cells: one hop, several, meshes, access points, and what stands beside.
//!
//! Its mechanisms one by one are `hop-mechanisms`; here the default stack carries what TCP carries on the same cells.

mod lab;
mod net;
mod population;
mod rows;
mod scenes;

use crate::cells::fingerprint_of;
use crate::document::StudyDocument;
use crate::elsewhere::{Simulation, Travel, read};
use crate::experiments::LAB;
use crate::kept::Kept;
use crate::observe::{ready, short, simulate};
use crate::runner::Runner;
use crate::{Setup, StudyError};
use scenes::{Run, Scene};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::atomic::AtomicBool;
use wavelane_run::figures::{of_radio, of_run};
use wavelane_run::{FlowRaw, RunError, StackRaw};
use wavelane_scenario::Scenario;

/// The study's id.
pub(crate) const ID: &str = "hop";
/// Its parts.
pub(crate) const PARTS: [&str; 13] = [
    "links",
    "mesh",
    "chains",
    "degradation",
    "flows",
    "wlan",
    "delay",
    "cells",
    "both-ways",
    "beside",
    "phys",
    "breaks",
    LAB,
];
/// What is judged, and the preset beside it.
const OURS: &str = "wavelane";
const PRESET: &str = "hop-2009";
/// TCP ended at every relay: it stands beside, and is no rival from end to end.
const SPLIT: &str = "tcp-hop-by-hop";

/// A flow's figures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct FlowSeen {
    flow: String,
    app: String,
    goodput_bps: f64,
    bytes: u64,
    duration_ms: Option<f64>,
    p95_ms: Option<f64>,
    /// Whether everything arrived as it was sent.
    whole: bool,
    /// From the end of a break of the path until data came again.
    again_ms: Option<f64>,
}

/// What a run gave.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    flows: Vec<FlowSeen>,
    /// Frames a second on the air: data, answers and RTS; and data frames without their ACK, and dropped before they left.
    data: f64,
    others: f64,
    unanswered: f64,
    own_drops: f64,
}

impl Seen {
    /// The bulk flows' goodputs.
    fn goodputs(&self) -> Vec<f64> {
        self.flows.iter().filter(|flow| flow.app != "echo").map(|flow| flow.goodput_bps).collect()
    }
    fn total(&self) -> f64 {
        self.goodputs().iter().sum()
    }
}

/// Runs a stack on a cell, here or on a worker.
pub(crate) fn work(run: &Simulation, cancelled: &AtomicBool) -> Result<Seen, StudyError> {
    let (scenario, stack) = ready(&run.scenario, &run.stack, run.seed)?;
    Ok(of_raw(&scenario, &simulate(&scenario, stack, cancelled)?))
}

/// What a run gave.
fn of_raw(scenario: &Scenario, raw: &StackRaw) -> Seen {
    let radio = raw.radios.first().map(|radio| of_radio(radio, scenario.seed));
    let mended = mended_ns(scenario);
    let again = |flow: &FlowRaw| {
        let (at, _) = flow.arrivals.iter().find(|(at, _)| mended.is_some_and(|mended| *at >= mended))?;
        Some(short((at - mended?) as f64 / 1e6))
    };
    let figures = of_run(scenario, raw, scenario.seed).into_iter().zip(&raw.flows).map(|(of, flow)| FlowSeen {
        whole: flow.completed && flow.intact == Some(true),
        again_ms: again(flow),
        flow: of.flow,
        app: of.app,
        goodput_bps: short(of.goodput_bps.unwrap_or(0.0)),
        bytes: of.bytes,
        duration_ms: of.duration_ms.map(short),
        p95_ms: of.rtt_p95_ms.map(short),
    });
    let per_s = |of: fn(&wavelane_run::RadioFigures) -> f64| short(radio.as_ref().map_or(0.0, of));
    Seen {
        flows: figures.collect(),
        data: per_s(|radio| radio.data_per_s),
        others: per_s(|radio| radio.frames_per_s - radio.data_per_s),
        unanswered: per_s(|radio| radio.ack_missing_per_s),
        own_drops: per_s(|radio| radio.queue_full_per_s),
    }
}

/// When the first break of a link in a cell is over.
fn mended_ns(scenario: &Scenario) -> Option<u64> {
    let reach = &scenario.channels.iter().find_map(|channel| channel.cell())?.reach;
    let pairs = (0..reach.stations()).flat_map(|from| (0..reach.stations()).map(move |to| (from, to)));
    pairs.filter_map(|(from, to)| reach.loss(from, to).outages.first().map(|(_, end)| end.as_nanos())).min()
}

/// A scene's runs with what they gave.
struct Found<'a> {
    scene: &'a Scene,
    seen: Vec<Seen>,
}

impl Found<'_> {
    /// What a stack gave on a kind of cell, by seed.
    fn of(&self, cell: &str, stack: &str) -> Vec<&Seen> {
        let runs = self.scene.runs.iter().zip(&self.seen);
        runs.filter(|(run, _)| run.cell == cell && run.stack == stack).map(|(_, seen)| seen).collect()
    }
    /// The kinds of cell and stacks of plain TCP.
    fn rivals(&self) -> Vec<(&'static str, &'static str)> {
        let mut all: Vec<_> = self.scene.runs.iter().map(|run| (run.cell, run.stack)).collect();
        all.dedup();
        all.retain(|(_, stack)| stack.starts_with("tcp-") && *stack != SPLIT);
        all
    }
}

/// Runs the edition's scenes and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let meshes = population::meshes().map_err(RunError::Refused)?;
    let scenes: Vec<Scene> =
        scenes::all(options.edition, &meshes).into_iter().filter(|scene| options.wants(scene.part)).collect();
    let runs: Vec<&Run> = scenes.iter().flat_map(|scene| &scene.runs).collect();
    let runner = Runner { what: "runs", workers: options.workers(), hooks };
    let key = |run: &&Run| fingerprint_of(&format!("{} {} {}", run.stack, run.seed, run.text));
    let kept = Kept::open(options, ID);
    // Stations cost, above all with thirty flows.
    let cost = |run: &&Run| run.text.len() as f64;
    let simulation = |run: &&Run| Simulation {
        scenario: run.text.clone(),
        stack: run.stack.to_owned(),
        seed: options.seed.0 + run.seed,
    };
    let travel = Travel {
        study: ID,
        batch: 1,
        pack: &|run| json!(simulation(run)),
        unpack: &|run, value| Ok(kept.put(&key(run), read::<Seen>(value)?)),
    };
    let work = |run: &&Run| Ok(kept.put(&key(run), work(&simulation(run), hooks.cancelled)?));
    let found = |run: &&Run| kept.get(&key(run));
    let mut seen = runner.run_anywhere(options.elsewhere.as_ref(), &runs, cost, found, work, &travel)?.into_iter();
    let found: Vec<Found<'_>> =
        scenes.iter().map(|scene| Found { scene, seen: seen.by_ref().take(scene.runs.len()).collect() }).collect();
    let mut rows = rows::all(&found);
    rows.iter().for_each(options.row);
    // Runs in real time have the machine to themselves, and only if they are asked for: the same seed does not give the same bytes.
    if options.parts.iter().any(|part| part == LAB) {
        rows.extend(lab::rows(setup, &kept)?);
    }
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

#[cfg(test)]
mod tests;
