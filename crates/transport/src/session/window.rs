//! Which packet numbers of one lane were seen: a sliding bitmap (RFC 4303, section 3.4.3; RFC 6479).

use super::REPLAY_WINDOW;

const WORDS: usize = REPLAY_WINDOW as usize / 64 + 1;

/// One lane's window: the highest number and a ring of bits below it. It is one word longer than the window, so that a whole word can be
/// cleared when the highest number enters it.
pub(super) struct Window {
    /// The next number above all seen.
    next: u64,
    bits: [u64; WORDS],
}

impl Window {
    pub(super) fn new() -> Self {
        Self { next: 0, bits: [0; WORDS] }
    }
    fn place(number: u64) -> (usize, u64) {
        ((number / 64) as usize % WORDS, 1 << (number % 64))
    }
    /// Whether `number` was not seen and is not too old to check.
    pub(super) fn is_new(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        let (word, bit) = Self::place(number);
        self.next - number <= REPLAY_WINDOW && self.bits[word] & bit == 0
    }
    /// Marks an authenticated `number` as seen; true if it is the highest so far.
    pub(super) fn commit(&mut self, number: u64) -> bool {
        let newest = number >= self.next;
        if newest {
            // Words after the one with the previous highest number are stale until the ring reaches them again.
            let last = self.next.checked_sub(1).map_or(0, |n| n / 64 + 1);
            let first_stale = last.max((number / 64).saturating_sub(WORDS as u64 - 1));
            for word in first_stale..=number / 64 {
                self.bits[word as usize % WORDS] = 0;
            }
            self.next = number + 1;
        }
        let (word, bit) = Self::place(number);
        self.bits[word] |= bit;
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn edges_of_the_window() {
        let mut w = Window::new();
        assert!(w.is_new(0) && w.commit(0) && !w.is_new(0));
        assert!(w.commit(REPLAY_WINDOW - 1));
        assert!(!w.is_new(0), "seen");
        assert!(w.is_new(1) && !w.commit(1));
        assert!(w.commit(REPLAY_WINDOW + 1));
        assert!(w.is_new(2), "the oldest number that the window tells");
        assert!(w.commit(REPLAY_WINDOW + 2));
        assert!(!w.is_new(2), "too old to tell");
        assert!(w.commit((1 << 48) - 1), "a far jump");
        assert!(!w.is_new(REPLAY_WINDOW + 3));
        assert!(w.is_new((1 << 48) - 2));
    }

    proptest! {
        /// The reference model: a set of everything seen.
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec((0u64..3, 0u64..40_000), 1..400)) {
            let (mut w, mut seen, mut highest) = (Window::new(), BTreeSet::new(), None::<u64>);
            for (kind, n) in steps {
                let base = highest.unwrap_or(0);
                let number = match kind {
                    0 => base + n % 70,
                    1 => base.saturating_sub(n % 20_000),
                    _ => base.saturating_sub(n % 100),
                } + u64::from(kind == 0 && n % 97 == 0) * 20_000;
                let in_window = highest.is_none_or(|h| number > h || h - number < REPLAY_WINDOW);
                let expected = in_window && !seen.contains(&number);
                prop_assert_eq!(w.is_new(number), expected, "number {} highest {:?}", number, highest);
                if expected {
                    prop_assert_eq!(w.commit(number), highest.is_none_or(|h| number > h));
                    seen.insert(number);
                    highest = Some(base.max(number));
                }
            }
        }
    }
}
