//! The target queue, and the part of a delay that is not queue.

use super::{Delay, Phase};
use crate::lane::control::PACKET;
use crate::lane::forward::{Forward, JITTER_MIN, JITTER_WINDOW};
use wavelane_base::{Instant, Octets, Span};

/// The target queue is this at [`TARGET_RATE`] and falls with the square root of the rate, so that flows that see the same queue converge
/// to the same rate.
pub(super) const TARGET_MIN: Span = Span::from_millis(5);
const TARGET_MAX: Span = Span::from_millis(18);
const TARGET_RATE: f64 = 32e6;
/// It is also at least this many packets long: fewer cannot stand in a queue steadily.
const TARGET_PACKETS: u64 = 2;
/// And at least this many times the jitter seen in one short window, which is about half of the total.
pub(super) const TARGET_JITTERS: u64 = 2;

/// And at least this part of the delay's swing within a round, as far as that exceeds the target that the loop itself swings by: where the
/// link's rate varies, a shorter queue is empty before an ack tells of the rise.
const SWELL_PART: (u64, u64) = (3, 4);
/// A delay that swings by more than this many targets within a round shows a link whose own rate varies.
const SWINGS: u64 = 2;

/// The size of packets is that of the largest in this time, or in up to twice as long.
const SIZES_WINDOW: Span = Span::from_secs(5);

/// Full packets are assumed until this many were acknowledged: on a slow lane two of them are a queue of a second.
const SIZES_KNOWN: u32 = 16;

/// The largest packets lately.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// How many were seen, up to [`SIZES_KNOWN`].
    seen: u32,
    since: Instant,
    /// Of this window and of the one before.
    largest: [u64; 2],
}

impl Sizes {
    pub(super) fn new(now: Instant) -> Self {
        Self { seen: 0, since: now, largest: [0; 2] }
    }
    /// A packet of `bytes` was acknowledged.
    pub(super) fn see(&mut self, now: Instant, bytes: u64) {
        if now.since(self.since) > SIZES_WINDOW {
            self.since = now;
            self.largest = [0, self.largest[0]];
        }
        self.seen = (self.seen + 1).min(SIZES_KNOWN);
        self.largest[0] = self.largest[0].max(bytes.min(PACKET));
    }
    fn largest(&self) -> u64 {
        if self.seen < SIZES_KNOWN { PACKET } else { self.largest[0].max(self.largest[1]) }
    }
}

impl Delay {
    /// The target length of the queue.
    pub(super) fn target(&self, forward: &Forward) -> Span {
        let packets = self.rate.time_for(Octets::new(TARGET_PACKETS * self.sizes.largest()));
        // A lane below half of its best rate is the one that lost its share: its target is not lowered further.
        let ahead = self.phase == Phase::Cruise && self.rate > self.compete.best().scale(1, 2);
        let limit = self.shallow.limit().filter(|_| ahead).unwrap_or(Span::MAX);
        self.target_by_rate(forward).min(limit).max(packets)
    }

    fn target_by_rate(&self, forward: &Forward) -> Span {
        let target = self.target_at(forward.jitter());
        target.max(self.probe.swell().saturating_sub(target).scale(SWELL_PART.0, SWELL_PART.1))
    }

    /// Whether the link's own rate varies so much that queue and loss come and go with it, not with our rate or the medium.
    pub(super) fn swings(&self, jitter: Span) -> bool {
        // Where so few packets come in the time over which jitter is measured, it is how the link's rate varies.
        let few = self.rate.time_for(Octets::new(JITTER_MIN as u64 * PACKET)) > JITTER_WINDOW;
        let jitter = if few { Span::ZERO } else { jitter };
        self.probe.swell() > self.target_at(jitter).times(SWINGS)
    }

    /// The target that follows from jitter and rate, regardless of the queue's limit.
    pub(super) fn target_at(&self, jitter: Span) -> Span {
        let rate = self.rate.as_bps().max(1) as f64;
        let by_rate = Span::from_secs_f64(TARGET_MIN.as_secs_f64() * (TARGET_RATE / rate).sqrt());
        by_rate.clamp(TARGET_MIN, TARGET_MAX).max(jitter.times(TARGET_JITTERS))
    }

    /// A queue above this is longer than wanted. The rate that a competitor leaves us says little about the link: packets take as long as
    /// they did when we had more.
    pub(super) fn suspicious(&self, forward: &Forward) -> Span {
        self.target_by_rate(forward).max(self.unevenness(forward))
    }

    /// The part of a delay that may be jitter and single packets.
    pub(super) fn unevenness(&self, forward: &Forward) -> Span {
        let packets = self.rate.max(self.compete.best()).time_for(Octets::new(TARGET_PACKETS * self.sizes.largest()));
        packets.max(forward.jitter().times(TARGET_JITTERS))
    }
}
