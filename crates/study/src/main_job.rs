//! The main job over several seeds: is the download faster and the echo calmer through the gateways?
//!
//! Rows: per stack and metric the mean over the seeds; goodput beside its closed form, rate x (1 - p) x payload share,
//! where p is the share of time the channel is bad. Claims: the geometric mean over the seeds of the goodput ratio to
//! each TCP stack is at least 1, and the echo's p95 is no higher than that of each stack with half the goodput.

use crate::cells::{Cell, documents};
use crate::document::{Edition, Row, StudyDocument};
use crate::{Setup, StudyError};
use serde_json::{Map, Value, json};
use std::path::Path;
use wavelane_base::Seed;
use wavelane_measure::mean_ci95;
use wavelane_run::figures::FlowFigures;
use wavelane_run::{RunDocument, StackResult, Verdict, figure};
use wavelane_scenario::{Direction, Metric, Scenario, Stack};

/// The study's id.
pub(crate) const ID: &str = "main-job";
/// The scenario, the same file that `make demo` runs.
const SCENARIO: &str = include_str!("../../../scenarios/demo.toml");
/// Seeds of the editions.
const SEEDS: [u32; 2] = [3, 12];

/// An IPv4 packet's share of application bytes under TCP with timestamps: 20 + 20 + 12 bytes of 1500 are headers
/// (RFC 791, RFC 9293, RFC 7323).
const TCP_PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;
/// The same under Wavelane: 63 bytes of a full datagram are headers, tag and frame (docs/protocol/wire.md).
const WAVELANE_PAYLOAD_SHARE: f64 = 1437.0 / 1500.0;
/// Share of the file's metrics that go into rows, with their units.
const METRICS: &[(Metric, &str)] = &[
    (Metric::GoodputBps, "bit/s"),
    (Metric::DurationMs, "ms"),
    (Metric::Completed, "share"),
    (Metric::RttP50Ms, "ms"),
    (Metric::RttP95Ms, "ms"),
    (Metric::RttP99Ms, "ms"),
    (Metric::WireBytesPerDeliveredByte, "ratio"),
];
const BULK: &str = "page";
const ECHO: &str = "echo";
/// A stack below this share of our goodput is no rival in delay.
const RIVAL_SHARE: f64 = 0.5;

/// Runs the scenario over the edition's seeds and judges it.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, .. } = *setup;
    let scenario = Scenario::parse(SCENARIO, Path::new("."))?;
    let seeds = u64::from(SEEDS[usize::from(options.edition == Edition::Full)]);
    let seeds: Vec<u64> = (0..seeds).map(|i| options.seed.0 + i).collect();
    let names: Vec<String> = seeds.iter().map(|seed| format!("seed-{seed}")).collect();
    let cells: Vec<Cell<'_>> = seeds.iter().zip(&names).map(|(seed, name)| cell(*seed, name)).collect();
    let document = merged(documents(&cells, "seeds", 1, setup)?);
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, judge(&scenario, &document)))
}

/// One seed's run of all stacks.
fn cell(seed: u64, name: &str) -> Cell<'_> {
    let rerun = format!("wavelane run scenarios/demo.toml --on lab --seed {seed}");
    Cell { own: Some((Seed(seed), rerun)), ..Cell::new(ID, name, SCENARIO, 1) }
}

/// The seeds' documents as one. Every run has the same download, so a stack's cost is the mean of its runs'.
fn merged(documents: Vec<RunDocument>) -> RunDocument {
    let mean_of = |stacks: &[&StackResult], figure: fn(&StackResult) -> Option<f64>| {
        let values: Vec<f64> = stacks.iter().filter_map(|stack| figure(stack)).collect();
        wavelane_measure::mean(&values)
    };
    let mut all = documents[0].clone();
    all.scenario = "demo".into();
    all.repeat = documents.len() as u32;
    for stack in &mut all.stacks {
        let runs = documents.iter().flat_map(|d| &d.stacks).filter(|s| s.stack == stack.stack).collect::<Vec<_>>();
        *stack = StackResult {
            stack: stack.stack.clone(),
            wire_bytes_per_delivered_byte: mean_of(&runs, |s| s.wire_bytes_per_delivered_byte),
            inconclusive: runs.iter().find_map(|s| s.inconclusive.clone()),
            flows: runs.iter().flat_map(|s| s.flows.clone()).collect(),
            ..StackResult::default()
        };
    }
    all
}

/// Rate and loss-free share of time of the bad channel towards the client.
fn link(scenario: &Scenario) -> Option<(f64, f64)> {
    let air = scenario.channels_between_gateways().next()?.direction(Direction::Reverse)?;
    let wavelane_scenario::LossConfig::GilbertElliott { good, bad, .. } = &air.loss else { return None };
    let (good, bad) = (good.as_secs_f64(), bad.as_secs_f64());
    Some((air.rate?.as_bps() as f64, good / (good + bad)))
}

fn judge(scenario: &Scenario, document: &RunDocument) -> Vec<Row> {
    let mut rows = Vec::new();
    for stack in &document.stacks {
        for &(metric, unit) in METRICS {
            rows.push(measured(scenario, document, stack, metric, unit));
        }
    }
    for omitted in &document.omitted {
        let mut row = row(document, &omitted.stack, "goodput_bps", "bit/s");
        row.verdict = Verdict::Inconclusive;
        row.why = format!("not run: {}", omitted.why);
        rows.push(row);
    }
    let ours = document.stacks.iter().find(|s| s.stack == Stack::WAVELANE.word());
    let rivals = document.stacks.iter().filter(|s| s.stack != Stack::WAVELANE.word());
    match ours {
        Some(ours) => rows.extend(rivals.flat_map(|rival| claims(document, ours, rival))),
        None => {
            let mut row = row(document, "wavelane", "geomean_ratio", "ratio");
            row.verdict = Verdict::Inconclusive;
            row.why = "wavelane was not run".into();
            rows.push(row);
        }
    }
    rows
}

fn row(document: &RunDocument, stack: &str, metric: &str, unit: &str) -> Row {
    Row::new(ID, &document.backend, stack, metric, unit)
}

/// The figure per seed, in the seeds' order; `None` where a run lacks it.
fn values(stack: &StackResult, flow: &str, metric: Metric) -> Vec<Option<f64>> {
    let of_flow = |f: &&FlowFigures| f.flow == flow;
    stack.flows.iter().filter(of_flow).map(|f| figure(metric, stack, f)).collect()
}

/// One stack's metric: goodput is judged against what the link can carry at all, the rest is information.
fn measured(scenario: &Scenario, document: &RunDocument, stack: &StackResult, metric: Metric, unit: &str) -> Row {
    let of_echo = matches!(metric, Metric::RttP50Ms | Metric::RttP95Ms | Metric::RttP99Ms);
    let flow = if of_echo { ECHO } else { BULK };
    let mut row = row(document, &stack.stack, metric.word(), unit);
    let cell = [("scenario", json!(document.scenario)), ("flow", json!(flow))];
    row.case = cell.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<String, Value>>();
    let present: Vec<f64> = values(stack, flow, metric).into_iter().flatten().collect();
    row.n = present.len() as u64;
    if let Some((mean, half)) = mean_ci95(&present) {
        // A figure of the whole stack is pooled over the runs already: it has no spread of its own.
        row.value = Some(mean);
        row.ci95 = half.filter(|_| !metric.is_of_stack());
    }
    row.why = format!("over {} of {} runs", row.n, document.repeat);
    if let (Metric::GoodputBps, Some((rate, up))) = (metric, link(scenario)) {
        let share = if stack.stack == "wavelane" { WAVELANE_PAYLOAD_SHARE } else { TCP_PAYLOAD_SHARE };
        row.bound = Some(rate * up * share);
        // One run's bursts differ from the mean, so only the loss-free rate cannot be exceeded. Bytes that waited in
        // the queue before the first byte was read make no difference at this size.
        let ceiling = rate * share;
        let most = present.iter().copied().fold(0.0, f64::max);
        row.verdict = if most <= ceiling { Verdict::Pass } else { Verdict::Fail };
        let sign = if most <= ceiling { "<=" } else { "exceeds" };
        row.why =
            format!("fastest run {:.3} Mbit/s {sign} {:.3} Mbit/s, the link without loss", most / 1e6, ceiling / 1e6);
    }
    if let Some(why) = &stack.inconclusive {
        row.verdict = Verdict::Inconclusive;
        row.why.clone_from(why);
    }
    row
}

/// Faster than the rival, and calmer if the rival reaches half our goodput.
fn claims(document: &RunDocument, ours: &StackResult, rival: &StackResult) -> Vec<Row> {
    let name = &rival.stack;
    let goodput = geomean_ratio(ours, rival, BULK, Metric::GoodputBps);
    let delay = geomean_ratio(ours, rival, ECHO, Metric::RttP95Ms);
    let mut faster = row(document, &ours.stack, &format!("geomean_ratio goodput_bps over {name}"), "ratio");
    claim(&mut faster, goodput, |ratio| ratio >= 1.0, "at least 1");
    let mut calmer = row(document, &ours.stack, &format!("geomean_ratio rtt_p95_ms over {name}"), "ratio");
    claim(&mut calmer, delay, |ratio| ratio <= 1.0, "at most 1");
    // Ours over theirs: a rival below RIVAL_SHARE of our goodput makes this ratio exceed its inverse.
    if let Some((ratio, _)) = goodput.filter(|(ratio, _)| ratio * RIVAL_SHARE > 1.0) {
        calmer.verdict = Verdict::Info;
        calmer.why = format!("{name} reaches {:.2} of our goodput, less than {RIVAL_SHARE}: no rival", 1.0 / ratio);
    }
    for row in [&mut faster, &mut calmer] {
        if let Some(why) = ours.inconclusive.as_ref().or(rival.inconclusive.as_ref()) {
            row.verdict = Verdict::Inconclusive;
            row.why.clone_from(why);
        }
    }
    vec![faster, calmer]
}

/// Geometric mean over the seeds of ours / theirs, and how many seeds; `None` if a run lacks the figure.
fn geomean_ratio(ours: &StackResult, rival: &StackResult, flow: &str, metric: Metric) -> Option<(f64, u64)> {
    let pairs = values(ours, flow, metric).into_iter().zip(values(rival, flow, metric));
    let logs: Option<Vec<f64>> = pairs.map(|(a, b)| a.zip(b).map(|(a, b)| (a / b).ln())).collect();
    let logs = logs?;
    let (mean, _) = mean_ci95(&logs)?;
    mean.is_finite().then(|| (mean.exp(), logs.len() as u64))
}

fn claim(row: &mut Row, ratio: Option<(f64, u64)>, holds: impl Fn(f64) -> bool, wanted: &str) {
    match ratio {
        None => {
            row.verdict = Verdict::Inconclusive;
            row.why = "a run lacks the figure".into();
        }
        Some((ratio, n)) => {
            row.value = Some(ratio);
            row.n = n;
            row.verdict = if holds(ratio) { Verdict::Pass } else { Verdict::Fail };
            row.why = format!("{}, wanted {wanted}", Row::number(ratio));
        }
    }
}

#[cfg(test)]
#[path = "main_job_tests.rs"]
mod tests;
