//! The packet service as the owner sees it: IP packets in and out.

use super::Gateway;
use wavelane_base::Instant;

/// The packet service's state.
#[derive(Debug, Default)]
pub(super) struct Packets {
    /// Packets from the inside that were not taken.
    pub(super) dropped: u64,
}

impl Gateway {
    /// Takes one IP packet from the inside, with finished checksums. The peer is chosen by the longest matching
    /// [`super::PeerConfig::routes`]; what cannot be taken is answered with ICMP through [`Gateway::poll_packet`].
    pub fn handle_packet(&mut self, _now: Instant, _packet: &[u8]) {
        // Every packet is dropped, and counted, until the service behind this door is merged.
        self.packets.dropped += 1;
    }

    /// Writes the next IP packet for the inside into `buf`, which must hold `inner_mtu` bytes, and returns its length.
    pub fn poll_packet(&mut self, _now: Instant, _buf: &mut [u8]) -> Option<usize> {
        None
    }
}
