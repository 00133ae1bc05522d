//! The tables of a sweep's page: means of every cell, with flows that have the same figures in one table.

use crate::page::PageTable;
use crate::sweep::{METRICS, concerns, labelled};
use crate::units::{CommonUnit, human};
use crate::words::{key_words, value_words};
use wavelane_measure::mean_ci95;
use wavelane_run::figures::FlowFigures;
use wavelane_run::{StackResult, SweepCell, flow_metrics};
use wavelane_scenario::Axis;

/// A figure of a flow in a cell: mean and half-width over the seeds.
fn figure(flows: &[FlowFigures], flow: &str, key: &str) -> Option<(f64, Option<f64>)> {
    let of_flow = flows.iter().filter(|f| f.flow == flow && concerns(key, &f.app));
    let one = |f: &FlowFigures| flow_metrics(f).into_iter().find(|(k, _)| k == key).map(|(_, value)| value);
    let (mean, half) = mean_ci95(&of_flow.filter_map(one).collect::<Vec<_>>())?;
    // For runs that complete or do not, a t interval would exceed the range from none to all.
    Some((mean, half.filter(|_| key != "completed")))
}

/// Means of every cell, one row per stack and flow; flows with the same figures are in one table, each figure in one unit.
pub(crate) fn tables(axes: &[Axis], cells: &[SweepCell]) -> Vec<PageTable> {
    let stacks = || cells.iter().flat_map(|cell| &cell.document.stacks);
    let mut groups: Vec<(Vec<usize>, Vec<&str>)> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for flow in stacks().flat_map(|s| &s.flows).map(|f| f.flow.as_str()).filter(|flow| seen.insert(*flow)) {
        let has = |m: &usize| stacks().any(|s| figure(&s.flows, flow, METRICS[*m].0).is_some());
        let metrics: Vec<usize> = (0..METRICS.len()).filter(has).collect();
        match groups.iter_mut().find(|(of, _)| *of == metrics) {
            Some((_, flows)) => flows.push(flow),
            None => groups.push((metrics, vec![flow])),
        }
    }
    let varies: Vec<usize> = (0..axes.len()).filter(|i| axes[*i].values.len() > 1).collect();
    groups.into_iter().map(|(metrics, flows)| table(axes, cells, &varies, &metrics, &flows)).collect()
}

/// The table of flows that have these metrics.
fn table(axes: &[Axis], cells: &[SweepCell], varies: &[usize], metrics: &[usize], flows: &[&str]) -> PageTable {
    let of = |key: &str| {
        let of_stack =
            |s: &StackResult| flows.iter().filter_map(|flow| figure(&s.flows, flow, key)).collect::<Vec<_>>();
        cells.iter().flat_map(|cell| &cell.document.stacks).flat_map(of_stack).map(|(mean, _)| mean).collect::<Vec<_>>()
    };
    // A result that is the same for every run is a sentence of the page.
    let told = |m: &&usize| METRICS[**m].0 != "completed" || of("completed").iter().any(|share| *share < 1.0);
    let shown: Vec<(&str, &str, &str, Option<CommonUnit>)> = metrics
        .iter()
        .filter(told)
        .map(|m| {
            let (key, title, unit) = METRICS[*m];
            (key, title, unit, CommonUnit::of(of(key).into_iter(), unit))
        })
        .collect();
    let head = |(_, title, _, common): &(&str, &str, &str, Option<CommonUnit>)| {
        labelled(title, common.as_ref().map_or("", |common| &common.name))
    };
    let several = flows.len() > 1;
    let heads = varies.iter().map(|i| key_words(&axes[*i].key)).chain(["stack".to_owned()]);
    let heads = heads.chain(several.then(|| "flow".to_owned())).chain(shown.iter().map(head)).collect();
    let mut rows = Vec::new();
    for cell in cells {
        for stack in &cell.document.stacks {
            for flow in flows.iter().filter(|flow| stack.flows.iter().any(|f| f.flow == **flow)) {
                let say = |(key, _, unit, common): &(&str, &str, &str, Option<CommonUnit>)| {
                    figure(&stack.flows, flow, key).map_or("-".into(), |(mean, half)| match common {
                        Some(common) => common.number(mean, half),
                        None => human(mean, half, unit),
                    })
                };
                let values = varies.iter().map(|i| value_words(&cell.values[*i])).chain([stack.stack.clone()]);
                let values = values.chain(several.then(|| (*flow).to_owned()));
                rows.push(values.chain(shown.iter().map(say)).collect());
            }
        }
    }
    PageTable { title: format!("Means: {}", flows.join(", ")), heads, rows }
}
