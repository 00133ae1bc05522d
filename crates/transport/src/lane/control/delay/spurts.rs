//! The window on a link whose own rate varies.
//!
//! No rate is that link's: it falls and rises several times before an ack tells of it. What counts is that its queue does not empty when the
//! rate rises. So as much is in flight as the link carried in its best round trip of the last second, and half as much again as the best exceeds
//! the mean.

use super::{Delay, Phase};
use crate::lane::control::AckSample;
use crate::lane::forward::Forward;
use wavelane_base::{Instant, Span};

/// The best is that of this time, or of this many round trips.
const MEMORY: Span = Span::from_millis(1_000);
const MEMORY_RTTS: u64 = 4;
/// It is kept in this many parts.
const PARTS: u64 = 16;
/// A silence of the link ages it by no more than one part in this many: what the link carries when it goes on is what it carried before.
const SILENCE_AGES: u64 = 4;
/// This part of what the best exceeds the mean by is added: on recordings of LTE half of it leaves 0.99 of the link used, the whole of it 0.995 at
/// a third more of delay.
const BEYOND: (u64, u64) = (1, 2);
/// The link varies if the best exceeds the mean by this part in both halves of the memory: one alone is a trend, such as the share that a TCP
/// takes or leaves.
const VARIES: (u64, u64) = (1, 2);

/// A part of the memory.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    number: u64,
    /// The most delivered in one round trip.
    best: u64,
    /// When it began, and the bytes delivered until then.
    began: Instant,
    delivered: u64,
}

/// What the link carried lately.
#[derive(Debug, Default)]
pub(super) struct Spurts {
    parts: [Part; PARTS as usize],
    /// Of the newest part; a part that never was is of number zero.
    number: u64,
    /// Bytes in a round trip: the most, the lesser of the two halves' most, and on average.
    best: u64,
    twice: u64,
    mean: u64,
    /// The longest base round trip that bytes were counted for.
    longest: Span,
}

impl Spurts {
    /// The round trip of an empty queue is `base`. What came in one of a second, while the way back was congested, is no measure of one of
    /// milliseconds. Acks that are far apart in a stall tell nothing of it.
    fn rebase(&mut self, base: Span) {
        if base.times(2) < self.longest {
            *self = Self::default();
        }
        self.longest = self.longest.max(base);
    }

    /// After a silence of `waited`: `bytes` came in the last round trip, `delivered` so far.
    fn see(&mut self, now: Instant, waited: Span, (memory, rtt): (Span, Span), (delivered, bytes): (u64, u64)) {
        // The memory follows the round trip, so a part's number is counted on, not calculated from the time.
        let length = memory.scale(1, PARTS).as_nanos().max(1);
        let newest = self.parts[(self.number % PARTS) as usize];
        let silent = waited.saturating_sub(memory.scale(1, SILENCE_AGES));
        let passed = now.since(newest.began).saturating_sub(silent).as_nanos() / length;
        let passed = if newest.number == 0 { PARTS } else { passed };
        self.number += passed;
        let number = self.number;
        let part = &mut self.parts[(number % PARTS) as usize];
        if passed > 0 {
            *part = Part { number, best: 0, began: now, delivered };
        }
        part.best = part.best.max(bytes);
        let after = |age: u64| self.parts.iter().filter(move |part| part.number + age > number);
        let Some(oldest) = after(PARTS).min_by_key(|part| part.number) else { return };
        let age = now.since(oldest.began);
        if age <= rtt.times(2) {
            self.best = 0;
            self.twice = 0;
            self.mean = 0;
            return;
        }
        let most = |parts: &mut dyn Iterator<Item = &Part>| parts.map(|part| part.best).max().unwrap_or(0);
        let late = most(&mut after(PARTS / 2));
        let early = most(&mut after(PARTS).filter(|part| part.number + PARTS / 2 <= number));
        self.best = early.max(late);
        self.twice = early.min(late);
        self.mean = Span::from_nanos(delivered - oldest.delivered).scale(rtt.as_nanos(), age.as_nanos()).as_nanos();
    }

    /// Bytes that should be in flight, if the link varies.
    fn window(&self) -> Option<u64> {
        let beyond = |bytes: u64| bytes.saturating_sub(self.mean);
        let varies = beyond(self.twice) * VARIES.1 > self.mean * VARIES.0;
        varies.then(|| self.best + beyond(self.best) * BEYOND.0 / BEYOND.1)
    }
}

impl Delay {
    /// A drain's own rate is no measure of the link, nor are a competitor's share and what an application leaves of it.
    pub(super) fn note_spurts(&mut self, sample: &AckSample, forward: &Forward) {
        if self.phase != Phase::Cruise || sample.newest.is_some_and(|newest| newest.app_limited) {
            self.spurts = Spurts::default();
            return;
        }
        let base = self.base_rtt(sample, forward);
        self.spurts.rebase(base);
        let rtt = base + sample.acks_apart;
        if let Some(bytes) = self.service.delivered_in(rtt) {
            let memory = MEMORY.max(rtt.times(MEMORY_RTTS));
            self.spurts.see(sample.now, sample.waited, (memory, rtt), (self.delivered, bytes));
        }
    }

    /// Bytes that should be in flight, if the link's own rate varies.
    pub(super) fn spurts(&self, forward: &Forward) -> Option<u64> {
        self.spurts.window().filter(|_| self.swings(forward.jitter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What should be in flight after 3 s in which `bytes` tells what came by then in every millisecond, for a round trip of 50 ms.
    fn window(bytes: impl Fn(u64) -> u64) -> Option<u64> {
        let mut spurts = Spurts::default();
        let mut sums = vec![0];
        for ms in 0..3_000 {
            sums.push(sums[ms as usize] + bytes(ms));
            let now = sums.len() - 1;
            let last = sums[now] - sums[now.saturating_sub(50)];
            spurts.see(Instant::from_millis(ms), Span::ZERO, (MEMORY, Span::from_millis(50)), (sums[now], last));
        }
        spurts.window()
    }

    #[test]
    fn a_link_that_comes_in_spurts_varies_and_a_trend_does_not() {
        assert_eq!(window(|_| 1_000), None);
        assert_eq!(window(|ms| 3_000 - ms), None, "a share that shrinks");
        assert_eq!(window(|ms| ms), None, "and one that grows");
        // Two of five tenths of a second at 2,500 bytes/ms: 125,000 in the best round trip, 50,000 on average.
        let spurts = window(|ms| if ms / 100 % 5 < 2 { 2_500 } else { 0 }).expect("it varies");
        assert!((155_000..170_000).contains(&spurts), "{spurts}");
    }

    #[test]
    fn what_came_in_a_long_round_trip_is_forgotten_when_it_is_short() {
        let mut spurts = Spurts::default();
        let mut delivered = 0;
        for ms in 0..6_000 {
            // For 3 s the answers wait for a second; a fifth of the time 2,500 bytes come in a millisecond.
            let rtt = if ms < 3_000 { 1_000 } else { 10 };
            let came = if ms / 100 % 5 < 1 { 2_500 } else { 0 };
            delivered += came;
            let last = if ms < 3_000 { 500_000 } else { came * rtt };
            let memory = MEMORY.max(Span::from_millis(rtt * MEMORY_RTTS));
            spurts.rebase(Span::from_millis(rtt));
            spurts.see(Instant::from_millis(ms), Span::ZERO, (memory, Span::from_millis(rtt)), (delivered, last));
            let most = if ms < 3_000 { 1_000_000 } else { 50_000 };
            assert!(spurts.window().is_none_or(|window| window < most), "at {ms} ms: {spurts:?}");
        }
        assert!(spurts.window().is_some(), "and it still varies");
    }
}
