//! PPP's control packets: link control (RFC 1661) and IP control (RFC 1332).

use crate::codec::{DecodeError, Reader};

/// Protocol numbers (RFC 1661, section 2; RFC 1332).
pub mod protocol {
    /// IPv4.
    pub const IPV4: u16 = 0x0021;
    /// TCP with a compressed header.
    pub const VJ_COMPRESSED: u16 = 0x002d;
    /// TCP with a full header that fills a slot.
    pub const VJ_FULL: u16 = 0x002f;
    /// IPv6.
    pub const IPV6: u16 = 0x0057;
    /// IP control.
    pub const IPCP: u16 = 0x8021;
    /// Link control.
    pub const LCP: u16 = 0xc021;
    /// Authentication by password (RFC 1334).
    pub const PAP: u16 = 0xc023;
    /// ... and by challenge (RFC 1994).
    pub const CHAP: u16 = 0xc223;
}

/// Octets of code, identifier and length.
pub const HEADER_LEN: usize = 4;
/// The most options that are read of one packet; a packet with more is malformed.
pub const OPTIONS_MAX: usize = 32;

/// What a control packet is (RFC 1661, section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// These options?
    ConfigureRequest = 1,
    /// All of them.
    ConfigureAck = 2,
    /// These with other values.
    ConfigureNak = 3,
    /// Not these.
    ConfigureReject = 4,
    /// Close.
    TerminateRequest = 5,
    /// Closed.
    TerminateAck = 6,
    /// That code is unknown.
    CodeReject = 7,
    /// That protocol is unknown; LCP only, as the following ones.
    ProtocolReject = 8,
    /// Are you there?
    EchoRequest = 9,
    /// Yes.
    EchoReply = 10,
    /// For tests.
    DiscardRequest = 11,
}

impl Code {
    const ALL: [Self; 11] = [
        Self::ConfigureRequest,
        Self::ConfigureAck,
        Self::ConfigureNak,
        Self::ConfigureReject,
        Self::TerminateRequest,
        Self::TerminateAck,
        Self::CodeReject,
        Self::ProtocolReject,
        Self::EchoRequest,
        Self::EchoReply,
        Self::DiscardRequest,
    ];

    /// The code of a packet, if there is one; IPCP knows the first seven.
    pub fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| *known as u8 == code)
    }
}

/// A control packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control<'a> {
    /// Its code, a [`Code`] or an unknown one.
    pub code: u8,
    /// Matches answers with requests.
    pub id: u8,
    /// What follows, without padding.
    pub data: &'a [u8],
}

impl<'a> Control<'a> {
    /// Reads a packet; octets beyond its length are padding.
    pub fn parse(packet: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(packet);
        let (code, id, len) = (r.u8()?, r.u8()?, usize::from(r.u16()?));
        let len = len.checked_sub(HEADER_LEN).ok_or(DecodeError::Invalid("PPP packet length"))?;
        Ok(Self { code, id, data: r.take(len)? })
    }

    /// Appends the packet. Data beyond what the length field counts is left out.
    pub fn put(&self, out: &mut Vec<u8>) {
        let data = &self.data[..self.data.len().min(usize::from(u16::MAX) - HEADER_LEN)];
        out.extend([self.code, self.id]);
        out.extend(((data.len() + HEADER_LEN) as u16).to_be_bytes());
        out.extend_from_slice(data);
    }

    /// The options of a Configure packet.
    pub fn options(&self) -> Result<Vec<Choice<'a>>, DecodeError> {
        let (mut r, mut options) = (Reader::new(self.data), Vec::new());
        while !r.is_empty() {
            let (kind, len) = (r.u8()?, usize::from(r.u8()?));
            let len = len.checked_sub(2).ok_or(DecodeError::Invalid("PPP option length"))?;
            options.push(Choice { kind, value: r.take(len)? });
            if options.len() > OPTIONS_MAX {
                return Err(DecodeError::TooLong("PPP options"));
            }
        }
        Ok(options)
    }
}

/// One option of a Configure packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice<'a> {
    /// Which.
    pub kind: u8,
    /// Its value.
    pub value: &'a [u8],
}

impl Choice<'_> {
    /// Appends the option. A value is at most 253 octets.
    pub fn put(&self, out: &mut Vec<u8>) {
        debug_assert!(self.value.len() <= 253);
        out.extend([self.kind, self.value.len() as u8 + 2]);
        out.extend_from_slice(self.value);
    }
    /// A value of two octets.
    pub fn u16(&self) -> Option<u16> {
        self.value.try_into().ok().map(u16::from_be_bytes)
    }
    /// A value of four octets.
    pub fn u32(&self) -> Option<u32> {
        self.value.try_into().ok().map(u32::from_be_bytes)
    }
}

/// Options of LCP (RFC 1661, section 6; RFC 1662, section 7.1).
pub mod lcp {
    /// The largest packet that the sender of the option receives.
    pub const MRU: u8 = 1;
    /// The octets below 0x20 that the other end shall escape.
    pub const ACCM: u8 = 2;
    /// How the sender of the option wants to be told who the other end is.
    pub const AUTH: u8 = 3;
    /// A number that tells the ends apart.
    pub const MAGIC: u8 = 5;
    /// The sender of the option takes protocol numbers of one octet.
    pub const PFC: u8 = 7;
    /// And frames without address and control.
    pub const ACFC: u8 = 8;
    /// The largest packet unless another is negotiated.
    pub const MRU_DEFAULT: u16 = 1500;
}

/// Options of IPCP (RFC 1332, section 3).
pub mod ipcp {
    /// The header compression that the sender of the option understands.
    pub const COMPRESSION: u8 = 2;
    /// The sender's address; none asks for one.
    pub const ADDRESS: u8 = 3;
}

/// The value of IPCP's compression option (RFC 1332, section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vj {
    /// The highest slot.
    pub slot_max: u8,
    /// Whether the slot may be left out.
    pub omits_slot: bool,
}

impl Vj {
    /// Reads a value, of this compression alone.
    pub fn parse(value: &[u8]) -> Option<Self> {
        match *value {
            [0x00, 0x2d, slot_max, omits @ (0 | 1)] => Some(Self { slot_max, omits_slot: omits == 1 }),
            _ => None,
        }
    }
    /// The value.
    pub fn value(self) -> [u8; 4] {
        let [high, low] = protocol::VJ_COMPRESSED.to_be_bytes();
        [high, low, self.slot_max, u8::from(self.omits_slot)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_impossible_length_are_malformed() {
        let options = |data: &[u8]| Control { code: 1, id: 1, data }.options().map(|options| options.len());
        assert_eq!(options(&[7, 2, 8, 2]), Ok(2));
        assert!(options(&[1, 0, 5, 220]).is_err() && options(&[1, 1]).is_err(), "length 0 and 1");
        assert!(options(&[1, 5, 5, 220]).is_err() && options(&[1]).is_err(), "past the end");
        assert!(options(&[7, 2].repeat(OPTIONS_MAX + 1)).is_err(), "too many");
    }

    #[test]
    fn a_packets_length_field_counts() {
        let padded = [9, 3, 0, 5, 1, 99, 99];
        assert_eq!(Control::parse(&padded), Ok(Control { code: 9, id: 3, data: &[1] }));
        assert!(Control::parse(&[9, 3, 0, 3, 1]).is_err() && Control::parse(&[9, 3, 0, 9, 1]).is_err());
    }
}
