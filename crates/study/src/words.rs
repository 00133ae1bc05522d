//! Cases and metrics of rows in words: the keys of the JSON document end in their unit, people read it beside the value.

use crate::document::Row;
use serde_json::Value;
use wavelane_report::human;

/// Ends of keys, the unit that each names, and by what the value is multiplied to be in a unit that [`human`] scales.
const UNITS: [(&str, &str, f64); 9] = [
    ("_bps", "bit/s", 1.0),
    ("_kbps", "bit/s", 1e3),
    ("_mbit", "bit/s", 1e6),
    ("_mbps", "bit/s", 1e6),
    ("_ms", "ms", 1.0),
    ("_s", "s", 1.0),
    ("_bytes", "B", 1.0),
    ("_percent", "%", 1.0),
    ("_bdp", "BDP", 1.0),
];

impl Row {
    /// The case as a reader says it: `out 2 Mbit/s, back 33.6 kbit/s`; empty if the row is about all cases.
    #[must_use]
    pub fn case_words(&self) -> String {
        self.case.iter().map(|(key, value)| case(key, value)).collect::<Vec<_>>().join(", ")
    }
}

fn case(key: &str, value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // A share of what was sent.
    if let Some(lost) = value.as_f64().filter(|_| key.starts_with("lost_")) {
        return format!("{} {}", spaced(key), human(lost * 100.0, None, "%"));
    }
    let named = UNITS.iter().find_map(|(end, unit, by)| {
        let name = key.strip_suffix(end)?;
        // A rate that says how often something happens is no time.
        let number: f64 = (!name.ends_with("_per")).then(|| text.parse().ok())??;
        Some(format!("{} {}", spaced(name), human(number * by, None, unit)))
    });
    named.unwrap_or_else(|| format!("{} {text}", spaced(key)))
}

fn spaced(key: &str) -> String {
    key.replace('_', " ")
}

/// A metric as a picture's title, with the key by which tables name it.
pub(crate) fn title(metric: &str) -> String {
    let words = name(metric);
    if words.to_lowercase() == spaced(metric) { words } else { format!("{words} ({metric})") }
}

/// A metric in words.
pub(crate) fn name(metric: &str) -> String {
    let mut known = include_str!("metrics.txt").lines().filter_map(|line| line.split_once(": "));
    known.find(|(key, _)| *key == metric).map_or_else(|| plain(metric), |(_, words)| words.to_owned())
}

/// The key without its unit, as words.
fn plain(metric: &str) -> String {
    let name = UNITS.iter().find_map(|(end, ..)| metric.strip_suffix(end).filter(|name| !name.ends_with("_per")));
    let words = spaced(name.unwrap_or(metric));
    if let Some(rest) = words.strip_prefix("rtt ") {
        return format!("RTT {rest}");
    }
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cases_have_the_unit_beside_the_value() {
        for (key, value, words) in [
            ("back_bps", json!(33_600), "back 33.6 kbit/s"),
            ("rate_mbit", json!(5.5), "rate 5.5 Mbit/s"),
            ("lasts_s", json!(300), "lasts 300 s"),
            ("queue_bdp", json!("0.5"), "queue 0.5 BDP"),
            ("size_bytes", json!(100), "size 100 B"),
            ("radio_delivers_percent", json!(30), "radio delivers 30 %"),
            ("lost_up", json!(0.7), "lost up 70 %"),
            ("opens_per_s", json!(30), "opens per s 30"),
            ("rtt_ms", json!("any"), "rtt ms any"),
            ("profile", json!("rtt-40"), "profile rtt-40"),
        ] {
            assert_eq!(case(key, &value), words);
        }
    }

    #[test]
    fn metrics_have_titles() {
        assert_eq!(title("limit_share"), "Share of what the link can deliver (limit_share)");
        assert_eq!(title("echoes"), "Echoes");
        assert_eq!(title("rtt_peak_ms"), "RTT peak (rtt_peak_ms)");
        assert_eq!(title("opens_per_s"), "Opens per s");
        assert_eq!(name("limit_share"), "Share of what the link can deliver");
        // A ratio is called one: "over" is also what a curve is drawn over.
        for metric in
            ["goodput_ratio", "with_over_without", "rts_over_none", "sim_over_lab_p50", "echo_p95_over_unloaded"]
        {
            assert!(name(metric).contains(", ratio to ") && !name(metric).contains(" over "), "{}", name(metric));
        }
    }
}
