//! A packet that is kept: read once, then changed in place and passed on without being read again.

use super::{Packet, edit};
use crate::codec::DecodeError;

/// One whole packet with its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IpPacket {
    bytes: Vec<u8>,
    /// What was read of them; its own bytes are none.
    head: Packet<'static>,
}

impl IpPacket {
    /// Reads and keeps a packet; what a link padded behind it is cut off. See [`Packet::parse`].
    pub fn take(mut bytes: Vec<u8>) -> Result<Self, DecodeError> {
        let view = Packet::parse(&bytes)?;
        let (len, head) = (view.bytes.len(), Packet { bytes: &[], ..view });
        bytes.truncate(len);
        Ok(Self { bytes, head })
    }
    /// The packet as it is now.
    pub fn view(&self) -> Packet<'_> {
        Packet { bytes: &self.bytes, ..self.head }
    }
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Nothing but its bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
    /// Takes one hop off. False, and no change, if it has none to give. It must not be
    /// forwarded then (RFC 1812, section 5.3.1; RFC 8200, section 3).
    pub fn decrement_hops(&mut self) -> bool {
        let forwarded = edit::decrement_hops(&mut self.bytes);
        self.head.hops -= u8::from(forwarded);
        forwarded
    }
    /// Lowers the maximum segment size of a SYN to what packets of `mtu` bytes hold.
    pub fn clamp_mss(&mut self, mtu: usize) -> bool {
        let Some(tcp) = edit::syn_at(&self.view()) else { return false };
        edit::lower_mss(&mut self.bytes, tcp, mtu)
    }
}

impl Packet<'_> {
    /// A packet of its own, with a copy of the bytes.
    pub fn to_owned(&self) -> IpPacket {
        IpPacket { bytes: self.bytes.to_vec(), head: Packet { bytes: &[], ..*self } }
    }
}
