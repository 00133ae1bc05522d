//! From what a flow saw to the figures of the Record, by the definitions of `measure`.

use crate::backend::{FlowRaw, KernelTcp, LineRaw, PacketsRaw, Probe, RadioRaw, StackRaw, WayRaw};
use crate::people;
pub use crate::people::{VoiceFigures, WebFigures};
use crate::record::{CategoryFigures, KernelFigures, LineFigures, PacketFigures, RadioFigures, WayFigures};
use crate::schema::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wavelane_base::{Instant, Octets, Seed, Span};
use wavelane_measure::{Timing, WARM_UP, mean_ci95, percentile, ranked_ms};
use wavelane_scenario::{APPS, App, Flow, Scenario};

/// The figures of one flow in one run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowFigures {
    /// The flow's name.
    pub flow: String,
    /// Its application's word.
    #[schemars(extend("enum" = words(APPS)))]
    pub app: String,
    /// The run's seed.
    pub seed: u64,
    /// Whether all that was asked for arrived.
    pub completed: bool,
    /// Whether the receiver's hash matched.
    pub intact: Option<bool>,
    /// Receiver's bits per second, 0 if nothing arrived in the time given; `null` for an echo, or over an empty time.
    pub goodput_bps: Option<f64>,
    /// Application bytes received.
    pub bytes: u64,
    /// connect() to last byte; `null` if unfinished.
    pub duration_ms: Option<f64>,
    /// Median echo delay.
    pub rtt_p50_ms: Option<f64>,
    /// 95th percentile of echo delay.
    pub rtt_p95_ms: Option<f64>,
    /// 99th percentile of echo delay.
    pub rtt_p99_ms: Option<f64>,
    /// Echo probes that count, which are those that were due: also those that no connection could take.
    pub sent: Option<u64>,
    /// Those without answer.
    pub lost: Option<u64>,
    /// 95th percentile of the age of a download's bytes, from the sender's write to the receiver's read; fixed-time flows
    /// after the warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_p95_ms: Option<f64>,
    /// Of a fetch: how long its exchanges took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<FetchFigures>,
    /// Of a web flow: how long objects and pages took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<WebFigures>,
    /// Of a voice flow: what its listener got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice: Option<VoiceFigures>,
    /// connect(), since the run's start.
    pub connect_ms: f64,
    /// First and last byte at the receiver, since the run's start.
    pub first_byte_ms: Option<f64>,
    /// Last byte at the receiver, since the run's start.
    pub last_byte_ms: Option<f64>,
    /// Goodput over what the slowest channel of the way could carry in the same time, as timeline and outages leave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_share: Option<f64>,
}

/// How long the exchanges of a fetch took, each from its connect(). One that did not end counts as 5000 ms at
/// least.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FetchFigures {
    /// Mean time to the first byte of the body.
    pub first_byte_mean_ms: f64,
    /// Median time to the first byte of the body.
    pub first_byte_p50_ms: f64,
    /// Mean time to the last byte.
    pub total_mean_ms: f64,
    /// Median time to the last byte.
    pub total_p50_ms: f64,
}

pub(crate) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// How a flow ended.
fn timing(raw: &FlowRaw, app: &App) -> Timing {
    let asked = Instant::from_nanos(raw.connect_ns);
    let stop = asked + Span::from_nanos(raw.given_ns);
    let arrived = raw.first_byte_ns.zip(raw.last_byte_ns);
    match arrived.map(|(first, last)| (Instant::from_nanos(first), Instant::from_nanos(last))) {
        Some((first, _)) if app.is_fixed_time() => Timing::Fixed { asked, first, stop },
        Some((first, last)) if raw.completed => Timing::Finished { first, last },
        _ => Timing::Unfinished { asked, stop },
    }
}

/// The receiver's bytes over the time that counts.
fn goodput(raw: &FlowRaw, app: &App) -> Option<f64> {
    let arrivals = raw.arrivals.iter().map(|&(at, octets)| (Instant::from_nanos(at), Octets::new(octets)));
    wavelane_measure::goodput(arrivals, timing(raw, app))
}

/// The goodput of a bulk flow over what its link could carry meanwhile.
fn link_share(scenario: &Scenario, flow: &Flow, raw: &FlowRaw, goodput: f64) -> Option<f64> {
    let (from, until) = timing(raw, &flow.app).window();
    let link = scenario.link_bps(flow, from.since(Instant::ZERO), until.since(Instant::ZERO))?;
    // To a millionth: more digits would not read back as they were written.
    (link > 0.0).then(|| (goodput / link * 1e6).round() / 1e6)
}

/// Echo probes that were due from [`WARM_UP`] after connect() on and that no connection took.
fn unsent_probes(flow: &Flow, raw: &FlowRaw) -> Vec<Probe> {
    let App::Echo { every, .. } = flow.app else { return Vec::new() };
    let until = raw.probes.first().map_or(raw.connect_ns + raw.given_ns, |first| first.sent_ns);
    let from = raw.connect_ns + WARM_UP.as_nanos();
    let every = usize::try_from(every.as_nanos()).unwrap_or(usize::MAX).max(1);
    (from..until).step_by(every).map(|sent_ns| Probe { sent_ns, rtt_ns: None }).collect()
}

/// The probes that count: those due while the bulk flow ran, or all if there is none.
fn counted_probes<'a>(probes: impl Iterator<Item = &'a Probe>, bulk: Option<(&App, &FlowRaw)>) -> Vec<&'a Probe> {
    let (from, until) = match bulk {
        None => (0, u64::MAX),
        Some((app, bulk)) => {
            // A flow of a given time runs to its stop, whether or not bytes still arrive.
            let finished = bulk.last_byte_ns.filter(|_| bulk.completed && !app.is_fixed_time());
            (bulk.connect_ns, finished.unwrap_or(bulk.connect_ns + bulk.given_ns))
        }
    };
    probes.filter(|p| (from..=until).contains(&p.sent_ns)).collect()
}

/// Delays in ms, sorted; a lost one ranks last.
fn ranked(delays: impl Iterator<Item = Option<u64>>) -> Vec<f64> {
    ranked_ms(delays.map(|delay| delay.map(ms)))
}

/// The 95th percentile of the age of a bulk flow's bytes.
fn age_p95(raw: &FlowRaw, app: &App) -> Option<f64> {
    raw.first_byte_ns?;
    let from = timing(raw, app).window().0.since(Instant::ZERO).as_nanos();
    percentile(&ranked(raw.ages.iter().filter(|(at, _)| *at >= from).map(|(_, age)| Some(*age))), 95)
}

fn of_fetches(raw: &FlowRaw) -> Option<FetchFigures> {
    let firsts = ranked(raw.fetches.iter().map(|f| f.first_byte_ns));
    let totals = ranked(raw.fetches.iter().map(|f| f.total_ns));
    Some(FetchFigures {
        first_byte_mean_ms: mean_ci95(&firsts)?.0,
        first_byte_p50_ms: percentile(&firsts, 50)?,
        total_mean_ms: mean_ci95(&totals)?.0,
        total_p50_ms: percentile(&totals, 50)?,
    })
}

/// The figures of one flow. `bulk` is the application and raw material of the flow during which an echo counts.
pub fn of_flow(flow: &Flow, raw: &FlowRaw, bulk: Option<(&App, &FlowRaw)>, seed: Seed) -> FlowFigures {
    let is_bulk = flow.app.is_bulk();
    let heard = people::of_voice(flow, raw);
    // A call has no answers: its delays are one way, and its own figures.
    let unsent = unsent_probes(flow, raw);
    let all = unsent.iter().chain(&raw.probes);
    let probes = if is_bulk || heard.is_some() { Vec::new() } else { counted_probes(all, bulk) };
    let delays = ranked(probes.iter().map(|p| p.rtt_ns));
    // A fetch's exchanges are counted like probes.
    let fetched = |missing: bool| raw.fetches.iter().filter(|f| !missing || f.total_ns.is_none()).count() as u64;
    let (mut sent, mut lost) = (fetched(false), fetched(true));
    sent += heard.as_ref().map_or(probes.len() as u64, |heard| heard.sent);
    lost += heard.as_ref().map_or(probes.iter().filter(|p| p.rtt_ns.is_none()).count() as u64, |heard| heard.lost);
    FlowFigures {
        flow: flow.name.clone(),
        app: flow.app.word().to_owned(),
        seed: seed.0,
        completed: raw.completed,
        intact: raw.intact,
        goodput_bps: if is_bulk { goodput(raw, &flow.app) } else { None },
        bytes: raw.octets,
        duration_ms: raw
            .last_byte_ns
            .filter(|_| is_bulk && raw.completed)
            .map(|t| ms(t.saturating_sub(raw.connect_ns))),
        rtt_p50_ms: percentile(&delays, 50),
        rtt_p95_ms: percentile(&delays, 95),
        rtt_p99_ms: percentile(&delays, 99),
        sent: (!is_bulk).then_some(sent),
        lost: (!is_bulk).then_some(lost),
        age_p95_ms: age_p95(raw, &flow.app),
        fetch: if flow.app.word() == "fetch" { of_fetches(raw) } else { None },
        web: people::of_web(flow, raw),
        voice: heard,
        connect_ms: ms(raw.connect_ns),
        first_byte_ms: raw.first_byte_ns.map(ms),
        last_byte_ms: raw.last_byte_ns.map(ms),
        link_share: None,
    }
}

/// The figures of every flow of one run, in the scenario's order.
pub fn of_run(scenario: &Scenario, raw: &StackRaw, seed: Seed) -> Vec<FlowFigures> {
    let find = |name: &str| raw.flows.iter().find(|f| f.flow == name);
    let figures = scenario.flows.iter().filter_map(|flow| {
        let bulk = scenario.bulk_of(flow).and_then(|bulk| Some((&bulk.app, find(&bulk.name)?)));
        let raw = find(&flow.name)?;
        let figures = of_flow(flow, raw, bulk, seed);
        let link_share = figures.goodput_bps.and_then(|goodput| link_share(scenario, flow, raw, goodput));
        Some(FlowFigures { link_share, ..figures })
    });
    figures.collect()
}

/// The figures of one direction of a serial line.
pub fn of_line(raw: &LineRaw, seed: Seed) -> LineFigures {
    let tally = &raw.tally;
    LineFigures {
        channel: raw.channel.clone(),
        way: raw.way.to_owned(),
        seed: seed.0,
        packets: tally.packets,
        packet_bytes: tally.packet_octets,
        full: tally.full,
        down: tally.down,
        too_long: tally.too_long,
        sent: tally.sent,
        sent_bytes: tally.sent_octets,
        received: tally.received,
        bad: tally.bad,
        noise: tally.noise,
        overrun: tally.overrun,
    }
}

/// The figures of one radio cell.
pub fn of_radio(raw: &RadioRaw, seed: Seed) -> RadioFigures {
    let seconds = raw.span.as_secs_f64();
    let per_s = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    RadioFigures {
        channel: raw.channel.clone(),
        seed: seed.0,
        frames_per_s: per_s(raw.frames),
        data_per_s: per_s(raw.data),
        rts_per_s: per_s(raw.rts),
        ack_missing_per_s: per_s(raw.ack_missing),
        cts_missing_per_s: per_s(raw.cts_missing),
        given_up_per_s: per_s(raw.given_up),
        queue_full_per_s: per_s(raw.queue_full),
        dropped_delay_per_s: raw.dropped_delay.map(per_s),
        categories: raw
            .categories
            .iter()
            .map(|c| CategoryFigures {
                category: c.category.to_owned(),
                delivered_bps: per_s(c.delivered_octets) * 8.0,
                data_per_s: per_s(c.data),
                ack_missing_per_s: per_s(c.ack_missing),
                gave_way_per_s: per_s(c.gave_way),
                given_up_per_s: per_s(c.given_up),
                queue_full_per_s: per_s(c.queue_full),
                dropped_delay_per_s: c.dropped_delay.map(per_s),
            })
            .collect(),
        uncoded_loss: raw.errors.and_then(|e| share(e.uncoded.1, e.uncoded.0)),
        coded_loss: raw.errors.and_then(|e| share(e.coded.1, e.coded.0)),
        coded_share: raw.errors.and_then(|e| share(e.coded.0, e.coded.0 + e.uncoded.0)),
    }
}

/// A part of a whole; `None` if the whole is nothing.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What the figures of a whole stack are sums of, of one run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunTotals {
    /// The run's seed.
    pub seed: u64,
    /// Bytes that all flows delivered.
    pub delivered_bytes: u64,
    /// IP bytes offered to the channels between gateways; 0 where nobody counts them.
    pub wire_bytes: u64,
    /// The gateways' bytes of repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_bytes: Option<u64>,
    /// The gateways' bytes of first transmissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_bytes: Option<u64>,
    /// Processor seconds of the gateways' or the peer's processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// The whole machine's busy seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_s: Option<f64>,
    /// Why the run is inconclusive, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inconclusive: Option<String>,
}

impl RunTotals {
    /// Of one run.
    pub fn of(raw: &StackRaw, seed: Seed) -> Self {
        Self {
            seed: seed.0,
            delivered_bytes: raw.flows.iter().map(|f| f.octets).sum(),
            wire_bytes: raw.wire_octets,
            repair_bytes: raw.repair_octets,
            first_bytes: raw.first_octets,
            cpu_s: raw.spent.programs_s,
            machine_s: raw.spent.machine_s,
            inconclusive: raw.inconclusive.clone(),
        }
    }
}

fn delivered(runs: &[RunTotals]) -> u64 {
    runs.iter().map(|r| r.delivered_bytes).sum()
}

/// IP bytes offered to the bad channel over bytes delivered, of one or several runs; `None` where no such bytes were
/// counted, as in radio cells.
pub fn wire_bytes_per_delivered_byte(runs: &[RunTotals]) -> Option<f64> {
    let (wire, delivered) = (runs.iter().map(|r| r.wire_bytes).sum::<u64>(), delivered(runs));
    (delivered > 0 && wire > 0).then(|| wire as f64 / delivered as f64)
}

/// Processor seconds per 10^9 delivered bytes, of one or several runs; `None` unless every run has them.
pub fn seconds_per_gb(runs: &[RunTotals], of: fn(&RunTotals) -> Option<f64>) -> Option<f64> {
    let (seconds, delivered) = (runs.iter().map(of).sum::<Option<f64>>()?, delivered(runs));
    (delivered > 0).then(|| seconds * 1e9 / delivered as f64)
}

/// What was offered to one direction of a cable.
pub fn of_way(raw: &WayRaw, seed: Seed) -> WayFigures {
    let (channel, way, offered_bytes) = (raw.channel.clone(), raw.way.to_owned(), raw.octets);
    WayFigures { channel, way, seed: seed.0, offered_bytes }
}

/// What a node's kernel counted.
pub fn of_kernel(raw: &KernelTcp, seed: Seed) -> KernelFigures {
    let (segments_sent, segments_repeated) = (raw.sent, raw.repeated);
    KernelFigures { node: raw.node.clone(), seed: seed.0, segments_sent, segments_repeated }
}

/// What the packet service counted.
pub fn of_packets(raw: &PacketsRaw, seed: Seed) -> PacketFigures {
    let PacketsRaw { sent, repeated, spurious, .. } = *raw;
    PacketFigures { seed: seed.0, packets_sent: sent, packets_repeated: repeated, packets_spurious: spurious }
}

/// Repair bytes over first transmissions, of one or several runs; `None` unless every run counted both.
pub fn repair_share(runs: &[RunTotals]) -> Option<f64> {
    let sum = |of: fn(&RunTotals) -> Option<u64>| runs.iter().map(of).sum::<Option<u64>>();
    let (repair, first) = (sum(|r| r.repair_bytes)?, sum(|r| r.first_bytes)?);
    (first > 0).then(|| repair as f64 / first as f64)
}

#[cfg(test)]
#[path = "figures_tests.rs"]
mod tests;
