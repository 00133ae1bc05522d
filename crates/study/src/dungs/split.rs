//! What a proxy does to the server: `S4-E8` (its round trips) and `S4-E11` (what the proxy holds).

use super::Found;
use crate::cells::{Aim, Head};
use crate::document::{Edition, Row};
use serde_json::json;

const STACKS: [&str; 2] = ["tcp-reno", "tcp-reno+split"];
/// Wired round trip of the first, in ms.
const WIRED_MS: f64 = 10.0;
/// That of the second: long enough for the threshold to matter.
const FAR_MS: u64 = 100;
/// What the proxy may hold of each half, in KiB.
const HALVES_KIB: [u64; 7] = [16, 32, 64, 128, 256, 512, LARGEST];
const LARGEST: u64 = 1_024;
/// What waits between both halves at most, in bytes.
const BETWEEN: u64 = 1_024;
const SEGMENT: f64 = 1_460.0;
/// The cell's rate in bytes a second.
const RATE: f64 = 744e3;

pub(super) fn rows(found: &Found<'_>, _edition: Edition) -> Vec<Row> {
    let mut rows = Vec::new();
    for stack in STACKS {
        let split = stack == STACKS[1];
        let head = Head::sim("S4-E8", &[], stack);
        let rtt = found.values("e8", stack, |seen| seen.point("server-wire")?.rtt_ms);
        let want = if split { Some(Aim::AtMost(WIRED_MS + 2.0)) } else { None };
        rows.push(head.row("server_rtt_mean_ms", "ms", &rtt).judged(want).bound_by(WIRED_MS));
        let deviation = found.values("e8", stack, |seen| seen.point("server-wire")?.deviation_ms);
        rows.push(head.row("server_rtt_deviation_ms", "ms", &deviation));
        rows.push(head.row("goodput_bps", "bit/s", &found.goodputs("e8", stack)));
    }
    let largest = format!("e11-{LARGEST}");
    for kib in HALVES_KIB {
        let name = format!("e11-{kib}");
        let case = [("per_half", json!(format!("{kib} KiB"))), ("wired_rtt_ms", json!(FAR_MS))];
        let head = Head::sim("S4-E11", &case, STACKS[1]);
        let bound = (kib * 2 * 1_024 + BETWEEN) as f64;
        let held = found.values(&name, STACKS[1], |seen| seen.held);
        // A bound holds in every run.
        let most: Vec<f64> = held.into_iter().reduce(f64::max).into_iter().collect();
        let want = Some(Aim::AtMost(bound + SEGMENT));
        rows.push(head.row("held_most_bytes", "B", &most).judged(want).bound_by(bound));
        let ratio = found.ratios((&name, STACKS[1]), (&largest, STACKS[1]), |seen| Some(seen.between(5.0, 20.0)));
        // Each half holds what the path holds, beside what waits for the air.
        let air = found.values(&name, STACKS[1], |seen| seen.point("p-lan")?.rtt_ms);
        let path_ms = FAR_MS as f64 + wavelane_measure::mean(&air).unwrap_or(f64::INFINITY);
        let enough = kib == LARGEST || (kib * 1_024) as f64 >= RATE * path_ms / 1e3;
        let want = if enough { Some(Aim::AtLeast(0.97)) } else { None };
        rows.push(head.row("of_largest", "ratio", &ratio).judged(want));
    }
    rows
}
