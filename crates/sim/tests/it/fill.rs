//! The rivals at their best: on a clean path, whatever its rate, round trip and queue, our TCP's buffers limit no
//! congestion control. A comparison with a TCP that its own buffer strangles says nothing.

use crate::common::run_scenario;
use std::path::Path;
use wavelane_scenario::{Scenario, Stack, TcpKind};

/// A clean path; the download runs for `seconds` and counts from `from` on.
#[derive(Debug)]
struct Clean {
    mbit: u64,
    rtt_ms: u64,
    /// Queue in hundredths of the bandwidth-delay product.
    queue: u64,
    from: u64,
    seconds: u64,
}

/// Share of the rate, headers counted, that a download gets.
fn share(cell: &Clean, kind: TcpKind) -> f64 {
    let Clean { mbit, rtt_ms, queue, from, seconds } = *cell;
    let delay = rtt_ms * 500;
    let queue = (mbit * 125 * rtt_ms * queue / 100).max(15_000);
    let scenario = format!(
        r#"
title = "A clean path"
seed = 1
duration = "{seconds} s"
stacks = ["tcp-cubic"]
[nodes]
client = "endpoint"
a = "router"
b = "router"
server = "endpoint"
[channels.near]
preset = "ethernet"
between = ["client", "a"]
[channels.air]
kind = "cable"
between = ["a", "b"]
forward = {{ rate = "{mbit} Mbit/s", delay = "{delay} us", queue = "{queue} B" }}
reverse = "same"
[channels.far]
preset = "ethernet"
between = ["b", "server"]
[flows.page]
app = "download"
from = "client"
to = "server"
"#
    );
    let scenario = Scenario::parse(&scenario, Path::new(".")).unwrap();
    let raw = run_scenario(&scenario, Stack::tcp(kind), 1);
    let octets: u64 =
        raw.flows[0].arrivals.iter().filter(|(at, _)| *at >= from * 1_000_000_000).map(|(_, octets)| octets).sum();
    octets as f64 * 1_500.0 / 1_448.0 / ((seconds - from) * mbit * 125_000) as f64
}

/// 0.9 of the rate from a warm-up on. `docs/models/tcp.md` has further cells, and those where a queue of ten packets or of
/// a tenth of the product is too short for one of them.
#[test]
fn every_congestion_control_fills_every_clean_path() {
    let cells = [
        (10, 40, 100, 5, 15),
        (10, 20, 25, 5, 15),
        (20, 50, 400, 5, 15),
        (20, 100, 10, 10, 40),
        (2, 400, 50, 20, 50),
        // It holds 10 MB: more than twice what Linux's buffers hold unasked.
        (200, 200, 100, 4, 14),
    ];
    for (mbit, rtt_ms, queue, from, seconds) in cells {
        let cell = Clean { mbit, rtt_ms, queue, from, seconds };
        for kind in [TcpKind::Cubic, TcpKind::Bbr, TcpKind::Bbr3] {
            let share = share(&cell, kind);
            println!("{cell:?} {kind:?}: {share:.3}");
            assert!((0.9..=1.01).contains(&share), "{cell:?} {kind:?}: {share:.3}");
        }
    }
}
