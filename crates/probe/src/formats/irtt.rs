//! irtt's JSON: every round trip, with the delay of each direction and the direction of a loss.

use super::{FormatError, Results, SeriesData, Tool, number, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// irtt's RTTs, where a missing one was lost.
pub const IRTT_PING: &str = "Ping (ms) UDP";
const NS_PER_MS: f64 = 1e6;

pub(super) fn read(json: &Value) -> Result<Results, FormatError> {
    let missing = |what| FormatError::Missing { tool: "irtt", what };
    let trips = json["round_trips"].as_array().ok_or(missing("round_trips"))?;
    let interval_s = number(&json["config"]["params"], "interval").ok_or(missing("interval"))? / 1e9;
    let series = |name: &str| SeriesData { name: name.to_owned(), units: "ms".to_owned(), points: Vec::new() };
    let mut all = [series(IRTT_PING), series("OWD up"), series("OWD down")];
    let mut lost = BTreeMap::<&str, u32>::new();
    let sent = |trip: &Value| number(&trip["timestamps"]["client"]["send"], "wall");
    let start = trips.first().and_then(sent);
    for (i, trip) in trips.iter().enumerate() {
        // `lost` is a text: the last two name the direction, which is known from the server's count of received packets.
        match trip.get("lost").and_then(Value::as_str).ok_or(missing("lost"))? {
            "true" => *lost.entry("lost").or_default() += 1,
            "true_up" => *lost.entry("lost_up").or_default() += 1,
            "true_down" => *lost.entry("lost_down").or_default() += 1,
            _ => {}
        }
        let at = match (sent(trip), start) {
            (Some(at), Some(start)) => (at - start) / 1e9,
            _ => i as f64 * interval_s,
        };
        for (series, key) in all.iter_mut().zip(["rtt", "send", "receive"]) {
            series.points.push((at, number(&trip["delay"], key).map(|ns| ns / NS_PER_MS)));
        }
    }
    let mut totals: BTreeMap<String, f64> = ["lost", "lost_up", "lost_down"]
        .map(|key| (format!("{key}_packets"), f64::from(lost.get(key).copied().unwrap_or(0))))
        .into();
    for (key, name) in [("packets_sent", "packets_sent"), ("packets_received", "packets_received")] {
        if let Some(n) = number(&json["stats"], key) {
            totals.insert(name.to_owned(), n);
        }
    }
    for (key, name) in [("rtt", "rtt"), ("send_delay", "owd_up"), ("receive_delay", "owd_down")] {
        for figure in ["min", "mean", "median", "max"] {
            if let Some(ns) = number(&json["stats"][key], figure) {
                totals.insert(format!("{name}_{figure}_ms"), ns / NS_PER_MS);
            }
        }
    }
    // One-way delays need a synchronised clock; without the server's timestamps they are absent.
    let series = all.into_iter().filter(|s| s.points.iter().any(|p| p.1.is_some())).collect();
    let title = text(&json["config"], "remote_address");
    Ok(Results {
        tool: Tool::Irtt,
        title,
        start_unix_s: start.map(|ns| ns / 1e9),
        series,
        totals,
        repaired: Vec::new(),
    })
}
