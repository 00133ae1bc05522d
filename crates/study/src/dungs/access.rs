//! `S4-E13` to `S4-E15`, planned by the source, and links of today: access networks with a proxy at their edge.

use super::net::{Access, Path, tcp};
use super::{Found, Runs};
use crate::cells::{Aim, Head};
use crate::document::{Edition, Row};
use serde_json::json;

/// An access network.
struct Network {
    id: &'static str,
    word: &'static str,
    channel: &'static str,
    seconds: u32,
    /// In the quick edition: rates, spikes and blocks are drawn by chance.
    seeds: u64,
    /// What somebody measured, in bit/s.
    measured_bps: Option<f64>,
}

const fn network(id: &'static str, word: &'static str, channel: &'static str, (seconds, seeds): (u32, u64)) -> Network {
    Network { id, word, channel, seconds, seeds, measured_bps: None }
}

const NETWORKS: [Network; 7] = [
    Network {
        measured_bps: Some(31_500.0),
        ..network("S4-E13", "gprs", "kind = \"cellular\"\npreset = \"gprs\"", (300, 10))
    },
    network("S4-E14", "bluetooth-1.1", "kind = \"bluetooth\"\npreset = \"bluetooth-1.1\"", (60, 3)),
    network("S4-E15", "w-cdma", "kind = \"cellular\"\npreset = \"w-cdma\"", (120, 6)),
    Network {
        measured_bps: Some(572_500.0),
        ..network("ev-do", "ev-do", "kind = \"cellular\"\npreset = \"ev-do\"", (120, 8))
    },
    network("lte", "lte", "kind = \"cellular\"\npreset = \"lte\"", (20, 4)),
    network("5g", "5g", "kind = \"cellular\"\npreset = \"5g\"", (10, 3)),
    network("leo", "leo", "kind = \"cellular\"\npreset = \"leo\"", (20, 3)),
];
/// End to end, and split.
const STACKS: [[&str; 2]; 2] = [["tcp-cubic", "tcp-cubic+split"], ["tcp-bbr", "tcp-bbr+split"]];
/// Wired round trip, in ms.
const WIRED_MS: u64 = 100;

fn path(of: &Network, wired_ms: u64) -> Path {
    Path {
        seconds: of.seconds,
        wire_us: wired_ms * 500,
        wire_rate: "1 Gbit/s",
        wire_queue: "20 MB",
        access: Access::Channel(of.channel.into()),
        flows: tcp("download"),
        ..Path::wlan()
    }
}

pub(super) fn runs(runs: &mut Runs, _edition: Edition) {
    for of in &NETWORKS {
        for [plain, split] in STACKS {
            // Without the wire: what the TCP of the split has alone on the air.
            runs.several(&format!("alone-{}", of.word), plain, &path(of, 0), of.seeds);
            for stack in [plain, split] {
                runs.several(&format!("access-{}", of.word), stack, &path(of, WIRED_MS), of.seeds);
            }
        }
    }
}

pub(super) fn rows(found: &Found<'_>, _edition: Edition) -> Vec<Row> {
    let mut rows = Vec::new();
    for of in &NETWORKS {
        let name = format!("access-{}", of.word);
        let case = [("network", json!(of.word)), ("wired_rtt_ms", json!(WIRED_MS))];
        for [plain, split] in STACKS {
            for stack in [plain, split] {
                let goodputs = found.goodputs(&name, stack);
                rows.push(
                    Head::sim(of.id, &case, stack).row("goodput_bps", "bit/s", &goodputs).published_as(of.measured_bps),
                );
            }
            let alone = format!("alone-{}", of.word);
            for (metric, beside) in [("of_end_to_end", &name), ("of_its_tcp_alone", &alone)] {
                let ratio = found.ratios((&name, split), (beside, plain), |seen| Some(seen.goodput_bps));
                let want = Some(Aim::AtLeast(0.97));
                rows.push(Head::sim(of.id, &case, split).row(metric, "ratio", &ratio).judged(want));
            }
        }
    }
    rows
}
