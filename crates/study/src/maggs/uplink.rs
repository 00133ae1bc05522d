//! S0-E1 to E9: the rate of the line against the goodput of the download.

use super::net::{Chain, Down, RATES, Up, bound, cell, direct, download, plain, seconds_for, tcp};
use super::{OLD, RENO, Run, SEGMENT, Seen, Task, each, most, rate};
use crate::cells::{Aim, Head};
use crate::document::Row;
use serde_json::json;
use wavelane_measure::mean;

const PART: &str = "uplink";
/// The framing of 1998.
const DOCUMENTS: &str = "slip-1998";
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

/// What a window of segments allows over an idle line.
fn by_window(window: u32, bps: u64) -> f64 {
    f64::from(window) * SEGMENT * 8.0 / (ROUND_S + 10.0 * ACK / bps as f64)
}
/// Acknowledgements of a run.
const ACKS: u64 = 2_000;

fn chain(down: Down, bps: u64, together: u32, window: u32) -> Chain {
    let seconds = seconds_for(ACKS, bps);
    Chain { down, up: plain(DOCUMENTS, bps), together, window, seconds }
}

pub(super) fn tasks(full: bool) -> Vec<Task> {
    let windows: &[u32] = if full { &[2, 3, 4, 5, 6, 8, 12, 22] } else { &[2, 4, 6, 12, 22] };
    let mut tasks = Vec::new();
    for &window in windows {
        for together in [1, 2] {
            tasks.push(ethernet(window, together));
        }
    }
    tasks.push(references());
    for together in [1, 2] {
        tasks.push(wavelan(together, if full { 10 } else { 3 }));
    }
    tasks.push(swept(full));
    tasks
}

/// E1 and E7.
fn ethernet(window: u32, together: u32) -> Task {
    let runs = RATES.map(|bps| Run::new(&chain(Down::Ethernet, bps, together, window).text(), RENO, 0)).to_vec();
    let judge = move |seen: &[Seen]| {
        let case = [("down", json!("Ethernet 10 Mbit/s")), ("window", json!(window)), ("ack_every", json!(together))];
        let mut rows = Vec::new();
        let mut points = Vec::new();
        for (bps, seen) in RATES.into_iter().zip(seen) {
            let limit = bound(seen.ratio(), bps, ACK);
            let head = Head::sim("S0-E1", &[&case[..], &[rate(bps)]].concat(), RENO);
            rows.push(head.row("goodput_bps", "bit/s", &[seen.down_bps()]).bound_by(limit));
            let mut share = head.row("of_ack_bound", "ratio", &[seen.down_bps() / limit]).bound_by(1.0);
            if window >= WIDE && limit < BINDS * ETHERNET.min(by_window(window, bps)) {
                points.push(((bps as f64).ln(), seen.down_bps().ln()));
                share = share.between(0.98, 1.02);
            }
            let (ratio, octets) = (seen.ratio(), seen.octets_up());
            rows.push(share.noting(&format!("{ratio:.3} segments an acknowledgement, {octets:.2} octets each")));
        }
        if window >= WIDE {
            let row = Head::sim("S0-E7", &case, RENO)
                .row("exponent", "", &slope(&points).into_iter().collect::<Vec<_>>())
                .bound_by(1.0);
            rows.push(row.between(0.98, 1.02));
        }
        rows
    };
    Task::new(PART, runs, judge)
}

/// The exponent of a power law through points of logarithms.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let (x, y) = (
        mean(&points.iter().map(|p| p.0).collect::<Vec<_>>())?,
        mean(&points.iter().map(|p| p.1).collect::<Vec<_>>())?,
    );
    let both: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let square: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    (square > 0.0).then(|| both / square)
}

/// E2, E3, E5, E6 and E9: no line, or a line that is fast enough.
fn references() -> Task {
    let ether = Chain { down: Down::Ethernet, up: Up::Same, together: 2, window: 12, seconds: 20 };
    let lone = "[channels.air]\nbetween = [\"campus\", \"home\"]\nforward = { rate = \"9.753 Mbit/s\", delay = \"50 us\" }\nreverse = \"same\"\n";
    let direct_text = |channel: &str, together: u32| {
        direct("Two laptops", 20, channel, &(tcp(together, 12) + &download("home", "campus") + "start = \"2 s\"\n"))
    };
    let mut runs = vec![Run::new(&ether.text(), RENO, 0), Run::new(&direct_text(lone, 2), RENO, 0)];
    let stacks = [(RENO, 1), (RENO, 2), (OLD, 1), (OLD, 2)];
    for (stack, together) in stacks {
        let long = |up: Up| Chain { seconds: 60, ..Chain::radio(up, together) }.text();
        let alone = direct_text(&cell("air", "\"campus\", \"home\""), together).replace("\"20 s\"", "\"60 s\"");
        for text in [long(Up::Same), alone, long(plain(DOCUMENTS, 115_200))] {
            runs.extend((0..3).map(|seed| Run::new(&text, stack, seed)));
        }
    }
    let judge = move |seen: &[Seen]| {
        let mut rows = Vec::new();
        for (id, seen) in [("S0-E2", &seen[0]), ("S0-E3", &seen[1])] {
            rows.push(
                Head::sim(id, &[("down", json!("Ethernet 10 Mbit/s"))], RENO)
                    .row("goodput_bps", "bit/s", &[seen.down_bps()])
                    .bound_by(ETHERNET),
            );
        }
        for ((stack, together), of) in stacks.into_iter().zip(seen[2..].chunks(9)) {
            let case = [("down", json!("WaveLAN")), ("ack_every", json!(together))];
            let [shared, alone, line] = [&of[..3], &of[3..6], &of[6..]];
            let [five, six, nine] = ["S0-E5", "S0-E6", "S0-E9"].map(|id| Head::sim(id, &case, stack));
            rows.push(five.row("goodput_bps", "bit/s", &each(shared, Seen::down_bps)));
            rows.push(six.row("goodput_bps", "bit/s", &each(alone, Seen::down_bps)));
            let ratio = most(alone, Seen::down_bps) / most(shared, Seen::down_bps);
            // Timers of a second make collisions of the first station weigh more: not what is asked.
            let row = six.row("over_chain", "ratio", &[ratio]);
            rows.push(if stack == RENO { row.between(0.9, 1.1) } else { row });
            rows.push(nine.row("goodput_bps", "bit/s", &each(line, Seen::down_bps)));
            let gain = most(line, Seen::down_bps) / most(shared, Seen::down_bps);
            rows.push(nine.row("line_over_shared_radio", "ratio", &[gain]).judged(Aim::Above(1.03)));
        }
        rows
    };
    Task::new(PART, runs, judge)
}

/// Rates between which nine tenths of the peak are looked for.
fn knee_rates(together: u32) -> [u64; 6] {
    if together == 1 {
        [48_000, 50_000, 52_000, 54_000, 56_000, 58_000]
    } else {
        [24_000, 25_000, 26_000, 27_000, 28_000, 29_000]
    }
}

/// E4 and E8.
fn wavelan(together: u32, trials: u64) -> Task {
    let rates: Vec<u64> = RATES.into_iter().chain(knee_rates(together)).collect();
    let mut runs = Vec::new();
    for bps in &rates {
        let text = chain(Down::WaveLan, *bps, together, 12).text();
        runs.extend((0..trials).map(|trial| Run::new(&text, RENO, trial)));
    }
    let judge = move |seen: &[Seen]| {
        let case = [("down", json!("WaveLAN")), ("window", json!(12)), ("ack_every", json!(together))];
        let of = |bps: u64| {
            let place = rates.iter().position(|rate| *rate == bps).unwrap_or(0);
            &seen[place * trials as usize..][..trials as usize]
        };
        let peak = most(of(115_200), Seen::down_bps);
        let mut rows = Vec::new();
        for bps in RATES {
            let seen = of(bps);
            let head4 = Head::sim("S0-E4", &[&case[..], &[rate(bps)]].concat(), RENO);
            let best = most(seen, Seen::down_bps);
            let row = head4.one("goodput_bps", "bit/s", Some(best), trials as usize);
            rows.push(row.bound_by(bound(seen[0].ratio(), bps, ACK)));
            let near = seen.iter().filter(|seen| seen.down_bps() >= 0.95 * best).count() as f64 / trials as f64;
            rows.push(head4.row("trials_within_5_percent", "share", &[near]).judged(Aim::Above(0.5)));
            let share = Head::sim("S0-E8", &[&case[..], &[rate(bps)]].concat(), RENO)
                .row("of_peak", "ratio", &[best / peak])
                .bound_by((bound(seen[0].ratio(), bps, ACK) / peak).min(1.0));
            rows.push(match (together, bps) {
                (1, 57_600) => Row { published: Some(0.95), ..share }.between(0.93, 0.97),
                (1, 38_400) => share.judged(Aim::Below(0.75)),
                (2, 57_600) => share.judged(Aim::AtLeast(0.98)),
                _ => share,
            });
        }
        let points: Vec<(f64, f64)> =
            knee_rates(together).into_iter().map(|bps| (bps as f64, most(of(bps), Seen::down_bps) / peak)).collect();
        let crossing = points.windows(2).find(|pair| pair[0].1 < 0.9 && pair[1].1 >= 0.9);
        let knee =
            crossing.map(|pair| pair[0].0 + (0.9 - pair[0].1) / (pair[1].1 - pair[0].1) * (pair[1].0 - pair[0].0));
        let row = Head::sim("S0-E8", &case, RENO).row("knee_bps", "bit/s", &knee.into_iter().collect::<Vec<_>>());
        let (low, high) = if together == 1 { (52_000.0, 57_000.0) } else { (26_000.0, 28_500.0) };
        rows.push(row.between(low, high));
        rows
    };
    Task::new(PART, runs, judge)
}

/// E4 over the window.
fn swept(full: bool) -> Task {
    let windows: &[u32] = if full { &[2, 3, 4, 5, 6, 8, 11, 22] } else { &[2, 3, 4, 5, 22] };
    let rates = [28_800, 38_400, 57_600, 115_200];
    let mut cases = Vec::new();
    for &window in windows {
        for together in [1, 2] {
            cases.extend(rates.map(|bps| (window, together, bps)));
        }
    }
    let text = |(window, together, bps): &(u32, u32, u64)| chain(Down::WaveLan, *bps, *together, *window).text();
    let runs = cases.iter().map(|case| Run::new(&text(case), RENO, 0)).collect();
    let judge = move |seen: &[Seen]| {
        let of = |((window, together, bps), seen): (&(u32, u32, u64), &Seen)| {
            let case =
                [("down", json!("WaveLAN")), ("window", json!(window)), ("ack_every", json!(together)), rate(*bps)];
            Head::sim("S0-E4", &case, RENO).row("goodput_bps", "bit/s", &[seen.down_bps()]).bound_by(bound(
                seen.ratio(),
                *bps,
                ACK,
            ))
        };
        cases.iter().zip(seen).map(of).collect()
    };
    Task::new(PART, runs, judge)
}
