//! Results of radio cells: the frames, the access categories, and losses by bit errors.

use crate::table::Table;
use crate::units::with_half;
use wavelane_measure::mean_ci95;
use wavelane_run::{CategoryFigures, RadioFigures, RunDocument, StackResult};

/// Mean with half-width over the seeds; `-` if a seed has no value.
pub(crate) fn over<T>(seeds: &[&T], decimals: usize, figure: impl Fn(&T) -> Option<f64>) -> String {
    let values: Option<Vec<f64>> = seeds.iter().map(|seed| figure(seed)).collect();
    match values.and_then(|values| mean_ci95(&values)) {
        None => "-".into(),
        Some((mean, half)) => with_half(mean, half, decimals),
    }
}

/// The cells of a stack with their seeds, in order of first appearance.
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

/// The non-empty tables of the radio cells, with a title each.
pub(crate) fn radio_tables(document: &RunDocument) -> Vec<(&'static str, Table)> {
    let mut radios =
        Table::new(2, &["stack", "cell", "data/s", "RTS/s", "ACK missing/s", "given up/s", "queue full/s"]);
    let mut categories = Table::new(
        3,
        &[
            "stack",
            "cell",
            "category",
            "delivered Mbit/s",
            "data/s",
            "ACK missing/s",
            "gave way/s",
            "given up/s",
            "queue full/s",
        ],
    );
    let mut managed = Table::new(3, &["stack", "cell", "category", "dropped for delay/s"]);
    let mut errors = Table::new(2, &["stack", "cell", "coded %", "lost uncoded %", "lost coded %"]);
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
        if seeds.iter().any(|r| r.dropped_delay_per_s.is_some()) {
            let dropped = ["all".to_owned(), over(&seeds, 1, |r| r.dropped_delay_per_s)];
            managed.push(head.iter().cloned().chain(dropped).collect());
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
            if seeds.iter().any(|c| c.dropped_delay_per_s.is_some()) {
                let dropped = [category.category.clone(), over(&seeds, 1, |c| c.dropped_delay_per_s)];
                managed.push(head.iter().cloned().chain(dropped).collect());
            }
        }
    }
    let tables = [
        ("Radio cells, frames", radios),
        ("Access categories", categories),
        ("Managed queues", managed),
        ("Coding against bit errors", errors),
    ];
    tables.into_iter().filter(|(_, table)| !table.rows.is_empty()).collect()
}
