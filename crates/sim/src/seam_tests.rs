#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::SimBackend;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_run::{Backend, Progress, RunContext};
use wavelane_scenario::Stack;

/// Two gateways, and a client whose cable does `adjust` to the preset.
fn scenario(adjust: &str, timeline: &str) -> Scenario {
    let text = format!(
        r#"
title = "t"
seed = 1
duration = "30 s"
stacks = ["wavelane", "tcp-cubic"]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
idle = "endpoint"
[channels.lan]
preset = "ethernet"
between = ["client", "a"]
{adjust}
[channels.air]
kind = "cable"
between = ["a", "b"]
forward = {{ rate = "2 Mbit/s", delay = "50 ms" }}
reverse = "same"
[channels.far]
kind = "cable"
between = ["b", "server"]
forward = {{ delay = "10 us", queue = "1 MB" }}
reverse = {{ rate = "10 Gbit/s" }}
[channels.spare]
kind = "cable"
between = ["b", "idle"]
forward = {{ rate = "1 kbit/s" }}
reverse = "same"
[flows.page]
app = "download"
from = "client"
to = "server"
{timeline}"#
    );
    Scenario::parse(&text, Path::new(".")).unwrap()
}

#[test]
fn channels_worse_than_ethernet_get_tcp_and_doors() {
    assert!(!needs_doors(&scenario("", "")), "an idle endpoint's channel does not matter");
    let worse = [
        "forward = { rate = \"2 Mbit/s\" }",
        "reverse = { rate = \"999 Mbit/s\" }",
        "reverse = { delay = \"20 ms\" }",
        "forward = { jitter = \"1 ms\" }",
        "forward = { loss = { kind = \"random\", p = \"1/100\" } }",
        "reverse = { corrupt = \"1/100\" }",
        "reverse = { duplicate = \"1/100\" }",
        "reverse = { reorder = { p = \"1/100\", extra = \"1 ms\" } }",
        "forward = { outages = [{ at = \"1 s\", for = \"1 s\" }] }",
        "forward = { policer = { rate = \"2 Mbit/s\", burst = \"9 kB\" } }",
        "forward = { queue = \"3 packets\" }",
    ];
    for adjust in worse {
        assert!(needs_doors(&scenario(adjust, "")), "{adjust} is let through");
    }
    let change = "[[timeline]]\nat = \"9 s\"\nset = \"lan.reverse.rate\"\nto = \"2 Mbit/s\"\n";
    assert!(needs_doors(&scenario("", change)), "a timeline can make a channel worse");
    assert!(!needs_doors(&scenario("", &change.replace("2 Mbit", "2 Gbit"))));
}

/// Goodput of the download under `wavelane`, in Mbit/s, of a run of `seconds`.
fn goodput(scenario: &Scenario, seconds: u64) -> f64 {
    let (cancelled, mut progress) = (AtomicBool::new(false), |_: Progress| {});
    let mut context = RunContext {
        out: Path::new("."),
        label: "wavelane".to_owned(),
        captures: wavelane_run::Capture::Off,
        progress: &mut progress,
        cancelled: &cancelled,
    };
    let scenario = Scenario { duration: Span::from_secs(seconds), ..scenario.clone() };
    let raw = SimBackend.run_stack(&scenario, Stack::Wavelane, Seed(1), &mut context).unwrap();
    raw.flows[0].octets as f64 * 8.0 / seconds as f64 / 1e6
}

#[test]
fn what_leads_to_endpoints_limits_wavelane() {
    let open = goodput(&scenario("", ""), 20);
    assert!((1.7..=2.0).contains(&open), "{open}: the lane's 2 Mbit/s");
    let slow = goodput(&scenario("reverse = { rate = \"1 Mbit/s\" }", ""), 20);
    assert!((0.85..=0.97).contains(&slow), "{slow}: the endpoint's 1 Mbit/s, less headers");
    let far = goodput(&scenario("reverse = { delay = \"20 ms\" }", ""), 20);
    assert!((1.7..=2.0).contains(&far), "{far}");
}
