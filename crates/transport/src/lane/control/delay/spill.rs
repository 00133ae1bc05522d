//! Overflow of the queue of a link whose own rate varies.
//!
//! There a trial says nothing, and a rate that follows the link fills a short queue each time the link slows down: a TCP beside it would be
//! left with next to nothing. What shows an overflow is that losses come several at once, and while the queue is longer than on average:
//! losses of the medium come at any queue, those of an AQM one by one. After an overflow the window is that of a CUBIC flow, until that is
//! far more than what the lane itself would have in flight.

use super::{Delay, Phase};
use crate::lane::control::cubic::Cubic;
use crate::lane::control::{AckSample, PACKET};
use crate::lane::forward::Forward;
use crate::lane::losses::Losses;
use wavelane_base::{Instant, Span};

/// The mean queue is smoothed by one part in this many per ack.
const MEAN_STEP: f64 = 256.0;
/// Losses needed for a decision; at [`LOSSES_MAX`] the counts halve, so that old ones are forgotten.
const LOSSES_MIN: f64 = 6.0;
const LOSSES_MAX: f64 = 64.0;
/// Losses above the mean queue must exceed the number expected by chance by this many standard deviations.
const SIGMAS: f64 = 3.0;
/// As many packets are lost in a round trip where a queue overflows.
const AT_ONCE: u64 = 2;
/// A queue shorter than this part of the round trip is too short for a CUBIC: even alone it would leave much of the link.
const LONG: (u64, u64) = (1, 2);
/// CUBIC's window no longer counts when it is this many times the lane's own.
const AHEAD: u64 = 3;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Spill {
    /// Of the queue, in seconds.
    mean: f64,
    /// Acks, and those at a queue above the mean; the same for acks that reveal losses.
    seen: f64,
    high: f64,
    lost: f64,
    lost_high: f64,
    before: u64,
    overflows: bool,
    /// When a round trip began, and the packets lost before.
    round: (Instant, u64),
    cubic: Option<Cubic>,
}

impl Spill {
    /// Handles an ack: `queue` is what the newest packets saw. Losses that it reveals saw about the same queue.
    pub(super) fn see(&mut self, now: Instant, rtt: Span, queue: Span, lost: u64) {
        let queue = queue.as_secs_f64();
        let high = if queue >= self.mean { 1.0 } else { 0.0 };
        self.mean += (queue - self.mean) / MEAN_STEP;
        if now.since(self.round.0) > rtt {
            self.round = (now, self.before);
        }
        let loses = if lost > self.before { 1.0 } else { 0.0 };
        self.before = lost;
        self.seen += 1.0;
        self.high += high;
        self.lost += loses;
        self.lost_high += loses * high;
        if loses > 0.0 && self.lost >= LOSSES_MIN {
            let chance = self.high / self.seen;
            let sigma = (self.lost * chance * (1.0 - chance)).sqrt();
            self.overflows = self.lost_high >= self.lost * chance + SIGMAS * sigma;
        }
        if self.lost >= LOSSES_MAX {
            for count in [&mut self.seen, &mut self.high, &mut self.lost, &mut self.lost_high] {
                *count /= 2.0;
            }
        }
    }

    fn overflows(&self) -> bool {
        self.overflows && self.before - self.round.1 >= AT_ONCE
    }
}

impl Delay {
    pub(super) fn note_spill(&mut self, sample: &AckSample, losses: &Losses, queue: Span) {
        self.spill.see(sample.now, sample.rtt, queue, losses.lost_single());
    }

    /// Replaces the window by CUBIC's while the queue of a link that varies overflows.
    pub(super) fn limit_spill(&mut self, sample: &AckSample, forward: &Forward) {
        if self.phase != Phase::Cruise || !self.swings(forward.jitter()) {
            self.spill.cubic = None;
            return;
        }
        let long = self.queue.is_some_and(|queue| queue >= sample.rtt_min.scale(LONG.0, LONG.1));
        let lost_sent = sample.lost_sent.filter(|_| long && self.spill.overflows());
        if self.spill.cubic.is_none() && lost_sent.is_some() {
            self.spill.cubic = Some(Cubic::with_window(self.window, sample.rtt));
        }
        let Some(cubic) = &mut self.spill.cubic else { return };
        cubic.on_ack(&AckSample { lost_sent, ..*sample });
        if cubic.window() > self.window * AHEAD {
            self.spill.cubic = None;
            return;
        }
        if cubic.window() > self.window {
            self.pacing = self.pacing.max(cubic.pacing());
        }
        self.window = cubic.window().max(4 * PACKET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict after acks every 10 ms at a queue that swings between 0 and 100 ms, of which `lost` tells the losses by queue.
    fn overflows(mut lost: impl FnMut(u64, u64) -> u64) -> bool {
        let (mut spill, mut sum, mut found) = (Spill::default(), 0, false);
        for n in 0..3_000 {
            let queue_ms = n * 7 % 101;
            sum += lost(n, queue_ms);
            spill.see(Instant::from_millis(10 * n), Span::from_millis(50), Span::from_millis(queue_ms), sum);
            found |= n >= 2_000 && spill.overflows();
        }
        found
    }

    #[test]
    fn losses_at_a_long_queue_are_its_overflow_and_others_are_not() {
        assert!(overflows(|_, queue| if queue > 95 { 3 } else { 0 }));
        assert!(!overflows(|n, _| if n % 20 == 0 { 3 } else { 0 }), "losses at any queue");
        assert!(!overflows(|n, queue| u64::from(queue > 95 && n % 20 < 5)), "one by one");
    }
}
