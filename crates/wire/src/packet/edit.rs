//! What a router changes in a packet, with checksums updated in place (RFC 1624).

use super::{IPV6_HEADER_LEN, Packet};
use crate::ip::IPV4_HEADER_LEN;
use crate::tcp::{Flags, PROTOCOL_TCP, TCP_HEADER_LEN};

const KIND_END: u8 = 0;
const KIND_NOP: u8 = 1;
const KIND_MSS: u8 = 2;
const MSS_LEN: usize = 4;

/// Replaces one aligned 16-bit word in what the checksum at `sum` covers (RFC 1624, equation 3).
fn update(packet: &mut [u8], sum: usize, old: u16, new: u16) {
    let stored = u16::from_be_bytes([packet[sum], packet[sum + 1]]);
    let mut total = u32::from(!stored) + u32::from(!old) + u32::from(new);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    packet[sum..sum + 2].copy_from_slice(&(!(total as u16)).to_be_bytes());
}

/// Takes one hop off a packet that [`Packet::parse`] accepted. False, and no change, if it has none to give: it must
/// not be forwarded (RFC 1812, section 5.3.1; RFC 8200, section 3).
pub(super) fn decrement_hops(packet: &mut [u8]) -> bool {
    let v4 = packet[0] >> 4 == 4;
    let at = if v4 { 8 } else { 7 };
    if packet[at] <= 1 {
        return false;
    }
    let old = u16::from_be_bytes([packet[8], packet[9]]);
    packet[at] -= 1;
    if v4 {
        update(packet, 10, old, u16::from_be_bytes([packet[8], packet[9]]));
    }
    true
}

/// Marks a packet that [`Packet::parse`] accepted as having met congestion (RFC 3168, section 5). False, and no
/// change, if its transport is not ECN-capable.
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    if packet[0] >> 4 == 4 {
        if packet[1] & 3 == 0 {
            return false;
        }
        let old = u16::from_be_bytes([packet[0], packet[1]]);
        packet[1] |= 3;
        update(packet, 10, old, u16::from_be_bytes([packet[0], packet[1]]));
    } else {
        // The traffic class lies across the first two bytes; its last two bits are bits 4 and 5 of the second.
        if packet[1] & 0x30 == 0 {
            return false;
        }
        packet[1] |= 0x30;
    }
    true
}

/// Where the TCP header of a SYN begins.
pub(super) fn syn_at(view: &Packet<'_>) -> Option<usize> {
    let syn = view.protocol == PROTOCOL_TCP && view.segment().is_some_and(|segment| segment.flags.has(Flags::SYN));
    syn.then(|| view.bytes.len() - view.upper().len())
}

/// Lowers the maximum segment size that a SYN announces, whose TCP header begins at `tcp`, to what packets of `mtu` bytes hold
/// (RFC 879's size, which leaves out options, so that the announcement is right for both ends). True if it changed something.
pub(super) fn lower_mss(packet: &mut [u8], tcp: usize, mtu: usize) -> bool {
    let ip = if packet[0] >> 4 == 4 { IPV4_HEADER_LEN } else { IPV6_HEADER_LEN };
    let most = u16::try_from(mtu.saturating_sub(ip + TCP_HEADER_LEN)).unwrap_or(u16::MAX);
    let end = tcp + usize::from(packet[tcp + 12] >> 4) * 4;
    let Some(at) = find_mss(packet, tcp + TCP_HEADER_LEN, end) else { return false };
    let announced = u16::from_be_bytes([packet[at], packet[at + 1]]);
    if announced <= most {
        return false;
    }
    // The value may straddle two checksum words: replace both.
    let first = at - (at - tcp) % 2;
    let words = [first, first + 2].map(|w| (w, packet.get(w..w + 2).map(|pair| [pair[0], pair[1]])));
    packet[at..at + 2].copy_from_slice(&most.to_be_bytes());
    for (w, old) in words {
        if let Some(old) = old {
            let new = u16::from_be_bytes([packet[w], packet[w + 1]]);
            update(packet, tcp + 16, u16::from_be_bytes(old), new);
        }
    }
    true
}

/// Where the value of the MSS option stands between `at` and `end`.
fn find_mss(packet: &[u8], mut at: usize, end: usize) -> Option<usize> {
    let options = packet.get(..end)?;
    while at < end {
        match options[at] {
            KIND_END => return None,
            KIND_NOP => at += 1,
            kind => {
                let len = usize::from(*options.get(at + 1)?);
                if len < 2 || at + len > end {
                    return None;
                }
                if kind == KIND_MSS && len == MSS_LEN {
                    return Some(at + 2);
                }
                at += len;
            }
        }
    }
    None
}
