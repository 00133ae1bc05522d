//! First packets of TCP connections: reading a held SYN, and writing the refusal that answers it.

use std::net::{Ipv4Addr, SocketAddrV4};
use wavelane_wire::ip::checksum;

/// Bytes of the offending datagram that an ICMP error quotes: the IP header and 8 bytes (RFC 792).
const QUOTE: usize = 28;
const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
const ICMP_HEADER: usize = 8;
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const FLAG_SYN: u8 = 0x02;
const FLAG_RST: u8 = 0x04;
const FLAG_ACK: u8 = 0x10;
/// ICMP destination unreachable (RFC 792).
const UNREACHABLE: u8 = 3;
/// Default hop limit of what we write (RFC 1700).
const TTL: u8 = 64;

/// What an ICMP refusal says (RFC 792; RFC 1812, section 5.2.7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unreachable {
    /// Code 1, host unreachable.
    Host,
    /// Code 13, communication administratively prohibited.
    Prohibited,
}

/// What we keep of a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Syn {
    /// Who wants to connect.
    pub(crate) source: SocketAddrV4,
    /// Where to.
    pub(crate) target: SocketAddrV4,
    sequence: u32,
    quote: [u8; QUOTE],
}

impl Syn {
    /// Reads an IPv4 packet's first bytes; `None` unless it is a whole TCP header with SYN and without ACK, RST.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let first = *packet.first()?;
        let header = usize::from(first & 15) * 4;
        let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff;
        if first >> 4 != 4 || header < IP_HEADER || *packet.get(9)? != PROTOCOL_TCP || fragment != 0 {
            return None;
        }
        let tcp = packet.get(header..header + TCP_HEADER)?;
        if tcp[13] & (FLAG_SYN | FLAG_RST | FLAG_ACK) != FLAG_SYN {
            return None;
        }
        let ip = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
        let mut quote = [0; QUOTE];
        // With IP options the quote is cut to header and ports, which is what stacks look up.
        quote[..IP_HEADER].copy_from_slice(&packet[..IP_HEADER]);
        quote[0] = 0x45;
        quote[IP_HEADER..].copy_from_slice(&tcp[..QUOTE - IP_HEADER]);
        Some(Self {
            source: SocketAddrV4::new(ip(12)?, u16::from_be_bytes([tcp[0], tcp[1]])),
            target: SocketAddrV4::new(ip(16)?, u16::from_be_bytes([tcp[2], tcp[3]])),
            sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
            quote,
        })
    }
    /// The reset a closed port would send (RFC 9293, section 3.10.7.1), as a whole IPv4 packet.
    pub(crate) fn reset(&self) -> Vec<u8> {
        let mut tcp = [0; TCP_HEADER];
        tcp[..2].copy_from_slice(&self.target.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&self.source.port().to_be_bytes());
        tcp[8..12].copy_from_slice(&self.sequence.wrapping_add(1).to_be_bytes());
        tcp[12] = (TCP_HEADER as u8 / 4) << 4;
        tcp[13] = FLAG_RST | FLAG_ACK;
        let mut pseudo = Vec::with_capacity(32);
        pseudo.extend_from_slice(&self.target.ip().octets());
        pseudo.extend_from_slice(&self.source.ip().octets());
        pseudo.extend_from_slice(&[0, PROTOCOL_TCP, 0, TCP_HEADER as u8]);
        pseudo.extend_from_slice(&tcp);
        tcp[16..18].copy_from_slice(&checksum(&[&pseudo]).to_be_bytes());
        ip_packet(*self.target.ip(), *self.source.ip(), PROTOCOL_TCP, &tcp)
    }
    /// The ICMP error a router would send, as a whole IPv4 packet; the kernel fills in our address.
    pub(crate) fn unreachable(&self, why: Unreachable) -> Vec<u8> {
        let mut icmp = vec![0; ICMP_HEADER];
        icmp[0] = UNREACHABLE;
        icmp[1] = match why {
            Unreachable::Host => 1,
            Unreachable::Prohibited => 13,
        };
        icmp.extend_from_slice(&self.quote);
        let sum = checksum(&[&icmp]);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        ip_packet(Ipv4Addr::UNSPECIFIED, *self.source.ip(), PROTOCOL_ICMP, &icmp)
    }
}

fn ip_packet(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; IP_HEADER];
    let total = u16::try_from(IP_HEADER + payload.len()).expect("refusals are under 100 bytes");
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[8] = TTL;
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&from.octets());
    packet[16..20].copy_from_slice(&to.octets());
    let sum = checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn sample() -> Vec<u8> {
        let mut tcp = vec![0; TCP_HEADER];
        tcp[..8].copy_from_slice(&[0x9c, 0x40, 0, 80, 0xff, 0xff, 0xff, 0xff]);
        tcp[12] = 5 << 4;
        tcp[13] = FLAG_SYN;
        ip_packet(Ipv4Addr::new(10, 0, 1, 2), Ipv4Addr::new(10, 0, 3, 4), PROTOCOL_TCP, &tcp)
    }

    #[test]
    fn a_syn_is_read_and_everything_shorter_or_other_is_not() {
        let packet = sample();
        let syn = Syn::parse(&packet).unwrap();
        assert_eq!(syn.source, "10.0.1.2:40000".parse().unwrap());
        assert_eq!(syn.target, "10.0.3.4:80".parse().unwrap());
        for cut in 0..packet.len() {
            assert_eq!(Syn::parse(&packet[..cut]), None);
        }
        for (at, value) in [(0, 0x65), (9, 17), (7, 1), (33, FLAG_SYN | FLAG_ACK)] {
            let mut other = packet.clone();
            other[at] = value;
            assert_eq!(Syn::parse(&other), None, "byte {at}");
        }
    }

    #[test]
    fn the_reset_acknowledges_the_syn_and_its_checksums_hold() {
        let reset = Syn::parse(&sample()).unwrap().reset();
        assert_eq!(checksum(&[&reset[..IP_HEADER]]), 0);
        let tcp = &reset[IP_HEADER..];
        assert_eq!(&tcp[8..12], &[0, 0, 0, 0], "0xffffffff + 1");
        assert_eq!(tcp[13], FLAG_RST | FLAG_ACK);
        let mut pseudo = reset[12..20].to_vec();
        pseudo.extend_from_slice(&[0, PROTOCOL_TCP, 0, 20]);
        pseudo.extend_from_slice(tcp);
        assert_eq!(checksum(&[&pseudo]), 0);
        assert_eq!(&reset[12..16], &[10, 0, 3, 4]);
    }

    #[test]
    fn the_icmp_error_quotes_the_syn() {
        let packet = sample();
        let icmp = Syn::parse(&packet).unwrap().unreachable(Unreachable::Prohibited);
        assert_eq!((icmp[IP_HEADER], icmp[IP_HEADER + 1]), (3, 13));
        assert_eq!(checksum(&[&icmp[IP_HEADER..]]), 0);
        assert_eq!(&icmp[IP_HEADER + ICMP_HEADER..], &packet[..QUOTE]);
    }
}
