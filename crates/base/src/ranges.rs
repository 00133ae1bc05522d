//! A set of numbers kept as disjoint, non-adjacent half-open ranges.

use std::collections::BTreeMap;

/// The set. Every operation costs the logarithm of the number of ranges, plus the ranges it removes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RangeSet {
    /// start -> end, end exclusive.
    map: BTreeMap<u64, u64>,
    total: u64,
}

impl RangeSet {
    /// How many ranges.
    pub fn count(&self) -> usize {
        self.map.len()
    }
    /// How many numbers.
    pub fn total(&self) -> u64 {
        self.total
    }
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
    /// The lowest range.
    pub fn first(&self) -> Option<(u64, u64)> {
        self.map.first_key_value().map(|(&s, &e)| (s, e))
    }
    /// Takes the lowest range out.
    pub fn pop_first(&mut self) -> Option<(u64, u64)> {
        let (s, e) = self.map.pop_first()?;
        self.total -= e - s;
        Some((s, e))
    }
    /// Whether `n` is in it.
    pub fn contains(&self, n: u64) -> bool {
        self.map.range(..=n).next_back().is_some_and(|(_, &e)| n < e)
    }
    /// The ranges, highest first.
    pub fn descending(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.map.iter().rev().map(|(&s, &e)| (s, e))
    }
    /// Whether inserting `start..end` would touch a range that is there already.
    pub fn touches(&self, start: u64, end: u64) -> bool {
        self.map.range(..=end).next_back().is_some_and(|(_, &e)| e >= start)
    }
    /// Adds `start..end`.
    pub fn insert(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        // Ranges that begin at or before `end` and finish at or after `start` are merged.
        while let Some((&s, &e)) = self.map.range(..=end).next_back() {
            if e < start {
                break;
            }
            start = start.min(s);
            end = end.max(e);
            self.map.remove(&s);
            self.total -= e - s;
        }
        self.map.insert(start, end);
        self.total += end - start;
    }
    /// Removes `start..end`.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        while let Some((&s, &e)) = self.map.range(..end).next_back() {
            if e <= start {
                break;
            }
            self.map.remove(&s);
            self.total -= e - s;
            if e > end {
                self.map.insert(end, e);
                self.total += e - end;
            }
            if s < start {
                self.map.insert(s, start);
                self.total += start - s;
            }
        }
    }
    /// The parts of `start..end` that are not in the set, lowest first.
    pub fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = start;
        if let Some((_, &e)) = self.map.range(..=start).next_back() {
            at = at.max(e);
        }
        for (&s, &e) in self.map.range(start..end.max(start)) {
            if s > at {
                gaps.push((at, s));
            }
            at = at.max(e);
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn as_numbers(set: &RangeSet) -> BTreeSet<u64> {
        set.descending().flat_map(|(s, e)| s..e).collect()
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_numbers(ops in proptest::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..60)) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            for (add, start, len) in ops {
                let end = start + len;
                let missing: BTreeSet<u64> = (start..end).filter(|n| !model.contains(n)).collect();
                let gaps: BTreeSet<u64> = set.gaps(start, end).into_iter().flat_map(|(s, e)| s..e).collect();
                prop_assert_eq!(gaps, missing);
                if add {
                    set.insert(start, end);
                    model.extend(start..end);
                } else {
                    set.remove(start, end);
                    model.retain(|n| !(start..end).contains(n));
                }
                prop_assert_eq!(&as_numbers(&set), &model);
                prop_assert_eq!(set.total(), model.len() as u64);
                let apart = set.descending().collect::<Vec<_>>().windows(2).all(|w| w[1].1 < w[0].0);
                prop_assert!(apart, "ranges must stay disjoint and apart");
                prop_assert!((0..80).all(|n| set.contains(n) == model.contains(&n)));
            }
        }
    }
}
