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
    /// The number after the greatest that came.
    next: u64,
    /// What did not come while nothing large had come: a padded ping may have been lost.
    gap: bool,
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

    /// Datagram `number` of `octets` on the medium came; `is_padding` tells whether it carries nothing but a padded ping.
    pub(super) fn came(&mut self, at: Instant, number: u64, octets: u32, is_padding: impl FnOnce() -> bool) {
        let before = std::mem::replace(&mut self.came, true);
        self.gap |= before && !self.large && number > self.next;
        self.next = self.next.max(number.saturating_add(1));
        if octets >= LARGE_MIN && !self.large {
            let late = self.small_at.map_or(Span::ZERO, |small| at.since(small));
            // What comes before a padded ping was lost if nothing did: then nobody knows how late that is.
            self.large = true;
            self.slow = (!before || (FIRST_BOUND_MIN..=LATE_MAX).contains(&late)) && is_padding();
        } else if octets <= SMALL_MAX {
            self.small_at = Some(at);
        }
    }

    /// Whether a padded ping is worth its time: the side that asks first knows nothing of the way, and the other has a warning of the way
    /// back. On a fast way in, acks of what comes next are not to wait behind it.
    pub(super) fn may_be_slow(&self) -> bool {
        self.asks == Some(true) || self.warns()
    }

    /// Whether what came first tells of a slow way, or may have. Who asked first found round trips short enough for a padded ping, so ours,
    /// which may have waited behind that, do not count.
    pub(super) fn warns(&self) -> bool {
        self.slow || self.gap && !self.large
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
        asks.came(Instant::ZERO, 0, 60, || false);
        asks.sent(true);
        assert!(asks.may_be_slow());
        let mut answers = First::default();
        answers.came(Instant::ZERO, 0, 60, || false);
        answers.sent(true);
        assert!(!answers.may_be_slow());
    }

    #[test]
    fn a_first_large_datagram_that_is_late_tells_of_a_slow_way() {
        let padded = |small: Option<u64>, large: u64, padding: bool| {
            let mut first = First::default();
            first.came(Instant::ZERO, 0, 300, || false);
            if let Some(ms) = small {
                first.came(Instant::from_millis(ms), 1, 90, || false);
            }
            first.sent(true);
            first.came(Instant::from_millis(large), 2, 1_200, || padding);
            // Only the first one counts.
            first.came(Instant::from_millis(large + 300), 3, 90, || false);
            first.came(Instant::from_millis(large + 600), 4, 1_200, || true);
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

    #[test]
    fn a_padded_ping_before_anything_else_is_a_warning() {
        for padding in [true, false] {
            let mut first = First::default();
            first.came(Instant::ZERO, 1, 1_200, || padding);
            first.sent(true);
            assert_eq!(first.may_be_slow(), padding);
        }
    }

    #[test]
    fn a_gap_before_anything_large_is_a_warning_until_something_large_comes() {
        let mut first = First::default();
        // The first number says nothing: a session may have had others.
        first.came(Instant::ZERO, 7, 90, || false);
        first.sent(true);
        first.came(Instant::from_millis(10), 8, 90, || false);
        first.came(Instant::from_millis(11), 8, 90, || false);
        assert!(!first.may_be_slow());
        first.came(Instant::from_millis(20), 10, 90, || false);
        assert!(first.may_be_slow() && first.warns());
        first.came(Instant::from_millis(21), 9, 1_200, || true);
        assert!(!first.may_be_slow());
        first.came(Instant::from_millis(30), 20, 90, || false);
        assert!(!first.may_be_slow());
    }
}
