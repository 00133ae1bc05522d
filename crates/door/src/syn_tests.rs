#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

fn tcp() -> Vec<u8> {
    let mut tcp = vec![0; TCP_HEADER];
    tcp[..8].copy_from_slice(&[0x9c, 0x40, 0, 80, 0xff, 0xff, 0xff, 0xff]);
    tcp[12] = 5 << 4;
    tcp[13] = FLAG_SYN;
    tcp
}

fn sample4() -> Vec<u8> {
    packet4(Ipv4Addr::new(10, 0, 1, 2), Ipv4Addr::new(10, 0, 3, 4), PROTOCOL_TCP, &tcp())
}

fn sample6() -> Vec<u8> {
    let ip = |text: &str| octets(text.parse().unwrap());
    packet6(&ip("fd00:1::2"), &ip("fd00:3::4"), PROTOCOL_TCP, &tcp())
}

#[test]
fn a_syn_is_read_and_everything_shorter_or_other_is_not() {
    let ends = [("10.0.1.2:40000", "10.0.3.4:80"), ("[fd00:1::2]:40000", "[fd00:3::4]:80")];
    // Version, protocol, fragment offset (IPv4), flags.
    let wrong4 = [(0, 0x65), (9, 17), (7, 1), (33, FLAG_SYN | FLAG_ACK)];
    let wrong6 = [(0, 0x45), (6, 17), (6, 44), (53, FLAG_SYN | FLAG_ACK)];
    for ((packet, (source, target)), wrong) in [sample4(), sample6()].into_iter().zip(ends).zip([wrong4, wrong6]) {
        let syn = Syn::parse(&packet).unwrap();
        assert_eq!((syn.source, syn.target), (source.parse().unwrap(), target.parse().unwrap()));
        for cut in 0..packet.len() {
            assert_eq!(Syn::parse(&packet[..cut]), None);
        }
        for (at, value) in wrong {
            let mut other = packet.clone();
            other[at] = value;
            assert_eq!(Syn::parse(&other), None, "byte {at}");
        }
    }
}

#[test]
fn the_reset_acknowledges_the_syn_and_its_checksums_hold() {
    for (packet, header) in [(sample4(), IP4_HEADER), (sample6(), IP6_HEADER)] {
        let Refusal::Packet(reset) = Syn::parse(&packet).unwrap().reset() else { panic!("not a packet") };
        let tcp = &reset[header..];
        assert_eq!(tcp.len(), TCP_HEADER);
        assert_eq!(&tcp[8..12], &[0, 0, 0, 0], "0xffffffff + 1");
        assert_eq!(tcp[13], FLAG_RST | FLAG_ACK);
        let addresses = if header == IP4_HEADER { &reset[12..20] } else { &reset[8..40] };
        let mut pseudo = addresses.to_vec();
        pseudo.extend_from_slice(&[0, PROTOCOL_TCP, 0, 20]);
        pseudo.extend_from_slice(tcp);
        assert_eq!(checksum(&[&pseudo]), 0);
        // From the target to the source.
        let (half, theirs) = (addresses.len() / 2, if header == IP4_HEADER { &packet[12..20] } else { &packet[8..40] });
        assert_eq!((&addresses[..half], &addresses[half..]), (&theirs[half..], &theirs[..half]));
        if header == IP4_HEADER {
            assert_eq!(checksum(&[&reset[..header]]), 0);
        }
    }
}

#[test]
fn the_error_quotes_the_syn() {
    let packet = sample4();
    let Refusal::Packet(icmp) = Syn::parse(&packet).unwrap().unreachable(Unreachable::Prohibited) else {
        panic!("not a packet")
    };
    assert_eq!((icmp[IP4_HEADER], icmp[IP4_HEADER + 1]), (3, 13));
    assert_eq!(checksum(&[&icmp[IP4_HEADER..]]), 0);
    assert_eq!(&icmp[IP4_HEADER + ICMP_HEADER..], &packet[..28]);
    let packet = sample6();
    let Refusal::Icmp6(icmp) = Syn::parse(&packet).unwrap().unreachable(Unreachable::Host) else { panic!("a packet") };
    assert_eq!((icmp[0], icmp[1]), (1, 3));
    assert_eq!(&icmp[ICMP_HEADER..], &packet[..]);
}
