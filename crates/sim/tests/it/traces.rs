//! Channels that follow recordings of real links, through the backend.

use crate::backend::run_stack;
use std::path::Path;
use wavelane_base::{Instant, Span};
use wavelane_run::figures::of_run;
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
