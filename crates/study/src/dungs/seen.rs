//! What a run gave: what arrived when, and what captures at the ends and on both sides of the proxy show.

use super::{BULK, Run};
use crate::observe::{ready, run_stack, short};
use crate::{StudyError, StudyOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use wavelane_base::text::ShownPath;
use wavelane_measure::{mean, percentile};
use wavelane_probe::trace::{self, BIN_S, Direction};
use wavelane_run::figures::of_run;
use wavelane_run::{CaptureExtent, FlowRaw, RunContext, RunError, RunHooks, StackRaw};
use wavelane_scenario::Scenario;

/// Points of a curve that is drawn.
const CURVE_MAX: usize = 200;
/// Width of the window of the averaged throughput (experiments' definition), in bins of a trace.
const WINDOW_BINS: usize = 10;
/// Bins in which a run's arrivals are kept.
const ARRIVAL_S: f64 = 0.5;

/// A point in time or place and a value.
pub(super) type Curve = Vec<(f64, f64)>;

/// The judged flow of a run, and of others what they carried.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Body bits a second, while it ran.
    pub(super) goodput_bps: f64,
    /// From connect() to the last byte, of a transfer with an end.
    pub(super) duration_s: Option<f64>,
    /// Body bits a second in each half second from the start on.
    pub(super) halves_bps: Vec<f64>,
    /// The longest time without an arrival: its begin and end.
    pub(super) pause_s: Option<(f64, f64)>,
    /// Goodput of the others.
    pub(super) others_bps: Vec<f64>,
    /// Captures, in the order of the path's points.
    pub(super) points: Vec<Point>,
    /// The median round trip of an echo.
    #[serde(default)]
    pub(super) echo_ms: Option<f64>,
    /// Why a run between kernels says nothing.
    #[serde(default)]
    pub(super) inconclusive: Option<String>,
    /// Most bytes that the proxy had acknowledged and the far end had not.
    pub(super) held: Option<f64>,
}

/// What a capture shows of the flow's direction of data.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) place: String,
    /// Round trips from here to the receiver: mean, standard deviation, mean difference of neighbours, in ms.
    pub(super) rtt_ms: Option<f64>,
    pub(super) deviation_ms: Option<f64>,
    pub(super) difference_ms: Option<f64>,
    pub(super) packets: f64,
    pub(super) data_packets: f64,
    pub(super) repeated_bytes: f64,
    pub(super) repeated: f64,
    pub(super) timeouts: f64,
    /// Unique bytes over the time from the first to the last.
    pub(super) transmission_bps: f64,
    /// Of a segment over the time since the one before: the median.
    pub(super) instant_bps: f64,
    /// In a sliding second: least (without the first and last) and most.
    pub(super) averaged_bps: (f64, f64),
    /// Acknowledgements without data from the receiver.
    pub(super) pure_acks: f64,
    /// From the first segment to the fourth.
    pub(super) fourth_s: Option<f64>,
    /// To draw: bits a second, round trips in ms and acknowledged bytes over time.
    pub(super) rate: Curve,
    pub(super) rtt: Curve,
    pub(super) acked: Curve,
}

impl Seen {
    pub(super) fn point(&self, place: &str) -> Option<&Point> {
        self.points.iter().find(|point| point.place == place)
    }
    /// Bits a second from one second to another.
    pub(super) fn between(&self, from: f64, until: f64) -> f64 {
        let at = |s: f64| (s / ARRIVAL_S).round() as usize;
        mean(self.halves_bps.get(at(from)..at(until).min(self.halves_bps.len())).unwrap_or_default()).unwrap_or(0.0)
    }
}

/// Runs it.
pub(super) fn observe(run: &Run, options: &StudyOptions, hooks: &RunHooks<'_>) -> Result<Seen, StudyError> {
    let (scenario, stack) = ready(&run.text, &run.stack, options.seed.0 + run.seed)?;
    let out = options.out.join(super::ID).join(format!("captures-{}", run.key()));
    let pcap = out.join("pcap");
    let unwritable = |e: std::io::Error| RunError::Unwritable { path: pcap.clone(), why: e.to_string() };
    let captured = !run.points.is_empty();
    if captured {
        let _ = std::fs::remove_dir_all(&out);
        std::fs::create_dir_all(&pcap).map_err(unwritable)?;
    }
    let mut context = RunContext {
        out: &out,
        label: "run".into(),
        captures: if captured { CaptureExtent::Headers } else { CaptureExtent::Off },
        progress: &mut |_| {},
        cancelled: hooks.cancelled,
    };
    let raw = match run.real {
        true => run_stack(&mut wavelane_lab::LabBackend, (&scenario, stack), &mut context),
        false => run_stack(&mut wavelane_sim::SimBackend, (&scenario, stack), &mut context),
    };
    let seen = raw.and_then(|raw| {
        let mut seen = of_raw(&scenario, &raw);
        let traced: Result<Vec<Traced>, RunError> = run
            .points
            .iter()
            .map(|place| traced(&pcap.join(format!("run-{place}.pcapng")), place, run.drawn))
            .collect();
        let traced = traced?;
        seen.held = held(&traced);
        seen.points = traced.into_iter().map(|traced| traced.point).collect();
        Ok(seen)
    });
    if captured {
        std::fs::remove_dir_all(&out).map_err(unwritable)?;
    } else if seen.is_ok() {
        // What the lab logged, if it ran there.
        let _ = std::fs::remove_dir_all(&out);
    }
    seen
}

fn of_raw(scenario: &Scenario, raw: &StackRaw) -> Seen {
    let figures = of_run(scenario, raw, scenario.seed);
    let rate = |flow: &FlowRaw| short(flow.octets as f64 * 8e9 / flow.given_ns.max(1) as f64);
    let mut seen = Seen { inconclusive: raw.inconclusive.clone(), ..Seen::default() };
    for (flow, figures) in raw.flows.iter().zip(&figures) {
        if flow.flow != BULK {
            seen.others_bps.push(figures.goodput_bps.map_or_else(|| rate(flow), short));
            continue;
        }
        // Datagrams have no goodput among the figures.
        seen.goodput_bps = figures.goodput_bps.map_or_else(|| rate(flow), short);
        let mut echoes: Vec<f64> = flow.probes.iter().filter_map(|probe| Some(probe.rtt_ns? as f64 / 1e6)).collect();
        echoes.sort_by(f64::total_cmp);
        seen.echo_ms = percentile(&echoes, 50).map(short);
        seen.duration_s = figures.duration_ms.map(|ms| short(ms / 1e3));
        let (mut halves, mut last) = (vec![0.0; (scenario.duration.as_secs_f64() / ARRIVAL_S) as usize], None);
        for &(at, octets) in &flow.arrivals {
            let at = at as f64 / 1e9;
            if let Some(half) = halves.get_mut((at / ARRIVAL_S) as usize) {
                *half += octets as f64 * 8.0 / ARRIVAL_S;
            }
            let pause = (last.unwrap_or(at), at);
            if seen.pause_s.is_none_or(|(from, to)| pause.1 - pause.0 > to - from) {
                seen.pause_s = Some((short(pause.0), short(pause.1)));
            }
            last = Some(at);
        }
        seen.halves_bps = halves.into_iter().map(f64::round).collect();
    }
    seen
}

/// A capture's figures, and acknowledged bytes by time of the run.
struct Traced {
    point: Point,
    acks: Curve,
}

fn traced(file: &Path, place: &str, drawn: bool) -> Result<Traced, RunError> {
    let unreadable = |why: String| RunError::Refused(format!("{}: {why}", file.shown()));
    let open = || File::open(file).map_err(|e| unreadable(e.to_string()));
    let found = trace::analyse(open()?, |_| true).map_err(|e| unreadable(e.to_string()))?;
    let document = trace::json(&found, place);
    let of = |at: usize, way: &str, key: &str| document["connections"][at][way][key].as_f64().unwrap_or(0.0);
    let unique = |at: usize, way: &str| of(at, way, "unique_bytes_sent");
    let ways = (0..found.connections.len()).flat_map(|at| [(at, 0, "a2b", "b2a"), (at, 1, "b2a", "a2b")]);
    let bulk = ways.max_by(|a, b| unique(a.0, a.2).total_cmp(&unique(b.0, b.2)));
    let (at, way, data, back) = bulk.ok_or_else(|| unreadable("no TCP connection".into()))?;
    let points = trace::points(open()?, &[at], |_| true).map_err(|e| unreadable(e.to_string()))?;
    let points = points.into_iter().next().map(|[a, b]| if way == 0 { a } else { b }).unwrap_or_default();
    let repeated = &document["connections"][at][data]["retransmits"];
    let count = |key: &str| repeated[key].as_f64().unwrap_or(0.0);
    let start = found.connections[at].first_ns as f64 / 1e9;
    let shifted = |points: &[(f64, f64)]| points.iter().map(|(t, v)| (t + start, *v)).collect::<Curve>();
    let acks: Curve = shifted(&points.acks.iter().map(|(t, octets)| (*t, *octets as f64)).collect::<Vec<_>>());
    let rtts: Vec<f64> = points.rtt_ms.iter().map(|(_, ms)| *ms).collect();
    let steps: Vec<f64> = rtts.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
    let averaged = averaged(&points);
    let draw = |curve: Curve| if drawn { thin(&curve) } else { Vec::new() };
    let point = Point {
        place: place.into(),
        rtt_ms: mean(&rtts).map(short),
        deviation_ms: wavelane_measure::sample_deviation(&rtts).map(short),
        difference_ms: mean(&steps).map(short),
        packets: of(at, data, "total_packets"),
        data_packets: of(at, data, "actual_data_pkts"),
        repeated_bytes: of(at, data, "rexmt_data_bytes"),
        repeated: of(at, data, "rexmt_data_pkts"),
        timeouts: count("timeouts"),
        transmission_bps: short(of(at, data, "goodput_bps")),
        instant_bps: short(instant(&points)),
        averaged_bps: inner(&averaged),
        pure_acks: of(at, back, "pure_acks_sent"),
        fourth_s: points.data.get(3).map(|fourth| short(fourth.0 - points.data[0].0)),
        rate: draw(shifted(&averaged)),
        rtt: draw(shifted(&points.rtt_ms)),
        acked: draw(acks.clone()),
    };
    Ok(Traced { point, acks })
}

/// The median of each segment's bits over the time since the one before.
fn instant(points: &Direction) -> f64 {
    let rate = |two: &[(f64, u64, u64)]| {
        let took = two[1].0 - two[0].0;
        (took > 0.0).then(|| (two[1].2 - two[1].1) as f64 * 8.0 / took)
    };
    let mut rates: Vec<f64> = points.data.windows(2).filter_map(rate).collect();
    rates.sort_by(f64::total_cmp);
    percentile(&rates, 50).unwrap_or(0.0)
}

/// Bits a second in the second that ends at each tenth.
fn averaged(points: &Direction) -> Curve {
    let last = points.octets.last().map_or(0, |(at, _)| (at / BIN_S).round() as usize);
    let mut bins = vec![0.0; last + 1];
    points.octets.iter().for_each(|(at, octets)| bins[(at / BIN_S).round() as usize] += *octets as f64 * 8.0);
    let width = WINDOW_BINS as f64 * BIN_S;
    let of = |end: usize| bins[(end + 1).saturating_sub(WINDOW_BINS)..=end].iter().sum::<f64>() / width;
    (0..bins.len()).map(|end| ((end + 1) as f64 * BIN_S, of(end))).collect()
}

/// Least and most, without the first and the last second.
fn inner(averaged: &Curve) -> (f64, f64) {
    let within = averaged.get(2 * WINDOW_BINS..averaged.len().saturating_sub(WINDOW_BINS)).unwrap_or_default();
    let least = within.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let most = within.iter().map(|point| point.1).fold(0.0, f64::max);
    if within.is_empty() { (0.0, 0.0) } else { (short(least), short(most)) }
}

fn thin(curve: &Curve) -> Curve {
    let every = curve.len().div_ceil(CURVE_MAX).max(1);
    curve.iter().step_by(every).map(|(t, v)| (short(*t), short(*v))).collect()
}

/// Most bytes between the acknowledgements of the proxy and those of the far end.
fn held(traced: &[Traced]) -> Option<f64> {
    let of = |place: &str| traced.iter().find(|traced| traced.point.place == place).map(|traced| &traced.acks);
    let (taken, given) = (of("p-wire")?, of("p-lan").or_else(|| of("p-air"))?);
    let (mut next, mut out, mut most) = (0, 0.0, 0.0_f64);
    for (at, octets) in taken {
        while let Some((_, acked)) = given.get(next).filter(|(when, _)| when <= at) {
            out = *acked;
            next += 1;
        }
        most = most.max(octets - out);
    }
    Some(most)
}

/// What is drawn, as text.
pub(super) fn kept(drawn: &[(&str, &Seen)]) -> Value {
    let all =
        drawn.iter().map(|(name, seen)| json!({ "name": name, "halves": seen.halves_bps, "points": seen.points }));
    all.collect()
}
