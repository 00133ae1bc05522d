//! Splits one super-packet of the kernel into its packets.

use super::header::{
    CWR, FIN, GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, Layout, NEEDS_CSUM, PROTOCOL_TCP, PROTOCOL_UDP, PSH,
    UDP_CHECKSUM_AT, UDP_HEADER, VnetHeader, fold, sum,
};

/// Why a packet cannot be split: its headers contradict the kernel's description of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

/// Passes the packets in `packet` to `each`, every one with a complete checksum, and returns their number. `scratch` is overwritten.
pub(super) fn split(
    about: VnetHeader,
    packet: &mut [u8],
    scratch: &mut Vec<u8>,
    each: &mut impl FnMut(&[u8]),
) -> Result<usize, Malformed> {
    match about.gso_type & !GSO_ECN {
        GSO_NONE => {
            if about.flags & NEEDS_CSUM != 0 {
                finish_checksum(about, packet)?;
            }
            each(packet);
            Ok(1)
        }
        kind @ (GSO_TCPV4 | GSO_TCPV6 | GSO_UDP_L4) => {
            let layout = Layout::of(packet).ok_or(Malformed)?;
            let protocol = if kind == GSO_UDP_L4 { PROTOCOL_UDP } else { PROTOCOL_TCP };
            if layout.protocol != protocol || about.gso_size == 0 {
                return Err(Malformed);
            }
            Ok(segments(layout, usize::from(about.gso_size), packet, scratch, each))
        }
        _ => Err(Malformed),
    }
}

/// Completes the checksum that the kernel left to the "hardware": the field already holds the pseudo-header's sum.
fn finish_checksum(about: VnetHeader, packet: &mut [u8]) -> Result<(), Malformed> {
    let (start, offset) = (usize::from(about.csum_start), usize::from(about.csum_offset));
    let at = start + offset;
    if at + 2 > packet.len() {
        return Err(Malformed);
    }
    let whole = !fold(sum(0, &packet[start..]));
    // Only UDP has its checksum at this offset, and there zero would mean that there is none.
    let whole = if whole == 0 && offset == UDP_CHECKSUM_AT { u16::MAX } else { whole };
    packet[at..at + 2].copy_from_slice(&whole.to_be_bytes());
    Ok(())
}

fn segments(layout: Layout, size: usize, packet: &[u8], scratch: &mut Vec<u8>, each: &mut impl FnMut(&[u8])) -> usize {
    let (headers, payload) = packet.split_at(layout.payload);
    let (first_id, first_sequence) = (Layout::identification(packet), layout.sequence(packet));
    let count = payload.len().div_ceil(size).max(1);
    for i in 0..count {
        let part = &payload[(i * size).min(payload.len())..((i + 1) * size).min(payload.len())];
        scratch.clear();
        scratch.extend_from_slice(headers);
        scratch.extend_from_slice(part);
        layout.finish_ip(scratch, Some(first_id.wrapping_add(i as u16)));
        if layout.protocol == PROTOCOL_TCP {
            let sequence = first_sequence.wrapping_add((i * size) as u32);
            scratch[layout.transport + 4..layout.transport + 8].copy_from_slice(&sequence.to_be_bytes());
            let flags = &mut scratch[layout.flags_at()];
            // FIN and PSH belong to the last segment, and the answer to a congestion mark is given once (RFC 3168, section 6.1.2).
            *flags &= if i + 1 < count { !(FIN | PSH) } else { !0 };
            *flags &= if i > 0 { !CWR } else { !0 };
        } else {
            let length = (UDP_HEADER + part.len()) as u16;
            scratch[layout.transport + 4..layout.transport + 6].copy_from_slice(&length.to_be_bytes());
        }
        layout.finish_transport(scratch);
        each(scratch);
    }
    count
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
