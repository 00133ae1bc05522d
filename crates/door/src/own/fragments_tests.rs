#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
use super::*;
use wavelane_wire::packet::{IpPacket, fragments_v4};
use wavelane_wire::tcp::{Flags, TcpHeader, TcpPacket};

/// A packet of TCP with 2,000 bytes.
fn packet(six: bool) -> Vec<u8> {
    let payload: Vec<u8> = (0..2_000).map(|n| n as u8).collect();
    let ends = if six { ["[fd00::1]:1", "[fd00::2]:2"] } else { ["10.0.0.1:1", "10.0.0.2:2"] };
    let [source, target] = ends.map(|end| end.parse().unwrap());
    let header = TcpHeader { flags: Flags::ACK, seq: 7, window: 9, ..TcpHeader::default() };
    let mut bytes = vec![0; 3_000];
    let len =
        TcpPacket { source, target, ecn: Default::default(), header, payload: &payload }.emit(&mut bytes).unwrap();
    bytes.truncate(len);
    if !six {
        // May be fragmented.
        bytes[6..8].fill(0);
        renew(&mut bytes);
    }
    bytes
}

/// Its fragments, as a sender or a router makes them.
fn cut(packet: &[u8]) -> Vec<Vec<u8>> {
    if packet[0] >> 4 == 4 {
        return fragments_v4(&IpPacket::take(packet.to_vec()).unwrap().view(), 600).unwrap();
    }
    let chunks: Vec<&[u8]> = packet[IPV6_HEADER..].chunks(560).collect();
    let last = chunks.len() - 1;
    let fragment = |(n, chunk): (usize, &&[u8])| {
        let mut out = packet[..IPV6_HEADER].to_vec();
        out[4..6].copy_from_slice(&(chunk.len() as u16 + 8).to_be_bytes());
        out[6] = FRAGMENT;
        let bits = (n * 560) as u16 | u16::from(n != last);
        out.extend([packet[6], 0, bits.to_be_bytes()[0], bits.to_be_bytes()[1], 0, 0, 0, 5]);
        out.extend_from_slice(chunk);
        out
    };
    chunks.iter().enumerate().map(fragment).collect()
}

fn at(secs: u64) -> Instant {
    Instant::ZERO + Span::from_secs(secs)
}

#[test]
fn a_packet_comes_together_in_any_order() {
    for six in [false, true] {
        let whole = packet(six);
        let pieces = cut(&whole);
        assert!(pieces.len() >= 3);
        let mut fragments = Fragments::default();
        assert_eq!(fragments.take(at(0), &whole), Gathered::Whole);
        for turn in 0..pieces.len() {
            let mut order = pieces.clone();
            order.rotate_left(turn);
            let (last, first) = order.split_last().unwrap();
            for piece in first {
                assert_eq!(fragments.take(at(0), piece), Gathered::Kept);
            }
            let Gathered::Complete { packet, pieces: came } = fragments.take(at(0), last) else { panic!() };
            let (segment, expected) = (TcpPacket::parse(&packet).unwrap(), TcpPacket::parse(&whole).unwrap());
            assert_eq!((segment.payload, segment.header), (expected.payload, expected.header), "six {six}");
            assert_eq!(came, pieces);
        }
        assert!(fragments.all.is_empty() && fragments.order.is_empty());
    }
}

/// Gives an IPv4 header its checksum.
fn renew(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let sum = checksum(&[&packet[..20]]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The network doubles a fragment, marks a later one, and a sender of IPv6 sends whole packets as fragments.
#[test]
fn doubled_marked_and_atomic_fragments_are_whole_packets() {
    for six in [false, true] {
        let whole = packet(six);
        let (at_octet, up) = ecn(&whole);
        let marked = |piece: &[u8], field: u8| {
            let mut piece = piece.to_vec();
            piece[at_octet] = piece[at_octet] & !(CE << up) | field << up;
            if !six {
                renew(&mut piece);
            }
            piece
        };
        for (fields, expected) in [([2, 2], Some(2)), ([2, 3], Some(3)), ([0, 3], None)] {
            let mut fragments = Fragments::default();
            let pieces: Vec<Vec<u8>> =
                cut(&whole).iter().enumerate().map(|(n, piece)| marked(piece, fields[n.min(1)])).collect();
            let (last, first) = pieces.split_last().unwrap();
            for piece in first.iter().chain(first) {
                assert_eq!(fragments.take(at(0), piece), Gathered::Kept);
            }
            let got = match fragments.take(at(0), last) {
                Gathered::Complete { packet, pieces: came } => {
                    assert!(came == pieces && TcpPacket::parse(&packet).is_ok());
                    Some(packet[at_octet] >> up & CE)
                }
                _ => None,
            };
            assert_eq!(got, expected, "six {six}, {fields:?}");
        }
    }
    let whole = packet(true);
    let mut atomic = cut(&whole).remove(0);
    atomic.truncate(IPV6_HEADER + 8);
    atomic.extend_from_slice(&whole[IPV6_HEADER..]);
    atomic[4..6].copy_from_slice(&((whole.len() - IPV6_HEADER + 8) as u16).to_be_bytes());
    atomic[IPV6_HEADER + 2..IPV6_HEADER + 4].fill(0);
    let mut fragments = Fragments::default();
    // One of the same identification waits for its others.
    assert_eq!(fragments.take(at(0), &cut(&whole)[0]), Gathered::Kept);
    let expected = Gathered::Complete { packet: whole, pieces: vec![atomic.clone()] };
    assert_eq!(fragments.take(at(0), &atomic), expected);
    assert_eq!(fragments.all.len(), 1);
}

#[test]
fn what_contradicts_itself_or_comes_late_is_dropped() {
    for six in [false, true] {
        let pieces = cut(&packet(six));
        let (last, first) = pieces.split_last().unwrap();
        // At one place two contents.
        let mut fragments = Fragments::default();
        let mut other = pieces[0].clone();
        *other.last_mut().unwrap() ^= 1;
        for piece in [&pieces[0], &other].into_iter().chain(&pieces[1..]) {
            assert_eq!(fragments.take(at(0), piece), Gathered::Kept);
        }
        // Beyond the end, which comes to be known later, and a hole as long before it.
        let mut fragments = Fragments::default();
        let mut beyond = pieces[1].clone();
        let offset = if six { 42 } else { 6 };
        let place = u16::from_be_bytes([beyond[offset], beyond[offset + 1]]) + if six { 8_000 } else { 1_000 };
        beyond[offset..offset + 2].copy_from_slice(&place.to_be_bytes());
        if !six {
            renew(&mut beyond);
        }
        for piece in [&pieces[0], &beyond].into_iter().chain(&pieces[2..]) {
            assert_eq!(fragments.take(at(0), piece), Gathered::Kept);
        }
        let mut fragments = Fragments::default();
        first.iter().for_each(|piece| drop(fragments.take(at(0), piece)));
        assert_eq!(fragments.take(at(31), last), Gathered::Kept, "late");
        assert_eq!(fragments.all.len(), 1);
    }
}

/// However many begin and are never completed, and whatever the octets say.
#[test]
fn there_is_a_most() {
    let piece = cut(&packet(false)).remove(0);
    let mut fragments = Fragments::default();
    for n in 0..10_000_u16 {
        let mut piece = piece.clone();
        piece[4..6].copy_from_slice(&n.to_be_bytes());
        renew(&mut piece);
        assert_eq!(fragments.take(at(0), &piece), Gathered::Kept);
        assert!(fragments.all.len() <= FRAGMENTED_MAX && fragments.order.len() <= FRAGMENTED_MAX);
    }
    for six in [false, true] {
        for piece in cut(&packet(six)) {
            for at_octet in 0..piece.len().min(64) {
                for value in [0, 0x2c, 0x3b, 0xff] {
                    let mut piece = piece.clone();
                    piece[at_octet] = value;
                    let _ = fragments.take(at(0), &piece);
                    let _ = fragments.take(at(0), &piece[..at_octet]);
                }
            }
        }
    }
}
