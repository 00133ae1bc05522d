//! The page of a sweep: a picture per metric over the axis that varies, with intervals.

use crate::axis::Axis as Scale;
use crate::drawn::Drawn;
use crate::page::{First, Page, write_page};
use crate::plot::{Curve, Look, Plot};
use crate::sweep_looks::{Looks, Point, Points, distinct, looks, stacks_of};
use crate::sweep_tables::tables;
use crate::units::{human, unit_for};
use crate::words::{key_words, value_words};
use crate::{ReportError, raster};
use std::path::{Path, PathBuf};
use wavelane_measure::mean_ci95;
use wavelane_run::{SweepCell, Verdict, flow_metrics};
use wavelane_scenario::{Axis, in_base_units};

/// Maximum number of curves in one picture; the table contains the others.
const CURVES_MAX: usize = 20;
/// Maximum number of rows in the page's table.
const ROWS_MAX: usize = 2_000;
/// Maximum number of inconclusive combinations listed.
const DOUBTS_MAX: usize = 6;
/// Intervals are drawn up to this multiple of the highest point.
const BAND_MAX: f64 = 2.0;
/// Use a logarithmic axis from this ratio of the largest to the smallest value.
const LOG_FROM: f64 = 20.0;

/// Metrics that have a picture: key, title, unit.
pub(crate) const METRICS: [(&str, &str, &str); 13] = [
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

/// Metrics that are shares: an interval is limited to 0 and 1.
const SHARES: [&str; 3] = ["link_share", "completed", "voice.loss"];

/// Figures described in sentences, and the maximum number of curves for that.
const SAID: [&str; 4] = ["goodput_bps", "rtt_p95_ms", "web.response_mean_ms", "voice.loss"];
const SAID_CURVES_MAX: usize = 6;

/// The horizontal axis of the pictures: the first with numbers of one unit and two values or more.
fn along(axes: &[Axis]) -> Option<(usize, &'static str)> {
    let unit_of = |axis: &Axis| -> Option<&'static str> {
        let units: Option<Vec<&str>> = axis.values.iter().map(|v| Some(in_base_units(v)?.1)).collect();
        let units = units.filter(|units| units.len() >= 2)?;
        units.iter().all(|u| *u == units[0]).then(|| in_base_units(&axis.values[0]).map_or("", |(_, unit)| unit))
    };
    axes.iter().enumerate().find_map(|(number, axis)| Some((number, unit_of(axis)?)))
}

/// Whether a flow of this application has the metric. Every flow has a completion; it is reported only for transfers.
pub(crate) fn concerns(metric: &str, app: &str) -> bool {
    metric != "completed" || matches!(app, "download" | "upload" | "quic")
}

/// A metric of every flow and cell along one axis.
fn points(axes: &[Axis], cells: &[SweepCell], along: usize, metric: &str) -> Points {
    let known = {
        let mut flows: Vec<&str> = cells
            .iter()
            .flat_map(|c| &c.document.stacks)
            .flat_map(|s| &s.flows)
            .filter(|f| concerns(metric, &f.app) && flow_metrics(f).iter().any(|(key, _)| key == metric))
            .map(|f| f.flow.as_str())
            .collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    };
    let mut points = Points::default();
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
            flows.retain(|flow| known.binary_search(flow).is_ok() && seen.insert(*flow));
            for flow in flows {
                let name = if known.len() > 1 { format!(" {flow}") } else { String::new() };
                let rest = format!("{name}{others}");
                if !points.rests.contains(&rest) {
                    points.rests.push(rest.clone());
                }
                let of_flow = stack.flows.iter().filter(|f| f.flow == flow);
                let values: Vec<f64> = of_flow
                    .filter_map(|f| flow_metrics(f).into_iter().find(|(key, _)| key == metric).map(|(_, value)| value))
                    .collect();
                let Some((mean, half)) = mean_ci95(&values) else { continue };
                let curve = format!("{}{rest}", stack.stack);
                points.all.push(Point { stack: stack.stack.clone(), rest, curve, x, mean, half });
            }
        }
    }
    points
}

/// The label of a unit suffix in a key.
fn unit_words(ending: &str) -> &'static str {
    match ending {
        "bps" => "bit/s",
        "ms" => "ms",
        "bytes" => "B",
        _ => "",
    }
}

pub(crate) fn labelled(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name} ({unit})") }
}

/// The picture of a metric and the number of curves left out; `None` without values.
fn plot(
    axes: &[Axis],
    (number, ending): (usize, &str),
    (key, title, unit): (&str, &str, &str),
    of: &Points,
    (stacks, order): (&[&str], &[&str]),
) -> Option<(Plot, usize)> {
    let points = &of.all;
    let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(0.0, f64::max);
    // Every picture has the whole axis, even where a metric lacks values at its ends.
    let all_x: Vec<f64> = axes[number].values.iter().filter_map(|v| Some(in_base_units(v)?.0)).collect();
    let (least_x, most_x) = all_x.iter().fold((f64::INFINITY, 0.0), |(l, m), x| (x.min(l), x.max(m)));
    let ((x_by, x_unit), (y_by, y_unit)) = (unit_for(most_x, unit_words(ending)), unit_for(most(|p| p.mean), unit));
    let Looks { curves: mut names, keys } = looks(of, stacks, order);
    let left_out = names.len().saturating_sub(CURVES_MAX);
    names.truncate(CURVES_MAX);
    // What all curves share is stated once, in the page's text.
    let one_stack = points.iter().all(|p| p.stack == points[0].stack) && points.iter().any(|p| !p.rest.is_empty());
    let curve = |&(look, name): &(Look, &str)| {
        let mut own: Vec<&Point> = points.iter().filter(|p| p.curve == name).collect();
        own.sort_by(|a, b| a.x.total_cmp(&b.x));
        let line: Vec<(f64, f64)> = own.iter().map(|p| (p.x / x_by, p.mean / y_by)).collect();
        let end = |p: &&Point, sign: f64| {
            let value = (p.mean + sign * p.half.unwrap_or(0.0)).max(0.0);
            let most = if SHARES.contains(&key) { p.mean.max(1.0) } else { f64::INFINITY };
            (p.x / x_by, value.min(most) / y_by)
        };
        let spread = own.iter().any(|p| p.half.is_some()) && own.len() > 1;
        let band = own.iter().map(|p| end(p, 1.0)).chain(own.iter().rev().map(|p| end(p, -1.0)));
        let plain = match own.first() {
            Some(point) if one_stack && !point.rest.is_empty() => point.rest.trim_start_matches([',', ' ']),
            _ => name,
        };
        Curve {
            name: plain.to_owned(),
            look,
            // The line, and a dot at each measured value.
            pieces: core::iter::once(&line).cloned().chain(line.iter().map(|point| vec![*point])).collect(),
            band: if spread { band.collect() } else { Vec::new() },
            marks: Vec::new(),
        }
    };
    let mut curves: Vec<Curve> = names.iter().map(curve).collect();
    let highest = |points: &mut dyn Iterator<Item = &(f64, f64)>| points.map(|p| p.1).fold(0.0, f64::max);
    let lines = highest(&mut curves.iter().flat_map(|c| c.pieces.iter().flatten()));
    // Wide intervals of few seeds must not compress the lines at the bottom: they are cut off at the top of the picture.
    let top = highest(&mut curves.iter().flat_map(|c| &c.band)).clamp(lines, lines * BAND_MAX);
    curves.iter_mut().flat_map(|c| &mut c.band).for_each(|p| p.1 = p.1.min(top));
    let xs = || all_x.iter().map(|x| x / x_by);
    let log = least_x > 0.0 && most_x / least_x >= LOG_FROM;
    let plot = Plot {
        title: format!("{title}{} by {}", if title.contains(", ") { "," } else { "" }, key_words(&axes[number].key)),
        x_label: labelled(&key_words(&axes[number].key), &x_unit),
        y_label: if y_unit.is_empty() { title.to_owned() } else { y_unit },
        x: if log { Scale::logarithmic(xs()) } else { Scale::exact(xs().fold(0.0, f64::max)) },
        y: Scale::above(top),
        curves,
        keys,
        level: None,
        points: false,
        bars: false,
        marks_mean: "",
    };
    (!points.is_empty()).then_some((plot, left_out))
}

/// The results: the first figures of each curve at both ends of the axis; with many curves the range from the smallest to the largest mean
/// of each stack.
fn ends(all: &[Points], order: &[&str], ending: &str) -> Vec<String> {
    let mut said = Vec::new();
    let figures = METRICS
        .iter()
        .zip(all.iter().map(|of| &of.all))
        .filter(|((key, ..), points)| SAID.contains(key) && !points.is_empty());
    for ((_, title, unit), points) in figures {
        let at = |p: &Point| format!("{} at {}", human(p.mean, p.half, unit), human(p.x, None, unit_words(ending)));
        let of = |name: &&str| {
            let own = || points.iter().filter(|p| p.curve == **name);
            let (first, last) = (own().min_by(|a, b| a.x.total_cmp(&b.x))?, own().max_by(|a, b| a.x.total_cmp(&b.x))?);
            Some(format!("{name}: {}, {}", at(first), at(last)))
        };
        let stacks = distinct(points.iter().map(|p| p.stack.as_str()));
        let range = |stack: &&str| {
            let means = points.iter().filter(|p| p.stack == **stack).map(|p| p.mean);
            let (least, most) = means.fold((f64::INFINITY, 0.0), |(l, m), v| (v.min(l), v.max(m)));
            format!("{stack} {} to {}", human(least, None, unit), human(most, None, unit))
        };
        let curves: Vec<String> = order.iter().filter_map(of).collect();
        said.push(match curves.len() {
            0..=SAID_CURVES_MAX => format!("{title}: {}.", curves.join("; ")),
            _ => format!(
                "{title}, means of all combinations: {}.",
                stacks.iter().map(range).collect::<Vec<_>>().join("; ")
            ),
        });
    }
    said
}

/// A sentence in place of a picture that would show no difference.
fn flat((key, title, unit): (&str, &str, &str), points: &[Point]) -> Option<String> {
    let first = points.first()?;
    let alike = |p: &Point| p.mean == first.mean && p.half.unwrap_or(0.0) == 0.0;
    if !points.iter().all(alike) {
        return None;
    }
    Some(match (key, first.mean) {
        ("completed", 1.0) => "Every transfer completed.".into(),
        ("completed", 0.0) => "No transfer completed.".into(),
        (_, mean) => format!("{title}: {} everywhere.", human(mean, None, unit)),
    })
}

fn words(values: &[String], between: &str) -> String {
    values.iter().map(|value| value_words(value)).collect::<Vec<_>>().join(between)
}

/// The first of these combinations, joined.
fn some(combinations: &[String]) -> String {
    let shown = combinations[..combinations.len().min(DOUBTS_MAX)].join("; ");
    match combinations.len().saturating_sub(DOUBTS_MAX) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Which combinations are inconclusive, and which check fails where and with how many seeds.
pub fn doubts(cells: &[SweepCell]) -> Vec<String> {
    let all = match cells.len() {
        1 => "1 combination".to_owned(),
        n => format!("{n} combinations"),
    };
    let mut said = Vec::new();
    let late = cells.iter().filter(|cell| cell.document.verdict == Verdict::Inconclusive);
    let late: Vec<String> = late.map(|cell| words(&cell.values, ", ")).collect();
    if !late.is_empty() {
        said.push(format!("{} of {all} inconclusive: {}.", late.len(), some(&late)));
    }
    let mut checks: Vec<&str> = Vec::new();
    for failed in cells.iter().flat_map(|cell| &cell.failed) {
        if !checks.contains(&failed.check.as_str()) {
            checks.push(&failed.check);
        }
    }
    for check in checks {
        let at = |cell: &SweepCell| {
            let failed = cell.failed.iter().find(|failed| failed.check == check)?;
            let repeat = cell.document.repeat;
            let seeds = failed.seeds.filter(|_| repeat > 1);
            let seeds = seeds.map(|n| format!(" (with {n} of {repeat} seeds)")).unwrap_or_default();
            Some(words(&cell.values, ", ") + &seeds)
        };
        let at: Vec<String> = cells.iter().filter_map(at).collect();
        said.push(format!("Check {check} fails in {} of {all}: {}.", at.len(), some(&at)));
    }
    said
}

/// Ratios from here on, as of a stack that carried nothing, are no figure.
const RATIO_SAID_MAX: f64 = 1_000.0;

/// Values of an axis up to which the headline names each.
const NAMED_MAX: usize = 3;

/// What changes, and over how many runs.
fn headline(axes: &[Axis], cells: &[SweepCell], seeds: u32) -> String {
    let varied = axes.iter().filter(|axis| axis.values.len() > 1).map(|axis| {
        let values = match axis.values.as_slice() {
            [first, .., last] if axis.values.len() > NAMED_MAX => {
                format!("{} to {} ({} values)", value_words(first), value_words(last), axis.values.len())
            }
            few => words(few, ", "),
        };
        format!("{} {values}", key_words(&axis.key))
    });
    let varied: Vec<String> = varied.collect();
    let seeds = if seeds == 1 { "one seed".to_owned() } else { format!("{seeds} seeds") };
    match (varied.as_slice(), cells.len()) {
        ([], _) => format!("1 combination, {seeds}"),
        (varied, n) => format!("What changes: {}. {n} combinations, {seeds} of each", varied.join("; ")),
    }
}

/// Which stack carried most in how many combinations, and how much more than the next; `None` of one stack.
fn most_carried(cells: &[SweepCell]) -> Option<String> {
    let mut wins: Vec<(&str, Vec<f64>)> = Vec::new();
    for cell in cells {
        let mut sums: Vec<(&str, f64)> = cell
            .document
            .stacks
            .iter()
            .map(|stack| (stack.stack.as_str(), stack.flows.iter().filter_map(|f| f.goodput_bps).sum()))
            .collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1));
        let [(first, most), (_, next), ..] = sums.as_slice() else { return None };
        if most <= next {
            continue;
        }
        match wins.iter_mut().find(|(stack, _)| stack == first) {
            Some((_, ratios)) => ratios.push(most / next),
            None => wins.push((first, vec![most / next])),
        }
    }
    wins.sort_by_key(|(_, ratios)| core::cmp::Reverse(ratios.len()));
    let told = wins.iter().map(|(stack, ratios)| {
        let (least, most) = ratios.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), r| (l.min(*r), m.max(*r)));
        let by = |ratio: f64| if ratio < RATIO_SAID_MAX { format!("{ratio:.2}") } else { "very many".to_owned() };
        let range = if by(least) == by(most) { by(most) } else { format!("{} to {}", by(least), by(most)) };
        format!("{stack} in {} of {} ({range} times the next)", ratios.len(), cells.len())
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("Most goodput: {}.", told.join(", ")))
}

/// Writes `report.html` and a picture per metric into the sweep's directory; returns the page's path.
pub(crate) fn render_sweep(
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
        let stacks = stacks_of(cells);
        let mut order: Vec<&str> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        let names = points.iter().flat_map(|of| &of.all).map(|p| p.curve.as_str());
        order.extend(names.filter(|name| seen.insert(*name)));
        came_out = ends(&points, &order, found.1);
        for (metric, points) in METRICS.into_iter().zip(&points) {
            if let Some(said) = flat(metric, &points.all) {
                came_out.push(said);
                continue;
            }
            let Some((plot, more)) = plot(axes, found, metric, points, (&stacks, &order)) else { continue };
            left_out = left_out.max(more);
            let name = metric.0.replace('.', "_");
            drawn.push(Drawn::new(|layout| plot.svg(layout)).write(&folder.join("plots"), &name, &rasteriser)?);
        }
    }
    let seeds = cells.first().map_or(0, |c| c.document.repeat);
    let mut sentences: Vec<String> = most_carried(cells).into_iter().chain(came_out).collect();
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
    let mut tables = tables(axes, cells);
    let mut room = ROWS_MAX;
    let mut beyond = 0;
    for table in &mut tables {
        beyond += table.rows.len().saturating_sub(room);
        table.rows.truncate(room);
        room -= table.rows.len();
    }
    if beyond > 0 {
        sentences.push(format!("{beyond} more rows stand in sweep.csv alone."));
    }
    let page = Page {
        title: format!("Sweep: {title}"),
        headline: headline(axes, cells, seeds),
        grade: None,
        verdict: Some(Verdict::total(cells.iter().map(|cell| cell.document.verdict))),
        sentences,
        charts: Vec::new(),
        tables,
        rerun: rerun.to_owned(),
    };
    write_page(folder, &page, &drawn, First::Pictures)
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
