//! Which numbers were received: a sliding bitmap.

/// Numbers remembered below the highest: half a second of the smallest packets at a gigabit per second.
pub(super) const WINDOW: u64 = 65_536;
const WORDS: usize = (WINDOW / 64) as usize;

/// The window. Numbers below it count as received, so nothing is taken twice.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Allocated when the first number arrives.
    words: Vec<u64>,
    /// One more than the highest.
    end: u64,
}

impl Taken {
    fn place(number: u64) -> (usize, u64) {
        ((number / 64) as usize % WORDS, 1 << (number % 64))
    }

    /// Whether `number` was received, or is too old to tell.
    pub(super) fn contains(&self, number: u64) -> bool {
        if number >= self.end {
            return false;
        }
        let (word, bit) = Self::place(number);
        self.end - number > WINDOW || self.words[word] & bit != 0
    }

    /// `number` was received.
    pub(super) fn insert(&mut self, number: u64) {
        if self.words.is_empty() {
            self.words = vec![0; WORDS];
        }
        if number >= self.end {
            if number - self.end >= WINDOW {
                self.words.fill(0);
            } else {
                self.clear(self.end, number);
            }
            self.end = number + 1;
        } else if self.end - number > WINDOW {
            return;
        }
        let (word, bit) = Self::place(number);
        self.words[word] |= bit;
    }

    /// Forgets `from..to`, less than a window apart, a word at a time: skipped numbers cost no more than consecutive ones.
    fn clear(&mut self, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let (word, bits) = ((at / 64) as usize % WORDS, (64 - at % 64).min(to - at));
            let ones = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            self.words[word] &= !(ones << (at % 64));
            at += bits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec((0u64..4, 0u64..100_000), 1..300)) {
            let (mut seen, mut model) = (Taken::default(), BTreeSet::new());
            let mut high = 1_000_000u64;
            for (kind, n) in steps {
                let number = match kind {
                    0 => high + n % 5,
                    1 => high - n % 200,
                    2 => high - n,
                    _ => high + n,
                };
                let end = model.last().map_or(0, |n: &u64| n + 1);
                let old = end > number && end - number > WINDOW;
                prop_assert_eq!(seen.contains(number), old || model.contains(&number));
                if !old {
                    seen.insert(number);
                    model.insert(number);
                }
                high = high.max(number);
            }
        }
    }
}
