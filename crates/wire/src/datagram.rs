//! The outermost format: what one UDP payload (or radio frame) of a lane is.
//!
//! ```text
//! HandshakeInit      1 | version 1 | sender u32 | noise message ...       | mac1 16 | mac2 16
//! HandshakeResponse  2 | version 1 | sender u32 | receiver u32 | noise ... | mac1 16 | mac2 16
//! CookieReply        3 | receiver u32 | nonce 24 | sealed cookie 32
//! Data               4 | lane u8 | receiver u32 | number u48 | sealed frames ... | tag 16
//! ```

use crate::codec::{DecodeError, Reader};

/// The wire version this crate describes.
pub const WIRE_VERSION: u8 = 1;
/// First byte of each datagram kind.
pub mod kind {
    /// A handshake's first message.
    pub const HANDSHAKE_INIT: u8 = 1;
    /// A handshake's answer.
    pub const HANDSHAKE_RESPONSE: u8 = 2;
    /// "Prove your address first."
    pub const COOKIE_REPLY: u8 = 3;
    /// Sealed frames.
    pub const DATA: u8 = 4;
}

/// Bytes before the sealed part of a data datagram.
pub const DATA_HEADER_LEN: usize = 12;
/// Bytes of the authentication tag after it.
pub const TAG_LEN: usize = 16;
/// Largest packet number (48 bits).
pub const NUMBER_MAX: u64 = (1 << 48) - 1;
/// IPv4 and UDP headers around a datagram on a UDP lane.
pub const UDP4_OVERHEAD: usize = 28;
/// IPv6 and UDP headers around a datagram on a UDP lane.
pub const UDP6_OVERHEAD: usize = 48;

/// The clear header of a data datagram. Its twelve bytes are the AEAD's additional data; the AEAD nonce is
/// `lane` in the first four bytes (zero-extended) and `number` in the last eight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHeader {
    /// The sender's lane (direction and port).
    pub lane: u8,
    /// The receiver's index of the session whose keys seal this datagram.
    pub receiver: u32,
    /// The lane's packet number; never reused on a lane under one key.
    pub number: u64,
}

impl DataHeader {
    /// Reads the header of a data datagram and checks that a tag fits behind it.
    pub fn parse(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(datagram);
        if r.u8()? != kind::DATA {
            return Err(DecodeError::Invalid("datagram kind"));
        }
        let lane = r.u8()?;
        let receiver = r.u32()?;
        let high = r.u16()?;
        let low = r.u32()?;
        if r.remaining() < TAG_LEN {
            return Err(DecodeError::Truncated);
        }
        Ok(Self { lane, receiver, number: u64::from(high) << 32 | u64::from(low) })
    }
    /// The header as bytes.
    pub fn to_bytes(self) -> [u8; DATA_HEADER_LEN] {
        let mut out = [0; DATA_HEADER_LEN];
        out[0] = kind::DATA;
        out[1] = self.lane;
        out[2..6].copy_from_slice(&self.receiver.to_be_bytes());
        out[6..12].copy_from_slice(&self.number.to_be_bytes()[2..]);
        out
    }
    /// The AEAD nonce of this datagram.
    pub fn nonce(self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[3] = self.lane;
        nonce[4..].copy_from_slice(&self.number.to_be_bytes());
        nonce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_data_header() {
        let header = DataHeader { lane: 2, receiver: 0x0102_0304, number: 0x0000_a1b2_c3d4_e5f6 };
        let golden = [4, 2, 1, 2, 3, 4, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6];
        assert_eq!(header.to_bytes(), golden);
        let mut datagram = golden.to_vec();
        assert_eq!(DataHeader::parse(&datagram), Err(DecodeError::Truncated));
        datagram.extend([0; TAG_LEN]);
        assert_eq!(DataHeader::parse(&datagram), Ok(header));
        assert_eq!(header.nonce(), [0, 0, 0, 2, 0, 0, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6]);
    }
}
