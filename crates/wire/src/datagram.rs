//! The outermost format: what one UDP payload (or radio frame) of a lane is.
//!
//! ```text
//! HandshakeInit      1 | version 1 | sender u32 | noise message ...       | mac1 16 | mac2 16
//! HandshakeResponse  2 | version 1 | sender u32 | receiver u32 | noise ... | mac1 16 | mac2 16
//! CookieReply        3 | receiver u32 | nonce 24 | sealed cookie 32
//! Data               4 | lane u8 | receiver u32 | number u48 | sealed frames ... | tag 16
//! Data, partly open  6 | lane u8 | receiver u32 | number u48 | sealed frames ... | open octets ... | their length u16 | tag 16
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
    /// "You know my key, and I do not know yours."
    pub const UNKNOWN_KEY: u8 = 5;
    /// Sealed frames, of which the last octets are authenticated but not encrypted.
    pub const DATA_OPEN: u8 = 6;
    /// Data that was opened for reading: the header of sealed data, then the frames, without the tag. In capture files only;
    /// a node drops it.
    pub const OPENED: u8 = 0x84;
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
    /// Reads the header of a data datagram of either kind and checks that a tag fits behind it.
    pub fn parse(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(datagram);
        if !matches!(r.u8()?, kind::DATA | kind::DATA_OPEN) {
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
    /// The header of a sealed datagram as bytes.
    pub fn to_bytes(self) -> [u8; DATA_HEADER_LEN] {
        self.to_bytes_of(kind::DATA)
    }
    /// The header of either kind as bytes.
    pub fn to_bytes_of(self, kind: u8) -> [u8; DATA_HEADER_LEN] {
        let mut out = [0; DATA_HEADER_LEN];
        out[0] = kind;
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

/// Octets of the length that follows the open octets of a partly open datagram.
pub const OPEN_LEN_LEN: usize = 2;
/// Octets of a digest of open octets, as frames carry it: the first of SHA-256.
pub const DIGEST_LEN: usize = 16;
/// Octets of a digest in a report of what was overheard.
pub const SHORT_DIGEST_LEN: usize = 8;

/// Where the open octets of a partly open datagram stand. Anyone can read them; only its receiver can tell whether they are genuine.
///
/// The sealed octets begin behind the header and end where the open ones begin. The AEAD's additional data are the header, the
/// length and the SHA-256 of the open octets.
pub fn open_octets(datagram: &[u8]) -> Result<core::ops::Range<usize>, DecodeError> {
    if datagram.first() != Some(&kind::DATA_OPEN) {
        return Err(DecodeError::Invalid("datagram kind"));
    }
    let end = datagram.len().checked_sub(TAG_LEN + OPEN_LEN_LEN).ok_or(DecodeError::Truncated)?;
    let len = usize::from(Reader::new(&datagram[end..]).u16()?);
    // An empty stretch has no use, and its digest would name nothing.
    if len == 0 {
        return Err(DecodeError::Invalid("open octets"));
    }
    let start = end.checked_sub(len).filter(|start| *start >= DATA_HEADER_LEN).ok_or(DecodeError::Truncated)?;
    Ok(start..end)
}

/// Bytes of each of the two macs that end a handshake message.
pub const MAC_LEN: usize = 16;
/// Bytes of a cookie reply.
pub const COOKIE_REPLY_LEN: usize = 5 + COOKIE_NONCE_LEN + SEALED_COOKIE_LEN;
/// Bytes of word that a key is unknown.
pub const UNKNOWN_KEY_LEN: usize = 5 + MAC_LEN;
/// Bytes of a cookie reply's nonce.
pub const COOKIE_NONCE_LEN: usize = 24;
/// Bytes of a cookie with its tag.
pub const SEALED_COOKIE_LEN: usize = MAC_LEN + TAG_LEN;
/// Bytes before the Noise message of a first handshake message.
pub const INIT_HEADER_LEN: usize = 6;
/// Bytes before the Noise message of a handshake's answer.
pub const RESPONSE_HEADER_LEN: usize = 10;
/// Bytes that Noise adds to the first payload (IK: ephemeral, static and its tag, payload's tag).
pub const INIT_NOISE_OVERHEAD: usize = 32 + 32 + TAG_LEN + TAG_LEN;
/// Bytes that Noise adds to the answer's payload (ephemeral, payload's tag).
pub const RESPONSE_NOISE_OVERHEAD: usize = 32 + TAG_LEN;
/// Largest handshake message of any kind; longer ones are refused.
pub const HANDSHAKE_MAX: usize = 512;

/// A handshake message cut into its fields. Nothing is verified yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handshake<'a> {
    /// The wire version its sender speaks.
    pub version: u8,
    /// The sender's index: where an answer goes.
    pub sender: u32,
    /// The receiver's index; `None` in a first message.
    pub receiver: Option<u32>,
    /// The Noise message.
    pub noise: &'a [u8],
    /// Everything before the first mac: what that mac covers.
    pub before_mac1: &'a [u8],
    /// Everything before the second mac: what that mac covers.
    pub before_mac2: &'a [u8],
    /// Proof that the sender knows the receiver's public key.
    pub mac1: [u8; MAC_LEN],
    /// Proof of address, or zeros.
    pub mac2: [u8; MAC_LEN],
}

impl<'a> Handshake<'a> {
    /// Cuts a first message or an answer into its fields, by its kind.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        if datagram.len() > HANDSHAKE_MAX {
            return Err(DecodeError::TooLong("handshake message"));
        }
        let mut r = Reader::new(datagram);
        let kind = r.u8()?;
        let version = r.u8()?;
        let sender = r.u32()?;
        let (receiver, least) = match kind {
            kind::HANDSHAKE_INIT => (None, INIT_NOISE_OVERHEAD),
            kind::HANDSHAKE_RESPONSE => (Some(r.u32()?), RESPONSE_NOISE_OVERHEAD),
            _ => return Err(DecodeError::Invalid("datagram kind")),
        };
        let noise_len = r.remaining().checked_sub(2 * MAC_LEN).ok_or(DecodeError::Truncated)?;
        if noise_len < least {
            return Err(DecodeError::Truncated);
        }
        let noise = r.take(noise_len)?;
        Ok(Self {
            version,
            sender,
            receiver,
            noise,
            before_mac1: &datagram[..datagram.len() - 2 * MAC_LEN],
            before_mac2: &datagram[..datagram.len() - MAC_LEN],
            mac1: r.array()?,
            mac2: r.array()?,
        })
    }
}

/// "Prove your address first": the answer to a handshake message under load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieReply {
    /// The index that the handshake message gave as its sender's.
    pub receiver: u32,
    /// Random; never repeated under one key.
    pub nonce: [u8; COOKIE_NONCE_LEN],
    /// The cookie, sealed.
    pub sealed: [u8; SEALED_COOKIE_LEN],
}

impl CookieReply {
    /// Reads a cookie reply, which has exactly one length.
    pub fn parse(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(datagram);
        if r.u8()? != kind::COOKIE_REPLY {
            return Err(DecodeError::Invalid("datagram kind"));
        }
        let reply = Self { receiver: r.u32()?, nonce: r.array()?, sealed: r.array()? };
        if r.is_empty() { Ok(reply) } else { Err(DecodeError::TooLong("cookie reply")) }
    }
    /// The datagram.
    pub fn to_bytes(self) -> [u8; COOKIE_REPLY_LEN] {
        let mut out = [0; COOKIE_REPLY_LEN];
        out[0] = kind::COOKIE_REPLY;
        out[1..5].copy_from_slice(&self.receiver.to_be_bytes());
        out[5..29].copy_from_slice(&self.nonce);
        out[29..].copy_from_slice(&self.sealed);
        out
    }
}

/// Word to a caller that its key is not configured here. Only for its operator to read: it changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownKey {
    /// The caller's index for its handshake.
    pub receiver: u32,
    /// Made by whoever the handshake was for, over that handshake.
    pub mac: [u8; MAC_LEN],
}

impl UnknownKey {
    /// Reads one; it has exactly one length.
    pub fn parse(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(datagram);
        if r.u8()? != kind::UNKNOWN_KEY {
            return Err(DecodeError::Invalid("datagram kind"));
        }
        let word = Self { receiver: r.u32()?, mac: r.array()? };
        if r.is_empty() { Ok(word) } else { Err(DecodeError::TooLong("word of an unknown key")) }
    }
    /// The datagram.
    pub fn to_bytes(self) -> [u8; UNKNOWN_KEY_LEN] {
        let mut out = [0; UNKNOWN_KEY_LEN];
        out[0] = kind::UNKNOWN_KEY;
        out[1..5].copy_from_slice(&self.receiver.to_be_bytes());
        out[5..].copy_from_slice(&self.mac);
        out
    }
}

/// Capability bits of a handshake payload. Unknown bits are ignored.
pub mod capability {
    /// AES-256-GCM is fast here.
    pub const AES: u32 = 1;
    /// Partly open datagrams are understood, and what was overheard is reported.
    pub const OVERHEAR: u32 = 2;
    /// Packets are taken that are told by an earlier one's headers.
    pub const COMPRESS: u32 = 4;
}

/// The cipher that seals a session's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suite {
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
    /// AES-256-GCM (NIST SP 800-38D).
    Aes256Gcm,
}

/// The payload inside a first message's Noise message. Bytes behind the known fields are ignored, so that later
/// versions may add some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitPayload {
    /// The wire version, authenticated.
    pub version: u8,
    /// [`capability`] bits.
    pub capabilities: u32,
    /// The initiator's boot epoch.
    pub epoch: u64,
    /// The initiator's handshakes since boot; (epoch, counter) grows with each.
    pub counter: u64,
}

impl InitPayload {
    /// Bytes of the known fields.
    pub const LEN: usize = 21;
    /// Reads the known fields.
    pub fn parse(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        Ok(Self { version: r.u8()?, capabilities: r.u32()?, epoch: r.u64()?, counter: r.u64()? })
    }
    /// The payload.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0] = self.version;
        out[1..5].copy_from_slice(&self.capabilities.to_be_bytes());
        out[5..13].copy_from_slice(&self.epoch.to_be_bytes());
        out[13..].copy_from_slice(&self.counter.to_be_bytes());
        out
    }
}

/// The payload inside an answer's Noise message. Bytes behind the known fields are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponsePayload {
    /// The wire version, authenticated.
    pub version: u8,
    /// [`capability`] bits.
    pub capabilities: u32,
    /// The responder's boot epoch.
    pub epoch: u64,
    /// The responder's index, authenticated (it also stands in the clear).
    pub sender: u32,
    /// The cipher chosen for data.
    pub suite: Suite,
}

impl ResponsePayload {
    /// Bytes of the known fields.
    pub const LEN: usize = 18;
    /// Reads the known fields.
    pub fn parse(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        Ok(Self {
            version: r.u8()?,
            capabilities: r.u32()?,
            epoch: r.u64()?,
            sender: r.u32()?,
            suite: match r.u8()? {
                0 => Suite::ChaCha20Poly1305,
                1 => Suite::Aes256Gcm,
                _ => return Err(DecodeError::Invalid("cipher suite")),
            },
        })
    }
    /// The payload.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0] = self.version;
        out[1..5].copy_from_slice(&self.capabilities.to_be_bytes());
        out[5..13].copy_from_slice(&self.epoch.to_be_bytes());
        out[13..17].copy_from_slice(&self.sender.to_be_bytes());
        out[17] = match self.suite {
            Suite::ChaCha20Poly1305 => 0,
            Suite::Aes256Gcm => 1,
        };
        out
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

    #[test]
    fn golden_partly_open_datagram() {
        let header = DataHeader { lane: 2, receiver: 0x0102_0304, number: 7 };
        let mut datagram = header.to_bytes_of(kind::DATA_OPEN).to_vec();
        assert_eq!(datagram, [6, 2, 1, 2, 3, 4, 0, 0, 0, 0, 0, 7]);
        datagram.extend([9, 9, 9]);
        datagram.extend(b"hi");
        datagram.extend([0, 2]);
        datagram.extend([0; TAG_LEN]);
        assert_eq!(DataHeader::parse(&datagram), Ok(header));
        assert_eq!(open_octets(&datagram), Ok(15..17));
        let with_len = |len: u8| [&datagram[..18], &[len], &[0; TAG_LEN]].concat();
        assert_eq!(open_octets(&with_len(5)), Ok(12..17), "nothing is sealed but the tag");
        assert_eq!(open_octets(&with_len(6)), Err(DecodeError::Truncated), "that would reach into the header");
        assert_eq!(open_octets(&with_len(0)), Err(DecodeError::Invalid("open octets")));
        assert_eq!(open_octets(&datagram[..TAG_LEN + 1]), Err(DecodeError::Truncated));
        datagram[0] = kind::DATA;
        assert!(open_octets(&datagram).is_err());
    }

    #[test]
    fn golden_handshake_fields() {
        let mut init = vec![1, 1, 9, 8, 7, 6];
        init.extend([0xaa; INIT_NOISE_OVERHEAD + 1]);
        init.extend([0xbb; MAC_LEN]);
        init.extend([0xcc; MAC_LEN]);
        let parsed = Handshake::parse(&init).expect("long enough");
        assert_eq!((parsed.version, parsed.sender, parsed.receiver), (1, 0x0908_0706, None));
        assert_eq!((parsed.noise.len(), parsed.mac1, parsed.mac2), (INIT_NOISE_OVERHEAD + 1, [0xbb; 16], [0xcc; 16]));
        assert_eq!(parsed.before_mac1, &init[..init.len() - 32]);
        assert_eq!(parsed.before_mac2, &init[..init.len() - 16]);
        assert_eq!(Handshake::parse(&init[..init.len() - 2]), Err(DecodeError::Truncated));
        init.resize(HANDSHAKE_MAX + 1, 0);
        assert_eq!(Handshake::parse(&init), Err(DecodeError::TooLong("handshake message")));
    }

    #[test]
    fn golden_payloads_and_cookie_reply() {
        let init = InitPayload { version: 1, capabilities: 1, epoch: 2, counter: 3 };
        let golden = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(init.to_bytes(), golden);
        let longer: Vec<u8> = golden.iter().copied().chain([1, 2, 3]).collect();
        assert_eq!(InitPayload::parse(&longer), Ok(init), "later fields are skipped");
        let response =
            ResponsePayload { version: 1, capabilities: 0, epoch: 2, sender: 0x0102_0304, suite: Suite::Aes256Gcm };
        let golden = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 3, 4, 1];
        assert_eq!(response.to_bytes(), golden);
        assert_eq!(ResponsePayload::parse(&golden), Ok(response));
        let mut unknown = golden;
        unknown[17] = 2;
        assert_eq!(ResponsePayload::parse(&unknown), Err(DecodeError::Invalid("cipher suite")));
        let reply = CookieReply { receiver: 5, nonce: [6; 24], sealed: [7; 32] };
        assert_eq!(CookieReply::parse(&reply.to_bytes()), Ok(reply));
        assert!(CookieReply::parse(&[3; COOKIE_REPLY_LEN + 1]).is_err());
        let word = UnknownKey { receiver: 5, mac: [6; MAC_LEN] };
        assert_eq!(UnknownKey::parse(&word.to_bytes()), Ok(word));
        assert!(UnknownKey::parse(&[5; UNKNOWN_KEY_LEN + 1]).is_err());
    }
}
