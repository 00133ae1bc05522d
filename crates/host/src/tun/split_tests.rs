#![allow(clippy::unwrap_used, reason = "tests")]
use super::super::header::ACK;
use super::super::testing::Shape;
use super::*;
use proptest::prelude::*;

fn shapes() -> impl Strategy<Value = Shape> {
    (any::<bool>(), any::<u16>(), any::<u16>(), any::<bool>(), 0usize..=10).prop_map(
        |(six, port, identification, dont_fragment, option_words)| Shape {
            six,
            port,
            identification,
            dont_fragment,
            option_words,
        },
    )
}

/// Bytes by the thousand, made from a few, because drawing each takes long.
fn payloads(lengths: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    (lengths, any::<u32>())
        .prop_map(|(n, seed)| (0..n as u32).map(|i| ((i ^ seed).wrapping_mul(2_654_435_761) >> 23) as u8).collect())
}

/// What the kernel would hand over: lengths of the whole, the transport's checksum unfinished.
fn super_packet(whole: Vec<u8>, kind: u8, size: usize) -> (VnetHeader, Vec<u8>) {
    let layout = Layout::of(&whole).unwrap();
    let mut packet = whole;
    let at = layout.checksum_at();
    packet[at..at + 2].fill(0xa5);
    let about = VnetHeader {
        flags: NEEDS_CSUM,
        gso_type: kind,
        header_len: 0, // only a hint, and not always a true one
        gso_size: size as u16,
        csum_start: layout.transport as u16,
        csum_offset: (at - layout.transport) as u16,
    };
    (about, packet)
}

fn parts(about: VnetHeader, mut packet: Vec<u8>) -> Vec<Vec<u8>> {
    let (mut out, mut scratch) = (Vec::new(), Vec::new());
    let n = split(about, &mut packet, &mut scratch, &mut |p| out.push(p.to_vec())).unwrap();
    assert_eq!(n, out.len());
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn split_tcp_equals_unmerged_segments(
        shape in shapes(), sequence: u32, fin: bool, push: bool, cwr: bool,
        payload in payloads(1..20_000), size in 200usize..1_448,
    ) {
        let last = ACK | if fin { FIN } else { 0 } | if push { PSH } else { 0 };
        let first = if cwr { CWR } else { 0 };
        let kind = if shape.six { GSO_TCPV6 } else { GSO_TCPV4 } | if cwr { GSO_ECN } else { 0 };
        let (about, packet) = super_packet(shape.tcp(sequence, last | first, &payload), kind, size);
        let count = payload.len().div_ceil(size);
        let expected: Vec<Vec<u8>> = payload.chunks(size).enumerate().map(|(i, part)| {
            let flags = if i + 1 == count { last } else { ACK } | if i == 0 { first } else { 0 };
            shape.nth(i).tcp(sequence.wrapping_add((i * size) as u32), flags, part)
        }).collect();
        prop_assert_eq!(parts(about, packet), expected);
    }

    #[test]
    fn split_udp_equals_unmerged_datagrams(
        shape in shapes(), payload in payloads(1..20_000), size in 1usize..1_472,
    ) {
        let (about, packet) = super_packet(shape.udp(&payload), GSO_UDP_L4, size);
        let expected: Vec<Vec<u8>> =
            payload.chunks(size).enumerate().map(|(i, part)| shape.nth(i).udp(part)).collect();
        prop_assert_eq!(parts(about, packet), expected);
    }

    #[test]
    fn an_unfinished_checksum_is_finished(shape in shapes(), payload in payloads(0..1_400), udp: bool) {
        let whole = if udp { shape.udp(&payload) } else { shape.tcp(7, ACK, &payload) };
        let layout = Layout::of(&whole).unwrap();
        let (about, mut packet) = super_packet(whole.clone(), GSO_NONE, 0);
        let pseudo = fold(layout.pseudo_sum(&packet));
        packet[layout.checksum_at()..][..2].copy_from_slice(&pseudo.to_be_bytes());
        prop_assert_eq!(parts(about, packet), vec![whole]);
    }

    #[test]
    fn nonsense_is_refused_or_passed_and_never_panics(
        about in any::<[u8; 10]>(), mut packet in prop::collection::vec(any::<u8>(), 0..200), version in 0u8..16,
        kind in prop::sample::select(vec![GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, 3, 77]), protocol: bool,
    ) {
        if let Some(first) = packet.first_mut() {
            *first = version << 4 | *first & 15;
        }
        for at in [6, 9] {
            if let Some(byte) = packet.get_mut(at).filter(|_| protocol) {
                *byte = if kind == GSO_UDP_L4 { PROTOCOL_UDP } else { PROTOCOL_TCP };
            }
        }
        let about = VnetHeader { gso_type: kind, ..VnetHeader::parse(&about).unwrap() };
        let most = packet.len();
        let _ = split(about, &mut packet, &mut Vec::new(), &mut |p| assert!(p.len() <= most));
    }
}

#[test]
fn a_header_reads_as_it_was_written() {
    let about = VnetHeader { flags: 1, gso_type: 4, header_len: 60, gso_size: 1_400, csum_start: 40, csum_offset: 16 };
    assert_eq!(VnetHeader::parse(&about.bytes()), Some(about));
    assert_eq!(VnetHeader::parse(&about.bytes()[..9]), None);
}
