#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::*;
use proptest::prelude::*;

fn segment(header: TcpHeader, ecn: Ecn, payload: &[u8]) -> TcpPacket<'_> {
    let (source, target) = ("192.0.2.1:40000".parse().unwrap(), "198.51.100.7:80".parse().unwrap());
    TcpPacket { source, target, ecn, header, payload }
}

/// The bytes of a Linux SYN, built and summed by an independent program.
const SYN: [u8; 60] = [
    0x45, 0x00, 0x00, 0x3c, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, 0x4e, 0x80, 0xc0, 0x00, 0x02, 0x01, 0xc6, 0x33, 0x64,
    0x07, 0x9c, 0x40, 0x00, 0x50, 0x01, 0x02, 0x03, 0x04, 0x00, 0x00, 0x00, 0x00, 0xa0, 0x02, 0xfa, 0xf0, 0xc0, 0x35,
    0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x01,
    0x03, 0x03, 0x07,
];
/// Three bytes of data across the wrap of the sequence number, with timestamps and two SACK blocks.
const DATA: [u8; 75] = [
    0x45, 0x02, 0x00, 0x4b, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, 0x4e, 0x6f, 0xc0, 0x00, 0x02, 0x01, 0xc6, 0x33, 0x64,
    0x07, 0x9c, 0x40, 0x00, 0x50, 0xff, 0xff, 0xff, 0xfe, 0x0a, 0x0b, 0x0c, 0x0d, 0xd0, 0x18, 0x01, 0xf5, 0xb6, 0x5e,
    0x00, 0x00, 0x01, 0x01, 0x08, 0x0a, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x09, 0x01, 0x01, 0x05, 0x12, 0x00,
    0x00, 0x00, 0x64, 0x00, 0x00, 0x00, 0xc8, 0x00, 0x00, 0x01, 0x2c, 0x00, 0x00, 0x01, 0x90, 0x61, 0x62, 0x63,
];

fn syn() -> TcpHeader {
    let timestamps = Some(Timestamps { value: 7, echo: 0 });
    let options =
        Options { mss: Some(1460), window_scale: Some(7), sack_permitted: true, timestamps, ..Options::default() };
    TcpHeader { seq: 0x0102_0304, flags: Flags::SYN, window: 64_240, options, ..TcpHeader::default() }
}

fn data() -> TcpHeader {
    let mut sack = SackBlocks::default();
    assert!(sack.push(100, 200) && sack.push(300, 400));
    let options = Options { timestamps: Some(Timestamps { value: 256, echo: 9 }), sack, ..Options::default() };
    let flags = Flags::PSH.with(Flags::ACK);
    TcpHeader { seq: u32::MAX - 1, ack: 0x0a0b_0c0d, flags, window: 501, urgent: 0, options }
}

#[test]
fn golden_segments() {
    let mut buf = [0; 128];
    let len = segment(syn(), Ecn::NotEct, b"").emit(&mut buf).unwrap();
    assert_eq!(buf[..len], SYN);
    assert_eq!(TcpPacket::parse(&SYN), Ok(segment(syn(), Ecn::NotEct, b"")));
    let len = segment(data(), Ecn::Ect0, b"abc").emit(&mut buf).unwrap();
    assert_eq!(buf[..len], DATA);
    assert_eq!(TcpPacket::parse(&DATA), Ok(segment(data(), Ecn::Ect0, b"abc")));
}

#[test]
fn a_payload_in_two_pieces_makes_the_same_packet() {
    let (mut whole, mut pieces) = ([0; 128], [0; 128]);
    let packet = segment(data(), Ecn::Ect0, b"abc");
    let len = packet.emit(&mut whole).unwrap();
    let again = emit(packet.source, packet.target, packet.ecn, &packet.header, [b"a", b"bc"], &mut pieces);
    assert_eq!(again, Ok(len));
    assert_eq!(whole, pieces);
}

#[test]
fn a_damaged_segment_is_refused_wherever_the_damage_is() {
    for bit in 0..DATA.len() * 8 {
        let mut damaged = DATA;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(TcpPacket::parse(&damaged).is_err(), "bit {bit}");
    }
}

/// RFC 9293, section 3.1, MUST-7: illegal option lengths, zero above all, do no harm.
#[test]
fn malformed_options_end_the_list_and_unknown_ones_are_skipped() {
    let mss = |bytes: &[u8]| Options::parse(bytes).mss;
    assert_eq!(mss(&[253, 4, 9, 9, 2, 4, 5, 0xb4]), Some(1460), "an unknown kind is skipped");
    assert_eq!(mss(&[253, 0, 2, 4, 5, 0xb4]), None, "length 0");
    assert_eq!(mss(&[253, 1, 2, 4, 5, 0xb4]), None, "length 1");
    assert_eq!(mss(&[253, 9, 2, 4, 5, 0xb4]), None, "past the end");
    assert_eq!(mss(&[0, 2, 4, 5, 0xb4]), None, "behind the end");
    assert_eq!(mss(&[2, 3, 5, 2, 4, 5, 0xb4]), Some(1460), "a wrong length is skipped");
    assert_eq!(Options::parse(&[3, 3, 200]).window_scale, Some(14), "RFC 7323, section 2.3");
}

#[test]
fn four_sack_blocks_beside_timestamps_do_not_fit() {
    let mut header = data();
    header.options.sack.push(500, 600);
    assert!(segment(header, Ecn::NotEct, b"").emit(&mut [0; 128]).is_ok(), "three do");
    header.options.sack.push(700, 800);
    assert!(segment(header, Ecn::NotEct, b"").emit(&mut [0; 128]).is_err());
}

fn any_options() -> impl Strategy<Value = Options> {
    let blocks = proptest::collection::vec(any::<(u32, u32)>(), 0..=2);
    (any::<Option<u16>>(), proptest::option::of(0u8..=14), any::<bool>(), any::<Option<(u32, u32)>>(), blocks).prop_map(
        |(mss, window_scale, sack_permitted, stamps, blocks)| {
            let mut sack = SackBlocks::default();
            // Together they must stay within 40 bytes.
            for (left, right) in blocks.into_iter().take(if stamps.is_some() { 1 } else { 2 }) {
                sack.push(left, right);
            }
            let timestamps = stamps.map(|(value, echo)| Timestamps { value, echo });
            Options { mss, window_scale, sack_permitted, timestamps, sack }
        },
    )
}

proptest! {
    #[test]
    fn segments_round_trip(
        (seq, ack, window, urgent) in any::<(u32, u32, u16, u16)>(), flags in any::<u8>(), options in any_options(),
        payload in proptest::collection::vec(any::<u8>(), 0..1_500),
    ) {
        let header = TcpHeader { seq, ack, flags: Flags(flags), window, urgent, options };
        let packet = segment(header, Ecn::Ce, &payload);
        let mut buf = vec![0; 2_000];
        let len = packet.emit(&mut buf).unwrap();
        prop_assert_eq!(len, 40 + options.len() + payload.len());
        prop_assert_eq!(TcpPacket::parse(&buf[..len]), Ok(packet));
        prop_assert!(packet.emit(&mut vec![0; len - 1]).is_err(), "no room is said, not panicked");
    }

    /// Arbitrary bytes with right checksums reach every branch behind them; nothing may panic.
    #[test]
    fn any_bytes_parse_or_are_refused(
        mut bytes in proptest::collection::vec(any::<u8>(), 20..120), words in 0u8..16,
    ) {
        bytes[12] = words << 4;
        bytes[16..18].fill(0);
        let mut packet = vec![0; 20];
        packet.extend_from_slice(&bytes);
        let mut w = Writer::new(&mut packet);
        let host = "192.0.2.1".parse().unwrap();
        put_ip(&mut w, host, host, PROTOCOL_TCP, Ecn::NotEct, bytes.len() as u16).unwrap();
        let sum = checksum(&[&pseudo_sum(host, host, PROTOCOL_TCP, bytes.len() as u16), &bytes]);
        let segment = finish_ip(&mut packet);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        match TcpPacket::parse(&packet) {
            Ok(parsed) => {
                prop_assert!(usize::from(words) * 4 >= TCP_HEADER_LEN);
                prop_assert_eq!(parsed.payload.len(), bytes.len() - usize::from(words) * 4);
            }
            Err(_) => prop_assert!(usize::from(words) * 4 < TCP_HEADER_LEN || usize::from(words) * 4 > bytes.len()),
        }
        let _ = TcpPacket::parse(&bytes);
    }
}
