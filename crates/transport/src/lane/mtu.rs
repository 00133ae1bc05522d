//! Path-MTU search by probe packets (RFC 8899) and black-hole detection.
//!
//! Sizes are whole IP packets. Probes are padded pings, so their loss costs nothing and is not congestion.

use wavelane_base::{Instant, Span, Wakeup};

/// Size every path is assumed to carry (RFC 8899, section 5.1.2, `BASE_PLPMTU`). It is below what IPv6 guarantees.
pub(super) const BASE_MTU: usize = 1200;
/// The smallest MTU used on an IPv4 path (RFC 8899, section 5.1.2, `MIN_PLPMTU`; RFC 1122, section 3.3.3: 576 reach every host). All that
/// must arrive to establish a session fits in it.
pub(super) const MIN_MTU: usize = 576;
/// Probes of one size before it counts as too large (RFC 8899, section 5.1.2, `MAX_PROBES`).
const MAX_PROBES: u32 = 3;
/// Probes are this far apart, so that one loss burst seldom hits them all.
const PROBE_GAP: Span = Span::from_millis(100);
/// The search ends at this precision.
const PRECISION: usize = 16;
/// After this long a larger size is tried again (RFC 8899, section 5.1.1, `PMTU_RAISE_TIMER`) ...
const RAISE_AFTER: Span = Span::from_secs(600);
/// ... and sooner if not even the base passes: nearly every path carries that.
const RAISE_AFTER_BELOW_BASE: Span = Span::from_secs(60);
/// The path drops large packets (RFC 8899, section 4.3) if this many were lost in a row ...
const BLACK_HOLE_LOST: u32 = 10;
/// ... over at least this many round trips, with none arriving, while smaller ones did. With a fifth of all packets lost one series in ten
/// million looks like this; an outage, in which nothing arrives, never does.
const BLACK_HOLE_SIGNS: u32 = 3;

/// Large packets lost since the last one that arrived.
#[derive(Clone, Copy, Debug)]
struct Swallowed {
    least: usize,
    lost: u32,
    /// Losses at least a round trip apart, and when the last of these was found.
    signs: u32,
    signs_at: Instant,
    /// A smaller packet arrived meanwhile.
    smaller_passed: bool,
}

/// The state of the search.
#[derive(Debug)]
pub(super) struct MtuSearch {
    floor: usize,
    base: usize,
    max: usize,
    /// Known to pass.
    confirmed: usize,
    /// Smallest size known not to pass; one more than `max` at first.
    refused: usize,
    tries: u32,
    /// The size being probed or handed to the link.
    probing: Option<usize>,
    next_at: Instant,
    swallowed: Option<Swallowed>,
}

impl MtuSearch {
    /// A search from `floor`, which is the lower bound, to `max`.
    pub(super) fn new(now: Instant, floor: usize, max: usize) -> Self {
        let base = BASE_MTU.min(max);
        Self {
            floor: floor.min(base),
            base,
            max,
            confirmed: base,
            refused: max + 1,
            tries: 0,
            probing: None,
            next_at: now,
            swallowed: None,
        }
    }

    /// Largest size known to pass.
    pub(super) fn confirmed(&self) -> usize {
        self.confirmed
    }
    /// The size that is always assumed to pass.
    pub(super) fn floor(&self) -> usize {
        self.floor
    }
    /// Whether not even the base passes.
    pub(super) fn is_below_base(&self) -> bool {
        self.confirmed < self.base
    }

    /// The size to try next: the largest first, as most paths carry it, then bisection.
    fn candidate(&self) -> Option<usize> {
        if self.refused > self.max {
            (self.confirmed < self.max).then_some(self.max)
        } else {
            (self.refused - self.confirmed > PRECISION).then(|| usize::midpoint(self.confirmed, self.refused))
        }
    }

    /// Whether [`Self::poll`] would return a size.
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
                self.next_at = now + self.raise_after();
            }
            return None;
        };
        self.probing = Some(size);
        // The next one waits for this one's fate; after this time it is assumed never sent.
        self.next_at = now + PROBE_GAP.times(50);
        Some(size)
    }

    /// The fate of a probe of `size`.
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
            self.next_at = now + self.raise_after();
        }
    }

    fn raise_after(&self) -> Span {
        if self.is_below_base() { RAISE_AFTER_BELOW_BASE } else { RAISE_AFTER }
    }

    /// The fate of a data packet of `size`. Returns true if the path was found to drop large packets.
    pub(super) fn resolved(&mut self, now: Instant, rtt: Span, size: usize, lost: bool) -> bool {
        let large = size > self.floor.max(self.confirmed - self.confirmed / 8);
        match (&mut self.swallowed, lost) {
            (None, false) => return false,
            (Some(_), false) if large => {
                self.swallowed = None;
                return false;
            }
            (Some(swallowed), false) => swallowed.smaller_passed = true,
            (_, true) if !large || self.confirmed == self.floor => return false,
            (None, true) => {
                let (least, smaller_passed) = (size, false);
                self.swallowed = Some(Swallowed { least, lost: 1, signs: 1, signs_at: now, smaller_passed });
            }
            (Some(swallowed), true) => {
                swallowed.least = swallowed.least.min(size);
                swallowed.lost += 1;
                if now.since(swallowed.signs_at) >= rtt {
                    swallowed.signs += 1;
                    swallowed.signs_at = now;
                }
            }
        }
        let proven = |s: &Swallowed| s.lost >= BLACK_HOLE_LOST && s.signs >= BLACK_HOLE_SIGNS && s.smaller_passed;
        let Some(found) = self.swallowed.filter(proven) else { return false };
        self.fall(now, found.least);
        true
    }

    /// Falls back to the base, or below if that was lost, and probes upward from there.
    fn fall(&mut self, now: Instant, lost: usize) {
        let below = self.confirmed <= self.base;
        *self = Self { next_at: now + PROBE_GAP.times(10), ..Self::new(now, self.floor, self.max) };
        if below {
            (self.confirmed, self.refused, self.next_at) = (self.floor, lost, now + PROBE_GAP);
        }
    }

    /// When the search next has to continue, if that is after `now`.
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
        let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
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
    fn finds_the_path_mtu_within_sixteen_bytes() {
        assert_eq!(search(1500, 0), (1500, 1));
        for limit in [1200, 1280, 1400, 1420, 1492, 1499] {
            let (found, probes) = search(limit, 0);
            assert!(found <= limit && found + PRECISION >= limit, "{limit}: {found}");
            assert!(probes <= 24, "{limit}: {probes}");
            let (found, _) = search(limit, 2);
            assert!(found <= limit && found + PRECISION >= limit, "{limit} with losses: {found}");
        }
    }

    /// Data as large as may be, and one small packet in five, on a path that carries `limit` and loses `loss` per mille
    /// of all besides, one packet per millisecond over a round trip of 50 ms. Probes are answered. Gives the size used
    /// at the end and how often the path was found to swallow packets.
    fn carry(limit: usize, loss: u64, seconds: u64, seed: u64) -> (usize, u32) {
        let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
        let (mut chance, mut falls) = (wavelane_base::Seed(seed).chance("path"), 0);
        for ms in 0..seconds * 1_000 {
            let now = Instant::from_millis(ms);
            if let Some(size) = mtu.poll(now) {
                mtu.probed(now, size, size > limit || chance.below(1_000) < loss);
            }
            let size = if ms % 5 == 0 { 100 } else { mtu.confirmed() };
            let lost = size > limit || chance.below(1_000) < loss;
            falls += u32::from(mtu.resolved(now, Span::from_millis(50), size, lost));
        }
        (mtu.confirmed(), falls)
    }

    #[test]
    fn a_path_below_the_base_is_found_and_used() {
        for limit in [576, 600, 800, 1_000, 1_100, 1_199] {
            for loss in [0, 200] {
                let (found, falls) = carry(limit, loss, 30, limit as u64);
                // A size that passes is taken for refused if three probes in a row are lost.
                let least = if loss == 0 { (limit - PRECISION).max(MIN_MTU) } else { MIN_MTU };
                assert!((least..=limit).contains(&found), "{limit}, {loss}: {found}");
                assert_eq!(falls, 1, "{limit}, {loss}");
            }
        }
    }

    #[test]
    fn loss_of_a_fifth_or_a_half_is_no_black_hole() {
        for seed in 0..5 {
            assert_eq!(carry(1_500, 200, 600, seed).1, 0);
            assert_eq!(carry(1_500, 500, 60, seed).1, 0);
        }
        // One large and one small packet per round trip.
        let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
        let mut chance = wavelane_base::Seed(9).chance("path");
        for n in 0..100_000u64 {
            let (now, rtt) = (Instant::from_millis(n * 50), Span::from_millis(50));
            let fell =
                mtu.resolved(now, rtt, 1_200, chance.below(5) == 0) | mtu.resolved(now, rtt, 100, chance.below(5) == 0);
            assert!(!fell, "{n}");
        }
    }

    #[test]
    fn an_outage_is_no_black_hole() {
        let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
        for n in 0..10_000u64 {
            let size = if n % 2 == 0 { 1_200 } else { 100 };
            assert!(!mtu.resolved(Instant::from_millis(n), Span::from_millis(50), size, true));
        }
        assert!(!mtu.resolved(Instant::from_secs(11), Span::from_millis(50), 1_200, false));
    }

    #[test]
    fn a_path_that_shrinks_falls_to_the_base_first() {
        let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
        assert_eq!(mtu.poll(Instant::ZERO), Some(1500));
        mtu.probed(Instant::ZERO, 1500, false);
        let fell = (0..40).position(|i| {
            let now = Instant::from_millis(100 + i * 10);
            mtu.resolved(now, Span::from_millis(100), 200, false);
            mtu.resolved(now, Span::from_millis(100), 1_500, true)
        });
        assert_eq!(fell, Some(20), "two round trips after the first loss");
        assert_eq!((mtu.confirmed(), mtu.is_below_base()), (BASE_MTU, false));
    }

    #[test]
    fn no_path_is_used_with_less_than_the_floor() {
        // IPv6: the base lies below what every path carries.
        let mut mtu = MtuSearch::new(Instant::ZERO, BASE_MTU, 1500);
        for n in 0..1_000u64 {
            mtu.resolved(Instant::from_millis(n * 10), Span::from_millis(50), 100, false);
            assert!(!mtu.resolved(Instant::from_millis(n * 10), Span::from_millis(50), 1_200, true));
        }
        assert_eq!((mtu.confirmed(), mtu.floor()), (BASE_MTU, BASE_MTU));
    }
}
