//! The packet service: TCP that crosses the gateways unsplit, with the kernel's CUBIC from end to end.

use super::judge::limit_share;
use super::{BULK, ECHO, ID, LOSSES, Loss, bulk_text, link_text};
use crate::cells::{Aim, Head, unproven, values};
use crate::document::{Edition, Row};
use serde_json::json;
use wavelane_run::{PacketFigures, RunDocument, StackResult, Verdict};

/// The stack.
const STACK: &str = "wavelane+unsplit";
/// Where a download's bytes are sent from.
const SENDER: &str = "server";
/// The aim under loss: share of the limit.
const SHARE_AIM: f64 = 0.7;
/// The aim under loss: segments that the sender's kernel retransmits, over those it sends.
const RETRANSMIT_AIM: f64 = 0.005;
/// The aim without loss: retransmissions of what had arrived, over packets sent.
const SPURIOUS_AIM: f64 = 0.005;
/// Fewer packets cannot show a share as small as [`SPURIOUS_AIM`].
const PACKETS_MIN: u64 = 200;

/// One cell.
pub(super) struct Case {
    /// Its folder.
    pub(super) name: &'static str,
    /// Round trip without queue.
    rtt: &'static str,
    /// One way.
    delay: &'static str,
    /// Place in [`LOSSES`].
    loss: usize,
    /// Seconds: quick, full.
    seconds: [u32; 2],
}

/// Loss of 5 %, then three round trips without loss.
pub(super) const CASES: &[Case] = &[
    Case { name: "unsplit-05", rtt: "100 ms", delay: "50 ms", loss: 2, seconds: [20, 60] },
    Case { name: "unsplit-5ms", rtt: "5 ms", delay: "2.5 ms", loss: 0, seconds: [6, 30] },
    Case { name: "unsplit-100ms", rtt: "100 ms", delay: "50 ms", loss: 0, seconds: [6, 30] },
    Case { name: "unsplit-600ms", rtt: "600 ms", delay: "300 ms", loss: 0, seconds: [8, 30] },
];

impl Case {
    fn loss(&self) -> &'static Loss {
        &LOSSES[self.loss]
    }
}

/// A download from the start on, with an echo beside it.
pub(super) fn scenario_text(case: &Case, edition: Edition) -> String {
    let title = format!("20 Mbit/s and {}, TCP unsplit, loss both ways: {}", case.rtt, case.loss().words);
    let seconds = case.seconds[usize::from(edition == Edition::Full)];
    link_text(&title, seconds, &format!("\"{STACK}\""), case.delay, case.loss().text) + &bulk_text("download", 0)
}

/// Judges one cell.
pub(super) fn rows(case: &Case, document: &RunDocument) -> Vec<Row> {
    let words = [("loss", case.loss().words), ("rtt", case.rtt), ("service", "packet, CUBIC inside")];
    let words = words.into_iter().map(|(key, word)| (key.to_owned(), json!(word))).collect();
    let head = Head { id: ID.into(), backend: document.backend.clone(), case: words, stack: STACK.into() };
    let Some(stack) = document.stacks.iter().find(|s| s.stack == STACK) else {
        let mut row = head.row("goodput_bps", "bit/s", &[]);
        row.verdict = Verdict::Inconclusive;
        row.why = format!("not run: {}", document.omitted.first().map_or("it is missing", |o| &o.why));
        return vec![row];
    };
    let mut rows = if case.loss().share > 0.0 { lossy(&head, case.loss(), stack) } else { lossless(&head, stack) };
    rows.iter_mut().for_each(|row| unproven(row, &[stack]));
    rows
}

fn shares(stack: &StackResult, part: fn(&PacketFigures) -> u64) -> Vec<f64> {
    let share = |p: &PacketFigures| (p.packets_sent > 0).then(|| part(p) as f64 / p.packets_sent as f64);
    stack.packets.iter().filter_map(share).collect()
}

/// How well TCP performs, and how little of the loss it sees.
fn lossy(head: &Head, loss: &Loss, stack: &StackResult) -> Vec<Row> {
    let goodput = values(stack, BULK, |f| f.goodput_bps);
    let mut all = vec![head.row("goodput_bps", "bit/s", &goodput)];
    let limit: Vec<f64> = goodput.iter().map(|g| limit_share(loss, *g)).collect();
    all.push(head.row("limit_share", "share", &limit).judged(Aim::AtLeast(SHARE_AIM)));
    let sender = stack.kernels.iter().filter(|k| k.node == SENDER && k.segments_sent > 0);
    let repeats: Vec<f64> = sender.map(|k| k.segments_repeated as f64 / k.segments_sent as f64).collect();
    all.push(
        head.row("kernel_retransmit_share", "share", &repeats)
            .judged(Aim::Below(RETRANSMIT_AIM))
            .noting("segments that the sender's kernel repeated over those it sent"),
    );
    all.push(head.row("rtt_p95_ms", "ms", &values(stack, ECHO, |f| f.rtt_p95_ms)));
    all.push(head.row("repeat_share", "share", &shares(stack, |p| p.packets_repeated)));
    all.push(head.row("spurious_copy_share", "share", &shares(stack, |p| p.packets_spurious)));
    all
}

/// The cost of retransmissions where nothing is lost.
fn lossless(head: &Head, stack: &StackResult) -> Vec<Row> {
    let goodput = head.row("goodput_bps", "bit/s", &values(stack, BULK, |f| f.goodput_bps));
    let repeats = head.row("repeat_share", "share", &shares(stack, |p| p.packets_repeated));
    let row = head.row("spurious_copy_share", "share", &shares(stack, |p| p.packets_spurious));
    let mut row = row.judged(Aim::Below(SPURIOUS_AIM));
    let least = stack.packets.iter().map(|p| p.packets_sent).min().unwrap_or(0);
    row.why = format!("{}; copies of what had arrived, of at least {least} packets a run", row.why);
    if least < PACKETS_MIN {
        row.verdict = Verdict::Inconclusive;
        row.why = format!("{least} packets in a run cannot show a share below {SPURIOUS_AIM}: wanted {PACKETS_MIN}");
    }
    vec![goodput, repeats, row]
}
