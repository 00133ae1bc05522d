//! The page of a sweep: a picture per metric over the axis that varies, with intervals.

use crate::axis::Axis as Scale;
use crate::drawn::Drawn;
use crate::page::{First, Page, PageTable, write_page};
use crate::plot::{COLOURS, Curve, DASHES, Look, Plot, style_of};
use crate::units::{human, unit_for};
use crate::words::{key_words, value_words};
use crate::{ReportError, raster};
use std::path::{Path, PathBuf};
use wavelane_measure::mean_ci95;
use wavelane_run::{SweepCell, Verdict, flow_metrics};
use wavelane_scenario::{Axis, in_base_units};

/// Most curves of one picture; the table has what is left out.
const CURVES_MAX: usize = 20;
/// Most rows of the page's table.
const ROWS_MAX: usize = 2_000;
/// Most inconclusive combinations that are named.
const DOUBTS_MAX: usize = 6;
/// A logarithmic axis from this ratio of the largest to the least value on.
const LOG_FROM: f64 = 20.0;

/// Metrics that have a picture: key, title, unit.
const METRICS: [(&str, &str, &str); 13] = [
    ("goodput_bps", "Goodput", "bit/s"),
    ("link_share", "Share of the link", ""),
    ("completed", "Share of runs whose transfer completed", ""),
    ("duration_ms", "Time of the transfer, where it completed", "ms"),
    ("rtt_p50_ms", "Echo delay, median", "ms"),
    ("rtt_p95_ms", "Echo delay, 95th percentile", "ms"),
    ("rtt_p99_ms", "Echo delay, 99th percentile", "ms"),
    ("age_p95_ms", "Age of the bytes, 95th percentile", "ms"),
    ("fetch.total_mean_ms", "Time of a fetch, mean", "ms"),
    ("web.response_mean_ms", "Time of an object, mean", "ms"),
    ("web.page_p50_ms", "Time of a page, median", "ms"),
    ("voice.loss", "Share of a call lost or late", ""),
    ("voice.mos", "Score of a call (MOS)", ""),
];

/// Figures that are said in words, and of how many curves at most.
const SAID: [&str; 4] = ["goodput_bps", "rtt_p95_ms", "web.response_mean_ms", "voice.loss"];
const SAID_CURVES_MAX: usize = 6;

/// A mean over the seeds of one cell, with its half-width.
struct Point {
    /// Its stack, and the flow and values that tell it from other curves of that stack.
    stack: String,
    rest: String,
    curve: String,
    x: f64,
    mean: f64,
    half: Option<f64>,
}

/// The axis along which pictures are drawn: the first of numbers of one unit with two values or more.
fn along(axes: &[Axis]) -> Option<(usize, &'static str)> {
    let unit_of = |axis: &Axis| -> Option<&'static str> {
        let units: Option<Vec<&str>> = axis.values.iter().map(|v| Some(in_base_units(v)?.1)).collect();
        let units = units.filter(|units| units.len() >= 2)?;
        units.iter().all(|u| *u == units[0]).then(|| in_base_units(&axis.values[0]).map_or("", |(_, unit)| unit))
    };
    axes.iter().enumerate().find_map(|(number, axis)| Some((number, unit_of(axis)?)))
}

/// Whether a flow of this application has the metric. Every flow completes; whether it did is asked of transfers.
fn concerns(metric: &str, app: &str) -> bool {
    metric != "completed" || matches!(app, "download" | "upload" | "quic")
}

/// The looks of curves by their names: a colour for each stack and a dash for what else tells curves apart, as far as there are enough.
fn looks<'a>(points: &'a [Point], order: &[&'a str]) -> Vec<(Look, &'a str)> {
    fn distinct<'a>(of: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let mut found = Vec::new();
        of.for_each(|one| {
            if !found.contains(&one) {
                found.push(one);
            }
        });
        found
    }
    let stacks = distinct(points.iter().map(|p| p.stack.as_str()));
    let rests = distinct(points.iter().map(|p| p.rest.as_str()));
    let enough = stacks.len() <= COLOURS.len() && rests.len() <= DASHES.len();
    let of = |name: &&'a str| {
        let point = points.iter().find(|p| p.curve == **name)?;
        let colour = Look::of(style_of(stacks.iter().copied(), &point.stack));
        let dash = rests.iter().position(|rest| *rest == point.rest).unwrap_or(0);
        let alone = Look::of(style_of(order.iter().copied(), name));
        Some((if enough { colour.with_dash(dash) } else { alone }, *name))
    };
    order.iter().filter_map(of).collect()
}

/// A metric of every flow, of every cell, along one axis.
fn points(axes: &[Axis], cells: &[SweepCell], along: usize, metric: &str) -> Vec<Point> {
    let several_flows = {
        let mut flows: Vec<&str> = cells
            .iter()
            .flat_map(|c| &c.document.stacks)
            .flat_map(|s| &s.flows)
            .filter(|f| concerns(metric, &f.app) && flow_metrics(f).iter().any(|(key, _)| key == metric))
            .map(|f| f.flow.as_str())
            .collect();
        flows.sort_unstable();
        flows.dedup();
        flows.len() > 1
    };
    let mut all = Vec::new();
    for cell in cells {
        let Some((x, _)) = in_base_units(&cell.values[along]) else { continue };
        let others = axes
            .iter()
            .zip(&cell.values)
            .enumerate()
            .filter(|(number, (axis, _))| *number != along && axis.values.len() > 1);
        let others: String =
            others.map(|(_, (axis, value))| format!(", {} {}", key_words(&axis.key), value_words(value))).collect();
        for stack in &cell.document.stacks {
            let of_kind = stack.flows.iter().filter(|f| concerns(metric, &f.app));
            let mut flows: Vec<&str> = of_kind.map(|f| f.flow.as_str()).collect();
            let mut seen = std::collections::BTreeSet::new();
            flows.retain(|flow| seen.insert(*flow));
            for flow in flows {
                let of_flow = stack.flows.iter().filter(|f| f.flow == flow);
                let values: Vec<f64> = of_flow
                    .filter_map(|f| flow_metrics(f).into_iter().find(|(key, _)| key == metric).map(|(_, value)| value))
                    .collect();
                let Some((mean, half)) = mean_ci95(&values) else { continue };
                let flow = if several_flows { format!(" {flow}") } else { String::new() };
                let rest = format!("{flow}{others}");
                let curve = format!("{}{rest}", stack.stack);
                all.push(Point { stack: stack.stack.clone(), rest, curve, x, mean, half });
            }
        }
    }
    all
}

/// The words of a unit in a key, and what it is on an axis.
fn unit_words(ending: &str) -> &'static str {
    match ending {
        "bps" => "bit/s",
        "ms" => "ms",
        "bytes" => "B",
        _ => "",
    }
}

fn labelled(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name} ({unit})") }
}

/// The picture of a metric; `None` without values. With how many curves were left out.
fn plot(
    axes: &[Axis],
    (number, ending): (usize, &str),
    (_, title, unit): (&str, &str, &str),
    points: &[Point],
    order: &[&str],
) -> Option<(Plot, usize)> {
    let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(0.0, f64::max);
    // Every picture has the whole axis, also where a metric lacks values at its ends.
    let all_x: Vec<f64> = axes[number].values.iter().filter_map(|v| Some(in_base_units(v)?.0)).collect();
    let (least_x, most_x) = all_x.iter().fold((f64::INFINITY, 0.0), |(l, m), x| (x.min(l), x.max(m)));
    let ((x_by, x_unit), (y_by, y_unit)) = (unit_for(most_x, unit_words(ending)), unit_for(most(|p| p.mean), unit));
    let mut names = looks(points, order);
    let left_out = names.len().saturating_sub(CURVES_MAX);
    names.truncate(CURVES_MAX);
    let curve = |&(look, name): &(Look, &str)| {
        let mut own: Vec<&Point> = points.iter().filter(|p| p.curve == name).collect();
        own.sort_by(|a, b| a.x.total_cmp(&b.x));
        let line: Vec<(f64, f64)> = own.iter().map(|p| (p.x / x_by, p.mean / y_by)).collect();
        let end = |p: &&Point, sign: f64| (p.x / x_by, ((p.mean + sign * p.half.unwrap_or(0.0)) / y_by).max(0.0));
        let spread = own.iter().any(|p| p.half.is_some()) && own.len() > 1;
        let band = own.iter().map(|p| end(p, 1.0)).chain(own.iter().rev().map(|p| end(p, -1.0)));
        Curve {
            name: name.to_owned(),
            look,
            // The line, and a dot at each value that was measured.
            pieces: core::iter::once(&line).cloned().chain(line.iter().map(|point| vec![*point])).collect(),
            band: if spread { band.collect() } else { Vec::new() },
            marks: Vec::new(),
        }
    };
    let curves: Vec<Curve> = names.iter().map(curve).collect();
    let top = curves.iter().flat_map(|c| c.pieces.iter().flatten().chain(&c.band)).map(|p| p.1).fold(0.0, f64::max);
    let xs = || all_x.iter().map(|x| x / x_by);
    let log = least_x > 0.0 && most_x / least_x >= LOG_FROM;
    let plot = Plot {
        title: format!("{title} over {}", key_words(&axes[number].key)),
        x_label: labelled(&key_words(&axes[number].key), &x_unit),
        y_label: if y_unit.is_empty() { title.to_owned() } else { y_unit },
        x: if log { Scale::logarithmic(xs()) } else { Scale::exact(xs().fold(0.0, f64::max)) },
        y: Scale::linear(top * 1.04),
        curves,
        level: None,
        points: false,
        bars: false,
        marks_mean: "",
    };
    (!points.is_empty()).then_some((plot, left_out))
}

/// What came out: the first figures of each curve at both ends of the axis.
fn ends(all: &[Vec<Point>], order: &[&str], ending: &str) -> Vec<String> {
    let mut said = Vec::new();
    let figures = METRICS.iter().zip(all).filter(|((key, ..), points)| SAID.contains(key) && !points.is_empty());
    for ((_, title, unit), points) in figures {
        let at = |p: &Point| format!("{} at {}", human(p.mean, p.half, unit), human(p.x, None, unit_words(ending)));
        let of = |name: &&str| {
            let own = || points.iter().filter(|p| p.curve == **name);
            let (first, last) = (own().min_by(|a, b| a.x.total_cmp(&b.x))?, own().max_by(|a, b| a.x.total_cmp(&b.x))?);
            Some(format!("{name}: {}, {}", at(first), at(last)))
        };
        let curves: Vec<String> = order.iter().filter_map(of).collect();
        let more = curves.len().saturating_sub(SAID_CURVES_MAX);
        let rest = if more > 0 { format!("; {more} more in the table below") } else { String::new() };
        said.push(format!("{title}: {}{rest}.", curves[..curves.len() - more].join("; ")));
    }
    said
}

/// Means of every cell, a row per stack and flow.
fn table(axes: &[Axis], cells: &[SweepCell]) -> (Vec<String>, Vec<Vec<String>>) {
    let shown = METRICS.iter().filter(|(key, ..)| {
        let mut flows = cells.iter().flat_map(|c| &c.document.stacks).flat_map(|s| &s.flows);
        flows.any(|f| flow_metrics(f).iter().any(|(k, _)| k == key))
    });
    let shown: Vec<_> = shown.collect();
    let heads = axes.iter().map(|a| key_words(&a.key)).chain(["stack".into(), "flow".into()]);
    let heads = heads.chain(shown.iter().map(|(_, title, _)| (*title).to_owned())).collect();
    let mut rows = Vec::new();
    for cell in cells {
        for stack in &cell.document.stacks {
            let mut flows = std::collections::BTreeSet::new();
            for flow in stack.flows.iter().filter(|f| flows.insert(f.flow.clone())) {
                let of_flow = || stack.flows.iter().filter(|f| f.flow == flow.flow);
                let figure = |(key, _, unit): &&(&str, &str, &str)| {
                    let values: Vec<f64> = of_flow()
                        .filter_map(|f| flow_metrics(f).into_iter().find(|(k, _)| k == key).map(|(_, value)| value))
                        .collect();
                    mean_ci95(&values).map_or("-".into(), |(mean, half)| human(mean, half, unit))
                };
                let head = cell.values.iter().map(|v| value_words(v)).chain([stack.stack.clone(), flow.flow.clone()]);
                rows.push(head.chain(shown.iter().map(figure)).collect());
            }
        }
    }
    (heads, rows)
}

fn words(values: &[String], between: &str) -> String {
    values.iter().map(|value| value_words(value)).collect::<Vec<_>>().join(between)
}

/// Which combinations prove nothing, and in how many a check of the scenario fails.
pub fn doubts(cells: &[SweepCell]) -> Vec<String> {
    let of = |verdict: Verdict| cells.iter().filter(move |cell| cell.document.verdict == verdict);
    let mut said = Vec::new();
    let late: Vec<String> = of(Verdict::Inconclusive).map(|cell| words(&cell.values, ", ")).collect();
    if !late.is_empty() {
        let shown = late[..late.len().min(DOUBTS_MAX)].join("; ");
        let more =
            if late.len() > DOUBTS_MAX { format!("; and {} more", late.len() - DOUBTS_MAX) } else { String::new() };
        said.push(format!("{} of {} combinations are inconclusive: {shown}{more}.", late.len(), cells.len()));
    }
    match of(Verdict::Fail).count() {
        0 => {}
        n => said.push(format!("The scenario's checks fail in {n} of {} combinations.", cells.len())),
    }
    said
}

/// Writes `report.html` and a picture per metric into the sweep's directory; returns the page's path.
pub fn render_sweep(
    folder: &Path,
    title: &str,
    axes: &[Axis],
    cells: &[SweepCell],
    rerun: &str,
) -> Result<PathBuf, ReportError> {
    let rasteriser = raster::Rasteriser::new();
    let (mut drawn, mut left_out, mut came_out) = (Vec::new(), 0, Vec::new());
    if let Some(found) = along(axes) {
        let points = METRICS.map(|(key, ..)| points(axes, cells, found.0, key));
        let mut order: Vec<&str> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        let names = points.iter().flatten().map(|p| p.curve.as_str());
        order.extend(names.filter(|name| seen.insert(*name)));
        came_out = ends(&points, &order, found.1);
        for (metric, points) in METRICS.into_iter().zip(&points) {
            let Some((plot, more)) = plot(axes, found, metric, points, &order) else { continue };
            left_out = left_out.max(more);
            let name = metric.0.replace('.', "_");
            drawn.push(Drawn::new(|layout| plot.svg(layout)).write(&folder.join("plots"), &name, &rasteriser)?);
        }
    }
    let seeds = cells.first().map_or(0, |c| c.document.repeat);
    let mut sentences = came_out;
    sentences.extend(doubts(cells));
    sentences.extend(axes.iter().map(|a| format!("{} ({}): {}", key_words(&a.key), a.key, words(&a.values, "; "))));
    sentences.push(match seeds {
        1 => "One seed of each: no intervals.".to_owned(),
        n => format!("Lines are means over {n} seeds, areas their 95 % intervals."),
    });
    if axes.iter().filter(|axis| axis.values.len() > 1).count() > 1 && !drawn.is_empty() {
        sentences.push("In the pictures a colour is a stack, and the dash tells the other values apart, where colours and dashes suffice.".into());
    }
    if drawn.is_empty() {
        sentences.push("No axis is of numbers, so there are no pictures.".into());
    }
    if left_out > 0 {
        sentences.push(format!("{left_out} more curves stand in sweep.csv alone."));
    }
    let (heads, mut rows) = table(axes, cells);
    if rows.len() > ROWS_MAX {
        sentences.push(format!("{} more rows stand in sweep.csv alone.", rows.len() - ROWS_MAX));
        rows.truncate(ROWS_MAX);
    }
    let page = Page {
        title: format!("Sweep: {title}"),
        headline: format!("{} combinations", cells.len()),
        sentences,
        charts: Vec::new(),
        tables: vec![PageTable { title: "Means".into(), heads, rows }],
        rerun: rerun.to_owned(),
    };
    write_page(folder, &page, &drawn, First::Pictures)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn point(stack: &str, rest: &str) -> Point {
        let curve = format!("{stack}{rest}");
        Point { stack: stack.into(), rest: rest.into(), curve, x: 1.0, mean: 1.0, half: None }
    }

    #[test]
    fn a_colour_is_a_stack_and_a_dash_is_a_value() {
        let rests = [", air forward delay 10 ms", ", air forward delay 20 ms"];
        let points: Vec<Point> =
            ["tcp-bbr", "wavelane"].iter().flat_map(|stack| rests.map(|rest| point(stack, rest))).collect();
        let order: Vec<&str> = points.iter().map(|p| p.curve.as_str()).collect();
        let found: Vec<Look> = looks(&points, &order).into_iter().map(|(look, _)| look).collect();
        assert_eq!(found, [(1, 0), (1, 1), (0, 0), (0, 1)].map(|(colour, dash)| Look::of(colour).with_dash(dash)));
        // More values than dashes: every curve by itself.
        let many: Vec<Point> = (0..6).map(|n| point("wavelane", &format!(", {n} ms"))).collect();
        let order: Vec<&str> = many.iter().map(|p| p.curve.as_str()).collect();
        let found = looks(&many, &order);
        assert!((1..6).all(|i| found[i].0.colour != found[0].0.colour), "{found:?}");
    }

    #[test]
    fn areas_lie_below_all_lines_and_axes_have_words() {
        let axes = [Axis::read("air.forward.rate=5 Mbit/s,10 Mbit/s").unwrap()];
        let at = |stack: usize, x: f64| Point { x, half: Some(0.1), ..point(&format!("tcp-{stack}"), "") };
        let points: Vec<Point> = (0..6).flat_map(|stack| [at(stack, 5e6), at(stack, 10e6)]).collect();
        let names: Vec<String> = (0..6).map(|stack| format!("tcp-{stack}")).collect();
        let order: Vec<&str> = names.iter().map(String::as_str).collect();
        let (plot, _) = plot(&axes, (0, "bps"), METRICS[0], &points, &order).unwrap();
        let svg = plot.svg(crate::plot::WIDE);
        assert!(svg.rfind("<polygon class").unwrap() < svg.find("<polyline").unwrap());
        // Six areas are half as opaque as up to three.
        assert_eq!(svg.matches("fill-opacity=\"0.08\"").count(), 6);
        assert!(svg.contains(">air forward rate (Mbit/s)<") && svg.contains(">Goodput over air forward rate<"));
    }

    #[test]
    fn only_transfers_are_asked_whether_they_completed() {
        assert!(concerns("completed", "download") && !concerns("completed", "echo") && concerns("rtt_p50_ms", "echo"));
    }
}
