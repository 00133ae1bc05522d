//! The pictures of a population, and the few of its rows that a page has room for.

use super::judge::{DRAW, ECHO_METRIC, LOSS, RATE, RATIO_METRIC, RTT};
use crate::document::{Row, StudyDocument};
use wavelane_report::{Chart, gathered};

/// How many of the worst members the page shows, by goodput and by echo.
const WORST: usize = 10;
/// A ratio is drawn no lower and no higher.
const DRAWN: [f64; 2] = [0.02, 50.0];

fn members<'a>(document: &'a StudyDocument, metric: &'a str) -> impl Iterator<Item = &'a Row> {
    document.rows.iter().filter(move |row| row.metric == metric && row.case.contains_key(DRAW))
}

/// The claims about the family, then the worst members by goodput, with the commands that replay them, and by echo.
pub(crate) fn shown(document: &StudyDocument) -> Vec<&Row> {
    let mut shown: Vec<&Row> = document.rows.iter().filter(|row| row.case.is_empty()).collect();
    for (metric, worst_is_low) in [(RATIO_METRIC, true), (ECHO_METRIC, false)] {
        let mut rows: Vec<&Row> = members(document, metric).collect();
        let rank = |row: &Row| row.value.unwrap_or(0.0) * if worst_is_low { 1.0 } else { -1.0 };
        rows.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
        shown.extend(rows.into_iter().take(WORST));
    }
    shown.extend(members(document, super::lab::METRIC));
    shown
}

/// Distribution of a figure over the members, and the figure over something of the link, by kind of loss.
pub(crate) fn charts(document: &StudyDocument) -> Vec<Chart> {
    if members(document, RATIO_METRIC).next().is_none() {
        return Vec::new();
    }
    let ratio = "goodput over the best TCP's";
    let echo = "echo p95 over what is allowed beside the calmest rival";
    vec![
        distribution(
            document,
            "goodput_cdf",
            RATIO_METRIC,
            "Goodput beside the best TCP",
            &format!("{ratio}, log scale"),
        ),
        scatter(
            document,
            "goodput_scatter",
            RATIO_METRIC,
            (RATE, "rate of the body's direction (Mbit/s)"),
            (ratio, "the best TCP"),
        ),
        distribution(document, "echo_cdf", ECHO_METRIC, "Echo beside the calmest rival", &format!("{echo}, log scale")),
        scatter(document, "echo_scatter", ECHO_METRIC, (RTT, "round trip of the empty link (ms)"), (echo, "allowed")),
    ]
}

fn drawn(value: f64) -> f64 {
    value.clamp(DRAWN[0], DRAWN[1])
}

/// Steps of the share of draws up to a value; where a bound is known, that of the bound too.
fn distribution(
    document: &StudyDocument,
    name: &'static str,
    metric: &'static str,
    title: &str,
    x_label: &str,
) -> Chart {
    let steps = |values: Vec<f64>| {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let both = |(i, v): (usize, &f64)| [(drawn(*v), i as f64 / n), (drawn(*v), (i + 1) as f64 / n)];
        values.iter().enumerate().flat_map(both).collect::<Vec<_>>()
    };
    let values = steps(members(document, metric).filter_map(|row| row.value).collect());
    let bounds = steps(members(document, metric).filter_map(|row| row.bound).collect());
    let curves = [("wavelane".to_owned(), values), ("bound: what can arrive at all".to_owned(), bounds)];
    let curves = curves.into_iter().filter(|(_, points)| !points.is_empty()).collect();
    let title = format!("{title}: share of draws up to a value");
    Chart { x_log: true, ..Chart::new(name, title, [x_label, "share of draws"], curves) }
}

/// With a level at 1, and what that is.
fn scatter(
    document: &StudyDocument,
    name: &'static str,
    metric: &'static str,
    (key, x_label): (&str, &str),
    (y_label, one): (&str, &str),
) -> Chart {
    let point = |row: &Row| {
        let of = format!("loss: {}", row.case.get(LOSS)?.as_str()?);
        Some((of, row.case.get(key)?.as_f64()?, drawn(row.value?)))
    };
    let mut curves = gathered(members(document, metric).filter_map(point));
    curves.sort_by(|a, b| a.0.cmp(&b.0));
    let labels = [&*format!("{x_label}, log scale"), "ratio, log scale"];
    let chart = Chart::new(name, format!("The draws: {y_label}"), labels, curves);
    Chart { log: true, x_log: true, dots: true, aim: Some((1.0, one.into())), ..chart }
}
