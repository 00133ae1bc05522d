#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use crate::model::Scenario;
use std::path::Path;
use wavelane_base::Span;

/// The link's mean rate in Mbit/s for a download over `reverse` between two seconds of the run.
fn mbit(reverse: &str, timeline: &str, from: u64, until: u64) -> Option<f64> {
    let text = format!(
        r#"
title = "t"
seed = 1
duration = "60 s"
stacks = ["tcp-cubic"]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
[channels.lan]
preset = "ethernet"
between = ["client", "a"]
[channels.air]
kind = "cable"
between = ["a", "b"]
forward = {{ rate = "1 kbit/s" }}
reverse = {{ {reverse} }}
[flows.page]
app = "download"
from = "client"
to = "b"
{timeline}"#
    );
    let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
    let bps = scenario.link_bps(&scenario.flows[0], Span::from_secs(from), Span::from_secs(until));
    bps.map(|bps| bps / 1e6)
}

fn step(at: u64, what: &str, to: &str) -> String {
    format!("[[timeline]]\nat = \"{at} s\"\nset = \"air.reverse.{what}\"\nto = {to}\n")
}

#[test]
fn the_link_rate_follows_timeline_and_outages() {
    assert_eq!(mbit("rate = \"20 Mbit/s\"", "", 0, 60), Some(20.0));
    // Written out of order: 20 until 10 s, 2 until 30 s, then 5.
    let steps = step(30, "rate", "\"5 Mbit/s\"") + &step(10, "rate", "\"2 Mbit/s\"");
    assert_eq!(mbit("rate = \"20 Mbit/s\"", &steps, 0, 20), Some(11.0));
    assert_eq!(mbit("rate = \"20 Mbit/s\"", &steps, 12, 20), Some(2.0));
    assert_eq!(mbit("rate = \"20 Mbit/s\"", &steps, 20, 40), Some(3.5));
    // Half of the time is an outage, of which a part lies outside.
    let outage = "rate = \"20 Mbit/s\", outages = [{ at = \"5 s\", for = \"15 s\" }]";
    assert_eq!(mbit(outage, "", 10, 30), Some(10.0));
    assert_eq!(mbit(outage, "", 6, 9), Some(0.0));
    assert_eq!(mbit(outage, &step(20, "rate", "\"10 Mbit/s\""), 10, 30), Some(5.0));
    let later = step(10, "outages", "[{ at = \"12 s\", for = \"4 s\" }]");
    assert_eq!(mbit("rate = \"20 Mbit/s\"", &later, 10, 20), Some(12.0));
}

#[test]
fn the_link_rate_respects_policers() {
    let policer = "{ rate = \"8 Mbit/s\", burst = \"20 kB\" }";
    assert_eq!(mbit(&format!("rate = \"20 Mbit/s\", policer = {policer}"), "", 0, 60), Some(8.0));
    assert_eq!(mbit("rate = \"20 Mbit/s\"", &step(30, "policer", policer), 0, 60), Some(14.0));
    // Then the cable to the endpoint is the slowest.
    assert_eq!(mbit("delay = \"1 ms\"", "", 0, 60), Some(1_000.0));
    assert_eq!(mbit("rate = \"20 Mbit/s\"", "", 5, 5), None);
}

fn of_corpus(text: &str) -> Scenario {
    let scenario = Scenario::parse(text, Path::new(".")).unwrap();
    assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")).unwrap(), scenario, "written and read again");
    scenario
}

#[test]
fn parallel_channels_are_one_link_and_one_way_ones_one_way() {
    let both = of_corpus(include_str!("../../../../scenarios/links/two-uplinks.toml"));
    // 20 Mbit/s for 30 of 40 s, and 10.
    assert_eq!(both.link_bps(&both.flows[0], Span::ZERO, Span::from_secs(40)), Some(25e6));
    let apart = of_corpus(include_str!("../../../../scenarios/links/one-way.toml"));
    let way = |from, to| apart.path(from, to).unwrap().into_iter().map(|(channel, _)| channel.name.as_str()).nth(1);
    assert_eq!((way("client", "server"), way("server", "client")), (Some("radio"), Some("modem")));
    assert_eq!(apart.link_bps(&apart.flows[0], Span::ZERO, Span::from_secs(40)), Some(2e6));
}

#[test]
fn what_a_one_way_channel_carries_can_be_answered() {
    let text = include_str!("../../../../scenarios/links/one-way.toml");
    let same = text.replace("[\"far\", \"near\"]", "[\"near\", \"far\"]");
    let refused = Scenario::parse(&same, Path::new(".")).unwrap_err();
    let why = refused.to_string();
    assert!(why.contains("[channels.radio] carries nothing from 'far' to 'near', and no other channel does"), "{why}");
    let line = text.lines().position(|line| line == "[channels.radio]").unwrap() + 1;
    assert_eq!(refused.line, Some(line), "{why}");
    // Plain routers answer by a way around; gateways that do their work have no lane there.
    let around = same.replace("[nodes]", "[nodes]\nr = \"router\"")
        + "[channels.up]\npreset = \"ethernet\"\nbetween = [\"far\", \"r\"]\n[channels.down]\npreset = \"ethernet\"\nbetween = [\"r\", \"near\"]\n";
    assert!(Scenario::parse(&around, Path::new(".")).is_err());
    let plain = around.replace(", \"wavelane\"]", "]").split("[checks").next().unwrap().to_owned()
        + around.split("1.7 Mbit/s\"\n").nth(1).unwrap();
    let plain = Scenario::parse(&plain, Path::new(".")).unwrap();
    let back = plain.path("server", "client").unwrap();
    assert_eq!(
        back.iter().map(|(channel, _)| channel.name.as_str()).collect::<Vec<_>>(),
        ["lan_server", "up", "down", "lan_client"]
    );
}

#[test]
fn channels_side_by_side_are_for_gateways() {
    let text = include_str!("../../../../scenarios/links/one-way.toml");
    let endpoints = text.replace("near = \"gateway\"", "near = \"router\"");
    let refused = Scenario::parse(&endpoints, Path::new(".")).unwrap_err().to_string();
    assert!(refused.contains("only gateways"), "{refused}");
    let alone = text.replace("[\"far\", \"near\"]", "[\"far\", \"client\"]");
    let refused = Scenario::parse(&alone, Path::new(".")).unwrap_err().to_string();
    assert!(refused.contains("give it a reverse"), "{refused}");
}
