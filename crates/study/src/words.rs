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
    let words = match metric {
        "goodput_bps" => "Goodput",
        "goodput_ratio" => "Goodput, ratio to the rival's",
        "goodput_of_best_lane" => "Goodput of all lanes, ratio to that of the best lane alone",
        "goodput_of_sum" => "Goodput, ratio to the sum of the lanes' rates",
        "goodput_of_fifo" => "Goodput, ratio to that with a FIFO queue",
        "limit_share" => "Share of what the link can deliver",
        "echo_p95_ms" | "rtt_p95_ms" => "Echo delay, 95th percentile",
        "echo_p95_over_unloaded" => "Echo delay, 95th percentile, ratio to the unloaded link's median",
        "echo_p95_of_allowed" => "Echo delay, 95th percentile, ratio to what is allowed",
        "rtt_p50_ms" => "Echo delay, median",
        "rtt_p99_ms" => "Echo delay, 99th percentile",
        "rtt_p50_rise_ms" => "Rise of the echo delay's median under load",
        "rtt_p99_rise_ms" => "Rise of the echo delay's 99th percentile under load",
        "rtt_mean_rise_ms" => "Rise of the mean echo delay under load",
        "back_share_beside_echo" => "Share of the return path used, echoes left out",
        "back_bytes_per_delivered_mb" => "Bytes on the return path per MB delivered",
        "longest_pause_ms" => "Longest pause of the transfer",
        "data_again_ms" => "Time from the end of the outage to the next data",
        "out_mean_ms" => "Mean one-way delay",
        "out_mean_of_better_fixed" => "Mean one-way delay, ratio to that of the better fixed choice",
        "age_p95_ms" => "Age of the bytes, 95th percentile",
        "first_byte_ms" => "Small bodies, time to the first byte",
        "total_ms" => "Small bodies, time to the last byte",
        "total_kbps" => "Throughput of all nodes",
        "page_ms" => "Time to load the page",
        "page_idle_ms" => "Time to load the page, idle link",
        "page_over_idle" => "Time to load the page, ratio to that on the idle link",
        "loss_percent" => "Loss",
        "completed" => "Share of bodies that arrived whole",
        "kept_share" => "What the rival keeps of its goodput beside its own kind",
        "of_without" => "The figure, ratio to that without the mechanism",
        "delay_without_over_with" => "Delay without the mechanism, ratio to that with it",
        "with_over_without" => "With the mechanism, ratio to that without it",
        "of_one_clean_flow" => "Both flows together, ratio to one alone",
        "of_one_hop" => "Goodput, ratio to that of one hop",
        "rts_over_none" => "With RTS/CTS, ratio to that without",
        "lab_over_sim" => "Goodput in the lab, ratio to the simulator's",
        "sim_over_lab_p50" => "Median delay in the simulator, ratio to the lab's",
        "page_over_rtt" => "Time to load the page, in round trips",
        "goodput_of_no_ring" => "Goodput, ratio to that without a ring",
        "echo_p50_over_no_ring_ms" => "Echo delay, median, less that without a ring",
        "echo_p99_over_no_ring_ms" => "Echo delay, 99th percentile, less that without a ring",
        "response_100_over_1000_bytes" => "Response in packets of 100 B, ratio to that of 1000 B",
        "rtt_6_over_12" => "Delay at 6 Mbit/s, ratio to that at 12",
        "rtt_before_over_after" => "Delay before the change, ratio to that after it",
        "throughput_window_10_over_1" => "Throughput at a window of 10, ratio to that at 1",
        "over_default_reading" => "Throughput, ratio to that of the default reading",
        "cpu_s_per_gb" => "Processor time per GB",
        "sim_s_per_cpu_s" => "Simulated seconds per processor second",
        _ => return plain(metric),
    };
    words.to_owned()
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
