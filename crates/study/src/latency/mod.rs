//! Latency under load: what a queue's discipline leaves of it, for three congestion controls at four rates; and whether
//! the simulator's FIFO delays as the laboratory's does; a driver's deep ring and airtime queue limits in a radio cell; a shaper
//! before a link whose rate moves; and the probe beside irtt.

mod aql;
mod moving;
mod probe;
mod traces;

use crate::cells::{Aim, Head, unproven};
use crate::document::{Edition, Row, StudyDocument};
use crate::gettys::{Found, Place, Run, Task, run_tasks};
use crate::home::{Air, Home, PACKET_BITS, PING, Seen, fifo, named};
use crate::{Setup, StudyError};
use serde_json::json;
use wavelane_run::Verdict;

/// The study's id.
pub(crate) const ID: &str = "latency";
/// Its parts: where the rows come from, or what they are of.
pub(crate) const PARTS: [&str; 4] = ["sim", "lab", MOVING, probe::PROBE];
/// The shaper before a link whose rate moves, in virtual time.
const MOVING: &str = "moving";

/// Rates in kbit/s, counting IP bytes.
const RATES: [u32; 4] = [6_000, 10_000, 25_000, 54_000];
/// Those at which the laboratory runs every congestion control.
const LAB_RATES: [u32; 2] = [6_000, 25_000];
const CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];
/// The FIFO that FQ-CoDel is held against: Linux's usual length.
const FIFO: u32 = 1_000;
/// The FIFO whose delay is compared between simulator and laboratory: its sawtooth is short beside a run.
const SHORT_FIFO: u32 = 100;
const SECONDS: u64 = 30;
const SETTLE_S: u64 = 5;
/// The laboratory's own share of a round trip beside a busy machine.
const LAB_MS: f64 = 5.0;
/// A mean rise below this many milliseconds is an A on the scale of DSLReports.
const A_BELOW_MS: f64 = 30.0;
/// The simulator's delay is within this share of the laboratory's.
const WITHIN: f64 = 0.05;

fn home(kbit: u32, control: &'static str, queue: (&str, String)) -> Home {
    let title = format!("A {control} upload at {} Mbit/s under {}", f64::from(kbit) / 1e3, queue.0);
    let air = Air::Cable { kbit, up: queue.1, down: fifo(FIFO) };
    Home { control, ..Home::new(title, air, SECONDS) }
}

fn head(place: Place, home: &Home, kbit: u32, queue: &str) -> Head {
    let case = [("rate", json!(format!("{} Mbit/s", kbit / 1_000))), ("queue", json!(queue))];
    Head::new(ID, place.word(), &case, &format!("tcp-{}", home.control))
}

/// The rise of a percentile over the idle median, per seed.
fn rises(seen: &Seen, per_mille: u64) -> Vec<f64> {
    let (idle, loaded) = (seen.idle(PING, 500), seen.loaded(PING, SETTLE_S, per_mille));
    idle.iter().zip(loaded).map(|(idle, loaded)| loaded - idle).collect()
}

/// The mean rise over the idle mean, per seed.
fn mean_rises(seen: &Seen) -> Vec<f64> {
    let (idle, loaded) = (seen.means(PING, true, SETTLE_S), seen.means(PING, false, SETTLE_S));
    idle.iter().zip(loaded).map(|(idle, loaded)| loaded - idle).collect()
}

/// FQ-CoDel beside FIFO on the same link, one bulk flow.
fn disciplines(place: Place, kbit: u32, control: &'static str) -> Task {
    let queues = [("fifo", fifo(FIFO)), ("fq-codel", named("fq-codel"))];
    let run =
        |queue: (&str, String)| Run { name: format!("{kbit}-{control}-{}", queue.0), home: home(kbit, control, queue) };
    let judge = move |found: &[Found<'_>]| judge_disciplines(place, kbit, found);
    Task { place, runs: queues.map(run).into(), judge: Box::new(judge) }
}

fn judge_disciplines(place: Place, kbit: u32, found: &[Found<'_>]) -> Vec<Row> {
    let heads = ["fifo", "fq-codel"].map(|queue| head(place, found[0].home, kbit, queue));
    let (Some(before), Some(after)) = (&found[0].seen, &found[1].seen) else { return vec![not_run(&heads[1])] };
    let packet_ms = PACKET_BITS / f64::from(kbit);
    // A bulk flow's packet in service, the one whose turn has begun, and one of its quantum.
    let limit = 3.0 * packet_ms + 1.0 + if place == Place::Lab { LAB_MS } else { 0.0 };
    let middle = heads[1].row("rtt_p50_rise_ms", "ms", &rises(after, 500));
    let middle = middle.bound_by(packet_ms).judged(Aim::AtMost(limit.min(10.0)));
    let tail = heads[1].row("rtt_p99_rise_ms", "ms", &rises(after, 990)).bound_by(limit).judged(Aim::AtMost(limit));
    let letter = heads[1]
        .row("rtt_mean_rise_ms", "ms", &mean_rises(after))
        .judged(Aim::Below(A_BELOW_MS))
        .noting(&format!("below {A_BELOW_MS} ms is A on the scale of DSLReports"));
    let carried = [before, after].map(|seen| seen.goodput(SETTLE_S, SECONDS));
    let shares: Vec<f64> = carried[1].iter().zip(&carried[0]).map(|(a, b)| a / b).collect();
    let kept = heads[1].row("goodput_of_fifo", "ratio", &shares).judged(Aim::AtLeast(0.95));
    let mut rows = vec![heads[0].row("rtt_p50_rise_ms", "ms", &rises(before, 500)), middle, tail, letter, kept];
    rows.iter_mut().for_each(|row| unproven(row, &[before.stack(), after.stack()]));
    rows
}

fn not_run(head: &Head) -> Row {
    let mut row = head.row("rtt_p50_ms", "ms", &[]);
    row.verdict = Verdict::Inconclusive;
    row.why = "a run of this experiment could not be made here".into();
    row
}

/// A short FIFO, whose median is compared between the two places.
const SHORT: &str = "fifo of 100 packets";

fn short_fifo(place: Place, kbit: u32, control: &'static str) -> Task {
    let home = home(kbit, control, (SHORT, fifo(SHORT_FIFO)));
    let judge = move |found: &[Found<'_>]| {
        let head = head(place, found[0].home, kbit, SHORT);
        let Some(seen) = &found[0].seen else { return vec![not_run(&head)] };
        let row = head.row("rtt_p50_ms", "ms", &seen.loaded(PING, SETTLE_S, 500));
        let mut row = row.bound_by(f64::from(SHORT_FIFO + 1) * PACKET_BITS / f64::from(kbit));
        unproven(&mut row, &[seen.stack()]);
        vec![row]
    };
    Task { place, runs: vec![Run { name: format!("{kbit}-{control}-short"), home }], judge: Box::new(judge) }
}

fn all(edition: Edition) -> Vec<Task> {
    let full = edition == Edition::Full;
    let mut tasks = Vec::new();
    for place in [Place::Sim, Place::Lab] {
        for kbit in RATES {
            for control in CONTROLS {
                // A run in the laboratory costs real time.
                let in_lab = full && (control == "cubic" || LAB_RATES.contains(&kbit));
                if place == Place::Sim || in_lab || (kbit, control) == (RATES[0], "cubic") {
                    tasks.push(disciplines(place, kbit, control));
                }
            }
            if kbit == RATES[0] || full {
                tasks.push(short_fifo(place, kbit, "cubic"));
            }
        }
    }
    tasks
}

/// The simulator's median delay over the laboratory's, per case that both ran.
fn agreement(rows: &[Row]) -> Vec<Row> {
    let of = |place: Place| {
        let own = move |row: &&Row| row.backend == place.word() && row.metric == "rtt_p50_ms";
        rows.iter().filter(own)
    };
    let same = |a: &Row, b: &Row| a.case == b.case && a.stack == b.stack;
    let pairs = of(Place::Lab).filter_map(|lab| Some((lab, of(Place::Sim).find(|sim| same(sim, lab))?)));
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
    let tasks = all(options.edition).into_iter().filter(|task| options.wants(task.place.word()));
    let mut rows = run_tasks(ID, tasks.collect(), setup)?;
    let claims = agreement(&rows);
    claims.iter().for_each(options.row);
    rows.extend(claims);
    if options.wants(Place::Sim.word()) {
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
        let home = home(6_000, "cubic", (SHORT, fifo(SHORT_FIFO)));
        let row = |place: Place, ms: f64| head(place, &home, 6_000, SHORT).row("rtt_p50_ms", "ms", &[ms]);
        let verdict = |sim: f64, lab: f64| {
            let claims = agreement(&[row(Place::Sim, sim), row(Place::Lab, lab)]);
            assert_eq!(claims.len(), 1);
            claims[0].verdict
        };
        assert_eq!((verdict(200.0, 191.0), verdict(200.0, 209.0)), (Verdict::Pass, Verdict::Pass));
        assert_eq!((verdict(200.0, 190.0), verdict(200.0, 211.0)), (Verdict::Fail, Verdict::Fail));
        assert_eq!(agreement(&[row(Place::Lab, 1.0)]).len(), 0);
        let (sim, mut lab) = (row(Place::Sim, 200.0), row(Place::Lab, 200.0));
        lab.verdict = Verdict::Inconclusive;
        assert_eq!(agreement(&[sim, lab])[0].verdict, Verdict::Inconclusive);
    }

    #[test]
    fn every_rate_and_control_is_run() {
        let names = |edition| -> Vec<String> {
            let of_task =
                |task: Task| task.runs.into_iter().map(move |run| format!("{}-{}", task.place.word(), run.name));
            all(edition).into_iter().flat_map(of_task).collect()
        };
        let (quick, full) = (names(Edition::Quick), names(Edition::Full));
        assert_eq!((quick.len(), full.len()), (24 + 1 + 2 + 1, 24 + 4 + 16 + 4));
        assert!(quick.iter().all(|name| full.contains(name)));
    }
}
