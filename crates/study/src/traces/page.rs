//! The study's pictures: goodput against delay, and the worst three over time.

use super::Seen;
use super::judge::{ECHO_P95, SHARE, goodput_ratio};
use super::links::Case;
use crate::document::StudyDocument;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use wavelane_report::{Chart, gathered};

/// How many of the worst are drawn over time, each with two pictures.
const WORST: [[&str; 2]; 3] =
    [["worst-1-goodput", "worst-1-echo"], ["worst-2-goodput", "worst-2-echo"], ["worst-3-goodput", "worst-3-echo"]];
const FILE: &str = "worst.json";
/// Largest file that is read back.
const FILE_MAX: u64 = 16 << 20;

/// A case over time.
#[derive(Serialize, Deserialize)]
struct Timeline {
    title: String,
    stacks: Vec<(String, Vec<(f64, f64)>)>,
}

/// Keeps what the pictures of the worst three need, by goodput beside the best TCP.
pub(super) fn keep_worst(folder: &Path, found: &[(&Case, &[Seen])]) -> Result<(), (PathBuf, String)> {
    let mut order: Vec<&(&Case, &[Seen])> = found.iter().collect();
    let rank = |seen: &[Seen]| goodput_ratio(seen).unwrap_or(f64::MAX);
    order.sort_by(|a, b| rank(a.1).total_cmp(&rank(b.1)));
    let timeline = |(case, seen): &&(&Case, &[Seen])| Timeline {
        title: format!("{} {}, {}", case.recording, case.way, case.queue),
        stacks: seen.iter().map(|seen| (seen.stack.clone(), seen.seconds.clone())).collect(),
    };
    let worst: Vec<Timeline> = order.iter().take(WORST.len()).map(timeline).collect();
    let path = folder.join(FILE);
    let text = serde_json::to_string(&worst).unwrap_or_default();
    wavelane_run::write_whole(&path, text).map_err(|e| (path, e.to_string()))
}

/// All pictures; those over time only where the study's folder is.
pub(crate) fn charts(folder: &Path, document: &StudyDocument) -> Vec<Chart> {
    let mut charts = vec![scatter(document)];
    let text = wavelane_scenario::read_regular(&folder.join(super::ID).join(FILE), FILE_MAX).unwrap_or_default();
    let worst: Vec<Timeline> = serde_json::from_str(&text).unwrap_or_default();
    for (names, timeline) in WORST.into_iter().zip(worst) {
        let curves = |of: fn(&(f64, f64)) -> f64| {
            let curve = |(stack, seconds): &(String, Vec<(f64, f64)>)| {
                let points = seconds.iter().enumerate().map(|(n, second)| (n as f64, of(second))).collect();
                (stack.clone(), points)
            };
            timeline.stacks.iter().map(curve).collect::<Vec<_>>()
        };
        let what = [("goodput (Mbit/s)", false), ("longest echo due in the second (ms, log scale)", true)];
        let each = [curves(|second| second.0), curves(|second| second.1.max(1.0))];
        for ((name, (label, log)), curves) in names.into_iter().zip(what).zip(each) {
            let title = format!("{}: {label}", timeline.title);
            charts.push(Chart { log, ..Chart::new(name, title, ["time (s)", label], curves) });
        }
    }
    charts
}

/// A point per case and stack.
fn scatter(document: &StudyDocument) -> Chart {
    let shares = document.rows.iter().filter(|row| row.metric == SHARE);
    let points = shares.filter_map(|share| {
        let echo = |row: &&crate::Row| row.metric == ECHO_P95 && row.stack == share.stack && row.case == share.case;
        Some((share.stack.clone(), document.rows.iter().find(echo)?.value?, share.value?))
    });
    let labels = ["p95 of the echo (ms, log scale)", "goodput over what was recorded"];
    let chart = Chart::new("goodput-delay", "Goodput against delay, a point per recording", labels, gathered(points));
    Chart { x_log: true, dots: true, ..chart }
}

/// The claims, then what is judged of each case.
pub(crate) fn shown(document: &StudyDocument) -> Vec<&crate::Row> {
    let judged = |row: &&crate::Row| row.stack == super::OURS && ![SHARE, ECHO_P95].contains(&row.metric.as_str());
    document.rows.iter().filter(judged).collect()
}
