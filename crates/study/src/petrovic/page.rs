//! The pictures of the study: ours beside the document's.

use super::cell::Profile;
use super::quoted::COLUMNS;
use crate::document::{Row, StudyDocument};
use wavelane_report::Chart;
use wavelane_run::Verdict;

/// What is judged, claimed or across cells; the cells themselves are in the tables.
pub(crate) fn shown(document: &StudyDocument) -> Vec<&Row> {
    document.rows.iter().filter(|row| row.verdict != Verdict::Info || !row.case.contains_key("window")).collect()
}

fn word<'a>(row: &'a Row, key: &str) -> &'a str {
    row.case.get(key).and_then(|v| v.as_str()).unwrap_or_default()
}

fn number(row: &Row, key: &str) -> Option<f64> {
    row.case.get(key)?.as_f64()
}

/// Rows of a metric in the cells of a profile and reading.
fn of<'a>(
    document: &'a StudyDocument,
    (id, metric): (&'a str, &'a str),
    (profile, reading): (Profile, &'a str),
) -> impl Iterator<Item = &'a Row> {
    document.rows.iter().filter(move |row| {
        row.id == id
            && row.metric == metric
            && word(row, "profile") == profile.word()
            && word(row, "reading") == reading
    })
}

/// Ours and the document's over one key of the case, for rows that `keep` names.
fn pair<'a>(rows: impl Iterator<Item = &'a Row>, key: &str, name: &str) -> [(String, Vec<(f64, f64)>); 2] {
    let rows: Vec<&Row> = rows.collect();
    let points = |value: fn(&Row) -> Option<f64>| {
        rows.iter().filter_map(|row| Some((number(row, key)?, value(row)?))).collect::<Vec<_>>()
    };
    [(format!("{name}, ours"), points(|row| row.value)), (format!("{name}, document"), points(|row| row.published))]
}

fn chart(name: &'static str, title: String, [x, y]: [&str; 2], curves: Vec<(String, Vec<(f64, f64)>)>) -> Chart {
    let curves = curves.into_iter().filter(|(_, points)| !points.is_empty()).collect();
    let (x_label, y_label) = (x.to_owned(), y.to_owned());
    Chart { name, title, x_label, y_label, log: false, x_log: false, dots: false, curves, aim: None }
}

/// Throughput by packet size, response by window, voice loss by size, and fairness by window.
pub(crate) fn charts(document: &StudyDocument) -> Vec<Chart> {
    let mut charts = Vec::new();
    let names =
        [["throughput-2001", "response-2001", "loss-2001"], ["throughput-modern", "response-modern", "loss-modern"]];
    for (profile, [throughput, response, loss]) in Profile::BOTH.into_iter().zip(names) {
        let all = (profile, "default");
        let column = |id: &'static str, metric: &'static str, key: &'static str, at: f64, over: &'static str| {
            COLUMNS
                .iter()
                .flat_map(move |c| {
                    let rows = of(document, (id, metric), all);
                    let here = rows.filter(move |row| word(row, "column") == c.word() && number(row, key) == Some(at));
                    pair(here, over, c.word())
                })
                .collect::<Vec<_>>()
        };
        let title = |text: &str| format!("{text} (profile {})", profile.word());
        charts.push(chart(
            throughput,
            title("Throughput of five flows grows with the packet, and RTS/CTS costs: window of 10 segments"),
            ["packet (bytes)", "total (kbit/s)"],
            column("S1-E1", "total_kbps", "window", 10.0, "size_bytes"),
        ));
        charts.push(chart(
            response,
            title("Responses of ten readers hardly depend on the window, but on RTS/CTS: 1000-byte packets"),
            ["window (segments)", "mean response (s)"],
            column("S1-E4", "response_mean_s", "size_bytes", 1000.0, "window"),
        ));
        let voice = [1.0, 8.0, 32.0].into_iter().flat_map(|window| {
            let rows = of(document, ("S1-E5", "loss_percent"), (profile, super::VOICE_READING));
            pair(rows.filter(move |row| number(row, "window") == Some(window)), "size_bytes", &format!("W {window}"))
        });
        charts.push(chart(
            loss,
            title("Voice loses least between 500 and 800 bytes; the document's step at 1000 is not in the model"),
            ["datagram (bytes)", "lost or late (%)"],
            voice.collect(),
        ));
    }
    charts
}
