//! One deadline per owner, earliest first: a tree of minima over a fixed number of owners.
//!
//! Every station and every ear has at most one deadline at a time, so nothing is ever queued: setting, moving and
//! clearing one are the same operation, and nothing is allocated after the start.

use wavelane_base::Instant;

/// Order of deadlines at the same instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rank {
    /// Frames end before anything else happens.
    End = 0,
    /// Responses begin or time out.
    Station = 1,
    /// A NAV is checked.
    Nav = 2,
    /// Backoffs expire last, so that all that expire together send together.
    Access = 3,
}

const NEVER: u64 = u64::MAX;
/// Bits of a key below the time.
const RANK_BITS: u32 = 2;

/// The deadlines of owners `0..n`.
#[derive(Debug)]
pub(super) struct Timers {
    /// A complete binary tree; the leaves are the second half, each parent is the smaller of its children.
    keys: Vec<u64>,
    leaves: usize,
}

impl Timers {
    pub(super) fn new(owners: usize) -> Self {
        let leaves = owners.next_power_of_two().max(2);
        Self { keys: vec![NEVER; 2 * leaves], leaves }
    }
    pub(super) fn set(&mut self, owner: usize, at: Instant, rank: Rank) {
        self.put(owner, (at.as_nanos() << RANK_BITS) | rank as u64);
    }
    pub(super) fn clear(&mut self, owner: usize) {
        self.put(owner, NEVER);
    }
    fn put(&mut self, owner: usize, key: u64) {
        let mut i = self.leaves + owner;
        self.keys[i] = key;
        while i > 1 {
            let least = self.keys[i].min(self.keys[i ^ 1]);
            i /= 2;
            if self.keys[i] == least {
                return;
            }
            self.keys[i] = least;
        }
    }
    /// When the next deadline is.
    pub(super) fn next_at(&self) -> Option<Instant> {
        (self.keys[1] != NEVER).then(|| Instant::from_nanos(self.keys[1] >> RANK_BITS))
    }
    /// Takes the next deadline that is due by `now`: its owner, time and rank.
    pub(super) fn take(&mut self, now: Instant) -> Option<(usize, Instant, u64)> {
        let key = self.keys[1];
        if key == NEVER || key >> RANK_BITS > now.as_nanos() {
            return None;
        }
        let mut i = 1;
        while i < self.leaves {
            i *= 2;
            // Of equal ones the lower owner.
            if self.keys[i] != key {
                i += 1;
            }
        }
        self.put(i - self.leaves, NEVER);
        Some((i - self.leaves, Instant::from_nanos(key >> RANK_BITS), key & ((1 << RANK_BITS) - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_base::Seed;

    #[test]
    fn deadlines_are_ordered_by_time_rank_and_owner() {
        let mut dice = Seed(3).chance("timers");
        for owners in [1, 2, 3, 50, 64, 65] {
            let mut timers = Timers::new(owners);
            let mut list = vec![None; owners];
            for _ in 0..2_000 {
                let owner = dice.below(owners as u64) as usize;
                let at = Instant::from_nanos(dice.below(50));
                match dice.below(5) {
                    0 => {
                        timers.clear(owner);
                        list[owner] = None;
                    }
                    1 => {
                        let due = (0..owners).filter_map(|o| list[o].map(|(t, r)| (t, r, o))).min();
                        let due = due.filter(|(t, ..)| *t <= at);
                        assert_eq!(timers.take(at), due.map(|(t, r, o)| (o, t, r as u64)));
                        if let Some((.., o)) = due {
                            list[o] = None;
                        }
                    }
                    _ => {
                        let rank = [Rank::End, Rank::Station, Rank::Nav, Rank::Access][dice.below(4) as usize];
                        timers.set(owner, at, rank);
                        list[owner] = Some((at, rank));
                    }
                }
                let first = list.iter().flatten().map(|(t, _)| *t).min();
                assert_eq!(timers.next_at(), first);
            }
        }
    }
}
