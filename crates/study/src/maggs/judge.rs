//! Rows of the experiments.

use super::{SEGMENT, Seen, radio};
use crate::cells::{Aim, Head, joined};
use crate::document::Row;
use crate::experiments::{Judge, LAB};
use crate::plan::About;
use serde_json::json;
use wavelane_measure::mean;

/// The document's rates of the line, in bit/s.
const RATES: [u64; 11] = [1_200, 2_400, 4_800, 9_600, 14_400, 19_200, 28_800, 33_600, 38_400, 57_600, 115_200];
/// Octets of an acknowledgement with its END.
const ACK: f64 = 41.0;
/// The most of what the bound allows is reached from this window on.
const WIDE: u32 = 6;
/// Share of what Ethernet or window allow, below which the line is what binds.
const BINDS: f64 = 0.9;
/// What Ethernet carries of segments, in bit/s.
const ETHERNET: f64 = 9.753e6 * 1_460.0 / 1_500.0;
/// Seconds of a round trip besides the acknowledgement's octets: three Ethernets, and the silence that ends a frame of `slip-1998`.
const ROUND_S: f64 = 3.0 * 1_500.0 * 8.0 / 9.753e6 + 0.005;
/// IP octets of a full packet over its payload, as TCP with timestamps has them, and the cable out.
const FULL_OVER_PAYLOAD: f64 = 1_500.0 / 1_448.0;
const OUT_BPS: f64 = 2e6;
/// What the issue asks of the closed form.
const OF_FORM: (f64, f64) = (0.93, 1.02);

type Rows = fn(&About, &[&[Seen]]) -> Vec<Row>;

/// The judge of that word in the plan, which gets the seeds of each run.
pub(super) fn of(word: &str, about: About) -> Judge<Seen> {
    let rows: Rows = match word {
        "ethernet" => ethernet,
        "goodput" => goodput,
        "radios" => radios,
        "wavelan" => wavelan,
        "knee" => knee,
        "peak" => peak,
        "framing" => framing,
        "order" => order,
        "segments" => segments,
        "receiver" => receiver,
        "lossy" => lossy,
        "silence" => silence,
        "growth" => growth,
        "layer" => layer,
        "gaps" => gaps,
        "keys" => keys,
        "hidden" => hidden,
        "hops" => hops,
        "added" => added,
        "dead" => radio::dead,
        "hosts" => hosts,
        "whole" => whole,
        "back" => back,
        "both" => both,
        "today" => today,
        "line" => line,
        "other" => of_other,
        other => panic!("no judge is called {other}"),
    };
    let seeds = about.whole("seeds") as usize;
    Box::new(move |seen| rows(&about, &seen.chunks(seeds).collect::<Vec<_>>()))
}

/// A figure of each run.
fn each(seen: &[Seen], of: impl Fn(&Seen) -> f64) -> Vec<f64> {
    seen.iter().map(of).collect()
}

fn bps(seen: &[Seen]) -> Vec<f64> {
    each(seen, Seen::down_bps)
}

/// Each over one number.
fn over(values: &[f64], one: f64) -> Vec<f64> {
    values.iter().map(|value| value / one).collect()
}

/// The document's maximum of several trials.
fn most(seen: &[Seen]) -> f64 {
    bps(seen).into_iter().fold(0.0, f64::max)
}

/// The mean of what there is, else nothing that compares.
fn middle(values: &[f64]) -> f64 {
    mean(values).unwrap_or(f64::NAN)
}

/// What acknowledgements of `octets` each let through, in bit/s.
fn bound(seen: &Seen, bps: u64, octets: f64) -> f64 {
    seen.ratio() * SEGMENT * 8.0 * bps as f64 / (10.0 * octets)
}

fn up(about: &About) -> u64 {
    u64::from(about.whole("up"))
}

/// What the acknowledgements' line lets through.
fn line_bound(about: &About, seen: &[Seen]) -> f64 {
    bound(&seen[0], up(about), ACK)
}

/// Goodput alone.
fn goodput(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let limit = about.given("bound").or_else(|| about.has("up").then(|| line_bound(about, runs[0])));
    vec![about.head().row("goodput_bps", "bit/s", &bps(runs[0])).bound_by(limit)]
}

/// E1 and E7, over the document's rates.
fn ethernet(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let window = about.whole("segments");
    // What a window of segments allows over an idle line.
    let by_window = |bps: u64| f64::from(window) * SEGMENT * 8.0 / (ROUND_S + 10.0 * ACK / bps as f64);
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for (bps, seen) in RATES.into_iter().zip(runs) {
        let seen = &seen[0];
        let limit = bound(seen, bps, ACK);
        let mut head = about.head();
        head.case.insert("up_bps".into(), json!(bps));
        rows.push(head.row("goodput_bps", "bit/s", &[seen.down_bps()]).bound_by(limit));
        let mut share = head.row("of_ack_bound", "ratio", &[seen.down_bps() / limit]).bound_by(1.0);
        if window >= WIDE && limit < BINDS * ETHERNET.min(by_window(bps)) {
            points.push(((bps as f64).ln(), seen.down_bps().ln()));
            share = share.between(0.98, 1.02);
        }
        let (ratio, octets) = (seen.ratio(), seen.octets_up());
        rows.push(share.noting(&format!("{ratio:.3} segments an acknowledgement, {octets:.2} octets each")));
    }
    if window >= WIDE {
        let exponent: Vec<f64> = slope(&points).into_iter().collect();
        let row = Head { id: "S0-E7".into(), ..about.head() }.row("exponent", "", &exponent);
        rows.push(row.bound_by(1.0).between(0.98, 1.02));
    }
    rows
}

/// The exponent of a power law through points of logarithms.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (x, y) = (mean(&x)?, mean(&y)?);
    let both: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let square: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    (square > 0.0).then(|| both / square)
}

/// E5, E6 and E9: both ways by one radio, that radio alone, and a line that is fast enough.
fn radios(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let [shared, alone, line] = [runs[0], runs[1], runs[2]];
    let [five, six, nine] = ["S0-E5", "S0-E6", "S0-E9"].map(|id| Head { id: id.into(), ..about.head() });
    let goodput = |head: &Head, seen| head.row("goodput_bps", "bit/s", &bps(seen));
    // Timers of a second make collisions of the first station weigh more: not what is asked.
    let same = six.row("over_chain", "ratio", &[most(alone) / most(shared)]).judged(about.aim("same"));
    let gain = nine.row("line_over_shared_radio", "ratio", &[most(line) / most(shared)]).judged(Aim::Above(1.03));
    vec![goodput(&five, shared), goodput(&six, alone), same, goodput(&nine, line), gain]
}

/// E4 and E8 at one rate, beside the fastest line.
fn wavelan(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let (seen, peak) = (runs[0], most(runs[1]));
    let (best, limit, head) = (most(seen), line_bound(about, seen), about.head());
    let near = seen.iter().filter(|seen| seen.down_bps() >= 0.95 * best).count() as f64 / seen.len() as f64;
    let share = Head { id: "S0-E8".into(), ..head.clone() }.row("of_peak", "ratio", &[best / peak]);
    vec![
        head.one("goodput_bps", "bit/s", Some(best), seen.len()).bound_by(limit),
        head.row("trials_within_5_percent", "share", &[near]).judged(Aim::Above(0.5)),
        share.bound_by((limit / peak).min(1.0)).published_as(about.given("published")).judged(about.aim("aim")),
    ]
}

/// The rate that first gives nine tenths of the peak.
fn knee(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let rate = |place: usize| about.number("from") + about.number("step") * place as f64;
    let shares: Vec<f64> = runs[1..].iter().map(|seen| most(seen) / most(runs[0])).collect();
    let crossing = shares.windows(2).position(|pair| pair[0] < 0.9 && pair[1] >= 0.9);
    let knee =
        crossing.map(|at| rate(at) + (0.9 - shares[at]) / (shares[at + 1] - shares[at]) * (rate(at + 1) - rate(at)));
    vec![about.head().row("knee_bps", "bit/s", &knee.into_iter().collect::<Vec<_>>()).judged(about.aim("aim"))]
}

/// A share of the peak, which another run or the plan says.
fn peak(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let peak = about.given("peak").unwrap_or_else(|| most(runs[1]));
    let row = about.head().row("of_peak", "ratio", &over(&bps(runs[0]), peak)).bound_by(about.given("bound"));
    vec![row.judged(about.aim("aim").filter(|_| about.has("judged")))]
}

/// E10 over a plain line.
fn framing(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let (seen, peak, head) = (&runs[0][0], runs[1][0].down_bps(), about.head());
    let limit = bound(seen, up(about), seen.octets_up());
    let share = head.row("of_peak", "ratio", &[seen.down_bps() / peak]).bound_by((limit / peak).min(1.0));
    vec![
        head.row("goodput_bps", "bit/s", &[seen.down_bps()]).bound_by(limit),
        share.judged(about.aim("aim").filter(|_| about.has("judged"))),
        head.row("octets_per_ack", "B", &[seen.octets_up()]).judged(about.aim("octets")),
    ]
}

/// E10: framings stand in the order of what they cost.
fn order(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let order: Vec<f64> = runs.iter().map(|seen| seen[0].down_bps()).collect();
    let least = order.windows(2).map(|pair| pair[0] / pair[1]).fold(f64::INFINITY, f64::min);
    let mut row = about.head().row("least_step_of_order", "ratio", &[least]).judged(about.aim("aim"));
    row.why = format!("{}: cslip, ppp+vj, slip, ppp {:.0?} kbit/s", row.why, over(&order, 1e3));
    vec![row]
}

/// E21.
fn segments(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    vec![about.head().row("segments_per_ack", "segments", &[runs[0][0].ratio()])]
}

/// E19: a receiver that loses octets, or none.
fn receiver(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let (up, head) = (runs[0][0].up(), about.head());
    let mut lost = head.row("octets_overrun", "octets", &[up.overrun as f64]);
    lost.why = format!("{} of {} frames decode, {} do not", up.received, up.sent, up.bad);
    let mut rows = vec![lost.judged(about.aim("aim"))];
    // Whole frames between damaged ones: the decoder is in step again.
    let decoded = |aim| head.row("frames_decoded", "frames", &[up.received as f64]).judged(aim);
    rows.extend(about.aim("again").map(decoded));
    rows
}

/// E12: one kind of loss, beside none.
fn lossy(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let (clean, head) = (mean(&bps(runs[1])).unwrap_or(1.0), about.head());
    let row = head.row("of_clean", "ratio", &over(&bps(runs[0]), clean));
    vec![
        row.judged(about.aim("aim").filter(|_| about.has("judged"))),
        head.row("longest_silence_s", "s", &each(runs[0], Seen::silence_s)),
    ]
}

/// E12: how long a dead radio is silent.
fn silence(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    vec![about.head().row("silence_s", "s", &each(runs[0], Seen::silence_s))]
}

/// E12: by how much silences grow with the outages.
fn growth(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let silent: Vec<f64> = runs.iter().map(|seen| seen[0].silence_s()).collect();
    let steps: Vec<f64> = silent.windows(2).map(|pair| pair[1] / pair[0]).collect();
    let growth = steps.iter().product::<f64>().powf(1.0 / steps.len() as f64);
    let row = about.head().row("silence_growth", "ratio", &[growth]).judged(about.aim("aim"));
    vec![row.noting(&format!("silences of {silent:.1?} s"))]
}

/// E13: TCP with a layer below it, and without.
fn layer(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let ([with, without], head) = ([runs[0], runs[1]], about.head());
    let gains = joined(&bps(with), &bps(without), |with, without| with / without);
    let [more, less] = [with, without].map(|seen| each(seen, |seen| seen.timeouts as f64));
    let fewer = joined(&more, &less, |with, without| with / without.max(1.0));
    let [more, less] = [more, less].map(|counts| mean(&counts).unwrap_or(0.0));
    let words = format!("{more:.1} timeouts, {less:.1} without");
    vec![
        head.row("goodput_bps", "bit/s", &bps(with)),
        head.row("over_without", "ratio", &gains).judged(Aim::AtLeast(5.0)),
        head.row("timeouts_over_without", "ratio", &fewer).judged(Aim::AtMost(0.2)).noting(&words),
    ]
}

/// E13: how far tries of a packet that never arrives are apart.
fn gaps(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    const PACKETS: f64 = 3.0;
    let tries = runs[1][0].repeated.saturating_sub(runs[0][0].repeated) as f64 / PACKETS;
    // So many tries lie within a second, one more would not.
    let row = about.head().row("mean_gap_ms", "ms", &[1_000.0 / (tries + 0.5)]).judged(Aim::AtMost(110.0));
    vec![row.noting(&format!("{tries:.1} more tries of a packet within a dead second"))]
}

/// E16. Of packets alone, which no TCP sends again, tried 12.5, 25, 50, 100, 100 ... ms apart, each lost with 0.7, the plan says the bound.
fn keys(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let (seen, head) = (runs[0], about.head());
    let of = |figure: fn(&super::FlowSeen) -> Option<f64>| -> Vec<f64> {
        seen.iter().filter_map(|seen| figure(&seen.flow("keys"))).collect()
    };
    let slow = |flow: &str| each(seen, |seen| seen.flow(flow).slow as f64 / (seen.flow(flow).asked as f64).max(1.0));
    let rows = vec![
        head.row("keys_over_1_s", "share", &slow("keys")),
        head.row("packets_over_1_s", "share", &slow("ping"))
            .bound_by(about.given("bound"))
            .judged(about.aim("packets")),
        head.row("echo_p50_ms", "ms", &of(|keys| keys.p50_ms)),
        head.row("echo_p95_ms", "ms", &of(|keys| keys.p95_ms)),
        head.row("echo_p99_ms", "ms", &of(|keys| keys.p99_ms)).judged(about.aim("slowest")),
    ];
    // Half a minute between kernels has too few for the others.
    let told =
        |row: &Row| about.word("part") != LAB || ["packets_over_1_s", "echo_p99_ms"].contains(&row.metric.as_str());
    rows.into_iter().filter(told).collect()
}

/// E15: what each direction loses of fifty datagrams of 500 octets a second, for a minute.
fn hidden(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    const SENT: f64 = 50.0 * 60.0;
    let lost = |flow: &str| each(runs[0], |seen| (1.0 - seen.flow(flow).bytes as f64 / 500.0 / SENT).max(0.0));
    let (up, down, head) = (lost("up"), lost(super::DOWN), about.head());
    let ratio: Vec<f64> = up.iter().zip(&down).map(|(up, down)| up / down.max(1.0 / SENT)).collect();
    let mut rows =
        vec![head.row("loss_up", "share", &up), head.row("loss_down", "share", &down).judged(about.aim("down"))];
    rows.extend(about.aim("ratio").map(|aim| head.row("loss_up_over_down", "ratio", &ratio).judged(aim)));
    rows
}

/// E18: two hops over one.
fn hops(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let ratio: Vec<f64> =
        mean(&bps(runs[1])).zip(mean(&bps(runs[0]))).map(|(two, one)| two / one).into_iter().collect();
    vec![about.head().row("of_one_hop", "ratio", &ratio).judged(about.aim("aim"))]
}

/// E18: what the second hop adds to a round trip.
fn added(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let [one, two] = [0, 1].map(|run| runs[run][0].flow("ping").p50_ms.unwrap_or(f64::NAN));
    vec![about.head().row("rtt_added_ms", "ms", &[two - one]).judged(about.aim("aim"))]
}

/// E17.
fn hosts(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let of = runs[0][0].hosts.unwrap_or_default();
    let mut share = about.head().row("hosts_asymmetric_share", "share", &[of.asymmetric]).judged(about.aim("aim"));
    share.why = format!("{}; of {} hosts, who carried {:.3} of the octets", share.why, of.hosts, of.octets);
    vec![share]
}

fn shares(seen: &[Seen]) -> Vec<f64> {
    each(seen, |seen| seen.down_bps() * FULL_OVER_PAYLOAD / OUT_BPS)
}

fn echoes(seen: &[Seen]) -> Vec<f64> {
    seen.iter().filter_map(|seen| seen.flow("echo").p95_ms).collect()
}

/// TCP left whole, alone, and whole with whole headers.
fn whole(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    const WHOLE: &str = "wavelane+unsplit";
    let [ours, theirs] = [WHOLE, "tcp-cubic"].map(|stack| Head { stack: stack.into(), ..about.head() });
    let without = ours.and("headers", "whole");
    let ratios = over(&shares(runs[0]), mean(&shares(runs[1])).unwrap_or(0.0));
    let share = |head: &Head, seen| head.row("limit_share", "ratio", &shares(seen));
    let echo = |head: &Head, seen| head.row("echo_p95_ms", "ms", &echoes(seen));
    vec![
        share(&ours, runs[0]).judged(about.aim("aim")),
        ours.row("over_plain_cubic", "ratio", &ratios).judged(Aim::Above(1.0)),
        echo(&ours, runs[0]),
        share(&without, runs[2]),
        echo(&without, runs[2]),
        share(&theirs, runs[1]),
        echo(&theirs, runs[1]),
    ]
}

/// A line in place of the cable's way back.
fn back(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let (line, head) = (shares(runs[0]), about.head());
    let ratios = over(&line, middle(&shares(runs[1])));
    vec![
        head.row("limit_share", "ratio", &line),
        head.row("limit_share_over_cable", "ratio", &ratios).judged(about.aim("aim")),
        head.row("echo_p95_ms", "ms", &echoes(runs[0])),
    ]
}

/// A line both ways.
fn both(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let head = about.head();
    let echo = head.row("echo_p95_ms", "ms", &echoes(runs[0])).judged(about.aim("aim"));
    vec![head.row("goodput_bps", "bit/s", &bps(runs[0])), echo]
}

/// Links of today: ours, ours with TCP left whole, and two TCPs.
fn today(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (stack, seen) in ["wavelane", "wavelane+unsplit", "tcp-cubic", "tcp-bbr"].iter().zip(runs) {
        let head = Head { stack: (*stack).into(), ..about.head() };
        rows.extend([head.row("goodput_bps", "bit/s", &bps(seen)), head.row("echo_p95_ms", "ms", &echoes(seen))]);
    }
    let most = runs[2..].iter().filter_map(|seen| mean(&bps(seen))).fold(0.0, f64::max);
    let least = runs[2..].iter().filter_map(|seen| mean(&echoes(seen))).fold(f64::INFINITY, f64::min);
    let head = Head { stack: "wavelane".into(), ..about.head() };
    let gain = head.row("over_best_tcp", "ratio", &over(&bps(runs[0]), most)).judged(about.aim("aim"));
    let echo = head.row("echo_over_best_tcp", "ratio", &over(&echoes(runs[0]), least)).judged(Aim::AtMost(1.0));
    rows.extend([gain, echo]);
    rows
}

/// A line between kernels beside the closed form.
fn line(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let (seen, head) = (&runs[0][0], about.head());
    let bits = about.given("bits_per_octet").unwrap_or(10.0) as u64;
    let form = bound(seen, up(about) * 10 / bits, seen.octets_up()).min(about.number("carries") * (1_460.0 / 1_500.0));
    let share = seen.down_bps() / form;
    let row = head.row("of_form", "ratio", &[share]).bound_by(1.0);
    let row = match share > OF_FORM.1 {
        // No line carries more: a machine that was late when the counting began, and no longer at its end.
        true => row.inconclusive(format!("{share:.3}, more than the line has: this machine was late")),
        false => row.between(OF_FORM.0, OF_FORM.1),
    };
    let (ratio, octets, bad) = (seen.ratio(), seen.octets_up(), seen.up().bad);
    let words = format!("{ratio:.3} segments an acknowledgement, {octets:.1} octets each, {bad} frames bad");
    let mut rows = vec![row.noting(&words)];
    rows.extend(about.aim("octets").map(|aim| head.row("octets_per_ack", "B", &[seen.octets_up()]).judged(aim)));
    rows
}

/// Between kernels: of a run without loss, or of the simulator.
fn of_other(about: &About, runs: &[&[Seen]]) -> Vec<Row> {
    let bps = runs[0][0].down_bps();
    let row = about.head().row(about.word("metric"), "ratio", &[bps / runs[1][0].down_bps()]).judged(about.aim("aim"));
    vec![if about.has("layer") { row.noting(&format!("{:.2} Mbit/s", bps / 1e6)) } else { row }]
}
