//! Steps of rate and delay every 15 s, as a satellite's handovers bring.

use super::net::{Lane, Way, bulk, change, echo, scenario};
use super::seen::Seen;
use super::thin::FULL_OVER_PAYLOAD;
use super::{ID, OURS, STACKS, Task};
use crate::cells::{Aim, joined, judge};
use crate::document::Row;
use serde_json::json;

const STEP_S: u64 = 15;
/// Out and back in kbit/s, and the delay each way in ms.
const STEPS: [(u64, u64, u64); 8] = [
    (25_000, 2_500, 25),
    (10_000, 2_000, 35),
    (35_000, 3_000, 22),
    (15_000, 1_250, 45),
    (45_000, 3_750, 30),
    (7_500, 1_500, 28),
    (30_000, 2_500, 40),
    (20_000, 2_000, 24),
];
const SECONDS: u64 = STEP_S * STEPS.len() as u64;
const FROM_S: f64 = 5.0;
const SHARE: f64 = 0.9;
const ECHO_TIMES: f64 = 2.0;

fn text(title: &str, stacks: &[&str], flows: &str) -> String {
    let (out, back, delay) = STEPS[0];
    let lane = Lane::Ways(Way::new(out * 1_000, delay, "250 kB"), Way::new(back * 1_000, delay, "50 kB"));
    let mut text = scenario(title, SECONDS, stacks, &[("air", lane)]) + flows;
    for (step, (out, back, delay)) in STEPS.iter().enumerate().skip(1) {
        let at = STEP_S * step as u64;
        for (way, kbit) in [("forward", out), ("reverse", back)] {
            text += &change(at, &format!("air.{way}.rate"), &format!("\"{kbit} kbit/s\""));
            text += &change(at, &format!("air.{way}.delay"), &format!("\"{delay} ms\""));
        }
    }
    text
}

fn rows(seen: &[Seen]) -> Vec<Row> {
    let (loaded, until) = (&seen[0], SECONDS as f64);
    let case = [("steps_every_s", json!(STEP_S))];
    let unloaded = seen.get(1).and_then(|idle| idle.stack("tcp-cubic"));
    let unloaded = unloaded.map(|s| s.echo(50, FROM_S, until)).unwrap_or_default();
    let mut rows = Vec::new();
    for stack in STACKS {
        let head = loaded.head(ID, &case, stack);
        let found = loaded.stack(stack);
        let share = found.map(|s| s.bulk(|f| Some(f.link_share? * FULL_OVER_PAYLOAD))).unwrap_or_default();
        let p95 = found.map(|s| s.echo(95, FROM_S, until)).unwrap_or_default();
        let times = joined(&p95, &unloaded, |p95, p50| p95 / p50);
        let mut share = head.row("limit_share", "ratio", &share).bound_by(1_437.0 / 1_448.0);
        let mut echo = head.row("echo_p95_over_unloaded", "ratio", &times).bound_by(1.0);
        if stack == OURS {
            judge(&mut share, Aim::AtLeast(SHARE));
            judge(&mut echo, Aim::AtMost(ECHO_TIMES));
        } else if found.is_none() {
            continue;
        }
        rows.extend([share, echo]);
    }
    rows
}

pub(super) fn tasks() -> Vec<Task> {
    let loaded = text("Rate and delay step every 15 s", &STACKS, &(bulk(None) + &echo(64, 100)));
    let idle = text("Rate and delay step every 15 s, idle", &["tcp-cubic"], &echo(64, 100));
    vec![Task::new("steps", vec![("steps".into(), loaded), ("steps-idle".into(), idle)], rows).seeds(5)]
}
