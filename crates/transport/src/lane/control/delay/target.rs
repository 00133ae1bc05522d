//! The target queue, and the part of a delay that is not queue.

use super::{Delay, Phase};
use crate::lane::control::PACKET;
use crate::lane::forward::Forward;
use wavelane_base::{Octets, Span};

/// The target queue is this at [`TARGET_RATE`] and falls with the square root of the rate, so that flows that see the same queue converge
/// to the same rate.
pub(super) const TARGET_MIN: Span = Span::from_millis(5);
const TARGET_MAX: Span = Span::from_millis(18);
const TARGET_RATE: f64 = 32e6;
/// It is also at least this many packets long: fewer cannot stand in a queue steadily.
const TARGET_PACKETS: u64 = 2;
/// And at least this many times the jitter seen in one short window, which is about half of the total.
pub(super) const TARGET_JITTERS: u64 = 2;

impl Delay {
    /// The target length of the queue.
    pub(super) fn target(&self, forward: &Forward) -> Span {
        let packets = self.rate.time_for(Octets::new(TARGET_PACKETS * PACKET));
        // A lane below half of its best rate is the one that lost its share: its target is not lowered further.
        let ahead = self.phase == Phase::Cruise && self.rate > self.compete.best().scale(1, 2);
        let limit = self.shallow.limit().filter(|_| ahead).unwrap_or(Span::MAX);
        self.target_by_rate(forward).min(limit).max(packets)
    }

    fn target_by_rate(&self, forward: &Forward) -> Span {
        self.target_at(forward.jitter())
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
        let packets = self.rate.max(self.compete.best()).time_for(Octets::new(TARGET_PACKETS * PACKET));
        packets.max(forward.jitter().times(TARGET_JITTERS))
    }
}
