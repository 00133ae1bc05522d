//! What radio cells did, as text for a terminal: the frames, the access categories, and what bit errors took.

use core::fmt::Write;
use wavelane_scenario::figures::mean_ci95;
use wavelane_scenario::{CategoryFigures, RadioFigures, RunDocument, StackResult};

/// Mean with half-width over the seeds; `-` if a seed has none.
fn over<T>(seeds: &[&T], decimals: usize, figure: impl Fn(&T) -> Option<f64>) -> String {
    let values: Option<Vec<f64>> = seeds.iter().map(|seed| figure(seed)).collect();
    match values.and_then(|values| mean_ci95(&values)) {
        None => "-".into(),
        Some((mean, Some(half))) => format!("{mean:.decimals$} ±{half:.decimals$}"),
        Some((mean, None)) => format!("{mean:.decimals$}"),
    }
}

/// A table whose first `words` columns stand left.
fn table(out: &mut String, words: usize, rows: &[Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    out.push('\n');
    for row in rows {
        let mut text = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if i < words { write!(text, "{cell:<width$}  ") } else { write!(text, "{cell:>width$}  ") };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
}

/// The cells of a stack with their seeds, in the order in which they are first named.
fn cells(stack: &StackResult) -> Vec<(&str, Vec<&RadioFigures>)> {
    let mut cells: Vec<(&str, Vec<&RadioFigures>)> = Vec::new();
    for radio in &stack.radios {
        match cells.iter_mut().find(|(name, _)| *name == radio.channel) {
            Some((_, seeds)) => seeds.push(radio),
            None => cells.push((&radio.channel, vec![radio])),
        }
    }
    cells
}

/// The tables of the radio cells; nothing without one.
pub(crate) fn radio_text(document: &RunDocument) -> String {
    let heads = |heads: &[&str]| vec![heads.iter().map(|head| (*head).to_owned()).collect::<Vec<_>>()];
    let mut radios = heads(&["stack", "cell", "data/s", "RTS/s", "ACK missing/s", "given up/s", "queue full/s"]);
    let mut errors = heads(&["stack", "cell", "coded %", "lost uncoded %", "lost coded %"]);
    let mut categories = heads(&[
        "stack",
        "cell",
        "category",
        "delivered Mbit/s",
        "data/s",
        "ACK missing/s",
        "gave way/s",
        "given up/s",
    ]);
    categories[0].push("queue full/s".into());
    for (stack, (name, seeds)) in document.stacks.iter().flat_map(|s| cells(s).into_iter().map(move |c| (s, c))) {
        let head = [stack.stack.clone(), name.to_owned()];
        let of = |figure: fn(&RadioFigures) -> f64| over(&seeds, 1, |r| Some(figure(r)));
        let figures = [
            of(|r| r.data_per_s),
            of(|r| r.rts_per_s),
            of(|r| r.ack_missing_per_s),
            of(|r| r.given_up_per_s),
            of(|r| r.queue_full_per_s),
        ];
        radios.push(head.iter().cloned().chain(figures).collect());
        let percent =
            |figure: fn(&RadioFigures) -> Option<f64>| over(&seeds, 2, |r| figure(r).map(|share| share * 100.0));
        if seeds.iter().any(|r| r.coded_share.is_some()) {
            let figures = [percent(|r| r.coded_share), percent(|r| r.uncoded_loss), percent(|r| r.coded_loss)];
            errors.push(head.iter().cloned().chain(figures).collect());
        }
        let names = seeds.first().map(|r| r.categories.as_slice()).unwrap_or_default();
        for (place, category) in names.iter().enumerate().rev() {
            let seeds: Vec<&CategoryFigures> = seeds.iter().filter_map(|r| r.categories.get(place)).collect();
            let of = |figure: fn(&CategoryFigures) -> f64| over(&seeds, 1, |c| Some(figure(c)));
            let figures = [
                category.category.clone(),
                over(&seeds, 3, |c| Some(c.delivered_bps / 1e6)),
                of(|c| c.data_per_s),
                of(|c| c.ack_missing_per_s),
                of(|c| c.gave_way_per_s),
                of(|c| c.given_up_per_s),
                of(|c| c.queue_full_per_s),
            ];
            categories.push(head.iter().cloned().chain(figures).collect());
        }
    }
    let mut out = String::new();
    for (words, rows) in [(2, radios), (3, categories), (2, errors)] {
        if rows.len() > 1 {
            table(&mut out, words, &rows);
        }
    }
    out
}
