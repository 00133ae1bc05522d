//! The compressed TCP/IP header of RFC 1144: which fields changed, and by how much.

use crate::codec::{DecodeError, Reader};

/// SLIP only: these bits in a packet's first octet say that it is a full header whose protocol field is a slot's number.
pub const SLIP_FULL: u8 = 0x70;
/// SLIP only: this bit in a packet's first octet, which is the change mask, says that its header is compressed.
pub const SLIP_COMPRESSED: u8 = 0x80;
/// Where the protocol field of an IPv4 header is, which holds the slot's number in a full header.
pub const SLOT_AT: usize = 9;
/// Slots unless others are negotiated (RFC 1144, section 3.2.3).
pub const SLOTS_DEFAULT: usize = 16;
/// The most octets of a compressed header: mask, slot, checksum, five fields of three.
pub const COMPRESSED_MAX: usize = 19;

const NEW_C: u8 = 0x40;
const NEW_I: u8 = 0x20;
const PUSH: u8 = 0x10;
const NEW_S: u8 = 0x08;
const NEW_A: u8 = 0x04;
const NEW_W: u8 = 0x02;
const NEW_U: u8 = 0x01;
/// Echoed interactive traffic, a combination that does not occur otherwise (section 3.2.2).
const SPECIAL_I: u8 = NEW_S | NEW_W | NEW_U;
/// One-way data.
const SPECIAL_D: u8 = NEW_S | NEW_A | NEW_W | NEW_U;
const SPECIALS: u8 = SPECIAL_D;

/// How the TCP header's numbers moved since the connection's previous packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moves {
    /// Sequence and acknowledgement numbers by the previous packet's data.
    Echo,
    /// The sequence number by the previous packet's data.
    Data,
    /// As given.
    Given {
        /// The urgent pointer itself, if the segment is urgent.
        urgent: Option<u16>,
        /// The window's change, modulo 2^16.
        window: u16,
        /// The acknowledgement number's.
        ack: u16,
        /// The sequence number's.
        sequence: u16,
    },
}

/// A compressed header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The slot, unless it is the previous packet's.
    pub slot: Option<u8>,
    /// The segment is pushed.
    pub push: bool,
    /// The segment's checksum, unchanged.
    pub checksum: u16,
    /// TCP's numbers.
    pub moves: Moves,
    /// How the IP identification moved; mostly by 1, which takes no octet.
    pub id: u16,
}

impl Moves {
    const fn bits(self) -> u8 {
        match self {
            Self::Echo => SPECIAL_I,
            Self::Data => SPECIAL_D,
            Self::Given { urgent, window, ack, sequence } => {
                let mut bits = if urgent.is_some() { NEW_U } else { 0 };
                if window != 0 {
                    bits |= NEW_W;
                }
                if ack != 0 {
                    bits |= NEW_A;
                }
                if sequence != 0 {
                    bits |= NEW_S;
                }
                bits
            }
        }
    }
    /// Whether moves that are given would be read as one of the other two: such a packet goes with its full header.
    pub const fn is_ambiguous(self) -> bool {
        matches!(self, Self::Given { .. }) && matches!(self.bits(), SPECIAL_I | SPECIAL_D)
    }
}

/// One octet for 1 to 255, three otherwise (section 3.2.2).
fn put_number(n: u16, out: &mut Vec<u8>) {
    match u8::try_from(n) {
        Ok(small @ 1..) => out.push(small),
        _ => {
            out.push(0);
            out.extend(n.to_be_bytes());
        }
    }
}
fn number(r: &mut Reader<'_>) -> Result<u16, DecodeError> {
    match r.u8()? {
        0 => r.u16(),
        small => Ok(u16::from(small)),
    }
}

impl Change {
    /// Appends the header. The moves must not be ambiguous.
    pub fn put(&self, out: &mut Vec<u8>) {
        debug_assert!(!self.moves.is_ambiguous());
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let mask =
            self.moves.bits() | flag(self.slot.is_some(), NEW_C) | flag(self.id != 1, NEW_I) | flag(self.push, PUSH);
        out.push(mask);
        out.extend(self.slot);
        out.extend(self.checksum.to_be_bytes());
        if let Moves::Given { urgent, window, ack, sequence } = self.moves {
            if let Some(urgent) = urgent {
                put_number(urgent, out);
            }
            for moved in [window, ack, sequence].into_iter().filter(|&moved| moved != 0) {
                put_number(moved, out);
            }
        }
        if self.id != 1 {
            put_number(self.id, out);
        }
    }

    /// Reads a header; what is left of the packet is the segment's data. The bit that SLIP adds is ignored.
    pub fn parse(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mask = r.u8()?;
        let has = |bit: u8| mask & bit != 0;
        let slot = if has(NEW_C) { Some(r.u8()?) } else { None };
        let checksum = r.u16()?;
        let moves = match mask & SPECIALS {
            SPECIAL_I => Moves::Echo,
            SPECIAL_D => Moves::Data,
            _ => {
                let urgent = if has(NEW_U) { Some(number(r)?) } else { None };
                let mut moved = |bit| if has(bit) { number(r) } else { Ok(0) };
                Moves::Given { urgent, window: moved(NEW_W)?, ack: moved(NEW_A)?, sequence: moved(NEW_S)? }
            }
        };
        let id = if has(NEW_I) { number(r)? } else { 1 };
        Ok(Self { slot, push: has(PUSH), checksum, moves, id })
    }
}
