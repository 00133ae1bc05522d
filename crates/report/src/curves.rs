//! The pictures of a run: throughput over time, echo delay over time, distribution of echo delay.

use crate::axis::Axis;
use crate::plot::{Curve, Plot, style_of};
use std::path::Path;
use wavelane_run::{RecordError, RunDocument, Series, figures::FlowFigures};
use wavelane_scenario::Scenario;

/// Bins along the time axis, about.
const BINS: f64 = 90.0;
/// Round bin widths in seconds.
const WIDTHS: [f64; 9] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 60.0];

/// A picture with the name of its files.
pub(crate) struct Picture {
    pub(crate) name: &'static str,
    pub(crate) plot: Plot,
}

/// One flow of one stack with its series (first seed).
struct Seen<'a> {
    stack: &'a str,
    style: usize,
    figures: &'a FlowFigures,
    series: Series,
}

impl Seen<'_> {
    fn name(&self, several: bool) -> String {
        if several { format!("{} {}", self.stack, self.figures.flow) } else { self.stack.to_owned() }
    }
}

/// Draws what the record holds; pictures without data are left out.
pub(crate) fn pictures(
    record: &Path,
    document: &RunDocument,
    scenario: &Scenario,
) -> Result<Vec<Picture>, RecordError> {
    let (mut bulks, mut echoes) = (Vec::new(), Vec::new());
    for stack in &document.stacks {
        for figures in stack.flows.iter().filter(|f| f.seed == document.seed) {
            let series = document.series(record, &stack.stack, figures)?;
            let style = style_of(document.stacks.iter().map(|s| s.stack.as_str()), &stack.stack);
            let seen = Seen { stack: &stack.stack, style, figures, series };
            match seen.series {
                Series::Arrivals(_) => bulks.push(seen),
                Series::Probes(_) => echoes.push(seen),
                Series::Fetches(_) => {}
            }
        }
    }
    let end = end_of_time(&bulks, &echoes);
    let mut pictures = Vec::new();
    if !bulks.is_empty() {
        pictures.push(Picture { name: "throughput", plot: throughput(&bulks, scenario, end) });
    }
    if !echoes.is_empty() {
        pictures.push(Picture { name: "echo_delay", plot: delay(&echoes, end) });
        pictures.push(Picture { name: "echo_cdf", plot: distribution(&echoes, document, scenario) });
    }
    Ok(pictures)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The last thing seen, in seconds.
fn end_of_time(bulks: &[Seen<'_>], echoes: &[Seen<'_>]) -> f64 {
    let last = |s: &Seen<'_>| match &s.series {
        Series::Arrivals(list) => list.last().map_or(0.0, |a| seconds(a.0)),
        Series::Probes(list) | Series::Fetches(list) => list.last().map_or(0.0, |p| seconds(p.0)),
    };
    bulks.iter().chain(echoes).map(last).fold(1.0, f64::max)
}

fn throughput(bulks: &[Seen<'_>], scenario: &Scenario, end: f64) -> Plot {
    let width = WIDTHS.into_iter().find(|w| end / w <= BINS).unwrap_or(60.0);
    let several = bulks.iter().any(|b| b.figures.flow != bulks[0].figures.flow);
    let curves: Vec<Curve> = bulks.iter().map(|b| rate_curve(b, width, several)).collect();
    let rate =
        scenario.flow(&bulks[0].figures.flow).and_then(|f| scenario.bottleneck(f)).map(|r| r.as_bps() as f64 / 1e6);
    let most = curves.iter().flat_map(|c| c.pieces.iter().flatten()).map(|p| p.1).chain(rate).fold(0.0, f64::max);
    Plot {
        title: "Throughput at the receiving application".into(),
        x_label: "time since the start (s)".into(),
        y_label: format!("Mbit/s, mean over {} ms", (width * 1e3) as u64),
        x: Axis::exact(end),
        y: Axis::linear(most * 1.04),
        curves,
        level: rate.map(|r| (r, format!("link rate {r} Mbit/s"))),
        points: false,
        bars: false,
        marks_mean: "",
    }
}

/// Rate over time, from connect() to the last byte; an unfinished flow goes on at zero to its last arrival.
fn rate_curve(seen: &Seen<'_>, width: f64, several: bool) -> Curve {
    let Series::Arrivals(arrivals) = &seen.series else { return curve(seen, several, Vec::new()) };
    let points = binned(arrivals, seconds((seen.figures.connect_ms * 1e6) as u64), width, seen.figures.completed);
    curve(seen, several, vec![points])
}

/// Mbit/s in bins of `width` seconds, each at its middle. The last bin of a completed transfer ends with its last byte:
/// a mean over all of it would look like a slow end. If that leaves less than half a bin, it belongs to the one before.
fn binned(arrivals: &[(u64, u64)], start: f64, width: f64, completed: bool) -> Vec<(f64, f64)> {
    let bin = |s: f64| (s / width) as usize;
    let end = arrivals.last().map_or(0.0, |a| seconds(a.0));
    let last = bin(end);
    let start = bin(start).min(last);
    let mut bins = vec![(0u64, width); last + 1];
    for (t, n) in arrivals {
        bins[bin(seconds(*t))].0 += n;
    }
    if completed && last > start {
        bins[last].1 = end - last as f64 * width;
        if bins[last].1 < width / 2.0 {
            let (octets, lasting) = bins[last];
            bins.truncate(last);
            bins[last - 1] = (bins[last - 1].0 + octets, width + lasting);
        }
    }
    let point = |(i, (octets, lasting)): (usize, &(u64, f64))| {
        (i as f64 * width + lasting / 2.0, *octets as f64 * 8.0 / lasting / 1e6)
    };
    bins.iter().enumerate().skip(start).map(point).collect()
}

fn curve(seen: &Seen<'_>, several: bool, pieces: Vec<Vec<(f64, f64)>>) -> Curve {
    Curve { name: seen.name(several), style: seen.style, pieces, marks: Vec::new() }
}

fn answered<'a>(echoes: &'a [Seen<'_>]) -> impl Iterator<Item = f64> + 'a {
    echoes
        .iter()
        .flat_map(|e| match &e.series {
            Series::Probes(list) => list.as_slice(),
            Series::Arrivals(_) | Series::Fetches(_) => &[],
        })
        .filter_map(|p| p.1)
        .map(|ns| ns as f64 / 1e6)
}

fn several_echoes(echoes: &[Seen<'_>]) -> bool {
    echoes.iter().any(|e| e.figures.flow != echoes[0].figures.flow)
}

fn delay(echoes: &[Seen<'_>], end: f64) -> Plot {
    let several = several_echoes(echoes);
    let draw = |seen: &Seen<'_>| {
        let Series::Probes(probes) = &seen.series else { return curve(seen, several, Vec::new()) };
        let point = |p: &(u64, Option<u64>)| p.1.map(|rtt| (seconds(p.0), rtt as f64 / 1e6));
        let pieces = probes.split(|p| p.1.is_none()).map(|run| run.iter().filter_map(point).collect::<Vec<_>>());
        let marks = probes.iter().filter(|p| p.1.is_none()).map(|p| seconds(p.0)).collect();
        let pieces = pieces.filter(|p| !p.is_empty()).collect();
        Curve { marks, ..curve(seen, several, pieces) }
    };
    Plot {
        title: "Echo delay over time: question to answer".into(),
        x_label: "time the question was due, since the start (s)".into(),
        y_label: "round trip (ms), log scale".into(),
        x: Axis::exact(end),
        y: Axis::logarithmic(answered(echoes)),
        curves: echoes.iter().map(draw).collect(),
        level: None,
        points: true,
        bars: false,
        marks_mean: "never answered",
    }
}

/// Share of counted probes answered within a delay; lost ones keep a curve below 1.
fn distribution(echoes: &[Seen<'_>], document: &RunDocument, scenario: &Scenario) -> Plot {
    let several = several_echoes(echoes);
    let draw = |seen: &Seen<'_>| {
        let Series::Probes(probes) = &seen.series else { return curve(seen, several, Vec::new()) };
        let window = window_of(seen, document, scenario);
        let counted: Vec<Option<u64>> =
            probes.iter().filter(|p| (window.0..=window.1).contains(&(p.0 as f64 / 1e6))).map(|p| p.1).collect();
        let mut delays: Vec<f64> = counted.iter().flatten().map(|ns| *ns as f64 / 1e6).collect();
        delays.sort_by(f64::total_cmp);
        let n = counted.len().max(1) as f64;
        let mut steps = Vec::with_capacity(2 * delays.len());
        for (i, d) in delays.iter().enumerate() {
            steps.push((*d, i as f64 / n));
            steps.push((*d, (i + 1) as f64 / n));
        }
        curve(seen, several, vec![steps])
    };
    Plot {
        title: "Echo delay: share of questions answered within a time".into(),
        x_label: "round trip (ms), log scale".into(),
        y_label: "share answered".into(),
        x: Axis::logarithmic(answered(echoes)),
        y: Axis::linear(1.0),
        curves: echoes.iter().map(draw).filter(|c| !c.pieces.concat().is_empty()).collect(),
        level: None,
        points: false,
        bars: false,
        marks_mean: "",
    }
}

/// When the probes of an echo count, in ms since the start: while its bulk flow ran.
fn window_of(seen: &Seen<'_>, document: &RunDocument, scenario: &Scenario) -> (f64, f64) {
    let always = (0.0, f64::INFINITY);
    let Some(bulk) = scenario.flow(&seen.figures.flow).and_then(|f| scenario.bulk_of(f)) else { return always };
    let stack = document.stacks.iter().find(|s| s.stack == seen.stack);
    let figures = stack.and_then(|s| s.flows.iter().find(|f| f.flow == bulk.name && f.seed == seen.figures.seed));
    let Some(figures) = figures else { return always };
    let end = figures.last_byte_ms.filter(|_| figures.completed).unwrap_or(f64::INFINITY);
    (figures.connect_ms, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 Mbit/s to the end, which is a tenth, then nine tenths into a bin.
    #[test]
    fn a_completed_transfer_keeps_its_rate_to_the_last_point() {
        for tenths in [41u64, 49] {
            let arrivals: Vec<(u64, u64)> = (1..=tenths).map(|i| (i * 50_000_000 - 1, 6_250)).collect();
            let points = binned(&arrivals, 0.0, 0.5, true);
            assert!(points.iter().all(|p| (p.1 - 1.0).abs() < 1e-6), "{points:?}");
            let unfinished = binned(&arrivals, 0.0, 0.5, false);
            assert_eq!(unfinished.len(), 5);
            assert!(unfinished[4].1 < 0.95, "{unfinished:?}");
        }
    }

    #[test]
    fn one_instant_is_one_finite_point() {
        assert_eq!(binned(&[(3_000_000, 1_000)], 0.002, 0.5, true), [(0.25, 0.016)]);
    }
}
