//! Rows of the experiments, judged as their text and physics have it.
//!
//! Where a delay is compared with the packets of a buffer it is the 95th percentile of the answered pings: the top of the sawtooth, where the
//! buffer is full. A lone CUBIC flow spends the rest of the time between 70 and 100 % of it.

use crate::cells::{Aim, Head, joined};
use crate::document::Row;
use crate::experiments::{Judge, rows_of};
use crate::home::{BACK, PACKET_BITS, PING, SECOND, Seen};
use crate::plan::About;
use serde_json::json;
use wavelane_measure::mean;

/// Seconds from which on the queue stands.
const SETTLE_S: u64 = 10;
/// 802.11g signalling rates in Mbit/s, and what TCP gets of each in kbit/s.
const RATES: [(u32, f64); 4] = [(54, 24_200.0), (24, 15_000.0), (12, 8_900.0), (6, 4_900.0)];

/// The judge of that word in the plan.
pub(super) fn of(word: &str, about: About) -> Judge<Option<Seen>> {
    let make: fn(&About, &[&Seen]) -> Vec<Row> = match word {
        "growth" => growth,
        "lengths" => lengths,
        "slow_router" => slow_router,
        "remedy" => remedy,
        "rates" => rates,
        "web" => web,
        "commercial" => commercial,
        "no_effect" => no_effect,
        "gargoyle" => gargoyle,
        "others" => others,
        other => panic!("no judge is called {other}"),
    };
    Box::new(move |found| rows_of(found, &about.head(), ("rtt_p50_ms", "ms"), Seen::stack, |seen| make(&about, seen)))
}

/// The head with more words in its case.
fn head<const N: usize>(about: &About, case: [(&str, serde_json::Value); N]) -> Head {
    let mut head = about.head();
    head.case.extend(case.map(|(key, value)| (key.to_owned(), value)));
    head
}

/// Milliseconds that `packets` take at the experiment's rate.
fn packets_ms(about: &About, packets: f64) -> f64 {
    packets * PACKET_BITS / about.number("kbit")
}

fn growth(about: &About, seen: &[&Seen]) -> Vec<Row> {
    let (seen, head) = (seen[0], about.head());
    let second = Head { id: "S3-E2a'".into(), ..head.clone() };
    let peak = head.row("rtt_peak_ms", "ms", &seen.peak(PING)).between(450.0, 750.0).published_as(600.0);
    let rise = head.row("rise_spearman", "index", &seen.rise(PING, 20)).judged(Aim::Above(0.8));
    let time = head.row("time_to_80_percent_s", "s", &seen.time_to_80(PING, about.whole("seconds").into()));
    let spread = joined(&seen.loaded(PING, 0, 900), &seen.loaded(PING, 0, 100), |high, low| high - low);
    let jitter = head.row("rtt_p90_minus_p10_ms", "ms", &spread).judged(Aim::Above(100.0));
    let other = joined(&seen.loaded(SECOND, SETTLE_S, 500), &seen.loaded(PING, SETTLE_S, 500), |two, one| two / one);
    let share = second.row("rtt_of_first", "ratio", &other).judged(Aim::Below(0.1));
    let peak = peak.bound_by(packets_ms(about, 1_256.0));
    vec![peak, rise, time.between(2.0, 40.0).published_as(20.0), jitter, share]
}

/// Lengths of a queue, each with its ring.
fn lengths(about: &About, seen: &[&Seen]) -> Vec<Row> {
    let row = |((length, ring), seen): ((f64, f64), &&Seen)| {
        let row = head(about, [("txqueuelen", json!(length as u32)), ("ring", json!(ring as u32))]);
        let row = row.row("rtt_p95_ms", "ms", &seen.top(PING, SETTLE_S)).near(packets_ms(about, length + ring), 0.2);
        row.published_as((length == 0.0).then_some(100.0))
    };
    about.list("lengths").into_iter().zip(about.list("rings")).zip(seen).map(row).collect()
}

fn rates(about: &About, seen: &[&Seen]) -> Vec<Row> {
    let cable = about.word("medium") == "cable";
    let (mut rows, mut products) = (Vec::new(), Vec::new());
    for ((mbit, kbit), seen) in RATES.iter().zip(seen) {
        let head = head(about, [("rate", json!(format!("{mbit} Mbit/s")))]);
        // After a loss the queue fills again within ten seconds; what is before half of the run is start.
        let seconds = if *mbit == 6 { 90 } else { u64::from(about.whole("fast")) };
        let (rtt, goodput) = (seen.top(PING, seconds / 2), seen.goodput(seconds / 2, seconds));
        let held = joined(&rtt, &goodput, |ms, bps| ms / 1e3 * bps / (1_448.0 * 8.0));
        products.extend(mean(&held));
        let bound = 1_256.0 * PACKET_BITS / kbit;
        let row = head.row("rtt_p95_ms", "ms", &rtt);
        rows.push(if *mbit == 6 { row.near(bound, 0.2) } else { row.bound_by(bound) });
        let row = head.row("goodput_bps", "bit/s", &goodput);
        rows.push(row.bound_by(cable.then_some(kbit * 1e3 * 1_448.0 / 1_500.0)));
        rows.push(head.row("rtt_times_goodput_packets", "packets", &held));
    }
    let spread = products.iter().copied().fold(f64::MIN, f64::max) / products.iter().copied().fold(f64::MAX, f64::min);
    let row = about.head().row("rtt_times_goodput_spread", "ratio", &[spread]).judged(Aim::AtMost(1.15));
    rows.push(row.noting("largest over smallest of the four rates"));
    rows
}

fn web(about: &About, seen: &[&Seen]) -> Vec<Row> {
    const PAGES: usize = 4;
    const LIMIT_MS: f64 = 110e3;
    let (head, seen) = (about.head(), seen[0]);
    let (idle, busy) = (seen.pages(0..1, LIMIT_MS), seen.pages(1..PAGES, LIMIT_MS));
    let ratio = head.row("page_over_idle", "ratio", &joined(&busy, &idle, |busy, idle| busy / idle));
    let rounds = joined(&busy, &seen.loaded(PING, 30, 500), |busy, rtt| busy / rtt);
    let rounds = head.row("page_over_rtt", "round trips", &rounds).judged(Aim::AtLeast(4.0));
    let rounds = rounds.noting("one to connect and three windows, without the name's look-up");
    let (busy, idle) = (head.row("page_ms", "ms", &busy), head.row("page_idle_ms", "ms", &idle));
    vec![ratio.judged(Aim::AtLeast(5.0)), rounds, busy, idle]
}

fn commercial(about: &About, seen: &[&Seen]) -> Vec<Row> {
    let head = about.head();
    let rtt = head.row("rtt_peak_ms", "ms", &seen[0].peak(PING)).judged(Aim::AtLeast(500.0)).published_as(500.0);
    let loss = head.row("ping_loss", "share", &seen[0].loss(BACK)).judged(Aim::Above(0.0));
    let loss = loss.noting("pings by the server, into the queue that overflows");
    vec![rtt.bound_by(packets_ms(about, about.number("packets"))), loss]
}

/// A knob of another queue than the standing one.
fn no_effect(about: &About, seen: &[&Seen]) -> Vec<Row> {
    let rtt: Vec<Vec<f64>> = seen.iter().map(|seen| seen.top(PING, SETTLE_S)).collect();
    let row = |(values, length): (&Vec<f64>, u32)| {
        let row = head(about, [("txqueuelen", json!(length))]).row("rtt_p95_ms", "ms", values);
        row.near(packets_ms(about, about.number("packets")), 0.2).published_as(about.given("published"))
    };
    let mut rows: Vec<Row> = rtt.iter().zip([1_000, 0]).map(row).collect();
    let change = joined(&rtt[0], &rtt[1], |long, none| (long / none - 1.0).abs());
    rows.push(about.head().row("rtt_change", "share", &change).judged(Aim::Below(0.1)));
    rows
}

fn slow_router(about: &About, seen: &[&Seen]) -> Vec<Row> {
    const PACKETS: f64 = 1_560.0;
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for (mbit, seen) in about.list("rates").into_iter().zip(seen) {
        let head = head(about, [("rate", json!(format!("{mbit} Mbit/s"))), ("packets", json!(PACKETS as u32))]);
        // At these delays the start takes tens of seconds.
        let (seconds, kbit, published) = match mbit {
            6.0 => (about.whole("twice"), RATES[3].1, 4_000.0),
            _ => (about.whole("seconds"), RATES[2].1, 2_000.0),
        };
        let values = seen.top(PING, u64::from(seconds) / 2);
        let row = head.row("rtt_p95_ms", "ms", &values).near(PACKETS * PACKET_BITS / kbit, 0.2);
        rows.push(row.published_as(published));
        all.push(values);
    }
    if let [twelve, six] = &all[..] {
        let row = about.head().row("rtt_6_over_12", "ratio", &joined(six, twelve, |six, twelve| six / twelve));
        rows.push(row.between(1.7, 2.3).published_as(2.0).bound_by(RATES[2].1 / RATES[3].1));
    }
    rows
}

fn gargoyle(about: &About, seen: &[&Seen]) -> Vec<Row> {
    let held = [1_644.0, 10.0].map(|length| length + about.number("ring"));
    let rtt: Vec<Vec<f64>> = seen.iter().map(|seen| seen.top(PING, SETTLE_S)).collect();
    let row = |i: usize| {
        let head = head(about, [("txqueuelen", json!([1_644, 10][i])), ("ring", about.json("ring"))]);
        let row = head.row("rtt_p95_ms", "ms", &rtt[i]).bound_by(packets_ms(about, held[i]));
        row.published_as([1_000.0, 20.0][i])
    };
    let gain = about.head().row("rtt_before_over_after", "ratio", &joined(&rtt[0], &rtt[1], |a, b| a / b));
    let gain = gain.judged(Aim::AtLeast(20.0)).published_as(50.0).bound_by(held[0] / held[1]);
    vec![row(0), row(1), gain]
}

fn remedy(about: &About, seen: &[&Seen]) -> Vec<Row> {
    let heads = ["fifo 1000+256", "fq-codel"].map(|queue| about.head().and("queue", queue));
    let rtt = |i: usize| heads[i].row("rtt_p95_ms", "ms", &seen[i].loaded(PING, SETTLE_S, 950));
    let carried = [0, 1].map(|i| seen[i].goodput(SETTLE_S, about.whole("seconds").into()));
    let [fifo, codel] = [0, 1].map(|i| heads[i].row("goodput_bps", "bit/s", &carried[i]));
    let kept = heads[1].row("goodput_of_fifo", "ratio", &joined(&carried[1], &carried[0], |a, b| a / b));
    vec![rtt(0), rtt(1).judged(about.aim("aim")), fifo, codel, kept.judged(Aim::Above(0.95))]
}

fn others(about: &About, seen: &[&Seen]) -> Vec<Row> {
    let head = about.head();
    let carried = seen[0].goodput(SETTLE_S, about.whole("seconds").into());
    let rtt = head.row("rtt_p95_ms", "ms", &seen[0].loaded(PING, SETTLE_S, 950));
    vec![rtt, head.row("goodput_bps", "bit/s", &carried)]
}
