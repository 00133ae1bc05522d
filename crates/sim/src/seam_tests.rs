#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::SimBackend;
use std::path::Path;
use wavelane_scenario::{Backend, Stack, Treatment};

/// What becomes of `wavelane` where the client's cable does `adjust` to the preset.
fn treatment(adjust: &str, timeline: &str) -> Treatment {
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
    let review = SimBackend.review(&Scenario::parse(&text, Path::new(".")).unwrap());
    assert_eq!(review.treatment_of(Stack::from_word("tcp-cubic").unwrap()), Treatment::Imposed);
    review.treatment_of(Stack::Wavelane)
}

#[test]
fn wavelane_needs_endpoints_on_channels_no_worse_than_ethernet() {
    assert_eq!(treatment("", ""), Treatment::Imposed, "an idle endpoint's channel does not matter");
    let worse = [
        ("forward = { rate = \"2 Mbit/s\" }", "lan.forward has a lower rate, 2 Mbit/s,"),
        ("reverse = { rate = \"999 Mbit/s\" }", "lan.reverse has a lower rate"),
        ("reverse = { delay = \"20 ms\" }", "lan.reverse has a longer delay, 20 ms,"),
        ("forward = { jitter = \"1 ms\" }", "more jitter"),
        ("forward = { loss = { kind = \"random\", p = \"1/100\" } }", "more loss"),
        ("reverse = { corrupt = \"1/100\" }", "more corruption"),
        ("reverse = { duplicate = \"1/100\" }", "more duplication"),
        ("reverse = { reorder = { p = \"1/100\", extra = \"1 ms\" } }", "more reordering"),
        ("forward = { outages = [{ at = \"1 s\", for = \"1 s\" }] }", "more outages"),
        ("forward = { policer = { rate = \"2 Mbit/s\", burst = \"9 kB\" } }", "more policing"),
        ("forward = { queue = \"3 packets\" }", "more losses in a short queue"),
    ];
    for (adjust, words) in worse {
        let Treatment::Omitted(why) = treatment(adjust, "") else { panic!("{adjust} is let through") };
        assert!(why.contains(words) && why.contains("--on lab") && why.contains("`stacks`"), "{adjust}: {why}");
    }
}

#[test]
fn a_timeline_can_make_a_channel_worse() {
    let change = "[[timeline]]\nat = \"9 s\"\nset = \"lan.reverse.rate\"\nto = \"2 Mbit/s\"\n";
    let Treatment::Omitted(why) = treatment("", change) else { panic!("it is let through") };
    assert!(why.contains("from 9 s on has a lower rate, 2 Mbit/s,"), "{why}");
    assert_eq!(treatment("", &change.replace("2 Mbit", "2 Gbit")), Treatment::Imposed);
}
