//! An IP packet told by what differs from an earlier one.

use super::{Order, kind};
use crate::codec::{DecodeError, NoRoom, Reader, Writer};
use crate::packet::Changes;
use crate::tcp::SACK_BLOCKS_MAX;

/// A packet is at most so far ahead of the one that it is told by: the receiving end keeps no older ones for sure.
pub const AHEAD_MAX: u64 = 0x3fff;

/// A packet of the packet service, by its difference from one that has arrived. Sent only to neighbours that take it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompressedFrame<'a> {
    /// The low 16 bits of the number of the packet that it is told by.
    pub base: u16,
    /// How much higher its own number is: 1 to [`AHEAD_MAX`].
    pub ahead: u64,
    /// Later packets may be told by this one.
    pub keep: bool,
    /// The packet that it must not overtake, if any.
    pub order: Option<Order>,
    /// What is different.
    pub changes: Changes,
    /// What follows the headers.
    pub payload: &'a [u8],
}

/// Which fields follow, in their order. What acknowledgements need takes one octet together.
mod field {
    pub(super) const ID: u64 = 1;
    pub(super) const ACKNOWLEDGED: u64 = 2;
    pub(super) const WINDOW: u64 = 4;
    pub(super) const TIMES: u64 = 8;
    pub(super) const KEEP: u64 = 16;
    pub(super) const SEQUENCE: u64 = 32;
    pub(super) const SACK: u64 = 64;
    pub(super) const FLAGS: u64 = 128;
    pub(super) const CLASS: u64 = 256;
    pub(super) const ORDER: u64 = 512;
    pub(super) const PAYLOAD: u64 = 1024;
    pub(super) const ALL: u64 = 2047;
}

/// A number of `u32` or `u16` that a varint holds; zero is told by the field's absence.
fn moved<T: TryFrom<u64>>(r: &mut Reader<'_>) -> Result<T, DecodeError> {
    let n = r.varint()?;
    T::try_from(n).ok().filter(|_| n > 0).ok_or(DecodeError::Invalid("change"))
}

impl<'a> CompressedFrame<'a> {
    fn fields(&self) -> u64 {
        let Changes { id, sequence, acknowledged, window, times, sack_blocks, flags, class, .. } = self.changes;
        [
            (field::ID, id > 0),
            (field::ACKNOWLEDGED, acknowledged > 0),
            (field::WINDOW, window.is_some()),
            (field::TIMES, times != (0, 0)),
            (field::KEEP, self.keep),
            (field::SEQUENCE, sequence > 0),
            (field::SACK, sack_blocks > 0),
            (field::FLAGS, flags.is_some()),
            (field::CLASS, class.is_some()),
            (field::ORDER, self.order.is_some()),
            (field::PAYLOAD, !self.payload.is_empty()),
        ]
        .into_iter()
        .filter(|(_, set)| *set)
        .map(|(bit, _)| bit)
        .sum()
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        let Changes { id, sequence, acknowledged, window, times, sack, sack_blocks, flags, class, checksum } =
            self.changes;
        w.varint(kind::COMPRESSED)?;
        w.varint(self.fields())?;
        w.u16(self.base)?;
        w.varint(self.ahead)?;
        w.u16(checksum)?;
        for number in [u32::from(id), acknowledged].into_iter().filter(|n| *n > 0) {
            w.varint(number.into())?;
        }
        window.map_or(Ok(()), |window| w.u16(window))?;
        if times != (0, 0) {
            w.varint(times.0.into())?;
            w.varint(times.1.into())?;
        }
        if sequence > 0 {
            w.varint(sequence.into())?;
        }
        if sack_blocks > 0 {
            w.u8(sack_blocks)?;
            for (ahead, len) in sack.iter().take(sack_blocks.into()) {
                w.varint((*ahead).into())?;
                w.varint((*len).into())?;
            }
        }
        for octet in [flags, class].into_iter().flatten() {
            w.u8(octet)?;
        }
        if let Some(order) = self.order {
            w.varint(order.back)?;
            w.varint(order.hold_ms)?;
        }
        if !self.payload.is_empty() {
            w.varint(self.payload.len() as u64)?;
            w.put(self.payload)?;
        }
        Ok(())
    }

    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let fields = r.varint()?;
        if fields > field::ALL {
            return Err(DecodeError::Invalid("fields of a compressed packet"));
        }
        let has = |bit: u64| fields & bit != 0;
        let (base, ahead, checksum) = (r.u16()?, r.varint()?, r.u16()?);
        if !(1..=AHEAD_MAX).contains(&ahead) {
            return Err(DecodeError::Invalid("number of a compressed packet"));
        }
        let mut changes = Changes { checksum, ..Changes::default() };
        if has(field::ID) {
            changes.id = moved(r)?;
        }
        if has(field::ACKNOWLEDGED) {
            changes.acknowledged = moved(r)?;
        }
        if has(field::WINDOW) {
            changes.window = Some(r.u16()?);
        }
        if has(field::TIMES) {
            let mut number = || u32::try_from(r.varint()?).map_err(|_| DecodeError::Invalid("change"));
            changes.times = (number()?, number()?);
            if changes.times == (0, 0) {
                return Err(DecodeError::Invalid("change"));
            }
        }
        if has(field::SEQUENCE) {
            changes.sequence = moved(r)?;
        }
        if has(field::SACK) {
            changes.sack_blocks = r.u8()?;
            if !(1..=SACK_BLOCKS_MAX).contains(&changes.sack_blocks.into()) {
                return Err(DecodeError::Invalid("blocks of SACK"));
            }
            for block in changes.sack.iter_mut().take(changes.sack_blocks.into()) {
                let mut number = || u32::try_from(r.varint()?).map_err(|_| DecodeError::Invalid("change"));
                *block = (number()?, number()?);
            }
        }
        if has(field::FLAGS) {
            changes.flags = Some(r.u8()?);
        }
        if has(field::CLASS) {
            changes.class = Some(r.u8()?);
        }
        let order = if has(field::ORDER) {
            let (back, hold_ms) = (r.varint()?, r.varint()?);
            if back == 0 {
                return Err(DecodeError::Invalid("packet order"));
            }
            Some(Order { back, hold_ms })
        } else {
            None
        };
        let payload = if has(field::PAYLOAD) {
            let len = usize::try_from(r.varint()?).map_err(|_| DecodeError::Truncated)?;
            if len == 0 {
                return Err(DecodeError::Invalid("packet length"));
            }
            r.take(len)?
        } else {
            &[]
        };
        Ok(Self { base, ahead, keep: has(field::KEEP), order, changes, payload })
    }
}
