//! S0-E12: loss of data and of acknowledgements against TCP of its day, and silences.

use super::net::{self, DOWN, direct, download};
use super::{OLD, RENO, Run, Seen, Task, each};
use crate::cells::{Aim, Head};
use serde_json::json;
use wavelane_measure::mean;

const PART: &str = "loss";
const PERCENT: [u32; 7] = [0, 1, 2, 5, 10, 20, 30];
const STACKS: [&str; 3] = [OLD, RENO, "tcp-cubic"];
const SECONDS: u64 = 300;
/// Outages in seconds, each twice the time of the one before and a little more: so many tries are lost.
const OUTAGES: [u64; 4] = [2, 6, 14, 30];

/// 2 Mbit/s and 50 ms both ways together, which lose so much of data and of acknowledgements.
pub(super) fn text(seconds: u64, data: u32, acks: u32, more: &str) -> String {
    let (data, acks) = (net::lossy(25, data, more), net::lossy(25, acks, ""));
    let channel = format!("[channels.air]\nbetween = [\"campus\", \"home\"]\nforward = {data}\nreverse = {acks}\n");
    direct("Loss on a radio", seconds, &channel, &download("home", "campus"))
}

pub(super) fn tasks(full: bool) -> Vec<Task> {
    vec![lossy(if full { 10 } else { 3 }), silences()]
}

fn lossy(seeds: u64) -> Task {
    let mut cases = Vec::new();
    for stack in STACKS {
        for percent in PERCENT {
            cases.push((stack, "data", percent));
            if percent > 0 {
                cases.push((stack, "acknowledgements", percent));
            }
        }
    }
    let mut runs = Vec::new();
    for (stack, lost, percent) in &cases {
        let of = if *lost == "data" { text(SECONDS, *percent, 0, "") } else { text(SECONDS, 0, *percent, "") };
        runs.extend((0..seeds).map(|seed| Run::new(&of, stack, seed)));
    }
    let judge = move |seen: &[Seen]| {
        let of = |place: usize| &seen[place * seeds as usize..][..seeds as usize];
        let mut rows = Vec::new();
        for (place, (stack, lost, percent)) in cases.iter().enumerate() {
            let clean = cases.iter().position(|case| case.0 == *stack && case.2 == 0);
            let clean = clean.and_then(|at| mean(&each(of(at), Seen::down_bps))).unwrap_or(1.0);
            let head = Head::sim("S0-E12", &[("lost", json!(lost)), ("percent", json!(percent))], stack);
            let shares = each(of(place), |seen| seen.down_bps() / clean);
            let row = head.row("of_clean", "ratio", &shares);
            rows.push(match (*stack, *lost, *percent) {
                (OLD, "data", 10) => row.judged(Aim::AtMost(0.15)),
                (OLD, "acknowledgements", 10) => row.judged(Aim::AtLeast(0.95)),
                _ => row,
            });
            rows.push(head.row("longest_silence_s", "s", &each(of(place), |seen| seen.flow(DOWN).silence_s)));
        }
        rows
    };
    Task::new(PART, runs, judge)
}

/// A dead radio: how long until data comes again.
fn silences() -> Task {
    let of = |seconds: u64| text(SECONDS, 0, 0, &format!(", outages = [{{ at = \"20 s\", for = \"{seconds} s\" }}]"));
    let runs = OUTAGES.iter().map(|seconds| Run::new(&of(*seconds), OLD, 0)).collect();
    let judge = |seen: &[Seen]| {
        let silent = each(seen, |seen| seen.flow(DOWN).silence_s);
        let mut rows = Vec::new();
        for (seconds, silent) in OUTAGES.into_iter().zip(&silent) {
            rows.push(Head::sim("S0-E12", &[("outage_s", json!(seconds))], OLD).row("silence_s", "s", &[*silent]));
        }
        let steps: Vec<f64> = silent.windows(2).map(|pair| pair[1] / pair[0]).collect();
        let growth = steps.iter().product::<f64>().powf(1.0 / steps.len() as f64);
        let row = Head::sim("S0-E12", &[], OLD).row("silence_growth", "ratio", &[growth]);
        rows.push(row.between(1.7, 2.5).noting(&format!("silences of {silent:.1?} s")));
        rows
    };
    Task::new(PART, runs, judge)
}
