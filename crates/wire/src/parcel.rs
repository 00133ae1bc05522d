//! End-to-end parcels: how a flow's octets look once they cross a relay that must not read them.
//!
//! The octets of a sealed flow are parcels back to back:
//!
//! ```text
//! length u16 (0 ..= 4078) | sealed octets, `length` of them | tag 16
//! ```
//!
//! One of length 0 is the last of its direction. The nonce is the offset in the flow of the parcel's first octet (the length
//! field's), so every parcel can be opened, and a forged or misplaced one rejected, alone; the length field is the additional
//! data. Neighbours that are ingress and egress at once leave parcels out: the hop's own seal is already end to end.

use crate::codec::{DecodeError, Reader, Writer};
use crate::datagram::{TAG_LEN, WIRE_VERSION};
use crate::frame::{PARCEL_MAX, Reach, emit_address};
use std::net::SocketAddr;

/// What the prologue of a flow's handshake begins with.
const PROLOGUE: &[u8] = b"wavelane flow";

/// Octets of the length field.
pub const PARCEL_HEADER_LEN: usize = 2;
/// Overhead of a parcel.
pub const PARCEL_OVERHEAD: usize = PARCEL_HEADER_LEN + TAG_LEN;
/// Most octets before sealing.
pub const PARCEL_PLAIN_MAX: usize = PARCEL_MAX - PARCEL_OVERHEAD;

/// One whole parcel, still sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parcel<'a> {
    /// The sealed octets and, behind them, the tag.
    pub sealed: &'a [u8],
}

impl<'a> Parcel<'a> {
    /// Octets of plaintext.
    pub fn plain_len(&self) -> usize {
        self.sealed.len() - TAG_LEN
    }
    /// Octets of the whole parcel in the flow.
    pub fn wire_len(&self) -> usize {
        PARCEL_HEADER_LEN + self.sealed.len()
    }
    /// Reads the first parcel of `bytes`; `Ok(None)` while it has not arrived whole.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<Self>, DecodeError> {
        let mut r = Reader::new(bytes);
        let Ok(length) = r.u16() else { return Ok(None) };
        let length = usize::from(length);
        if length > PARCEL_PLAIN_MAX {
            return Err(DecodeError::Invalid("parcel length"));
        }
        Ok(r.take(length + TAG_LEN).ok().map(|sealed| Self { sealed }))
    }
}

/// The length field of a parcel of `plain_len` octets, or `None` if no parcel may have that length.
pub fn parcel_header(plain_len: usize) -> Option<[u8; PARCEL_HEADER_LEN]> {
    let length = u16::try_from(plain_len).ok().filter(|n| usize::from(*n) <= PARCEL_PLAIN_MAX)?;
    Some(length.to_be_bytes())
}

/// The AEAD nonce of the parcel whose first octet lies at `offset` of its flow.
pub fn parcel_nonce(offset: u64) -> [u8; 12] {
    nonce(0, offset)
}

/// The AEAD nonce of an edge's word.
pub fn word_nonce(count: u64) -> [u8; 12] {
    nonce(1, count)
}

fn nonce(domain: u32, number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&domain.to_be_bytes());
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// The prologue of a flow's handshake: who may carry it somewhere else, or name another source, makes it fail.
pub fn flow_prologue(token: &[u8; 16], source: SocketAddr, target: SocketAddr) -> Vec<u8> {
    let mut addresses = [0; 2 * (1 + 16 + 2)];
    let mut w = Writer::new(&mut addresses);
    for address in [source, target] {
        emit_address(address, &mut w).expect("two addresses are no longer than this");
    }
    let len = w.len();
    [PROLOGUE, &[WIRE_VERSION], token, &addresses[..len]].concat()
}

/// Where an edge says its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordIn {
    /// In Progress.
    Progress,
    /// In an Open that resumes the flow: how often it was asked for before.
    Open(u64),
    /// In the Answer to it.
    Answer,
}

/// The additional data of an edge's word, which seals nothing: what it is the proof of.
pub fn word_about(place: WordIn, reach: Reach) -> [u8; 18] {
    let (code, attempt) = match place {
        WordIn::Progress => (0, 0),
        WordIn::Open(attempt) => (1, attempt),
        WordIn::Answer => (2, 0),
    };
    let mut out = [0; 18];
    out[0] = code;
    out[1..9].copy_from_slice(&reach.received.to_be_bytes());
    out[9] = u8::from(reach.finished);
    out[10..].copy_from_slice(&attempt.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_parcel() {
        let mut bytes = parcel_header(3).expect("three is a length").to_vec();
        bytes.extend([1, 2, 3]);
        bytes.extend([9; TAG_LEN]);
        assert_eq!(bytes[..5], [0, 3, 1, 2, 3]);
        let parcel = Parcel::parse(&bytes).expect("well-formed").expect("whole");
        assert_eq!((parcel.plain_len(), parcel.wire_len()), (3, bytes.len()));
        assert_eq!(parcel_nonce(0x0102), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(word_nonce(0x0102), [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn forbidden_lengths_are_neither_written_nor_read() {
        for length in [PARCEL_PLAIN_MAX + 1, PARCEL_MAX, usize::from(u16::MAX)] {
            assert_eq!(parcel_header(length), None);
            let claimed = (length as u16).to_be_bytes();
            assert_eq!(Parcel::parse(&claimed), Err(DecodeError::Invalid("parcel length")));
        }
    }

    proptest! {
        #[test]
        fn a_parcel_is_read_whole_or_not_at_all(plain in 0usize..=PARCEL_PLAIN_MAX, cut in any::<prop::sample::Index>()) {
            let mut bytes = parcel_header(plain).expect("in range").to_vec();
            bytes.resize(plain + PARCEL_OVERHEAD, 7);
            let parcel = Parcel::parse(&bytes).expect("well-formed");
            prop_assert_eq!(parcel.map(|p| p.wire_len()), Some(bytes.len()));
            prop_assert_eq!(Parcel::parse(&bytes[..cut.index(bytes.len())]), Ok(None));
        }
    }
}
