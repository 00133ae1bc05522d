//! Path-MTU search by probe packets (RFC 8899) and black-hole detection.
//!
//! Sizes are whole IP packets. Probes are padded pings, so their loss costs nothing and is not congestion.

use wavelane_base::{Instant, Span, Wakeup};

/// Size every path is assumed to carry (RFC 8899, section 5.1.2, `BASE_PLPMTU`).
pub(super) const BASE_MTU: usize = 1200;
/// Probes of one size before it is taken to be too large (RFC 8899, section 5.1.2, `MAX_PROBES`).
const MAX_PROBES: u32 = 3;
/// Probes keep this distance, so that one loss burst seldom takes them all.
const PROBE_GAP: Span = Span::from_millis(100);
/// The search ends when the answer is known this closely.
const PRECISION: usize = 16;
/// After this long a larger size is tried again (RFC 8899, section 5.1.1, `PMTU_RAISE_TIMER`).
const RAISE_AFTER: Span = Span::from_secs(600);
/// So many times, a round trip apart, large packets were lost and none arrived: the path swallows them.
const BLACK_HOLE_SIGNS: u32 = 3;

/// The state of the search.
#[derive(Debug)]
pub(super) struct MtuSearch {
    base: usize,
    max: usize,
    /// Known to pass.
    confirmed: usize,
    /// Smallest size known not to pass; one more than `max` at first.
    refused: usize,
    tries: u32,
    /// The size under way or handed to the link.
    probing: Option<usize>,
    next_at: Instant,
    signs: u32,
    signs_at: Instant,
}

impl MtuSearch {
    pub(super) fn new(now: Instant, max: usize) -> Self {
        let base = BASE_MTU.min(max);
        Self {
            base,
            max,
            confirmed: base,
            refused: max + 1,
            tries: 0,
            probing: None,
            next_at: now,
            signs: 0,
            signs_at: now,
        }
    }

    /// Largest size known to pass.
    pub(super) fn confirmed(&self) -> usize {
        self.confirmed
    }
    /// The size that is always taken to pass.
    pub(super) fn base(&self) -> usize {
        self.base
    }

    /// The size to try next: the largest first, as most paths carry it, then bisection.
    fn candidate(&self) -> Option<usize> {
        if self.refused > self.max {
            (self.confirmed < self.max).then_some(self.max)
        } else {
            (self.refused - self.confirmed > PRECISION).then(|| usize::midpoint(self.confirmed, self.refused))
        }
    }

    /// Whether [`Self::poll`] would give a size.
    pub(super) fn waits(&self, now: Instant) -> bool {
        now >= self.next_at && self.candidate().is_some()
    }

    /// A size to probe now. Given once; the next comes when this one's fate is known, or after a while.
    pub(super) fn poll(&mut self, now: Instant) -> Option<usize> {
        if now < self.next_at {
            return None;
        }
        let Some(size) = self.candidate() else {
            if self.refused <= self.max {
                self.refused = self.max + 1;
                self.next_at = now + RAISE_AFTER;
            }
            return None;
        };
        self.probing = Some(size);
        // Until its fate is known; after that long it was never sent.
        self.next_at = now + PROBE_GAP.times(50);
        Some(size)
    }

    /// What became of a probe of `size`.
    pub(super) fn probed(&mut self, now: Instant, size: usize, lost: bool) {
        if self.probing != Some(size) {
            return;
        }
        self.probing = None;
        self.next_at = now + PROBE_GAP;
        if !lost {
            self.confirmed = self.confirmed.max(size);
            self.tries = 0;
        } else {
            self.tries += 1;
            if self.tries >= MAX_PROBES {
                self.refused = self.refused.min(size);
                self.tries = 0;
            }
        }
        if self.candidate().is_none() {
            self.next_at = now + RAISE_AFTER;
        }
    }

    /// What became of a packet of data of `size`. Returns true if the path was found to swallow large packets.
    pub(super) fn resolved(&mut self, now: Instant, rtt: Span, size: usize, lost: bool) -> bool {
        if size <= self.base {
            return false;
        }
        if !lost {
            self.signs = 0;
        } else if now.since(self.signs_at) >= rtt {
            self.signs += 1;
            self.signs_at = now;
        }
        if self.signs < BLACK_HOLE_SIGNS {
            return false;
        }
        *self = Self { next_at: now + PROBE_GAP.times(10), ..Self::new(now, self.max) };
        true
    }

    /// When the search wants to go on, if that is after `now`.
    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Wakeup> {
        let idle = self.candidate().is_none() && self.refused > self.max;
        (!idle && self.next_at > now).then_some(Wakeup { at: self.next_at, cause: "path-MTU probe" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a path that carries `limit`, every `nth` probe being lost besides.
    fn search(limit: usize, nth: u32) -> (usize, u32) {
        let mut mtu = MtuSearch::new(Instant::ZERO, 1500);
        let (mut now, mut probes) = (Instant::ZERO, 0);
        while probes < 100 && now < Instant::from_secs(60) {
            if let Some(size) = mtu.poll(now) {
                probes += 1;
                mtu.probed(now, size, size > limit || nth > 0 && probes % nth == 0);
            }
            now += Span::from_millis(50);
        }
        (mtu.confirmed(), probes)
    }

    #[test]
    fn finds_what_the_path_carries_to_sixteen_bytes() {
        assert_eq!(search(1500, 0), (1500, 1));
        for limit in [1200, 1280, 1400, 1420, 1492, 1499] {
            let (found, probes) = search(limit, 0);
            assert!(found <= limit && found + PRECISION >= limit, "{limit}: {found}");
            assert!(probes <= 24, "{limit}: {probes}");
            let (found, _) = search(limit, 2);
            assert!(found <= limit && found + PRECISION >= limit, "{limit} with losses: {found}");
        }
    }

    #[test]
    fn a_black_hole_falls_back_and_loss_alone_does_not() {
        let mut mtu = MtuSearch::new(Instant::ZERO, 1500);
        assert_eq!(mtu.poll(Instant::ZERO), Some(1500));
        mtu.probed(Instant::ZERO, 1500, false);
        let rtt = Span::from_millis(100);
        for i in 0..100 {
            assert!(!mtu.resolved(Instant::from_millis(i * 60), rtt, 1500, i % 4 != 0), "some arrive");
        }
        let fell = (100..110).any(|i| mtu.resolved(Instant::from_millis(i * 60), rtt, 1500, true));
        assert!(fell);
        assert_eq!(mtu.confirmed(), BASE_MTU);
    }
}
