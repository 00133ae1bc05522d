//! Whose turn a datagram is: block service and packet service share a lane by deficit round robin over bytes,
//! repairs included.

/// Bytes per turn: larger than any datagram, and small enough that the other's turn does not delay a call noticeably.
const QUANTUM: i64 = 9_216;
/// Bytes of small packets that may precede waiting blocks before these have their turn.
const SMALL_DEBT_MAX: i64 = 16 << 10;

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Turn {
    /// The block service.
    #[default]
    Blocks,
    /// The packet service.
    Packets,
}

/// The two deficits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    turn: Turn,
    blocks: i64,
    packets: i64,
}

impl Share {
    /// Which goes first, given which of the two have something to send in bulk.
    pub(super) fn turn(&mut self, blocks_wait: bool, packets_wait: bool) -> Turn {
        if !blocks_wait || !packets_wait {
            // A sole sender has neither deficit nor surplus.
            *self = Self { turn: if packets_wait { Turn::Packets } else { Turn::Blocks }, ..Self::default() };
            return self.turn;
        }
        while *self.deficit(self.turn) <= 0 {
            self.turn = if self.turn == Turn::Blocks { Turn::Packets } else { Turn::Blocks };
            *self.deficit(self.turn) += QUANTUM;
        }
        self.turn
    }

    /// `service` wrote `octets`.
    pub(super) fn charge(&mut self, service: Turn, octets: usize) {
        *self.deficit(service) -= octets as i64;
    }

    /// Whether small packets may still precede waiting blocks.
    pub(super) fn small_may_pass(&self) -> bool {
        self.packets > -SMALL_DEBT_MAX
    }

    fn deficit(&mut self, service: Turn) -> &mut i64 {
        match service {
            Turn::Blocks => &mut self.blocks,
            Turn::Packets => &mut self.packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_get_half_whatever_their_datagrams_are_worth() {
        let (mut share, mut sent) = (Share::default(), [0, 0]);
        for _ in 0..10_000 {
            let (service, octets) = match share.turn(true, true) {
                Turn::Blocks => (Turn::Blocks, 1_400),
                Turn::Packets => (Turn::Packets, 120),
            };
            share.charge(service, octets);
            sent[service as usize] += octets as i64;
        }
        assert!((sent[0] - sent[1]).abs() <= 2 * QUANTUM, "{sent:?}");
    }

    #[test]
    fn a_sole_sender_starts_even() {
        let mut share = Share::default();
        for _ in 0..1_000 {
            assert_eq!(share.turn(false, true), Turn::Packets);
            share.charge(Turn::Packets, 1_400);
        }
        let mut until_blocks = 0;
        while share.turn(true, true) == Turn::Packets {
            share.charge(Turn::Packets, 1_400);
            until_blocks += 1_400;
        }
        assert!(until_blocks <= QUANTUM + 1_400, "{until_blocks}");
    }
}
