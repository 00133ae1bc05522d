//! The last bytes before a reset: which connections still have some to deliver, and how long their applications may take.
//!
//! A close with linger 0 resets at once and drops what the kernel has not delivered. So a connection whose flow was reset stays
//! until its application's kernel has acknowledged everything, or has taken nothing for [`PATIENCE`]. The kernel reports
//! acknowledgements only when polled. Likewise a connection whose socket was reset stays until the flow has taken what the kernel
//! received before, or has taken nothing for that long.

use std::collections::{BTreeMap, BTreeSet};
use wavelane_base::{Instant, Span};

/// How long an application may read nothing of what waits for it.
pub const PATIENCE: Span = Span::from_secs(10);
/// The first and the longest interval between checks of a connection; in between the interval doubles.
const GAP_FIRST: Span = Span::from_millis(1);
/// See [`GAP_FIRST`].
const GAP_MAX: Span = Span::from_millis(250);

/// Connections by their tokens; at most as many as there are connections.
#[derive(Default)]
pub(crate) struct LastBytes {
    watched: BTreeMap<u64, Watched>,
    order: BTreeSet<(Instant, u64)>,
}

struct Watched {
    at: Instant,
    gap: Span,
    /// The receiver's progress, and when it was first seen.
    seen: Option<(u32, Instant)>,
}

impl LastBytes {
    /// Starts checking a connection, soon and from now on.
    pub(crate) fn begin(&mut self, now: Instant, token: u64) {
        let seen = self.watched.get(&token).and_then(|w| w.seen);
        self.forget(token);
        let at = now + GAP_FIRST;
        self.watched.insert(token, Watched { at, gap: GAP_FIRST, seen });
        self.order.insert((at, token));
    }
    /// The connection is gone.
    pub(crate) fn forget(&mut self, token: u64) {
        if let Some(w) = self.watched.remove(&token) {
            self.order.remove(&(w.at, token));
        }
    }
    /// When to look next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }
    /// The connections to check now; each is checked again later.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<u64> {
        let due: Vec<u64> = self.order.iter().take_while(|(at, _)| *at <= now).map(|(_, token)| *token).collect();
        for token in &due {
            if let Some(w) = self.watched.get_mut(token) {
                self.order.remove(&(w.at, *token));
                w.gap = w.gap.times(2).min(GAP_MAX);
                w.at = now + w.gap;
                self.order.insert((w.at, *token));
            }
        }
        due
    }
    /// No bytes wait, or they cannot be taken for now.
    pub(crate) fn idle(&mut self, token: u64) {
        if let Some(w) = self.watched.get_mut(&token) {
            w.seen = None;
        }
    }
    /// Bytes wait, and this much was taken so far. Returns whether there is still time.
    pub(crate) fn lasts(&mut self, now: Instant, token: u64, taken: u32) -> bool {
        let Some(w) = self.watched.get_mut(&token) else { return false };
        match w.seen {
            Some((before, since)) if before == taken => now.since(since) < PATIENCE,
            _ => {
                w.seen = Some((taken, now));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_counts_from_the_last_byte_taken() {
        let at = |ms: u64| Instant::from_millis(ms);
        let mut last = LastBytes::default();
        last.begin(at(0), 7);
        assert!(last.lasts(at(1), 7, 100) && last.lasts(at(9_000), 7, 100));
        assert!(last.lasts(at(10_000), 7, 200), "it took some");
        assert!(last.lasts(at(19_999), 7, 200) && !last.lasts(at(20_000), 7, 200));
        last.idle(7);
        assert!(last.lasts(at(60_000), 7, 200));
        last.forget(7);
        assert!(!last.lasts(at(60_000), 7, 200) && last.deadline().is_none());
    }

    #[test]
    fn a_connection_is_looked_at_soon_and_then_ever_more_rarely() {
        let mut last = LastBytes::default();
        last.begin(Instant::ZERO, 1);
        last.begin(Instant::ZERO, 1);
        let (mut now, mut looks) = (Instant::ZERO, 0);
        while now < Instant::from_millis(10_000) {
            now = last.deadline().expect("watched");
            assert_eq!(last.due(now), [1]);
            looks += 1;
        }
        assert!((40..60).contains(&looks), "{looks}");
    }
}
