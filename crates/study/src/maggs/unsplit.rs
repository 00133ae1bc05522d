//! TCP left whole over a thin way back, and gateways' lanes over a serial line.

use super::net::{gateways, plain_way};
use super::{Run, Seen, Task, each};
use crate::cells::{Aim, Head};
use crate::document::Row;
use serde_json::json;
use wavelane_measure::mean;

const WHOLE: &str = "wavelane+unsplit";
const OURS: &str = "wavelane";
const CUBIC: &str = "tcp-cubic";
const OUT_BPS: u64 = 2_000_000;
/// IP octets of a full packet over its payload, as TCP with timestamps has them.
const FULL_OVER_PAYLOAD: f64 = 1_500.0 / 1_448.0;
const SEEDS: u64 = 3;
/// Ways back with the time between echoes, and the share of the limit that is asked for.
const BACKS: [(u64, u64, f64); 2] = [(33_600, 100, 0.90), (9_600, 1_000, 0.85)];

pub(super) fn tasks() -> Vec<Task> {
    vec![whole(), lanes()]
}

/// Two gateways and their endpoints, with these channels between them.
fn text(channels: &str, bulk: &str, echo_ms: u64) -> String {
    let rest = format!(
        "{channels}[flows.down]\napp = \"{bulk}\"\nfrom = \"client\"\nto = \"server\"\n[flows.echo]\napp = \"echo\"\nfrom = \"client\"\n\
         to = \"server\"\nevery = \"{echo_ms} ms\"\nsize = \"64 B\"\n"
    );
    gateways("A thin way back", 65, &[OURS, WHOLE, CUBIC], ["client", "near", "far", "server"], &rest)
}

/// A cable of 2 Mbit/s out and this much back.
fn cable(back: u64) -> String {
    let (out, back) = (plain_way(OUT_BPS, "50 kB"), plain_way(back, "16 kB"));
    format!("[channels.air]\nbetween = [\"near\", \"far\"]\nforward = {out}\nreverse = {back}\n")
}

/// A synchronous line, so that its bits are the cable's.
fn line(between: &str, back: u64, mtu: u32, reverse: &str) -> String {
    format!(
        "[channels.line]\nkind = \"serial\"\nbetween = [{between}]\nmtu = \"{mtu} B\"\nforward = {{ rate = \"{back} bit/s\", delay = \"50 ms\", \
         queue = \"16 kB\", synchronous = true }}\nreverse = \"{reverse}\"\n"
    )
}

fn shares(seen: &[Seen]) -> Vec<f64> {
    each(seen, |seen| seen.down_bps() * FULL_OVER_PAYLOAD / OUT_BPS as f64)
}

fn echoes(seen: &[Seen]) -> Vec<f64> {
    seen.iter().filter_map(|seen| seen.flow("echo").p95_ms).collect()
}

/// Headers as they are, in place of what differs from a packet that has arrived.
const WHOLE_HEADERS: &str = "[gateways.near]\ncompress-headers = false\n[gateways.far]\ncompress-headers = false\n";

fn whole() -> Task {
    /// Three leave the interval of a share over the aim.
    const SEEDS: u64 = 6;
    const KINDS: [(&str, &str); 3] = [(WHOLE, ""), (CUBIC, ""), (WHOLE, WHOLE_HEADERS)];
    let mut runs = Vec::new();
    for (back, every, _) in BACKS {
        for (stack, more) in KINDS {
            let text = text(&cable(back), "upload", every) + more;
            runs.extend((0..SEEDS).map(|seed| Run::new(&text, stack, seed)));
        }
    }
    let judge = |seen: &[Seen]| {
        let mut rows: Vec<Row> = Vec::new();
        for ((back, _, aim), seen) in BACKS.into_iter().zip(seen.chunks(KINDS.len() * SEEDS as usize)) {
            let of: Vec<&[Seen]> = seen.chunks(SEEDS as usize).collect();
            let [whole, plain, uncompressed] = [of[0], of[1], of[2]];
            let case = ("back_bps", json!(back));
            let [ours, theirs] = [WHOLE, CUBIC].map(|stack| Head::sim("unsplit", core::slice::from_ref(&case), stack));
            let without = Head::sim("unsplit", &[case, ("headers", json!("whole"))], WHOLE);
            let most = mean(&shares(plain)).unwrap_or(0.0);
            let ratios: Vec<f64> = shares(whole).iter().map(|share| share / most).collect();
            rows.extend([
                ours.row("limit_share", "ratio", &shares(whole)).judged(Aim::AtLeast(aim)),
                ours.row("over_plain_cubic", "ratio", &ratios).judged(Aim::Above(1.0)),
                ours.row("echo_p95_ms", "ms", &echoes(whole)),
                without.row("limit_share", "ratio", &shares(uncompressed)),
                without.row("echo_p95_ms", "ms", &echoes(uncompressed)),
                theirs.row("limit_share", "ratio", &shares(plain)),
                theirs.row("echo_p95_ms", "ms", &echoes(plain)),
            ]);
        }
        rows
    };
    Task::new("unsplit", runs, judge)
}

/// A line in place of the cable's way back, and a line both ways beside a download.
fn lanes() -> Task {
    const MTUS: [u32; 2] = [1_500, 576];
    let back = BACKS[0].0;
    let out = format!(
        "[channels.air]\nbetween = [\"near\", \"far\"]\nforward = {}\nreverse = \"none\"\n",
        plain_way(OUT_BPS, "50 kB")
    );
    let mut texts = vec![
        text(&cable(back), "upload", 100),
        text(&(out + &line("\"far\", \"near\"", back, 1_500, "none")), "upload", 100),
    ];
    texts.extend(
        MTUS.map(|mtu| text(&line("\"near\", \"far\"", back, mtu, "same"), "download", 1_000).replace("65 s", "125 s")),
    );
    let runs = texts.iter().flat_map(|text| (0..SEEDS).map(|seed| Run::new(text, OURS, seed))).collect();
    let judge = |seen: &[Seen]| {
        let of: Vec<&[Seen]> = seen.chunks(SEEDS as usize).collect();
        let cable = mean(&shares(of[0])).unwrap_or(f64::NAN);
        let case = |mtu: u32, way: &str| [("line", json!(way)), ("mtu", json!(mtu)), ("bps", json!(BACKS[0].0))];
        let ratios: Vec<f64> = shares(of[1]).iter().map(|share| share / cable).collect();
        let back = Head::sim("lane", &case(1_500, "back"), OURS);
        let mut rows = vec![
            back.row("limit_share", "ratio", &shares(of[1])),
            back.row("limit_share_over_cable", "ratio", &ratios).judged(Aim::AtLeast(0.995)),
            back.row("echo_p95_ms", "ms", &echoes(of[1])),
        ];
        for (mtu, seen) in MTUS.into_iter().zip(&of[2..]) {
            let head = Head::sim("lane", &case(mtu, "both"), OURS);
            let echo = head.row("echo_p95_ms", "ms", &echoes(seen));
            rows.push(head.row("goodput_bps", "bit/s", &each(seen, Seen::down_bps)));
            rows.push(if mtu == 576 { echo.judged(Aim::AtMost(700.0)) } else { echo });
        }
        rows
    };
    Task::new("lane", runs, judge)
}
