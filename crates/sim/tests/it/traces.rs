//! Channels that follow recordings of real links, through the backend.

use crate::backend::run_stack;
use std::path::Path;
use wavelane_base::{Instant, Span};
use wavelane_run::figures::{RunTotals, of_run, wire_bytes_per_delivered_byte};
use wavelane_scenario::{Scenario, Setting, Stack};

/// `scenarios/links/recorded.toml`, for some seconds.
fn recorded(seconds: u32, more: &[&str]) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/links/recorded.toml");
    let duration = format!("duration={seconds} s");
    let settings: Vec<Setting> =
        [duration.as_str()].iter().chain(more).map(|word| Setting::read(word).unwrap()).collect();
    Scenario::load_with(&file, &settings).unwrap()
}

/// The digest of all packets, the download's goodput and the echo's median.
fn digest(scenario: &Scenario, stack: &str) -> (String, f64, f64) {
    let stack = Stack::from_word(stack).unwrap();
    let raw = run_stack(scenario, stack, 1, false).unwrap();
    let figures = of_run(scenario, &raw, scenario.seed);
    let of = |name: &str| figures.iter().find(|flow| flow.flow == name).unwrap();
    let digest = raw.notes.iter().find(|note| note.starts_with("digest")).unwrap().clone();
    (digest, of("page").goodput_bps.unwrap(), of("echo").rtt_p50_ms.unwrap())
}

#[test]
fn a_recorded_link_carries_what_was_recorded_and_no_more() {
    let scenario = recorded(12, &["air.reverse.rate.scale=1/10"]);
    let air = scenario.channels.iter().find(|channel| channel.name == "air").unwrap();
    let down = air.direction(wavelane_scenario::Direction::Reverse).unwrap();
    let until = Instant::ZERO + Span::from_secs(12);
    let mean = down.rate_trace.as_ref().unwrap().mean_between(Instant::ZERO, until).as_bps() as f64;
    for stack in ["tcp-bbr", "wavelane"] {
        let (first, goodput, echo_ms) = digest(&scenario, stack);
        assert!((0.6..1.0).contains(&(goodput / mean)), "{stack}: {goodput} of {mean}");
        // The recorded delay is 7 ms each way at least.
        assert!(echo_ms > 14.0, "{stack}: {echo_ms} ms");
        assert_eq!(digest(&scenario, stack).0, first, "{stack}: the same seed, other packets");
    }
}

/// A channel of `rate` whose rate becomes `risen` after 10 s; how much arrives in Mbit/s in the 50 ms that begin a round trip and 100 ms later.
fn after_rise(rate: f64, risen: f64) -> f64 {
    let text = format!(
        r#"
title = "A rise"
seed = 1
duration = "12 s"
stacks = ["wavelane"]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
[channels.lan_a]
preset = "ethernet"
between = ["client", "a"]
[channels.air]
between = ["a", "b"]
forward = {{ rate = "{rate} Mbit/s", delay = "20 ms", queue = "250 kB" }}
reverse = {{ rate = "20 Mbit/s", delay = "20 ms", queue = "250 kB" }}
[channels.lan_b]
preset = "ethernet"
between = ["b", "server"]
[flows.bulk]
app = "upload"
from = "client"
to = "server"
[[timeline]]
at = "10 s"
set = "air.forward.rate"
to = "{risen} Mbit/s"
"#
    );
    let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
    let raw = run_stack(&scenario, Stack::WAVELANE, 1, false).unwrap();
    let bulk = raw.flows.iter().find(|flow| flow.flow == "bulk").unwrap();
    let window = 10_140_000_000..10_190_000_000;
    let octets: u64 = bulk.arrivals.iter().filter(|(at, _)| window.contains(at)).map(|(_, octets)| octets).sum();
    octets as f64 * 8e-6 / 0.05
}

#[test]
fn a_rise_is_found_within_a_round_trip_and_100_ms() {
    for risen in [7.5, 10.0, 20.0, 50.0] {
        let mbit = after_rise(5.0, risen);
        // From there on the rate doubles per round trip.
        let least = (0.9 * risen).min(1.5 * 5.0);
        assert!(mbit >= least, "{mbit} of {risen} Mbit/s, {least} wanted");
    }
}

/// Goodput of a plain CUBIC beside `stack` behind a queue of 100 kB of the subway's link, in bit/s.
fn cubic_beside(stack: &str) -> f64 {
    let links = [
        "lan_a client a",
        "a_here a here",
        "lan_b b server",
        "there_b there b",
        "sink_here sink here",
        "there_src there source",
    ];
    let links: String = links
        .iter()
        .map(|link| {
            let words: Vec<&str> = link.split(' ').collect();
            let jitter = if words[1] == "there" { "reverse = { jitter = \"1 ms\" }\n" } else { "" };
            let [name, one, two] = words[..] else { unreachable!("three words") };
            format!("[channels.{name}]\npreset = \"ethernet\"\nbetween = [\"{one}\", \"{two}\"]\n{jitter}")
        })
        .collect();
    let text = format!(
        r#"
title = "Beside a CUBIC in the subway"
seed = 1
duration = "40 s"
stacks = ["{stack}"]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
here = "router"
there = "router"
sink = "endpoint"
source = "endpoint"
{links}
[channels.narrow]
kind = "cable"
between = ["here", "there"]
forward = {{ rate = "10 Mbit/s", delay = "20 ms", queue = "100 kB" }}
reverse = {{ rate = {{ file = "c2tcp-subway.down.gz", format = "mahimahi" }}, delay = "20 ms", queue = "100 kB" }}
[flows.ours]
app = "download"
from = "client"
to = "server"
[flows.other]
app = "download"
from = "sink"
to = "source"
control = "cubic"
"#
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/traces");
    let scenario = Scenario::parse(&text, &folder).unwrap();
    let raw = run_stack(&scenario, Stack::from_word(stack).unwrap(), 1, false).unwrap();
    let figures = of_run(&scenario, &raw, scenario.seed);
    figures.iter().find(|flow| flow.flow == "other").unwrap().goodput_bps.unwrap()
}

#[test]
fn a_cubic_keeps_its_part_beside_a_lane_on_a_link_that_varies() {
    let (ours, own) = (cubic_beside("wavelane"), cubic_beside("tcp-cubic"));
    assert!(ours >= 0.4 * own, "{ours} beside a lane, {own} beside its own kind");
}

/// Goodput, p95 of the echo and bytes on the link per delivered byte.
fn through_the_fall(queue: &str, stack: &str) -> (f64, f64, f64) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/links/stuttering-fall.toml");
    let setting = Setting::read(&format!("air.forward.queue={queue}")).unwrap();
    let scenario = Scenario::load_with(&file, &[setting]).unwrap();
    let raw = run_stack(&scenario, Stack::from_word(stack).unwrap(), 1, false).unwrap();
    let flows = of_run(&scenario, &raw, scenario.seed);
    let of = |name: &str| flows.iter().find(|flow| flow.flow == name).unwrap();
    let wire = wire_bytes_per_delivered_byte(&[RunTotals::of(&raw, scenario.seed)]).unwrap();
    (of("bulk").goodput_bps.unwrap(), of("echo").rtt_p95_ms.unwrap(), wire)
}

#[test]
fn a_fall_that_stutters_is_outlived() {
    for queue in ["1 MB", "250 kB"] {
        let [bbr, ours] = ["tcp-bbr", "wavelane"].map(|stack| through_the_fall(queue, stack));
        assert!(ours.0 >= 0.97 * bbr.0 && ours.1 <= bbr.1 && ours.2 <= 1.15, "{queue}: BBR {bbr:?}, ours {ours:?}");
    }
}
