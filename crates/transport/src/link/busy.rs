//! How long bulk has waited to be sent without a pause: a sender that was busy for some time is likely to stay so.

use crate::service::Bulk;
use wavelane_base::{Instant, Span};

/// A shorter time without bulk is no pause: the writer was given room and has not written yet.
const PAUSE_MIN: Span = Span::from_millis(5);
/// Bulk that is held for this long is a pause too: its reader has stopped, or its flow stands still.
const HELD_MAX: Span = Span::from_secs(1);

/// Since when bulk has waited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    since: Option<Instant>,
    /// Since when there is none, if so.
    idle: Option<Instant>,
    /// Since when what there is cannot be sent, if so.
    held: Option<Instant>,
}

impl Busy {
    /// Notes what waits at `now`.
    pub(super) fn note(&mut self, now: Instant, bulk: Bulk) {
        if bulk == Bulk::None {
            self.idle.get_or_insert(now);
            return;
        }
        if self.idle.take().is_some_and(|idle| now.since(idle) >= PAUSE_MIN) {
            *self = Self::default();
        }
        if bulk == Bulk::Held {
            self.held.get_or_insert(now);
            return;
        }
        if self.held.take().is_some_and(|held| now.since(held) >= HELD_MAX) {
            self.since = None;
        }
        self.since.get_or_insert(now);
    }

    /// For how long by `now`, if bulk waits then.
    pub(super) fn span(&self, now: Instant) -> Span {
        self.since.map_or(Span::ZERO, |since| now.since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_pause_ends_the_time_and_a_moment_does_not() {
        let mut busy = Busy::default();
        busy.note(at(10), Bulk::Ready);
        busy.note(at(30), Bulk::None);
        busy.note(at(34), Bulk::Ready);
        assert_eq!(busy.span(at(40)), Span::from_millis(30));
        busy.note(at(50), Bulk::None);
        busy.note(at(52), Bulk::None);
        busy.note(at(55), Bulk::Ready);
        assert_eq!(busy.span(at(60)), Span::from_millis(5));
    }

    #[test]
    fn a_wait_for_credit_counts_unless_it_is_long() {
        let mut busy = Busy::default();
        busy.note(at(10), Bulk::Ready);
        busy.note(at(30), Bulk::Held);
        // The writer was given room, and writes at once.
        busy.note(at(330), Bulk::None);
        busy.note(at(330), Bulk::Ready);
        assert_eq!(busy.span(at(340)), Span::from_millis(330));
        busy.note(at(400), Bulk::Held);
        busy.note(at(1_400), Bulk::Ready);
        assert_eq!(busy.span(at(1_410)), Span::from_millis(10));
    }
}
