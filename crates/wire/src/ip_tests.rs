#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::*;
use proptest::prelude::*;

fn udp(payload: &[u8]) -> Udp4<'_> {
    Udp4 {
        source: "192.0.2.1:4000".parse().unwrap(),
        target: "198.51.100.7:51820".parse().unwrap(),
        ecn: Ecn::Ect0,
        payload,
    }
}

/// RFC 1071, section 3: the worked example, whose sum is ddf2 before the complement.
#[test]
fn rfc_1071_worked_example() {
    assert_eq!(checksum(&[&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
    assert_eq!(checksum(&[&[0x00, 0x01, 0xf2, 0x03], &[0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
    assert_eq!(checksum(&[&[0xab]]), !0xab00, "an odd last byte is padded with zero");
}

/// Bytes written out by hand from RFC 791 and RFC 768; the sums come from an independent program.
#[test]
fn golden_packet() {
    let mut buf = [0; 64];
    let len = udp(b"hi").emit(&mut buf).unwrap();
    let golden = [
        0x45, 0x02, 0x00, 0x1e, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x4e, 0x91, 192, 0, 2, 1, 198, 51, 100, 7, 0x0f,
        0xa0, 0xca, 0x6c, 0x00, 0x0a, 0xd1, 0x27, b'h', b'i',
    ];
    assert_eq!(buf[..len], golden);
    let parsed = Udp4::parse(&golden).unwrap();
    assert_eq!(parsed, udp(b"hi"));
}

#[test]
fn padding_is_ignored_and_a_short_packet_refused() {
    let mut buf = [0xee; 64];
    let len = udp(b"hello").emit(&mut buf).unwrap();
    assert_eq!(Udp4::parse(&buf).unwrap().payload, b"hello");
    assert_eq!(Udp4::parse(&buf[..len - 1]), Err(DecodeError::Truncated));
}

#[test]
fn a_packet_that_does_not_fit_is_refused() {
    assert!(udp(b"hello").emit(&mut [0; 32]).is_err());
    let big = vec![0; 65_535 - 27];
    assert!(udp(&big).emit(&mut vec![0; 70_000]).is_err());
    assert_eq!(udp(&big[1..]).emit(&mut vec![0; 70_000]), Ok(65_535));
}

#[test]
fn fragments_and_foreign_protocols_are_refused() {
    let mut buf = [0; 64];
    let len = udp(b"x").emit(&mut buf).unwrap();
    let with = |at: usize, value: u8| {
        let mut packet = buf[..len].to_vec();
        packet[at] = value;
        packet[10..12].fill(0);
        let sum = checksum(&[&packet[..IPV4_HEADER_LEN]]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        Udp4::parse(&packet).map(|_| ()).unwrap_err()
    };
    assert_eq!(with(6, 0x20), DecodeError::Invalid("IPv4 fragment"));
    assert_eq!(with(7, 0x01), DecodeError::Invalid("IPv4 fragment"));
    assert_eq!(with(9, 6), DecodeError::Invalid("IP protocol"));
    assert_eq!(with(0, 0x65), DecodeError::Invalid("IP version"));
    assert_eq!(with(0, 0x44), DecodeError::Invalid("IPv4 header length"));
}

/// RFC 768: a sender may leave the checksum out.
#[test]
fn a_udp_checksum_of_zero_means_none() {
    let mut buf = [0; 64];
    let len = udp(b"no sum").emit(&mut buf).unwrap();
    buf[26..28].fill(0);
    assert_eq!(Udp4::parse(&buf[..len]).unwrap().payload, b"no sum");
}

proptest! {
    #[test]
    fn packets_round_trip(
        source: u32, target: u32, ports: (u16, u16), ecn in 0u8..4, payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let packet = Udp4 {
            source: SocketAddrV4::new(source.into(), ports.0),
            target: SocketAddrV4::new(target.into(), ports.1),
            ecn: ecn_from_bits(ecn),
            payload: &payload,
        };
        let mut buf = [0; 300];
        let len = packet.emit(&mut buf).unwrap();
        prop_assert_eq!(len, IPV4_HEADER_LEN + UDP_HEADER_LEN + payload.len());
        prop_assert_eq!(Udp4::parse(&buf[..len]), Ok(packet));
    }

    /// Ones' complement sums find every single flipped bit of the bytes they cover. Two kinds are left out: a flip in
    /// the UDP length changes which bytes those are, and one that makes the sum zero says "no checksum".
    #[test]
    fn one_flipped_bit_never_passes_as_the_same_packet(
        payload in prop::collection::vec(any::<u8>(), 0..100), bit: prop::sample::Index,
    ) {
        let mut buf = [0; 200];
        let len = udp(&payload).emit(&mut buf).unwrap();
        let bit = bit.index(len * 8);
        prop_assume!(!(24..26).contains(&(bit / 8)));
        buf[bit / 8] ^= 1 << (bit % 8);
        prop_assume!(buf[26..28] != [0, 0]);
        prop_assert!(Udp4::parse(&buf[..len]).is_err());
    }

    #[test]
    fn any_bytes_parse_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = Udp4::parse(&bytes);
        let mut plausible = bytes;
        if let Some(first) = plausible.first_mut() {
            *first = 0x40 | (*first & 0x0f);
        }
        let _ = Udp4::parse(&plausible);
    }
}
