//! The default controller: keeps the queue at a small target and ignores loss that does not follow our rate.
//!
//! `docs/decisions/0010-delay-controller.md` gives the reasons for its design.

mod cruise;
mod drain;
mod outputs;
mod probe;
mod spill;
mod spurts;
mod startup;
mod target;

use super::cause::Cause;
use super::compete::Compete;
use super::service::{Point, Service};
use super::shallow::Shallow;
use super::{AckSample, PACKET};
use crate::lane::Controller;
use crate::lane::forward::Forward;
use crate::lane::losses::Losses;
use crate::lane::sent::Resolved;
use drain::Stuck;
use probe::Probe;
use spill::Spill;
use spurts::Spurts;
use startup::Believed;
use target::Sizes;

use std::collections::VecDeque;
use wavelane_base::{Instant, Octets, Rate, Span};

/// The assumed rate of the link before anything is known.
const INITIAL_RATE: Rate = Controller::START_RATE;
const INITIAL_WINDOW: u64 = 32 * PACKET;
/// For a lane configured or measured to start slower the first window is what it carries in this time, and at least the minimum: less could not show
/// the rate.
const SLOW_START_SPAN: Span = Span::from_millis(500);
const SLOW_START_WINDOW_MIN: u64 = 2 * PACKET;
/// The initial window is sent as one train at this rate: its dispersion on arrival shows the rate of a link slower than this, a round trip
/// or two before doubling would. The queue that it causes depends on the window, not on the pace.
const TRAIN_RATE: Rate = Rate::from_bps(40_000_000);
const RATE_MIN: Rate = Rate::from_bps(8_000);
const RATE_MAX: Rate = Rate::from_bps(100_000_000_000);
/// After a drain the queue is empty for this many rounds because of the drain.
const SKIP_ROUNDS: u32 = 2;
/// Silence longer than one round trip plus this is an outage.
const OUTAGE: Span = Span::from_millis(200);
/// After an outage longer than this the rate is in doubt.
const DOUBT_AFTER: Span = Span::from_secs(1);
/// Doubt alone never reduces the rate below this: from much lower, finding the rate again takes minutes.
const DOUBT_FLOOR: Rate = Rate::from_bps(256_000);
/// The time of this many packets is no silence, however slow the lane.
const SILENT_PACKETS: u64 = 8;
/// Nor is this, however short the round trip: the pacer's bursts (2 ms) are that far apart if timers are late by as much.
const SILENT_MIN: Span = Span::from_millis(4);
/// Bounds of the time over which a service rate is taken.
const SERVICE_MIN: Span = Span::from_millis(20);
const SERVICE_MAX: Span = Span::from_millis(100);
/// It is also at least this many times the jitter.
const SERVICE_JITTERS: u64 = 8;
/// Number of samples over which the return delay is compared.
const REVERSE_SAMPLES: usize = 64;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Startup,
    Cruise,
    /// Sending slowly until `until`, so that the queue empties; `rebase` is the state before it, if the base may have moved.
    Drain {
        since: Instant,
        until: Instant,
        rebase: Option<Stuck>,
    },
    /// A competitor keeps the queue full.
    Compete,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Delay {
    phase: Phase,
    /// The estimate of the link's rate for this lane.
    rate: Rate,
    pacing: Rate,
    window: u64,
    /// The initial window.
    first_window: u64,
    service: Service,
    cause: Cause,
    compete: Compete,
    shallow: Shallow,
    sizes: Sizes,
    probe: Probe,
    spurts: Spurts,
    spill: Spill,
    /// When the queue was last no longer than wanted.
    emptied: Instant,
    delivered: u64,
    /// Bytes delivered since the application last had no more to send.
    busy: u64,
    queue: Option<Span>,
    round_start: Instant,
    round_queue: Span,
    round_limited: bool,
    round_skip: u32,
    round_best: Rate,
    best: Rate,
    flat_rounds: u32,
    believed: Believed,
    /// Since when the queue of startup is that of an overload.
    overload_since: Option<Instant>,
    raise: usize,
    stuck: Option<Stuck>,
    /// The most that a packet was later than the one before it in this drain.
    stall: Span,
    last_drain: Instant,
    /// When the rate was last doubted.
    doubted: Option<Instant>,
    reverse: VecDeque<i64>,
}

impl Delay {
    /// A controller that starts at `start_rate`, if that is less than [`INITIAL_RATE`].
    pub(crate) fn new(now: Instant, start_rate: Option<Rate>) -> Self {
        let mut this = Self {
            phase: Phase::Startup,
            rate: INITIAL_RATE,
            pacing: TRAIN_RATE,
            window: INITIAL_WINDOW,
            first_window: INITIAL_WINDOW,
            service: Service::default(),
            cause: Cause::new(),
            compete: Compete::default(),
            shallow: Shallow::default(),
            sizes: Sizes::new(now),
            probe: Probe::new(),
            spurts: Spurts::default(),
            spill: Spill::default(),
            emptied: now,
            delivered: 0,
            busy: 0,
            queue: None,
            round_start: now,
            round_queue: Span::ZERO,
            round_limited: false,
            round_skip: 0,
            round_best: Rate::from_bps(0),
            best: Rate::from_bps(0),
            flat_rounds: 0,
            believed: Believed::Nothing,
            overload_since: None,
            raise: 0,
            stuck: None,
            stall: Span::ZERO,
            last_drain: now,
            doubted: None,
            reverse: VecDeque::new(),
        };
        if let Some(rate) = start_rate {
            this.start_slowly(rate);
        }
        this
    }

    /// The first window is what the lane carries in [`SLOW_START_SPAN`] at `rate`.
    fn start_slowly(&mut self, rate: Rate) {
        self.rate = rate.clamp(RATE_MIN, INITIAL_RATE);
        self.pacing = self.rate.scale(2, 1);
        self.window = self.rate.octets_in(SLOW_START_SPAN).get().clamp(SLOW_START_WINDOW_MIN, INITIAL_WINDOW);
        self.first_window = self.window;
    }

    /// Whether nothing was measured yet.
    pub(crate) fn is_new(&self) -> bool {
        self.phase == Phase::Startup && self.best.as_bps() == 0 && self.busy == 0
    }

    /// The lane carries at most `bound`, if there is one. Of effect only before anything else was measured.
    pub(crate) fn start_at(&mut self, bound: Option<Rate>) {
        if !self.is_new() {
            return;
        }
        match bound.filter(|bound| bound.octets_in(SLOW_START_SPAN).get() < INITIAL_WINDOW) {
            Some(bound) => self.start_slowly(bound),
            None if self.first_window < INITIAL_WINDOW => {
                self.rate = self.rate.max(INITIAL_RATE);
                self.pacing = TRAIN_RATE;
                self.window = INITIAL_WINDOW;
                self.first_window = INITIAL_WINDOW;
            }
            None => {}
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

    fn service_window(&self, sample: &AckSample, forward: &Forward) -> Span {
        let span = sample.rtt_min.scale(1, 2).clamp(SERVICE_MIN, SERVICE_MAX);
        let span = if self.phase == Phase::Startup { span.scale(1, 2) } else { span };
        span.max(forward.jitter().times(SERVICE_JITTERS))
    }

    /// A packet's fate became known.
    pub(crate) fn resolved(&mut self, packet: &Resolved) {
        self.cause.resolved(packet);
        self.probe.resolved(packet);
    }

    /// Handles an ack that acknowledged something new.
    pub(crate) fn on_ack(&mut self, sample: &AckSample, forward: &mut Forward, losses: &mut Losses) {
        self.delivered += sample.delivered;
        let now = sample.now;
        self.note_silence(now, sample.waited, sample.rtt, losses);
        let Some(newest) = sample.newest else { return };
        self.sizes.see(now, u64::from(newest.bytes));
        self.busy = if newest.app_limited { 0 } else { self.busy + sample.delivered };
        self.note_reverse(sample, forward);
        // The lowest round trip of half a minute may be that of an earlier path, and a loop with too short an assumed delay does not
        // converge.
        let sample = &AckSample { rtt_min: sample.rtt_min.max(self.way(forward)), ..*sample };
        // On a slow lane packets are far apart without any silence.
        let apart = self.pacing.time_for(Octets::new(SILENT_PACKETS * PACKET));
        // In startup a window is sent at once, and the pause until its acks arrive is not service either.
        let pause = if self.phase == Phase::Startup { sample.rtt.scale(3, 4) } else { sample.rtt.times(2) + OUTAGE };
        let silence_max = pause.max(apart).max(SILENT_MIN);
        let later = self.service.push(
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
        self.stall = if let Phase::Drain { .. } = self.phase { self.stall.max(later) } else { Span::ZERO };
        self.note_spurts(sample, forward);
        let queue = forward.queue(now).unwrap_or(Span::ZERO);
        self.queue = Some(queue);
        self.shallow.see(now, queue, losses);
        self.note_spill(sample, losses, queue);
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
        self.limit_spill(sample, forward);
    }

    /// The lane's packets were not acknowledged for a while. If it was full then, the link may carry less now. A silence after a few small
    /// packets means nothing: otherwise a lane that is idle through several outages would end at the lowest rate.
    fn note_silence(&mut self, now: Instant, waited: Span, rtt: Span, losses: &mut Losses) {
        if waited > DOUBT_AFTER + rtt && self.phase != Phase::Startup {
            if self.busy > 0 {
                self.rate = self.rate.scale(1, 2).max(self.rate.min(DOUBT_FLOOR));
                self.doubted = Some(now);
                self.raise = 1;
            }
            self.phase = Phase::Cruise;
            self.compete.end();
            self.stuck = None;
            self.round_start = now;
            self.service.forget();
            // What was lost meanwhile does not follow our rate, and a trial of that takes a slow lane a minute.
            self.cause.abort(now, rtt);
            losses.reset_tally(now);
        }
    }

    /// The return path's part of round trips, relative to an unknown origin: its spread widens the window.
    fn note_reverse(&mut self, sample: &AckSample, forward: &Forward) {
        if let (Some(rtt), Some(delay)) = (sample.latest_rtt, forward.newest()) {
            self.reverse.push_back(rtt.as_nanos() as i64 - delay);
            if self.reverse.len() > REVERSE_SAMPLES {
                self.reverse.pop_front();
            }
        }
    }

    /// The round trip with an empty queue: lowest forward delay plus the longest recent return delay. Their unknown clock offsets cancel.
    fn base_rtt(&self, sample: &AckSample, forward: &Forward) -> Span {
        match (forward.base(), self.reverse.iter().max()) {
            (Some(base), Some(back)) => Span::from_nanos((base + back).max(0) as u64),
            _ => sample.rtt,
        }
    }

    /// The round trip with an empty queue, as the last packets saw it.
    fn way(&self, forward: &Forward) -> Span {
        match (forward.base(), self.reverse.iter().min()) {
            (Some(base), Some(back)) => Span::from_nanos((base + back).max(0) as u64),
            _ => Span::ZERO,
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

    /// The path changed. The rate is kept: RFC 9000, section 9.4 resets it, but most moves are new addresses for the same link, and a
    /// slower link shows within a few packets of queue.
    pub(crate) fn path_changed(&mut self, now: Instant) {
        self.service.forget();
        self.cause.forget();
        self.compete = Compete::default();
        self.shallow = Shallow::default();
        self.probe = Probe::new();
        self.spurts = Spurts::default();
        self.spill = Spill::default();
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
