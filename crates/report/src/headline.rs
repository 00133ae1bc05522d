//! What came out, in a sentence or two: which stack carried how much, how evenly, and what an echo felt.

use crate::summary::is_lost;
use crate::table::Table;
use core::cmp::Reverse;
use wavelane_measure::jain;
use wavelane_run::figures::FlowFigures;
use wavelane_run::{RunDocument, StackResult};
use wavelane_scenario::Scenario;

/// An echo is compared among stacks that carry at least this share of the most: one that carries nothing delays nothing.
const COMPARABLE: f64 = 0.5;

/// One stack, means over the seeds.
struct Outcome<'a> {
    stack: &'a str,
    /// Goodput of all bulk flows together.
    total: f64,
    /// Jain's index over the bulk flows.
    jain: Option<f64>,
    /// Median over the runs' echoes; infinite where it falls on a question that was never answered.
    echo_p95: Option<f64>,
}

/// The sentences at the head of a run's page; none where nothing was carried.
pub(crate) fn headline(document: &RunDocument, scenario: &Scenario) -> Vec<String> {
    // What proves nothing is compared with nothing.
    let mut doubts = String::new();
    let mut outcomes: Vec<Outcome<'_>> = Vec::new();
    for (stack, outcome) in document.stacks.iter().filter_map(|s| Some((s, outcome(s, document.repeat, scenario)?))) {
        match &stack.inconclusive {
            Some(why) => doubts += &format!("; {} proves nothing: {why}", stack.stack),
            None => outcomes.push(outcome),
        }
    }
    outcomes.sort_by_key(|o| Reverse(ordered(o.total)));
    let Some(most) = outcomes.first().map(|o| o.total) else {
        return doubts.strip_prefix("; ").map(|doubts| format!("{doubts}.")).into_iter().collect();
    };
    if most <= 0.0 {
        return vec![format!("Nothing was carried{doubts}.")];
    }
    let mut sentences = vec![format!(
        "Carried: {}{doubts}.",
        list(&outcomes, |i, o| {
            let share = if i == 0 { String::new() } else { format!(" ({:.2} of that)", o.total / most) };
            Some(format!("{} {}{share}", o.stack, rate(o.total)))
        })
    )];
    if outcomes.iter().any(|o| o.jain.is_some()) {
        let even = list(&outcomes, |_, o| Some(format!("{} {:.3}", o.stack, o.jain?)));
        sentences.push(format!("Shared (Jain's index, 1 is even): {even}."));
    }
    outcomes.retain(|o| o.total >= COMPARABLE * most);
    outcomes.sort_by_key(|o| ordered(o.echo_p95.unwrap_or(f64::INFINITY)));
    if outcomes.iter().any(|o| o.echo_p95.is_some()) {
        let felt = list(&outcomes, |_, o| {
            let p95 = o.echo_p95?;
            Some(if p95.is_finite() { format!("{} {p95:.0} ms", o.stack) } else { format!("{} lost", o.stack) })
        });
        sentences.push(format!("Echo meanwhile, 95th percentile: {felt}."));
    }
    sentences
}

/// What crossed each channel, for a run whose traffic was a program's.
pub(crate) fn crossed(document: &RunDocument, scenario: &Scenario) -> Option<Table> {
    if !scenario.flows.is_empty() {
        return None;
    }
    let mut table = Table::new(3, &["stack", "channel", "direction", "offered MB, before loss"]);
    for stack in &document.stacks {
        for way in &stack.ways {
            let offered = format!("{:.3}", way.offered_bytes as f64 / 1e6);
            table.push(vec![stack.stack.clone(), way.channel.clone(), way.way.clone(), offered]);
        }
    }
    // Radios have a table of their own.
    (!table.rows.is_empty()).then_some(table)
}

/// `None` if the stack has no bulk flow.
fn outcome<'a>(stack: &'a StackResult, seeds: u32, scenario: &Scenario) -> Option<Outcome<'a>> {
    let bulk = |name: &str| scenario.flow(name).is_some_and(|flow| flow.app.is_bulk());
    let rates: Vec<(u64, f64)> =
        stack.flows.iter().filter(|f| bulk(&f.flow)).filter_map(|f| Some((f.seed, f.goodput_bps?))).collect();
    if rates.is_empty() {
        return None;
    }
    let seeds = f64::from(seeds.max(1));
    let mut of_seeds: Vec<u64> = rates.iter().map(|(seed, _)| *seed).collect();
    of_seeds.dedup();
    let indices: Vec<f64> = of_seeds
        .iter()
        .filter_map(|seed| {
            let rates: Vec<f64> = rates.iter().filter(|(of, _)| of == seed).map(|(_, rate)| *rate).collect();
            if rates.len() > 1 { jain(&rates) } else { None }
        })
        .collect();
    let p95 = |f: &FlowFigures| if is_lost(f, 95) { Some(f64::INFINITY) } else { f.rtt_p95_ms };
    let mut echoes: Vec<f64> = stack.flows.iter().filter(|f| f.app == "echo").filter_map(p95).collect();
    echoes.sort_by(f64::total_cmp);
    Some(Outcome {
        stack: &stack.stack,
        total: rates.iter().map(|(_, rate)| rate).sum::<f64>() / seeds,
        jain: (!indices.is_empty()).then(|| indices.iter().sum::<f64>() / indices.len() as f64),
        echo_p95: echoes.get(echoes.len() / 2).copied(),
    })
}

fn list(outcomes: &[Outcome<'_>], words: impl Fn(usize, &Outcome<'_>) -> Option<String>) -> String {
    outcomes.iter().enumerate().filter_map(|(i, o)| words(i, o)).collect::<Vec<_>>().join(", ")
}

/// A finite number as a key for sorting: no figure is negative.
fn ordered(value: f64) -> u64 {
    value.max(0.0).to_bits()
}

fn rate(bps: f64) -> String {
    match bps {
        b if b >= 1e9 => format!("{:.2} Gbit/s", b / 1e9),
        b if b >= 1e6 => format!("{:.2} Mbit/s", b / 1e6),
        b => format!("{:.1} kbit/s", b / 1e3),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const SCENARIO: &str = r#"
title = "t"
duration = "1 s"
stacks = ["tcp-cubic", "wavelane"]
nodes = { c = "endpoint", a = "gateway", b = "gateway", s = "endpoint" }
[channels.air]
preset = "ethernet"
between = ["a", "b"]
[channels.near]
preset = "ethernet"
between = ["c", "a"]
[channels.far]
preset = "ethernet"
between = ["b", "s"]
[flows.one]
app = "download"
from = "c"
to = "s"
[flows.two]
app = "download"
from = "c"
to = "s"
[flows.echo]
app = "echo"
from = "c"
to = "s"
while = "one"
"#;

    fn document(figures: &[(&str, &[(&str, f64)])]) -> RunDocument {
        let flow = |(name, value): &(&str, f64)| {
            let app = if *name == "echo" { "echo" } else { "download" };
            let figures = serde_json::json!({
                "flow": name, "app": app, "seed": 1, "completed": true, "intact": null, "bytes": 1, "duration_ms": null,
                "goodput_bps": (app != "echo").then_some(value), "rtt_p50_ms": null, "rtt_p99_ms": null,
                "rtt_p95_ms": (app == "echo").then_some(value), "sent": null, "lost": null, "connect_ms": 0.0,
                "first_byte_ms": null, "last_byte_ms": null,
            });
            serde_json::from_value::<FlowFigures>(figures).unwrap()
        };
        let stacks: Vec<_> = figures
            .iter()
            .map(|(stack, flows)| {
                let flows: Vec<_> = flows.iter().map(flow).collect();
                serde_json::json!({
                    "stack": stack, "wire_bytes_per_delivered_byte": null, "repair_share": null, "inconclusive": null,
                    "flows": flows,
                })
            })
            .collect();
        let document = serde_json::json!({
            "format": "wavelane-run/1", "scenario": "t", "title": "t", "backend": "sim", "seed": 1, "repeat": 1,
            "verdict": "info", "omitted": [], "clauses": [], "stacks": stacks, "checks": [], "rerun": "", "record": "",
        });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn the_first_sentence_says_who_carried_how_much() {
        let scenario = Scenario::parse(SCENARIO, std::path::Path::new(".")).unwrap();
        let document = document(&[
            ("tcp-cubic", &[("one", 1.5e6), ("two", 0.5e6), ("echo", 80.0)]),
            ("wavelane", &[("one", 2e6), ("two", 2e6), ("echo", 90.4)]),
        ]);
        let sentences = headline(&document, &scenario);
        assert_eq!(
            sentences,
            [
                "Carried: wavelane 4.00 Mbit/s, tcp-cubic 2.00 Mbit/s (0.50 of that).",
                "Shared (Jain's index, 1 is even): wavelane 1.000, tcp-cubic 0.800.",
                "Echo meanwhile, 95th percentile: tcp-cubic 80 ms, wavelane 90 ms.",
            ]
        );
        assert!(crossed(&document, &scenario).is_none());
    }

    #[test]
    fn a_stack_that_proves_nothing_is_compared_with_nothing() {
        let scenario = Scenario::parse(SCENARIO, std::path::Path::new(".")).unwrap();
        let mut document = document(&[
            ("tcp-cubic", &[("one", 2e6), ("echo", 80.0)]),
            ("wavelane", &[("one", 3.25e6), ("echo", 9.0)]),
        ]);
        document.stacks[1].inconclusive = Some("the host is too busy".into());
        let sentences = headline(&document, &scenario);
        let carried = "Carried: tcp-cubic 2.00 Mbit/s; wavelane proves nothing: the host is too busy.";
        assert_eq!(sentences, [carried, "Echo meanwhile, 95th percentile: tcp-cubic 80 ms."]);
        document.stacks.remove(0);
        assert_eq!(headline(&document, &scenario), ["wavelane proves nothing: the host is too busy."]);
    }

    #[test]
    fn a_stack_that_carries_nothing_wins_no_echo() {
        let scenario = Scenario::parse(SCENARIO, std::path::Path::new(".")).unwrap();
        let one_idles =
            document(&[("tcp-cubic", &[("one", 0.0), ("echo", 8.0)]), ("wavelane", &[("one", 2e6), ("echo", 90.0)])]);
        assert_eq!(headline(&one_idles, &scenario)[1], "Echo meanwhile, 95th percentile: wavelane 90 ms.");
        let all_idle = document(&[("tcp-cubic", &[("one", 0.0)])]);
        assert_eq!(headline(&all_idle, &scenario), ["Nothing was carried."]);
    }
}
