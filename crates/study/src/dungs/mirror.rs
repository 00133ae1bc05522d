//! What a proxy costs that leaves all as it is, between real kernels: `S4-E8`, the shipped daemon beside plain forwarding.

use super::net::{Path, tcp};
use super::{Found, Runs};
use crate::cells::{Aim, Head};
use crate::document::{Edition, Row};

const STACKS: [&str; 2] = ["tcp-cubic", "tcp-cubic+mirror"];
/// Wired round trip, in ms.
const WIRED_MS: u64 = 10;

/// As fast as the source's cell, with as long a queue.
fn path(flow: String) -> Path {
    const WAY: &str = "{ rate = \"6 Mbit/s\", delay = \"1 ms\", queue = \"100 packets\" }";
    let air = format!("kind = \"cable\"\nforward = {WAY}\nreverse = {WAY}");
    Path { wire_us: WIRED_MS * 500, flows: flow, ..Path::over(&air) }
}

pub(super) fn runs(runs: &mut Runs, _edition: Edition) {
    for stack in STACKS {
        runs.real("e8-mirror-bulk", stack, &path(tcp("download")));
        runs.real("e8-mirror-echo", stack, &path(format!("{}every = \"10 ms\"\n", tcp("echo"))));
    }
}

pub(super) fn rows(found: &Found<'_>, _edition: Edition) -> Vec<Row> {
    let head = Head::sim("S4-E8", &[], STACKS[1]);
    let [plain, mirrored] = STACKS.map(|stack| found.values("e8-mirror-echo", stack, |seen| seen.echo_ms));
    let added: Vec<f64> = plain.iter().zip(&mirrored).map(|(plain, mirrored)| mirrored - plain).collect();
    let goodput =
        found.ratios(("e8-mirror-bulk", STACKS[1]), ("e8-mirror-bulk", STACKS[0]), |seen| Some(seen.goodput_bps));
    let rows = [
        head.row("echo_added_ms", "ms", &added).judged(Aim::AtMost(1.0)).bound_by(0.0),
        head.row("of_plain_goodput", "ratio", &goodput).judged(Aim::AtLeast(0.98)).bound_by(1.0),
    ];
    rows.map(|row| Row { backend: super::LAB.into(), ..row }).into()
}
