#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use crate::ip::Ip;
use crate::tcp::TcpPacket;

const PEER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const OWN: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);

/// A packet of 10.9.0.2 to 10.3.0.2 with this class, these fragment bits, this protocol and payload.
fn packet(tos: u8, fragment: [u8; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = ((IPV4_HEADER_LEN + payload.len()) as u16).to_be_bytes();
    let mut packet = vec![0x45, tos, total[0], total[1], 0, 7, fragment[0], fragment[1], 9, protocol, 0, 0];
    packet.extend([10, 9, 0, 2, 10, 3, 0, 2]);
    packet.extend(payload);
    sum_up(&mut packet, IPV4_HEADER_LEN);
    packet
}

fn wrapped(inner: &[u8]) -> Vec<u8> {
    let mut buf = vec![0; 65_536];
    let len = wrap(inner, (PEER, OWN), &mut buf).unwrap();
    buf.truncate(len);
    buf
}

#[test]
fn a_packet_crosses_as_it_is_and_gives_the_outer_one_its_class_and_whether_it_may_be_cut() {
    for (tos, fragment) in [(0xb8, [0x40, 0]), (0x02, [0, 0]), (0, [0x20, 0]), (0, [0, 100])] {
        let inner = packet(tos, fragment, 17, b"payload");
        let mut outer = wrapped(&inner);
        assert_eq!((outer[TOS], outer[FRAGMENT], outer[8], outer[9]), (tos, fragment[0] & 0x40, 64, 4));
        assert_eq!(Ip::parse(&outer).unwrap().payload, inner);
        // A link may pad, and a header may have options.
        outer.extend([0; 9]);
        let opened = open(&mut outer).unwrap();
        assert_eq!((opened.peer, opened.source, opened.target), (PEER, [10, 9, 0, 2].into(), [10, 3, 0, 2].into()));
        assert_eq!(opened.packet, inner);
    }
    let mut buf = [0; 65_536];
    for bad in [vec![], vec![0x45; 19], vec![0x65; 40], vec![0x45; 65_530]] {
        assert!(wrap(&bad, (PEER, OWN), &mut buf).is_err(), "{} octets", bad.len());
    }
}

/// RFC 6040, figure 4: the outer field's values stand for not-ECT, ECT(1), ECT(0), CE.
#[test]
fn what_the_way_said_of_congestion_reaches_the_packet() {
    let lost = None;
    let table = [
        [Some(0), Some(0), Some(0), lost],
        [Some(1), Some(1), Some(1), Some(3)],
        [Some(2), Some(1), Some(2), Some(3)],
        [Some(3); 4],
    ];
    for (own, row) in table.into_iter().enumerate() {
        for (mark, wanted) in row.into_iter().enumerate() {
            let mut outer = wrapped(&packet(0xb8 | own as u8, [0; 2], 6, b"x"));
            outer[TOS] = 0xb8 | mark as u8;
            sum_up(&mut outer, IPV4_HEADER_LEN);
            match (open(&mut outer), wanted) {
                (Err(Refused::Congested), None) => {}
                (Ok(opened), Some(field)) => {
                    assert_eq!(opened.packet[TOS], 0xb8 | field, "{own} in {mark}");
                    assert!(Ip::parse(opened.packet).is_ok(), "the checksum follows");
                }
                (got, _) => panic!("{own} in {mark}: {got:?}"),
            }
        }
    }
}

#[test]
fn what_is_no_packet_or_a_tunnel_again_is_refused() {
    let inner = packet(0, [0; 2], 17, b"payload");
    for len in 0..inner.len() {
        // The outer header says so much, and the inner one more.
        assert_eq!(open(&mut wrapped(&packet(0, [0; 2], 4, &inner[..len]))[20..]), Err(Refused::Malformed), "{len}");
    }
    for nested in [4, 41] {
        assert_eq!(open(&mut wrapped(&packet(0, [0; 2], nested, &inner))), Err(Refused::Nested));
    }
    // Fragments, other protocols, wrong sums and lengths.
    for (at, value) in [(0, 0x55), (0, 0x44), (2, 0xff), (6, 0x20), (7, 1), (9, 17), (11, 0xff), (20, 0x65), (23, 5)] {
        let mut outer = wrapped(&inner);
        outer[at] ^= if at == 0 { outer[0] ^ value } else { value };
        if at < 20 && at != 11 {
            sum_up(&mut outer, IPV4_HEADER_LEN);
        }
        assert_eq!(open(&mut outer), Err(Refused::Malformed), "octet {at}");
    }
}

#[test]
fn what_a_card_merged_is_cut_again_and_summed_up() {
    let data: Vec<u8> = (0..3_000_u32).map(|n| n as u8).collect();
    let mut tcp = vec![0, 80, 4, 0, 0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x50, 0x99, 0x10, 0, 0, 0, 0, 0];
    tcp.extend(&data);
    let mut whole = packet(0, [0x40, 0], 6, &tcp);
    let sum = !ends_sum(&whole, 20);
    whole[36..38].copy_from_slice(&sum.to_be_bytes());
    let mut got = Vec::new();
    let mut flags = Vec::new();
    assert!(unmerge(&mut whole.clone(), |segment| {
        let tcp = TcpPacket::parse(segment).unwrap();
        assert_eq!(tcp.header.seq, 0xffff_ff00_u32.wrapping_add(got.len() as u32));
        assert_eq!(usize::from(segment[5]), 7 + flags.len());
        got.extend(tcp.payload);
        flags.push(segment[33]);
    }));
    assert_eq!((got, flags), (data, vec![0x90, 0x10, 0x19]));
    // With a checksum of its own, right or wrong, it is left alone.
    for wrong in [0x1234_u16, 0] {
        whole[36..38].copy_from_slice(&wrong.to_be_bytes());
        let mut seen = 0;
        assert!(!unmerge(&mut whole.clone(), |segment| seen += usize::from(segment == whole)));
        assert_eq!(seen, 1);
    }
}
