//! iperf3's JSON: the values of its intervals, per stream and for all.

use super::{FormatError, Results, SeriesData, Tool, number, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// A key of an interval, its series, unit and factor.
type Kind = (&'static str, &'static str, &'static str, f64);

/// Names that flent uses for the same figures of `ss`.
const KINDS: [Kind; 5] = [
    ("bits_per_second", "throughput", "Mbits/s", 1e-6),
    ("rtt", "tcp_rtt", "ms", 1e-3),
    ("snd_cwnd", "tcp_cwnd", "bytes", 1.0),
    ("retransmits", "retransmits", "segments", 1.0),
    ("jitter_ms", "jitter", "ms", 1.0),
];

pub(super) fn read(json: &Value) -> Result<Results, FormatError> {
    let error = json.get("error").map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned));
    let missing = |what| FormatError::Missing { tool: "iperf3", what };
    let intervals = json["intervals"].as_array().ok_or(missing("intervals"))?;
    let mut series = Named::default();
    for interval in intervals {
        let streams = interval.get("streams").and_then(Value::as_array);
        for stream in streams.into_iter().flatten() {
            let socket = stream.get("socket").and_then(Value::as_u64).ok_or(missing("socket"))?;
            take(&mut series, stream, &format!("stream {socket}"));
        }
        for (key, name) in [("sum", "sum"), ("sum_bidir_reverse", "sum reverse")] {
            if let Some(sum) = interval.get(key) {
                take(&mut series, sum, name);
            }
        }
    }
    let mut repaired = Vec::new();
    match error {
        // A test that was interrupted has the intervals until then.
        Some(error) if series.list.is_empty() => return Err(FormatError::Failed(error)),
        Some(error) => repaired.push(format!("the test ended early ({error}); its values until then were read")),
        None => {}
    }
    let mut totals = BTreeMap::new();
    for key in ["sum_sent", "sum_received"] {
        let Some(sum) = json.get("end").and_then(|e| e.get(key)) else { continue };
        for figure in ["bytes", "bits_per_second", "retransmits", "lost_packets", "packets"] {
            if let Some(n) = number(sum, figure) {
                totals.insert(format!("{key}_{figure}"), n);
            }
        }
    }
    let start = &json["start"];
    Ok(Results {
        tool: Tool::Iperf3,
        title: text(&start["connecting_to"], "host"),
        start_unix_s: number(&start["timestamp"], "timesecs"),
        series: series.list,
        totals,
        repaired,
    })
}

/// Series in order of first occurrence, found by name: a file may name any number of sockets.
#[derive(Default)]
struct Named {
    list: Vec<SeriesData>,
    places: BTreeMap<String, usize>,
}

/// Adds an interval's figures at its end, because the measured time precedes it.
fn take(series: &mut Named, from: &Value, who: &str) {
    let Some(at) = number(from, "end") else { return };
    for (key, what, units, by) in KINDS {
        let Some(n) = number(from, key) else { continue };
        let name = format!("{who}::{what}");
        let Named { list, places } = &mut *series;
        let place = *places.entry(name).or_insert_with_key(|name| {
            list.push(SeriesData { name: name.clone(), units: units.to_owned(), points: Vec::new() });
            list.len() - 1
        });
        list[place].points.push((at, Some(n * by)));
    }
}
