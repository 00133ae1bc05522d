//! Packets that come in fragments, put together: a split connection's are taken as a whole, those of others go on as they came.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wavelane_base::{Instant, Span};
use wavelane_wire::ip::{IPV4_HEADER_LEN, checksum};

/// Packets of which parts are missing; one more gives up the oldest.
pub const FRAGMENTED_MAX: usize = 64;
/// Fragments of one packet.
const PIECES_MAX: usize = 64;
/// How long the rest may take (RFC 8200, section 4.5: 60 s; Linux's `ipfrag_time`: 30 s).
const PATIENCE: Span = Span::from_secs(30);
/// The largest packet.
const PACKET_MAX: usize = u16::MAX as usize;
const IPV6_HEADER: usize = 40;
/// Next header: fragment (RFC 8200, section 4.5), and those that may stand before it.
const FRAGMENT: u8 = 44;
const BEFORE: [u8; 3] = [0, 43, 60];

/// The mark of congestion, which has all bits of the field (RFC 3168, section 5).
const CE: u8 = 3;

/// Sender, receiver, protocol and identification.
type Key = (IpAddr, IpAddr, u8, u32);

/// A fragment, as far as it is to be understood.
struct Piece {
    key: Key,
    offset: usize,
    more: bool,
    /// Octets before its part of the packet's payload.
    header: usize,
    /// Where the octet is that names what follows the header, and what that is.
    next: (usize, u8),
    /// Where the packet ends.
    end: usize,
}

fn array<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..at + N)?.try_into().ok()
}

fn parse(packet: &[u8]) -> Option<Piece> {
    if packet.first()? >> 4 == 4 {
        let bits = u16::from_be_bytes(array(packet, 6)?);
        if bits & 0x3fff == 0 {
            return None;
        }
        let header = usize::from(packet[0] & 0x0f) * 4;
        let end = usize::from(u16::from_be_bytes(array(packet, 2)?));
        let (source, target) = (Ipv4Addr::from(array::<4>(packet, 12)?), Ipv4Addr::from(array::<4>(packet, 16)?));
        let id = u32::from(u16::from_be_bytes(array(packet, 4)?));
        let key = (source.into(), target.into(), packet[9], id);
        let sound = header >= IPV4_HEADER_LEN && end <= packet.len() && checksum(&[packet.get(..header)?]) == 0;
        let (offset, more) = (usize::from(bits & 0x1fff) * 8, bits & 0x2000 != 0);
        return sound.then_some(Piece { key, offset, more, header, next: (9, packet[9]), end });
    }
    let end = IPV6_HEADER + usize::from(u16::from_be_bytes(array(packet, 4)?));
    let (mut at, mut names) = (IPV6_HEADER, 6);
    // Each header is longer than seven octets, so that this ends.
    while BEFORE.contains(packet.get(names)?) {
        names = at;
        at += usize::from(*packet.get(at + 1)?) * 8 + 8;
    }
    let [next, _, high, low] = array(packet, at).filter(|_| packet[names] == FRAGMENT)?;
    let bits = u16::from_be_bytes([high, low]);
    let (source, target) = (Ipv6Addr::from(array::<16>(packet, 8)?), Ipv6Addr::from(array::<16>(packet, 24)?));
    let key = (source.into(), target.into(), next, u32::from_be_bytes(array(packet, at + 4)?));
    let (offset, more) = (usize::from(bits & 0xfff8), bits & 1 != 0);
    (end <= packet.len()).then_some(Piece { key, offset, more, header: at + 8, next: (names, next), end })
}

/// What came of one packet.
#[derive(Default)]
struct Parts {
    since: Instant,
    /// As they came, with where each stands in the whole.
    pieces: Vec<(usize, Vec<u8>, usize)>,
    /// Where the payload ends, once that is known.
    end: Option<usize>,
}

/// What became of a packet.
#[derive(PartialEq, Eq, Debug)]
pub enum Gathered {
    /// It is no fragment.
    Whole,
    /// It waits for the others, or it fits none of them and is gone.
    Kept,
    /// It was the last that was missing.
    Complete {
        /// The packet as it was before.
        packet: Vec<u8>,
        /// Its fragments, as they came.
        pieces: Vec<Vec<u8>>,
    },
}

/// See the module's description.
#[derive(Default)]
pub struct Fragments {
    all: BTreeMap<Key, Parts>,
    /// In the order in which the first of each came.
    order: VecDeque<Key>,
}

impl Fragments {
    /// A packet came.
    pub fn take(&mut self, now: Instant, packet: &[u8]) -> Gathered {
        let Some(piece) = parse(packet) else { return Gathered::Whole };
        if piece.offset == 0 && !piece.more {
            // An atomic fragment of IPv6 has nothing to do with others of its identification (RFC 6946, section 4).
            return complete(vec![(0, packet[..piece.end].to_vec(), piece.header)]);
        }
        let late = |parts: Option<&Parts>| parts.is_none_or(|parts| now.since(parts.since) >= PATIENCE);
        while let Some(key) = self.order.front().copied().filter(|key| {
            late(self.all.get(key)) || self.all.len() >= FRAGMENTED_MAX && !self.all.contains_key(&piece.key)
        }) {
            self.order.pop_front();
            self.all.remove(&key);
        }
        let (from, to) = (piece.offset, piece.offset + piece.end - piece.header.min(piece.end));
        let parts = self.all.entry(piece.key).or_insert_with(|| {
            self.order.push_back(piece.key);
            Parts { since: now, ..Parts::default() }
        });
        let ends = |(start, other, header): &(usize, Vec<u8>, usize)| (*start, start + other.len() - header);
        let again = |one: &(usize, Vec<u8>, usize)| {
            ends(one) == (from, to) && one.1[one.2..] == packet[piece.header..piece.end]
        };
        if to > from && parts.pieces.iter().any(again) {
            // The network doubled it (RFC 8200, section 4.5).
            return Gathered::Kept;
        }
        let overlaps = parts.pieces.iter().map(ends).any(|(start, end)| start < to && from < end);
        let ragged = piece.more && !(to - from).is_multiple_of(8);
        let beyond = parts.end.is_some_and(|end| to > end || !piece.more && to != end)
            || !piece.more && parts.pieces.iter().map(ends).any(|(_, end)| end > to);
        if overlaps || ragged || beyond || to <= from || to > PACKET_MAX || parts.pieces.len() >= PIECES_MAX {
            // All of it is in doubt (RFC 5722).
            self.forget(&piece.key);
            return Gathered::Kept;
        }
        if !piece.more {
            parts.end = Some(to);
        }
        parts.pieces.push((from, packet[..piece.end].to_vec(), piece.header));
        let held: usize = parts.pieces.iter().map(|(_, bytes, header)| bytes.len() - header).sum();
        if parts.end != Some(held) {
            return Gathered::Kept;
        }
        let mut pieces = std::mem::take(&mut parts.pieces);
        self.forget(&piece.key);
        pieces.sort_by_key(|(start, ..)| *start);
        complete(pieces)
    }
    fn forget(&mut self, key: &Key) {
        self.all.remove(key);
        self.order.retain(|other| other != key);
    }
}

fn complete(pieces: Vec<(usize, Vec<u8>, usize)>) -> Gathered {
    match join(&pieces) {
        Some(packet) => Gathered::Complete { packet, pieces: pieces.into_iter().map(|(_, bytes, _)| bytes).collect() },
        None => Gathered::Kept,
    }
}

/// A packet's ECN field, in place: its octet, how far up that it stands there.
fn ecn(packet: &[u8]) -> (usize, u8) {
    (1, if packet[0] >> 4 == 6 { 4 } else { 0 })
}

/// The packet of which these are all fragments, in order: with the header of the first (RFC 791, section 3.2; RFC 8200, section 4.5).
fn join(pieces: &[(usize, Vec<u8>, usize)]) -> Option<Vec<u8>> {
    let (_, first, _) = pieces.first()?;
    let piece = parse(first)?;
    let six = first[0] >> 4 == 6;
    let mut packet = first[..piece.header - if six { 8 } else { 0 }].to_vec();
    let header = packet.len();
    let (at, up) = ecn(first);
    let said = |field: u8| pieces.iter().any(|(_, bytes, _)| bytes[at] >> up & CE == field);
    if said(CE) {
        // RFC 3168, section 5.3: what was marked in part was marked, unless its sender cannot be told so.
        packet[at] |= CE << up;
        if said(0) {
            return None;
        }
    }
    pieces.iter().for_each(|(_, bytes, header)| packet.extend_from_slice(&bytes[*header..]));
    let counted = if six { packet.len() - IPV6_HEADER } else { packet.len() };
    let length = u16::try_from(counted).ok()?.to_be_bytes();
    if six {
        packet[4..6].copy_from_slice(&length);
        packet[piece.next.0] = piece.next.1;
    } else {
        packet[2..4].copy_from_slice(&length);
        packet[6..8].fill(0);
        packet[10..12].fill(0);
        let sum = checksum(&[&packet[..header]]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    Some(packet)
}

#[cfg(test)]
#[path = "fragments_tests.rs"]
mod tests;
