//! The table that answers "which was faster, which was calmer", as text and as HTML.

use core::fmt::Write;
use wavelane_scenario::figures::{FlowFigures, mean_ci95};
use wavelane_scenario::{RunDocument, Scenario, StackResult};

/// Heads of the columns.
pub(crate) const HEADS: [&str; 11] = [
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
    "wire bytes per byte",
];

/// One line of the table.
pub(crate) struct Row {
    /// One text per column; the first is the stack.
    pub(crate) cells: Vec<String>,
}

/// Mean with half-width over the seeds, or `-`.
fn over_seeds(flows: &[&FlowFigures], decimals: usize, figure: impl Fn(&FlowFigures) -> Option<f64>) -> String {
    let values: Vec<f64> = flows.iter().filter_map(|f| figure(f)).collect();
    match mean_ci95(&values) {
        None => "-".into(),
        Some((mean, Some(half))) => format!("{mean:.decimals$} ±{half:.decimals$}"),
        Some((mean, None)) => format!("{mean:.decimals$}"),
    }
}

/// A row per stack and bulk flow, with the delays of the echo that belongs to it; echoes without one get their own.
pub(crate) fn rows(document: &RunDocument, scenario: &Scenario) -> Vec<Row> {
    let mut rows = Vec::new();
    for stack in &document.stacks {
        let of = |name: &str| stack.flows.iter().filter(|f| f.flow == name).collect::<Vec<_>>();
        for flow in scenario.flows.iter().filter(|f| f.app.is_bulk()) {
            let is_its_echo = |e: &&wavelane_scenario::Flow| {
                !e.app.is_bulk() && scenario.bulk_of(e).is_some_and(|b| b.name == flow.name)
            };
            let echo = scenario.flows.iter().find(is_its_echo).map(|e| of(&e.name)).unwrap_or_default();
            let rate = scenario.bottleneck(flow).map(|r| r.as_bps() as f64);
            rows.push(Row { cells: cells(stack, &flow.name, &of(&flow.name), &echo, rate) });
        }
        let is_echo = |f: &&wavelane_scenario::Flow| f.app.word() == "echo";
        for echo in scenario.flows.iter().filter(is_echo).filter(|f| scenario.bulk_of(f).is_none()) {
            rows.push(Row { cells: cells(stack, &echo.name, &[], &of(&echo.name), None) });
        }
    }
    rows
}

fn cells(
    stack: &StackResult,
    flow: &str,
    bulk: &[&FlowFigures],
    echo: &[&FlowFigures],
    rate: Option<f64>,
) -> Vec<String> {
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
    let share = |f: &FlowFigures| Some(100.0 * f.goodput_bps? / rate?);
    let percent = over_seeds(bulk, 1, share);
    vec![
        stack.stack.clone(),
        flow.to_owned(),
        completed,
        over_seeds(bulk, 2, |f| f.goodput_bps.map(|b| b / 1e6)),
        if percent == "-" { percent } else { format!("{percent} %") },
        over_seeds(bulk, 1, |f| f.duration_ms.map(|d| d / 1e3)),
        over_seeds(echo, 0, |f| f.rtt_p50_ms),
        over_seeds(echo, 0, |f| f.rtt_p95_ms),
        over_seeds(echo, 0, |f| f.rtt_p99_ms),
        if echo.is_empty() { "-".into() } else { format!("{lost} of {sent}") },
        stack.wire_bytes_per_delivered_byte.map_or("-".into(), |w| format!("{w:.3}")),
    ]
}

/// The table, the omitted stacks and the checks as text for a terminal.
pub fn summary_text(document: &RunDocument, scenario: &Scenario) -> String {
    let rows = rows(document, scenario);
    let width = |column: usize| {
        let cells = rows.iter().map(|r| r.cells[column].chars().count());
        cells.chain([HEADS[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut out = String::new();
    let mut line = |cells: Vec<&str>| {
        let mut text = String::new();
        for (i, cell) in cells.iter().enumerate() {
            // Words stand left, numbers right.
            let width = widths[i];
            let _ = if i < 3 { write!(text, "{cell:<width$}  ") } else { write!(text, "{cell:>width$}  ") };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(HEADS.to_vec());
    rows.iter().for_each(|r| line(r.cells.iter().map(String::as_str).collect()));
    for s in &document.stacks {
        let Some(machine) = s.machine_s_per_gb else { continue };
        let programs = s.cpu_s_per_gb.map(|cpu| format!(", {cpu:.1} s of it in its programs")).unwrap_or_default();
        let _ = writeln!(out, "cost of {}: {machine:.1} s of processor time per GB delivered{programs}", s.stack);
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
