//! When to split: loss on the air times wired round trip, beside CUBIC and BBR end to end, CUBIC with a snoop, and the same TCP alone on the air.

use super::Found;
use crate::cells::{Aim, Head};
use crate::document::{Edition, Row};
use serde_json::json;

/// Lost on the air, in thousandths, and wired round trips in ms.
const LOSSES: [u32; 3] = [1, 10, 30];
const WIRED_MS: [u64; 3] = [20, 100, 300];
const CUBIC: &str = "tcp-cubic";
const BBR: &str = "tcp-bbr";
const SPLITS: [(&str, &str); 2] = [("tcp-cubic+split", CUBIC), ("tcp-bbr+split", BBR)];
/// TCP stays end to end, and losses on the air are repaired from the proxy.
const SNOOP: &str = "tcp-cubic+snoop";
const RATE_BPS: f64 = 20e6;

/// From five seconds on: starts are no part of the question.
fn steady(seen: &super::Seen) -> f64 {
    seen.between(5.0, f64::MAX)
}

fn name(thousandths: u32, wired: u64) -> String {
    format!("map-{thousandths}-{wired}")
}

pub(super) fn rows(found: &Found<'_>, _edition: Edition) -> Vec<Row> {
    let mut rows = Vec::new();
    let goodput = |seen: &super::Seen| Some(steady(seen));
    let goodputs = |name: &str, stack: &str| found.values(name, stack, goodput);
    for loss in LOSSES {
        for wired in WIRED_MS {
            let case = [("loss_percent", json!(f64::from(loss) / 10.0)), ("wired_rtt_ms", json!(wired))];
            let here = name(loss, wired);
            for stack in [CUBIC, BBR] {
                let row = Head::sim("map", &case, stack).row("goodput_bps", "bit/s", &goodputs(&here, stack));
                rows.push(row.bound_by(RATE_BPS * 1_448.0 / 1_500.0 * (1.0 - f64::from(loss) / 1_000.0)));
            }
            let head = Head::sim("map", &case, SNOOP);
            rows.push(head.row("goodput_bps", "bit/s", &goodputs(&here, SNOOP)));
            for (other, metric) in [(CUBIC, "over_cubic"), (BBR, "over_bbr"), (SPLITS[0].0, "over_split")] {
                let ratio = found.ratios((&here, SNOOP), (&here, other), goodput);
                rows.push(head.row(metric, "ratio", &ratio));
            }
            for (split, own) in SPLITS {
                let head = Head::sim("map", &case, split);
                rows.push(head.row("goodput_bps", "bit/s", &goodputs(&here, split)));
                let alone = found.ratios((&here, split), (&name(loss, 0), own), goodput);
                let want = Some(Aim::AtLeast(0.97));
                rows.push(head.row("of_its_tcp_alone", "ratio", &alone).judged(want).bound_by(1.0));
                let cubic = found.ratios((&here, split), (&here, CUBIC), goodput);
                let bbr = found.ratios((&here, split), (&here, BBR), goodput);
                let want = match (own == CUBIC, loss, wired) {
                    (true, 10, 100) => Some(Aim::Between(12.4, 14.4)),
                    (true, ..) => Some(Aim::Between(1.2, 32.0)),
                    (false, ..) => Some(Aim::AtLeast(1.2)),
                };
                rows.push(head.row("over_cubic", "ratio", &cubic).judged(want));
                let want = if own == BBR { Some(Aim::Between(1.0, 1.9)) } else { Some(Aim::Between(0.42, 1.0)) };
                rows.push(head.row("over_bbr", "ratio", &bbr).judged(want));
            }
        }
    }
    rows
}
