//! S0-E10, E11 and E21: what an acknowledgement costs on the line, by framing and modem; S0-E19: a receiver without a FIFO.

use super::net::{Chain, Down, Up, bound, direct, download, head_of, plain, seconds_for, tcp};
use super::{RENO, Run, Seen, Task, rate};
use crate::cells::{Aim, Head};
use serde_json::json;

const PART: &str = "framing";
const RATES: [u64; 4] = [9_600, 14_400, 28_800, 33_600];
/// Of E21's line.
pub(super) const POLICY_BPS: u64 = 57_600;
/// Framings with what an acknowledgement may cost, from the most goodput to the least.
pub(super) const FRAMINGS: [(&str, f64, f64); 6] = [
    ("cslip", 6.5, 7.5),
    ("ppp+vj", 9.0, 11.0),
    ("slip-1998", 41.0, 42.0),
    ("slip", 41.0, 42.0),
    ("kiss", 42.0, 44.0),
    ("ppp", 44.0, 47.0),
];

fn chain(up: Up, together: u32, bps: u64) -> Chain {
    // Wide enough for a modem's 50 ms.
    Chain { down: Down::WaveLan, up, together, window: 22, seconds: seconds_for(1_500, bps) + 20 }
}

pub(super) fn tasks(_full: bool) -> Vec<Task> {
    let mut tasks = vec![modem(), adsl(), policy(), receivers()];
    tasks.extend([1, 2].map(framings));
    tasks
}

/// E10 over a plain line.
fn framings(together: u32) -> Task {
    let mut runs = vec![Run::new(&chain(plain("slip-1998", 115_200), together, 115_200).text(), RENO, 0)];
    for (framing, ..) in FRAMINGS {
        runs.extend(RATES.map(|bps| Run::new(&chain(plain(framing, bps), together, bps).text(), RENO, 0)));
    }
    let judge = move |seen: &[Seen]| {
        let (peak, of) = (seen[0].down_bps(), &seen[1..]);
        let mut rows = Vec::new();
        for ((framing, least, most), of) in FRAMINGS.into_iter().zip(of.chunks(RATES.len())) {
            for (bps, seen) in RATES.into_iter().zip(of) {
                let head = Head::sim(
                    "S0-E10",
                    &[("framing", json!(framing)), ("ack_every", json!(together)), rate(bps)],
                    RENO,
                );
                let limit = bound(seen.ratio(), bps, seen.octets_up());
                rows.push(head.row("goodput_bps", "bit/s", &[seen.down_bps()]).bound_by(limit));
                let share = head.row("of_peak", "ratio", &[seen.down_bps() / peak]).bound_by((limit / peak).min(1.0));
                let aim = if together == 1 { 0.92 } else { 0.99 };
                rows.push(if (framing, bps) == ("cslip", 9_600) { share.judged(Aim::AtLeast(aim)) } else { share });
                rows.push(head.row("octets_per_ack", "B", &[seen.octets_up()]).between(least, most));
            }
        }
        // Below all knees: at 9.6 kbit/s, an acknowledgement for each segment.
        if together == 1 {
            let at = |framing: &str| {
                let place = FRAMINGS.iter().position(|(word, ..)| *word == framing).unwrap_or(0);
                of[place * RATES.len()].down_bps()
            };
            let order = ["cslip", "ppp+vj", "slip", "ppp"].map(at);
            let least = order.windows(2).map(|pair| pair[0] / pair[1]).fold(f64::INFINITY, f64::min);
            let mut row = Head::sim("S0-E10", &[rate(9_600)], RENO).row("least_step_of_order", "ratio", &[least]);
            row = row.judged(Aim::Above(1.0));
            row.why = format!("{}: cslip, ppp+vj, slip, ppp {:.0?} kbit/s", row.why, order.map(|bps| bps / 1e3));
            rows.push(row);
        }
        rows
    };
    Task::new(PART, runs, judge)
}

/// E10 over a modem at 33.6 kbit/s.
fn modem() -> Task {
    const MODEMS: [(&str, &str); 2] =
        [("V.42", "modem = {}"), ("V.42bis at 2:1, approximated", "modem = { gain = \"2\" }")];
    let mut runs = Vec::new();
    for together in [1, 2] {
        runs.push(Run::new(&chain(plain("slip-1998", 115_200), together, 115_200).text(), RENO, 0));
        for (_, words) in MODEMS {
            for framing in ["slip-1998", "cslip"] {
                let way = format!("rate = \"33600 bit/s\", {words}");
                runs.push(Run::new(&chain(Up::Line { framing, way }, together, 33_600).text(), RENO, 0));
            }
        }
    }
    let judge = |seen: &[Seen]| {
        let mut rows = Vec::new();
        for (together, seen) in [1, 2].into_iter().zip(seen.chunks(5)) {
            let peak = seen[0].down_bps();
            let cases = MODEMS.iter().flat_map(|(modem, _)| ["slip-1998", "cslip"].map(|framing| (*modem, framing)));
            for ((modem, framing), seen) in cases.zip(&seen[1..]) {
                let case = [
                    ("framing", json!(framing)),
                    ("modem", json!(modem)),
                    ("ack_every", json!(together)),
                    rate(33_600),
                ];
                let row = Head::sim("S0-E10", &case, RENO).row("of_peak", "ratio", &[seen.down_bps() / peak]);
                let wanted = modem.starts_with("V.42bis") && framing == "slip-1998";
                rows.push(if wanted { row.judged(Aim::AtLeast(0.95)) } else { row });
            }
        }
        rows
    };
    Task::new(PART, runs, judge)
}

/// E11: 1.5 Mbit/s down, 64 kbit/s up.
fn adsl() -> Task {
    const ADSL: f64 = 1.5e6 * 1_460.0 / 1_500.0;
    // Two cells of 53 octets for an acknowledgement of 40.
    let atm = 64_000 * 40 / 106;
    let way = |rate: u64| format!("{{ rate = \"{rate} bit/s\", delay = \"10 ms\", queue = \"50 packets\" }}");
    let ends = "between = [\"desktop\", \"laptop\"]";
    let [hdlc, cells] = [
        format!(
            "[channels.air]\n{ends}\nforward = {}\nreverse = \"none\"\n[channels.line]\nkind = \"serial\"\nbetween = [\"laptop\", \"desktop\"]\n\
             framing = \"ppp\"\nforward = {{ rate = \"64 kbit/s\", delay = \"10 ms\", synchronous = true }}\nreverse = \"same\"\n",
            way(1_500_000)
        ),
        format!("[channels.air]\n{ends}\nforward = {}\nreverse = {}\n", way(1_500_000), way(atm)),
    ];
    let mut runs = Vec::new();
    for channel in [&hdlc, &cells] {
        for together in [1, 2] {
            let flows = tcp(together, 22) + &download("home", "campus") + "start = \"2 s\"\n";
            runs.push(Run::new(&(head_of(60) + channel + &flows), RENO, 0));
        }
    }
    let judge = |seen: &[Seen]| {
        let cases =
            ["PPP in HDLC", "AAL5, two cells"].iter().flat_map(|framing| [1, 2].map(|together| (*framing, together)));
        let of = |((framing, together), seen): ((&str, u32), &Seen)| {
            let case = [("framing", json!(framing)), ("ack_every", json!(together)), rate(64_000)];
            let mut row = Head::sim("S0-E11", &case, RENO).row("of_peak", "ratio", &[seen.down_bps() / ADSL]);
            // Two cells of 53 octets an acknowledgement.
            let cells = 64_000.0 / (2.0 * 53.0 * 8.0) * 1_460.0 * 8.0 / ADSL;
            row.bound = Some(if (framing, together) == ("AAL5, two cells", 1) { cells } else { 1.0 });
            match (framing, together) {
                ("AAL5, two cells", 1) => row.between(0.56, 0.62),
                _ => row.judged(Aim::AtLeast(0.95)),
            }
        };
        cases.zip(seen).map(of).collect()
    };
    Task::new(PART, runs, judge)
}

/// A download whose receiver acknowledges by `words` of `[tcp]`, or as Linux does.
pub(super) fn of_policy(down: Down, words: &str) -> String {
    let of = Chain { down, ..chain(plain("slip", POLICY_BPS), 2, POLICY_BPS) };
    let of = of.text().replace("ack-every = 2\n", words);
    if words.is_empty() { of.replace("quick-acks = 0\n", "").replace("ack-delay = \"200 ms\"\n", "") } else { of }
}

/// E21: how many segments an acknowledgement is for.
fn policy() -> Task {
    const KINDS: [(&str, &str); 3] = [("1", "ack-every = 1\n"), ("2", "ack-every = 2\n"), ("Linux's", "")];
    let runs = KINDS.iter().map(|(_, words)| Run::new(&of_policy(Down::WaveLan, words), RENO, 0)).collect();
    let judge = |seen: &[Seen]| {
        let of = |((kind, _), seen): (&(&str, &str), &Seen)| {
            let head = Head::sim("S0-E21", &[("ack_every", json!(kind)), rate(POLICY_BPS)], RENO);
            head.row("segments_per_ack", "segments", &[seen.ratio()])
        };
        KINDS.iter().zip(seen).map(of).collect()
    };
    Task::new(PART, runs, judge)
}

/// E19: receivers at 115.2 kbit/s; what comes up is packets of 44 octets, as acknowledgements are.
fn receivers() -> Task {
    const CASES: [(u32, u32); 5] = [(1, 80), (1, 90), (1, 150), (16, 1_000), (32, 2_000)];
    let text = |(fifo, service): (u32, u32)| {
        let line = format!(
            "[channels.line]\nkind = \"serial\"\nbetween = [\"home\", \"campus\"]\nforward = {{ rate = \"115200 bit/s\", \
             uart = {{ fifo = {fifo}, service = \"{service} us\" }} }}\nreverse = \"same\"\n"
        );
        let flow = "[flows.up]\napp = \"cbr\"\nfrom = \"home\"\nto = \"campus\"\nsize = \"16 B\"\nevery = \"20 ms\"\n";
        direct("A receiver", 30, &line, flow).replace("[\"tcp-reno\", \"tcp-2001\", \"tcp-cubic\"]", "[\"udp\"]")
    };
    let runs = CASES.iter().map(|case| Run::new(&text(*case), "udp", 0)).collect();
    let judge = |seen: &[Seen]| {
        let mut rows = Vec::new();
        for ((fifo, service), seen) in CASES.into_iter().zip(seen) {
            let head = Head::sim("S0-E19", &[("fifo", json!(fifo)), ("service_us", json!(service))], "udp");
            let up = seen.up();
            // 86.8 us are an octet's time.
            let late = fifo == 1 && service > 86;
            let mut lost = head.row("octets_overrun", "octets", &[up.overrun as f64]);
            lost.why = format!("{} of {} frames decode, {} do not", up.received, up.sent, up.bad);
            rows.push(lost.judged(if late { Aim::Above(0.0) } else { Aim::AtMost(0.0) }));
            if late && service < 100 {
                // Whole frames between damaged ones: the decoder is in step again.
                rows.push(head.row("frames_decoded", "frames", &[up.received as f64]).judged(Aim::Above(0.0)));
            }
        }
        rows
    };
    Task::new("uart", runs, judge)
}
