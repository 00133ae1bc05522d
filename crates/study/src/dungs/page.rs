//! The study's pictures, each with what it shows as its title.

use super::seen::{Curve, Seen, kept};
use crate::document::StudyDocument;
use serde_json::Value;
use std::path::{Path, PathBuf};
use wavelane_report::{Chart, Curves, gathered};

const FILE: &str = "curves.json";
/// Largest file that is read back.
const FILE_MAX: u64 = 16 << 20;

/// Keeps what the pictures over time need.
pub(super) fn keep(folder: &Path, drawn: &[(&str, &Seen)]) -> Result<(), (PathBuf, String)> {
    let path = folder.join(FILE);
    let text = serde_json::to_string(&kept(drawn)).unwrap_or_default();
    wavelane_run::write_whole(&path, text).map_err(|e| (path, e.to_string()))
}

/// All pictures; those over time only where the study's folder is.
pub(crate) fn charts(folder: &Path, document: &StudyDocument) -> Vec<Chart> {
    let text = wavelane_scenario::read_regular(&folder.join(super::ID).join(FILE), FILE_MAX).unwrap_or_default();
    let runs: Value = serde_json::from_str(&text).unwrap_or_default();
    let mut charts = over_time(&runs);
    charts.push(Chart::new(
        "sawtooth",
        "After an outage the sender waits up to as long again; a proxy whose half on the air tries every 3 s does not",
        ["outage (s)", "until data flows again (s)"],
        by_case(document, "restart_s", "outage_s", |row| format!("{}, {}", row.stack, row.id)),
    ));
    for (name, metric, title) in [
        (
            "gain-over-cubic",
            "over_cubic",
            "A split gains over CUBIC end to end what loss times wired round trip cost it",
        ),
        ("gain-over-bbr", "over_bbr", "Over BBR end to end a split gains little, and loses with CUBIC on the air"),
    ] {
        let curves = by_case(document, metric, "wired_rtt_ms", |row| {
            format!("{}, {} % lost", row.stack, row.case.get("loss_percent").cloned().unwrap_or_default())
        });
        let chart = Chart::new(name, title, ["wired round trip (ms)", "ratio, log scale"], curves);
        charts.push(Chart { log: true, aim: Some((1.0, "no gain".into())), ..chart });
    }
    charts
}

fn over_time(runs: &Value) -> Vec<Chart> {
    let all = || runs.as_array().into_iter().flatten();
    // The first with that name is end to end, the second split.
    let of = |name: &str, place: usize| all().filter(|run| run["name"] == name).nth(place).cloned().unwrap_or_default();
    let curve = |run: &Value, place: &str, what: &str| -> Curve {
        let point = run["points"].as_array().into_iter().flatten().find(|point| point["place"] == place);
        point.and_then(|point| serde_json::from_value(point[what].clone()).ok()).unwrap_or_default()
    };
    let stacks = [("end to end", of("e8", 0)), ("split", of("e8", 1))];
    let ends = [("server-wire", "server"), ("mobile1-bus1", "mobile")];
    let each = |what: &str, by: f64| {
        let pairs = stacks.iter().flat_map(|stack| ends.map(|end| (stack, end)));
        pairs
            .map(|((word, run), (place, end))| {
                let points = curve(run, place, what).into_iter().map(|(t, v)| (t, v * by)).collect();
                (format!("{end}, {word}"), points)
            })
            .collect::<Vec<(String, Curve)>>()
    };
    let acks = [("e10-500", "500 ms"), ("e10-50", "50 ms"), ("e10-quick", "500 ms, first ones at once")];
    let acks = acks.map(|(name, word)| {
        let early = curve(&of(name, 0), "server-wire", "acked").into_iter().filter(|(t, _)| *t < ACKS_S);
        (word.to_owned(), early.map(|(t, octets)| (t, octets / 1e3)).collect())
    });
    let seconds = |name: &str| -> Curve {
        let halves: Vec<f64> = serde_json::from_value(of(name, 0)["halves"].clone()).unwrap_or_default();
        halves.iter().enumerate().map(|(at, bps)| (at as f64 / 2.0, bps / 1e3)).collect()
    };
    let jumps = [("e5-ap", "UDP"), ("e6-ap", "TCP, 8 kB window"), ("e5-ad-hoc", "UDP, ad hoc")];
    let jumps = jumps.map(|(name, word)| (word.to_owned(), seconds(name)));
    vec![
        Chart::new(
            "throughput",
            "Behind a proxy the server fills its buffer and then sends in bursts, when there is room; the mobile receives as end to end",
            ["time (s)", "throughput in the last second (Mbit/s)"],
            each("rate", 1e-6),
        ),
        Chart::new(
            "round-trips",
            "Behind a proxy the server sees the wire's round trip alone; the cell's queue stays the proxy's",
            ["time (s)", "round trip to the receiver or proxy (ms)"],
            each("rtt", 1.0),
        ),
        Chart::new(
            "acks",
            "With three segments an acknowledgement the first ones wait for the timer, twice",
            ["time (s)", "acknowledged (kB)"],
            acks.to_vec(),
        ),
        Chart::new(
            "jumps",
            "Bluetooth's scheduler moves between an asymmetric and a symmetric level: the throughput jumps",
            ["time (s)", "throughput in half a second (kbit/s)"],
            jumps.to_vec(),
        ),
    ]
}

/// How much of the start is drawn.
const ACKS_S: f64 = 3.0;

fn by_case(document: &StudyDocument, metric: &str, key: &str, name: impl Fn(&crate::Row) -> String) -> Curves {
    let rows = document.rows.iter().filter(|row| row.metric == metric && !row.case.contains_key("rto_floor_ms"));
    gathered(rows.filter_map(|row| Some((name(row), row.case.get(key)?.as_f64()?, row.value?))))
}
