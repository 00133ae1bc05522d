//! Baseband packets: what they carry, how long they take, how likely they are received (Bluetooth Core 1.1, Part B, section 4).

use wavelane_base::maths;

/// A packet on the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    /// Slots it occupies.
    pub(super) slots: u8,
    /// Bytes of user payload; none of POLL and NULL.
    pub(super) payload: usize,
    /// With the Hamming code.
    pub(super) coded: bool,
}

/// Slots and most bytes of payload (table 4.9).
const DH: [(u8, usize); 3] = [(1, 27), (3, 183), (5, 339)];
const DM: [(u8, usize); 3] = [(1, 17), (3, 121), (5, 224)];
/// Payload header of at most 2 bytes and a CRC of 2 (sections 4.5.2 and 5.3).
const AROUND: usize = 4;
/// Bits of the packet header, each sent three times (section 4.4).
const HEADER_BITS: f64 = 18.0;

impl Packet {
    /// POLL or NULL.
    pub(super) const EMPTY: Self = Self { slots: 1, payload: 0, coded: false };

    /// What carries the next of `left` bytes: the shortest that holds them all, else the longest of at most `most` slots.
    pub(super) fn of(left: usize, most: u8, coded: bool) -> Self {
        let kinds = if coded { DM } else { DH };
        let allowed = || kinds.iter().filter(|(slots, _)| *slots <= most);
        let fits = allowed().find(|(_, payload)| *payload >= left);
        let (slots, room) = *fits.or_else(|| allowed().next_back()).unwrap_or(&kinds[0]);
        Self { slots, payload: left.min(room), coded }
    }

    /// The chance that it is received, at this bit error ratio.
    pub(super) fn received(self, bit_errors: f64) -> f64 {
        if bit_errors <= 0.0 {
            return 1.0;
        }
        let (wrong, right) = (bit_errors, 1.0 - bit_errors);
        // Two of three copies decide a bit of the header.
        let header = maths::power(1.0 - wrong * wrong * (3.0 - 2.0 * wrong), HEADER_BITS);
        let bits = ((self.payload + AROUND) * 8) as f64;
        let body = match (self.payload, self.coded) {
            (0, _) => 1.0,
            (_, false) => maths::power(right, bits),
            (_, true) => {
                let word = maths::power(right, 15.0) + 15.0 * wrong * maths::power(right, 14.0);
                maths::power(word, (bits / 10.0).ceil())
            }
        };
        header * body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_packet_that_holds_the_rest_is_taken() {
        let of = |left, most, coded| Packet::of(left, most, coded);
        assert_eq!(of(1_517, 5, false), Packet { slots: 5, payload: 339, coded: false });
        assert_eq!(of(161, 5, false).slots, 3);
        assert_eq!(of(173, 5, true), Packet { slots: 5, payload: 173, coded: true });
        assert_eq!(of(400, 3, false), Packet { slots: 3, payload: 183, coded: false });
        assert_eq!(of(400, 1, true), Packet { slots: 1, payload: 17, coded: true });
    }

    /// 343 bytes of 8 bits at 1e-4 survive with (1 - 1e-4)^2744 = 0.760; coded they do not lose one in a hundred.
    #[test]
    fn the_code_pays_where_bits_are_lost() {
        let (plain, coded) = (Packet::of(339, 5, false).received(1e-4), Packet::of(224, 5, true).received(1e-4));
        assert!((plain - 0.760).abs() < 0.001 && coded > 0.99, "{plain} {coded}");
        assert_eq!(Packet::EMPTY.received(0.0), 1.0);
        assert!(Packet::EMPTY.received(0.1) < 0.6);
    }
}
