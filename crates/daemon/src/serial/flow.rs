//! A packet that waits for a line.

use crate::shaper::flow::{Look, look};
use wavelane_queue::Queued;

/// The protocol whose senders slow down on a drop.
const TCP: u8 = 6;

/// A packet and what its head says.
pub(super) struct Waiting {
    bytes: Vec<u8>,
    look: Look,
}

impl Waiting {
    /// `None` for what is no whole IP packet.
    pub(super) fn new(bytes: &[u8], key: u64) -> Option<Self> {
        let look = look(bytes, key).filter(|look| look.octets == bytes.len())?;
        Some(Self { bytes: bytes.to_vec(), look })
    }
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Queued for Waiting {
    fn octets(&self) -> usize {
        self.bytes.len()
    }
    fn flow(&self) -> u64 {
        self.look.flow
    }
    fn heeds_drops(&self) -> bool {
        let at = if self.bytes[0] >> 4 == 4 { 9 } else { 6 };
        self.bytes.get(at) == Some(&TCP)
    }
    fn mark(&mut self) -> bool {
        false
    }
    fn dscp(&self) -> u8 {
        self.look.dscp
    }
    fn hosts(&self) -> (u64, u64) {
        self.look.hosts
    }
}
