//! What the first datagrams of a link with one lane tell before any data was sent: whether the way out may be slow.

use crate::lane::{FIRST_BOUND_MIN, LARGE_MIN, SMALL_MAX};
use wavelane_base::{Instant, Span};

/// A padded ping that comes later than this after a small datagram left later too: at 9.6 kbit/s it takes a second.
const LATE_MAX: Span = Span::from_secs(2);

/// What was sent and received first.
#[derive(Debug, Default)]
pub(super) struct First {
    /// Something came.
    came: bool,
    /// When the last small datagram came.
    small_at: Option<Instant>,
    /// A large one came.
    large: bool,
    /// The neighbour's way is slow, as its padded ping shows.
    slow: bool,
    /// Whether something was sent that asks for an answer before anything came.
    asks: Option<bool>,
}

impl First {
    /// Something was sent.
    pub(super) fn sent(&mut self, eliciting: bool) {
        if eliciting && self.asks.is_none() {
            self.asks = Some(!self.came);
        }
    }

    /// A datagram of `octets` on the medium came; `is_padding` tells whether it carries nothing but a padded ping.
    pub(super) fn came(&mut self, at: Instant, octets: u32, is_padding: impl FnOnce() -> bool) {
        self.came = true;
        if octets >= LARGE_MIN && !self.large {
            let late = self.small_at.map_or(Span::ZERO, |small| at.since(small));
            (self.large, self.slow) = (true, (FIRST_BOUND_MIN..=LATE_MAX).contains(&late) && is_padding());
        } else if octets <= SMALL_MAX {
            self.small_at = Some(at);
        }
    }

    /// Whether a padded ping is worth its time: the side that asks first knows nothing of the way, and the other knows that the way back is
    /// slow. On a fast way in, acks of what comes next are not to wait behind it.
    pub(super) fn may_be_slow(&self) -> bool {
        self.asks == Some(true) || self.slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_first_may_be_slow_and_who_answers_is_not() {
        let mut asks = First::default();
        asks.sent(false);
        assert!(!asks.may_be_slow());
        asks.sent(true);
        asks.came(Instant::ZERO, 60, || false);
        asks.sent(true);
        assert!(asks.may_be_slow());
        let mut answers = First::default();
        answers.came(Instant::ZERO, 60, || false);
        answers.sent(true);
        assert!(!answers.may_be_slow());
    }

    #[test]
    fn a_first_large_datagram_that_is_late_tells_of_a_slow_way() {
        let padded = |small: Option<u64>, large: u64, padding: bool| {
            let mut first = First::default();
            first.came(Instant::ZERO, 300, || false);
            if let Some(ms) = small {
                first.came(Instant::from_millis(ms), 90, || false);
            }
            first.sent(true);
            first.came(Instant::from_millis(large), 1_200, || padding);
            // Only the first one counts.
            first.came(Instant::from_millis(large + 300), 90, || false);
            first.came(Instant::from_millis(large + 600), 1_200, || true);
            first.may_be_slow()
        };
        let slow = |small, large| padded(small, large, true);
        assert!(slow(Some(10), 295));
        // Bulk comes a round trip after what asked for it, on a fast way too.
        assert!(!padded(Some(10), 295, false));
        assert!(!slow(Some(10), 15) && !slow(Some(10), 69));
        // It was sent later.
        assert!(!slow(Some(10), 3_000));
        assert!(!slow(None, 295));
    }
}
