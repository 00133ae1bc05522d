//! A digest of all packets, by which two runs are told apart.

/// FNV-1a's offset basis for 64 bits.
pub(super) const DIGEST_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a over words instead of bytes, with a rotation so that high bits reach low ones.
pub(super) fn mix(digest: u64, word: u64) -> u64 {
    ((digest ^ word).wrapping_mul(0x0000_0100_0000_01b3)).rotate_left(23)
}

/// Adds a packet in four parallel sums: a single one would stall on its own result at every word.
pub(super) fn mix_bytes(digest: u64, packet: &[u8]) -> u64 {
    let word = |piece: &[u8; 8]| u64::from_le_bytes(*piece);
    let (words, rest) = packet.as_chunks::<8>();
    let (fours, odd) = words.as_chunks::<4>();
    let sums = fours.iter().fold([digest, 1, 2, 3], |sums, four| std::array::from_fn(|i| mix(sums[i], word(&four[i]))));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    sums.into_iter().chain(odd.iter().map(word)).chain([word(&last)]).fold(0, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_every_place_counts() {
        for len in [0, 1, 7, 8, 31, 32, 33, 100] {
            let mut packet: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let sum = mix_bytes(DIGEST_START, &packet);
            assert_ne!(sum, mix_bytes(mix(DIGEST_START, 1), &packet), "what came before");
            for bit in 0..8 * len {
                packet[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(mix_bytes(DIGEST_START, &packet), sum, "bit {bit} of {len} bytes");
                packet[bit / 8] ^= 1 << (bit % 8);
            }
            for place in 8..len {
                packet.swap(place, place - 8);
                assert_ne!(mix_bytes(DIGEST_START, &packet), sum, "bytes {place} and {} of {len}", place - 8);
                packet.swap(place, place - 8);
            }
        }
    }
}
