//! User-perceived delays and quality: pages, calls and single exchanges.

use crate::radio::over;
use crate::table::Table;
use wavelane_run::figures::{FetchFigures, FlowFigures, VoiceFigures, WebFigures};
use wavelane_run::{RunDocument, StackResult};

/// The flows of a stack that have a figure of this kind, with it by seed, in order of first appearance.
fn of_kind<'a, T>(
    stack: &'a StackResult,
    figures: impl Fn(&'a FlowFigures) -> Option<&'a T>,
) -> Vec<(&'a str, Vec<&'a T>)> {
    let mut found: Vec<(&str, Vec<&T>)> = Vec::new();
    for (name, one) in stack.flows.iter().filter_map(|f| Some((f.flow.as_str(), figures(f)?))) {
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, seeds)) => seeds.push(one),
            None => found.push((name, vec![one])),
        }
    }
    found
}

fn pages(seeds: &[&WebFigures]) -> Vec<String> {
    let sum = |of: fn(&WebFigures) -> u64| seeds.iter().map(|w| of(w)).sum::<u64>().to_string();
    let ms = |of: fn(&WebFigures) -> Option<f64>| over(seeds, 0, of);
    vec![
        sum(|w| w.pages),
        ms(|w| w.page_p50_ms),
        ms(|w| w.page_p95_ms),
        sum(|w| w.objects),
        sum(|w| w.unfinished),
        ms(|w| w.response_mean_ms),
        ms(|w| w.response_p95_ms),
    ]
}

fn calls(seeds: &[&VoiceFigures]) -> Vec<String> {
    let share = |part: fn(&VoiceFigures) -> u64| {
        over(seeds, 2, |v| (v.sent > 0).then(|| 100.0 * part(v) as f64 / v.sent as f64))
    };
    vec![
        seeds.iter().map(|v| v.sent).sum::<u64>().to_string(),
        share(|v| v.lost),
        share(|v| v.late),
        over(seeds, 1, |v| v.delay_p50_ms),
        over(seeds, 1, |v| v.delay_p95_ms),
        over(seeds, 2, |v| v.jitter_ms),
        over(seeds, 2, |v| v.mos),
    ]
}

fn exchanges(seeds: &[(&FlowFigures, &FetchFigures)]) -> Vec<String> {
    let all: Vec<&(&FlowFigures, &FetchFigures)> = seeds.iter().collect();
    let sum = |of: fn(&FlowFigures) -> Option<u64>| seeds.iter().filter_map(|(f, _)| of(f)).sum::<u64>().to_string();
    let ms = |of: fn(&FetchFigures) -> f64| over(&all, 0, |(_, fetch)| Some(of(fetch)));
    vec![
        sum(|f| f.sent),
        sum(|f| f.lost),
        ms(|f| f.first_byte_p50_ms),
        ms(|f| f.first_byte_mean_ms),
        ms(|f| f.total_p50_ms),
        ms(|f| f.total_mean_ms),
    ]
}

/// The non-empty tables of pages, calls and fetches, with a title each.
pub(crate) fn people_tables(document: &RunDocument) -> Vec<(&'static str, Table)> {
    let mut web = Table::new(
        2,
        &[
            "stack",
            "flow",
            "pages",
            "page p50 ms",
            "page p95 ms",
            "objects",
            "unfinished",
            "object mean ms",
            "object p95 ms",
        ],
    );
    let mut voice = Table::new(
        2,
        &["stack", "flow", "sent", "lost %", "late %", "delay p50 ms", "delay p95 ms", "jitter ms", "MOS"],
    );
    let mut fetch = Table::new(
        2,
        &[
            "stack",
            "flow",
            "fetches",
            "unfinished",
            "first byte p50 ms",
            "first byte mean ms",
            "whole p50 ms",
            "whole mean ms",
        ],
    );
    for stack in &document.stacks {
        let head = |flow: &str| [stack.stack.clone(), flow.to_owned()];
        for (flow, seeds) in of_kind(stack, |f| f.web.as_ref()) {
            web.push(head(flow).into_iter().chain(pages(&seeds)).collect());
        }
        for (flow, seeds) in of_kind(stack, |f| f.voice.as_ref()) {
            voice.push(head(flow).into_iter().chain(calls(&seeds)).collect());
        }
        for (flow, seeds) in of_kind(stack, |f| f.fetch.as_ref().map(|_| f)) {
            let seeds: Vec<_> = seeds.into_iter().filter_map(|f| Some((f, f.fetch.as_ref()?))).collect();
            fetch.push(head(flow).into_iter().chain(exchanges(&seeds)).collect());
        }
    }
    [("Pages", web), ("Calls", voice), ("Fetches", fetch)].into_iter().filter(|(_, t)| !t.rows.is_empty()).collect()
}
