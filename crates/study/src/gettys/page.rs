//! The study's pictures: each experiment before and after.

use crate::document::StudyDocument;
use crate::home::{PING, seen};
use std::path::Path;
use wavelane_report::Chart;
use wavelane_run::RunDocument;

/// Curves by name.
type Curves = Vec<(String, Vec<(f64, f64)>)>;

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
    Chart {
        name,
        title: title.into(),
        x_label: "time (s); the copy begins at 5 s".into(),
        y_label: if log { "round trip of a ping (ms, log scale)" } else { "round trip of a ping (ms)" }.into(),
        log,
        x_log: false,
        dots: false,
        bars: false,
        curves,
        aim: None,
    }
}

/// A metric of an experiment over a number of its case, a curve per place and medium.
fn over_case(document: &StudyDocument, id: &str, metric: &str, key: &str) -> Curves {
    let mut curves = Curves::new();
    let mut add = |name: String, x: f64, y: f64| match curves.iter_mut().find(|(n, _)| *n == name) {
        Some((_, points)) => points.push((x, y)),
        None => curves.push((name, vec![(x, y)])),
    };
    for row in document.rows.iter().filter(|row| row.id == id && row.metric == metric) {
        let number = row.case.get(key).and_then(|v| {
            v.as_f64().or_else(|| v.as_str().and_then(|text| text.split(' ').next()).and_then(|n| n.parse().ok()))
        });
        let (Some(x), Some(y)) = (number, row.value) else { continue };
        let medium = row.case.get("medium").and_then(|v| v.as_str()).map_or(String::new(), |m| format!(", {m}"));
        add(format!("{}{medium}", row.backend), x, y);
        if let Some(bound) = row.bound.filter(|_| row.backend == "sim" && medium != ", 802.11g cell") {
            add("packets over goodput".into(), x, bound);
        }
    }
    curves
}

/// Pictures over time: file, title, whether the axis is logarithmic, and runs with their words.
type OverTime = (&'static str, &'static str, bool, &'static [(&'static str, &'static str)]);

const OVER_TIME: [OverTime; 5] = [
    (
        "e2a",
        "E2a: an upload at 54 Mbit/s, txqueuelen 1000 and a ring of 256",
        false,
        &[("sim-e2a", "simulator, cable"), ("sim-e2a-cell", "simulator, 802.11g cell"), ("lab-e2a", "laboratory")],
    ),
    ("e2e", "E2e: txqueuelen 0 at 6 Mbit/s", false, &[("sim-e2e-256", "ring of 256"), ("sim-e2e-50", "ring of 50")]),
    (
        "e3",
        "E3: downloads through routers",
        true,
        &[
            ("sim-e3a", "54 Mbit/s, 1042 packets"),
            ("sim-e3b-0", "54 Mbit/s, 417 packets"),
            ("sim-e3c-12", "12 Mbit/s, 1560 packets"),
            ("sim-e3c-6", "6 Mbit/s, 1560 packets"),
            ("lab-e3c-12", "12 Mbit/s, 1560 packets, laboratory"),
        ],
    ),
    (
        "e3e",
        "E3e: a WRT54TM before and after txqueuelen 10",
        true,
        &[("sim-e3e-1644", "before"), ("sim-e3e-10", "after")],
    ),
    (
        "e4",
        "E4: 4.9 Mbit/s before and after FQ-CoDel",
        true,
        &[
            ("sim-e4-4900-fifo", "FIFO, simulator"),
            ("sim-e4-4900-fq-codel", "FQ-CoDel, simulator"),
            ("lab-e4-4900-fifo", "FIFO, laboratory"),
            ("lab-e4-4900-fq-codel", "FQ-CoDel, laboratory"),
        ],
    ),
];

/// Every picture for which there is something to show.
pub(crate) fn charts(folder: &Path, document: &StudyDocument) -> Vec<Chart> {
    let timed = OVER_TIME.iter().map(|(name, title, log, runs)| time_chart(name, title, *log, over_time(folder, runs)));
    let over = |name: &'static str, title: &str, x: &str, id: &str, key: &str| Chart {
        x_label: x.into(),
        ..time_chart(name, title, key == "rate", over_case(document, id, "rtt_p95_ms", key))
    };
    let lengths = over("e2b", "E2b: shorter transmit queues", "txqueuelen (packets)", "S3-E2b", "txqueuelen");
    let title = "E2c: the lower the bitrate, the higher the latency";
    let rates = over("e2c", title, "signalling rate (Mbit/s)", "S3-E2c", "rate");
    timed.chain([lengths, rates]).filter(|chart| !chart.curves.is_empty()).collect()
}
