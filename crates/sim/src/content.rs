//! What bodies consist of: pseudo-random bytes that both ends can name by offset.

/// A body of any length. Receivers compare each byte they read with the one that belongs at that offset, so a lost,
/// repeated, swapped or altered byte is found where it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content(pub u64);

const WORD: usize = 8;

impl Content {
    /// Writes the bytes from `offset` on.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(Self::until_whole(offset, out.len()));
        head.copy_from_slice(self.part(offset, head.len(), &mut [0; WORD]));
        let mut at = offset + head.len() as u64;
        let (words, tail) = rest.as_chunks_mut::<WORD>();
        for word in words {
            *word = self.word(at / WORD as u64).to_be_bytes();
            at += WORD as u64;
        }
        tail.copy_from_slice(self.part(at, tail.len(), &mut [0; WORD]));
    }

    /// The offset of the first byte in `bytes`, which were read from `offset` on, that is not what it should be.
    pub fn first_difference(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let (head, rest) = bytes.split_at(Self::until_whole(offset, bytes.len()));
        let (words, tail) = rest.as_chunks::<WORD>();
        let differs = |at: u64, read: &[u8]| {
            let mut word = [0; WORD];
            let expected = self.part(at, read.len(), &mut word);
            read.iter().zip(expected).position(|(a, b)| a != b).map(|place| at + place as u64)
        };
        let from = offset + head.len() as u64;
        let at = |word: usize| from + (word * WORD) as u64;
        let wrong = |(place, word): (usize, &[u8; WORD])| {
            (*word != self.word(at(place) / WORD as u64).to_be_bytes()).then(|| differs(at(place), word))?
        };
        differs(offset, head)
            .or_else(|| words.iter().enumerate().find_map(wrong))
            .or_else(|| differs(at(words.len()), tail))
    }

    /// How many of `len` bytes from `offset` on come before the next whole word.
    fn until_whole(offset: u64, len: usize) -> usize {
        ((offset.wrapping_neg() % WORD as u64) as usize).min(len)
    }

    /// The `len` bytes from `offset` on, all in one word.
    fn part(self, offset: u64, len: usize, word: &mut [u8; WORD]) -> &[u8] {
        *word = self.word(offset / WORD as u64).to_be_bytes();
        let skip = (offset % WORD as u64) as usize;
        &word[skip..skip + len]
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) at a chosen position.
    fn word(self, index: u64) -> u64 {
        let mut z = self.0.wrapping_add((index.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_bytes() {
        let content = Content(7);
        let mut whole = [0; 100];
        content.fill(0, &mut whole);
        for cut in 0..100 {
            let mut tail = vec![0; 100 - cut];
            content.fill(cut as u64, &mut tail);
            assert_eq!(tail, whole[cut..]);
            assert_eq!(content.first_difference(cut as u64, &tail), None);
        }
        assert_ne!(content.first_difference(1, &whole), None, "shifted by one byte");
        whole[77] ^= 1;
        assert_eq!(content.first_difference(0, &whole), Some(77));
    }

    /// The first output of SplitMix64 seeded with 1234567, from the reference implementation.
    #[test]
    fn splitmix_reference_value() {
        assert_eq!(Content(1_234_567).word(0), 6_457_827_717_110_365_317);
    }
}
