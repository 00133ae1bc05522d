//! First packets of TCP connections: reading a held SYN, and writing the refusal that answers it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wavelane_wire::ip::checksum;

const IP4_HEADER: usize = 20;
const IP6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const ICMP_HEADER: usize = 8;
/// Most bytes of the SYN that an error quotes. ICMP requires the IP header and 8 bytes (RFC 792), ICMPv6 as much as possible (RFC
/// 4443, section 3.1); stacks look up ports and sequence number.
const QUOTE: usize = IP6_HEADER + TCP_HEADER;
const QUOTE_OF_TCP_IN_4: usize = 8;
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_ICMP6: u8 = 58;
const FLAG_SYN: u8 = 0x02;
const FLAG_RST: u8 = 0x04;
const FLAG_ACK: u8 = 0x10;
/// ICMP destination unreachable (RFC 792).
const UNREACHABLE: u8 = 3;
/// ICMPv6 destination unreachable (RFC 4443, section 3.1).
const UNREACHABLE_6: u8 = 1;
/// Default hop limit of what we write (RFC 1700).
const TTL: u8 = 64;

/// What an ICMP refusal says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// Host unreachable: code 1 (RFC 792); in ICMPv6 address unreachable, code 3 (RFC 4443).
    Host,
    /// Administratively prohibited: code 13 (RFC 1812, section 5.2.7.1); in ICMPv6 code 1.
    Prohibited,
}

/// What answers a refused SYN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A whole packet; IPv4's source, if zero, is filled in by the kernel.
    Packet(Vec<u8>),
    /// An ICMPv6 message, to be sent from an address of ours with the checksum that depends on it.
    Icmp6(Vec<u8>),
}

impl Refusal {
    /// The whole packet to `to`, sent from `own` where it has no source yet. `None` if that is of the other IP version.
    pub fn into_packet(self, own: IpAddr, to: IpAddr) -> Option<Vec<u8>> {
        match (self, own, to) {
            (Self::Packet(mut packet), IpAddr::V4(own), _) => {
                let header = packet.get_mut(..IP4_HEADER)?;
                if header[0] >> 4 == 4 && header[12..16] == [0; 4] {
                    header[12..16].copy_from_slice(&own.octets());
                    header[10..12].fill(0);
                    let sum = checksum(&[header]);
                    header[10..12].copy_from_slice(&sum.to_be_bytes());
                }
                Some(packet)
            }
            (Self::Packet(packet), IpAddr::V6(_), IpAddr::V6(_)) => Some(packet),
            // A reset comes from the server's address, an error has none.
            (Self::Packet(packet), IpAddr::V6(_), IpAddr::V4(_)) => (packet.get(12..16)? != [0; 4]).then_some(packet),
            (Self::Icmp6(mut icmp), IpAddr::V6(own), IpAddr::V6(to)) => {
                let length = u16::try_from(icmp.len()).expect("refusals are under 100 bytes").to_be_bytes();
                // The pseudo-header (RFC 8200, section 8.1).
                let pseudo = [&own.octets()[..], &to.octets(), &[0, 0], &length, &[0, 0, 0, PROTOCOL_ICMP6]].concat();
                let sum = checksum(&[&pseudo, &icmp]);
                icmp[2..4].copy_from_slice(&sum.to_be_bytes());
                Some(packet6(&own.octets(), &to.octets(), PROTOCOL_ICMP6, &icmp))
            }
            (Self::Icmp6(_), ..) => None,
        }
    }
}

/// What we keep of a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Syn {
    /// The client.
    pub source: SocketAddr,
    /// The server.
    pub target: SocketAddr,
    sequence: u32,
    /// The headers without IPv4's options; an IPv4 packet fills only its part.
    quote: [u8; QUOTE],
}

impl Syn {
    /// Reads a packet's first bytes; `None` unless it is a whole TCP header with SYN and without ACK, RST. IPv6 with
    /// extension headers is not read.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::parse4(packet),
            6 => Self::parse6(packet),
            _ => None,
        }
    }
    fn parse4(packet: &[u8]) -> Option<Self> {
        let header = usize::from(*packet.first()? & 15) * 4;
        let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff;
        if header < IP4_HEADER || *packet.get(9)? != PROTOCOL_TCP || fragment != 0 {
            return None;
        }
        let tcp = packet.get(header..header + TCP_HEADER)?;
        let ip = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
        // With IP options the quote is cut to header and ports, which is what stacks look up.
        let mut header = <[u8; IP4_HEADER]>::try_from(&packet[..IP4_HEADER]).ok()?;
        header[0] = 0x45;
        Self::from_parts(ip(12)?.into(), ip(16)?.into(), &header, tcp)
    }
    fn parse6(packet: &[u8]) -> Option<Self> {
        let (header, tcp) = (packet.get(..IP6_HEADER)?, packet.get(IP6_HEADER..IP6_HEADER + TCP_HEADER)?);
        if header[6] != PROTOCOL_TCP {
            return None;
        }
        let ip = |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(header.get(at..at + 16)?).ok()?));
        Self::from_parts(ip(8)?.into(), ip(24)?.into(), header, tcp)
    }
    fn from_parts(source: IpAddr, target: IpAddr, header: &[u8], tcp: &[u8]) -> Option<Self> {
        if tcp[13] & (FLAG_SYN | FLAG_RST | FLAG_ACK) != FLAG_SYN {
            return None;
        }
        let mut quote = [0; QUOTE];
        quote[..header.len()].copy_from_slice(header);
        quote[header.len()..header.len() + TCP_HEADER].copy_from_slice(tcp);
        Some(Self {
            source: SocketAddr::new(source, u16::from_be_bytes([tcp[0], tcp[1]])),
            target: SocketAddr::new(target, u16::from_be_bytes([tcp[2], tcp[3]])),
            sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
            quote,
        })
    }
    /// Whether it may be a retransmission of an earlier one between the same ends.
    pub(crate) fn repeats(&self, earlier: &Self) -> bool {
        self.sequence == earlier.sequence
    }
    /// The reset a closed port would send (RFC 9293, section 3.10.7.1).
    pub fn reset(&self) -> Refusal {
        let mut tcp = [0; TCP_HEADER];
        tcp[..2].copy_from_slice(&self.target.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&self.source.port().to_be_bytes());
        tcp[8..12].copy_from_slice(&self.sequence.wrapping_add(1).to_be_bytes());
        tcp[12] = (TCP_HEADER as u8 / 4) << 4;
        tcp[13] = FLAG_RST | FLAG_ACK;
        // The same sixteen-bit words in both families: addresses, length, protocol (RFC 9293, section 3.1; RFC 8200,
        // section 8.1).
        let mut pseudo = octets(self.target.ip());
        pseudo.extend_from_slice(&octets(self.source.ip()));
        pseudo.extend_from_slice(&[0, PROTOCOL_TCP, 0, TCP_HEADER as u8]);
        let sum = checksum(&[&pseudo, &tcp]);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        Refusal::Packet(match (self.target.ip(), self.source.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => packet4(from, to, PROTOCOL_TCP, &tcp),
            (from, to) => packet6(&octets(from), &octets(to), PROTOCOL_TCP, &tcp),
        })
    }
    /// The ICMP or ICMPv6 error a router would send.
    pub fn unreachable(&self, why: Unreachable) -> Refusal {
        let mut icmp = vec![0; ICMP_HEADER];
        let IpAddr::V4(to) = self.source.ip() else {
            icmp[0] = UNREACHABLE_6;
            icmp[1] = match why {
                Unreachable::Host => 3,
                Unreachable::Prohibited => 1,
            };
            icmp.extend_from_slice(&self.quote);
            return Refusal::Icmp6(icmp);
        };
        icmp[0] = UNREACHABLE;
        icmp[1] = match why {
            Unreachable::Host => 1,
            Unreachable::Prohibited => 13,
        };
        icmp.extend_from_slice(&self.quote[..IP4_HEADER + QUOTE_OF_TCP_IN_4]);
        let sum = checksum(&[&icmp]);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        Refusal::Packet(packet4(Ipv4Addr::UNSPECIFIED, to, PROTOCOL_ICMP, &icmp))
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn packet4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; IP4_HEADER];
    let total = u16::try_from(IP4_HEADER + payload.len()).expect("refusals are under 100 bytes");
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

fn packet6(from: &[u8], to: &[u8], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("refusals are under 100 bytes");
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&length.to_be_bytes());
    packet.extend_from_slice(&[protocol, TTL]);
    packet.extend_from_slice(from);
    packet.extend_from_slice(to);
    packet.extend_from_slice(payload);
    packet
}

#[cfg(test)]
#[path = "syn_tests.rs"]
mod tests;
