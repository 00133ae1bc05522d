//! Following the link: the rate it serves while there is a queue, a higher one while there is none.

use super::outputs::RAISE_GAINS;
use super::target::TARGET_MIN;
use super::{DOUBT_FLOOR, Delay, RATE_MAX, RATE_MIN, SKIP_ROUNDS};
use crate::lane::control::AckSample;
use crate::lane::control::cause::Judged;
use crate::lane::control::service::Served;
use crate::lane::forward::Forward;
use crate::lane::losses::Losses;
use wavelane_base::{Rate, Span};

/// If served and sent rate differ by less than this share (plus jitter), a full link cannot be told from an idle one.
const ALIKE: f64 = 0.02;
/// In that case the rate moves by one part in this many per ack.
const YIELD_STEPS: u64 = 1024;
/// The fate of a packet is known if it was sent this much before one that arrived, or an eighth of a round trip.
const SETTLE_MIN: Span = Span::from_millis(5);
/// A fall of the link's rate is accepted after this many packets, if jitter is below the bound. A queue this long, plus a quarter of a
/// round trip, ends a trial: the link became slower.
const TRIAL_QUEUE_TARGETS: u64 = 2;
const SLUMP_PACKETS: u64 = 2;
const SLUMP_JITTER_MAX: Span = Span::from_millis(3);
/// What a spike of the delay held back arrives at once, at no rate of the link: more than was served in the last minute is believed up to this
/// part of the rate at which the same packets were sent, for so much faster than the rate a packet may leave.
const BELIEVED: (u64, u64) = (3, 2);

impl Delay {
    pub(super) fn cruise(
        &mut self,
        sample: &AckSample,
        forward: &mut Forward,
        losses: &mut Losses,
        queue: Span,
        round_over: bool,
    ) {
        let target = self.target(forward);
        if let Some(served) = self.measure(sample, forward, queue, target) {
            let sent = served.sent.scale(BELIEVED.0, BELIEVED.1);
            let served = served.at_most(sent.max(self.rate).max(self.compete.best()));
            if !served.app_limited {
                self.compete.note_served(sample.now, served.delivered);
            }
            if queue >= target {
                self.follow(served, sample, forward, losses);
            } else if !self.cause.trying() {
                let limit = self.cause.ceiling().unwrap_or(RATE_MAX).min(self.cause.carried(served.delivered));
                self.rate = self.rate.max(served.rate.min(limit));
            }
        }
        self.rate = self.rate.clamp(RATE_MIN, RATE_MAX);
        self.judge_losses(sample, losses, queue, (target, forward.jitter()));
        if queue >= target.scale(1, 2) {
            self.raise = 0;
        }
        if round_over {
            self.end_round(target, forward.jitter(), losses);
        }
        self.probe(sample, losses, queue, forward.jitter(), round_over);
        self.watch_queue(sample, forward, queue, target);
    }

    /// The service rate; taken over a shorter time if the queue shows that the link has become much slower.
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

    /// The queue is above target: the served rate is the link's rate, if the link is the limit.
    fn follow(&mut self, served: Served, sample: &AckSample, forward: &Forward, losses: &Losses) {
        self.cause.queue_seen();
        if served.app_limited {
            return;
        }
        // The service rate at the lower rate of a trial says nothing about the link.
        if self.cause.trying() {
            return;
        }
        // Drops before the queue count as served; a ceiling is more accurate.
        let limit = RATE_MAX.min(self.cause.ceiling().unwrap_or(RATE_MAX));
        let limit = limit.min(self.rate.max(self.cause.carried(served.delivered)));
        // Loss alone never reduces the rate below the floor: from there recovery would be slow.
        let kept = served.rate.scale(1000 - self.cause.overflow(losses), 1000).max(served.rate.min(DOUBT_FLOOR));
        let rate = kept.min(limit);
        let window = self.service_window(sample, forward).as_secs_f64();
        let alike = ALIKE + forward.jitter().as_secs_f64() / window;
        let ratio = served.rate.as_bps() as f64 / served.sent.as_bps().max(1) as f64;
        if rate < self.rate && (1.0 - alike..1.0 + alike).contains(&ratio) {
            // A queue that neither grows nor shrinks may be a base that moved: then we would be measuring our own rate. Reduce it slowly;
            // the stuck queue will be examined.
            let step = (self.rate.as_bps() - rate.as_bps()) / YIELD_STEPS;
            self.rate = Rate::from_bps(self.rate.as_bps() - step);
        } else {
            self.rate = rate;
        }
    }

    fn judge_losses(&mut self, sample: &AckSample, losses: &mut Losses, queue: Span, (target, jitter): (Span, Span)) {
        let Some(newest) = sample.newest else { return };
        // Shortly after a packet was overtaken it is known to be lost.
        let late = sample.rtt.scale(1, 8).max(SETTLE_MIN);
        let judged = Judged {
            now: sample.now,
            rtt: sample.rtt,
            rate: self.rate,
            settled: newest.sent_at - late,
            sent: newest.sent_at,
            queue,
            // If jitter determines the target, a queue of half of it does not count.
            full: self.raise == 0 && queue >= target.scale(1, 2) && jitter.times(4) < target,
            limited: newest.app_limited,
            swings: self.swings(jitter),
        };
        if self.cause.trying() && queue > target.times(TRIAL_QUEUE_TARGETS) + sample.rtt_min.scale(1, 4) {
            self.cause.abort(sample.now, sample.rtt);
            losses.reset_tally(sample.now);
            return;
        }
        let before = self.cause.trying();
        self.cause.judge(&judged, losses);
        if before && !self.cause.trying() {
            self.rate = self.rate.min(self.cause.ceiling().unwrap_or(RATE_MAX));
            self.raise = 0;
            self.round_skip = SKIP_ROUNDS;
            self.round_start = sample.now;
            self.service.forget();
        } else if self.cause.trying() {
            self.raise = 0;
        }
    }

    fn end_round(&mut self, target: Span, jitter: Span, losses: &Losses) {
        // Jitter looks like a queue; without jitter, even a tenth of the target shows that the link is busy.
        let empty = self.round_queue < jitter.clamp(target.scale(1, 10), target.scale(1, 3));
        let may = !self.round_limited && self.round_skip == 0 && self.cause.ceiling().is_none() && !self.cause.trying();
        // A higher rate that only adds loss is no gain.
        if empty && may && !self.cause.exceeds(losses.single_share()) {
            self.raise = (self.raise + 1).min(RAISE_GAINS.len() - 1);
        } else {
            self.raise = 0;
        }
    }
}
