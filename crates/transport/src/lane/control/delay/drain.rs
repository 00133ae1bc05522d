//! Emptying the queue to measure the delay without it: when to begin, how it ends, and whose queue remains.

use super::outputs::DRAIN_GAIN;
use super::target::TARGET_MIN;
use super::{Delay, Phase, RATE_MAX, RATE_MIN, SKIP_ROUNDS};
use crate::lane::SLOW_PACKET;
use crate::lane::control::compete::{Situation, Verdict};
use crate::lane::control::{AckSample, PACKET};
use crate::lane::forward::Forward;
use crate::lane::losses::Losses;
use wavelane_base::{Instant, Octets, Rate, Span};

/// A drain halves the rate for at least this long; that removes a queue of half that length.
const DRAIN_SPAN: Span = Span::from_millis(40);
const DRAIN_TARGETS: u64 = 8;
/// A drain longer than this ends when the base is seen: what looked like a queue may be gone at once (the peer's process was stopped for some
/// seconds). Jitter may show the base too soon, so a shorter one ends by time ...
const DRAIN_LONG: Span = Span::from_secs(2);
/// ... but on a slow lane above this.
const DRAIN_LONG_SLOW: Span = Span::from_millis(500);
/// On a slow lane a drain may take up to this many times as long until then: acks and urgent packets, which the pacer does
/// not hold back, are much of what a slow lane carries.
const DRAIN_MORE: u64 = 2;
/// A drain begins if the base was not seen for this long, or for [`DRAIN_RTTS`] if that is longer.
const DRAIN_EVERY: Span = Span::from_secs(5);
const DRAIN_RTTS: u64 = 20;
/// But no later than this: the drain's result must come before the base window ends.
const DRAIN_LATEST: Span = Span::from_secs(6);
/// A queue this much above target is more than the loop's oscillation.
const STANDING: (u64, u64) = (3, 2);
/// The same while a competitor may still be there.
const WARY: (u64, u64) = (6, 5);
/// If it does not shrink for this many round trips, it is not ours: the base is measured again, or it is a competitor's.
const STUCK_RTTS: u64 = 3;

/// The queue of a link that varies empties by itself within this time, or as many round trips; one that does not is drained as elsewhere.
const EMPTIES: Span = Span::from_secs(1);
const EMPTIES_RTTS: u64 = 4;

/// A queue is a competitor's, or a longer path, if its packets come as evenly as they left: the link that lets one of them wait for this part
/// of what is left stutters, and the queue is ours. On a link that swings any wait of [`STALL_MIN`] shows as much.
const STALL_PART: u64 = 3;
const STALL_MIN: Span = Span::from_millis(20);
/// For this long after an outage a rate from before a standing queue is restored only with a reason.
const DOUBT_FOR: Span = Span::from_secs(5);

/// A queue above target that does not shrink.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Stuck {
    since: Instant,
    /// Its shortest length since then.
    queue: Span,
    /// The rate before it.
    rate: Rate,
}

impl Delay {
    /// Starts a drain if the base was not seen for long, and a harder one if the queue does not shrink.
    pub(super) fn watch_queue(&mut self, sample: &AckSample, forward: &Forward, queue: Span, target: Span) {
        let now = sample.now;
        let suspicious = self.suspicious(forward);
        if queue <= suspicious {
            self.emptied = now;
        }
        let empties = now.since(self.emptied) <= EMPTIES.max(sample.rtt.times(EMPTIES_RTTS));
        if self.probe.gain().is_some() || empties && self.spurts(forward).is_some() {
            // The queue added by a probe is our own, and that of a link that varies empties by itself.
            self.stuck = None;
            return;
        }
        let loop_delay = sample.rtt + self.service_window(sample, forward);
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
        let every = sample.rtt.times(DRAIN_RTTS).clamp(DRAIN_EVERY, DRAIN_LATEST);
        if self.phase == Phase::Cruise
            && now.since(forward.base_seen()) > every
            && now.since(self.last_drain) > every
            && !self.cause.trying()
        {
            let least = DRAIN_SPAN.max(target.times(DRAIN_TARGETS).min(DRAIN_SPAN.times(2)));
            // On a slow lane a few packets are a long queue, and the rate floor makes the drain gentler.
            let until = now + least.max(self.time_to_empty(queue));
            self.phase = Phase::Drain { since: now, until, rebase: None };
        }
    }

    /// How long a drain takes to empty `queue`.
    fn time_to_empty(&self, queue: Span) -> Span {
        let paced = self.rate.scale((DRAIN_GAIN * 1000.0) as u64, 1000).max(self.drain_floor());
        let rate = self.rate.as_bps().max(1);
        queue.scale(rate, (rate - paced.as_bps().min(rate)).max(rate / 10))
    }

    fn is_slow(&self) -> bool {
        self.rate.time_for(Octets::new(PACKET)) >= SLOW_PACKET
    }

    pub(super) fn draining(
        &mut self,
        sample: &AckSample,
        forward: &mut Forward,
        losses: &mut Losses,
        newest_sent: Instant,
    ) {
        let Phase::Drain { since, until, rebase } = self.phase else { return };
        let now = sample.now;
        // A short drain ends by time; a rebase waits until packets sent at its end are acknowledged.
        let planned = until.since(since);
        let over = match rebase {
            Some(_) => newest_sent >= until,
            None if planned <= if self.is_slow() { DRAIN_LONG_SLOW } else { DRAIN_LONG } => now >= until,
            None => {
                newest_sent >= since && forward.base_seen() >= since
                    || now >= since + planned.times(if self.is_slow() { DRAIN_MORE } else { 1 })
            }
        };
        if !over {
            return;
        }
        if let Some(stuck) = rebase.filter(|_| !self.stutters(forward, now)) {
            if self.competitor_found(sample, forward, losses, &stuck) {
                self.phase = Phase::Compete;
                return;
            }
            let old = forward.queue(now).unwrap_or(Span::ZERO);
            forward.rebase(now, since + sample.rtt);
            let new = forward.queue(now).unwrap_or(Span::ZERO);
            // After an outage the previous rate is in doubt: if the base did not move, the queue was ours, and the rate has followed the
            // link.
            let moved = old.saturating_sub(new) > stuck.queue.scale(1, 2);
            let doubted = self.doubted.is_some_and(|at| now.since(at) < DOUBT_FOR);
            if new < old.scale(1, 2) && (moved || !doubted) {
                self.rate = self.rate.max(stuck.rate);
            }
        }
        self.phase = Phase::Cruise;
        self.last_drain = now;
        self.round_skip = SKIP_ROUNDS;
        self.round_start = now;
        self.raise = 0;
    }

    /// Whether the link stood still in a drain for a good part of the queue that is left.
    fn stutters(&self, forward: &Forward, now: Instant) -> bool {
        let least = if self.swings(forward.jitter()) { Some(Span::ZERO) } else { forward.queue(now) };
        least.is_some_and(|left| self.stall > left.scale(1, STALL_PART).max(STALL_MIN))
    }

    /// After a drain: whether the remaining queue is another flow's. If so, competing has begun.
    fn competitor_found(&mut self, sample: &AckSample, forward: &Forward, losses: &mut Losses, stuck: &Stuck) -> bool {
        let (Some(left), Some(base)) = (forward.queue(sample.now), forward.base()) else { return false };
        let uneven = self.unevenness(forward);
        // A second lane keeps as long a queue as we do, so that much is not a competitor.
        if self.round_limited || left <= self.suspicious(forward).max(uneven.times(2)) {
            return false;
        }
        let grew = left > stuck.queue + TARGET_MIN.max(uneven);
        let Some(floor) = self.compete.standing_queue(sample.now, base, self.rate, grew) else { return false };
        let situation = Situation { rate: stuck.rate.max(self.rate), medium: self.cause.medium(), floor };
        self.compete.begin(sample, losses, &situation);
        self.cause.adjourn();
        true
    }

    pub(super) fn compete(&mut self, sample: &AckSample, forward: &Forward, losses: &mut Losses) {
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
}
