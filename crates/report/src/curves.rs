//! The pictures of a run: throughput over time, delays over time, distribution of echo delay. With several seeds the lines combine all of
//! them, and areas show their spread.

use crate::ReportError;
use crate::axis::Axis;
use crate::drawn::Drawn;
use crate::plot::{Curve, Look, Plot, style_of};
use crate::raster::Rasteriser;
use std::path::Path;
use wavelane_measure::percentile;
use wavelane_run::figures::FlowFigures;
use wavelane_run::{RecordError, RunDocument, Series};
use wavelane_scenario::{Quantity, Scenario};

/// Approximate number of bins along the time axis.
const BINS: f64 = 90.0;
/// Round bin widths in seconds.
const WIDTHS: [f64; 9] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 60.0];
/// Lines of one picture up to which each flow has its own; else those of a stack are drawn together, as several seeds are.
const LINES_MAX: usize = 6;
/// Steps of a distribution over several seeds.
const SHARES: usize = 200;

/// A picture and its file name.
pub(crate) struct Picture {
    pub(crate) name: &'static str,
    pub(crate) plot: Plot,
    /// The unit of a plot of rates.
    rates: Option<Rates>,
}

/// The unit of rates, and the averaging interval in ms, minimum and maximum.
#[derive(Clone, Copy)]
struct Rates {
    scale: f64,
    over_ms: (u64, u64),
}

impl Rates {
    fn label(self) -> String {
        let unit = match self.scale {
            s if s >= 1e9 => "Gbit/s",
            s if s >= 1e6 => "Mbit/s",
            _ => "kbit/s",
        };
        match self.over_ms {
            (least, most) if least == most => format!("{unit}, mean over {most} ms"),
            (least, most) => format!("{unit}, means over {least} to {most} ms"),
        }
    }
}

impl Picture {
    /// Draws the picture and writes its files.
    pub(crate) fn write(&self, plots: &Path, rasteriser: &Rasteriser) -> Result<Drawn, ReportError> {
        // A run replaces exactly these files of an earlier record.
        debug_assert!(wavelane_run::PICTURES.contains(&self.name), "{} is not in PICTURES", self.name);
        Drawn::new(|layout| self.plot.svg(layout)).write(plots, self.name, rasteriser)
    }

    fn new(name: &'static str, plot: Plot) -> Self {
        Self { name, plot, rates: None }
    }

    /// Adds another record's curves on the same axes, in the larger of both units.
    pub(crate) fn lay_over(&mut self, mut other: Self) {
        if let (Some(own), Some(more)) = (self.rates, other.rates) {
            let over_ms = (own.over_ms.0.min(more.over_ms.0), own.over_ms.1.max(more.over_ms.1));
            let both = Rates { scale: own.scale.max(more.scale), over_ms };
            self.plot.scale_y(own.scale / both.scale);
            other.plot.scale_y(more.scale / both.scale);
            self.plot.y_label = both.label();
            self.rates = Some(both);
            if self.plot.title != other.plot.title {
                self.plot.title = THROUGHPUT.into();
            }
        }
        self.plot.lay_over(other.plot);
    }
}

/// One flow of one stack with its series, by seed; or all of them, if they are many.
struct FlowSeries<'a> {
    name: String,
    look: Look,
    stack: &'a str,
    runs: Vec<(&'a FlowFigures, Series)>,
}

impl FlowSeries<'_> {
    fn flow(&self) -> &str {
        &self.runs[0].0.flow
    }
    fn curve(&self, pieces: Vec<Vec<(f64, f64)>>) -> Curve {
        Curve { name: self.name.clone(), look: self.look, pieces, band: Vec::new(), marks: Vec::new() }
    }
    /// Time sent in seconds and delay in ms, or `None` if lost, of one seed.
    fn delays(&self, run: usize) -> impl Iterator<Item = (f64, Option<f64>)> {
        let list = match &self.runs[run].1 {
            Series::Probes(list) | Series::Fetches(list) => list.as_slice(),
            Series::Arrivals(_) => &[],
        };
        list.iter().map(|(at, delay)| (seconds(*at), delay.map(|ns| ns as f64 / 1e6)))
    }
    fn all_delays(&self) -> Vec<(f64, Option<f64>)> {
        (0..self.runs.len()).flat_map(|run| self.delays(run)).collect()
    }
}

/// Draws the record's pictures; those without data are omitted.
pub(crate) fn pictures(
    record: &Path,
    document: &RunDocument,
    scenario: &Scenario,
) -> Result<Vec<Picture>, RecordError> {
    let bulks = gather(record, document, scenario, Kind::Bulk)?;
    let echoes = gather(record, document, scenario, Kind::Echo)?;
    let calls = gather(record, document, scenario, Kind::Call)?;
    let pages = gather(record, document, scenario, Kind::Page)?;
    let end = end_of_time(&[&bulks, &echoes, &calls, &pages]);
    let mut pictures = Vec::new();
    if !bulks.is_empty() {
        let (plot, rates) = throughput(&bulks, scenario, end);
        pictures.push(Picture { name: "throughput", plot, rates: Some(rates) });
    }
    if !echoes.is_empty() {
        pictures.push(Picture::new("echo_delay", delay(&echoes, end, &ECHO)));
        pictures.push(Picture::new("echo_cdf", distribution(&echoes, document, scenario)));
    }
    if !calls.is_empty() {
        pictures.push(Picture::new("call_delay", delay(&calls, end, &CALL)));
    }
    if !pages.is_empty() {
        pictures.push(Picture::new("response_time", delay(&pages, end, &RESPONSE)));
    }
    Ok(pictures)
}

/// Flows that share a picture.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bulk,
    Echo,
    Call,
    Page,
}

impl Kind {
    fn of(app: &str) -> Self {
        match app {
            "echo" | "telnet" | "ping" => Self::Echo,
            "voice" => Self::Call,
            "fetch" | "web" => Self::Page,
            _ => Self::Bulk,
        }
    }
    /// The names of its flows.
    fn flows(self, scenario: &Scenario) -> Vec<&str> {
        scenario.flows.iter().filter(|f| Self::of(f.app.word()) == self).map(|f| f.name.as_str()).collect()
    }
}

/// Whether these flows of a stack are drawn together, for a line each would be too many.
fn together(flows: &[&str], document: &RunDocument) -> bool {
    flows.len() > 1 && flows.len() * document.stacks.len() > LINES_MAX
}

/// Whether a line of some picture stands for several flows.
pub(crate) fn has_many(document: &RunDocument, scenario: &Scenario) -> bool {
    let kinds = [Kind::Bulk, Kind::Echo, Kind::Call, Kind::Page];
    kinds.into_iter().any(|kind| together(&kind.flows(scenario), document))
}

/// The flows of a kind, of every stack, each with its own look.
fn gather<'a>(
    record: &Path,
    document: &'a RunDocument,
    scenario: &Scenario,
    kind: Kind,
) -> Result<Vec<FlowSeries<'a>>, RecordError> {
    let flows = kind.flows(scenario);
    let together = together(&flows, document);
    let mut all = Vec::new();
    for stack in &document.stacks {
        let style = style_of(document.stacks.iter().map(|s| s.stack.as_str()), &stack.stack);
        for (number, flow) in flows.iter().enumerate() {
            let look = match (document.stacks.len(), flows.len()) {
                (1, 2..) => Look::of(number),
                _ => Look::of_flow(style, number),
            };
            let figures = stack.flows.iter().filter(|f| f.flow == *flow);
            let runs =
                figures.map(|f| Ok((f, document.series(record, &stack.stack, f)?))).collect::<Result<Vec<_>, _>>()?;
            let name = match (document.stacks.len(), flows.len()) {
                (_, 1) => stack.stack.clone(),
                (1, _) => (*flow).to_owned(),
                _ => format!("{} {flow}", stack.stack),
            };
            if !runs.is_empty() {
                all.push(FlowSeries { name, look, stack: &stack.stack, runs });
            }
        }
        if together {
            let runs = all.extract_if(.., |seen| seen.stack == stack.stack).flat_map(|seen| seen.runs).collect();
            let of = if document.stacks.len() > 1 { format!("{} ", stack.stack) } else { String::new() };
            let name = match kind {
                Kind::Bulk => format!("{of}mean of {} flows", flows.len()),
                _ => format!("{of}{} flows together", flows.len()),
            };
            all.push(FlowSeries { name, look: Look::of(style), stack: &stack.stack, runs });
        }
    }
    Ok(all)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The latest event, in seconds.
fn end_of_time(kinds: &[&[FlowSeries<'_>]]) -> f64 {
    let last = |series: &Series| match series {
        Series::Arrivals(list) => list.last().map_or(0.0, |a| seconds(a.0)),
        Series::Probes(list) | Series::Fetches(list) => list.last().map_or(0.0, |p| seconds(p.0)),
    };
    kinds.iter().flat_map(|k| k.iter()).flat_map(|s| &s.runs).map(|(_, series)| last(series)).fold(1.0, f64::max)
}

fn width_of_bins(end: f64) -> f64 {
    WIDTHS.into_iter().find(|w| end / w <= BINS).unwrap_or(60.0)
}

/// The link's rate is drawn up to this multiple of the largest value.
const LEVEL_MAX: f64 = 4.0;
const THROUGHPUT: &str = "Throughput at the receiving application";

fn throughput(bulks: &[FlowSeries<'_>], scenario: &Scenario, end: f64) -> (Plot, Rates) {
    let width = width_of_bins(end);
    let curves: Vec<Curve> = bulks.iter().map(|seen| rate_curve(seen, scenario, width, end)).collect();
    let link = scenario.flow(bulks[0].flow()).and_then(|f| scenario.bottleneck(f));
    let points = curves.iter().flat_map(|c| c.pieces.iter().flatten().chain(&c.band));
    let largest = points.map(|p| p.1).fold(0.0, f64::max);
    // If ten stations share a link, its rate would compress their curves at the bottom.
    let (shown, above) = match link {
        Some(rate) if largest > 0.0 && rate.as_bps() as f64 > LEVEL_MAX * largest => (None, Some(rate)),
        rate => (rate, None),
    };
    let most = shown.map_or(largest, |rate| largest.max(rate.as_bps() as f64));
    // The axis uses the unit that suits the largest value.
    let scale = match most {
        b if b >= 2e9 => 1e9,
        b if b >= 1e6 => 1e6,
        _ => 1e3,
    };
    let over_ms = (width * 1e3).round() as u64;
    let rates = Rates { scale, over_ms: (over_ms, over_ms) };
    let scaled = |points: &mut Vec<(f64, f64)>| points.iter_mut().for_each(|p| p.1 /= scale);
    let curves = curves.into_iter().map(|mut curve| {
        curve.pieces.iter_mut().for_each(scaled);
        scaled(&mut curve.band);
        curve
    });
    let plot = Plot {
        title: match above {
            Some(rate) => format!("{THROUGHPUT} (link rate {})", rate.write()),
            None => THROUGHPUT.into(),
        },
        x_label: "time since the start (s)".into(),
        y_label: rates.label(),
        x: Axis::exact(end),
        y: Axis::linear(most / scale * 1.04),
        curves: curves.collect(),
        keys: Vec::new(),
        level: shown.map(|r| (r.as_bps() as f64 / scale, format!("link rate {}", r.write()))),
        points: false,
        bars: false,
        marks_mean: "",
    };
    (plot, rates)
}

/// Bits per second over time, from connect() to the last byte; an unfinished flow continues at zero to its last arrival. With several seeds
/// or flows the mean of those running, and the area from the slowest to the fastest.
fn rate_curve(seen: &FlowSeries<'_>, scenario: &Scenario, width: f64, end: f64) -> Curve {
    let one = |(figures, series): &(&FlowFigures, Series), completed| match series {
        Series::Arrivals(arrivals) => binned(arrivals, seconds((figures.connect_ms * 1e6) as u64), width, completed),
        _ => Vec::new(),
    };
    let [.., _, _] = seen.runs.as_slice() else {
        return seen.curve(seen.runs.iter().map(|run| one(run, run.0.completed)).collect());
    };
    let runs = seen.runs.iter().flat_map(|run| {
        let stops = runs_until(scenario, run.0, end);
        let mut points = one(run, run.0.completed && stops.is_none());
        let last = points.last().map_or(0.0, |p| (p.0 / width).floor() + 1.0);
        let middles = (0..).map(|i| (last + f64::from(i) + 0.5) * width).take_while(|at| *at < stops.unwrap_or(0.0));
        points.extend(middles.map(|at| (at, 0.0)));
        points
    });
    let spread = by_bin(runs, width);
    let mean = spread.iter().map(|(at, v)| (*at, v.iter().sum::<f64>() / v.len() as f64)).collect();
    let ends = spread.iter().map(|(at, v)| (*at, v[0], v[v.len() - 1]));
    Curve { band: outline(ends), ..seen.curve(vec![mean]) }
}

/// Until when a flow runs that does not end with its last byte: of a given time, or unfinished.
fn runs_until(scenario: &Scenario, figures: &FlowFigures, end: f64) -> Option<f64> {
    let flow = scenario.flow(&figures.flow)?;
    let stop = flow.stop.map_or(end, |stop| stop.as_secs_f64().min(end));
    (flow.app.is_fixed_time() || !figures.completed).then_some(stop)
}

/// Sorted values by bin, each at the middle of its bin.
fn by_bin(points: impl Iterator<Item = (f64, f64)>, width: f64) -> Vec<(f64, Vec<f64>)> {
    let mut bins: std::collections::BTreeMap<u64, Vec<f64>> = std::collections::BTreeMap::new();
    for (at, value) in points {
        bins.entry((at / width) as u64).or_default().push(value);
    }
    let middle = |(bin, mut values): (u64, Vec<f64>)| {
        values.sort_by(f64::total_cmp);
        ((bin as f64 + 0.5) * width, values)
    };
    bins.into_iter().map(middle).collect()
}

/// The outline of an area: along its upper edge and back along its lower.
fn outline(ends: impl DoubleEndedIterator<Item = (f64, f64, f64)> + Clone) -> Vec<(f64, f64)> {
    ends.clone().map(|(x, _, high)| (x, high)).chain(ends.rev().map(|(x, low, _)| (x, low))).collect()
}

/// Bits per second in bins of `width` seconds, each at its middle. The last bin of a completed transfer ends with its last byte: a mean
/// over the whole bin would look like a slow end. If that leaves less than half a bin, it is merged into the previous one.
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
        (i as f64 * width + lasting / 2.0, *octets as f64 * 8.0 / lasting)
    };
    bins.iter().enumerate().skip(start).map(point).collect()
}

/// Labels of a delay picture.
struct Words {
    title: &'static str,
    x: &'static str,
    y: &'static str,
    marks: &'static str,
}

const ECHO: Words = Words {
    title: "Echo delay over time: question to answer",
    x: "time the question was due, since the start (s)",
    y: "round trip (ms), log scale",
    marks: "never answered",
};
const CALL: Words = Words {
    title: "Delay of a call's datagrams, one way",
    x: "time it was sent, since the start (s)",
    y: "one way (ms), log scale",
    marks: "never arrived",
};
const RESPONSE: Words = Words {
    title: "Time of an object: connect() to its last byte",
    x: "time of connect(), since the start (s)",
    y: "ms, log scale",
    marks: "did not end",
};

fn delay(kind: &[FlowSeries<'_>], end: f64, words: &Words) -> Plot {
    let several = kind.iter().any(|seen| seen.runs.len() > 1);
    let width = width_of_bins(end);
    let draw = |seen: &FlowSeries<'_>| {
        let probes = seen.all_delays();
        let answered = probes.iter().filter_map(|(at, delay)| Some((*at, (*delay)?)));
        if several {
            let spread = by_bin(answered, width);
            let at = |of: &[f64], p| percentile(of, p).unwrap_or(0.0);
            let median = spread.iter().map(|(x, v)| (*x, at(v, 50))).collect();
            let ends = spread.iter().map(|(x, v)| (*x, at(v, 5), at(v, 95)));
            return Curve { band: outline(ends), ..seen.curve(vec![median]) };
        }
        let point = |p: &(f64, Option<f64>)| Some((p.0, p.1?));
        let pieces = probes.split(|p| p.1.is_none()).map(|run| run.iter().filter_map(point).collect::<Vec<_>>());
        let marks = probes.iter().filter(|p| p.1.is_none()).map(|p| p.0).collect();
        let pieces = pieces.filter(|p| !p.is_empty()).collect();
        Curve { marks, ..seen.curve(pieces) }
    };
    let curves: Vec<Curve> = kind.iter().map(draw).collect();
    let values = curves.iter().flat_map(|c| c.pieces.iter().flatten().chain(&c.band)).map(|p| p.1);
    Plot {
        title: words.title.into(),
        x_label: words.x.into(),
        y_label: words.y.into(),
        x: Axis::exact(end),
        y: Axis::logarithmic(values),
        keys: Vec::new(),
        level: None,
        points: !several,
        bars: false,
        marks_mean: words.marks,
        curves,
    }
}

/// Share of counted probes answered within a delay; lost ones keep a curve below 1. With several seeds the curve covers all their probes,
/// and the area contains every seed's own curve.
fn distribution(echoes: &[FlowSeries<'_>], document: &RunDocument, scenario: &Scenario) -> Plot {
    let counted = |seen: &FlowSeries<'_>, run: usize| -> Vec<Option<f64>> {
        let window = window_of(seen, run, document, scenario);
        seen.delays(run).filter(|p| (window.0..=window.1).contains(&(p.0 * 1e3))).map(|p| p.1).collect()
    };
    let draw = |seen: &FlowSeries<'_>| {
        let runs: Vec<Vec<Option<f64>>> = (0..seen.runs.len()).map(|run| counted(seen, run)).collect();
        let all = runs.concat();
        let delays = sorted(&all);
        // Questions that were due and that no connection could take stand in the figures alone.
        let due: u64 = seen.runs.iter().map(|(figures, _)| figures.sent.unwrap_or(0)).sum();
        let n = (all.len() as f64).max(due as f64).max(1.0);
        let mut steps = Vec::with_capacity(2 * delays.len());
        for (i, d) in delays.iter().enumerate() {
            steps.push((*d, i as f64 / n));
            steps.push((*d, (i + 1) as f64 / n));
        }
        Curve { band: if runs.len() > 1 { spread(&runs) } else { Vec::new() }, ..seen.curve(vec![steps]) }
    };
    let curves: Vec<Curve> = echoes.iter().map(draw).filter(|c| !c.pieces.concat().is_empty()).collect();
    Plot {
        title: "Echo delay: share of questions answered within a time".into(),
        x_label: "round trip (ms), log scale".into(),
        y_label: "share answered".into(),
        x: Axis::logarithmic(curves.iter().flat_map(|c| c.pieces.iter().flatten().chain(&c.band)).map(|p| p.0)),
        y: Axis::linear(1.0),
        curves,
        keys: Vec::new(),
        level: None,
        points: false,
        bars: false,
        marks_mean: "",
    }
}

fn sorted(delays: &[Option<f64>]) -> Vec<f64> {
    let mut answered: Vec<f64> = delays.iter().flatten().copied().collect();
    answered.sort_by(f64::total_cmp);
    answered
}

/// The outline of the area that contains every seed's distribution, up to the share that all of them reach.
fn spread(runs: &[Vec<Option<f64>>]) -> Vec<(f64, f64)> {
    let by_seed: Vec<(Vec<f64>, usize)> = runs.iter().map(|run| (sorted(run), run.len())).collect();
    let mut ends = Vec::new();
    for step in 1..=SHARES {
        let share = step as f64 / SHARES as f64;
        let rank = |n: usize| ((share * n as f64).ceil() as usize).max(1) - 1;
        let within: Option<Vec<f64>> = by_seed.iter().map(|(delays, n)| delays.get(rank(*n)).copied()).collect();
        let Some(within) = within else { break };
        let (low, high) = within.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), d| (l.min(*d), h.max(*d)));
        ends.push((share, low, high));
    }
    let later = ends.iter().map(|(share, _, high)| (*high, *share));
    later.chain(ends.iter().rev().map(|(share, low, _)| (*low, *share))).collect()
}

/// When the probes of an echo count, in ms since the start: while its bulk flow ran.
fn window_of(seen: &FlowSeries<'_>, run: usize, document: &RunDocument, scenario: &Scenario) -> (f64, f64) {
    let always = (0.0, f64::INFINITY);
    let flow = &seen.runs[run].0.flow;
    let Some(bulk) = scenario.flow(flow).and_then(|f| scenario.bulk_of(f)) else { return always };
    let stack = document.stacks.iter().find(|s| s.stack == seen.stack);
    let seed = seen.runs[run].0.seed;
    let figures = stack.and_then(|s| s.flows.iter().find(|f| f.flow == bulk.name && f.seed == seed));
    let Some(figures) = figures else { return always };
    let finished = figures.last_byte_ms.filter(|_| figures.completed && !bulk.app.is_fixed_time());
    let end = finished.unwrap_or_else(|| bulk.stop.map_or(f64::INFINITY, |stop| stop.as_secs_f64() * 1e3));
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
            assert!(points.iter().all(|p| (p.1 - 1e6).abs() < 1.0), "{points:?}");
            let unfinished = binned(&arrivals, 0.0, 0.5, false);
            assert_eq!(unfinished.len(), 5);
            assert!(unfinished[4].1 < 0.95e6, "{unfinished:?}");
        }
    }

    #[test]
    fn one_instant_is_one_finite_point() {
        assert_eq!(binned(&[(3_000_000, 1_000)], 0.002, 0.5, true), [(0.25, 16_000.0)]);
    }

    #[test]
    fn the_area_of_a_distribution_holds_every_seed() {
        let run = |delays: &[f64]| delays.iter().map(|d| Some(*d)).chain([None]).collect::<Vec<_>>();
        let band = spread(&[run(&[10.0, 20.0, 30.0]), run(&[15.0, 18.0, 60.0])]);
        // A quarter of each was never answered.
        assert!(band.iter().all(|p| p.1 <= 0.75) && band.contains(&(60.0, 0.75)) && band.contains(&(30.0, 0.75)));
        assert!(
            band.contains(&(10.0, 0.25)) && band.contains(&(15.0, 0.25)) && band.contains(&(20.0, 0.5)),
            "{band:?}"
        );
        assert_eq!(band.len() % 2, 0);
    }

    #[test]
    fn values_gather_in_their_bins() {
        let found = by_bin([(0.1, 3.0), (0.6, 5.0), (0.4, 1.0)].into_iter(), 0.5);
        assert_eq!(found, [(0.25, vec![1.0, 3.0]), (0.75, vec![5.0])]);
        assert_eq!(
            outline([(0.0, 1.0, 2.0), (1.0, 3.0, 4.0)].into_iter()),
            [(0.0, 2.0), (1.0, 4.0), (1.0, 3.0), (0.0, 1.0)]
        );
    }
}
