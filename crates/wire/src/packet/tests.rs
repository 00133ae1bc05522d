use super::*;
use crate::tcp::{Flags, TcpHeader, TcpPacket};
use proptest::prelude::*;
use wavelane_base::Ecn;

/// An IPv4 packet with a right checksum.
fn v4(source: [u8; 4], target: [u8; 4], protocol: u8, bits: u16, payload: &[u8]) -> Vec<u8> {
    let total = ((20 + payload.len()) as u16).to_be_bytes();
    let [high, low] = bits.to_be_bytes();
    let mut out = vec![0x45, 0, total[0], total[1], 0x12, 0x34, high, low, 64, protocol, 0, 0];
    out.extend(source.iter().chain(&target));
    let sum = checksum(&[&out]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

fn v6(source: &str, target: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16).to_be_bytes();
    let mut out = vec![0x60, 0, 0, 0, high, low, next, 64];
    for address in [source, target] {
        out.extend(address.parse::<Ipv6Addr>().expect("an address").octets());
    }
    out.extend_from_slice(payload);
    out
}

/// What an edit of the kept packet makes of these bytes; what was read of them before still holds.
fn edited(bytes: &mut Vec<u8>, edit: impl FnOnce(&mut IpPacket) -> bool) -> bool {
    let Ok(mut packet) = IpPacket::take(bytes.clone()) else { return false };
    let changed = edit(&mut packet);
    assert_eq!(Ok(packet.view()), Packet::parse(packet.bytes()));
    *bytes = packet.into_bytes();
    changed
}

fn decrement_hops(bytes: &mut Vec<u8>) -> bool {
    edited(bytes, IpPacket::decrement_hops)
}

fn clamp_mss(bytes: &mut Vec<u8>, mtu: usize) -> bool {
    edited(bytes, |packet| packet.clamp_mss(mtu))
}

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 3, 2];
const UDP: [u8; 12] = [0x10, 0, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];

fn syn(mss: u16) -> Vec<u8> {
    let mut header = TcpHeader { flags: Flags::SYN, ..TcpHeader::default() };
    header.options.mss = Some(mss);
    header.options.window_scale = Some(7);
    let packet = TcpPacket {
        source: "10.0.0.1:40000".parse().expect("an address"),
        target: "10.0.3.2:80".parse().expect("an address"),
        ecn: Ecn::NotEct,
        header,
        payload: &[],
    };
    let mut buf = [0; 128];
    let len = packet.emit(&mut buf).expect("fits");
    buf[..len].to_vec()
}

#[test]
fn both_versions_are_read() {
    let bytes = v4(A, B, PROTOCOL_UDP, 0x4000, &UDP);
    let packet = Packet::parse(&bytes).expect("well-formed");
    assert_eq!((packet.source, packet.target), (IpAddr::from(A), IpAddr::from(B)));
    assert_eq!((packet.ports(), packet.fragment.dont, packet.hops), (Some((0x1000, 53)), true, 64));
    assert_eq!(packet.upper(), UDP);

    let bytes = v6("2001:db8::1", "2001:db8::2", PROTOCOL_UDP, &UDP);
    let packet = Packet::parse(&bytes).expect("well-formed");
    assert_eq!((packet.ports(), packet.fragment.dont, packet.protocol), (Some((0x1000, 53)), true, PROTOCOL_UDP));
}

#[test]
fn extension_headers_are_walked_and_fragments_have_no_ports() {
    let mut inside = vec![FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
    inside.extend([PROTOCOL_UDP, 0, 0, 1, 0, 0, 0, 9]);
    inside.extend(UDP);
    let bytes = v6("2001:db8::1", "2001:db8::2", HOP_BY_HOP, &inside);
    let packet = Packet::parse(&bytes).expect("well-formed");
    assert_eq!((packet.protocol, packet.ports()), (PROTOCOL_UDP, None));
    assert_eq!(packet.fragment, Fragment { dont: true, offset: 0, more: true });
    // An extension header that claims to reach past the packet.
    let bytes = v6("2001:db8::1", "2001:db8::2", HOP_BY_HOP, &[PROTOCOL_UDP, 9, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Packet::parse(&bytes), Err(DecodeError::Truncated));
}

#[test]
fn padding_is_cut_and_damage_is_found() {
    let mut bytes = v4(A, B, PROTOCOL_UDP, 0, &UDP);
    bytes.extend([0; 14]);
    assert_eq!(Packet::parse(&bytes).map(|p| p.bytes.len()), Ok(32));
    bytes[8] = 63;
    assert_eq!(Packet::parse(&bytes), Err(DecodeError::Invalid("IPv4 header checksum")));
    assert_eq!(Packet::parse(&[0x50; 40]), Err(DecodeError::Invalid("IP version")));
    assert_eq!(Packet::parse(&[]), Err(DecodeError::Truncated));
}

#[test]
fn hops_and_marks_keep_the_checksum_right() {
    for ecn in 0..4u8 {
        let mut bytes = v4(A, B, PROTOCOL_UDP, 0, &UDP);
        bytes[1] |= ecn;
        bytes[10..12].fill(0);
        let sum = checksum(&[&bytes[..20]]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        assert!(decrement_hops(&mut bytes));
        assert_eq!(mark_congestion(&mut bytes), ecn != 0);
        let packet = Packet::parse(&bytes).expect("still well-formed");
        assert_eq!((packet.hops, packet.ecn == Ecn::Ce), (63, ecn != 0));
    }
    let mut bytes = v6("2001:db8::1", "2001:db8::2", PROTOCOL_UDP, &UDP);
    bytes[1] |= 0x20;
    assert!(mark_congestion(&mut bytes) && decrement_hops(&mut bytes));
    let packet = Packet::parse(&bytes).expect("well-formed");
    assert_eq!((packet.ecn, packet.hops), (Ecn::Ce, 63));
    bytes[7] = 1;
    assert!(!decrement_hops(&mut bytes));
}

#[test]
fn a_syn_announces_no_more_than_the_mtu_holds_and_stays_valid() {
    for (mss, mtu, want) in [(1460, 1400, 1360), (1200, 1400, 1200), (1460, 1500, 1460)] {
        let mut bytes = syn(mss);
        assert_eq!(clamp_mss(&mut bytes, mtu), want != mss);
        let parsed = TcpPacket::parse(&bytes).expect("its checksum is right");
        assert_eq!(parsed.header.options.mss, Some(want));
    }
    // The option at an odd offset: a NOP goes before it, and the option behind it loses its own.
    let mut odd = syn(1460);
    assert_eq!(odd[40..44], [2, 4, 0x05, 0xb4]);
    odd[40..45].copy_from_slice(&[1, 2, 4, 0x05, 0xb4]);
    odd[45..48].copy_from_slice(&[1, 1, 1]);
    let tcp_len = (odd.len() - 20) as u16;
    odd[36..38].fill(0);
    let pseudo = crate::ip::pseudo_header(A.into(), B.into(), PROTOCOL_TCP, tcp_len);
    let sum = checksum(&[&pseudo, &odd[20..]]);
    odd[36..38].copy_from_slice(&sum.to_be_bytes());
    assert!(clamp_mss(&mut odd, 1400));
    assert_eq!(TcpPacket::parse(&odd).expect("its checksum is right").header.options.mss, Some(1360));
}

#[test]
fn an_ipv4_packet_is_fragmented_and_its_pieces_again() {
    let payload: Vec<u8> = (0..2000u32).map(|i| i as u8).collect();
    let whole = v4(A, B, PROTOCOL_UDP, 0, &payload);
    let mut rebuilt = vec![0; payload.len()];
    let mut ends = 0;
    for first in fragments_v4(&Packet::parse(&whole).expect("well-formed"), 1400).expect("may be fragmented") {
        let view = Packet::parse(&first).expect("well-formed");
        for piece in fragments_v4(&view, 600).expect("a piece may be fragmented") {
            assert!(piece.len() <= 600);
            let view = Packet::parse(&piece).expect("well-formed");
            rebuilt[view.fragment.offset..][..view.upper().len()].copy_from_slice(view.upper());
            ends += usize::from(!view.fragment.more);
        }
    }
    assert_eq!((rebuilt, ends), (payload, 1));
    let whole = v4(A, B, PROTOCOL_UDP, 0x4000, &[0; 2000]);
    assert_eq!(fragments_v4(&Packet::parse(&whole).expect("well-formed"), 1400), None);
}

#[test]
fn errors_quote_the_packet_and_name_the_mtu() {
    let bytes = v4(A, B, PROTOCOL_UDP, 0x4000, &[7; 1480]);
    let packet = Packet::parse(&bytes).expect("well-formed");
    assert!(may_answer(&packet));
    let error = answer(IcmpError::TooBig(1400), &packet, IpAddr::from([10, 0, 0, 254])).expect("the same version");
    let view = Packet::parse(&error).expect("well-formed");
    assert_eq!((view.bytes.len(), view.target, view.protocol), (ICMP_V4_LEN_MAX, IpAddr::from(A), PROTOCOL_ICMP));
    assert_eq!(checksum(&[view.upper()]), 0);
    assert_eq!(view.upper()[..8], [3, 4, view.upper()[2], view.upper()[3], 0, 0, 0x05, 0x78]);
    assert_eq!(view.upper()[8..], bytes[..548]);
    // Never about an error.
    assert!(!may_answer(&view));

    let bytes = v6("2001:db8::1", "2001:db8::2", PROTOCOL_UDP, &[7; 1480]);
    let packet = Packet::parse(&bytes).expect("well-formed");
    let from = "2001:db8::fe".parse().expect("an address");
    let error = answer(IcmpError::TimeExceeded, &packet, from).expect("the same version");
    let view = Packet::parse(&error).expect("well-formed");
    let len = ((error.len() - 40) as u32).to_be_bytes();
    assert_eq!(error.len(), ICMP_V6_LEN_MAX);
    assert_eq!(checksum(&[&error[8..40], &len, &[0, 0, 0, PROTOCOL_ICMP6], view.upper()]), 0);
    assert_eq!(view.upper()[..2], [3, 0]);
    assert!(!may_answer(&view));
    assert_eq!(answer(IcmpError::NoRoute, &packet, IpAddr::from(A)), None);
}

#[test]
fn errors_are_never_sent_to_many_or_about_later_fragments() {
    let refused = [
        v4([224, 0, 0, 1], B, PROTOCOL_UDP, 0, &UDP),
        v4([255, 255, 255, 255], B, PROTOCOL_UDP, 0, &UDP),
        v4([127, 0, 0, 1], B, PROTOCOL_UDP, 0, &UDP),
        v4(A, [224, 0, 0, 5], PROTOCOL_UDP, 0, &UDP),
        v4(A, B, PROTOCOL_UDP, 10, &UDP),
        v4(A, B, PROTOCOL_ICMP, 0, &[]),
        v6("::", "2001:db8::2", PROTOCOL_UDP, &UDP),
        v6("2001:db8::1", "ff02::1", PROTOCOL_UDP, &UDP),
        v6("2001:db8::1", "2001:db8::2", PROTOCOL_ICMP6, &[137, 0, 0, 0]),
    ];
    for bytes in refused {
        assert!(!may_answer(&Packet::parse(&bytes).expect("well-formed")), "{bytes:?}");
    }
    // An echo request is no error.
    assert!(may_answer(&Packet::parse(&v4(A, B, PROTOCOL_ICMP, 0, &[8, 0, 0, 0, 0, 0, 0, 0])).expect("well-formed")));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 4u8..7) {
        if let Some(first) = bytes.first_mut() {
            *first = version << 4 | *first & 0x0f;
        }
        if bytes.len() >= 20 && version == 4 {
            let header = (usize::from(bytes[0] & 0x0f) * 4).clamp(20, bytes.len() / 4 * 4);
            bytes[10..12].fill(0);
            let total = (bytes.len() as u16).to_be_bytes();
            bytes[2..4].copy_from_slice(&total);
            let sum = checksum(&[&bytes[..header]]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let _ = clamp_mss(&mut bytes, 1280);
        if let Ok(packet) = Packet::parse(&bytes) {
            let _ = (packet.ports(), packet.segment(), packet.has_routable_addresses(), fragments_v4(&packet, 68));
            for from in [IpAddr::from([192, 0, 2, 1]), IpAddr::from([0u8; 16])] {
                if let Some(error) = answer(IcmpError::NoRoute, &packet, from).filter(|_| may_answer(&packet)) {
                    prop_assert!(Packet::parse(&error).is_ok_and(|error| !may_answer(&error)));
                }
            }
        }
    }
}
