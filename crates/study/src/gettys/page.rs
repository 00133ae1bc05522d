//! The study's pictures: each experiment before and after.

use crate::document::StudyDocument;
use crate::home::{PING, seen};
use std::path::Path;
use wavelane_report::{Chart, Curves, gathered};
use wavelane_run::RunDocument;

/// Round trips over time of these runs, as far as their Records lie in `folder`; each with its words.
fn over_time(folder: &Path, runs: &[(&str, &str)]) -> Curves {
    let one = |(name, words): &(&str, &str)| {
        let document = RunDocument::load(&folder.join(super::ID).join(name)).ok()?;
        let seen = seen(&document)?;
        let points: Vec<(f64, f64)> = seen.first(PING)?.iter().filter_map(|(at, rtt)| Some((*at, (*rtt)?))).collect();
        Some(((*words).to_owned(), points))
    };
    runs.iter().filter_map(one).collect()
}

fn time_chart(name: &'static str, title: &str, log: bool, curves: Curves) -> Chart {
    let y = if log { "round trip of a ping (ms, log scale)" } else { "round trip of a ping (ms)" };
    Chart { log, ..Chart::new(name, title, ["time (s); the copy begins at 5 s", y], curves) }
}

/// A metric of an experiment over a number of its case, a curve per place and medium.
fn over_case(document: &StudyDocument, id: &str, metric: &str, key: &str) -> Curves {
    let mut points = Vec::new();
    for row in document.rows.iter().filter(|row| row.id == id && row.metric == metric) {
        let number = row.case.get(key).and_then(|v| {
            v.as_f64().or_else(|| v.as_str().and_then(|text| text.split(' ').next()).and_then(|n| n.parse().ok()))
        });
        let (Some(x), Some(y)) = (number, row.value) else { continue };
        let medium = row.case.get("medium").and_then(|v| v.as_str()).map_or(String::new(), |m| format!(", {m}"));
        points.push((format!("{}{medium}", row.backend), x, y));
        if let Some(bound) = row.bound.filter(|_| row.backend == "sim" && medium != ", 802.11g cell") {
            points.push(("packets over goodput".into(), x, bound));
        }
    }
    gathered(points)
}

/// A picture over time a line: file, title, whether the axis is logarithmic, and runs with their words.
const OVER_TIME: &str = include_str!("pictures.txt");

fn timed(folder: &Path, line: &'static str) -> Chart {
    let words: Vec<&str> = line.split(" | ").collect();
    let [name, title, log, runs] = words[..] else { panic!("pictures.txt: four columns") };
    let runs: Vec<_> = runs.split("; ").filter_map(|run| run.split_once(": ")).collect();
    time_chart(name, title, log == "log", over_time(folder, &runs))
}

/// Every picture for which there is something to show.
pub(crate) fn charts(folder: &Path, document: &StudyDocument) -> Vec<Chart> {
    let timed = OVER_TIME.lines().map(|line| timed(folder, line));
    let over = |name: &'static str, title: &str, x: &str, id: &str, key: &str| Chart {
        x_label: x.into(),
        ..time_chart(name, title, key == "rate", over_case(document, id, "rtt_p95_ms", key))
    };
    let lengths = over("e2b", "E2b: shorter transmit queues", "txqueuelen (packets)", "S3-E2b", "txqueuelen");
    let title = "E2c: the lower the bitrate, the higher the latency";
    let rates = over("e2c", title, "signalling rate (Mbit/s)", "S3-E2c", "rate");
    timed.chain([lengths, rates]).filter(|chart| !chart.curves.is_empty()).collect()
}
