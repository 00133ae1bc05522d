//! Rows of the experiments, judged as their text and physics have it.
//!
//! Where a delay is compared with the packets of a buffer it is the 95th percentile of the answered pings: the top of
//! the
//! sawtooth, where the buffer is full. A lone CUBIC flow spends the rest of the time between 70 and 100 % of it.

use super::cases::{OTHERS, RATES, RING, SLOW_ROUTER, TXQUEUELEN, WRT54TM_KBIT};
use super::{Found, Place};
use crate::cells::{Aim, Head, joined, unproven};
use crate::document::Row;
use crate::home::{Air, BACK, Home, PACKET_BITS, PING, SECOND, Seen};
use serde_json::{Value, json};
use wavelane_measure::mean;

/// Seconds from which on the queue stands.
const SETTLE_S: u64 = 10;

fn head(place: Place, id: &'static str, home: &Home, case: &[(&str, Value)]) -> Head {
    Head::new(id, place.word(), case, &format!("tcp-{}", home.control))
}

/// Milliseconds that `packets` take at a rate.
fn packets_ms(packets: u32, kbit: u32) -> f64 {
    f64::from(packets) * PACKET_BITS / f64::from(kbit)
}

fn kbit(home: &Home) -> u32 {
    match &home.air {
        Air::Cable { kbit, .. } => *kbit,
        Air::Cell { mbit, .. } => RATES.iter().find(|(m, _)| m == mbit).map_or(0, |(_, kbit)| *kbit),
    }
}

/// Rows of runs that all happened; else one row that says which did not.
fn rows_of(found: &[Found<'_>], head: &Head, make: impl Fn(&[&Seen]) -> Vec<Row>) -> Vec<Row> {
    let seen: Vec<&Seen> = found.iter().filter_map(|f| f.seen.as_ref()).collect();
    if seen.len() < found.len() {
        return vec![head.row("rtt_p50_ms", "ms", &[]).inconclusive("a run of this experiment could not be made here")];
    }
    let stacks: Vec<_> = seen.iter().map(|seen| seen.stack()).collect();
    let mut rows = make(&seen);
    rows.iter_mut().for_each(|row| unproven(row, &stacks));
    rows
}

pub(super) fn growth(place: Place, medium: &str, found: &Found<'_>) -> Vec<Row> {
    let head = head(place, "S3-E2a", found.home, &[("medium", json!(medium)), ("packets", json!("1000+256"))]);
    let second = Head { id: "S3-E2a'".into(), ..head.clone() };
    rows_of(std::slice::from_ref(found), &head, |seen| {
        let seen = seen[0];
        let peak = head
            .row("rtt_peak_ms", "ms", &seen.peak(PING))
            .between(450.0, 750.0)
            .published_as(600.0)
            .bound_by(packets_ms(TXQUEUELEN + RING, kbit(found.home)));
        let rise = head.row("rise_spearman", "index", &seen.rise(PING, 20)).judged(Aim::Above(0.8));
        let time = head.row("time_to_80_percent_s", "s", &seen.time_to_80(PING, found.home.seconds));
        let time = time.between(2.0, 40.0).published_as(20.0);
        let spread = joined(&seen.loaded(PING, 0, 900), &seen.loaded(PING, 0, 100), |high, low| high - low);
        let jitter = head.row("rtt_p90_minus_p10_ms", "ms", &spread).judged(Aim::Above(100.0));
        let other =
            joined(&seen.loaded(SECOND, SETTLE_S, 500), &seen.loaded(PING, SETTLE_S, 500), |two, one| two / one);
        let share = second.row("rtt_of_first", "ratio", &other).judged(Aim::Below(0.1));
        vec![peak, rise, time, jitter, share]
    })
}

pub(super) fn lengths(place: Place, lengths: &[u32], found: &[Found<'_>]) -> Vec<Row> {
    let heads: Vec<Head> = lengths
        .iter()
        .zip(found)
        .map(|(q, f)| head(place, "S3-E2b", f.home, &[("txqueuelen", json!(q)), ("ring", json!(RING))]))
        .collect();
    rows_of(found, &heads[0], |seen| {
        let one = |i: usize| {
            heads[i]
                .row("rtt_p95_ms", "ms", &seen[i].top(PING, SETTLE_S))
                .near(packets_ms(lengths[i] + RING, kbit(found[i].home)), 0.2)
                .published_as((lengths[i] == 0).then_some(100.0))
        };
        (0..lengths.len()).map(one).collect()
    })
}

pub(super) fn rates(place: Place, medium: &str, found: &[Found<'_>]) -> Vec<Row> {
    let case = |mbit: u32| [("medium", json!(medium)), ("rate", json!(format!("{mbit} Mbit/s")))];
    let claim = head(place, "S3-E2c", found[0].home, &[("medium", json!(medium))]);
    rows_of(found, &claim, |seen| {
        let (mut rows, mut products) = (Vec::new(), Vec::new());
        for (i, (mbit, _)) in RATES.iter().enumerate() {
            let head = head(place, "S3-E2c", found[i].home, &case(*mbit));
            // After a loss the queue fills again within ten seconds; what is before half of the run is start.
            let half = found[i].home.seconds / 2;
            let (rtt, goodput) = (seen[i].top(PING, half), seen[i].goodput(half, found[i].home.seconds));
            let held = joined(&rtt, &goodput, |ms, bps| ms / 1e3 * bps / (1_448.0 * 8.0));
            products.extend(mean(&held));
            let bound = packets_ms(TXQUEUELEN + RING, RATES[i].1);
            let row = head.row("rtt_p95_ms", "ms", &rtt);
            rows.push(if *mbit == 6 { row.near(bound, 0.2) } else { row.bound_by(bound) });
            rows.push(
                head.row("goodput_bps", "bit/s", &goodput)
                    .bound_by(Some(f64::from(RATES[i].1) * 1e3 * 1_448.0 / 1_500.0).filter(|_| medium == "cable")),
            );
            rows.push(head.row("rtt_times_goodput_packets", "packets", &held));
        }
        let spread =
            products.iter().copied().fold(f64::MIN, f64::max) / products.iter().copied().fold(f64::MAX, f64::min);
        let row = claim.row("rtt_times_goodput_spread", "ratio", &[spread]);
        rows.push(row.judged(Aim::AtMost(1.15)).noting("largest over smallest of the four rates"));
        rows
    })
}

pub(super) fn web(place: Place, found: &Found<'_>, pages: usize) -> Vec<Row> {
    let head = head(place, "S3-E2d", found.home, &[("rate", json!("6 Mbit/s")), ("page", json!(crate::home::PAGE))]);
    rows_of(std::slice::from_ref(found), &head, |seen| {
        let limit = found.home.seconds as f64 * 1e3;
        let (idle, busy) = (seen[0].pages(0..1, limit), seen[0].pages(1..pages, limit));
        let ratio = head.row("page_over_idle", "ratio", &joined(&busy, &idle, |busy, idle| busy / idle));
        let ratio = ratio.judged(Aim::AtLeast(5.0));
        let rtt = seen[0].loaded(PING, 30, 500);
        let rounds = head
            .row("page_over_rtt", "round trips", &joined(&busy, &rtt, |busy, rtt| busy / rtt))
            .judged(Aim::AtLeast(4.0))
            .noting("one to connect and three windows, without the name's look-up");
        vec![ratio, rounds, head.row("page_ms", "ms", &busy), head.row("page_idle_ms", "ms", &idle)]
    })
}

/// The source's "a bit over a hundred" cannot be with the ring of 256 that it supposes.
pub(super) fn rings(place: Place, rings: &[u32], found: &[Found<'_>]) -> Vec<Row> {
    let heads: Vec<Head> = rings
        .iter()
        .zip(found)
        .map(|(ring, f)| head(place, "S3-E2e", f.home, &[("txqueuelen", json!(0)), ("ring", json!(ring))]))
        .collect();
    rows_of(found, &heads[0], |seen| {
        let one = |i: usize| {
            let row = heads[i].row("rtt_p95_ms", "ms", &seen[i].top(PING, SETTLE_S));
            row.near(packets_ms(rings[i], kbit(found[i].home)), 0.2).published_as(100.0)
        };
        (0..rings.len()).map(one).collect()
    })
}

pub(super) fn commercial(place: Place, found: &Found<'_>) -> Vec<Row> {
    let head =
        head(place, "S3-E3a", found.home, &[("router", json!("E3000")), ("packets", json!(super::cases::E3000))]);
    rows_of(std::slice::from_ref(found), &head, |seen| {
        let rtt = head
            .row("rtt_peak_ms", "ms", &seen[0].peak(PING))
            .judged(Aim::AtLeast(500.0))
            .published_as(500.0)
            .bound_by(packets_ms(super::cases::E3000, kbit(found.home)));
        let loss = head.row("ping_loss", "share", &seen[0].loss(BACK));
        let loss = loss.judged(Aim::Above(0.0)).noting("pings by the server, into the queue that overflows");
        vec![rtt, loss]
    })
}

/// A knob of another queue than the standing one.
pub(super) fn no_effect(
    place: Place,
    id: &'static str,
    published: Option<f64>,
    packets: u32,
    found: &[Found<'_>],
) -> Vec<Row> {
    let claim = head(place, id, found[0].home, &[]);
    rows_of(found, &claim, |seen| {
        let rtt: Vec<Vec<f64>> = seen.iter().map(|seen| seen.top(PING, SETTLE_S)).collect();
        let mut rows = Vec::new();
        for (values, (f, q)) in rtt.iter().zip(found.iter().zip([TXQUEUELEN, 0])) {
            let row = head(place, id, f.home, &[("txqueuelen", json!(q))]).row("rtt_p95_ms", "ms", values);
            rows.push(row.near(packets_ms(packets, kbit(f.home)), 0.2).published_as(published));
        }
        let change = joined(&rtt[0], &rtt[1], |long, none| (long / none - 1.0).abs());
        rows.push(claim.row("rtt_change", "share", &change).judged(Aim::Below(0.1)));
        rows
    })
}

pub(super) fn slow_router(place: Place, mbits: &[u32], found: &[Found<'_>]) -> Vec<Row> {
    let claim = head(place, "S3-E3c", found[0].home, &[]);
    rows_of(found, &claim, |seen| {
        let (mut rows, mut all) = (Vec::new(), Vec::new());
        for (i, mbit) in mbits.iter().enumerate() {
            let case = [("rate", json!(format!("{mbit} Mbit/s"))), ("packets", json!(SLOW_ROUTER))];
            // At these delays the start takes tens of seconds.
            let values = seen[i].top(PING, found[i].home.seconds / 2);
            let row = head(place, "S3-E3c", found[i].home, &case).row("rtt_p95_ms", "ms", &values);
            let published = if *mbit == 6 { 4_000.0 } else { 2_000.0 };
            rows.push(row.near(packets_ms(SLOW_ROUTER, kbit(found[i].home)), 0.2).published_as(published));
            all.push(values);
        }
        if let [twelve, six] = &all[..] {
            let row = claim.row("rtt_6_over_12", "ratio", &joined(six, twelve, |six, twelve| six / twelve));
            rows.push(row.between(1.7, 2.3).published_as(2.0).bound_by(f64::from(RATES[2].1) / f64::from(RATES[3].1)));
        }
        rows
    })
}

pub(super) fn gargoyle(place: Place, ring: u32, lengths: [u32; 2], found: &[Found<'_>]) -> Vec<Row> {
    let claim = head(place, "S3-E3e", found[0].home, &[]);
    rows_of(found, &claim, |seen| {
        let rtt: Vec<Vec<f64>> = seen.iter().map(|seen| seen.top(PING, SETTLE_S)).collect();
        let mut rows = Vec::new();
        for i in 0..2 {
            let case = [("txqueuelen", json!(lengths[i])), ("ring", json!(ring))];
            let row = head(place, "S3-E3e", found[i].home, &case).row("rtt_p95_ms", "ms", &rtt[i]);
            rows.push(row.bound_by(packets_ms(lengths[i] + ring, WRT54TM_KBIT)).published_as([1_000.0, 20.0][i]));
        }
        rows.push(
            claim
                .row("rtt_before_over_after", "ratio", &joined(&rtt[0], &rtt[1], |a, b| a / b))
                .judged(Aim::AtLeast(20.0))
                .published_as(50.0)
                .bound_by(f64::from(lengths[0] + ring) / f64::from(lengths[1] + ring)),
        );
        rows
    })
}

pub(super) fn remedy(place: Place, kbits: &[u32], found: &[Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (kbit, pair) in kbits.iter().zip(found.chunks(2)) {
        let rate = json!(format!("{} Mbit/s", f64::from(*kbit) / 1e3));
        let heads = ["fifo 1000+256", "fq-codel"]
            .map(|queue| head(place, "S3-E4", pair[0].home, &[("rate", rate.clone()), ("queue", json!(queue))]));
        let seconds = pair[0].home.seconds;
        rows.extend(rows_of(pair, &heads[1], |seen| {
            let before = heads[0].row("rtt_p95_ms", "ms", &seen[0].loaded(PING, SETTLE_S, 950));
            let after = heads[1].row("rtt_p95_ms", "ms", &seen[1].loaded(PING, SETTLE_S, 950));
            let after = after.judged(Aim::Below(if *kbit > 10_000 { 20.0 } else { 40.0 }));
            let carried = [0, 1].map(|i| seen[i].goodput(SETTLE_S, seconds));
            let goodputs = [0, 1].map(|i| heads[i].row("goodput_bps", "bit/s", &carried[i]));
            let kept = heads[1].row("goodput_of_fifo", "ratio", &joined(&carried[1], &carried[0], |a, b| a / b));
            let kept = kept.judged(Aim::Above(0.95));
            let [fifo, codel] = goodputs;
            vec![before, after, fifo, codel, kept]
        }));
    }
    rows
}

pub(super) fn others(found: &[Found<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((word, _), f) in OTHERS.iter().zip(found) {
        let head = head(Place::Sim, "S3-E4", f.home, &[("rate", json!("4.9 Mbit/s")), ("queue", json!(word))]);
        rows.extend(rows_of(std::slice::from_ref(f), &head, |seen| {
            let carried = seen[0].goodput(SETTLE_S, f.home.seconds);
            let rtt = head.row("rtt_p95_ms", "ms", &seen[0].loaded(PING, SETTLE_S, 950));
            vec![rtt, head.row("goodput_bps", "bit/s", &carried)]
        }));
    }
    rows
}
