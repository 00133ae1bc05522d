//! Detects a queue so short that it overflows before the delay becomes noticeable.
//!
//! In such a queue a target of a few milliseconds is half of its size: a bursty flow beside ours overflows the rest and backs off, although
//! the queue is ours. The sign is that losses occur when the queue is near the longest seen, which losses of the medium do not.

use crate::lane::losses::Losses;
use wavelane_base::{Instant, Span};

/// The longest queue is taken over the last one or two of these periods.
const TURN: Span = Span::from_secs(10);
/// A queue is high from this share of the longest.
const HIGH: (u64, u64) = (2, 3);
/// Losses needed for a decision; at [`LOSSES_MAX`] the counts halve, so that old ones are forgotten.
const LOSSES_MIN: f64 = 6.0;
const LOSSES_MAX: f64 = 32.0;
/// Losses at a high queue must exceed the number expected by chance by this many standard deviations ...
const SIGMAS: f64 = 4.0;
/// ... and be this share of all.
const SHARE_MIN: f64 = 0.5;
/// The part of a shallow queue that we fill: a quarter, as much as a flow that halves on loss leaves on average.
const PART: (u64, u64) = (1, 4);

#[derive(Debug, Default)]
pub(crate) struct Shallow {
    longest: [Span; 2],
    turn: Instant,
    /// Packets, and those at a high queue; the same for lost ones.
    seen: f64,
    seen_high: f64,
    lost: f64,
    lost_high: f64,
    before: u64,
    limit: Option<Span>,
}

impl Shallow {
    /// Handles an ack: `queue` is what the newest packets saw. Losses that it reveals saw about the same queue.
    pub(crate) fn see(&mut self, now: Instant, queue: Span, losses: &Losses) {
        if now.since(self.turn) > TURN {
            self.turn = now;
            self.longest = [queue, self.longest[0]];
        }
        self.longest[0] = self.longest[0].max(queue);
        let longest = self.longest[0].max(self.longest[1]);
        let high = if queue >= longest.scale(HIGH.0, HIGH.1) { 1.0 } else { 0.0 };
        // Packets lost together count as one: a burst occurs at one moment.
        let lost = if losses.lost_single() > self.before { 1.0 } else { 0.0 };
        self.before = losses.lost_single();
        self.seen += 1.0;
        self.seen_high += high;
        self.lost += lost;
        self.lost_high += lost * high;
        if lost > 0.0 && self.lost >= LOSSES_MIN {
            let chance = self.seen_high / self.seen;
            let expected = self.lost * chance;
            let sigma = (self.lost * chance * (1.0 - chance)).sqrt();
            let overflows = self.lost_high >= expected + SIGMAS * sigma && self.lost_high >= self.lost * SHARE_MIN;
            self.limit = overflows.then_some(longest);
        }
        if self.lost >= LOSSES_MAX {
            for count in [&mut self.seen, &mut self.seen_high, &mut self.lost, &mut self.lost_high] {
                *count /= 2.0;
            }
        }
    }

    /// The longest queue we want there, if the whole queue is short.
    pub(crate) fn limit(&self) -> Option<Span> {
        Some(self.limit?.scale(PART.0, PART.1))
    }
}
