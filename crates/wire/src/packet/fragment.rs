//! Fragmenting an IPv4 packet (RFC 791, section 3.2).

use super::Packet;
use crate::ip::checksum;
use std::net::IpAddr;

const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
/// Options with this bit are copied into every fragment (RFC 791, section 3.1).
const COPIED: u8 = 0x80;

/// Splits `packet` into packets of at most `mtu` bytes; `None` if it must not be fragmented or cannot be. A packet
/// that fits comes back alone.
pub fn fragments_v4(packet: &Packet<'_>, mtu: usize) -> Option<Vec<Vec<u8>>> {
    if !matches!(packet.source, IpAddr::V4(_)) {
        return None;
    }
    if packet.bytes.len() <= mtu {
        return Some(vec![packet.bytes.to_vec()]);
    }
    let payload = packet.upper();
    let header = &packet.bytes[..packet.bytes.len() - payload.len()];
    // Every piece but the last holds a multiple of eight bytes.
    let piece = mtu.checked_sub(header.len())? / 8 * 8;
    if packet.fragment.dont || piece == 0 {
        return None;
    }
    let later = later_header(header);
    let mut out = Vec::with_capacity(payload.len().div_ceil(piece));
    for (i, chunk) in payload.chunks(piece).enumerate() {
        let offset = packet.fragment.offset + i * piece;
        let last = (i + 1) * piece >= payload.len();
        let mut bytes = if i == 0 { header.to_vec() } else { later.clone() };
        let header_len = bytes.len();
        bytes.extend_from_slice(chunk);
        let total = (bytes.len() as u16).to_be_bytes();
        bytes[2..4].copy_from_slice(&total);
        let more = if last && !packet.fragment.more { 0 } else { 0x2000 };
        let bits = more | (offset / 8) as u16;
        bytes[6..8].copy_from_slice(&bits.to_be_bytes());
        bytes[10..12].fill(0);
        let sum = checksum(&[&bytes[..header_len]]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        out.push(bytes);
    }
    Some(out)
}

/// The header of all fragments but the first: only options that say so are copied. Never longer than `header`.
fn later_header(header: &[u8]) -> Vec<u8> {
    let mut out = header[..crate::ip::IPV4_HEADER_LEN].to_vec();
    let mut options = &header[crate::ip::IPV4_HEADER_LEN..];
    while let [kind, rest @ ..] = options {
        match *kind {
            OPTION_END => break,
            OPTION_NOP => options = rest,
            kind => {
                let Some(len) =
                    rest.first().map(|len| usize::from(*len)).filter(|len| (2..=options.len()).contains(len))
                else {
                    break;
                };
                if kind & COPIED != 0 {
                    out.extend_from_slice(&options[..len]);
                }
                options = &options[len..];
            }
        }
    }
    while !out.len().is_multiple_of(4) {
        out.push(OPTION_END);
    }
    out[0] = 0x40 | (out.len() / 4) as u8;
    out
}
