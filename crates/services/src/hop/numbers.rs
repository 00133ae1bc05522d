//! An opener's flows that are over: a cumulative number and a bounded set of exceptions above it.
//!
//! Flow numbers are consecutive per opener and boot epoch, so this suffices to recognise a late duplicate of any past flow,
//! without timers.

use wavelane_base::RangeSet;

/// The knowledge about one opener.
#[derive(Clone, Debug, Default)]
pub(super) struct Over {
    /// Every flow below is over.
    below: u64,
    /// And these above it.
    also: RangeSet,
}

impl Over {
    pub(super) fn contains(&self, number: u64) -> bool {
        number < self.below || self.also.contains(number)
    }
    /// Notes that one flow is over. At most `exceptions_max` ranges are kept: beyond that the lowest gap is closed,
    /// which an opener that keeps to its own flow limit never causes.
    pub(super) fn insert(&mut self, number: u64, exceptions_max: usize) {
        self.insert_span(number, number.saturating_add(1), exceptions_max);
    }
    /// The same for `start..end`.
    pub(super) fn insert_span(&mut self, start: u64, end: u64, exceptions_max: usize) {
        if end <= self.below {
            return;
        }
        self.also.insert(start.max(self.below), end);
        self.melt();
        while self.also.count() > exceptions_max {
            let Some((_, end)) = self.also.pop_first() else { break };
            // Live flows are found in the flow table before this set is asked, so raising `below` past one is safe.
            self.below = end;
            self.melt();
        }
    }
    /// Notes that every flow below `number` is over.
    pub(super) fn raise(&mut self, number: u64) {
        if number > self.below {
            self.below = number;
            self.also.remove(0, number);
            self.melt();
        }
    }
    /// Ranges held besides the cumulative number.
    #[cfg(test)]
    pub(super) fn exceptions(&self) -> usize {
        self.also.count()
    }
    fn melt(&mut self) {
        while let Some((start, end)) = self.also.first() {
            if start > self.below {
                break;
            }
            self.below = self.below.max(end);
            self.also.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_or_not_it_collapses_to_one_number() {
        let mut over = Over::default();
        for n in (0..1000).rev() {
            assert!(!over.contains(n));
            over.insert(n, 8);
        }
        assert_eq!((over.below, over.exceptions()), (1000, 0));
        assert!(over.contains(999) && !over.contains(1000));
    }

    #[test]
    fn exceptions_are_bounded_whatever_the_opener_does() {
        let mut over = Over::default();
        for n in 0..10_000 {
            over.insert(n * 2 + 1, 64);
            assert!(over.exceptions() <= 64);
            assert!(over.contains(n * 2 + 1), "what is over stays over");
        }
    }
}
