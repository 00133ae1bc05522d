//! The table of throughput and delay per stack, as text and as HTML.

use crate::line::line_table;
use crate::people::people_tables;
use crate::radio::radio_tables;
use crate::table::Table;
use crate::units::with_half;
use core::fmt::Write;
use wavelane_measure::mean_ci95;
use wavelane_run::figures::FlowFigures;
use wavelane_run::{RunDocument, StackResult};
use wavelane_scenario::{App, Flow, Scenario};

/// Column heads of the table of flows.
const HEADS: [&str; 11] = [
    "stack",
    "flow",
    "completed",
    "goodput Mbit/s",
    "share of link",
    "duration s",
    "echo p50 ms",
    "echo p95 ms",
    "echo p99 ms",
    "echo lost",
    "link bytes per byte",
];

/// Mean with half-width over the seeds, or `-`.
fn over_seeds(flows: &[&FlowFigures], decimals: usize, figure: impl Fn(&FlowFigures) -> Option<f64>) -> String {
    let values: Vec<f64> = flows.iter().filter_map(|f| figure(f)).collect();
    match mean_ci95(&values) {
        None => "-".into(),
        Some((mean, half)) => with_half(mean, half, decimals),
    }
}

/// Whether a percentile of a flow's delays falls on a question that was never answered. The figure is then a floor: at least 5 s.
pub(crate) fn is_lost(figures: &FlowFigures, percent: u64) -> bool {
    let (sent, lost) = (figures.sent.unwrap_or(0), figures.lost.unwrap_or(0));
    sent > 0 && (sent.saturating_mul(percent)).div_ceil(100).max(1) > sent - lost.min(sent)
}

/// A delay over the seeds, or in how many of them it falls on a lost question.
fn delay(echo: &[&FlowFigures], decimals: usize, percent: u64, figure: fn(&FlowFigures) -> Option<f64>) -> String {
    match (echo.iter().filter(|f| is_lost(f, percent)).count(), echo.len()) {
        (0, _) => over_seeds(echo, decimals, figure),
        (1, 1) => "lost".into(),
        (lost, all) => format!("lost in {lost} of {all}"),
    }
}

/// One row per stack and bulk flow, with the delays of the one echo that belongs to it, which it names too; other echoes and pings have their own rows, and so
/// have keystrokes.
pub(crate) fn flows(document: &RunDocument, scenario: &Scenario) -> Table {
    let mut table = Table::new(3, &HEADS);
    let asks = |flow: &&Flow| matches!(flow.app, App::Echo { .. } | App::Ping { .. });
    // Keystrokes come at random times, so they never share a row.
    let types = |flow: &&Flow| matches!(flow.app, App::Telnet { .. });
    // The echo that shares a bulk flow's row.
    let echo_of = |bulk: &Flow| {
        let mut of =
            scenario.flows.iter().filter(asks).filter(|e| scenario.bulk_of(e).is_some_and(|b| b.name == bulk.name));
        of.next().filter(|_| of.next().is_none())
    };
    // All rates in a column have as many decimals as the smallest needs.
    let bulk = |f: &&FlowFigures| scenario.flow(&f.flow).is_some_and(|flow| flow.app.is_bulk());
    let all: Vec<&FlowFigures> = document.stacks.iter().flat_map(|s| &s.flows).filter(bulk).collect();
    let decimals = decimals_of_rates(&all);
    for stack in &document.stacks {
        let of = |name: &str| stack.flows.iter().filter(|f| f.flow == name).collect::<Vec<_>>();
        for flow in scenario.flows.iter().filter(|f| f.app.is_bulk()) {
            let (name, echo) = match echo_of(flow) {
                Some(echo) => (format!("{}, {}", flow.name, echo.name), of(&echo.name)),
                None => (flow.name.clone(), Vec::new()),
            };
            table.push(cells(stack, &name, &of(&flow.name), &echo, decimals));
        }
        let alone = |e: &&Flow| scenario.bulk_of(e).and_then(echo_of).is_none_or(|shown| shown.name != e.name);
        for echo in scenario.flows.iter().filter(|f| (asks(f) && alone(f)) || types(f)) {
            table.push(cells(stack, &echo.name, &[], &of(&echo.name), decimals));
        }
    }
    table.without_empty();
    table
}

fn cells(stack: &StackResult, flow: &str, bulk: &[&FlowFigures], echo: &[&FlowFigures], rates: usize) -> Vec<String> {
    let done = bulk.iter().filter(|f| f.completed).count();
    let damaged = bulk.iter().any(|f| f.intact == Some(false));
    let completed = match (done, bulk.len()) {
        _ if damaged => "damaged".into(),
        (_, 0) => "-".into(),
        (1, 1) => "yes".into(),
        (0, 1) => "no".into(),
        (done, all) => format!("{done} of {all}"),
    };
    let (sent, lost) = echo.iter().fold((0, 0), |(s, l), f| (s + f.sent.unwrap_or(0), l + f.lost.unwrap_or(0)));
    // A radio cell answers within a millisecond.
    let decimals = if echo.iter().any(|f| f.rtt_p50_ms.is_some_and(|ms| ms < 10.0)) { 2 } else { 0 };
    let percent = over_seeds(bulk, 1, |f| f.link_share.map(|share| 100.0 * share));
    vec![
        stack.stack.clone(),
        flow.to_owned(),
        completed,
        over_seeds(bulk, rates, |f| f.goodput_bps.map(|b| b / 1e6)),
        if percent == "-" { percent } else { format!("{percent} %") },
        over_seeds(bulk, 1, |f| f.duration_ms.map(|d| d / 1e3)),
        delay(echo, decimals, 50, |f| f.rtt_p50_ms),
        delay(echo, decimals, 95, |f| f.rtt_p95_ms),
        delay(echo, decimals, 99, |f| f.rtt_p99_ms),
        if echo.is_empty() { "-".into() } else { format!("{lost} of {sent}") },
        stack.wire_bytes_per_delivered_byte.map_or("-".into(), |w| format!("{w:.3}")),
    ]
}

/// Two decimals of a Mbit/s, and three digits for smaller values.
fn decimals_of_rates(bulk: &[&FlowFigures]) -> usize {
    let least = bulk.iter().filter_map(|f| f.goodput_bps).filter(|bps| *bps > 0.0).fold(f64::INFINITY, f64::min);
    match least / 1e6 {
        m if m >= 1.0 => 2,
        m if m >= 0.1 => 3,
        m if m >= 0.01 => 4,
        _ => 5,
    }
}

/// The machine's cost per delivered gigabyte, one line per stack for which it is known.
pub(crate) fn costs(document: &RunDocument) -> Vec<String> {
    let cost = |stack: &StackResult| {
        let machine = stack.machine_s_per_gb?;
        let programs = stack.cpu_s_per_gb.map(|cpu| format!(", {cpu:.1} s of it in its programs")).unwrap_or_default();
        Some(format!(
            "cost of {}: {machine:.1} s of the whole machine's processor time per GB delivered{programs}",
            stack.stack
        ))
    };
    document.stacks.iter().filter_map(cost).collect()
}

/// The tables, the costs, the omitted stacks and the checks as text for a terminal.
pub fn summary_text(document: &RunDocument, scenario: &Scenario) -> String {
    let mut out = flows(document, scenario).text();
    for cost in costs(document) {
        let _ = writeln!(out, "{cost}");
    }
    for (_, table) in people_tables(document).into_iter().chain(radio_tables(document)).chain(line_table(document)) {
        let _ = write!(out, "\n{}", table.text());
    }
    for o in &document.omitted {
        let _ = writeln!(out, "omitted {}: {}", o.stack, o.why);
    }
    for s in document.stacks.iter().filter(|s| s.inconclusive.is_some()) {
        let _ = writeln!(out, "inconclusive {}: {}", s.stack, s.inconclusive.as_deref().unwrap_or_default());
    }
    if !document.checks.is_empty() {
        out.push('\n');
    }
    for c in &document.checks {
        let _ = writeln!(out, "{:<12} {}: {}", c.verdict.word(), c.check, c.why);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_equal_values_has_no_interval() {
        let flow = |ms| FlowFigures { rtt_p50_ms: Some(ms), ..FlowFigures::default() };
        let shown = |all: &[f64]| {
            let flows: Vec<FlowFigures> = all.iter().map(|ms| flow(*ms)).collect();
            over_seeds(&flows.iter().collect::<Vec<_>>(), 0, |f| f.rtt_p50_ms)
        };
        assert_eq!(shown(&[101.0, 101.0, 101.0]), "101");
        // t(0.975, 1) = 12.706: half of 0.01 either way is 0.127.
        assert_eq!(shown(&[101.0, 101.02]), "101 ±0.1");
        assert_eq!(shown(&[100.0, 102.0]), "101 ±13");
    }

    #[test]
    fn a_percentile_that_falls_on_a_lost_question_is_no_time() {
        let flow = |lost| FlowFigures {
            sent: Some(100),
            lost: Some(lost),
            rtt_p95_ms: Some(if lost > 5 { 5_000.0 } else { 80.0 }),
            ..FlowFigures::default()
        };
        let shown = |all: &[u64]| {
            let flows: Vec<FlowFigures> = all.iter().map(|lost| flow(*lost)).collect();
            delay(&flows.iter().collect::<Vec<_>>(), 0, 95, |f| f.rtt_p95_ms)
        };
        assert_eq!(shown(&[5]), "80");
        assert_eq!(shown(&[6]), "lost");
        assert_eq!(shown(&[5, 100]), "lost in 1 of 2");
    }

    #[test]
    fn small_rates_have_three_digits() {
        for (bps, text) in [(18.19e6, "18.19"), (475_300.0, "0.475"), (32_260.0, "0.0323"), (1_150.0, "0.00115")] {
            let flow = FlowFigures { goodput_bps: Some(bps), ..FlowFigures::default() };
            assert_eq!(format!("{:.*}", decimals_of_rates(&[&flow]), bps / 1e6), text);
        }
    }
}
