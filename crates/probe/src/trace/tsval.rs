//! Passive RTTs from TCP timestamps (RFC 7323, section 3): a sent TSval, and its first echo.
//!
//! The rules are those of Nichols' pping: only a TSval above all earlier ones is remembered, and it is matched once. A pure
//! acknowledgement's TSval is echoed only when the other side next has data to send, so it gives no sample that is reported; see
//! [`Echo::of_data`].

use std::collections::VecDeque;

/// Maximum number of TSvals waiting for their echo; with a tick of 1 ms these are four seconds. Beyond it the oldest is forgotten.
pub(crate) const WAITING_MAX: usize = 4_096;
/// Capacity for waiting TSvals that a direction keeps even when empty.
const ROOM_KEPT: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    tsval: u32,
    sent_ns: u64,
    of_data: bool,
}

/// A matched TSval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Echo {
    pub(crate) rtt_ns: u64,
    /// The segment that first carried the TSval carried data.
    pub(crate) of_data: bool,
}

/// One direction's TSvals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tsvals {
    waiting: VecDeque<Waiting>,
    newest: Option<u32>,
}

/// Whether `a` is later than `b` on a clock that wraps.
pub(crate) fn later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl Tsvals {
    /// Number of waiting TSvals.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
    /// Records a sent segment with `tsval`; the newest `room` waiting ones are kept.
    pub(crate) fn sent(&mut self, tsval: u32, of_data: bool, now: u64, room: usize) {
        if self.newest.is_some_and(|n| !later(tsval, n)) {
            return;
        }
        self.newest = Some(tsval);
        while self.waiting.len() >= room.max(1) {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting { tsval, sent_ns: now, of_data });
    }
    /// Processes the other side's echo `tsecr`.
    pub(crate) fn echoed(&mut self, tsecr: u32, now: u64) -> Option<Echo> {
        let echo = self.matched(tsecr, now);
        // Many connections that once had many waiting must not keep the capacity for them.
        if self.waiting.capacity() > ROOM_KEPT && self.waiting.len() < self.waiting.capacity() / 8 {
            self.waiting.shrink_to(self.waiting.capacity() / 4);
        }
        echo
    }
    fn matched(&mut self, tsecr: u32, now: u64) -> Option<Echo> {
        while let Some(&oldest) = self.waiting.front() {
            if later(oldest.tsval, tsecr) {
                return None;
            }
            self.waiting.pop_front();
            if oldest.tsval == tsecr {
                return Some(Echo { rtt_ns: now.saturating_sub(oldest.sent_ns), of_data: oldest.of_data });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tsval_is_matched_once_by_its_first_echo() {
        let mut t = Tsvals::default();
        t.sent(10, true, 1_000, WAITING_MAX);
        t.sent(10, true, 2_000, WAITING_MAX); // the same tick
        t.sent(9, true, 3_000, WAITING_MAX); // out of order
        t.sent(12, false, 4_000, WAITING_MAX);
        assert_eq!(t.echoed(9, 5_000), None);
        assert_eq!(t.echoed(10, 6_000), Some(Echo { rtt_ns: 5_000, of_data: true }));
        assert_eq!(t.echoed(10, 7_000), None);
        assert_eq!(t.echoed(12, 8_000), Some(Echo { rtt_ns: 4_000, of_data: false }));
    }

    #[test]
    fn the_clock_wraps_and_the_memory_is_bounded() {
        let mut t = Tsvals::default();
        t.sent(u32::MAX, true, 0, WAITING_MAX);
        t.sent(1, true, 10, WAITING_MAX);
        assert_eq!(t.echoed(1, 30), Some(Echo { rtt_ns: 20, of_data: true }));
        for i in 2..10_000 {
            t.sent(i, true, u64::from(i), WAITING_MAX);
        }
        assert_eq!(t.waiting(), WAITING_MAX);
        t.sent(10_000, true, 10_000, 64);
        assert_eq!(t.waiting(), 64, "crowded");
        assert!(t.echoed(10_000, 10_001).is_some() && t.waiting.capacity() < WAITING_MAX / 2);
    }
}
