//! The experiments over radio cells, under the preset `hop-2009`: senders that do not hear each other, and keys beside a block.

use super::Seen;
use super::judge::rows_of;
use crate::cells::{Aim, Head, joined};
use crate::document::Row;
use crate::plan::About;
use serde_json::json;

/// Seconds that flows run, and from which on they have settled.
const SECONDS: f64 = 32.0;
const SETTLED_S: f64 = 4.0;
/// Bytes that a datagram of 1,500 carries as UDP.
const PAYLOAD: f64 = 1_472.0;

/// S2-E10, of a cell whose full frame takes `frame-us` on the air with SIFS, aimed at a `share` of what endless bursts without ACK carry, or at
/// both ways of contending: what both bring together, and how evenly, with withholding, without, and as others contend.
pub(super) fn hidden(about: &About, found: &[Option<Seen>]) -> Vec<Row> {
    let cell = about.word("cell");
    let case = |how: &str| [("cell", json!(cell)), ("senders", json!(how))];
    rows_of(found, &Head::sim("S2-E10", &case("withheld"), "hop-2009"), "goodput_bps", |seen| {
        let goodput: Vec<Vec<f64>> = seen.iter().map(|seen| seen.goodput(SETTLED_S, SECONDS)).collect();
        let ways = [
            ("withheld", "hop-2009"),
            ("not withheld", "hop-2009"),
            ("withheld, link ACKs", "hop-2009"),
            ("CSMA", "udp"),
            ("RTS/CTS", "udp"),
            ("RTS/CTS once per TXOP", "udp"),
        ];
        let all = ways.iter().zip(&goodput);
        let mut rows: Vec<Row> = all
            .map(|((how, stack), goodput)| Head::sim("S2-E10", &case(how), stack).row("goodput_bps", "bit/s", goodput))
            .collect();
        let ceiling = PAYLOAD * 8.0 / about.number("frame-us") * 1e6;
        rows[0].bound = Some(ceiling);
        let mut over = |place: usize, aim: Aim| {
            let ratio = joined(&goodput[0], &goodput[place], |ours, theirs| ours / theirs);
            let of = [("cell", json!(cell)), ("over", json!(ways[place].0))];
            rows.push(Head::sim("S2-E10", &of, "hop-2009").row("goodput_over", "ratio", &ratio).judged(aim));
        };
        match about.given("share") {
            None => [(3, 2.0), (4, 1.5), (5, 1.0)].into_iter().for_each(|(place, aim)| over(place, Aim::AtLeast(aim))),
            Some(share) => {
                over(5, Aim::AtLeast(1.0));
                let of: Vec<f64> = goodput[0].iter().map(|goodput| goodput / ceiling).collect();
                rows.push(
                    Head::sim("S2-E10", &[("cell", json!(cell))], "hop-2009")
                        .row("of_burst_ceiling", "ratio", &of)
                        .judged(Aim::AtLeast(share)),
                );
            }
        }
        let even = seen[0].jain(SETTLED_S, SECONDS);
        let row = Head::sim("S2-E10", &[("cell", json!(cell))], "hop-2009").row("jain", "index", &even);
        rows.push(row.judged(Aim::AtLeast(0.95)));
        for (mechanism, place) in [("withholding", 1), ("bursts without ACK", 2)] {
            let worth = joined(&goodput[0], &goodput[place], |on, off| on / off);
            let of = [("mechanism", json!(mechanism)), ("cell", json!(cell))];
            rows.push(
                Head::sim("S2-E12", &of, "hop-2009").row("with_over_without", "ratio", &worth).judged(Aim::Above(1.0)),
            );
        }
        rows
    })
}

/// S2-E11 over radio: half of an echo's median is one way.
pub(super) fn keys(about: &About, found: &[Option<Seen>]) -> Vec<Row> {
    let hops = about.whole("hops");
    let case = |on: &str| [("radio hops", json!(hops)), ("micro-blocks", json!(on))];
    rows_of(found, &Head::sim("S2-E11", &case("on"), "hop-2009"), "one_way_p50_ms", |seen| {
        let one_way = |seen: &Seen| seen.figure("keys", |f| f.rtt_p50_ms.map(|rtt| rtt / 2.0));
        let (on, off) = (one_way(seen[0]), one_way(seen[1]));
        let row = Head::sim("S2-E11", &case("on"), "hop-2009").row("one_way_p50_ms", "ms", &on);
        let row = row.judged(Aim::AtMost(f64::from(hops) * f64::from(about.whole("txop-ms") + 10)));
        let without = Head::sim("S2-E11", &case("off"), "hop-2009").row("one_way_p50_ms", "ms", &off);
        let worth = joined(&off, &on, |off, on| off / on);
        let of = [("mechanism", json!("micro-blocks")), ("radio hops", json!(hops))];
        let gain = Head::sim("S2-E12", &of, "hop-2009").row("delay_without_over_with", "ratio", &worth);
        let gain = gain.judged(Aim::Above(1.0));
        vec![row, without, gain]
    })
}
