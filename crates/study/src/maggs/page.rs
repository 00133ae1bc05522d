//! The document's two pictures.

use crate::document::{Row, StudyDocument};
use wavelane_report::{Chart, gathered};

/// Rows of a metric with a rate of the line, in its order.
fn rated<'a>(document: &'a StudyDocument, ids: &'a [&str], metric: &'a str) -> impl Iterator<Item = (&'a Row, f64)> {
    let of = document.rows.iter().filter(move |row| ids.contains(&row.id.as_str()) && row.metric == metric);
    of.filter_map(|row| Some((row, row.case.get("up_bps")?.as_f64()? / 1e3)))
}

/// The uplink's rate against goodput with its bound, and the shares of the peak.
pub(crate) fn charts(document: &StudyDocument) -> Vec<Chart> {
    let mut goodput = Vec::new();
    let wide = |row: &Row| row.case.get("window").and_then(|window| window.as_u64()) == Some(12);
    for (row, kbps) in rated(document, &["S0-E1", "S0-E4"], "goodput_bps").filter(|(row, _)| wide(row)) {
        let word = |key: &str| row.case.get(key).map(|value| value.to_string().replace('"', "")).unwrap_or_default();
        let name = format!("{}, an ack for {}", word("down"), word("ack_every"));
        let (Some(value), Some(bound)) = (row.value, row.bound) else { continue };
        if row.id == "S0-E1" {
            goodput.push((format!("bound, an ack for {}", word("ack_every")), kbps, bound / 1e6));
        }
        goodput.push((name, kbps, value / 1e6));
    }
    let mut shares = Vec::new();
    for (row, kbps) in
        rated(document, &["S0-E8", "S0-E10"], "of_peak").filter(|(row, _)| !row.case.contains_key("modem"))
    {
        let Some(value) = row.value else { continue };
        let word =
            |key: &str| row.case.get(key).and_then(|value| value.as_str()).unwrap_or("slip-1998, WaveLAN").to_owned();
        let each = row.case.get("ack_every").and_then(|every| every.as_u64()).unwrap_or(1);
        if row.id == "S0-E8" || each == 1 {
            let name = if row.id == "S0-E8" { "slip-1998".to_owned() } else { word("framing") };
            let whole = if row.id == "S0-E8" { ", the document's rates" } else { "" };
            shares.push((format!("{name}, an ack for {each}{whole}"), kbps, value));
        }
    }
    let rate = "rate of the line up (kbit/s, log scale)";
    let title = "Goodput of a download over the rate of its acknowledgements' line";
    let goodput = Chart::new("uplink", title, [rate, "goodput (Mbit/s)"], gathered(goodput));
    let labels = [rate, "share of the goodput at 115.2 kbit/s"];
    let peak = Chart::new("peak", "Share of the peak over a 2 Mbit/s WaveLAN", labels, gathered(shares));
    vec![Chart { x_log: true, ..goodput }, Chart { x_log: true, aim: Some((0.95, "0.95".into())), ..peak }]
}
