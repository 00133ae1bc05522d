//! The rows of one cell: what each stack did, and Wavelane's aims.

use super::{BULK, ECHO, FETCHES, ID, Loss, RATE};
use crate::cells::{Aim, Head, pairs, unproven, values};
use crate::document::{Edition, Row};
use serde_json::json;
use wavelane_measure::mean_ci95;
use wavelane_run::figures::FlowFigures;
use wavelane_run::{RunDocument, StackResult, Verdict};

/// An IPv4 packet of 1500 bytes carries 1448 of the application's under TCP with timestamps (RFC 791, RFC 9293,
/// RFC 7323).
const IP_PER_TCP_BYTE: f64 = 1500.0 / 1448.0;
/// The aim: share of the limit.
const SHARE_AIM: f64 = 0.90;
/// The aim: echo p95 where the base is 100 ms.
const ECHO_AIM_MS: f64 = 150.0;
/// The aim against a rival that reaches [`SHARE_AIM`] itself: within 3 %.
const NEAR: f64 = 0.97;
/// The aim for small bodies without loss: at most this much later than plain TCP.
const LATER_MS: f64 = 5.0;
/// The aim: repairs over first transmissions without loss.
const REPAIR_AIM: f64 = 0.02;
/// The link's round trip without queue or serialisation.
const BASE_MS: f64 = 100.0;
/// A stack below this share of our goodput is no rival in age and delay: one that hardly sends builds no queue.
const RIVAL_SHARE: f64 = 0.5;
/// The aim: echo p95 over that of a rival to which [`ECHO_ALLOWANCE_MS`] was added.
const ECHO_RATIO_AIM: f64 = 1.1;
/// What a queue that is kept short may still hold: 5 ms (the lane's target) and two packets of 1500 bytes.
const ECHO_ALLOWANCE_MS: f64 = 5.0 + 2.0 * 1500.0 * 8e3 / RATE;
/// How far a share may exceed 1 before the measurement is wrong: this many times the loss itself, for one run's bursts
/// differ from their mean, and a rounding of 1 %.
const EXCESS: f64 = 1.01;

/// Judges one cell.
pub(super) fn cell(loss: &Loss, document: &RunDocument, edition: Edition) -> Vec<Row> {
    let case = [("loss", json!(loss.words))];
    let head = |stack: &str| Head::new(ID, &document.backend, &case, stack);
    let mut rows = Vec::new();
    for stack in &document.stacks {
        let mut found = measured(&head(&stack.stack), loss, stack);
        found.iter_mut().for_each(|row| unproven(row, &[stack]));
        rows.extend(found);
    }
    for omitted in &document.omitted {
        let mut row = head(&omitted.stack).row("goodput_bps", "bit/s", &[]);
        row.verdict = if edition == Edition::Full { Verdict::Inconclusive } else { Verdict::Info };
        row.why = format!("not run: {}", omitted.why);
        rows.push(row);
    }
    let Some(ours) = document.stacks.iter().find(|s| s.stack == "wavelane") else {
        rows.push(head("wavelane").row("limit_share", "share", &[]).judged(Aim::AtLeast(SHARE_AIM)));
        return rows;
    };
    for rival in document.stacks.iter().filter(|s| s.stack != ours.stack) {
        let mut found = against(&head("wavelane"), loss, ours, rival);
        found.iter_mut().for_each(|row| unproven(row, &[ours, rival]));
        rows.extend(found);
    }
    rows
}

/// IP bytes delivered usefully over those the link can deliver: rate x (1 - p).
pub(super) fn limit_share(loss: &Loss, goodput: f64) -> f64 {
    goodput * IP_PER_TCP_BYTE / (RATE * (1.0 - loss.share))
}

/// Bits per second from connect() to the flow's end, start included.
fn whole(f: &FlowFigures) -> Option<f64> {
    let ms = f.last_byte_ms? - f.connect_ms;
    (ms > 0.0).then(|| f.bytes as f64 * 8e3 / ms)
}

fn measured(head: &Head, loss: &Loss, stack: &StackResult) -> Vec<Row> {
    let ours = stack.stack == "wavelane";
    let mut rows = carried(head, loss, stack);
    rows.extend(FETCHES.iter().flat_map(|(flow, size, _)| small(&head.and("size", size), loss, stack, flow)));
    if let Some(share) = stack.repair_share {
        let row = head.row("repair_share", "share", &[share]).bound_by(loss.share / (1.0 - loss.share));
        rows.push(row.judged((ours && loss.share == 0.0).then_some(Aim::Below(REPAIR_AIM))));
    }
    rows
}

/// The rows of the bulk flow and its echo.
pub(super) fn carried(head: &Head, loss: &Loss, stack: &StackResult) -> Vec<Row> {
    let ours = stack.stack == "wavelane";
    let limit = RATE * (1.0 - loss.share) / IP_PER_TCP_BYTE;
    let bulk = |figure: fn(&FlowFigures) -> Option<f64>| values(stack, BULK, figure);
    let echo = |figure: fn(&FlowFigures) -> Option<f64>| values(stack, ECHO, figure);
    let mut rows = Vec::new();
    let goodput = bulk(|f| f.goodput_bps);
    let mut row = head.row("goodput_bps", "bit/s", &goodput).bound_by(limit);
    row.why = "application bytes at the receiver, from 2 s after the first byte on".into();
    rows.push(row);
    let mut row = head.row("goodput_whole_bps", "bit/s", &bulk(whole)).bound_by(limit);
    row.why = "the same from connect() on".into();
    rows.push(row);
    let shares: Vec<f64> = goodput.iter().map(|g| limit_share(loss, *g)).collect();
    rows.push(share_row(head, loss, ours, &shares));
    for (metric, figures) in [
        ("rtt_p50_ms", echo(|f| f.rtt_p50_ms)),
        ("rtt_p95_ms", echo(|f| f.rtt_p95_ms)),
        ("rtt_p99_ms", echo(|f| f.rtt_p99_ms)),
    ] {
        let aim = (ours && metric == "rtt_p95_ms").then_some(Aim::AtMost(ECHO_AIM_MS));
        rows.push(head.row(metric, "ms", &figures).bound_by(BASE_MS).judged(aim));
    }
    let mut row = head.row("age_p95_ms", "ms", &bulk(|f| f.age_p95_ms)).bound_by(BASE_MS / 2.0);
    row.why = "of the download's bytes, from the sender's write to the receiver's read".into();
    rows.push(row);
    let pooled = |value: Option<f64>| value.into_iter().collect::<Vec<_>>();
    rows.push(
        head.row("wire_bytes_per_delivered_byte", "ratio", &pooled(stack.wire_bytes_per_delivered_byte))
            .bound_by(IP_PER_TCP_BYTE / (1.0 - loss.share)),
    );
    rows
}

/// The share of the limit: our aim, and for all a sign of a wrong measurement if above it.
fn share_row(head: &Head, loss: &Loss, ours: bool, shares: &[f64]) -> Row {
    const MEANING: &str = "application bytes x 1500/1448 over rate x (1 - p)";
    let mut row = head.row("limit_share", "share", shares);
    row.why = MEANING.into();
    if ours {
        row = row.judged(Aim::AtLeast(SHARE_AIM)).noting(MEANING);
    }
    let most = shares.iter().copied().fold(0.0, f64::max);
    if most > EXCESS / (1.0 - loss.share) {
        row.verdict = Verdict::Fail;
        row.why = format!("{most:.3} exceeds what the link can carry even without loss: the measurement is wrong");
    }
    row.bound = Some(1.0);
    row
}

/// First byte and total of a small body on a new connection.
fn small(head: &Head, loss: &Loss, stack: &StackResult, flow: &str) -> Vec<Row> {
    let sent: f64 = values(stack, flow, |f| f.sent.map(|n| n as f64)).iter().sum();
    let lost: f64 = values(stack, flow, |f| f.lost.map(|n| n as f64)).iter().sum();
    let row = |metric: &str, first: bool| {
        let mut row = head.row(metric, "ms", &values(stack, flow, |f| time_of(f, loss, first)));
        let statistic = if loss.share == 0.0 { "median" } else { "mean" };
        row.why = format!("{statistic} of {sent} on new connections, from connect(); {lost} did not end");
        // The handshake and the request take a round trip each.
        row.bound = Some(2.0 * BASE_MS);
        row
    };
    vec![row("first_byte_ms", true), row("total_ms", false)]
}

/// Without loss the median, which one delay of the host does not move; under loss the mean, which every retransmission moves.
fn time_of(figures: &FlowFigures, loss: &Loss, first: bool) -> Option<f64> {
    let times = figures.fetch.as_ref()?;
    Some(match (first, loss.share == 0.0) {
        (true, true) => times.first_byte_p50_ms,
        (true, false) => times.first_byte_mean_ms,
        (false, true) => times.total_p50_ms,
        (false, false) => times.total_mean_ms,
    })
}

/// Our aims against one rival.
pub(super) fn against(head: &Head, loss: &Loss, ours: &StackResult, rival: &StackResult) -> Vec<Row> {
    let name = &rival.stack;
    let head = head.and("rival", name);
    let mut rows = Vec::new();
    let goodput = |f: &FlowFigures| f.goodput_bps;
    let row = head.row("goodput_ratio", "ratio", &pairs(ours, rival, BULK, goodput, |a, b| a / b));
    let theirs = mean_ci95(&values(rival, BULK, goodput)).map_or(0.0, |(mean, _)| limit_share(loss, mean));
    let ratio = row.value.unwrap_or(0.0);
    let row = row.judged(if theirs < SHARE_AIM { Aim::Above(1.0) } else { Aim::AtLeast(NEAR) });
    rows.push(row.noting(&format!("{name} reaches {theirs:.3} of the limit")));
    let no_rival = |row: &mut Row| {
        if ratio * RIVAL_SHARE > 1.0 {
            row.verdict = Verdict::Info;
            row.why = format!("{name} reaches {:.2} of our goodput, less than {RIVAL_SHARE}: no rival", 1.0 / ratio);
        }
    };
    let over = |a: f64, b: f64| a / (b + ECHO_ALLOWANCE_MS);
    let row = head.row("rtt_p95_ratio", "ratio", &pairs(ours, rival, ECHO, |f| f.rtt_p95_ms, over));
    let mut row = row.judged(Aim::AtMost(ECHO_RATIO_AIM));
    row.why = format!("ours over {name}'s and {ECHO_ALLOWANCE_MS} ms: {}", row.why);
    no_rival(&mut row);
    rows.push(row);
    if !name.starts_with("tcp-") {
        return rows;
    }
    let row = head.row("age_p95_ratio", "ratio", &pairs(ours, rival, BULK, |f| f.age_p95_ms, |a, b| a / b));
    let mut row = row.judged(Aim::AtMost(1.0));
    no_rival(&mut row);
    rows.push(row);
    for (flow, size, _) in FETCHES {
        let head = head.and("size", size);
        for (metric, first) in [("first_byte_less_ms", true), ("total_less_ms", false)] {
            let row = head.row(metric, "ms", &pairs(ours, rival, flow, |f| time_of(f, loss, first), |a, b| a - b));
            let mut row = row.judged(if loss.share == 0.0 { Aim::AtMost(LATER_MS) } else { Aim::Below(0.0) });
            row.why = format!("ours less {name}'s: {}", row.why);
            rows.push(row);
        }
    }
    rows
}
