#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use proptest::prelude::*;

/// 10.0.0.1:1000 to 10.0.0.2:80, seq 7, ack 9, SYN, with MSS, SACK permitted, timestamps and window scale, 3 octets.
pub(in crate::trace) fn ip4() -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 63, 0, 42, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    p.extend(tcp());
    p
}

fn tcp() -> Vec<u8> {
    let mut p = vec![3, 232, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0xA0, 0x12, 0x10, 0, 0, 0, 0, 0];
    p.extend([2, 4, 5, 0xB4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7]);
    p.extend(b"abc");
    p
}

fn ip6(next: u8, before: &[u8]) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, (43 + before.len()) as u8, next, 64];
    p.extend([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    p.extend([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    p.extend(before);
    p.extend(tcp());
    p
}

pub(in crate::trace) fn tcp_of(link: LinkType, frame: &[u8]) -> Segment {
    match read(link, frame, frame.len() as u32) {
        Frame::Tcp(s) => s,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_segment_is_read_with_its_options() {
    let plain = tcp_of(LinkType::Raw, &ip4());
    assert_eq!(plain.from.to_string(), "10.0.0.1:1000");
    assert_eq!((plain.seq, plain.ack, plain.data, plain.captured, plain.window), (7, 9, 3, 3, 4_096));
    assert_eq!((plain.options.mss, plain.options.window_scale), (Some(1_460), Some(7)));
    assert_eq!((plain.options.timestamps, plain.options.sack_permitted), (Some((1, 2)), true));
    assert_eq!((plain.ip_id, plain.length()), (Some(42), 4));
}

#[test]
fn extension_headers_lie_before_tcp() {
    let plain = tcp_of(LinkType::Raw, &ip6(6, &[]));
    assert_eq!(plain.from.to_string(), "[2001::1]:1000");
    let hop_by_hop = [6, 0, 0, 0, 0, 0, 0, 0];
    let routing_then_options = [60, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0];
    let first_fragment = [6, 0, 0, 1, 0, 0, 0, 9];
    for (next, before) in [(0, &hop_by_hop[..]), (43, &routing_then_options), (44, &first_fragment)] {
        let s = tcp_of(LinkType::Raw, &ip6(next, before));
        assert_eq!((s.seq, s.data, s.options), (plain.seq, 3, plain.options));
    }
    let later_fragment = ip6(44, &[6, 0, 1, 0, 0, 0, 0, 9]);
    assert!(matches!(read(LinkType::Raw, &later_fragment, 99), Frame::Other { .. }));
}

#[test]
fn tunnels_inside_ip_are_unread_and_not_silent() {
    for tunnel in [47, 50] {
        let mut outer = ip4();
        outer[9] = tunnel;
        let behind_options = ip6(0, &[tunnel, 0, 0, 0, 0, 0, 0, 0]);
        for packet in [outer, ip6(tunnel, &[]), behind_options] {
            assert_eq!(read(LinkType::Raw, &packet, 99), Frame::Unread(Unread::Protocol), "{tunnel}");
        }
    }
}

/// `outer` has another packet in place of its segment.
fn around(outer: &[u8], protocol: u8, inner: &[u8]) -> Vec<u8> {
    let mut packet = outer.to_vec();
    if outer[0] >> 4 == 4 {
        packet.truncate(20);
        packet[2..4].copy_from_slice(&(20 + inner.len() as u16).to_be_bytes());
        packet[9] = protocol;
    } else {
        packet.truncate(40);
        packet[4..6].copy_from_slice(&(inner.len() as u16).to_be_bytes());
        packet[6] = protocol;
    }
    [packet, inner.to_vec()].concat()
}

#[test]
fn a_packet_within_a_packet_is_read_as_if_nothing_was_around_it() {
    let (four, six) = (ip4(), ip6(6, &[]));
    for (inner, protocol) in [(&four, 4), (&six, 41)] {
        let plain = tcp_of(LinkType::Raw, inner);
        let mut deep = inner.clone();
        for depth in 0..WITHIN_MAX {
            let protocol = if depth == 0 { protocol } else { 4 };
            assert_eq!(tcp_of(LinkType::Raw, &around(&six, protocol, &deep)), plain, "depth {depth}");
            deep = around(&four, protocol, &deep);
            assert_eq!(tcp_of(LinkType::Raw, &deep), plain, "depth {depth}");
            assert_eq!(nested(&deep).last(), Some(&inner[..]));
        }
        // Where it ends it is counted.
        assert_eq!(read(LinkType::Raw, &around(&four, 4, &deep), 999), Frame::Unread(Unread::Protocol));
        // Cut off within the inner header, or of another version than was said.
        let once = around(&four, protocol, inner);
        assert_eq!(read(LinkType::Raw, &once[..39], 999), Frame::Unread(Unread::Damaged));
        assert_eq!(read(LinkType::Raw, &around(&four, 45 - protocol, inner), 999), Frame::Unread(Unread::Damaged));
        // A later fragment of the outer one is of its hosts.
        let mut fragment = once.clone();
        fragment[7] = 9;
        assert!(matches!(read(LinkType::Raw, &fragment, 999), Frame::Other { .. }));
    }
}

#[test]
fn a_cut_off_packet_keeps_its_length() {
    let whole = ip4();
    let s = tcp_of(LinkType::Raw, &whole[..60]);
    assert_eq!((s.data, s.captured), (3, 0));
    // Options beyond the cut are not there; the fixed header must be.
    assert_eq!(tcp_of(LinkType::Raw, &whole[..44]).options.mss, Some(1_460));
    assert!(matches!(read(LinkType::Raw, &whole[..39], 63), Frame::ShortTcp { ip_octets: 63, .. }));
    assert_eq!(read(LinkType::Raw, &whole[..19], 63), Frame::Unread(Unread::Damaged));
    // No length in the header: what a network card has still to cut up.
    let mut large = whole.clone();
    large[2..4].fill(0);
    let Frame::Tcp(s) = read(LinkType::Raw, &large[..60], 70_000) else { panic!("no segment") };
    assert_eq!(s.data, 70_000 - 60);
}

#[test]
fn impossible_headers_are_no_segments() {
    let broken = |at: usize, to: u8| {
        let mut p = ip4();
        p[at] = to;
        read(LinkType::Raw, &p, 63)
    };
    assert_eq!(broken(0, 0x44), Frame::Unread(Unread::Damaged)); // shorter than an IPv4 header can be
    assert!(matches!(broken(32, 0x40), Frame::ShortTcp { .. })); // shorter than a TCP header can be
    assert!(matches!(broken(32, 0xF0), Frame::ShortTcp { .. })); // longer than the packet
    assert!(matches!(broken(9, 17), Frame::Other { .. }));
    assert_eq!(options(&[5, 1, 5, 255, 1]), Options::default());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), octets in any::<u32>()) {
        for number in [0, 1, 9, 51, 101, 104, 105, 108, 113, 127, 219, 276] {
            let _ = read(LinkType::of(number).unwrap(), &bytes, octets);
        }
    }
}
