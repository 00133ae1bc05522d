//! The backoff counters of contenders that sense the same medium: a wheel of slots, so that idle slots are skipped.
//!
//! A contender is a station, or with EDCA one category of a station.

use super::CW_MAX;

/// Slots on the wheel; every counter is smaller.
const SLOTS: usize = CW_MAX as usize + 1;
const WORDS: usize = SLOTS / 64;
const NOBODY: u16 = u16::MAX;

/// Backoff counters relative to a common count of idle slots.
#[derive(Debug)]
pub(super) struct Wheel {
    /// Idle slots counted so far; a contender's counter is its due slot less this.
    base: u64,
    /// One bit per slot that has a waiting contender.
    bits: [u64; WORDS],
    /// The first contender of each slot.
    heads: Vec<u16>,
    /// The next contender of the same slot, per contender.
    next: Vec<u16>,
    /// The due slot, per contender; meaningless for those not on the wheel.
    due: Vec<u64>,
    on: Vec<bool>,
}

impl Wheel {
    pub(super) fn new(contenders: usize) -> Self {
        Self {
            base: 0,
            bits: [0; WORDS],
            heads: vec![NOBODY; SLOTS],
            next: vec![NOBODY; contenders],
            due: vec![0; contenders],
            on: vec![false; contenders],
        }
    }
    /// Puts a contender on the wheel, due `counter` slots from the base.
    pub(super) fn insert(&mut self, contender: usize, counter: u32) {
        let due = self.base + u64::from(counter);
        let slot = due as usize % SLOTS;
        self.due[contender] = due;
        self.on[contender] = true;
        self.next[contender] = self.heads[slot];
        self.heads[slot] = contender as u16;
        self.bits[slot / 64] |= 1 << (slot % 64);
    }
    /// Takes a contender off; its counter, if it was on.
    pub(super) fn remove(&mut self, contender: usize) -> Option<u32> {
        if !self.on[contender] {
            return None;
        }
        self.on[contender] = false;
        let slot = self.due[contender] as usize % SLOTS;
        if usize::from(self.heads[slot]) == contender {
            self.heads[slot] = self.next[contender];
        } else {
            let mut at = usize::from(self.heads[slot]);
            while usize::from(self.next[at]) != contender {
                at = usize::from(self.next[at]);
            }
            self.next[at] = self.next[contender];
        }
        if self.heads[slot] == NOBODY {
            self.bits[slot / 64] &= !(1 << (slot % 64));
        }
        Some((self.due[contender] - self.base) as u32)
    }
    /// Whether a contender is on the wheel.
    pub(super) fn has(&self, contender: usize) -> bool {
        self.on[contender]
    }
    /// The smallest counter.
    pub(super) fn least(&self) -> Option<u32> {
        let start = self.base as usize % SLOTS;
        // The first word is examined twice: its upper part first, its lower part at the end.
        for step in 0..=WORDS {
            let word = (start / 64 + step) % WORDS;
            let mut bits = self.bits[word];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                return Some(((slot + SLOTS - start) % SLOTS) as u32);
            }
        }
        None
    }
    /// Takes off one contender whose counter is `counter`.
    pub(super) fn pop(&mut self, counter: u32) -> Option<usize> {
        let slot = (self.base + u64::from(counter)) as usize % SLOTS;
        let contender = self.heads[slot];
        if contender == NOBODY {
            return None;
        }
        self.remove(usize::from(contender));
        Some(usize::from(contender))
    }
    /// Counts `slots` idle slots; must not pass a waiting contender's slot.
    pub(super) fn pass(&mut self, slots: u64) {
        debug_assert!(self.least().is_none_or(|least| slots <= u64::from(least)), "a back-off was jumped over");
        self.base += slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_base::Seed;

    #[test]
    fn the_wheel_agrees_with_plain_counters() {
        let mut dice = Seed(9).chance("wheel");
        let stations = 40;
        let mut wheel = Wheel::new(stations);
        let mut plain: Vec<Option<u32>> = vec![None; stations];
        for _ in 0..50_000 {
            let station = dice.below(stations as u64) as usize;
            match dice.below(4) {
                0 | 1 if plain[station].is_none() => {
                    let counter = dice.below(SLOTS as u64) as u32;
                    wheel.insert(station, counter);
                    plain[station] = Some(counter);
                }
                2 => assert_eq!(wheel.remove(station), plain[station].take()),
                _ => {
                    let least = plain.iter().flatten().min().copied();
                    assert_eq!(wheel.least(), least);
                    let Some(least) = least else { continue };
                    let slots = dice.below(u64::from(least) + 1) as u32;
                    wheel.pass(u64::from(slots));
                    plain.iter_mut().flatten().for_each(|counter| *counter -= slots);
                    if slots == least {
                        let mut popped: Vec<_> = core::iter::from_fn(|| wheel.pop(0)).collect();
                        popped.sort_unstable();
                        let due: Vec<_> = (0..stations).filter(|s| plain[*s] == Some(0)).collect();
                        assert_eq!(popped, due);
                        due.iter().for_each(|s| plain[*s] = None);
                    }
                }
            }
        }
    }
}
