//! What bodies consist of: pseudo-random bytes that both ends can name by offset.

/// A body of any length. Receivers compare each byte they read with the one that belongs at that offset, so a lost,
/// repeated, swapped or altered byte is found where it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content(pub u64);

const WORD: u64 = 8;

impl Content {
    /// Writes the bytes from `offset` on.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        let mut word = offset / WORD;
        let mut skip = (offset % WORD) as usize;
        let mut rest = out;
        while !rest.is_empty() {
            let bytes = self.word(word).to_be_bytes();
            let n = rest.len().min(bytes.len() - skip);
            let (head, tail) = rest.split_at_mut(n);
            head.copy_from_slice(&bytes[skip..skip + n]);
            (rest, skip, word) = (tail, 0, word + 1);
        }
    }

    /// The offset of the first byte in `bytes`, which were read from `offset` on, that is not what it should be.
    pub fn first_difference(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut expected = [0; 4096];
        let mut at = offset;
        for piece in bytes.chunks(expected.len()) {
            let expected = &mut expected[..piece.len()];
            self.fill(at, expected);
            if expected != piece {
                let place = piece.iter().zip(&*expected).position(|(a, b)| a != b).unwrap_or(0);
                return Some(at + place as u64);
            }
            at += piece.len() as u64;
        }
        None
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
