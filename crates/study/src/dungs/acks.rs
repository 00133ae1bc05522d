//! Delayed acknowledgements over 802.11b: `S4-E9` (how many) and `S4-E10` (how long).

use super::Found;
use crate::cells::{Aim, Head};
use crate::document::{Edition, Row};
use serde_json::json;

const SPLIT: &str = "tcp-reno+split";
const STACK: &str = "tcp-2001";
/// Segments per acknowledgement with the wanted gain over one, in per cent, and the closed form's.
const COUNTS: [(u32, f64, f64, f64); 3] = [(2, 11.0, 16.0, 13.1), (3, 14.0, 20.0, 16.7), (4, 16.0, 24.0, 19.7)];
/// From here on the start is over.
const STEADY_S: f64 = 5.0;
const UNTIL_S: f64 = 35.0;
/// The delays that the source compared, in ms.
const TIMERS_MS: [u64; 4] = [500, 200, 100, 50];

pub(super) fn rows(found: &Found<'_>, _edition: Edition) -> Vec<Row> {
    let mut rows = Vec::new();
    for (count, low, high, bound) in COUNTS {
        let (name, case) = (format!("e9-{count}"), [("segments_per_ack", json!(count))]);
        let head = Head::sim("S4-E9", &case, SPLIT);
        let percent = |ratios: Vec<f64>| ratios.into_iter().map(|ratio| (ratio - 1.0) * 100.0).collect::<Vec<_>>();
        let steady = found.ratios((&name, SPLIT), ("e9-1", SPLIT), |seen| Some(seen.between(STEADY_S, UNTIL_S)));
        rows.push(head.row("steady_gain_percent", "%", &percent(steady)).between(low, high).bound_by(bound));
        let whole = found.ratios((&name, SPLIT), ("e9-1", SPLIT), |seen| Some(seen.goodput_bps));
        rows.push(head.row("whole_gain_percent", "%", &percent(whole)));
    }
    let stall = |name: &str| found.values(name, STACK, |seen| Some(seen.point("server-wire")?.fourth_s? * 1e3));
    for timer in TIMERS_MS {
        let (name, case) = (format!("e10-{timer}"), [("ack_delay_ms", json!(timer))]);
        let head = Head::sim("S4-E10", &case, STACK);
        let twice = 2.0 * timer as f64;
        // Nothing is sent meanwhile but three segments.
        let want = Some(Aim::Between(twice - 10.0, twice + 10.0));
        rows.push(head.row("stall_ms", "ms", &stall(&name)).judged(want).bound_by(twice));
        let needless = found.values(&name, STACK, |seen| {
            let server = seen.point("server-wire")?;
            Some((server.pure_acks - server.data_packets / 3.0) / server.pure_acks * 100.0)
        });
        rows.push(head.row("acks_beyond_one_in_three_percent", "%", &needless));
        let sooner = found.ratios((&name, STACK), ("e10-500", STACK), |seen| seen.duration_s);
        let sooner: Vec<f64> = sooner.into_iter().map(|ratio| (1.0 - ratio) * 100.0).collect();
        let want = if timer == 50 { Some(Aim::Between(7.0, 11.0)) } else { None };
        rows.push(head.row("sooner_than_with_500_ms_percent", "%", &sooner).judged(want));
    }
    let case = [("ack_delay_ms", json!(500)), ("quick_acks", json!(16))];
    let want = Some(Aim::AtMost(50.0));
    rows.push(Head::sim("S4-E10", &case, STACK).row("stall_ms", "ms", &stall("e10-quick")).judged(want).bound_by(0.0));
    rows
}
