//! `probe.json`, and the curves beside it. Keys end in their units; every number is finite or null.

use crate::figures::{clock_line, exchange, ms, round_trip};
use crate::plan::{Beside, Measurement, SocketDrops, StageKind};
use serde::Serialize;
use wavelane_base::Instant;

/// The document's format.
pub const FORMAT: &str = "wavelane-probe/1";

/// One code point in one phase.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassFigures {
    /// The code point (RFC 2474) that probes and echoes were sent with.
    pub dscp: u8,
    /// See [`PhaseFigures`].
    pub foreign_p50_ms: Option<f64>,
    /// See [`PhaseFigures`].
    pub foreign_p95_ms: Option<f64>,
    /// See [`PhaseFigures`].
    pub foreign_p99_ms: Option<f64>,
    /// See [`PhaseFigures`].
    pub loss_down: Option<f64>,
    /// See [`PhaseFigures`].
    pub loss_up: Option<f64>,
    /// Probes sent.
    pub probes: u64,
}

/// One phase. Delays and goodput cover the part after the warm-up, loss and reordering the whole phase.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PhaseFigures {
    /// idle, down, up or both.
    pub phase: &'static str,
    /// Its length.
    pub seconds: f64,
    /// Goodput at the receivers, both directions together; null without load.
    pub goodput_bps: Option<f64>,
    /// The same, downstream.
    pub goodput_down_bps: Option<f64>,
    /// The same, upstream.
    pub goodput_up_bps: Option<f64>,
    /// RTT of UDP probes beside the load, for an HTTP server RTT of TCP handshakes; a lost probe ranks last, and null means lost.
    pub foreign_p50_ms: Option<f64>,
    /// See `foreign_p50_ms`.
    pub foreign_p95_ms: Option<f64>,
    /// See `foreign_p50_ms`.
    pub foreign_p99_ms: Option<f64>,
    /// Mean of the answered probes.
    pub foreign_mean_ms: Option<f64>,
    /// Maximum of the answered probes.
    pub foreign_max_ms: Option<f64>,
    /// The mean minus the idle phase's median.
    pub rise_ms: Option<f64>,
    /// RTT of requests inside the connections under load; it includes data held back by their sender.
    pub self_p50_ms: Option<f64>,
    /// See `self_p50_ms`.
    pub self_p95_ms: Option<f64>,
    /// TCP handshakes of short connections.
    pub connect_p50_ms: Option<f64>,
    /// Requests on them.
    pub request_p50_ms: Option<f64>,
    /// One-way delay, clocks' offset and drift removed; the idle path is assumed to be symmetric.
    pub owd_down_p50_ms: Option<f64>,
    /// See `owd_down_p50_ms`.
    pub owd_down_p95_ms: Option<f64>,
    /// See `owd_down_p50_ms`.
    pub owd_up_p50_ms: Option<f64>,
    /// See `owd_down_p50_ms`.
    pub owd_up_p95_ms: Option<f64>,
    /// Share of echoes lost.
    pub loss_down: Option<f64>,
    /// Share of probes lost.
    pub loss_up: Option<f64>,
    /// Echoes lost.
    pub lost_down: u64,
    /// Probes lost.
    pub lost_up: u64,
    /// Probes and echoes received out of order.
    pub reordered: u64,
    /// Probes received out of order.
    pub reordered_up: u64,
    /// Echoes received out of order.
    pub reordered_down: u64,
    /// Probes sent.
    pub probes: u64,
    /// Skipped because the measuring machine was busy for more than 100 ms.
    pub probes_skipped: u64,
    /// Share of small packets without an answer in the part that the delays cover; what sockets dropped is left out.
    pub unanswered_share: f64,
    /// Those within the part covered by the delays.
    pub probes_counted: u64,
    /// Answers inside the load within that part.
    pub self_probes: u64,
    /// Failed requests inside the load, in the whole phase.
    pub self_failures: u64,
    /// Short connections made.
    pub connections: u64,
    /// Congestion controls in use where load was sent.
    pub congestion_control: Vec<String>,
    /// Connections that failed.
    pub load_failures: u64,
    /// Round trips per minute of this phase.
    pub rpm: Option<f64>,
    /// See [`ProbeDocument::rpm_confidence`].
    pub rpm_confidence: Option<&'static str>,
    /// Bytes in flight divided by the idle path's capacity at this rate.
    pub bloat_ratio: Option<f64>,
    /// Further code points.
    pub classes: Vec<ClassFigures>,
}

/// Location of the queue.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueAt {
    /// Hops from here; 0 is this host. Null if unknown.
    pub hop: Option<u8>,
    /// Direction in which it was found: down or up.
    pub direction: &'static str,
    /// Its owner.
    pub what: String,
    /// What to change.
    pub remedy: String,
    /// Evidence: hops, vantage, vantage and hops; or cannot tell.
    pub by: &'static str,
    /// Why a second vantage was not used; null if it was, or if there was none.
    pub doubt: Option<String>,
    /// RTT increase of each hop under that load.
    pub rises: Vec<HopRise>,
}

/// A second vantage in one phase.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VantagePhase {
    /// idle, down, up or both.
    pub phase: &'static str,
    /// RTT of UDP probes; a lost one ranks last, and null means lost.
    pub p50_ms: Option<f64>,
    /// See `p50_ms`.
    pub p95_ms: Option<f64>,
    /// The median minus the idle phase's.
    pub rise_ms: Option<f64>,
    /// Probes sent.
    pub probes: u64,
}

/// A second vantage.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VantageFigures {
    /// As the user named it.
    pub target: String,
    /// The phases in order.
    pub phases: Vec<VantagePhase>,
}

/// A hop's rise.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HopRise {
    /// Hops from here.
    pub hop: u8,
    /// Its address.
    pub address: String,
    /// Median RTT without load.
    pub idle_ms: f64,
    /// Median RTT under load.
    pub loaded_ms: f64,
    /// Number of answers for the second.
    pub answers: u64,
}

/// One figure in plain words.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explained {
    /// Which.
    pub figure: &'static str,
    /// One sentence.
    pub sentence: String,
}

/// What `--json` prints.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProbeDocument {
    /// [`FORMAT`].
    pub format: &'static str,
    /// As the user named it.
    pub target: String,
    /// Protocol family of the server's answers: `wavelane` or `networkquality`.
    pub method: &'static str,
    /// Its protocol.
    pub protocol: &'static str,
    /// In order: idle, down, up, both, as far as they were measured.
    pub phases: Vec<PhaseFigures>,
    /// The idle path again, after the load.
    pub after: Option<PhaseFigures>,
    /// Round trips per minute, of the worst phase; null if a phase of load has none.
    pub rpm: Option<f64>,
    /// The draft that defines it.
    pub rpm_draft: &'static str,
    /// low, medium or high.
    pub rpm_confidence: Option<&'static str>,
    /// The worst phase.
    pub rpm_phase: Option<&'static str>,
    /// The draft's word for it.
    pub rpm_class: Option<&'static str>,
    /// It is as low as the small packets lost beside the load allow; the draft has samples of answers only.
    pub rpm_bounded_by_loss: bool,
    /// The letter grade.
    pub grade: Option<&'static str>,
    /// Why it is worse than the delays are, or missing; null if the delays alone decide.
    pub grade_bound: Option<String>,
    /// Its scale.
    pub grade_scale: &'static str,
    /// The worst phase's.
    pub bloat_ratio: Option<f64>,
    /// The hop whose delay rises; null if none rises much.
    pub queue_at: Option<QueueAt>,
    /// The same of the other direction, if its delay rises as well.
    pub queue_at_other: Option<QueueAt>,
    /// A nearer server that was probed at the same time, if one was named.
    pub vantage: Option<VantageFigures>,
    /// Bandwidth of the UDP probes in each direction, with headers; 0 without them.
    pub probe_cost_bps: f64,
    /// Drift of the server's clock relative to ours.
    pub clock_drift_ppm: Option<f64>,
    /// The user stopped it early.
    pub interrupted: bool,
    /// How often the session was lost and opened again.
    pub sessions_reopened: u32,
    /// Datagrams dropped by sockets, not by the network.
    pub socket_drops: SocketDrops,
    /// Remarks for the reader.
    pub notes: Vec<String>,
    /// The figures in plain words.
    pub explained: Vec<Explained>,
    /// Where the record is stored; empty if it could not be.
    pub record: String,
}

impl ProbeDocument {
    /// The JSON text with a final newline.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a document of strings and numbers has a JSON form");
        text + "\n"
    }
}

/// A probe's point on the curves.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// The stage's kind.
    pub kind: StageKind,
    /// Code point.
    pub dscp: u8,
    /// Seconds since the first stage began.
    pub at_s: f64,
    /// `None` if it was lost.
    pub rtt_ms: Option<f64>,
    /// One-way delay to the server.
    pub up_ms: Option<f64>,
    /// One-way delay back.
    pub down_ms: Option<f64>,
    /// Known to have reached the server.
    pub reached: bool,
}

/// All probes in order of time.
pub fn points(m: &Measurement) -> Vec<Point> {
    let line = clock_line(m);
    let start = m.stages.first().map_or(Instant::ZERO, |stage| stage.from);
    let mut all: Vec<Point> = Vec::new();
    for train in &m.trains {
        let Some(stage) = m.stages.get(train.label as usize) else { continue };
        all.extend(train.samples.iter().map(|s| Point {
            kind: stage.kind,
            dscp: train.dscp,
            at_s: s.sent.since(start).as_secs_f64(),
            rtt_ms: round_trip(s).map(ms),
            up_ms: exchange(s).and_then(|e| Some(line?.up_ms(&e))),
            down_ms: exchange(s).and_then(|e| Some(line?.down_ms(&e))),
            reached: s.reached,
        }));
    }
    if m.beside != Beside::Datagrams {
        all.extend(m.stages.iter().flat_map(|stage| stage.smalls.iter().map(move |small| (stage.kind, small))).map(
            |(kind, small)| Point {
                kind,
                dscp: 0,
                at_s: small.begun.since(start).as_secs_f64(),
                rtt_ms: Some(ms(small.connect)),
                up_ms: None,
                down_ms: None,
                reached: true,
            },
        ));
    }
    all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    all
}

/// Goodput over time: seconds, and bits per second downstream and upstream in the bin that ends there.
pub fn goodput_curve(m: &Measurement) -> Vec<(f64, f64, f64)> {
    const BIN_S: f64 = 0.25;
    let start = m.stages.first().map_or(Instant::ZERO, |stage| stage.from);
    let end = m.stages.last().map_or(start, |stage| stage.to);
    let bins = (end.since(start).as_secs_f64() / BIN_S).ceil() as usize;
    let mut curve: Vec<(f64, f64, f64)> = (1..=bins).map(|i| (i as f64 * BIN_S, 0.0, 0.0)).collect();
    let bin = |at: Instant| (at.since(start).as_secs_f64() / BIN_S) as usize;
    for stage in &m.stages {
        for w in stage.received.windows(2) {
            if let Some(slot) = curve.get_mut(bin(w[1].0)) {
                slot.1 += w[1].1.saturating_sub(w[0].1) as f64 * 8.0 / BIN_S;
            }
        }
        for w in stage.sent.windows(2) {
            if let Some(slot) = curve.get_mut(bin(w[1].0)) {
                slot.2 += w[1].1.saturating_sub(w[0].1) as f64 * 8.0 / BIN_S;
            }
        }
    }
    let mut told: Vec<(Instant, u64)> =
        m.trains.iter().flat_map(|t| &t.samples).filter_map(|s| s.echo.map(|(e, back)| (back, e.loaded))).collect();
    told.sort_unstable();
    for w in told.windows(2) {
        if let Some(slot) = curve.get_mut(bin(w[1].0)) {
            slot.2 += w[1].1.saturating_sub(w[0].1) as f64 * 8.0 / BIN_S;
        }
    }
    curve
}
