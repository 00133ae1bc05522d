//! What happens next: one deadline for each actor, ordered by time, then by the order in which they were asked for.

use wavelane_base::Instant;

const NEVER: u128 = u128::MAX;
/// Bits of a key below the time.
const SEQUENCE_BITS: u32 = 64;

/// The deadlines of all actors: a complete binary tree of minima, whose leaves are the actors.
///
/// An actor has one deadline at most, so a new deadline replaces the old one: no void entry is ever kept, and after the
/// last actor has joined nothing is allocated. Equal deadlines come out in the order in which they were set, so the
/// order is deterministic.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Leaves are the second half; each parent is the smaller of its children.
    keys: Vec<u128>,
    leaves: usize,
    actors: usize,
    next_sequence: u64,
}

impl Agenda {
    pub(crate) fn new() -> Self {
        Self { keys: vec![NEVER; 4], leaves: 2, actors: 0, next_sequence: 0 }
    }

    /// A new actor without a deadline.
    pub(crate) fn join(&mut self) -> usize {
        if self.actors == self.leaves {
            let old = self.keys.split_off(self.leaves);
            self.leaves *= 2;
            self.keys = vec![NEVER; 2 * self.leaves];
            for (actor, key) in old.into_iter().enumerate() {
                self.put(actor, key);
            }
        }
        self.actors += 1;
        self.actors - 1
    }

    /// Sets the actor's deadline. An unchanged one keeps its place in the order.
    pub(crate) fn set(&mut self, actor: usize, wish: Option<Instant>) {
        let now = self.keys[self.leaves + actor];
        match wish {
            None if now == NEVER => {}
            None => self.put(actor, NEVER),
            Some(at) if now != NEVER && now >> SEQUENCE_BITS == u128::from(at.as_nanos()) => {}
            Some(at) => {
                let key = u128::from(at.as_nanos()) << SEQUENCE_BITS | u128::from(self.next_sequence);
                self.next_sequence += 1;
                self.put(actor, key);
            }
        }
    }

    /// Takes the next deadline, if it is due at `until` or before.
    pub(crate) fn pop_until(&mut self, until: Instant) -> Option<(Instant, usize)> {
        let key = self.keys[1];
        let at = Instant::from_nanos((key >> SEQUENCE_BITS) as u64);
        if key == NEVER || at > until {
            return None;
        }
        let mut place = 1;
        while place < self.leaves {
            place *= 2;
            if self.keys[place] != key {
                place += 1;
            }
        }
        self.put(place - self.leaves, NEVER);
        Some((at, place - self.leaves))
    }

    fn put(&mut self, actor: usize, key: u128) {
        let mut place = self.leaves + actor;
        self.keys[place] = key;
        while place > 1 {
            let least = self.keys[place].min(self.keys[place ^ 1]);
            place /= 2;
            if self.keys[place] == least {
                return;
            }
            self.keys[place] = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_base::Seed;

    #[test]
    fn equal_times_keep_the_order_of_asking() {
        let mut agenda = Agenda::new();
        let actors: Vec<usize> = (0..5).map(|_| agenda.join()).collect();
        for (actor, at) in [(3, 5), (0, 3), (4, 5), (1, 3)] {
            agenda.set(actors[actor], Some(Instant::from_nanos(at)));
        }
        let mut out = Vec::new();
        while let Some((_, actor)) = agenda.pop_until(Instant::from_nanos(4)) {
            out.push(actor);
        }
        assert_eq!(out, [0, 1]);
        assert_eq!(agenda.pop_until(Instant::FAR_FUTURE), Some((Instant::from_nanos(5), 3)));
        assert_eq!(agenda.pop_until(Instant::FAR_FUTURE), Some((Instant::from_nanos(5), 4)));
        assert_eq!(agenda.pop_until(Instant::FAR_FUTURE), None);
    }

    /// Against a sorted list, with actors that join in between.
    #[test]
    fn deadlines_come_out_like_from_a_sorted_list() {
        let mut dice = Seed(4).chance("agenda");
        let mut agenda = Agenda::new();
        let mut list: Vec<Option<(u64, u64)>> = Vec::new();
        let mut asked = 0;
        for _ in 0..20_000 {
            match dice.below(8) {
                0 if list.len() < 70 => {
                    assert_eq!(agenda.join(), list.len());
                    list.push(None);
                }
                1..=2 => {
                    let until = dice.below(40);
                    let due = (0..list.len()).filter_map(|a| list[a].map(|key| (key, a))).min();
                    let due = due.filter(|((at, _), _)| *at <= until);
                    let got = agenda.pop_until(Instant::from_nanos(until));
                    assert_eq!(got, due.map(|((at, _), actor)| (Instant::from_nanos(at), actor)));
                    if let Some((_, actor)) = got {
                        list[actor] = None;
                    }
                }
                choice if !list.is_empty() => {
                    let actor = dice.below(list.len() as u64) as usize;
                    let wish = (choice > 3).then(|| dice.below(40));
                    agenda.set(actor, wish.map(Instant::from_nanos));
                    if list[actor].map(|(at, _)| at) != wish {
                        list[actor] = wish.map(|at| (at, asked));
                        asked += 1;
                    }
                }
                _ => {}
            }
        }
    }
}
