//! Rows of the recordings, and the claims about all of them.

use super::links::Case;
use super::{BBR, ID, OURS, Seen};
use crate::cells::{Aim, Head, sorted};
use crate::document::Row;
use serde_json::json;
use wavelane_measure::percentile;
use wavelane_run::Verdict;

/// The aims.
const MEDIAN_AIM: f64 = 0.98;
const WORST_AIM: f64 = 0.92;
const ECHO_MEDIAN_AIM: f64 = 0.5;
/// Our echo's p95 over the lowest of the TCPs with this share of our goodput.
const ECHO_AIM: f64 = 1.2;
const RIVAL_SHARE: f64 = 0.9;
const WIRE_AIM: f64 = 1.1;
/// What a full IP packet of 1,500 bytes carries of a stream through the gateways.
const PAYLOAD: f64 = 1_437.0 / 1_500.0;
/// Metrics that the page draws.
pub(super) const SHARE: &str = "capacity_share";
pub(super) const ECHO_P95: &str = "echo_p95_ms";

fn of<'a>(seen: &'a [Seen], stack: &str) -> Option<&'a Seen> {
    seen.iter().find(|seen| seen.stack == stack)
}

fn rivals(seen: &[Seen]) -> impl Iterator<Item = &Seen> {
    seen.iter().filter(|seen| seen.stack != OURS)
}

fn best(seen: &[Seen]) -> Option<&Seen> {
    rivals(seen).max_by(|a, b| a.goodput_bps.total_cmp(&b.goodput_bps))
}

/// Our goodput over the best TCP's.
pub(super) fn goodput_ratio(seen: &[Seen]) -> Option<f64> {
    let ratio = of(seen, OURS)?.goodput_bps / best(seen)?.goodput_bps;
    ratio.is_finite().then_some(ratio)
}

/// Our echo's p95 over that of the best TCP.
fn echo_ratio(seen: &[Seen]) -> Option<f64> {
    Some(of(seen, OURS)?.echo_p95_ms? / best(seen)?.echo_p95_ms?)
}

/// Our echo's p95 over the lowest of the TCPs that carry nearly as much; nothing without one.
fn echo_over_calmest(seen: &[Seen]) -> Option<f64> {
    let ours = of(seen, OURS)?;
    let equal = rivals(seen).filter(|rival| rival.goodput_bps >= RIVAL_SHARE * ours.goodput_bps);
    Some(ours.echo_p95_ms? / equal.filter_map(|rival| rival.echo_p95_ms).min_by(f64::total_cmp)?)
}

/// Our bytes on the link per delivered byte over BBR's.
fn wire_ratio(seen: &[Seen]) -> Option<f64> {
    Some(of(seen, OURS)?.wire? / of(seen, BBR)?.wire?)
}

pub(super) fn head(case: &[(&str, &str)], stack: &str) -> Head {
    let case: Vec<_> = case.iter().map(|(key, value)| (*key, json!(value))).collect();
    Head::sim(ID, &case, stack)
}

fn judged(head: &Head, metric: &str, value: Option<f64>, aim: Aim, why: &str) -> Option<Row> {
    let row = head.row(metric, "ratio", &[value?]).judged(aim).noting(why);
    Some(row)
}

fn rows_of(case: &Case, seen: &[Seen]) -> Vec<Row> {
    let words = [("recording", case.recording.as_str()), ("way", case.way), ("queue", case.queue)];
    let mut rows = Vec::new();
    let told: Vec<String> = seen
        .iter()
        .map(|s| {
            let ms = s.echo_p95_ms.map_or("-".into(), |ms| format!("{ms:.0}"));
            format!("{} {:.2} Mbit/s, {ms} ms", s.stack, s.goodput_bps / 1e6)
        })
        .collect();
    let told = told.join("; ");
    let ours = head(&words, OURS);
    if let Some(mut row) = judged(&ours, "goodput_ratio", goodput_ratio(seen), Aim::AtLeast(WORST_AIM), &told) {
        row.bound = best(seen).map(|best| PAYLOAD / best.share.max(f64::MIN_POSITIVE));
        rows.push(row);
    }
    let what = "p95 of the echo over the lowest of the TCPs with 0.9 of our goodput";
    rows.extend(judged(&ours, "echo_over_calmest", echo_over_calmest(seen), Aim::AtMost(ECHO_AIM), what));
    let what = "bytes on the link per byte delivered over BBR's";
    rows.extend(judged(&ours, "wire_ratio", wire_ratio(seen), Aim::AtMost(WIRE_AIM), what));
    if let Some(lost) = of(seen, OURS) {
        let theirs = rivals(seen).map(|rival| rival.lost).max().unwrap_or(0);
        let mut row = ours.row("lost_echoes", "echoes", &[lost.lost as f64]);
        row.verdict = if lost.lost == 0 || theirs > 0 { Verdict::Pass } else { Verdict::Fail };
        row.why = format!("{} of {}, at most {theirs} over a TCP; only where a TCP loses one", lost.lost, lost.echoes);
        rows.push(row);
    }
    for stack in seen {
        let head = head(&words, &stack.stack);
        rows.push(head.row(SHARE, "ratio", &[stack.share]));
        rows.extend(stack.echo_p95_ms.map(|ms| head.row(ECHO_P95, "ms", &[ms])));
    }
    rows
}

/// A claim about all cases.
pub(super) fn claim(metric: &str, unit: &str, value: Option<f64>, n: usize, aim: Aim) -> Row {
    Row { value, n: n as u64, ..Row::new(ID, "sim", OURS, metric, unit) }.judged(aim)
}

/// All rows, the claims first.
pub(super) fn rows(found: &[(&Case, &[Seen])]) -> Vec<Row> {
    let all = |what: fn(&[Seen]) -> Option<f64>| sorted(found.iter().filter_map(|(_, seen)| what(seen)));
    let (goodput, echo) = (all(goodput_ratio), all(echo_ratio));
    let (calmest, wire) = (all(echo_over_calmest), all(wire_ratio));
    let mut rows = vec![
        claim("goodput_ratio_median", "ratio", percentile(&goodput, 50), goodput.len(), Aim::AtLeast(MEDIAN_AIM)),
        claim("goodput_ratio_worst", "ratio", goodput.first().copied(), goodput.len(), Aim::AtLeast(WORST_AIM)),
        claim("echo_ratio_median", "ratio", percentile(&echo, 50), echo.len(), Aim::AtMost(ECHO_MEDIAN_AIM)),
        claim("wire_ratio_worst", "ratio", wire.last().copied(), wire.len(), Aim::AtMost(WIRE_AIM)),
    ];
    if !calmest.is_empty() {
        let worst = calmest.last().copied();
        rows.push(claim("echo_over_calmest_worst", "ratio", worst, calmest.len(), Aim::AtMost(ECHO_AIM)));
    }
    rows.extend(found.iter().flat_map(|(case, seen)| rows_of(case, seen)));
    rows
}
