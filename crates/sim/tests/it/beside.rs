//! Flows beside each other in one scenario: plain TCP next to a pair of gateways, and each flow with its own congestion
//! control.

use crate::common::run_scenario as run;
use std::path::Path;
use wavelane_run::{Backend, Treatment};
use wavelane_scenario::{Scenario, Stack, TcpKind};
use wavelane_sim::SimBackend;

/// One bottleneck of 10 Mbit/s and 40 ms between two routers: a pair of gateways and two endpoints share it.
fn shared(control: &str) -> Scenario {
    let text = format!(
        r#"
title = "A link beside a plain flow"
seed = 1
duration = "30 s"
stacks = ["wavelane", "tcp-cubic", "tcp-bbr"]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
sink = "endpoint"
source = "endpoint"
here = "router"
there = "router"
[channels.lan_a]
preset = "ethernet"
between = ["client", "a"]
[channels.a_here]
preset = "ethernet"
between = ["a", "here"]
[channels.sink_here]
preset = "ethernet"
between = ["sink", "here"]
[channels.narrow]
kind = "cable"
between = ["here", "there"]
forward = {{ rate = "10 Mbit/s", delay = "20 ms", queue = "50 kB" }}
reverse = "same"
[channels.there_b]
preset = "ethernet"
between = ["there", "b"]
[channels.there_src]
preset = "ethernet"
between = ["there", "source"]
[channels.lan_b]
preset = "ethernet"
between = ["b", "server"]
[flows.ours]
app = "download"
from = "client"
to = "server"
[flows.other]
app = "download"
from = "sink"
to = "source"
start = "10 s"
{control}
"#
    );
    Scenario::parse(&text, Path::new(".")).unwrap()
}

fn mbit(arrivals: &[(u64, u64)], from: u64, until: u64) -> f64 {
    let within = arrivals.iter().filter(|(at, _)| (from..until).contains(&(at / 1_000_000_000)));
    within.map(|(_, octets)| octets).sum::<u64>() as f64 * 8e-6 / (until - from) as f64
}

#[test]
fn a_plain_flow_shares_the_bottleneck_with_a_pair_of_gateways() {
    for control in ["", "control = \"reno\"", "control = \"bbr\"", "control = \"bbr3\""] {
        let scenario = shared(control);
        let review = SimBackend.review(&scenario);
        assert_eq!((review.refusal(), review.treatment_of(Stack::WAVELANE)), (None, Treatment::Imposed));
        let raw = run(&scenario, Stack::WAVELANE, 1);
        let [ours, other] = &raw.flows[..] else { panic!("two flows, not {:?}", raw.flows) };
        assert!(ours.intact == Some(true) && other.intact == Some(true), "{control}");
        let alone = mbit(&ours.arrivals, 3, 10);
        let both = [&ours.arrivals, &other.arrivals].map(|arrivals| mbit(arrivals, 12, 30));
        println!("{control}: alone {alone:.2}, then {both:.2?} Mbit/s");
        assert!(alone > 9.0, "{control}: {alone:.2} Mbit/s alone");
        // Both get through one line: it is full and no more, and neither is driven out.
        let sum = both[0] + both[1];
        assert!((8.5..9.7).contains(&sum) && both.iter().all(|mbit| *mbit > 1.0), "{control}: {both:.2?} Mbit/s");
        assert_eq!(raw, run(&scenario, Stack::WAVELANE, 1), "{control}: the same twice");
    }
}

#[test]
fn a_flow_has_its_own_congestion_control_under_any_tcp_stack() {
    let octets = |control: &str, kind: TcpKind| {
        let raw = run(&shared(control), Stack::tcp(kind), 1);
        (raw.flows[0].octets, raw.flows[1].octets)
    };
    let plain = octets("", TcpKind::Cubic);
    assert_eq!(plain, octets("control = \"cubic\"", TcpKind::Cubic), "what the stack does anyhow");
    // What the two get depends on both controls, whichever way they are asked for.
    let bbr = octets("control = \"bbr\"", TcpKind::Cubic);
    let reno = octets("control = \"reno\"", TcpKind::Cubic);
    assert!(bbr != plain && reno != plain && bbr != reno, "{plain:?}, {bbr:?}, {reno:?}");
    assert!(bbr.1 > reno.1, "BBR takes more of half a product of queue than Reno: {bbr:?}, {reno:?}");
}

#[test]
fn a_client_on_a_gateway_sends_without_a_tcp() {
    let mut scenario = shared("");
    scenario.flows[0].control = Some(TcpKind::Bbr);
    let named = |scenario: &Scenario| -> Vec<String> {
        SimBackend.review(scenario).clauses.into_iter().map(|clause| clause.clause).collect()
    };
    assert_eq!(named(&scenario), [""; 0], "the client's TCP is BBR");
    scenario.flows[0].from = "a".to_owned();
    assert_eq!(named(&scenario), ["flows.ours"]);
    let raw = run(&scenario, Stack::WAVELANE, 1);
    let alone = mbit(&raw.flows[0].arrivals, 3, 10);
    assert!(alone > 9.0, "{alone:.2} Mbit/s");
}
