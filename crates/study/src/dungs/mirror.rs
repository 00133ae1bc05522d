//! What a proxy costs that leaves all as it is, between real kernels: `S4-E8`, the shipped daemon beside plain forwarding.

use super::Found;
use crate::cells::{Aim, Head};
use crate::document::{Edition, Row};

const STACKS: [&str; 2] = ["tcp-cubic", "tcp-cubic+mirror"];

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
