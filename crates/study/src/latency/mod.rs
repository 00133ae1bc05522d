//! Latency under load: what a queue's discipline leaves of it, for three congestion controls at four rates; and whether
//! the simulator's FIFO delays as the laboratory's does; a driver's deep ring and airtime queue limits in a radio cell; a shaper
//! before a link whose rate moves; and the probe beside irtt.

mod aql;
mod moving;
mod probe;
mod traces;

use crate::cells::{Aim, Head, joined};
use crate::document::{Edition, Row, StudyDocument};
use crate::experiments::{self, Experiment, Judge, LAB, rows_of};
use crate::home::{PACKET_BITS, PING, Seen, seen};
use crate::plan::{self, About};
use crate::{Setup, StudyError};
use wavelane_run::{CaptureExtent, Verdict};

/// The study's id.
pub(crate) const ID: &str = "latency";
/// Its parts: where the rows come from, or what they are of.
pub(crate) const PARTS: [&str; 4] = [SIM, LAB, MOVING, probe::PROBE];
const SIM: &str = "sim";
/// The shaper before a link whose rate moves, in virtual time.
const MOVING: &str = "moving";

/// Packets of the FIFO whose delay is compared between simulator and laboratory.
const SHORT_FIFO: f64 = 100.0;
const SECONDS: u64 = 30;
const SETTLE_S: u64 = 5;
/// The laboratory's own share of a round trip beside a busy machine.
const LAB_MS: f64 = 5.0;
/// A mean rise below this many milliseconds is an A on the scale of DSLReports.
const A_BELOW_MS: f64 = 30.0;
/// The simulator's delay is within this share of the laboratory's.
const WITHIN: f64 = 0.05;

/// The judge of that word in the plan.
fn judge(word: &str, about: About) -> Judge<Option<Seen>> {
    let make: fn(&About, &[&Seen]) -> Vec<Row> = match word {
        "disciplines" => disciplines,
        "short" => short_fifo,
        other => panic!("no judge is called {other}"),
    };
    Box::new(move |found| rows_of(found, &about.head(), MISSING, Seen::stack, |seen| make(&about, seen)))
}

/// What a row is of whose run could not be made.
const MISSING: (&str, &str) = ("rtt_p50_ms", "ms");

/// A figure of each seed less another.
fn rises(loaded: &[f64], idle: &[f64]) -> Vec<f64> {
    joined(loaded, idle, |loaded, idle| loaded - idle)
}

/// FQ-CoDel beside FIFO on the same link, one bulk flow.
fn disciplines(about: &About, seen: &[&Seen]) -> Vec<Row> {
    let heads = ["fifo", "fq-codel"].map(|queue| about.head().and("queue", queue));
    let rise = |run: usize, per_mille| rises(&seen[run].loaded(PING, SETTLE_S, per_mille), &seen[run].idle(PING, 500));
    let packet_ms = PACKET_BITS / about.number("kbit");
    // A bulk flow's packet in service, the one whose turn has begun, and one of its quantum.
    let limit = 3.0 * packet_ms + 1.0 + if about.word("part") == LAB { LAB_MS } else { 0.0 };
    let middle = heads[1].row("rtt_p50_rise_ms", "ms", &rise(1, 500)).bound_by(packet_ms);
    let tail = heads[1].row("rtt_p99_rise_ms", "ms", &rise(1, 990)).bound_by(limit).judged(Aim::AtMost(limit));
    let means = rises(&seen[1].means(PING, false, SETTLE_S), &seen[1].means(PING, true, SETTLE_S));
    let letter = heads[1].row("rtt_mean_rise_ms", "ms", &means).judged(Aim::Below(A_BELOW_MS));
    let letter = letter.noting(&format!("below {A_BELOW_MS} ms is A on the scale of DSLReports"));
    let carried = [0, 1].map(|run| seen[run].goodput(SETTLE_S, SECONDS));
    let kept = heads[1].row("goodput_of_fifo", "ratio", &joined(&carried[1], &carried[0], |a, b| a / b));
    let middle = middle.judged(Aim::AtMost(limit.min(10.0)));
    vec![heads[0].row("rtt_p50_rise_ms", "ms", &rise(0, 500)), middle, tail, letter, kept.judged(Aim::AtLeast(0.95))]
}

fn short_fifo(about: &About, seen: &[&Seen]) -> Vec<Row> {
    let row = about.head().row(MISSING.0, MISSING.1, &seen[0].loaded(PING, SETTLE_S, 500));
    vec![row.bound_by((SHORT_FIFO + 1.0) * PACKET_BITS / about.number("kbit"))]
}

fn all(edition: Edition) -> Vec<Experiment<(String, String), Option<Seen>>> {
    plan::experiments(include_str!("plan.toml"), edition, &PARTS, judge)
}

/// The simulator's median delay over the laboratory's, per case that both ran.
fn agreement(rows: &[Row]) -> Vec<Row> {
    let of = |place: &'static str| {
        let own = move |row: &&Row| row.backend == place && row.metric == MISSING.0;
        rows.iter().filter(own)
    };
    let same = |a: &Row, b: &Row| a.case == b.case && a.stack == b.stack;
    let pairs = of(LAB).filter_map(|lab| Some((lab, of(SIM).find(|sim| same(sim, lab))?)));
    let one = |(lab, sim): (&Row, &Row)| {
        let head = Head { id: ID.into(), backend: "lab".into(), case: lab.case.clone(), stack: lab.stack.clone() };
        let ratio: Vec<f64> = sim.value.zip(lab.value).map(|(sim, lab)| sim / lab).into_iter().collect();
        let mut row = head.row("sim_over_lab_p50", "ratio", &ratio).judged(Aim::AtLeast(1.0 - WITHIN));
        if row.verdict == Verdict::Pass {
            row = row.judged(Aim::AtMost(1.0 + WITHIN));
        }
        if lab.verdict == Verdict::Inconclusive {
            row.verdict = Verdict::Inconclusive;
            row.why = lab.why.clone();
        }
        row.bound = Some(1.0);
        row
    };
    pairs.map(one).collect()
}

/// Runs the edition's cells and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, hooks, .. } = *setup;
    let tasks = all(options.edition).into_iter();
    let mut rows = experiments::run(ID, CaptureExtent::Headers, tasks, seen, setup)?.rows;
    let claims = agreement(&rows);
    claims.iter().for_each(options.row);
    rows.extend(claims);
    if options.wants(SIM) {
        rows.extend(aql::run(options, hooks)?);
    }
    if options.wants(MOVING) {
        rows.extend(moving::run(options, hooks)?);
    }
    if options.wants(probe::PROBE) {
        rows.extend(probe::run(options, hooks)?);
    }
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_told_per_case() {
        let row = |place: &str, ms: f64| Head::new(ID, place, &[], "tcp-cubic").row("rtt_p50_ms", "ms", &[ms]);
        let verdict = |sim: f64, lab: f64| {
            let claims = agreement(&[row(SIM, sim), row(LAB, lab)]);
            assert_eq!(claims.len(), 1);
            claims[0].verdict
        };
        assert_eq!((verdict(200.0, 191.0), verdict(200.0, 209.0)), (Verdict::Pass, Verdict::Pass));
        assert_eq!((verdict(200.0, 190.0), verdict(200.0, 211.0)), (Verdict::Fail, Verdict::Fail));
        assert_eq!(agreement(&[row(LAB, 1.0)]).len(), 0);
        let (sim, mut lab) = (row(SIM, 200.0), row(LAB, 200.0));
        lab.verdict = Verdict::Inconclusive;
        assert_eq!(agreement(&[sim, lab])[0].verdict, Verdict::Inconclusive);
    }

    #[test]
    fn every_rate_and_control_is_run() {
        let names = |edition| -> Vec<String> {
            let parse = |text: &str| wavelane_scenario::Scenario::parse(text, std::path::Path::new(".")).expect(text);
            let runs = all(edition).into_iter().flat_map(|of| of.runs).inspect(|(_, text)| drop(parse(text)));
            runs.map(|(name, _)| name).collect()
        };
        let (quick, full) = (names(Edition::Quick), names(Edition::Full));
        assert_eq!((quick.len(), full.len()), (24 + 1 + 2 + 1, 24 + 4 + 16 + 4));
        assert!(quick.iter().all(|name| full.contains(name)));
    }
}
