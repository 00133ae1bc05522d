//! IPv4 in IPv4 (RFC 2003): how a packet is put into another, and taken out of it.

use crate::codec::{NoRoom, Writer};
use crate::ip::{DEFAULT_TTL, IPV4_HEADER_LEN, checksum};
use crate::tcp::PROTOCOL_TCP;
use std::net::Ipv4Addr;

/// The protocol number (IANA protocol numbers).
pub const PROTOCOL_IPIP: u8 = 4;
/// Where these stand in an IPv4 header (RFC 791).
const TOS: usize = 1;
const FRAGMENT: usize = 6;
const CHECKSUM: usize = 10;
const DONT_FRAGMENT: u8 = 0x40;
/// "More fragments" and the offset.
const FRAGMENT_BITS: [u8; 2] = [0x3f, 0xff];
/// The field of explicit congestion notification in [`TOS`] (RFC 3168).
const ECN: u8 = 3;
const CE: u8 = 3;
const ECT_1: u8 = 1;
/// In a TCP header: the sequence number, the flags, the checksum (RFC 9293, section 3.1).
const SEQ: usize = 4;
const FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const TCP_HEADER_LEN: usize = 20;
const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;
/// Segments that a network card merged are cut again to this many octets, as nothing says how long they were: what fits the least packet of
/// IPv6 (RFC 8200, section 5) and so nearly every path, with 60 octets of headers.
const SEGMENT: usize = 1_220;

/// Why what came in a packet is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// One of the headers is none, or the lengths contradict each other.
    Malformed,
    /// It holds a tunnel again.
    Nested,
    /// Congestion was marked on the way of a packet whose ends do not know that mark: it counts as lost (RFC 6040, section 4.2).
    Congested,
}

/// What came in a packet.
#[derive(PartialEq, Eq, Debug)]
pub struct Opened<'a> {
    /// Who put it there.
    pub peer: Ipv4Addr,
    /// Who sent it.
    pub source: Ipv4Addr,
    /// To whom.
    pub target: Ipv4Addr,
    /// The packet, with what the way did to its congestion field.
    pub packet: &'a mut [u8],
}

/// The length of an IPv4 header that is one, and of its packet.
fn lengths(packet: &[u8]) -> Option<(usize, usize)> {
    let first = *packet.first()?;
    let (header, total) = (usize::from(first & 15) * 4, usize::from(word(packet, 2)?));
    let fits = first >> 4 == 4 && header >= IPV4_HEADER_LEN && total >= header && total <= packet.len();
    (fits && checksum(&[&packet[..header]]) == 0).then_some((header, total))
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?))
}

fn is_fragment(packet: &[u8]) -> bool {
    packet[FRAGMENT] & FRAGMENT_BITS[0] != 0 || packet[FRAGMENT + 1] & FRAGMENT_BITS[1] != 0
}

/// Writes the header's checksum anew.
fn sum_up(packet: &mut [u8], header: usize) {
    packet[CHECKSUM..CHECKSUM + 2].fill(0);
    let sum = checksum(&[&packet[..header]]);
    packet[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Takes out what a whole packet holds; fragments of the outer one are to be put together before.
pub fn open(packet: &mut [u8]) -> Result<Opened<'_>, Refused> {
    let (outer, end) = lengths(packet).ok_or(Refused::Malformed)?;
    if packet[9] != PROTOCOL_IPIP || is_fragment(packet) {
        return Err(Refused::Malformed);
    }
    let (peer, mark) = (address(packet, 12).ok_or(Refused::Malformed)?, packet[TOS] & ECN);
    let inner = &mut packet[outer..end];
    let (header, total) = lengths(inner).ok_or(Refused::Malformed)?;
    // IPv6 in it is the other kind of tunnel (RFC 4213).
    if [PROTOCOL_IPIP, 41].contains(&inner[9]) {
        return Err(Refused::Nested);
    }
    // RFC 6040, figure 4.
    let own = inner[TOS] & ECN;
    let new = match (own, mark) {
        (0, CE) => return Err(Refused::Congested),
        (1 | 2, CE) => CE,
        (2, ECT_1) => ECT_1,
        _ => own,
    };
    let inner = &mut inner[..total];
    if new != own {
        inner[TOS] = inner[TOS] & !ECN | new;
        sum_up(inner, header);
    }
    let (source, target) = address(inner, 12).zip(address(inner, 16)).ok_or(Refused::Malformed)?;
    Ok(Opened { peer, source, target, packet: inner })
}

/// Puts an IPv4 packet into another: its class, its congestion field (RFC 6040, normal mode) and whether it may be fragmented are the outer
/// one's too. Identification, checksum and, where it is zero, the source are the kernel's to fill in.
///
/// # Errors
/// [`NoRoom`] if it does not fit `buf`, or is no IPv4 packet.
pub fn wrap(inner: &[u8], (source, peer): (Ipv4Addr, Ipv4Addr), buf: &mut [u8]) -> Result<usize, NoRoom> {
    let total = u16::try_from(inner.len() + IPV4_HEADER_LEN).map_err(|_| NoRoom)?;
    let Some((header, _)) = inner.split_at_checked(IPV4_HEADER_LEN).filter(|(header, _)| header[0] >> 4 == 4) else {
        return Err(NoRoom);
    };
    let mut w = Writer::new(buf);
    w.put(&[0x45, header[TOS]])?;
    w.u16(total)?;
    w.put(&[0, 0, header[FRAGMENT] & DONT_FRAGMENT, 0, DEFAULT_TTL, PROTOCOL_IPIP, 0, 0])?;
    w.put(&source.octets())?;
    w.put(&peer.octets())?;
    w.put(inner)?;
    let len = w.len();
    sum_up(buf, IPV4_HEADER_LEN);
    Ok(len)
}

/// Gives `take` a packet's TCP segments where a network card merged several into one, which it tells by leaving the sum of the addresses alone
/// in place of a checksum; any other packet as it is. Returns whether it was cut or mended.
pub fn unmerge(packet: &mut [u8], mut take: impl FnMut(&[u8])) -> bool {
    let Some((header, size)) = merged(packet) else {
        take(packet);
        return false;
    };
    let start = header + size;
    let (head, data) = packet.split_at(start);
    let parts = data.len().div_ceil(SEGMENT).max(1);
    let (id, seq) =
        (word(head, 4).unwrap_or(0), head[header + SEQ..].first_chunk().map_or(0, |s| u32::from_be_bytes(*s)));
    let mut segment = Vec::with_capacity(start + SEGMENT);
    for place in 0..parts {
        let from = place * SEGMENT;
        segment.clear();
        segment.extend_from_slice(head);
        segment.extend_from_slice(&data[from..data.len().min(from + SEGMENT)]);
        let total = segment.len() as u16;
        segment[2..4].copy_from_slice(&total.to_be_bytes());
        segment[4..6].copy_from_slice(&id.wrapping_add(place as u16).to_be_bytes());
        let tcp = &mut segment[header..];
        tcp[SEQ..SEQ + 4].copy_from_slice(&seq.wrapping_add(from as u32).to_be_bytes());
        tcp[FLAGS] &= !(if place + 1 < parts { FIN_AND_PSH } else { 0 } | if place > 0 { CWR } else { 0 });
        tcp[TCP_CHECKSUM..TCP_CHECKSUM + 2].fill(0);
        let sum = !ends_sum(&segment, header);
        let sum = checksum(&[&sum.to_be_bytes(), &[0, 0], &segment[header..]]);
        segment[header + TCP_CHECKSUM..header + TCP_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        sum_up(&mut segment, header);
        take(&segment);
    }
    true
}

/// The checksum of what stands for the addresses (RFC 9293, section 3.1).
fn ends_sum(packet: &[u8], header: usize) -> u16 {
    let len = ((packet.len() - header) as u16).to_be_bytes();
    checksum(&[&packet[12..20], &[0, PROTOCOL_TCP, len[0], len[1]]])
}

/// The length of the IP header and of the TCP header, if a card merged this.
fn merged(packet: &[u8]) -> Option<(usize, usize)> {
    let (header, total) = lengths(packet)?;
    let tcp = packet.get(header..).filter(|tcp| tcp.len() >= TCP_HEADER_LEN && total == packet.len())?;
    let size = usize::from(tcp[12] >> 4) * 4;
    let fits = packet[9] == PROTOCOL_TCP && !is_fragment(packet) && (TCP_HEADER_LEN..=tcp.len()).contains(&size);
    (fits && word(tcp, TCP_CHECKSUM)? == !ends_sum(packet, header)).then_some((header, size))
}

#[cfg(test)]
#[path = "ipip_tests.rs"]
mod tests;
