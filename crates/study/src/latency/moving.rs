//! A link whose rate moves, and a shaper before it: at fixed rates, and at one that follows.
//!
//! Four CUBIC uploads and probes as often as the daemon asks a probe server, in virtual time: TCP - shaper (FQ-CoDel at its rate) - link (a deep FIFO at the
//! trace's rate) - TCP. The probe's answer tells [`Autorate`] the one-way delay, as the daemon's reflector does.

use super::traces::{RECORDED, STEP, TRACE_S, Trace};
use super::{ID, MOVING};
use crate::cells::{Aim, Head};
use crate::document::Row;
use crate::kept::Kept;
use crate::observe::unwritable;
use crate::runner::Runner;
use crate::{StudyError, StudyOptions};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::VecDeque;
use std::net::SocketAddr;
use wavelane_base::{FrameMeta, Instant, Machine, Octets, PortId, Rate, ReadOutcome, Seed, Span, Streams};
use wavelane_channel::Direction::Forward;
use wavelane_channel::{Cable, CableConfig, CoDelTimes, DirectionConfig, Discipline, Parameter, QueueLimit, Queueing};
use wavelane_measure::{Autorate, AutorateTerms, RISE_DEFAULT};
use wavelane_run::{RunError, RunHooks};
use wavelane_tcp::{Config, Host, HostEvent};

/// Packets that wait before the moving link, as in a modem of the time.
const LINK_QUEUE: u64 = 1_000;
/// A question to a probe server, with the headers of IPv4 and UDP.
const PROBE_OCTETS: usize = 100;
/// Figures begin then: the start of the upload is over.
const SETTLE: Span = Span::from_secs(5);
/// What was carried is counted over this time.
const CARRIED_OVER: Span = Span::from_millis(200);
/// Fixed rates, in tenths of the trace's mean.
const TENTHS: [u64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
/// What the follower is told: a tenth of the mean, half of it and three times it.
const BOUNDS: [(u64, u64); 3] = [(1, 10), (1, 2), (3, 1)];
/// What is wanted of the recorded link: so much of the goodput without a shaper, and no more added to its delay.
const GOODPUT_KEPT: f64 = 0.93;
const ADDED_MS: f64 = 30.0;
/// The uploads come from this port and the next ones: as many as `wavelane cure` loads a link with.
const UPLOADS: u16 = 4;
const SENDER: &str = "192.0.2.1:40000";
const RECEIVER: &str = "192.0.2.2:5000";
/// A probe is no IP packet: it begins with a zero.
const PROBE_MARK: u8 = 0;

/// What sets the shaper's rate.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Setting {
    /// There is no shaper.
    None,
    /// This many tenths of the trace's mean.
    Fixed(u64),
    /// The estimator.
    Auto,
}

impl Setting {
    fn words(self) -> String {
        match self {
            Self::None => "none".into(),
            Self::Fixed(tenths) => format!("{}.{} of the mean", tenths / 10, tenths % 10),
            Self::Auto => "autorate".into(),
        }
    }
}

/// What came out of one run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(into = "[u64; 4]", from = "[u64; 4]")]
struct Outcome {
    goodput_bps: f64,
    p50_ms: f64,
    p95_ms: f64,
    /// 95th percentile of what the queues add to the path's own delay.
    added_p95_ms: f64,
}

// As bits: a lost probe counts as the longest time there is, which a decimal reader calls out of range.
impl From<Outcome> for [u64; 4] {
    fn from(outcome: Outcome) -> Self {
        [outcome.goodput_bps, outcome.p50_ms, outcome.p95_ms, outcome.added_p95_ms].map(f64::to_bits)
    }
}

impl From<[u64; 4]> for Outcome {
    fn from(bits: [u64; 4]) -> Self {
        let [goodput_bps, p50_ms, p95_ms, added_p95_ms] = bits.map(f64::from_bits);
        Self { goodput_bps, p50_ms, p95_ms, added_p95_ms }
    }
}

impl Outcome {
    /// Whether it is better in both.
    fn beats(&self, other: &Self) -> bool {
        self.goodput_bps > other.goodput_bps && self.p95_ms < other.p95_ms
    }
}

struct Bench {
    now: Instant,
    sender: Host,
    receiver: Host,
    shaper: Cable,
    link: Cable,
    frame: Vec<u8>,
    /// When each probe was sent, and how long it took there.
    probes: Vec<(Instant, Option<Span>)>,
    /// When each that was answered was sent, and how many milliseconds it took there.
    answers: Vec<(Instant, f64)>,
    /// Octets that left the shaper, and the counts of the last moments.
    carried: u64,
    counts: VecDeque<(Instant, u64)>,
    read: u64,
    read_before: u64,
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("a constant")
}

fn direction(rate: Option<Rate>, delay: Span, queue: u64, discipline: Discipline) -> DirectionConfig {
    let queueing = Queueing { discipline, ring: 0 };
    DirectionConfig { rate, delay, queue: QueueLimit::Packets(queue), queueing, ..DirectionConfig::default() }
}

impl Bench {
    fn new(trace: &Trace, rate: Option<Rate>) -> Self {
        let seed = Seed(1);
        let cable = |name: &str, forward: DirectionConfig, back: Span| {
            let reverse = direction(None, back, LINK_QUEUE, Discipline::Fifo);
            Cable::new(seed, name, CableConfig { forward, reverse }).expect("a cable in order")
        };
        let sorted = Discipline::FqCoDel(CoDelTimes::default());
        let (first, delay) = trace.at(0);
        let mut forward = direction(Some(first), delay, LINK_QUEUE, Discipline::Fifo);
        if let Some((rate, delay)) = trace.recording.clone() {
            forward.rate = None;
            forward.rate_trace = Some(rate);
            forward.delay_trace = Some(delay);
        }
        let mut receiver = Host::new(Config::default(), seed.entropy("receiver"));
        receiver.listen(address(RECEIVER));
        Self {
            now: Instant::ZERO,
            sender: Host::new(Config::default(), seed.entropy("sender")),
            receiver,
            shaper: cable("shaper", direction(rate, Span::ZERO, 10_240, sorted), Span::ZERO),
            link: cable("link", forward, delay),
            frame: vec![0; 2_048],
            probes: Vec::new(),
            answers: Vec::new(),
            carried: 0,
            counts: VecDeque::new(),
            read: 0,
            read_before: 0,
        }
    }

    fn meta(&self, flow: u64) -> FrameMeta {
        FrameMeta { rx_time: self.now, flow, ..FrameMeta::default() }
    }

    fn probe(&mut self) {
        let mut probe = [PROBE_MARK; PROBE_OCTETS];
        probe[4..8].copy_from_slice(&(self.probes.len() as u32).to_be_bytes());
        self.probes.push((self.now, None));
        let meta = self.meta(1);
        self.shaper.handle_frame(self.now, PortId(0), &mut probe, meta);
    }

    /// Which probe a frame is.
    fn number(frame: &[u8]) -> Option<usize> {
        let number = frame.get(4..8).filter(|_| frame[0] == PROBE_MARK)?;
        Some(u32::from_be_bytes(number.try_into().ok()?) as usize)
    }

    /// Moves whatever can move now.
    fn settle(&mut self) {
        loop {
            let (now, mut moved) = (self.now, false);
            let mut frame = std::mem::take(&mut self.frame);
            while let Some(sent) = self.sender.poll_transmit(now, PortId(0), &mut frame, 1) {
                let meta = self.meta(2);
                self.shaper.handle_frame(now, PortId(0), &mut frame[..sent.len], meta);
                moved = true;
            }
            while let Some(sent) = self.shaper.poll_transmit(now, PortId(1), &mut frame, 1) {
                self.carried += sent.len as u64;
                let meta = self.meta(0);
                self.link.handle_frame(now, PortId(0), &mut frame[..sent.len], meta);
                moved = true;
            }
            while let Some(sent) = self.link.poll_transmit(now, PortId(1), &mut frame, 1) {
                let meta = self.meta(0);
                if let Some(number) = Self::number(&frame[..sent.len]) {
                    let (asked, took) = &mut self.probes[number];
                    *took = Some(now.since(*asked));
                    self.link.handle_frame(now, PortId(1), &mut frame[..sent.len], meta);
                } else {
                    self.receiver.handle_frame(now, PortId(0), &mut frame[..sent.len], meta);
                }
                moved = true;
            }
            while let Some(sent) = self.receiver.poll_transmit(now, PortId(0), &mut frame, 1) {
                let meta = self.meta(0);
                self.link.handle_frame(now, PortId(1), &mut frame[..sent.len], meta);
                moved = true;
            }
            while let Some(sent) = self.link.poll_transmit(now, PortId(0), &mut frame, 1) {
                if let Some((asked, Some(took))) = Self::number(&frame[..sent.len]).map(|number| self.probes[number]) {
                    self.answers.push((asked, took.as_secs_f64() * 1e3));
                } else {
                    let meta = self.meta(0);
                    self.sender.handle_frame(now, PortId(0), &mut frame[..sent.len], meta);
                }
                moved = true;
            }
            self.frame = frame;
            moved |= self.applications();
            if !moved {
                return;
            }
        }
    }

    /// The sender writes what it may, the receiver reads what there is.
    fn applications(&mut self) -> bool {
        static DATA: [u8; 65_536] = [7; 65_536];
        let mut moved = false;
        while let Some(event) = self.sender.poll_event() {
            if let HostEvent::Connection(flow, _) = event {
                while self.sender.write(self.now, flow, &DATA) > 0 {
                    moved = true;
                }
            }
        }
        while let Some(event) = self.receiver.poll_event() {
            let flow = match event {
                HostEvent::Accepted { flow, .. } | HostEvent::Connection(flow, _) => flow,
            };
            let mut buffer = [0; 65_536];
            while let ReadOutcome::Data(octets @ 1..) = self.receiver.read(self.now, flow, &mut buffer) {
                self.read += octets as u64;
                moved = true;
            }
        }
        moved
    }

    /// What the shaper let out in the last moments.
    fn carried_lately(&mut self) -> Rate {
        self.counts.push_back((self.now, self.carried));
        while self.counts.len() > 2 && self.counts.get(1).is_some_and(|(at, _)| self.now.since(*at) >= CARRIED_OVER) {
            self.counts.pop_front();
        }
        let (since, octets) = self.counts.front().copied().unwrap_or((self.now, self.carried));
        Rate::of(Octets::new(self.carried - octets), self.now.since(since))
    }

    fn machines(&mut self) -> [&mut dyn Wakes; 4] {
        [&mut self.sender, &mut self.receiver, &mut self.shaper, &mut self.link]
    }
}

/// The part of a machine that depends on time.
trait Wakes {
    fn next(&self) -> Option<Instant>;
    fn wake(&mut self, now: Instant);
}

impl<M: Machine> Wakes for M {
    fn next(&self) -> Option<Instant> {
        self.poll_timeout().map(|wakeup| wakeup.at)
    }
    fn wake(&mut self, now: Instant) {
        if self.next().is_some_and(|at| at <= now) {
            self.handle_timeout(now);
        }
    }
}

/// Runs one upload, by several connections.
fn run_one(trace: &Trace, setting: Setting) -> Outcome {
    let mean = trace.mean();
    let [least, middle, most] = BOUNDS.map(|(n, d)| mean.scale(n, d));
    let mut estimator = Autorate::new(Instant::ZERO, AutorateTerms { least, middle, most, rise: RISE_DEFAULT });
    let rate = match setting {
        Setting::None => None,
        Setting::Fixed(tenths) => Some(mean.scale(tenths, 10)),
        Setting::Auto => Some(estimator.rate()),
    };
    let mut bench = Bench::new(trace, rate);
    for number in 0..UPLOADS {
        let mut from = address(SENDER);
        from.set_port(from.port() + number);
        bench.sender.connect(Instant::ZERO, from, address(RECEIVER)).expect("one of few connections");
    }
    let end = Instant::ZERO + Span::from_secs(TRACE_S);
    let (mut next_probe, mut next_step) = (Instant::ZERO, 1usize);
    while bench.now < end {
        if bench.now >= next_probe {
            bench.probe();
            next_probe += estimator.ask_every(PROBE_OCTETS as u64);
        }
        let step_at = Instant::ZERO + STEP.times(next_step as u64);
        if bench.now >= step_at && trace.recording.is_some() {
            next_step += 1;
        } else if bench.now >= step_at {
            let (rate, delay) = trace.at(next_step);
            let now = bench.now;
            for parameter in [Parameter::Rate(Some(rate)), Parameter::Delay(delay)] {
                bench.link.set(now, Forward, parameter).expect("a rate and a delay in order");
            }
            next_step += 1;
        }
        bench.settle();
        if setting == Setting::Auto && !bench.answers.is_empty() {
            let carried = bench.carried_lately();
            for (asked, delay) in std::mem::take(&mut bench.answers) {
                estimator.sample(bench.now, asked, delay, carried);
            }
            let now = bench.now;
            bench.shaper.set(now, Forward, Parameter::Rate(Some(estimator.rate()))).expect("a rate in order");
            bench.settle();
        }
        if bench.now < Instant::ZERO + SETTLE {
            bench.read_before = bench.read;
        }
        let (now, own) = (bench.now, next_probe.min(Instant::ZERO + STEP.times(next_step as u64)));
        let soonest = bench.machines().iter().filter_map(|machine| machine.next()).fold(own, Instant::min);
        bench.now = soonest.max(now);
        let now = bench.now;
        bench.machines().into_iter().for_each(|machine| machine.wake(now));
    }
    outcome(&bench, trace, end)
}

fn outcome(bench: &Bench, trace: &Trace, end: Instant) -> Outcome {
    // One that is still in flight, or was dropped, counts as longer than any.
    let counted = || bench.probes.iter().filter(|(asked, _)| *asked >= Instant::ZERO + SETTLE);
    let sorted = |of: &dyn Fn(Instant, Span) -> f64| {
        let mut all: Vec<f64> = counted().map(|(asked, took)| took.map_or(f64::MAX, |took| of(*asked, took))).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let delays = sorted(&|_, took| took.as_secs_f64() * 1e3);
    // The path's own delay is that of the moment at which it was sent, near enough.
    let added = sorted(&|asked, took| (took.as_secs_f64() - trace.delay_at(asked).as_secs_f64()) * 1e3);
    let quantile = |of: &[f64], percent: usize| of[(of.len() * percent).div_ceil(100) - 1];
    let seconds = end.since(Instant::ZERO + SETTLE).as_secs_f64();
    let octets = bench.read - bench.read_before;
    let [p50_ms, p95_ms] = [50, 95].map(|percent| quantile(&delays, percent));
    Outcome { goodput_bps: octets as f64 * 8.0 / seconds, p50_ms, p95_ms, added_p95_ms: quantile(&added, 95) }
}

fn head(trace: &Trace, setting: &str) -> Head {
    Head::sim(ID, &[("link", json!(trace.name)), ("shaper", json!(setting))], "tcp-cubic")
}

/// One trace's rows: each setting's figures, and how many fixed rates are better in both.
fn rows_of(trace: &Trace, outcomes: &[(Setting, Outcome)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (setting, outcome) in outcomes {
        let head = head(trace, &setting.words());
        rows.push(head.row("goodput_bps", "bit/s", &[outcome.goodput_bps]));
        rows.push(head.row("owd_p50_ms", "ms", &[outcome.p50_ms]));
        rows.push(head.row("owd_p95_ms", "ms", &[outcome.p95_ms]));
        rows.push(head.row("added_p95_ms", "ms", &[outcome.added_p95_ms]));
    }
    let Some((_, auto)) = outcomes.iter().find(|(setting, _)| *setting == Setting::Auto) else { return rows };
    if let Some((_, bare)) = outcomes.iter().find(|(setting, _)| *setting == Setting::None && trace.name == RECORDED) {
        let share = auto.goodput_bps / bare.goodput_bps;
        let head = head(trace, "autorate");
        rows.push(head.row("goodput_of_unshaped", "ratio", &[share]).judged(Aim::AtLeast(GOODPUT_KEPT)));
        rows.push(head.row("added_p95_of_auto_ms", "ms", &[auto.added_p95_ms]).judged(Aim::AtMost(ADDED_MS)));
    }
    let fixed = outcomes.iter().filter(|(setting, _)| matches!(setting, Setting::Fixed(_)));
    let better = fixed.filter(|(_, outcome)| outcome.beats(auto)).count();
    let better = Some(better as f64);
    let claim = head(trace, "autorate").one("fixed_rates_better_in_both", "rates", better, TENTHS.len());
    rows.push(claim.judged(Aim::AtMost(0.0)));
    rows
}

/// Runs every setting over every trace.
pub(super) fn run(options: &StudyOptions, hooks: &RunHooks<'_>) -> Result<Vec<Row>, StudyError> {
    // No cell makes the folder of a study that has this part alone.
    std::fs::create_dir_all(&options.out).map_err(unwritable(&options.out))?;
    let traces = Trace::all(&options.out).map_err(RunError::Refused)?;
    let settings: Vec<Setting> = [Setting::None, Setting::Auto].into_iter().chain(TENTHS.map(Setting::Fixed)).collect();
    let tasks: Vec<(&Trace, Setting)> = traces.iter().flat_map(|t| settings.iter().map(move |s| (t, *s))).collect();
    let runner = Runner { what: "runs", workers: options.workers(), hooks };
    let kept = Kept::open(options, ID);
    let key = |(trace, setting): &(&Trace, Setting)| format!("{MOVING} {} {setting:?}", trace.name);
    let work = |(trace, setting): &(&Trace, Setting)| Ok(run_one(trace, *setting));
    let outcomes = runner.run_kept(&kept, &tasks, |_| 1.0, key, work)?;
    let mut rows = Vec::new();
    for (trace, outcomes) in traces.iter().zip(outcomes.chunks(settings.len())) {
        let of: Vec<(Setting, Outcome)> = settings.iter().copied().zip(outcomes.iter().copied()).collect();
        rows.extend(rows_of(trace, &of));
    }
    rows.iter().for_each(options.row);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(mbit: u64) -> Trace {
        let steps = vec![(Rate::from_bps(mbit * 1_000_000), Span::from_millis(10)); 1_200];
        Trace { name: "steady", steps, recording: None }
    }

    /// A link of fixed rate has closed forms: 40 octets of each 1,500 are headers, of 1,460 another 12 timestamps; a
    /// shaper at nine tenths leaves the link's queue empty, and no shaper fills it.
    #[test]
    fn a_steady_link_gives_its_closed_form() {
        let trace = steady(10);
        let shaped = run_one(&trace, Setting::Fixed(9));
        let whole = 9e6 * 1_448.0 / 1_500.0;
        assert!((0.9 * whole..=whole).contains(&shaped.goodput_bps), "{shaped:?}");
        // 10 ms, two packets' time at either rate at the most, and 64 octets'.
        assert!((10.0..16.0).contains(&shaped.p95_ms), "{shaped:?}");
        let bare = run_one(&trace, Setting::None);
        assert!(bare.p95_ms > 600.0 && bare.p95_ms < 1_212.0, "{bare:?}");
        assert_eq!(shaped, run_one(&trace, Setting::Fixed(9)), "the same twice");
        let followed = run_one(&trace, Setting::Auto);
        assert!(followed.goodput_bps > 0.7 * whole && followed.p95_ms < 150.0, "{followed:?}");
    }

    #[test]
    fn a_claim_counts_fixed_rates_better_in_both() {
        let outcome = |goodput_bps, p95_ms| Outcome { goodput_bps, p50_ms: 1.0, p95_ms, added_p95_ms: p95_ms };
        let auto = (Setting::Auto, outcome(10.0, 50.0));
        let claim = |others: &[(Setting, Outcome)]| {
            let rows = rows_of(&steady(1), &[&[auto], others].concat());
            let claim = rows.into_iter().next_back().expect("a claim");
            (claim.value, claim.verdict)
        };
        use wavelane_run::Verdict::{Fail, Pass};
        let sides = [(Setting::Fixed(1), outcome(9.0, 10.0)), (Setting::Fixed(2), outcome(20.0, 51.0))];
        assert_eq!(claim(&sides), (Some(0.0), Pass));
        // Without a shaper nothing is claimed.
        assert_eq!(claim(&[(Setting::None, outcome(11.0, 49.0))]), (Some(0.0), Pass));
        assert_eq!(claim(&[(Setting::Fixed(3), outcome(11.0, 49.0))]), (Some(1.0), Fail));
    }
}
