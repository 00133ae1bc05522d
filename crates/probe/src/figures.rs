//! Computes figures from a measurement. Pure: the same measurement gives the same document.

use crate::document::{ClassFigures, PhaseFigures, ProbeDocument, VantageFigures, VantagePhase};
use crate::plan::{Beside, Measurement, Stage, StageKind};
use crate::train::{Sample, Train};
use crate::{bounds, explain, queue};
use std::collections::BTreeMap;
use wavelane_base::{Instant, Ratio, Span};
use wavelane_measure::{
    ClockLine, Exchange, GRADE_SCALE, Probes, RPM_DRAFT, RPM_INTERVAL_S, Rpm, RpmInterval, bloat_ratio, grade, mean,
    rpm, rpm_class,
};

/// Warm-up: goodput and delays under load count after this time, or after a third of a shorter phase.
const WARM_UP: Span = Span::from_secs(2);
/// Probes sent this shortly before the user stopped it may still be in flight.
const UNDER_WAY: Span = Span::from_secs(1);
/// Octets of an IPv4 and a UDP header.
const HEADERS: usize = 28;

/// The probe's times if it was answered.
pub(crate) fn exchange(sample: &Sample) -> Option<Exchange> {
    let (told, back) = sample.echo?;
    let (sent, back) = (sample.sent.as_nanos(), back.as_nanos());
    Some(Exchange { sent, received: told.received, answered: told.answered, back })
}

/// RTT without the time at the server; `None` if the server's times are inconsistent.
pub(crate) fn round_trip(sample: &Sample) -> Option<Span> {
    let e = exchange(sample)?;
    let there = e.answered.checked_sub(e.received)?;
    e.back.checked_sub(e.sent)?.checked_sub(there).map(Span::from_nanos)
}

pub(crate) fn ms(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

fn percent(n: u32) -> Ratio {
    Ratio::new(n, 100).expect("at most 100")
}

/// The part of a stage that counts.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

impl Window {
    pub(crate) fn of(stage: &Stage) -> Self {
        let length = stage.to.since(stage.from);
        let loaded = stage.kind.ways() != (false, false);
        let skip = if loaded { WARM_UP.min(length.scale(1, 3)) } else { Span::ZERO };
        Self { from: stage.from + skip, to: stage.to }
    }
    pub(crate) fn holds(&self, at: Instant) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// The period in which a stage's delays count.
pub fn counted_part(stage: &Stage) -> (Instant, Instant) {
    let window = Window::of(stage);
    (window.from, window.to)
}

/// Trains of a stage with that code point.
fn trains(m: &Measurement, index: usize, dscp: u8) -> impl Iterator<Item = &Train> + Clone {
    m.trains.iter().filter(move |train| train.label as usize == index && train.dscp == dscp)
}

/// Probes of a stage that count: sent in its window, and early enough for an answer.
pub(crate) fn counted(m: &Measurement, index: usize, dscp: u8, window: Window) -> Vec<Sample> {
    let end = m.stages.last().map_or(Instant::ZERO, |stage| stage.to);
    let early = move |s: &&Sample| !m.interrupted || s.sent + UNDER_WAY <= end || s.echo.is_some();
    trains(m, index, dscp).flat_map(|t| &t.samples).filter(|s| window.holds(s.sent)).filter(early).copied().collect()
}

fn probes(samples: &[Sample]) -> Probes {
    let answered: Vec<Span> = samples.iter().filter_map(round_trip).collect();
    let lost = samples.len() - answered.len();
    Probes::new(answered, lost as u64)
}

/// Percentiles of plain numbers, by the same rule as for probes.
fn quantile(mut values: Vec<f64>, p: u32) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() * p as usize).div_ceil(100).max(1);
    values.get(rank - 1).copied()
}

/// Sent, received by the server, refused there, answered, and reordered in each direction.
#[derive(Default)]
struct Counts {
    sent: u64,
    reached: u64,
    back: u64,
    reordered: (u64, u64),
    refused: u64,
}

fn counts(m: &Measurement, index: usize, dscp: u8) -> Counts {
    let mut all = Counts::default();
    let end = m.stages.last().map_or(Instant::ZERO, |stage| stage.to);
    for train in trains(m, index, dscp) {
        let open = |s: &&Sample| m.interrupted && s.echo.is_none() && s.sent + UNDER_WAY > end;
        let undecided = train.samples.iter().filter(open).count() as u64;
        let back = train.samples.iter().filter(|s| s.echo.is_some()).count() as u64;
        let known = train.samples.iter().filter(|s| s.reached).count() as u64;
        let tally = train.tally.unwrap_or_default();
        all.sent += train.samples.len() as u64 - undecided;
        // The server's count; else what its echoes show.
        all.reached += u64::from(tally.received).max(known);
        all.back += back;
        all.reordered.0 += u64::from(tally.reordered);
        all.reordered.1 += train.reordered;
        all.refused += u64::from(tally.refused);
    }
    all
}

impl Counts {
    fn loss_up(&self) -> Option<f64> {
        let asked = self.sent.saturating_sub(self.refused);
        (asked > 0).then(|| asked.saturating_sub(self.reached) as f64 / asked as f64)
    }
    fn loss_down(&self) -> Option<f64> {
        (self.reached > 0).then(|| self.reached.saturating_sub(self.back) as f64 / self.reached as f64)
    }
}

/// Bits per second between two instants, by octets counted at times.
fn counted_bps(counts: &[(Instant, u64)], from: Instant, to: Instant) -> Option<f64> {
    let within: Vec<&(Instant, u64)> = counts.iter().filter(|(at, _)| (from..=to).contains(at)).collect();
    let (first, last) = (within.first()?, within.last()?);
    let passed = last.0.since(first.0).as_secs_f64();
    (passed > 0.0).then(|| last.1.saturating_sub(first.1) as f64 * 8.0 / passed)
}

/// Bits per second that arrived at the server, by its own clock.
fn up_bps(samples: &[Sample], from: Instant, to: Instant) -> Option<f64> {
    let mut told: Vec<(u64, u64)> = samples
        .iter()
        .filter(|s| (from..=to).contains(&s.sent))
        .filter_map(|s| s.echo.map(|(told, _)| (told.answered, told.loaded)))
        .collect();
    told.sort_unstable();
    let passed = (told.last()?.0 - told.first()?.0) as f64 / 1e9;
    // Counts restart at zero after a lost session. A server may report anything, so the sum is of floats.
    let bytes: f64 = told.windows(2).map(|w| w[1].1.saturating_sub(w[0].1) as f64).sum();
    (passed > 0.0).then(|| bytes * 8.0 / passed)
}

fn goodput(stage: &Stage, samples: &[Sample], from: Instant, to: Instant) -> (Option<f64>, Option<f64>) {
    let (down, up) = stage.kind.ways();
    let sent = || if stage.sent.is_empty() { up_bps(samples, from, to) } else { counted_bps(&stage.sent, from, to) };
    (down.then(|| counted_bps(&stage.received, from, to)).flatten(), up.then(sent).flatten())
}

fn intervals(stage: &Stage, samples: &[Sample], window: Window) -> Vec<RpmInterval> {
    let step = Span::from_secs_f64(RPM_INTERVAL_S);
    let whole = window.to.since(window.from).as_nanos() / step.as_nanos();
    let mut all = Vec::new();
    for i in 0..whole.max(1) {
        let from = window.from + step.times(i);
        let to = if whole == 0 { window.to } else { from + step };
        let part = Window { from, to };
        let smalls = || stage.smalls.iter().filter(|s| part.holds(s.begun));
        let (down, up) = goodput(stage, samples, from, to);
        all.push(RpmInterval {
            tcp_ms: smalls().map(|s| ms(s.connect)).collect(),
            tls_ms: smalls().filter_map(|s| s.tls).map(ms).collect(),
            request_ms: smalls().map(|s| ms(s.request)).collect(),
            loaded_ms: stage.selfs.iter().filter(|s| part.holds(s.asked)).map(|s| ms(s.back.since(s.asked))).collect(),
            goodput_bps: down.unwrap_or(0.0) + up.unwrap_or(0.0),
        });
    }
    all
}

/// Bytes in flight, summed over the connections' means.
fn in_flight(stage: &Stage, window: Window) -> Option<f64> {
    let mut by_stream: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for sample in stage.selfs.iter().filter(|s| window.holds(s.asked)) {
        by_stream.entry(sample.in_flight.0).or_default().push(sample.in_flight.1.into());
    }
    (!by_stream.is_empty()).then(|| by_stream.values().filter_map(|values| mean(values)).sum())
}

/// Path properties from the phase before load.
#[derive(Clone, Copy, Default)]
struct Idle {
    p50_ms: Option<f64>,
}

impl PhaseFigures {
    /// A phase of load whose transfers moved no data.
    pub fn is_void(&self) -> bool {
        is_void(self.phase, self.goodput_bps)
    }
}

fn is_void(phase: &str, goodput_bps: Option<f64>) -> bool {
    let loads = [StageKind::Down, StageKind::Up, StageKind::Both].map(StageKind::word);
    loads.contains(&phase) && goodput_bps.is_none_or(|bps| bps <= 0.0)
}

/// A score, and whether losses bound it.
type Score = (Rpm, bool);

fn phase(m: &Measurement, index: usize, line: Option<&ClockLine>, idle: Idle) -> (PhaseFigures, Option<Score>) {
    let stage = &m.stages[index];
    let window = Window::of(stage);
    let samples = counted(m, index, 0, window);
    let beside = bounds::smalls(m, stage, window, &samples);
    let longest = beside.answered.iter().copied().max();
    let foreign = match m.beside {
        Beside::Datagrams => probes(&samples),
        Beside::Connections(_) => Probes::new(beside.answered.clone(), beside.lost),
    };
    let at = |p| foreign.percentile(percent(p)).map(ms);
    let ways = |way: fn(&ClockLine, &Exchange) -> f64, p| {
        quantile(samples.iter().filter_map(exchange).filter_map(|e| Some(way(line?, &e))).collect(), p)
    };
    let selfs: Vec<f64> =
        stage.selfs.iter().filter(|s| window.holds(s.asked)).map(|s| ms(s.back.since(s.asked))).collect();
    let smalls = |pick: fn(&crate::load::SmallSample) -> Span| {
        stage.smalls.iter().filter(|s| window.holds(s.begun)).map(|s| ms(pick(s))).collect::<Vec<f64>>()
    };
    let counts = counts(m, index, 0);
    let (down, up) = goodput(stage, &samples, window.from, window.to);
    let total = down.into_iter().chain(up).reduce(|a, b| a + b);
    // Without load there is no delay under load.
    let is_void = is_void(stage.kind.word(), total);
    let score = || {
        let mut intervals = intervals(stage, &samples, window);
        bounds::add_missing(stage, window, &mut intervals);
        rpm(&intervals)
    };
    let score = if total.is_some() && !is_void { score() } else { None };
    let score = if stage.kind.ways() == (false, false) { None } else { bounds::score(score, &beside) };
    // An HTTP server does not report its bytes in flight.
    let told = m.beside == Beside::Datagrams || !stage.kind.ways().0;
    let bloat = in_flight(stage, window).filter(|_| told).zip(total.filter(|_| !is_void)).zip(idle.p50_ms);
    let classes = m.trains.iter().filter(|t| t.label as usize == index && t.dscp != 0).map(|t| t.dscp);
    let mut classes: Vec<u8> = classes.collect();
    classes.dedup();
    let figures = PhaseFigures {
        phase: stage.kind.word(),
        seconds: stage.to.since(stage.from).as_secs_f64(),
        goodput_bps: total,
        goodput_down_bps: down,
        goodput_up_bps: up,
        foreign_p50_ms: at(50),
        foreign_p95_ms: at(95),
        foreign_p99_ms: at(99),
        foreign_mean_ms: foreign.mean_answered().map(ms),
        foreign_max_ms: longest.map(ms),
        rise_ms: foreign
            .mean_answered()
            .filter(|_| !is_void)
            .map(ms)
            .zip(idle.p50_ms)
            .map(|(loaded, idle)| loaded - idle),
        self_p50_ms: quantile(selfs.clone(), 50),
        self_p95_ms: quantile(selfs.clone(), 95),
        connect_p50_ms: quantile(smalls(|s| s.connect), 50),
        request_p50_ms: quantile(smalls(|s| s.request), 50),
        owd_down_p50_ms: ways(ClockLine::down_ms, 50),
        owd_down_p95_ms: ways(ClockLine::down_ms, 95),
        owd_up_p50_ms: ways(ClockLine::up_ms, 50),
        owd_up_p95_ms: ways(ClockLine::up_ms, 95),
        loss_down: counts.loss_down(),
        loss_up: counts.loss_up(),
        lost_down: counts.reached.saturating_sub(counts.back),
        lost_up: counts.sent.saturating_sub(counts.refused).saturating_sub(counts.reached),
        reordered: counts.reordered.0 + counts.reordered.1,
        reordered_up: counts.reordered.0,
        reordered_down: counts.reordered.1,
        probes: counts.sent,
        probes_skipped: trains(m, index, 0).map(|t| t.skipped).sum(),
        unanswered_share: beside.lost_share(),
        probes_counted: foreign.sent(),
        self_probes: selfs.len() as u64,
        self_failures: stage.unanswered.0,
        connections: stage.smalls.len() as u64,
        congestion_control: stage.congestions.clone(),
        load_failures: stage.failures.0,
        rpm: score.map(|(s, _)| s.rpm),
        rpm_confidence: score.map(|(s, _)| s.confidence.word()),
        bloat_ratio: bloat.and_then(|((flying, bps), idle)| bloat_ratio(flying, bps, idle)),
        classes: classes.into_iter().map(|dscp| class(m, index, dscp, window)).collect(),
    };
    (figures, score)
}

fn class(m: &Measurement, index: usize, dscp: u8, window: Window) -> ClassFigures {
    let of_class = probes(&counted(m, index, dscp, window));
    let at = |p| of_class.percentile(percent(p)).map(ms);
    let counts = counts(m, index, dscp);
    ClassFigures {
        dscp,
        foreign_p50_ms: at(50),
        foreign_p95_ms: at(95),
        foreign_p99_ms: at(99),
        loss_down: counts.loss_down(),
        loss_up: counts.loss_up(),
        probes: counts.sent,
    }
}

/// Results of a second vantage in each phase.
fn vantage(m: &Measurement) -> Option<VantageFigures> {
    let seen = m.vantage.as_ref()?;
    let mut phases: Vec<VantagePhase> = Vec::new();
    for kind in [StageKind::Idle, StageKind::Down, StageKind::Up, StageKind::Both] {
        let Some(stage) = m.stages.iter().find(|stage| stage.kind == kind) else { continue };
        let window = Window::of(stage);
        let those: Vec<Sample> = seen.samples.iter().filter(|s| window.holds(s.sent)).copied().collect();
        let all = probes(&those);
        let at = |p| all.percentile(percent(p)).map(ms);
        let idle = phases.first().filter(|p| p.phase == StageKind::Idle.word()).and_then(|p| p.p50_ms);
        let rise_ms = at(50).zip(idle).map(|(now, idle)| now - idle);
        phases.push(VantagePhase {
            phase: kind.word(),
            p50_ms: at(50),
            p95_ms: at(95),
            rise_ms,
            probes: those.len() as u64,
        });
    }
    Some(VantageFigures { target: seen.name.clone(), phases })
}

/// The linear relation of both clocks over all answered probes.
pub(crate) fn clock_line(m: &Measurement) -> Option<ClockLine> {
    let all: Vec<Exchange> = m.trains.iter().flat_map(|t| &t.samples).filter_map(exchange).collect();
    ClockLine::fit(&all)
}

/// The document of a measurement; the record's path is filled in later.
pub fn document(target: &str, m: &Measurement) -> ProbeDocument {
    let line = clock_line(m);
    let find = |kind| m.stages.iter().position(|stage| stage.kind == kind);
    let mut idle = Idle::default();
    if let Some(index) = find(StageKind::Idle) {
        idle.p50_ms = phase(m, index, line.as_ref(), idle).0.foreign_p50_ms;
    }
    let (mut phases, mut scores) = (Vec::new(), Vec::new());
    for kind in [StageKind::Idle, StageKind::Down, StageKind::Up, StageKind::Both] {
        if let Some(index) = find(kind) {
            let (figures, score) = phase(m, index, line.as_ref(), idle);
            scores.extend(score.map(|score| (kind.word(), score)));
            phases.push(figures);
        }
    }
    let after = find(StageKind::After).map(|index| phase(m, index, line.as_ref(), idle).0);
    let rise = |kind: StageKind| phases.iter().find(|p| p.phase == kind.word()).and_then(|p| p.rise_ms);
    let scored = bounds::unscored(&phases).is_none();
    let worst = scores.into_iter().filter(|_| scored).min_by(|a, b| a.1.0.rpm.total_cmp(&b.1.0.rpm));
    let bloat = phases.iter().filter_map(|p| p.bloat_ratio).reduce(f64::max);
    let graded = bounds::grade(grade(rise(StageKind::Down), rise(StageKind::Up)), &phases, after.as_ref());
    let trains =
        1 + m.trains.iter().map(|t| t.dscp).filter(|d| *d != 0).collect::<std::collections::BTreeSet<_>>().len();
    let per_second = if m.interval == Span::ZERO { 0.0 } else { 1.0 / m.interval.as_secs_f64() };
    let [queue_at, queue_at_other] = queue::locate(target, m);
    let mut document = ProbeDocument {
        format: crate::document::FORMAT,
        target: target.to_owned(),
        phases,
        after,
        rpm: worst.as_ref().map(|(_, (score, _))| score.rpm),
        rpm_draft: RPM_DRAFT,
        rpm_confidence: worst.as_ref().map(|(_, (score, _))| score.confidence.word()),
        rpm_phase: worst.as_ref().map(|(word, _)| *word),
        rpm_class: worst.as_ref().map(|(_, (score, _))| rpm_class(score.rpm)),
        rpm_bounded_by_loss: worst.as_ref().is_some_and(|(_, (_, bounded))| *bounded),
        grade: graded.letter,
        grade_bound: graded.bound,
        grade_scale: GRADE_SCALE,
        bloat_ratio: bloat,
        queue_at,
        queue_at_other,
        vantage: vantage(m),
        method: match m.beside {
            Beside::Datagrams => "wavelane",
            Beside::Connections(_) => "networkquality",
        },
        protocol: match m.beside {
            Beside::Datagrams => "UDP and TCP",
            Beside::Connections(words) => words,
        },
        probe_cost_bps: ((m.probe_size + HEADERS) * 8 * trains) as f64 * per_second,
        clock_drift_ppm: line.map(|line| line.drift() * 1e6),
        interrupted: m.interrupted,
        sessions_reopened: m.reopened,
        socket_drops: m.socket_drops,
        notes: m.notes.clone(),
        explained: Vec::new(),
        record: String::new(),
    };
    document.explained = explain::sentences(&document);
    document
}

#[cfg(test)]
#[path = "figures_tests.rs"]
pub(crate) mod tests;
