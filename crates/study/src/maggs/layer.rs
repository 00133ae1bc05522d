//! S0-E13 and E16: the layer that sends lost packets again below TCP, as in 1998 and as it is now.

use super::net::{download, gateways, lossy};
use super::{RENO, Run, Seen, Task, each};
use crate::cells::{Aim, Head, joined};
use crate::document::Row;
use serde_json::json;
use wavelane_measure::mean;

/// TCP end to end through gateways.
pub(super) const WHOLE: &str = "wavelane+unsplit";
const CUBIC: &str = "tcp-cubic";
/// The layer's words, as `tries` of a gateway has them.
pub(super) const LAYERS: [&str; 2] = ["1998", "evidence"];
/// Time of an exchange.
const KEYS_SECONDS: u64 = 300;
/// How often a key is hit.
const EVERY_MS: u64 = 200;

pub(super) fn tasks(full: bool) -> Vec<Task> {
    let seeds = if full { 30 } else { 10 };
    vec![bulk(seeds), gaps(), keys(seeds)]
}

/// Two gateways, 2 Mbit/s, so much delay each way, and what each direction loses in per cent.
fn text(seconds: u64, delay_ms: u64, [up, down]: [u32; 2], layer: &str, more: &str) -> String {
    let [up, down] = [up, down].map(|percent| lossy(delay_ms, percent, ""));
    let rest = format!(
        "[gateways.laptop]\ntries = \"{layer}\"\n[gateways.desktop]\ntries = \"{layer}\"\n[channels.air]\nbetween = [\"laptop\", \"desktop\"]\n\
         forward = {up}\nreverse = {down}\n{more}"
    );
    gateways("A layer below TCP", seconds, &[RENO, CUBIC, WHOLE], ["home", "laptop", "desktop", "campus"], &rest)
}

/// E13's download.
pub(super) fn download_text(seconds: u64, layer: &str) -> String {
    let tcp = "[tcp]\nrto-min = \"1 s\"\nsack = false\ntimestamps = false\nlimited-transmit = false\n";
    text(seconds, 25, [0, 10], layer, &(tcp.to_owned() + &download("home", "campus") + "control = \"reno\"\n"))
}

/// E16's keys and packets, one every so many milliseconds after so many seconds.
pub(super) fn keys_text(seconds: u64, layer: &str, every_ms: u64, start_s: u64) -> String {
    let echo = format!(
        "[flows.keys]\napp = \"echo\"\nfrom = \"home\"\nto = \"campus\"\nsize = \"64 B\"\nevery = \"{every_ms} ms\"\n\
         start = \"{start_s} s\"\n[flows.ping]\napp = \"ping\"\nfrom = \"home\"\nto = \"campus\"\nsize = \"64 B\"\nevery = \"{every_ms} ms\"\nstart = \"{start_s} s\"\n"
    );
    text(seconds, 5, [70, 0], layer, &echo)
}

/// E13: a download that loses one packet in ten, by TCP without SACK whose timer is never below a second.
fn bulk(seeds: u64) -> Task {
    let of = |layer: &str| download_text(120, layer);
    let mut runs = Vec::new();
    for (stack, layer) in [(RENO, LAYERS[0]), (WHOLE, LAYERS[0]), (WHOLE, LAYERS[1])] {
        runs.extend((0..seeds).map(|seed| Run::new(&of(layer), stack, seed)));
    }
    let judge = move |seen: &[Seen]| {
        let without = &seen[..seeds as usize];
        let bps = |seen: &[Seen]| each(seen, Seen::down_bps);
        let mut rows =
            vec![Head::sim("S0-E13", &[("layer", json!("none"))], RENO).row("goodput_bps", "bit/s", &bps(without))];
        for (layer, with) in LAYERS.into_iter().zip(seen[seeds as usize..].chunks(seeds as usize)) {
            let head = Head::sim("S0-E13", &[("layer", json!(layer))], WHOLE);
            rows.push(head.row("goodput_bps", "bit/s", &bps(with)));
            let gains = joined(&bps(with), &bps(without), |with, without| with / without);
            let [more, less] = [with, without].map(|seen| each(seen, |seen| seen.timeouts as f64));
            let fewer = joined(&more, &less, |with, without| with / without.max(1.0));
            let timeouts = head.row("timeouts_over_without", "ratio", &fewer).judged(Aim::AtMost(0.2));
            let [more, less] = [more, less].map(|counts| mean(&counts).unwrap_or(0.0));
            let words = format!("{more:.1} timeouts, {less:.1} without");
            let gains = head.row("over_without", "ratio", &gains).judged(Aim::AtLeast(5.0));
            rows.extend([gains, timeouts.noting(&words)]);
        }
        rows
    };
    Task::new("loss", runs, judge)
}

/// E13: how often a packet is tried that never arrives, at two round trips.
fn gaps() -> Task {
    const DELAYS: [u64; 2] = [10, 35];
    const PACKETS: f64 = 3.0;
    // Before, the session carries something each way, as one in use has.
    let flows = "[flows.warm-down]\napp = \"download\"\nfrom = \"home\"\nto = \"campus\"\nstop = \"8 s\"\n[flows.warm-up]\napp = \"upload\"\n\
                 from = \"home\"\nto = \"campus\"\nstop = \"8 s\"\n[flows.ping]\napp = \"ping\"\nfrom = \"home\"\nto = \"campus\"\nsize = \"64 B\"\n\
                 every = \"10 s\"\nstart = \"10 s\"\n";
    let outages = "queue = \"50 packets\", outages = [{ at = \"9 s\", for = \"4 s\" }, { at = \"19 s\", for = \"4 s\" }, \
                   { at = \"29 s\", for = \"4 s\" }]";
    let of = |delay: u64| {
        let alive = text(35, delay, [0, 0], LAYERS[0], flows);
        let dead = alive.replacen("queue = \"50 packets\"", outages, 1);
        [alive, dead].map(|text| Run::new(&text, WHOLE, 0))
    };
    let runs = DELAYS.into_iter().flat_map(of).collect();
    let judge = |seen: &[Seen]| {
        let of = |(delay, seen): (u64, &[Seen])| {
            let tries = seen[1].repeated.saturating_sub(seen[0].repeated) as f64 / PACKETS;
            // So many tries lie within a second, one more would not.
            let gap = 1_000.0 / (tries + 0.5);
            let case = [("rtt_ms", json!(2 * delay)), ("layer", json!(LAYERS[0]))];
            Head::sim("S0-E13", &case, WHOLE)
                .row("mean_gap_ms", "ms", &[gap])
                .judged(Aim::AtMost(110.0))
                .noting(&format!("{tries:.1} more tries of a packet within a dead second"))
        };
        DELAYS.into_iter().zip(seen.chunks(2)).map(of).collect()
    };
    Task::new("loss", runs, judge)
}

/// E16: keys whose packets up are lost seven times in ten.
fn keys(seeds: u64) -> Task {
    let of = |layer: &str| keys_text(KEYS_SECONDS, layer, EVERY_MS, 30);
    let mut runs = Vec::new();
    for (stack, layer) in [(CUBIC, LAYERS[0]), (WHOLE, LAYERS[0]), (WHOLE, LAYERS[1])] {
        runs.extend((0..seeds).map(|seed| Run::new(&of(layer), stack, seed)));
    }
    let judge = move |seen: &[Seen]| {
        let names = [("none", CUBIC), (LAYERS[0], WHOLE), (LAYERS[1], WHOLE)];
        let mut rows: Vec<Row> = Vec::new();
        for ((layer, stack), seen) in names.into_iter().zip(seen.chunks(seeds as usize)) {
            let head = Head::sim("S0-E16", &[("layer", json!(layer)), ("lost_up", json!(0.7))], stack);
            let of = |figure: fn(&super::FlowSeen) -> Option<f64>| -> Vec<f64> {
                seen.iter().filter_map(|seen| figure(&seen.flow("keys"))).collect()
            };
            let slow =
                |flow: &str| each(seen, |seen| seen.flow(flow).slow as f64 / (seen.flow(flow).asked as f64).max(1.0));
            rows.push(head.row("keys_over_1_s", "share", &slow("keys")));
            // A packet alone, which no TCP sends again.
            let mut packets = head.row("packets_over_1_s", "share", &slow("ping"));
            let p99 = head.row("echo_p99_ms", "ms", &of(|keys| keys.p99_ms));
            if layer == LAYERS[0] {
                // Of tries 12.5, 25, 50, 100, 100 ... ms apart, each lost with 0.7.
                packets.bound = Some(0.0097);
                packets = packets.between(0.005, 0.02);
            }
            rows.extend([
                packets,
                head.row("echo_p50_ms", "ms", &of(|keys| keys.p50_ms)),
                head.row("echo_p95_ms", "ms", &of(|keys| keys.p95_ms)),
            ]);
            rows.push(if layer == LAYERS[1] { p99.judged(Aim::AtMost(700.0)) } else { p99 });
        }
        rows
    };
    Task::new("keys", runs, judge)
}
