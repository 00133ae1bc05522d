//! Queues that a scenario names, in the engine: how long a ping waits beside an upload.

use crate::common::run_scenario;
use std::path::Path;
use wavelane_scenario::{Scenario, Stack, TcpKind};

/// Longest round trip of a ping beside an upload over 12 Mbit/s, in milliseconds, and the upload's bytes.
fn beside_an_upload(queue: &str) -> (f64, u64) {
    let text = format!(
        r#"
title = "home"
duration = "20 s"
stacks = ["tcp-cubic"]
[nodes]
laptop = "endpoint"
server = "endpoint"
[channels.air]
kind = "cable"
between = ["laptop", "server"]
forward = {{ rate = "12 Mbit/s", delay = "1 ms", queue = {queue} }}
reverse = {{ rate = "12 Mbit/s", delay = "1 ms" }}
[flows.copy]
app = "upload"
from = "laptop"
to = "server"
[flows.ping]
app = "ping"
from = "laptop"
to = "server"
every = "50 ms"
"#
    );
    let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
    let raw = run_scenario(&scenario, Stack::tcp(TcpKind::Cubic), 1);
    let flow = |name: &str| raw.flows.iter().find(|flow| flow.flow == name).unwrap();
    let longest = flow("ping").probes.iter().filter_map(|p| p.rtt_ns).max().unwrap();
    (longest as f64 / 1e6, flow("copy").octets)
}

#[test]
fn a_ping_waits_for_its_queue_or_two_packets_under_fq_codel() {
    // A packet takes a millisecond, both ways of the air two.
    let (two_stage, whole) =
        beside_an_upload("{ kind = \"two-stage\", txqueuelen = \"200 packets\", ring = \"56 packets\" }");
    assert!((250.0..=260.0).contains(&two_stage), "{two_stage}");
    let (sorted, octets) = beside_an_upload("{ kind = \"fq-codel\" }");
    assert!((3.0..=5.5).contains(&sorted), "{sorted}");
    assert!(octets as f64 > 0.98 * whole as f64, "{octets} of {whole}");
    let (behind_a_ring, _) = beside_an_upload("{ kind = \"fq-codel\", ring = \"56 packets\" }");
    assert!((58.0..=62.0).contains(&behind_a_ring), "{behind_a_ring}");
    for (kind, most) in [("codel", 110.0), ("pie", 120.0), ("dualpi2", 120.0)] {
        let (longest, octets) = beside_an_upload(&format!("{{ kind = \"{kind}\" }}"));
        assert!(longest < most && octets as f64 > 0.9 * whole as f64, "{kind}: {longest} ms, {octets} of {whole}");
    }
}
