//! Packets that were given up while it is not known whether the neighbour is still there.

/// Most of them: no more senders could be told at once.
pub(super) const ABANDONED_MAX: usize = 64;

/// Since the neighbour was last heard, oldest first, each packet with its flow's place.
#[derive(Debug, Default)]
pub(super) struct Abandoned {
    packets: Vec<(usize, Vec<u8>)>,
    octets: usize,
}

impl Abandoned {
    /// Remembers a packet if there is room: all together take no more than `octets_max`.
    pub(super) fn push(&mut self, place: usize, bytes: Vec<u8>, octets_max: usize) {
        if self.packets.len() < ABANDONED_MAX && self.octets + bytes.len() <= octets_max {
            self.octets += bytes.len();
            self.packets.push((place, bytes));
        }
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.octets = 0;
        core::mem::take(&mut self.packets)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    pub(super) fn octets(&self) -> usize {
        self.octets
    }
}
