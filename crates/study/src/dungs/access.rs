//! `S4-E13` to `S4-E15`, planned by the source, and links of today: access networks with a proxy at their edge.

use super::Found;
use crate::cells::{Aim, Head};
use crate::document::{Edition, Row};
use serde_json::json;

/// Experiments, their access networks, and what somebody measured there, in bit/s.
const NETWORKS: [(&str, &str, Option<f64>); 7] = [
    ("S4-E13", "gprs", Some(31_500.0)),
    ("S4-E14", "bluetooth-1.1", None),
    ("S4-E15", "w-cdma", None),
    ("ev-do", "ev-do", Some(572_500.0)),
    ("lte", "lte", None),
    ("5g", "5g", None),
    ("leo", "leo", None),
];
/// End to end, and split.
const STACKS: [[&str; 2]; 2] = [["tcp-cubic", "tcp-cubic+split"], ["tcp-bbr", "tcp-bbr+split"]];
/// Wired round trip, in ms.
const WIRED_MS: u64 = 100;

pub(super) fn rows(found: &Found<'_>, _edition: Edition) -> Vec<Row> {
    let mut rows = Vec::new();
    for (id, word, measured) in NETWORKS {
        let name = format!("access-{word}");
        let case = [("network", json!(word)), ("wired_rtt_ms", json!(WIRED_MS))];
        for [plain, split] in STACKS {
            for stack in [plain, split] {
                let goodputs = found.goodputs(&name, stack);
                rows.push(Head::sim(id, &case, stack).row("goodput_bps", "bit/s", &goodputs).published_as(measured));
            }
            let alone = format!("alone-{word}");
            for (metric, beside) in [("of_end_to_end", &name), ("of_its_tcp_alone", &alone)] {
                let ratio = found.ratios((&name, split), (beside, plain), |seen| Some(seen.goodput_bps));
                let want = Some(Aim::AtLeast(0.97));
                rows.push(Head::sim(id, &case, split).row(metric, "ratio", &ratio).judged(want));
            }
        }
    }
    rows
}
