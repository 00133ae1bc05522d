//! End-to-end parcels: how a flow's octets look once they cross a relay that must not read them.
//!
//! With the `parcels` flag on its offers, a flow's octets are parcels back to back:
//!
//! ```text
//! length u16 (1 ..= 4096) | sealed octets, `length` of them | tag 16
//! ```
//!
//! The nonce is the offset in the flow of the parcel's first octet (the length field's), so every parcel can be
//! opened, and a forged one rejected, alone. Neighbours that are ingress and egress at once leave parcels out: the
//! hop's own seal is already end to end.

use crate::codec::{DecodeError, Reader};
use crate::datagram::TAG_LEN;
use crate::frame::PARCEL_MAX;

/// Octets of the length field.
pub const PARCEL_HEADER_LEN: usize = 2;
/// What a parcel costs besides its octets.
pub const PARCEL_OVERHEAD: usize = PARCEL_HEADER_LEN + TAG_LEN;

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
        if length == 0 || length > PARCEL_MAX {
            return Err(DecodeError::Invalid("parcel length"));
        }
        Ok(r.take(length + TAG_LEN).ok().map(|sealed| Self { sealed }))
    }
}

/// The length field of a parcel of `plain_len` octets, or `None` if no parcel may have that length.
pub fn parcel_header(plain_len: usize) -> Option<[u8; PARCEL_HEADER_LEN]> {
    let length = u16::try_from(plain_len).ok().filter(|n| (1..=PARCEL_MAX).contains(&usize::from(*n)))?;
    Some(length.to_be_bytes())
}

/// The AEAD nonce of the parcel whose first octet lies at `offset` of its flow.
pub fn parcel_nonce(offset: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&offset.to_be_bytes());
    nonce
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
    }

    #[test]
    fn forbidden_lengths_are_neither_written_nor_read() {
        for length in [0, PARCEL_MAX + 1, usize::from(u16::MAX)] {
            assert_eq!(parcel_header(length), None);
            let claimed = (length as u16).to_be_bytes();
            assert_eq!(Parcel::parse(&claimed), Err(DecodeError::Invalid("parcel length")));
        }
    }

    proptest! {
        #[test]
        fn a_parcel_is_read_whole_or_not_at_all(plain in 1usize..=PARCEL_MAX, cut in any::<prop::sample::Index>()) {
            let mut bytes = parcel_header(plain).expect("in range").to_vec();
            bytes.resize(plain + PARCEL_OVERHEAD, 7);
            let parcel = Parcel::parse(&bytes).expect("well-formed");
            prop_assert_eq!(parcel.map(|p| p.wire_len()), Some(bytes.len()));
            prop_assert_eq!(Parcel::parse(&bytes[..cut.index(bytes.len())]), Ok(None));
        }
    }
}
