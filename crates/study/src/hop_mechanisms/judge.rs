//! Rows of the experiments, judged as their text and their closed forms have it.

use super::{Seen, overhearing, radio};
use crate::cells::{Aim, Head, joined};
use crate::document::Row;
use crate::experiments::{self, Judge};
use crate::plan::About;
use serde_json::{Value, json};
use wavelane_run::figures::FlowFigures;

/// Seconds that flows without a size run, and from which on they have settled.
const SECONDS: f64 = 25.0;
const SETTLED_S: f64 = 10.0;
/// The shared link of the forked topology, and the slow branch, in Mbit/s.
const SHARED_MBIT: f64 = 10.0;
const SLOW_MBIT: f64 = 1.0;
/// Hops that the micro-blocks cross.
const KEYS_HOPS: f64 = 2.0;
/// Hops of the clean chain.
const CLEAN_HOPS: u32 = 4;

/// The judge of that word in the plan.
pub(super) fn of(word: &str, about: About) -> Judge<Option<Seen>> {
    let rows: fn(&About, &[Option<Seen>]) -> Vec<Row> = match word {
        "backpressure" => backpressure,
        "transmissions" => transmissions,
        "without-vtx" => without_vtx,
        "keys" => keys,
        "clean" => clean,
        "sealed" => sealed,
        "corrupted" => corrupted,
        "hidden" => radio::hidden,
        "keys-by-radio" => radio::keys,
        "overheard" => overhearing::overheard,
        other => panic!("no judge is called {other}"),
    };
    Box::new(move |found| rows(&about, found))
}

fn head(id: &'static str, case: &[(&str, Value)]) -> Head {
    Head::sim(id, case, "wavelane")
}

/// Rows if all runs exist; else one row with the reason.
pub(super) fn rows_of(
    found: &[Option<Seen>],
    head: &Head,
    metric: &str,
    make: impl Fn(&[&Seen]) -> Vec<Row>,
) -> Vec<Row> {
    experiments::rows_of(found, head, (metric, "ratio"), |seen| &seen.stack, make)
}

/// S2-E8: the shared link's goodput over that of one flow alone there.
fn backpressure(about: &About, found: &[Option<Seen>]) -> Vec<Row> {
    let limits = about.words("limits");
    let of = |kind: &str| head("S2-E8", &[("backpressure", json!(kind))]);
    rows_of(found, &of("off"), "of_one_clean_flow", |seen| {
        let goodput = |seen: &Seen| seen.goodput(SETTLED_S, SECONDS);
        let alone = goodput(seen[0]);
        let shares: Vec<Vec<f64>> =
            seen[1..].iter().map(|seen| joined(&goodput(seen), &alone, |both, one| both / one)).collect();
        let mut rows = Vec::new();
        for (kind, share) in limits.iter().zip(&shares) {
            let row = of(kind).row("of_one_clean_flow", "ratio", share);
            // Half of the shared link, and what the slow one carries of the other half.
            let bound = 0.5 + SLOW_MBIT / SHARED_MBIT;
            rows.push(match kind.as_str() {
                "off" => row.near(bound, 0.05).published_as(0.6),
                _ => row.judged(Aim::AtLeast(0.95)).published_as(1.0).bound_by(1.0),
            });
        }
        // The gain from the mechanism.
        let worth = joined(&shares[1], &shares[0], |on, off| on / off);
        let row = head("S2-E12", &[("mechanism", json!("backpressure"))]).row("with_over_without", "ratio", &worth);
        rows.push(row.judged(Aim::Above(1.0)));
        rows
    })
}

/// S2-E9: crossings of hops per byte that arrives.
fn transmissions(about: &About, found: &[Option<Seen>]) -> Vec<Row> {
    let (hops, tenths) = (about.whole("hops"), about.whole("tenths"));
    let (h, q) = (f64::from(hops), f64::from(tenths) / 10.0);
    let head = head("S2-E9", &[("hops", json!(hops)), ("q", json!(q))]);
    rows_of(found, &head, "transmissions", |seen| {
        let whole = |f: &FlowFigures| (f.completed && f.intact == Some(true)).then_some(1.0);
        let complete = seen[0].figure("file", whole).len() == seen[0].stack.flows.len();
        let mut row = head.row("transmissions", "per byte", &[]);
        row.value = seen[0].stack.repair_share.filter(|_| complete).map(|again| h * (1.0 + again));
        row.n = seen[0].stack.flows.len() as u64;
        let form = h / (1.0 - q);
        let end_to_end = (1.0 - (1.0 - q).powi(hops as i32)) / (q * (1.0 - q).powi(hops as i32));
        vec![row.near(form, 0.05).noting(&format!("from end to end it would be {end_to_end:.2}"))]
    })
}

/// Without it a lost block never arrives.
fn without_vtx(_: &About, found: &[Option<Seen>]) -> Vec<Row> {
    let head = head("S2-E12", &[("mechanism", json!("vtx")), ("hops", json!(4)), ("q", json!(0.2))]);
    rows_of(found, &head, "completed", |seen| {
        let done = seen[0].figure("file", |f| Some(f64::from(u8::from(f.completed))));
        vec![
            head.row("completed", "share", &done)
                .judged(Aim::AtMost(0.0))
                .noting("without virtual retransmission, where with it all do"),
        ]
    })
}

/// S2-E11: the delay of keys beside bulk.
fn keys(about: &About, found: &[Option<Seen>]) -> Vec<Row> {
    let crowd = about.whole("crowd");
    let case = |on: &str| head("S2-E11", &[("bulk flows", json!(crowd)), ("micro-blocks", json!(on))]);
    rows_of(found, &case("on"), "rtt_p50_ms", |seen| {
        let rtt = |seen: &Seen| seen.figure("keys", |f| f.rtt_p50_ms);
        let (on, off) = (rtt(seen[0]), rtt(seen[1]));
        let ratio = joined(&on, &off, |on, off| on / off);
        // Beside one flow the round that is avoided is one turn.
        let aim = (crowd > 1).then_some(Aim::AtMost(1.0 / 3.0));
        let of_without = case("on").row("of_without", "ratio", &ratio).judged(aim);
        // 10 ms a hop: half of an echo is one way.
        let half: Vec<f64> = on.iter().map(|rtt| rtt / 2.0).collect();
        let one_way = case("on").row("one_way_p50_ms", "ms", &half).judged(Aim::AtMost(10.0 * KEYS_HOPS));
        let worth = joined(&off, &on, |off, on| off / on);
        let claim = head("S2-E12", &[("mechanism", json!("micro-blocks")), ("bulk flows", json!(crowd))]);
        let gain = claim.row("delay_without_over_with", "ratio", &worth).judged(Aim::Above(1.0));
        let (with, without) = (case("on").row("rtt_p50_ms", "ms", &on), case("off").row("rtt_p50_ms", "ms", &off));
        vec![with, without, one_way, of_without, gain]
    })
}

/// Relays cost nothing on a clean path.
fn clean(_: &About, found: &[Option<Seen>]) -> Vec<Row> {
    let head = head("chain", &[("hops", json!(CLEAN_HOPS))]);
    rows_of(found, &head, "of_one_hop", |seen| {
        let goodput = |seen: &Seen| seen.goodput(SETTLED_S, SECONDS);
        let share = joined(&goodput(seen[1]), &goodput(seen[0]), |chain, one| chain / one);
        vec![head.row("of_one_hop", "ratio", &share).between(0.99, 1.01).bound_by(1.0)]
    })
}

/// Seals on a clean chain cost their bytes.
fn sealed(_: &About, found: &[Option<Seen>]) -> Vec<Row> {
    let head = head("sealed", &[("hops", json!(CLEAN_HOPS))]);
    rows_of(found, &head, "of_unsealed", |seen| {
        let goodput = |seen: &Seen| seen.goodput(SETTLED_S, SECONDS);
        let share = joined(&goodput(seen[1]), &goodput(seen[0]), |sealed, plain| sealed / plain);
        let mut row = head.row("of_unsealed", "ratio", &share).judged(Aim::AtLeast(0.99));
        // docs/protocol/parcels.md: a full parcel.
        row.bound = Some(4_078.0 / 4_096.0);
        vec![row]
    })
}

/// What relays change does not arrive; without seals it does.
fn corrupted(_: &About, found: &[Option<Seen>]) -> Vec<Row> {
    let of = |sealed: bool| head("sealed", &[("corruption", json!(0.002)), ("sealed", json!(sealed))]);
    rows_of(found, &of(true), "intact", |seen| {
        let rows = seen.iter().zip([false, true]).map(|(seen, sealed)| {
            let intact = seen.figure("file", |f| Some(f64::from(u8::from(f.intact == Some(true)))));
            of(sealed).row("intact", "share", &intact).judged(if sealed { Aim::AtLeast(1.0) } else { Aim::AtMost(0.0) })
        });
        rows.collect()
    })
}
