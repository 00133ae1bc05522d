//! PPP in HDLC-like framing (RFC 1662): flags, escapes, the frame check sequence, and the fields before a packet.

use crate::codec::DecodeError;

/// Begins and ends a frame (RFC 1662, section 3.1).
pub const FLAG: u8 = 0x7e;
/// Begins a sequence of two octets that stands for one (section 4.2).
pub const ESCAPE: u8 = 0x7d;
/// What the octet behind [`ESCAPE`] is complemented with.
pub const FLIP: u8 = 0x20;
/// The address field: all stations.
pub const ADDRESS: u8 = 0xff;
/// The control field: unnumbered information.
pub const CONTROL: u8 = 0x03;
/// Octets below 0x20 that are escaped before anything is negotiated: all (section 7.1).
pub const ACCM_DEFAULT: u32 = 0xffff_ffff;
/// Octets of the frame check sequence.
pub const FCS_LEN: usize = 2;
/// The fewest octets between flags: shorter frames are invalid (section 3.1).
pub const FRAME_MIN: usize = 4;

const FCS_INIT: u16 = 0xffff;
/// What the sum of a whole frame comes to (section C.2).
const FCS_GOOD: u16 = 0xf0b8;
/// The reflected polynomial x^16 + x^12 + x^5 + 1 (section C.2).
const FCS_POLYNOMIAL: u16 = 0x8408;
const FCS_TABLE: [u16; 256] = fcs_table();

const fn fcs_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < table.len() {
        let (mut value, mut bit) = (at as u16, 0);
        while bit < 8 {
            value = value >> 1 ^ if value & 1 == 1 { FCS_POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
}

fn fcs_add(sum: u16, octets: &[u8]) -> u16 {
    octets.iter().fold(sum, |sum, &octet| sum >> 8 ^ FCS_TABLE[usize::from((sum as u8) ^ octet)])
}

/// The frame check sequence of a frame's octets, which stands behind them with its low octet first.
pub fn fcs16(octets: &[u8]) -> u16 {
    !fcs_add(FCS_INIT, octets)
}

/// Whether a frame, with its sequence, arrived as it was sent.
pub fn fcs_holds(frame: &[u8]) -> bool {
    fcs_add(FCS_INIT, frame) == FCS_GOOD
}

/// How a sender writes frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Bit `n`: the octet `n` below 0x20 is escaped.
    pub accm: u32,
    /// The address and control fields are left out.
    pub acfc: bool,
    /// A protocol number below 0x100 takes one octet.
    pub pfc: bool,
}

impl Style {
    /// What holds before anything is negotiated, and always for LCP (RFC 1661, sections 6.5 and 6.6; RFC 1662, section 7.1).
    pub const UNNEGOTIATED: Self = Self { accm: ACCM_DEFAULT, acfc: false, pfc: false };
    /// A line both ends of which pass every octet.
    pub const TRANSPARENT: Self = Self { accm: 0, acfc: true, pfc: true };

    /// Whether this octet is escaped.
    pub const fn escapes(self, octet: u8) -> bool {
        matches!(octet, FLAG | ESCAPE) || octet < FLIP && self.accm >> octet & 1 == 1
    }
}

/// Writes a frame from its fields to its closing flag, without the opening one.
pub fn put(style: Style, protocol: u16, packet: &[u8], out: &mut Vec<u8>) {
    let [high, low] = protocol.to_be_bytes();
    let header = [ADDRESS, CONTROL, high, low];
    let short = high == 0 && style.pfc;
    let header: &[u8] = match (style.acfc, short) {
        (false, false) => &header,
        (false, true) => &[ADDRESS, CONTROL, low],
        (true, false) => &header[2..],
        (true, true) => &header[3..],
    };
    let sum = !fcs_add(fcs_add(FCS_INIT, header), packet);
    for &octet in header.iter().chain(packet).chain(&sum.to_le_bytes()) {
        if style.escapes(octet) {
            out.extend([ESCAPE, octet ^ FLIP]);
        } else {
            out.push(octet);
        }
    }
    out.push(FLAG);
}

/// The protocol of a frame without flags, escapes and sequence, and where its packet begins. Both fields may be
/// compressed, whatever was negotiated: nothing else can look like them.
pub fn protocol(frame: &[u8]) -> Result<(u16, usize), DecodeError> {
    let start = if frame.starts_with(&[ADDRESS, CONTROL]) { 2 } else { 0 };
    match frame[start..] {
        [low, ..] if low & 1 == 1 => Ok((u16::from(low), start + 1)),
        [high, low, ..] if low & 1 == 1 => Ok((u16::from_be_bytes([high, low]), start + 2)),
        [_, _, ..] => Err(DecodeError::Invalid("PPP protocol number")),
        _ => Err(DecodeError::Truncated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue() {
        // CRC-16/IBM-SDLC of "123456789" in the catalogue of parametrised CRC algorithms.
        assert_eq!(fcs16(b"123456789"), 0x906e);
    }

    #[test]
    fn either_field_may_be_compressed() {
        for (style, len) in [(Style::UNNEGOTIATED, 4), (Style::TRANSPARENT, 1)] {
            let mut out = Vec::new();
            put(Style { accm: 0, ..style }, 0x0021, &[0x45], &mut out);
            assert_eq!(protocol(&out), Ok((0x0021, len)));
            assert!(fcs_holds(&out[..out.len() - 1]));
        }
        assert!(protocol(&[0xff, 0x03, 0xc0]).is_err(), "cut short");
        assert!(protocol(&[0xc0, 0x20]).is_err(), "even");
    }
}
