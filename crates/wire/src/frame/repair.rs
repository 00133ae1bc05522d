//! The frames of forward erasure correction (`docs/protocol/fec.md`).

use super::kind;
use crate::codec::{DecodeError, NoRoom, Reader, Writer};
use crate::datagram::NUMBER_MAX;

/// Octets of a [`RepairFrame`] before its symbol, at most, when it covers `span` numbers.
pub const fn repair_head_max(span: usize) -> usize {
    1 + 1 + 1 + 8 + 1 + span.div_ceil(8)
}

/// A repair symbol, which runs to the end of its datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepairFrame<'a> {
    /// The lane whose datagrams it covers.
    pub lane: u8,
    /// Row of the code, 0 to 127.
    pub key: u8,
    /// Lowest number covered. It and the highest are at most [`NUMBER_MAX`].
    pub first: u64,
    /// Bit i set: datagram `first + i` is covered. Bit 0 is set.
    pub mask: u128,
    /// The sum.
    pub symbol: &'a [u8],
}

impl<'a> RepairFrame<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (lane, key, first) = (r.u8()?, r.u8()?, r.varint()?);
        if key > 127 {
            return Err(DecodeError::Invalid("repair key"));
        }
        let octets = usize::from(r.u8()?);
        if !(1..=16).contains(&octets) {
            return Err(DecodeError::Invalid("repair mask"));
        }
        let mut mask = [0; 16];
        mask[..octets].copy_from_slice(r.take(octets)?);
        let mask = u128::from_le_bytes(mask);
        if mask & 1 == 0 {
            return Err(DecodeError::Invalid("repair mask"));
        }
        let span = u64::from(127 - mask.leading_zeros());
        if first > NUMBER_MAX - span {
            return Err(DecodeError::Invalid("repair numbers"));
        }
        Ok(Self { lane, key, first, mask, symbol: r.take_rest() })
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        let octets = (128 - self.mask.leading_zeros() as usize).div_ceil(8).max(1);
        w.varint(kind::REPAIR)?;
        w.u8(self.lane)?;
        w.u8(self.key)?;
        w.varint(self.first)?;
        w.u8(octets as u8)?;
        w.put(&self.mask.to_le_bytes()[..octets])?;
        w.put(self.symbol)
    }
}
