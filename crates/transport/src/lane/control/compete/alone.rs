//! Whether we are alone again: shown by sending less for a moment, by a queue that stays empty, or by having the whole link.

use super::{FAILS_MAX, Flow, stepped};
use crate::lane::control::AckSample;
use wavelane_base::{Instant, Rate, Span};

/// Interval between tests, or [`TEST_RTTS`] if that is longer.
const TEST_EVERY: Span = Span::from_secs(4);
const TEST_RTTS: u64 = 12;
/// If we are alone, the queue is empty after 1 / (1 - gain) = 1.4 times its own length. Two lanes empty it together: the second joins when
/// the queue has shrunk by [`DIP_SHARE`] and a round trip has passed. A test lasts this multiple of the queue and half a round trip.
const TEST_LENGTH: (u64, u64) = (25, 10);
const TEST_MIN: Span = Span::from_millis(40);
/// A queue that shrinks to this share within a round trip or two has lost a sender, at least for a moment.
const DIP_SHARE: (u64, u64) = (88, 100);
/// This many tests in a row must be passed, because a competitor that has just been cut lets one pass; the second starts this long after
/// the first.
const PASSES: u32 = 2;
const AGAIN_AFTER: Span = Span::from_millis(500);
const AGAIN_RTTS: u64 = 4;
/// Below this part of the queue before the test it counts as empty: the delay of an empty queue was seen some time ago.
const NEAR_SHARE: u64 = 8;
/// A queue that stays empty by itself for this many round trips needs no test.
const EMPTY_RTTS: u64 = 6;
/// Nor is one needed if we had the whole link for this many round trips, and this long.
const FILLED_RTTS: u64 = 4;
const FILLED_MIN: Span = Span::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    since: Instant,
    until: Instant,
    queue: Span,
    pub(super) rate: Rate,
}

pub(super) fn test_every(rtt: Span) -> Span {
    stepped(TEST_EVERY, rtt, TEST_RTTS)
}

/// Detects that the queue becomes shorter without our doing.
#[derive(Debug, Default)]
pub(super) struct Dips {
    /// Longest queue of this round trip and of the one before.
    high: [Span; 2],
    turn: Instant,
    /// Until this time shorter queues are caused by us.
    deaf_until: Instant,
}

impl Dips {
    pub(super) fn ours(&mut self, sample: &AckSample) {
        self.deaf_until = sample.now + sample.rtt.times(2);
    }

    fn see(&mut self, sample: &AckSample, queue: Span) -> bool {
        if sample.now.since(self.turn) > sample.rtt {
            self.turn = sample.now;
            self.high = [queue, self.high[0]];
        }
        self.high[0] = self.high[0].max(queue);
        let dip = queue < self.high[0].max(self.high[1]).scale(DIP_SHARE.0, DIP_SHARE.1);
        if sample.now < self.deaf_until || !dip {
            return false;
        }
        self.ours(sample);
        true
    }
}

impl Flow {
    /// Two lanes that both compete keep each other's queue full, and neither would find itself alone. A queue that becomes shorter without
    /// our doing may be the other's test: join it.
    pub(super) fn join(&mut self, sample: &AckSample, queue: Span, near: Span) {
        if self.test.is_some() {
            self.dips.ours(sample);
        } else if self.dips.see(sample, queue) && queue > near {
            let spaced = sample.now.since(self.last_test) >= test_every(sample.rtt).scale(1, 2);
            if spaced || self.passed > 0 {
                self.next_test = sample.now;
            }
        }
    }

    /// Whether the queue has stayed empty by itself for long enough.
    pub(super) fn empty(&mut self, sample: &AckSample, queue: Span, near: Span) -> bool {
        if queue > near || self.test.is_some() {
            self.empty_since = None;
            return false;
        }
        let since = *self.empty_since.get_or_insert(sample.now);
        sample.now.since(since) > sample.rtt.times(EMPTY_RTTS)
    }

    /// Whether we have had the whole link for long enough, whatever the queue: its base may have moved.
    pub(super) fn fills(&mut self, sample: &AckSample, filled: bool) -> bool {
        if !filled {
            self.filled_since = None;
            return false;
        }
        let since = *self.filled_since.get_or_insert(sample.now);
        sample.now.since(since) > sample.rtt.times(FILLED_RTTS).max(FILLED_MIN)
    }

    /// Runs the tests. Returns whether one found us alone.
    pub(super) fn test(&mut self, sample: &AckSample, queue: Span, near: Span, rate: Rate) -> bool {
        let now = sample.now;
        let Some(sent_at) = sample.newest.map(|n| n.sent_at) else { return false };
        let Some(test) = self.test else {
            if now >= self.next_test {
                let until = now + TEST_MIN.max(queue.scale(TEST_LENGTH.0, TEST_LENGTH.1)) + sample.rtt.scale(1, 2);
                self.last_test = now;
                self.test = Some(Test { since: now, until, queue, rate });
            }
            return false;
        };
        if sent_at < test.since {
            return false;
        }
        if queue <= near.max(test.queue.scale(1, NEAR_SHARE)) {
            self.passed += 1;
            if self.passed < PASSES {
                self.test = None;
                self.next_test = now + stepped(AGAIN_AFTER, sample.rtt, AGAIN_RTTS);
            }
            return self.passed >= PASSES;
        }
        if sent_at >= test.until {
            self.test = None;
            self.failed += 1;
            self.passed = 0;
            self.next_test = test.since + test_every(sample.rtt);
            return self.failed >= FAILS_MAX;
        }
        false
    }
}
