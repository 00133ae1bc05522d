//! Finding spare capacity if jitter hides the queue: sending faster for a round and checking whether the delay responds.
//!
//! A link whose delay varies by more than the target never shows an empty queue, so the growth of [`super::cruise`] never begins. Only what
//! follows our rate is ours: at a gain g a full link's queue grows by (g - 1) of the time, which is chosen longer than the swing; if the
//! mean delay does not respond, there was spare capacity.

use super::target::TARGET_JITTERS;
use super::{Delay, RATE_MAX};
use crate::lane::control::AckSample;
use crate::lane::losses::Losses;
use crate::lane::sent::Resolved;
use wavelane_base::{Instant, Rate, Span};

/// The swing is this many times the mean distance from the mean: for a uniform distribution, its width.
const DISTANCES: u64 = 4;
/// The swing of the delay within a round is smoothed by one part in this many per round.
const SWING_STEP: u64 = 4;
const SWELL_MAX: Span = Span::from_millis(100);
/// The gain makes the mean queue of a full link respond by the swing, within these bounds (thousandths).
const GAIN_MIN: u64 = 1050;
const GAIN_MAX: u64 = 1500;
/// The lowest gain, by the number of probes in a row that found spare capacity.
const FOUND_GAINS: [u64; 3] = [GAIN_MIN, 1250, GAIN_MAX];
/// A probe lasts a round trip, and at least this many swings.
const PROBE_SWINGS: u64 = 4;
/// The link is full if it responds with more than this part.
const ANSWERS: f64 = 0.5;
/// With a queue of this many targets behind the window no packet is sent faster, and a constant delay shows no spare capacity.
const HELD_UP_TARGETS: u64 = 2;
/// A probe raises the rate to at most this part of the rate that arrives.
const ARRIVES: (u64, u64) = (5, 4);
/// After a probe that found the link full the next comes after this many times its length, doubled with every such probe.
const WAIT_ROUNDS: u64 = 8;
const WAIT_DOUBLINGS: u32 = 4;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    /// Waiting.
    Idle,
    /// Sending faster than `from` until `until`, from a mean queue of `before`.
    Up { since: Instant, until: Instant, gain: u64, from: Rate, before: Span },
    /// Sending slower until then: the queue that the probe added drains.
    Down { until: Instant, gain: u64 },
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Probe {
    stage: Stage,
    next: Instant,
    full: u32,
    /// In this round: sum and number of queues, and the sum of their distances from the last round's mean.
    sum: Span,
    away: Span,
    count: u64,
    /// Mean queue of the last round, and its swing within one.
    mean: Span,
    swing: Span,
    /// The same, but of no more than [`SWELL_MAX`] in any round: so it ends a few rounds after the link became steady.
    swell: Span,
    /// Bytes whose fate is known, and lost ones, sent in the second half of a probe; and the share lost before.
    known: u64,
    lost: u64,
    share: f64,
    /// Probes that found spare capacity, in a row.
    found: usize,
}

impl Probe {
    pub(super) fn new() -> Self {
        let (stage, next) = (Stage::Idle, Instant::ZERO);
        let (sum, away) = (Span::ZERO, Span::ZERO);
        Self {
            stage,
            next,
            full: 0,
            sum,
            away,
            count: 0,
            mean: Span::ZERO,
            swing: Span::ZERO,
            swell: Span::ZERO,
            known: 0,
            lost: 0,
            share: 0.0,
            found: 0,
        }
    }

    /// The swing of the delay, as far as a target may follow it.
    pub(super) fn swell(&self) -> Span {
        self.swell
    }

    /// Pacing gain in thousandths, while a probe runs.
    pub(super) fn gain(&self) -> Option<u64> {
        match self.stage {
            Stage::Idle => None,
            Stage::Up { gain, .. } | Stage::Down { gain, .. } => Some(gain),
        }
    }

    /// Ends a probe without a result.
    pub(super) fn stop(&mut self) {
        self.stage = Stage::Idle;
        self.found = 0;
    }

    /// A packet's fate became known.
    pub(super) fn resolved(&mut self, packet: &Resolved) {
        if let Stage::Up { since, until, .. } = self.stage
            && packet.sent_at >= since + until.since(since).scale(1, 2)
            && packet.sent_at < until
        {
            self.known += u64::from(packet.bytes);
            self.lost += if packet.lost { u64::from(packet.bytes) } else { 0 };
        }
    }

    fn see(&mut self, queue: Span) {
        self.sum += queue;
        self.away += queue.saturating_sub(self.mean).max(self.mean.saturating_sub(queue));
        self.count += 1;
    }

    fn forget_round(&mut self) {
        self.sum = Span::ZERO;
        self.away = Span::ZERO;
        self.count = 0;
    }

    fn end_round(&mut self) {
        if self.count > 1 {
            self.mean = self.sum.scale(1, self.count);
            let swing = self.away.scale(DISTANCES, self.count);
            self.swing = smoothed(self.swing, swing);
            self.swell = smoothed(self.swell, swing.min(SWELL_MAX));
        }
        self.forget_round();
    }
}

fn smoothed(before: Span, latest: Span) -> Span {
    before.scale(SWING_STEP - 1, SWING_STEP) + latest.scale(1, SWING_STEP)
}

impl Delay {
    /// Runs the probes. Called for every ack in `Phase::Cruise`.
    pub(super) fn probe(&mut self, sample: &AckSample, losses: &Losses, queue: Span, jitter: Span, round_over: bool) {
        let Some(newest) = sample.newest else { return };
        let idle = self.probe.stage == Stage::Idle;
        if newest.app_limited || self.cause.trying() || self.cause.ceiling().is_some() || self.raise > 0 {
            self.probe.stop();
            self.probe.forget_round();
            return;
        }
        match self.probe.stage {
            Stage::Idle => self.probe.see(queue),
            Stage::Up { since, until, gain, from, before } => {
                if newest.sent_at >= since + until.since(since).scale(1, 2) {
                    self.probe.see(queue);
                }
                if newest.sent_at >= until + sample.rtt.scale(1, 8) {
                    let faster = self.left_faster(until.since(since), gain, from);
                    self.end_probe(sample, losses, (until.since(since), gain, before), faster, jitter);
                }
            }
            Stage::Down { until, .. } => {
                // The delay is known a round trip later.
                if newest.sent_at >= until {
                    self.probe.stop();
                    self.probe.forget_round();
                }
            }
        }
        if idle && round_over {
            self.probe.end_round();
            if self.hidden(jitter)
                && self.probe.swing > Span::ZERO
                && self.round_skip == 0
                && sample.now >= self.probe.next
            {
                self.begin_probe(sample, losses);
            }
        }
    }

    /// Whether jitter determines the target: then it hides an empty queue.
    fn hidden(&self, jitter: Span) -> bool {
        jitter.times(TARGET_JITTERS) >= self.target_at(Span::ZERO) && !self.swings(jitter)
    }

    /// Whether packets in the second half of a probe were sent faster by at least half of the requested increase.
    fn left_faster(&self, length: Span, gain: u64, from: Rate) -> bool {
        let asked = from.scale(1000 + (gain - 1000) / 2, 1000);
        self.service.rate(length.scale(1, 2)).is_some_and(|served| served.sent >= asked)
    }

    fn begin_probe(&mut self, sample: &AckSample, losses: &Losses) {
        self.probe.known = 0;
        self.probe.lost = 0;
        self.probe.share = losses.share();
        let swing = self.probe.swing;
        let length = sample.rtt_min.max(swing.times(PROBE_SWINGS));
        // In the second half of the probe the mean response is three quarters of the whole.
        let gain = 1000 + swing.as_nanos() * 4000 / (3 * length.as_nanos()).max(1);
        let gain = gain.clamp(GAIN_MIN, GAIN_MAX).max(FOUND_GAINS[self.probe.found]);
        self.probe.stage =
            Stage::Up { since: sample.now, until: sample.now + length, gain, from: self.rate, before: self.probe.mean };
    }

    fn end_probe(
        &mut self,
        sample: &AckSample,
        losses: &Losses,
        (length, gain, before): (Span, u64, Span),
        faster: bool,
        jitter: Span,
    ) {
        let now = sample.now;
        let mean = if self.probe.count > 0 { self.probe.sum.scale(1, self.probe.count) } else { Span::MAX };
        // A full link responds with delay or, if its queue is short, with loss; each relative to the response of that alone.
        let excess = (gain - 1000) as f64 / 1000.0;
        let delay = mean.saturating_sub(before).as_secs_f64() / (length.as_secs_f64() * 0.75 * excess);
        let lost = self.probe.lost as f64 / self.probe.known.max(1) as f64;
        let loss = (lost - self.probe.share).max(0.0) / (excess / (1.0 + excess));
        self.probe.forget_round();
        let held_up = !faster && mean > self.target_at(jitter).times(HELD_UP_TARGETS);
        if !held_up && self.probe.known > 0 && delay + loss < ANSWERS {
            // Never far above the rate that arrives: fates may be late.
            let arrives = self.service.rate(sample.rtt).map_or(self.rate, |s| self.cause.carried(s.delivered));
            self.rate =
                self.rate.scale(gain, 1000).min(arrives.scale(ARRIVES.0, ARRIVES.1).max(self.rate)).min(RATE_MAX);
            self.probe.full = 0;
            self.probe.found = (self.probe.found + 1).min(FOUND_GAINS.len() - 1);
            self.probe.mean = mean;
            if self.hidden(jitter) {
                self.begin_probe(sample, losses);
            } else {
                self.probe.stop();
            }
        } else {
            let added = mean.saturating_sub(before).as_nanos() * 1000 / length.as_nanos().max(1);
            self.probe.stage = Stage::Down { until: now + length, gain: 1000 - added.min(gain - 1000) };
            self.probe.next = now + length.times(WAIT_ROUNDS << self.probe.full.min(WAIT_DOUBLINGS));
            self.probe.full += 1;
            self.probe.found = 0;
        }
    }
}
