//! Recordings of real links: an upload with an echo beside it, through the gateways and over three plain TCPs.

mod judge;
mod links;
pub(crate) mod page;
mod pairs;

use crate::cells::fingerprint_of;
use crate::document::{Edition, Row, StudyDocument};
use crate::elsewhere::{Simulation, Travel, read};
use crate::kept::Kept;
use crate::observe::{ready, short, simulate};
use crate::runner::Runner;
use crate::{Setup, StudyError, StudyOptions};
use links::Case;
pub(crate) use links::starlink;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_run::figures::{RunTotals, of_run, wire_bytes_per_delivered_byte};
use wavelane_run::{RunError, RunHooks};
use wavelane_scenario::Scenario;

/// The study's id.
pub(crate) const ID: &str = "traces";
/// What is judged, and what it is judged by.
const OURS: &str = "wavelane";
const BBR: &str = "tcp-bbr";
const STACKS: [&str; 4] = [OURS, "tcp-cubic", BBR, "tcp-bbr3"];
/// How much of a recording is run: quick, full.
const SECONDS: [u64; 2] = [40, 100];
const BULK: &str = "up";
const ECHO: &str = "echo";

/// What one stack made of a case.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    stack: String,
    goodput_bps: f64,
    /// Of what the recording could carry meanwhile.
    share: f64,
    echo_p95_ms: Option<f64>,
    echoes: u64,
    lost: u64,
    wire: Option<f64>,
    /// Per second: what arrived, in Mbit/s, and the longest echo that was due then, in ms.
    seconds: Vec<(f64, f64)>,
    /// When echoes were answered, in ms, in order.
    answers_ms: Vec<u64>,
}

fn refused(why: String) -> StudyError {
    StudyError::Run(RunError::Refused(why))
}

fn seconds_of(edition: Edition) -> u64 {
    SECONDS[usize::from(edition == Edition::Full)]
}

/// Runs a stack on a scenario's text.
fn observe(text: &str, stack: &str, seed: Seed, cancelled: &AtomicBool) -> Result<Seen, StudyError> {
    let (scenario, word) = ready(text, stack, seed.0)?;
    let raw = simulate(&scenario, word, cancelled)?;
    let figures = of_run(&scenario, &raw, scenario.seed);
    let of = |name: &str| figures.iter().find(|figures| figures.flow == name);
    let flow = |name: &str| raw.flows.iter().find(|flow| flow.flow == name);
    let (bulk, echo) = (of(BULK), of(ECHO));
    let lasts = scenario.duration.as_secs_f64() as usize;
    let mut seconds: Vec<(f64, f64)> = vec![(0.0, 0.0); lasts];
    let place = |ns: u64| (ns / 1_000_000_000) as usize;
    for (at, octets) in flow(BULK).map(|flow| flow.arrivals.as_slice()).unwrap_or_default() {
        if let Some(second) = seconds.get_mut(place(*at)) {
            second.0 = short(second.0 + *octets as f64 * 8e-6);
        }
    }
    let probes = flow(ECHO).map(|flow| flow.probes.as_slice()).unwrap_or_default();
    for probe in probes {
        if let Some(second) = seconds.get_mut(place(probe.sent_ns)) {
            let ms = probe.rtt_ns.map_or(scenario.duration.as_secs_f64() * 1e3, |ns| ns as f64 / 1e6);
            second.1 = short(second.1.max(ms));
        }
    }
    let mut answers_ms: Vec<u64> = probes.iter().filter_map(|p| Some((p.sent_ns + p.rtt_ns?) / 1_000_000)).collect();
    answers_ms.sort_unstable();
    Ok(Seen {
        stack: stack.to_owned(),
        goodput_bps: short(bulk.and_then(|f| f.goodput_bps).unwrap_or(0.0)),
        share: short(bulk.and_then(|f| f.link_share).unwrap_or(0.0)),
        echo_p95_ms: echo.and_then(|f| f.rtt_p95_ms).map(short),
        echoes: echo.and_then(|f| f.sent).unwrap_or(0),
        lost: echo.and_then(|f| f.lost).unwrap_or(0),
        wire: wire_bytes_per_delivered_byte(&[RunTotals::of(&raw, scenario.seed)]).map(short),
        seconds,
        answers_ms,
    })
}

/// Runs a stack on a scenario on a worker.
pub(crate) fn work(task: &Simulation, cancelled: &AtomicBool) -> Result<Seen, StudyError> {
    observe(&task.scenario, &task.stack, Seed(task.seed), cancelled)
}

/// Runs texts, each with a stack, on all processors, as far as their results are not kept.
fn observe_all(
    runs: &[(String, &'static str)],
    options: &StudyOptions,
    hooks: &RunHooks<'_>,
) -> Result<Vec<Seen>, StudyError> {
    let runner = Runner { what: "runs", workers: options.workers(), hooks };
    let key = |(text, stack): &(String, &'static str)| fingerprint_of(&format!("{stack} {text}"));
    let kept = Kept::open(options, ID);
    // With the recordings in it: a worker has no files of this machine.
    let pack = |(text, stack): &(String, &'static str)| -> Value {
        let scenario = Scenario::parse(text, Path::new(".")).map(|scenario| scenario.to_toml());
        json!(Simulation { scenario: scenario.unwrap_or_default(), stack: (*stack).to_owned(), seed: options.seed.0 })
    };
    let unpack = |run: &_, value| Ok(kept.put(&key(run), read::<Seen>(value)?));
    runner.run_anywhere(
        options.elsewhere.as_ref(),
        runs,
        |_| 1.0,
        |run| kept.get(&key(run)),
        |run| Ok(kept.put(&key(run), observe(&run.0, run.1, options.seed, hooks.cancelled)?)),
        &Travel { study: ID, batch: 1, pack: &pack, unpack: &unpack },
    )
}

/// Runs the recordings and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let seconds = seconds_of(options.edition);
    let rows = match &options.traces {
        [Some(first), Some(second)] => pairs::run(first, second, seconds, options, hooks)?,
        [folder, _] => {
            let cases = links::cases(folder.as_deref(), &options.out.join(ID), seconds).map_err(refused)?;
            singles(&cases, options, hooks)?
        }
    };
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

fn singles(cases: &[Case], options: &StudyOptions, hooks: &RunHooks<'_>) -> Result<Vec<Row>, StudyError> {
    let runs: Vec<(String, &'static str)> =
        cases.iter().flat_map(|case| STACKS.map(|stack| (case.text.clone(), stack))).collect();
    let seen = observe_all(&runs, options, hooks)?;
    let found: Vec<(&Case, &[Seen])> = cases.iter().zip(seen.chunks(STACKS.len())).collect();
    let rows = judge::rows(&found);
    rows.iter().filter(|row| row.stack == OURS).for_each(options.row);
    page::keep_worst(&options.out.join(ID), &found)
        .map_err(|(path, why)| StudyError::Run(RunError::Unwritable { path, why }))?;
    Ok(rows)
}

#[cfg(test)]
mod tests;
