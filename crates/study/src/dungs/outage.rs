//! `S4-E16`: the same where the half on the air knows of outages. `S4-E4`: how long a transfer stands still after an outage, end to end and behind a proxy whose half on the air backs off less.

use super::Found;
use crate::cells::{Aim, Head};
use crate::document::{Edition, Row};
use serde_json::json;

/// Timers of the source's time, in ms: with either 29 s follow from 16 s.
const FLOORS_MS: [u64; 2] = [228, 935];
/// The source's outage, and after which time its transfer went on.
const HANDOVER_MS: u64 = 16_000;
const PUBLISHED_S: f64 = 29.0;
const OUTAGES_MS: [u64; 24] = [
    100, 300, 500, 700, 900, 1_200, 1_700, 2_200, 3_000, 4_000, 4_600, 5_000, 6_500, 8_000, 9_100, 9_300, 11_000,
    13_500, 16_000, 18_300, 18_600, 22_000, 26_000, 30_000,
];
/// When it begins.
const FROM_S: f64 = 5.0;
/// The longest time between two tries of the proxy's half on the air: 15 of them outlast the longest outage, as Linux counts
/// (`tcp_retries2`); with 1 s the connection would be given up after 15 s.
const PROXY_RTO_S: f64 = 3.0;
/// How often the half on the air tries in `S4-E16`, and the path's round trip without a queue: 4 ms of delay, a segment and its
/// acknowledgement at 6 Mbit/s.
const PROBE_S: f64 = 0.2;
const ROUND_TRIP_S: f64 = 0.0063;
const CLOCKS_S: f64 = 0.02;
/// The source's handover with such tries: its outage, one of them, round trips and the way over the home agent.
const HANDOVER_MAX_S: f64 = 16.3;
/// Longer than a timeout, or nothing is out.
const E16_FROM_MS: u64 = 500;
/// A round trip, and what lies in the queue before it.
const SLACK_S: f64 = 0.2;

/// A mobile that sends is told to stop ahead of a gap, and to go on by one acknowledgement or by three more.
const FREEZE_STACKS: [&str; 2] = ["tcp-2001+split", "tcp-bbr+split"];
const GAPS_MS: [u64; 2] = [400, 4_000];
const WAYS: [&str; 2] = ["one", "three"];

/// What the mobile sends from half a second to a second after a gap, as a share of what it sent before.
fn kept(found: &Found<'_>, name: &str, stack: &str, gap_ms: u64) -> Vec<f64> {
    let back = FROM_S + gap_ms as f64 / 1e3;
    found.values(name, stack, |seen| {
        let kept = seen.between(back + 0.5, back + 1.0) / seen.between(FROM_S - 2.0, FROM_S - 0.5);
        Some(kept).filter(|kept| kept.is_finite())
    })
}

/// From the begin of the outage to the next data.
fn restart(found: &Found<'_>, name: &str, stack: &str) -> Vec<f64> {
    found.values(name, stack, |seen| seen.pause_s.filter(|pause| pause.0 >= FROM_S - 0.5).map(|pause| pause.1 - FROM_S))
}

/// Timers that double from `first` on: the first that runs out after the outage.
fn ladder(first: f64, outage: f64) -> f64 {
    let mut sum = first;
    let mut step = first;
    while sum < outage {
        step *= 2.0;
        sum += step;
    }
    sum
}

pub(super) fn rows(found: &Found<'_>, _edition: Edition) -> Vec<Row> {
    let mut rows = Vec::new();
    let outage = HANDOVER_MS as f64 / 1e3;
    for floor in FLOORS_MS {
        let case = [("rto_floor_ms", json!(floor)), ("outage_s", json!(outage))];
        rows.push(
            Head::sim("S4-E4", &case, "tcp-reno")
                .row("restart_s", "s", &restart(found, &format!("e4-floor-{floor}"), "tcp-reno"))
                .between(PUBLISHED_S - SLACK_S, PUBLISHED_S + SLACK_S)
                .published_as(PUBLISHED_S)
                .bound_by(ladder(floor as f64 / 1e3, outage)),
        );
    }
    // Between two networks, with an address that a home agent keeps.
    let case = [("gap_s", json!(outage)), ("mobile_ip", json!(true))];
    let restarts = |name: &str, stack: &str| restart(found, name, stack);
    rows.push(
        Head::sim("S4-E4", &case, "tcp-cubic")
            .row("restart_s", "s", &restarts("e4-mobile-ip", "tcp-cubic"))
            .between(outage, 2.0 * outage + 2.0 * SLACK_S)
            .bound_by(outage),
    );
    rows.push(
        Head::sim("S4-E16", &case, "tcp-cubic+split")
            .row("restart_s", "s", &restarts("e16-mobile-ip", "tcp-cubic+split"))
            .judged(Aim::AtMost(HANDOVER_MAX_S))
            .bound_by(outage),
    );
    for outage_ms in OUTAGES_MS {
        let (name, outage) = (format!("e4-{outage_ms}"), outage_ms as f64 / 1e3);
        let case = [("outage_s", json!(outage))];
        // Each timer runs out no later than after twice the time that has passed.
        rows.push(
            Head::sim("S4-E4", &case, "tcp-cubic")
                .row("restart_s", "s", &restart(found, &name, "tcp-cubic"))
                .between(outage, 2.0 * outage + 2.0 * SLACK_S)
                .bound_by(outage),
        );
        rows.push(
            Head::sim("S4-E4", &case, "tcp-cubic+split")
                .row("restart_s", "s", &restart(found, &name, "tcp-cubic+split"))
                .judged(Aim::AtMost(outage + PROXY_RTO_S + SLACK_S))
                .bound_by(outage),
        );
        if outage_ms >= E16_FROM_MS {
            rows.push(
                Head::sim("S4-E16", &case, "tcp-cubic+split")
                    .row("restart_s", "s", &restart(found, &format!("e16-{outage_ms}"), "tcp-cubic+split"))
                    .judged(Aim::AtMost(outage + PROBE_S + 1.2 * ROUND_TRIP_S + CLOCKS_S))
                    .bound_by(outage),
            );
        }
    }
    for (gap, way, stack) in
        GAPS_MS.iter().flat_map(|gap| WAYS.map(|way| FREEZE_STACKS.map(|stack| (*gap, way, stack)))).flatten()
    {
        let case = [("gap_s", json!(gap as f64 / 1e3)), ("freeze", json!(way))];
        // BBR takes three acknowledgements for no congestion.
        let want = match (way, stack == FREEZE_STACKS[0], gap == GAPS_MS[0]) {
            ("one", true, true) | ("one", false, _) => Some(Aim::AtLeast(0.9)),
            ("three", true, true) => Some(Aim::Between(0.4, 0.7)),
            _ => None,
        };
        let values = kept(found, &format!("e16-{way}-{gap}"), stack, gap);
        rows.push(Head::sim("S4-E16", &case, stack).row("kept", "1", &values).judged(want));
    }
    rows
}
