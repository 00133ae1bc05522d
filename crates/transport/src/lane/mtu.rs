//! Path-MTU search by probe packets (RFC 8899) and black-hole detection.
//!
//! Sizes are whole IP packets. Probes are padded pings, so their loss costs nothing and is not congestion.

use wavelane_base::{Instant, Span, Wakeup};

/// Size every path is assumed to carry (RFC 8899, section 5.1.2, `BASE_PLPMTU`). Not where the carrier takes less.
const BASE_MTU: usize = 1200;
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
/// The path loses what leaves together, because a card, its driver or a filter on the way fails at batches, if this many of such packets
/// were lost in a row, with as many signs as a black hole, so of several batches ...
const BATCHED_LOST: u32 = 32;
/// ... and at least this many that left alone arrived meanwhile. A queue that is full takes the first of a batch as it takes one alone.
const ALONE_ARRIVED: u32 = 8;

/// Packets of a kind that were lost since the last such that arrived.
#[derive(Clone, Copy, Debug)]
struct Series {
    least: usize,
    lost: u32,
    /// Losses at least a round trip apart, and when the last of these was found.
    signs: u32,
    signs_at: Instant,
    /// Packets of another kind that arrived meanwhile.
    passed: u32,
}

impl Series {
    /// A packet of the kind was lost.
    fn count(series: &mut Option<Self>, now: Instant, rtt: Span, size: usize) {
        let series = series.get_or_insert(Self { least: size, lost: 0, signs: 1, signs_at: now, passed: 0 });
        series.least = series.least.min(size);
        series.lost += 1;
        if now.since(series.signs_at) >= rtt {
            series.signs += 1;
            series.signs_at = now;
        }
    }
    fn proves(&self, lost: u32, passed: u32) -> bool {
        self.lost >= lost && self.signs >= BLACK_HOLE_SIGNS && self.passed >= passed
    }
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
    /// Of packets that nearly fill the size in use, and of others: neither's chance losses interrupt the series of the other. Smaller ones
    /// pass meanwhile.
    swallowed: [Option<Series>; 2],
    /// The base was lost.
    below_base: bool,
    /// Of packets that left together with others. As large ones that left alone pass meanwhile.
    together: Option<Series>,
    /// Until then packets leave one by one.
    single_until: Option<Instant>,
}

impl MtuSearch {
    /// A search from `floor`, which is the lower bound, to `max`. If they are the same there is nothing to search: the size was told.
    pub(super) fn new(now: Instant, floor: usize, max: usize) -> Self {
        let base = BASE_MTU.max(floor).min(max);
        Self {
            floor: floor.min(base),
            base,
            max,
            confirmed: base,
            refused: max + 1,
            tries: 0,
            probing: None,
            next_at: now,
            swallowed: [None; 2],
            below_base: false,
            together: None,
            single_until: None,
        }
    }

    /// Whether packets leave one by one, for batches are lost.
    pub(super) fn is_single(&self, now: Instant) -> bool {
        self.single_until.is_some_and(|until| now < until)
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
        self.below_base && self.confirmed < self.base
    }

    /// The size to try next: the largest first, as most paths carry it, or the base after a fall, then bisection.
    fn candidate(&self) -> Option<usize> {
        if self.refused > self.max {
            (self.confirmed < self.max).then_some(self.max)
        } else {
            let between = usize::midpoint(self.confirmed, self.refused);
            let next = if (self.confirmed + 1..self.refused).contains(&self.base) { self.base } else { between };
            (self.refused - self.confirmed > PRECISION).then_some(next)
        }
    }

    /// The same once the wait is over: after the raise timer what was refused may pass.
    fn next(&self) -> Option<usize> {
        self.candidate().or((self.confirmed < self.max).then_some(self.max))
    }

    /// Whether [`Self::poll`] would return a size.
    pub(super) fn waits(&self, now: Instant) -> bool {
        now >= self.next_at && self.next().is_some()
    }

    /// A size to probe now. Given once; the next comes when this one's fate is known, or after a while.
    pub(super) fn poll(&mut self, now: Instant) -> Option<usize> {
        if now < self.next_at {
            return None;
        }
        let size = self.next()?;
        if self.candidate().is_none() {
            self.refused = self.max + 1;
        }
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
            // A packet as large as any that was lost has arrived.
            self.swallowed = [None; 2];
        } else {
            self.tries += 1;
            if self.tries >= MAX_PROBES {
                self.refused = self.refused.min(size);
                self.below_base |= size <= self.base;
                self.tries = 0;
            }
        }
        self.rest(now);
    }

    /// Once the search has ended the next one waits.
    fn rest(&mut self, now: Instant) {
        if self.candidate().is_none() {
            self.next_at = now + self.raise_after();
        }
    }

    fn raise_after(&self) -> Span {
        if self.is_below_base() { RAISE_AFTER_BELOW_BASE } else { RAISE_AFTER }
    }

    /// The fate of a data packet of `size`. Returns true if packets of the size in use are lost: it is the floor then.
    pub(super) fn resolved(&mut self, now: Instant, rtt: Span, size: usize, lost: bool) -> bool {
        let at_floor = self.confirmed == self.floor;
        if lost {
            let large = size > self.confirmed - self.confirmed / 8;
            if at_floor && !large || !at_floor && size <= self.floor {
                return false;
            }
            Series::count(&mut self.swallowed[usize::from(!large)], now, rtt, size);
        } else {
            for series in &mut self.swallowed {
                // Not one that is large but shorter: the limit may lie between.
                series.take_if(|series| size >= series.least);
                series.iter_mut().for_each(|series| series.passed = 1);
            }
        }
        let proven = |series: Option<Series>| Some(series.filter(|series| series.proves(BLACK_HOLE_LOST, 1))?.least);
        let [large, other] = self.swallowed.map(proven);
        // Of what is larger than these others little is known: the base is tried before it is taken for lost.
        let above = |least| if least > self.base { least } else { self.confirmed.max(self.base + 1) };
        let Some(least) = large.or(other.map(above)) else { return false };
        if at_floor {
            self.swallowed = [None; 2];
        } else {
            self.fall(now, least);
        }
        true
    }

    /// The fate of a data packet of `size`, which left `together` with others or alone. Returns true if what leaves in batches is lost: from
    /// now on packets leave one by one, and the search begins again.
    pub(super) fn left(&mut self, now: Instant, rtt: Span, size: usize, together: bool, lost: bool) -> bool {
        if !together {
            self.together.iter_mut().for_each(|t| t.passed += u32::from(!lost && size >= t.least));
        } else if !lost {
            self.together = None;
        } else {
            Series::count(&mut self.together, now, rtt, size);
        }
        if self.is_single(now) || !self.together.is_some_and(|t| t.proves(BATCHED_LOST, ALONE_ARRIVED)) {
            return false;
        }
        let single_until = Some(now + RAISE_AFTER);
        *self = Self { confirmed: self.confirmed, single_until, ..Self::new(now + PROBE_GAP, self.floor, self.max) };
        true
    }

    /// Falls back to the floor, and probes upward from there, the base first: data would be lost at each size tried with it.
    fn fall(&mut self, now: Instant, lost: usize) {
        let below_base = lost <= self.base;
        let next_at = now + PROBE_GAP;
        let single_until = self.single_until;
        *self = Self {
            confirmed: self.floor,
            refused: lost,
            next_at,
            below_base,
            single_until,
            ..Self::new(now, self.floor, self.max)
        };
        self.rest(now);
    }

    /// When the search next has to continue, if that is after `now`.
    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Wakeup> {
        (self.next().is_some() && self.next_at > now).then_some(Wakeup { at: self.next_at, cause: "path-MTU probe" })
    }
}

#[cfg(test)]
#[path = "mtu_tests.rs"]
mod tests;
