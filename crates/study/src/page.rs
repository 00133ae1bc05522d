//! A study's document as a page: which pictures of which rows.

use crate::document::{Edition, Row, StudyDocument};
use serde_json::Value;
use std::path::{Path, PathBuf};
use wavelane_measure::mean;
use wavelane_report::{Chart, ReportError, StudyPage, render_study};

/// Writes `report.html` and its pictures into `folder`.
pub fn report(folder: &Path, document: &StudyDocument) -> Result<PathBuf, ReportError> {
    let edition = if document.edition == Edition::Full { "full" } else { "quick" };
    let draws = document.draws.as_ref().map(|draws| format!(" --draws {draws}")).unwrap_or_default();
    let parts: String = document.parts.iter().map(|part| format!(" --part {part}")).collect();
    let shown: Vec<&Row> = match document.study.as_str() {
        crate::population::ID => crate::population::page::shown(document),
        crate::petrovic::ID => crate::petrovic::shown(document),
        _ => document.rows.iter().collect(),
    };
    let page = StudyPage {
        title: format!("Study {} ({edition} edition, seed {})", document.study, document.seed),
        verdict: document.verdict,
        grids: if document.study == crate::petrovic::ID { crate::petrovic::grids(document) } else { Vec::new() },
        charts: charts(folder, document),
        rows: shown.into_iter().map(|row| (row.verdict, cells(row))).collect(),
        rerun: format!("wavelane study run {} --{edition} --seed {}{parts}{draws}", document.study, document.seed),
    };
    render_study(folder, &page)
}

fn cells(row: &Row) -> [String; 6] {
    let case = |(k, v): (&String, &Value)| format!("{k} {}", v.as_str().map_or_else(|| v.to_string(), str::to_owned));
    let number = |v: Option<f64>| v.map_or(String::new(), |v| format!("{v:.3}"));
    let half = row.ci95.map_or(String::new(), |c| format!(" \u{b1} {c:.3}"));
    [
        row.stack.clone(),
        row.case.iter().map(case).collect::<Vec<_>>().join(", "),
        row.metric.clone(),
        row.value.map_or("-".into(), |v| format!("{v:.3}{half} {}", row.unit)),
        number(row.bound),
        row.why.clone(),
    ]
}

/// The charts a study of this name has.
fn charts(folder: &Path, document: &StudyDocument) -> Vec<Chart> {
    match document.study.as_str() {
        crate::efficiency::ID => vec![
            over_loss(
                document,
                "limit_share",
                "Share of what the link can deliver",
                "share of rate x (1 - p)",
                0.9,
                false,
            ),
            over_loss(
                document,
                "rtt_p95_ms",
                "Echo beside the download, 95th percentile",
                "ms, log scale",
                150.0,
                true,
            ),
            over_loss(
                document,
                "age_p95_ms",
                "Age of the download's bytes, 95th percentile",
                "ms, log scale",
                0.0,
                true,
            ),
        ],
        crate::sharing::ID => vec![over_queue(document, "sim"), over_queue(document, "lab")],
        crate::population::ID => crate::population::page::charts(document),
        crate::gettys::ID => crate::gettys::page::charts(folder, document),
        crate::petrovic::ID => crate::petrovic::charts(document),
        _ => Vec::new(),
    }
}

/// A metric of every stack over random loss in per cent; an aim of zero is none.
fn over_loss(document: &StudyDocument, metric: &'static str, title: &str, unit: &str, aim: f64, log: bool) -> Chart {
    let percent = |row: &Row| match row.case.get("loss")?.as_str()? {
        "none" => Some(0.0),
        words => words.strip_prefix("random ")?.strip_suffix(" %")?.parse::<f64>().ok(),
    };
    let plain = |row: &&Row| row.metric == metric && row.case.len() == 1;
    let point = |row: &Row| Some((row.stack.clone(), percent(row)?, row.value?));
    Chart {
        name: metric,
        title: title.into(),
        x_label: "random loss, both ways (%)".into(),
        y_label: unit.into(),
        log,
        x_log: false,
        dots: false,
        bars: false,
        curves: curves(document.rows.iter().filter(plain).filter_map(point)),
        aim: (aim > 0.0).then(|| (aim, format!("aim {aim}"))),
    }
}

/// Our share, and what the rivals keep, over the queue; means over the links of one backend.
fn over_queue(document: &StudyDocument, backend: &str) -> Chart {
    let words = |row: &Row| match row.metric.as_str() {
        "share" if row.stack == "wavelane" => Some(format!("our share beside {}", row.case.get("beside")?.as_str()?)),
        "kept_share" => Some(format!("kept by {}", row.stack)),
        "jain" => Some("Jain's index of two links".to_owned()),
        _ => None,
    };
    let queue = |row: &Row| row.case.get("queue_bdp")?.as_str()?.parse::<f64>().ok();
    let rows = || document.rows.iter().filter(|row| row.backend == backend);
    let point = |row: &Row| {
        let (name, at) = (words(row)?, queue(row)?);
        let same = |other: &&Row| words(other).as_ref() == Some(&name) && queue(other) == Some(at);
        let values: Vec<f64> = rows().filter(same).filter_map(|row| row.value).collect();
        Some((name.clone(), at, mean(&values)?))
    };
    let (name, place) = if backend == "lab" { ("shares", "laboratory") } else { ("shares-sim", "simulator") };
    Chart {
        name,
        title: format!("Beside others on one drop-tail bottleneck, in the {place}"),
        x_label: "queue (bandwidth-delay products)".into(),
        y_label: "share or index".into(),
        log: false,
        x_log: false,
        dots: false,
        bars: false,
        curves: curves(rows().filter_map(point)),
        aim: None,
    }
}

/// Points by curve, in the order of first appearance; a point that two rows name stands once.
fn curves(points: impl Iterator<Item = (String, f64, f64)>) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut found: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for (name, x, y) in points {
        let place = found.iter().position(|(n, _)| *n == name).unwrap_or_else(|| {
            found.push((name, Vec::new()));
            found.len() - 1
        });
        if !found[place].1.contains(&(x, y)) {
            found[place].1.push((x, y));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_gather_by_curve_once_each() {
        let points = [("a", 0.0, 1.0), ("b", 0.0, 2.0), ("a", 1.0, 3.0), ("a", 1.0, 3.0)];
        let found = curves(points.into_iter().map(|(n, x, y)| (n.to_owned(), x, y)));
        assert_eq!(found, [("a".to_owned(), vec![(0.0, 1.0), (1.0, 3.0)]), ("b".to_owned(), vec![(0.0, 2.0)])]);
    }
}
