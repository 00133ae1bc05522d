//! Bluetooth 1.1: `S4-E5` (UDP and its jumps), `S4-E6` (TCP with 8 kB), `S4-E7` (without an access point).

use super::{Found, Seen};
use crate::cells::{Aim, Head};
use crate::document::{Edition, Row};
use serde_json::json;

const STACK: &str = "tcp-reno";
/// Levels of the source's link, with the closed form in bit/s (28, 42 and 48 slots for 1,470 B).
const LEVELS: [(&str, f64); 3] = [("DH5", 672e3), ("DM5", 448e3), ("symmetric", 392e3)];
const TCP_BPS: f64 = 644e3;
const WINDOW: f64 = 8_192.0;
/// Wired round trips, in ms.
const WIRED_MS: [u64; 4] = [2, 50, 100, 200];
/// A level is held by a second within this part of it.
const NEAR: f64 = 0.04;

/// How many levels two seconds or more hold.
fn plateaus(seen: &Seen) -> f64 {
    let seconds: Vec<f64> = seen.halves_bps.chunks_exact(2).map(|two| (two[0] + two[1]) / 2.0).collect();
    let held = |level: f64| seconds.iter().filter(|bps| (*bps / level - 1.0).abs() <= NEAR).count() >= 2;
    LEVELS.iter().filter(|(_, level)| held(*level)).count() as f64
}

/// Jumps: seconds that differ by a fifth from the one before.
fn jumps(seen: &Seen) -> f64 {
    let seconds: Vec<f64> = seen.halves_bps.chunks_exact(2).skip(1).map(|two| (two[0] + two[1]) / 2.0).collect();
    seconds.windows(2).filter(|two| (two[1] / two[0].max(1.0) - 1.0).abs() > 0.2).count() as f64
}

pub(super) fn rows(found: &Found<'_>, _edition: Edition) -> Vec<Row> {
    let mut rows = Vec::new();
    for (word, level) in LEVELS {
        let values = found.values(&format!("e5-{word}"), "udp", |seen| Some(seen.between(2.0, 30.0)));
        let case = [("link", json!(word))];
        let want = Some(Aim::Between(0.99 * level, 1.01 * level));
        rows.push(Head::sim("S4-E5", &case, "udp").row("goodput_bps", "bit/s", &values).judged(want).bound_by(level));
    }
    for (word, id) in [("ap", "S4-E5"), ("ad-hoc", "S4-E7")] {
        let case = [("network", json!(word))];
        let name = format!("e5-{word}");
        let head = Head::sim(id, &case, "udp");
        let want = if word == "ap" { Some(Aim::AtLeast(2.0)) } else { None };
        rows.push(
            head.row("plateaus", "levels", &found.values(&name, "udp", |seen| Some(plateaus(seen)))).judged(want),
        );
        rows.push(head.row("jumps", "jumps", &found.values(&name, "udp", |seen| Some(jumps(seen)))));
        rows.push(head.row("goodput_bps", "bit/s", &found.goodputs(&name, "udp")));
        let name = format!("e6-{word}");
        rows.push(Head::sim(id, &case, STACK).row("goodput_bps", "bit/s", &found.goodputs(&name, STACK)));
    }
    let jumps = |name: &str| found.values(name, "udp", |seen| Some(jumps(seen)));
    let fewer: Vec<f64> = jumps("e5-ad-hoc").iter().zip(jumps("e5-ap")).map(|(a, b)| a - b).collect();
    let mut row = Head::sim("S4-E7", &[], "udp").row("jumps_less_those_behind_an_ap", "jumps", &[]);
    row.value = wavelane_measure::mean(&fewer);
    row.n = fewer.len() as u64;
    row.why = "the times of both schedulers are a choice: the source gives none".into();
    rows.push(row);
    let open = found.values("e6-open", STACK, |seen| Some(seen.between(2.0, 30.0)));
    let want = Some(Aim::Between(0.99 * TCP_BPS, 1.01 * TCP_BPS));
    rows.push(
        Head::sim("S4-E6", &[("window", json!("open"))], STACK)
            .row("goodput_bps", "bit/s", &open)
            .judged(want)
            .bound_by(TCP_BPS),
    );
    for wired in WIRED_MS {
        let bound = TCP_BPS.min(WINDOW * 8e3 / wired as f64);
        let values = found.values(&format!("e6-{wired}"), STACK, |seen| Some(seen.between(2.0, 30.0)));
        let case = [("window", json!("8 kB")), ("wired_rtt_ms", json!(wired))];
        let head = Head::sim("S4-E6", &case, STACK);
        // Behind 98 ms the window binds: less than the link's rate, and no more than a window a round trip.
        let most = if wired >= 98 { bound.min(0.97 * TCP_BPS) } else { 1.01 * TCP_BPS };
        rows.push(head.row("goodput_bps", "bit/s", &values).judged(Aim::AtMost(most)).bound_by(bound));
    }
    rows
}
