//! The default controller: keeps the queue at a small target and ignores loss that does not follow our rate.
//!
//! `docs/decisions/0010-delay-controller.md` says why it is built as it is.

use super::compete::{Compete, Situation, Verdict};
use super::referee::{Referee, Ruling};
use super::service::{Point, Served, Service};
use super::shallow::Shallow;
use super::{AckSample, PACKET};
use crate::lane::forward::Forward;
use crate::lane::losses::Losses;
use std::collections::VecDeque;
use wavelane_base::{Instant, Octets, Rate, Span};

/// What the link is believed to carry before anything is known.
const INITIAL_RATE: Rate = Rate::from_bps(4_000_000);
const INITIAL_WINDOW: u64 = 32 * PACKET;
/// The initial window leaves as one train at this rate: how it is drawn out on arrival shows what a link slower than
/// this carries, a round trip or two before doubling would. The queue it makes is the window's, whatever the pace.
const TRAIN_RATE: Rate = Rate::from_bps(40_000_000);
/// The train is judged over this long and this many packets at least.
const TRAIN_SPAN: Span = Span::from_millis(8);
const TRAIN_PACKETS: u64 = 12;
const TRAIN_SPREAD: u64 = 3;
/// And speaks only if it arrived at less than this share of the rate it was sent at: then a queue drew it out. A token
/// bucket, or a link faster than the train, lets it through unchanged, and startup doubles as if there were none.
const TRAIN_DRAWN_OUT: (u64, u64) = (3, 4);
const RATE_MIN: Rate = Rate::from_bps(8_000);
const RATE_MAX: Rate = Rate::from_bps(100_000_000_000);
/// The target queue is this at [`TARGET_RATE`] and falls with the square root of the rate, so that flows that see
/// the same queue settle at the same rate.
const TARGET_MIN: Span = Span::from_millis(5);
const TARGET_MAX: Span = Span::from_millis(18);
const TARGET_RATE: f64 = 32e6;
/// And it is at least this many packets long: fewer cannot stand in a queue steadily.
const TARGET_PACKETS: u64 = 2;
/// And this many times the jitter seen in one short window, which is about half of the whole.
const TARGET_JITTERS: u64 = 2;
/// Loop gain per loop delay. A pure integrator with dead time is stable below pi / 2 and well damped below 0.5.
const GAIN: f64 = 0.4;
const CRUISE_GAIN_MIN: f64 = 0.6;
const CRUISE_GAIN_MAX: f64 = 1.15;
/// Pacing gain in startup.
const STARTUP_GAIN: f64 = 2.0;
/// Startup ends when this many rounds in a row brought less than [`PLATEAU_GROWTH`].
const PLATEAU_ROUNDS: u32 = 2;
const PLATEAU_GROWTH: f64 = 1.2;
/// While the queue stays empty although we raise: pacing gain by consecutive empty rounds.
const RAISE_GAINS: [f64; 5] = [1.0, 1.1, 1.25, 1.5, 2.0];
/// After a drain the queue is empty by our own doing for this many rounds.
const SKIP_ROUNDS: u32 = 2;
/// A drain halves the rate for this long at least; that takes as much queue away as half of it.
const DRAIN_SPAN: Span = Span::from_millis(40);
const DRAIN_TARGETS: u64 = 8;
const DRAIN_GAIN: f64 = 0.5;
/// A drain begins when the base was not seen for this long, or for [`DRAIN_RTTS`] if that is longer.
const DRAIN_EVERY: Span = Span::from_secs(5);
const DRAIN_RTTS: u64 = 20;
/// A queue this much above target is more than the loop's swing.
const STANDING: (u64, u64) = (3, 2);
/// The same while a competitor may still be there.
const WARY: (u64, u64) = (6, 5);
/// If it does not shrink for this many round trips, it is not ours: the base is learnt anew, or it is a competitor's.
const STUCK_RTTS: u64 = 3;
const REBASE_GAIN: f64 = 0.3;
/// Silence beyond one round trip plus this is an outage.
const OUTAGE: Span = Span::from_millis(200);
/// After an outage longer than this the rate is doubted.
const DOUBT_AFTER: Span = Span::from_secs(1);
/// Doubt alone never leads below this: from much lower, finding the rate again takes minutes.
const DOUBT_FLOOR: Rate = Rate::from_bps(256_000);
/// As many packets' time is no silence, however slow the lane.
const SILENT_PACKETS: u64 = 8;
/// Bounds of the time a service rate is taken over.
const SERVICE_MIN: Span = Span::from_millis(20);
const SERVICE_MAX: Span = Span::from_millis(100);
/// And it is this many times the jitter at least.
const SERVICE_JITTERS: u64 = 8;
/// Served and sent rates closer than this share (and the jitter) do not tell a full link from an idle one.
const ALIKE: f64 = 0.02;
/// In that case the rate moves by one part in this many per ack.
const YIELD_STEPS: u64 = 1024;
/// A slump of the link is believed after this many packets, if jitter is below the bound.
const SLUMP_PACKETS: u64 = 2;
const SLUMP_JITTER_MAX: Span = Span::from_millis(3);
/// Where losses come in bursts the window also bridges their silence: twice the longest seen lately, because the next
/// may be longer (of exponential bursts one in seven is twice the mean), and within these bounds.
const BRIDGE_MIN: Span = Span::from_millis(120);
const BRIDGE_MAX: Span = Span::from_millis(250);
/// Round trips of reverse delay are compared over this many samples.
const REVERSE_SAMPLES: usize = 64;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Startup,
    Cruise,
    /// Sending slowly until `until`, so that the queue empties; `rebase` says from where, if the base may have moved.
    Drain {
        since: Instant,
        until: Instant,
        rebase: Option<Stuck>,
    },
    /// Somebody else keeps the queue full.
    Compete,
}

/// A queue above target that does not shrink.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Stuck {
    since: Instant,
    /// Its lowest since.
    queue: Span,
    /// The rate from before it.
    rate: Rate,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Delay {
    phase: Phase,
    /// What we believe the link carries for us.
    rate: Rate,
    pacing: Rate,
    window: u64,
    service: Service,
    referee: Referee,
    compete: Compete,
    shallow: Shallow,
    delivered: u64,
    queue: Option<Span>,
    round_start: Instant,
    round_queue: Span,
    round_limited: bool,
    round_skip: u32,
    round_best: Rate,
    best: Rate,
    flat_rounds: u32,
    raise: usize,
    stuck: Option<Stuck>,
    last_drain: Instant,
    reverse: VecDeque<i64>,
}

impl Delay {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            phase: Phase::Startup,
            rate: INITIAL_RATE,
            pacing: TRAIN_RATE,
            window: INITIAL_WINDOW,
            service: Service::default(),
            referee: Referee::new(),
            compete: Compete::default(),
            shallow: Shallow::default(),
            delivered: 0,
            queue: None,
            round_start: now,
            round_queue: Span::ZERO,
            round_limited: false,
            round_skip: 0,
            round_best: Rate::from_bps(0),
            best: Rate::from_bps(0),
            flat_rounds: 0,
            raise: 0,
            stuck: None,
            last_drain: now,
            reverse: VecDeque::new(),
        }
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }
    pub(crate) fn pacing(&self) -> Rate {
        self.pacing
    }
    #[cfg(test)]
    pub(crate) fn competing(&self) -> bool {
        self.phase == Phase::Compete
    }
    pub(crate) fn window(&self) -> u64 {
        self.window
    }
    pub(crate) fn queue(&self) -> Option<Span> {
        self.queue
    }

    /// How long the queue shall be.
    fn target(&self, forward: &Forward) -> Span {
        let packets = self.rate.time_for(Octets::new(TARGET_PACKETS * PACKET));
        // Who has less than half of what he had was pushed aside himself, and owes nobody more room.
        let ahead = self.phase == Phase::Cruise && self.rate > self.compete.best().scale(1, 2);
        let limit = self.shallow.limit().filter(|_| ahead).unwrap_or(Span::MAX);
        self.target_by_rate(forward).min(limit).max(packets)
    }

    fn target_by_rate(&self, forward: &Forward) -> Span {
        let rate = self.rate.as_bps().max(1) as f64;
        let by_rate = Span::from_secs_f64(TARGET_MIN.as_secs_f64() * (TARGET_RATE / rate).sqrt());
        by_rate.clamp(TARGET_MIN, TARGET_MAX).max(forward.jitter().times(TARGET_JITTERS))
    }

    /// A longer queue is more than we want there. What a competitor leaves us says little of the link: packets take as
    /// long as they did when we had more.
    fn suspicious(&self, forward: &Forward) -> Span {
        self.target_by_rate(forward).max(self.unevenness(forward))
    }

    /// How much of a delay may be jitter and single packets.
    fn unevenness(&self, forward: &Forward) -> Span {
        let packets = self.rate.max(self.compete.best()).time_for(Octets::new(TARGET_PACKETS * PACKET));
        packets.max(forward.jitter().times(TARGET_JITTERS))
    }

    fn service_window(&self, sample: &AckSample, forward: &Forward) -> Span {
        let span = sample.rtt_min.scale(1, 2).clamp(SERVICE_MIN, SERVICE_MAX);
        let span = if self.phase == Phase::Startup { span.scale(1, 2) } else { span };
        span.max(forward.jitter().times(SERVICE_JITTERS))
    }

    /// Takes in one ack that brought news.
    pub(crate) fn on_ack(&mut self, sample: &AckSample, forward: &mut Forward, losses: &mut Losses) {
        self.delivered += sample.delivered;
        let now = sample.now;
        self.note_silence(now, sample.waited, sample.rtt);
        let Some(newest) = sample.newest else { return };
        self.note_reverse(sample, forward);
        // The lowest round trip of half a minute is that of a way that may be no more, and a loop that takes itself for
        // quicker than it is does not settle.
        let sample = &AckSample { rtt_min: sample.rtt_min.max(self.way(forward)), ..*sample };
        // On a slow lane packets are far apart without any silence.
        let apart = self.pacing.time_for(Octets::new(SILENT_PACKETS * PACKET));
        let silence_max = (sample.rtt.times(2) + OUTAGE).max(apart);
        self.service.push(
            Point {
                arrival: newest.arrival,
                sent: newest.sent_at,
                number: newest.number,
                end: newest.end,
                delivered: self.delivered,
                app_limited: newest.app_limited,
            },
            silence_max,
        );
        let queue = forward.queue(now).unwrap_or(Span::ZERO);
        self.queue = Some(queue);
        self.shallow.see(now, queue, losses);
        self.round_queue = self.round_queue.max(queue);
        self.round_limited |= newest.app_limited;
        let round_over =
            newest.sent_at >= self.round_start && now.since(self.round_start) >= self.service_window(sample, forward);
        match self.phase {
            Phase::Startup => self.startup(sample, forward, losses, queue, round_over),
            Phase::Cruise => self.cruise(sample, forward, losses, queue, round_over),
            Phase::Drain { .. } => self.draining(sample, forward, losses, newest.sent_at),
            Phase::Compete => self.compete(sample, forward, losses),
        }
        if round_over {
            self.round_start = now;
            self.round_queue = Span::ZERO;
            self.round_limited = false;
            self.round_skip = self.round_skip.saturating_sub(1);
            self.round_best = Rate::from_bps(0);
        }
        self.set_outputs(sample, forward, losses, queue);
    }

    fn note_silence(&mut self, now: Instant, waited: Span, rtt: Span) {
        if waited > DOUBT_AFTER + rtt && self.phase != Phase::Startup {
            self.rate = self.rate.scale(1, 2).max(self.rate.min(DOUBT_FLOOR));
            self.raise = 1;
            self.phase = Phase::Cruise;
            self.compete.end();
            self.stuck = None;
            self.round_start = now;
            self.service.forget();
        }
    }

    /// What the way back adds to round trips, of unknown origin: its spread widens the window.
    fn note_reverse(&mut self, sample: &AckSample, forward: &Forward) {
        if let (Some(rtt), Some(delay)) = (sample.latest_rtt, forward.newest()) {
            self.reverse.push_back(rtt.as_nanos() as i64 - delay);
            if self.reverse.len() > REVERSE_SAMPLES {
                self.reverse.pop_front();
            }
        }
    }

    /// The round trip with an empty queue: lowest forward delay plus the longest way back lately. Their unknown
    /// clock offsets cancel.
    fn base_rtt(&self, sample: &AckSample, forward: &Forward) -> Span {
        match (forward.base(), self.reverse.iter().max()) {
            (Some(base), Some(back)) => Span::from_nanos((base + back).max(0) as u64),
            _ => sample.rtt,
        }
    }

    /// The round trip of the empty queue, as the last packets saw it.
    fn way(&self, forward: &Forward) -> Span {
        match (forward.base(), self.reverse.iter().min()) {
            (Some(base), Some(back)) => Span::from_nanos((base + back).max(0) as u64),
            _ => Span::ZERO,
        }
    }

    /// What the link carries, if the first train came out visibly longer than it went in.
    fn train_rate(&self, forward: &Forward) -> Option<Rate> {
        let span = TRAIN_SPAN.max(forward.jitter().times(SERVICE_JITTERS));
        let served = self.service.busy_rate(span, TRAIN_PACKETS)?;
        if !self.service.even(TRAIN_PACKETS, TRAIN_SPREAD) {
            return None;
        }
        (served.rate < served.sent.scale(TRAIN_DRAWN_OUT.0, TRAIN_DRAWN_OUT.1)).then_some(served.rate)
    }

    fn startup(&mut self, sample: &AckSample, forward: &Forward, losses: &mut Losses, queue: Span, round_over: bool) {
        let now = sample.now;
        if self.best.as_bps() == 0
            && let Some(rate) = self.train_rate(forward)
        {
            self.rate = rate;
            self.enter_cruise(now, losses);
            return;
        }
        if let Some(served) = self.service.rate(self.service_window(sample, forward)) {
            // Only what arrives may be doubled: behind a policer everything else would grow without bound.
            if !served.app_limited || served.delivered > self.rate {
                self.round_best = self.round_best.max(served.delivered);
                // Never below the start: little may have arrived because the medium was bad just then.
                self.rate = self.rate.max(served.delivered);
            }
            if queue > self.target(forward) {
                self.rate = served.rate.scale(1000 - self.referee.overflow(losses), 1000);
                self.enter_cruise(now, losses);
                return;
            }
        }
        if !round_over {
            return;
        }
        if self.best.as_bps() > 0 && !self.round_limited && self.round_best.as_bps() > 0 {
            let grown = self.round_best.as_bps() as f64 >= self.best.as_bps() as f64 * PLATEAU_GROWTH;
            let lossy = self.referee.exceeds(losses.single_share());
            self.flat_rounds = if grown || !lossy { 0 } else { self.flat_rounds + 1 };
        }
        self.best = self.best.max(self.round_best);
        if self.flat_rounds >= PLATEAU_ROUNDS {
            let lasting = self.service.rate(sample.rtt).map_or(self.best, |s| s.delivered);
            self.rate = self.referee.plateau(now, sample.rtt, lasting.min(self.best));
            self.enter_cruise(now, losses);
        } else {
            self.referee.learn(losses, now);
        }
    }

    fn enter_cruise(&mut self, now: Instant, losses: &mut Losses) {
        self.phase = Phase::Cruise;
        self.raise = 0;
        self.round_skip = SKIP_ROUNDS;
        self.round_start = now;
        self.last_drain = now;
        losses.reset_tally(now);
    }

    fn cruise(
        &mut self,
        sample: &AckSample,
        forward: &mut Forward,
        losses: &mut Losses,
        queue: Span,
        round_over: bool,
    ) {
        let target = self.target(forward);
        if let Some(served) = self.measure(sample, forward, queue, target) {
            if !served.app_limited {
                self.compete.note_served(sample.now, served.delivered);
            }
            if queue >= target {
                self.follow(served, sample, forward, losses);
            } else if !self.referee.trying() {
                let limit = self.referee.ceiling().unwrap_or(RATE_MAX).min(self.referee.carried(served.delivered));
                self.rate = self.rate.max(served.rate.min(limit));
            }
        }
        self.rate = self.rate.clamp(RATE_MIN, RATE_MAX);
        self.judge_losses(sample, losses, queue, target);
        if queue >= target.scale(1, 2) {
            self.raise = 0;
        }
        if round_over {
            self.end_round(target, forward.jitter());
        }
        self.watch_queue(sample, forward, queue, target);
    }

    /// The service rate; over a shorter time when the queue says that the link has become much slower.
    fn measure(&self, sample: &AckSample, forward: &Forward, queue: Span, target: Span) -> Option<Served> {
        let window = self.service_window(sample, forward);
        let served = self.service.rate(window)?;
        if queue > target + TARGET_MIN && forward.jitter() < SLUMP_JITTER_MAX {
            let short = self.service.rate_of(window.scale(1, 8), SLUMP_PACKETS);
            if let Some(short) = short.filter(|s| s.rate < served.rate.scale(6, 10)) {
                return Some(short);
            }
        }
        Some(served)
    }

    /// The queue is above target: what is served is what the link carries, if it is the link that limits it.
    fn follow(&mut self, served: Served, sample: &AckSample, forward: &Forward, losses: &Losses) {
        self.referee.queue_seen();
        if served.app_limited {
            return;
        }
        // Drops before the queue count as served; a trial or a ceiling knows better.
        let limit = if self.referee.trying() { self.rate } else { RATE_MAX };
        let limit = limit.min(self.referee.ceiling().unwrap_or(RATE_MAX));
        let limit = limit.min(self.rate.max(self.referee.carried(served.delivered)));
        // Loss alone never leads below the floor: nothing could then be learnt quickly again.
        let kept = served.rate.scale(1000 - self.referee.overflow(losses), 1000).max(served.rate.min(DOUBT_FLOOR));
        let rate = kept.min(limit);
        let window = self.service_window(sample, forward).as_secs_f64();
        let alike = ALIKE + forward.jitter().as_secs_f64() / window;
        let ratio = served.rate.as_bps() as f64 / served.sent.as_bps().max(1) as f64;
        if rate < self.rate && (1.0 - alike..1.0 + alike).contains(&ratio) {
            // A queue that neither grows nor shrinks may be a base that moved: then we would be measuring our
            // own rate. Yield slowly; the stuck queue will be looked into.
            let step = (self.rate.as_bps() - rate.as_bps()) / YIELD_STEPS;
            self.rate = Rate::from_bps(self.rate.as_bps() - step);
        } else {
            self.rate = rate;
        }
    }

    fn judge_losses(&mut self, sample: &AckSample, losses: &mut Losses, queue: Span, target: Span) {
        let now = sample.now;
        let full = self.raise == 0 && queue >= target.scale(1, 2);
        if let Some(Ruling::SetRate(rate)) = self.referee.judge(now, sample.rtt, self.rate, full, losses) {
            self.rate = rate.max(self.rate.min(DOUBT_FLOOR));
            self.raise = 0;
            self.round_skip = SKIP_ROUNDS;
            self.round_start = now;
            self.service.forget();
        }
    }

    fn end_round(&mut self, target: Span, jitter: Span) {
        // Jitter looks like queue; without it, even a tenth of the target shows that the link is busy.
        let empty = self.round_queue < jitter.clamp(target.scale(1, 10), target.scale(1, 3));
        let may =
            !self.round_limited && self.round_skip == 0 && self.referee.ceiling().is_none() && !self.referee.trying();
        if empty && may {
            self.raise = (self.raise + 1).min(RAISE_GAINS.len() - 1);
        } else {
            self.raise = 0;
        }
    }

    /// Starts a drain when the base was not seen for long, and a harder one when the queue does not shrink.
    fn watch_queue(&mut self, sample: &AckSample, forward: &Forward, queue: Span, target: Span) {
        let now = sample.now;
        let loop_delay = sample.rtt + self.service_window(sample, forward);
        let suspicious = self.suspicious(forward);
        let much = if self.compete.wary(now) { WARY } else { STANDING };
        if queue <= suspicious.scale(much.0, much.1) {
            self.stuck = None;
        } else {
            match self.stuck {
                Some(stuck) if queue > stuck.queue.scale(9, 10) => {
                    if now.since(stuck.since) > loop_delay.times(STUCK_RTTS) {
                        let until = now + DRAIN_SPAN.max(queue.times(2));
                        self.phase = Phase::Drain { since: now, until, rebase: Some(stuck) };
                        self.stuck = None;
                    }
                }
                Some(Stuck { rate, .. }) => self.stuck = Some(Stuck { since: now, queue, rate }),
                None => self.stuck = Some(Stuck { since: now, queue, rate: self.rate }),
            }
        }
        let every = DRAIN_EVERY.max(sample.rtt.times(DRAIN_RTTS));
        if self.phase == Phase::Cruise
            && now.since(forward.base_seen()) > every
            && now.since(self.last_drain) > every
            && !self.referee.trying()
        {
            let until = now + DRAIN_SPAN.max(target.times(DRAIN_TARGETS).min(DRAIN_SPAN.times(2)));
            self.phase = Phase::Drain { since: now, until, rebase: None };
        }
    }

    fn draining(&mut self, sample: &AckSample, forward: &mut Forward, losses: &mut Losses, newest_sent: Instant) {
        let Phase::Drain { since, until, rebase } = self.phase else { return };
        let now = sample.now;
        // A plain drain ends by the clock; a rebase waits until packets sent at its end are acknowledged.
        let over = if rebase.is_some() { newest_sent >= until } else { now >= until };
        if !over {
            return;
        }
        if let Some(stuck) = rebase {
            if self.competitor_found(sample, forward, losses, &stuck) {
                self.phase = Phase::Compete;
                return;
            }
            let old = forward.queue(now).unwrap_or(Span::ZERO);
            forward.rebase(now, since + sample.rtt);
            let new = forward.queue(now).unwrap_or(Span::ZERO);
            if new < old.scale(1, 2) {
                self.rate = self.rate.max(stuck.rate);
            }
        }
        self.phase = Phase::Cruise;
        self.last_drain = now;
        self.round_skip = SKIP_ROUNDS;
        self.round_start = now;
        self.raise = 0;
    }

    /// After a drain: whether the queue that is left is somebody else's. If so, competing has begun.
    fn competitor_found(&mut self, sample: &AckSample, forward: &Forward, losses: &mut Losses, stuck: &Stuck) -> bool {
        let (Some(left), Some(base)) = (forward.queue(sample.now), forward.base()) else { return false };
        let uneven = self.unevenness(forward);
        // A second lane keeps as much as we do, so that much is no competitor.
        if self.round_limited || left <= self.suspicious(forward).max(uneven.times(2)) {
            return false;
        }
        let grew = left > stuck.queue + TARGET_MIN.max(uneven);
        let Some(floor) = self.compete.standing_queue(sample.now, base, self.rate, grew) else { return false };
        let situation = Situation { rate: stuck.rate.max(self.rate), medium: self.referee.medium(), floor };
        self.compete.begin(sample, losses, &situation);
        self.referee.adjourn();
        true
    }

    fn compete(&mut self, sample: &AckSample, forward: &Forward, losses: &mut Losses) {
        let now = sample.now;
        let Some(delay) = forward.lowest(now) else { return };
        let served = self.service.rate(self.service_window(sample, forward)).map(|s| s.delivered);
        match self.compete.on_ack(sample, losses, delay, self.suspicious(forward), served) {
            Verdict::Compete => self.rate = served.unwrap_or(self.rate).clamp(RATE_MIN, RATE_MAX),
            Verdict::Alone(rate) => {
                self.rate = rate.clamp(RATE_MIN, RATE_MAX);
                self.enter_cruise(now, losses);
                self.stuck = None;
            }
            Verdict::Drain(rate, queue) => {
                self.rate = rate.clamp(RATE_MIN, RATE_MAX);
                self.enter_cruise(now, losses);
                let until = now + DRAIN_SPAN.max(queue.times(2));
                self.phase =
                    Phase::Drain { since: now, until, rebase: Some(Stuck { since: now, queue, rate: self.rate }) };
                self.stuck = None;
            }
        }
    }

    fn set_outputs(&mut self, sample: &AckSample, forward: &Forward, losses: &Losses, queue: Span) {
        if self.phase == Phase::Compete
            && let Some((pacing, window)) = self.compete.outputs()
        {
            self.pacing = pacing.clamp(RATE_MIN, RATE_MAX);
            self.window = window.max(4 * PACKET);
            return;
        }
        let target = self.target(forward);
        let loop_delay = (sample.rtt_min + self.service_window(sample, forward)).as_secs_f64();
        let mut gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Compete => 1.0,
            Phase::Drain { rebase: None, .. } => DRAIN_GAIN,
            Phase::Drain { rebase: Some(_), .. } => REBASE_GAIN,
            Phase::Cruise => {
                let error = target.as_secs_f64() - queue.as_secs_f64();
                let law = (1.0 + GAIN * error / loop_delay).clamp(CRUISE_GAIN_MIN, CRUISE_GAIN_MAX);
                if self.raise > 0 { law.max(RAISE_GAINS[self.raise]) } else { law }
            }
        };
        if self.phase == Phase::Cruise && (self.referee.ceiling().is_some() || self.referee.trying()) {
            let (num, den) = self.referee.pacing_gain();
            gain = gain.min(1.0) * (num as f64 / den as f64);
        }
        if self.phase == Phase::Startup
            && self.best.as_bps() == 0
            && self.service.rate(SERVICE_MIN.scale(1, 2)).is_none()
        {
            return;
        }
        // Nor does a drain go below the floor: what was sent ahead of the pacer would be paid off for seconds.
        let least = RATE_MIN.max(self.rate.min(DOUBT_FLOOR).scale((CRUISE_GAIN_MIN * 1000.0) as u64, 1000));
        self.pacing = self.rate.scale((gain * 1000.0) as u64, 1000).clamp(least, RATE_MAX);
        let bridge = match losses.longest_burst(sample.now) {
            Span::ZERO => Span::ZERO,
            // On a short round trip the tail probe finds the end of the burst just as soon.
            longest => longest.times(2).clamp(BRIDGE_MIN, BRIDGE_MAX).min(longest.max(sample.rtt_min.times(2))),
        };
        let held = self.base_rtt(sample, forward) + target + forward.jitter() + bridge;
        let by_rate = self.rate.scale((gain.max(1.0) * 1000.0) as u64, 1000).octets_in(held).get();
        self.window = (by_rate + 2 * PACKET).max(4 * PACKET);
        if self.phase == Phase::Startup {
            self.window = self.window.max(INITIAL_WINDOW);
        }
    }

    /// The path changed. The rate is kept: RFC 9000, section 9.4 starts anew, but most moves are new addresses for the
    /// same link, and a slower link shows itself within a few packets of queue.
    pub(crate) fn path_changed(&mut self, now: Instant) {
        self.service.forget();
        self.referee.forget();
        self.compete = Compete::default();
        self.shallow = Shallow::default();
        self.reverse.clear();
        self.stuck = None;
        if self.phase != Phase::Startup {
            self.pacing = self.rate;
            self.phase = Phase::Cruise;
            self.raise = 0;
            self.round_start = now;
        }
    }
}
