//! Questions that are under way when a run ends have 5 s for their answers, as `docs/guide/records.md` says.

use crate::common::run_scenario as run;
use std::path::Path;
use wavelane_scenario::{Scenario, Stack, TcpKind};

/// Asks every 100 ms for 10 s over a round trip of 1 s, with a download beside it.
fn slow(echo: &str, extra: &str) -> Scenario {
    let text = format!(
        r#"
title = "A slow link"
seed = 1
duration = "10 s"
stacks = ["wavelane", "tcp-cubic"]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
[channels.near]
preset = "ethernet"
between = ["client", "a"]
[channels.air]
kind = "cable"
between = ["a", "b"]
forward = {{ rate = "2 Mbit/s", delay = "100 ms", queue = "50 kB" }}
reverse = {{ rate = "2 Mbit/s", delay = "900 ms", queue = "50 kB" }}
[channels.far]
preset = "ethernet"
between = ["b", "server"]
[flows.echo]
app = "{echo}"
every = "100 ms"
from = "client"
to = "server"
[flows.page]
app = "download"
from = "client"
to = "server"
{extra}"#
    );
    Scenario::parse(&text, Path::new(".")).unwrap()
}

const CUBIC: Stack = Stack::tcp(TcpKind::Cubic);

#[test]
fn echoes_in_flight_at_the_end_are_answered() {
    for (echo, stack) in [("echo", Stack::WAVELANE), ("echo", CUBIC), ("ping", CUBIC)] {
        let raw = run(&slow(echo, ""), stack, 1);
        let [echo, page] = &raw.flows[..] else { panic!("two flows, not {:?}", raw.flows) };
        let late = echo.probes.iter().filter(|p| p.rtt_ns.is_some_and(|rtt| p.sent_ns + rtt > 10_000_000_000));
        assert!(late.count() >= 9, "{stack}: questions of the last second are answered after the end");
        assert!(echo.probes.iter().all(|p| p.rtt_ns.is_some_and(|rtt| rtt > 1_000_000_000)), "{stack}: {echo:?}");
        // The run itself ends when it ends.
        assert!(page.arrivals.last().unwrap().0 <= 10_000_000_000, "{stack}");
        assert!(echo.completed && page.completed, "{stack}");
    }
}

#[test]
fn echoes_after_5_s_are_lost() {
    // From 9 s on an answer takes 6 s.
    let late = "[[timeline]]\nat = \"9 s\"\nset = \"air.reverse.delay\"\nto = \"6 s\"\n";
    let raw = run(&slow("ping", late), CUBIC, 1);
    let answered: Vec<bool> = raw.flows[0].probes.iter().map(|p| p.rtt_ns.is_some()).collect();
    assert!(answered.len() >= 100 && answered[80] && !answered[97], "{answered:?}");
    // What was asked at 8.95 s comes at 15.05 s.
    assert!(answered.iter().filter(|answered| !**answered).count() >= 10, "{answered:?}");
}
