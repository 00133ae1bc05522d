//! ICMP errors about TCP packets (RFC 792, RFC 1191; RFC 4443): what path-MTU discovery needs, and why a server cannot be reached.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ip::{IPV4_HEADER_LEN, Ip, checksum, finish_ip, pseudo_sum, put_ip};
use crate::tcp::PROTOCOL_TCP;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wavelane_base::Ecn;

/// IANA protocol numbers.
pub const PROTOCOL_ICMP: u8 = 1;
/// IANA protocol numbers.
pub const PROTOCOL_ICMPV6: u8 = 58;

/// "Destination unreachable", "fragmentation needed and DF set" (RFC 792).
const V4_TOO_BIG: [u8; 2] = [3, 4];
/// "Packet too big" (RFC 4443, section 3.2).
const V6_TOO_BIG: [u8; 2] = [2, 0];
/// Bytes of an ICMP header with its second word.
const ICMP_HEADER_LEN: usize = 8;
/// Bytes of the offending packet's payload that come back at least (RFC 792).
const QUOTED_LEN: usize = 8;

/// A router's message that a TCP packet was too long for its next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooBig {
    /// Who says so.
    pub router: IpAddr,
    /// What fits, in bytes of IP packet; 0 from routers that do not say (RFC 1191, section 4).
    pub mtu: u32,
    /// Sender of the offending packet.
    pub source: SocketAddr,
    /// Receiver of the offending packet.
    pub target: SocketAddr,
    /// Its sequence number.
    pub seq: u32,
}

impl TooBig {
    /// Reads an IP packet and verifies its checksums.
    pub fn parse(packet: &[u8]) -> Result<Self, DecodeError> {
        let (ip, kind, mut r) = error(packet)?;
        if kind != if ip.protocol == PROTOCOL_ICMP { V4_TOO_BIG } else { V6_TOO_BIG } {
            return Err(DecodeError::Invalid("ICMP type"));
        }
        let word = r.u32()?;
        // IPv4 leaves the upper half of the word unused.
        let mtu = if ip.protocol == PROTOCOL_ICMP { word & 0xffff } else { word };
        let (source, target, seq) = quoted_segment(&mut r)?;
        Ok(Self { router: ip.source, mtu, source, target, seq })
    }

    /// Writes the message about `offending` into `buf`, as a router with address `router` sends it, quoting what RFC 792
    /// asks for; returns its length. `None` if `offending` is no IP packet, is cut short or of the other version.
    pub fn emit(router: IpAddr, mtu: u32, offending: &[u8], buf: &mut [u8]) -> Option<usize> {
        let ip = Ip::parse(offending).ok()?;
        let quoted = offending.len() - ip.payload.len() + QUOTED_LEN.min(ip.payload.len());
        let (kind, protocol) = match router {
            IpAddr::V4(_) => (V4_TOO_BIG, PROTOCOL_ICMP),
            IpAddr::V6(_) => (V6_TOO_BIG, PROTOCOL_ICMPV6),
        };
        let len = (ICMP_HEADER_LEN + quoted) as u16;
        let mut w = Writer::new(buf);
        put_ip(&mut w, router, ip.source, protocol, Ecn::NotEct, len).ok()?;
        w.put(&kind).ok()?;
        w.u16(0).ok()?;
        w.u32(mtu).ok()?;
        w.put(&offending[..quoted]).ok()?;
        let total = w.len();
        let message = finish_ip(&mut buf[..total]);
        let sum = match router {
            IpAddr::V4(_) => checksum(&[message]),
            IpAddr::V6(_) => checksum(&[&pseudo_sum(router, ip.source, PROTOCOL_ICMPV6, len), message]),
        };
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        Some(total)
    }
}

/// Why a router or a host says that a packet cannot be delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undelivered {
    /// The network or the host is not reached.
    Host,
    /// Nobody listens there.
    Port,
    /// It is not allowed.
    Prohibited,
}

/// The message that a TCP packet could not be delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreachable {
    /// Why.
    pub why: Undelivered,
    /// Sender of the packet.
    pub source: SocketAddr,
    /// Receiver of the packet.
    pub target: SocketAddr,
    /// Its sequence number.
    pub seq: u32,
}

impl Unreachable {
    /// Reads an IP packet and verifies its checksums.
    pub fn parse(packet: &[u8]) -> Result<Self, DecodeError> {
        let (ip, [kind, code], mut r) = error(packet)?;
        let v4 = ip.protocol == PROTOCOL_ICMP;
        let why = match (v4, kind, code) {
            // RFC 792; RFC 1122, section 3.2.2.1; RFC 1812, section 5.2.7.1.
            (true, 3, 0 | 1 | 5..=8 | 11 | 12) | (false, 1, 0 | 2 | 3) => Undelivered::Host,
            (true, 3, 2 | 3) | (false, 1, 4) => Undelivered::Port,
            // RFC 4443, section 3.1.
            (true, 3, 9 | 10 | 13..=15) | (false, 1, 1 | 5 | 6) => Undelivered::Prohibited,
            _ => return Err(DecodeError::Invalid("ICMP type")),
        };
        r.u32()?;
        let (source, target, seq) = quoted_segment(&mut r)?;
        Ok(Self { why, source, target, seq })
    }
}

/// An ICMP message's packet, its type and code, and what follows its checksum, which is verified.
fn error(packet: &[u8]) -> Result<(Ip<'_>, [u8; 2], Reader<'_>), DecodeError> {
    let ip = Ip::parse(packet)?;
    let sum = match ip.protocol {
        PROTOCOL_ICMP => checksum(&[ip.payload]),
        PROTOCOL_ICMPV6 => {
            let len = ip.payload.len() as u16;
            checksum(&[&pseudo_sum(ip.source, ip.target, PROTOCOL_ICMPV6, len), ip.payload])
        }
        _ => return Err(DecodeError::Invalid("IP protocol")),
    };
    if sum != 0 {
        return Err(DecodeError::Invalid("ICMP checksum"));
    }
    let mut r = Reader::new(ip.payload);
    let kind = r.array::<2>()?;
    r.u16()?;
    Ok((ip, kind, r))
}

/// Sender, receiver and sequence number of a quoted segment.
fn quoted_segment(r: &mut Reader<'_>) -> Result<(SocketAddr, SocketAddr, u32), DecodeError> {
    let (source, target) = quoted(r)?;
    let (from, to, seq) = (r.u16()?, r.u16()?, r.u32()?);
    Ok((SocketAddr::new(source, from), SocketAddr::new(target, to), seq))
}

/// The addresses of a quoted packet's header, whose own checksum routers may have changed; its payload follows.
fn quoted(r: &mut Reader<'_>) -> Result<(IpAddr, IpAddr), DecodeError> {
    let first = r.u8()?;
    match first >> 4 {
        4 => {
            let options = (usize::from(first & 15) * 4).checked_sub(IPV4_HEADER_LEN);
            let options = options.ok_or(DecodeError::Invalid("IPv4 header length"))?;
            r.take(8)?;
            let protocol = r.u8()?;
            r.take(2)?;
            let (source, target) = (Ipv4Addr::from(r.array::<4>()?), Ipv4Addr::from(r.array::<4>()?));
            r.take(options)?;
            if protocol == PROTOCOL_TCP { Ok((source.into(), target.into())) } else { Err(NOT_TCP) }
        }
        6 => {
            r.take(5)?;
            let protocol = r.u8()?;
            r.take(1)?;
            let (source, target) = (Ipv6Addr::from(r.array::<16>()?), Ipv6Addr::from(r.array::<16>()?));
            if protocol == PROTOCOL_TCP { Ok((source.into(), target.into())) } else { Err(NOT_TCP) }
        }
        _ => Err(DecodeError::Invalid("IP version")),
    }
}

const NOT_TCP: DecodeError = DecodeError::Invalid("quoted IP protocol");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
    use super::*;
    use crate::tcp::{TcpHeader, TcpPacket};

    #[test]
    fn unreachable_says_why_and_about_which_segment() {
        for (v6, router, kinds) in [
            (
                false,
                "198.51.100.1",
                [(3, 1, Undelivered::Host), (3, 3, Undelivered::Port), (3, 13, Undelivered::Prohibited)],
            ),
            (
                true,
                "2001:db8::9",
                [(1, 3, Undelivered::Host), (1, 4, Undelivered::Port), (1, 1, Undelivered::Prohibited)],
            ),
        ] {
            let (packet, router) = (offending(v6), router.parse::<IpAddr>().unwrap());
            let mut buf = [0; 256];
            let len = TooBig::emit(router, 1_280, &packet, &mut buf).unwrap();
            assert!(Unreachable::parse(&buf[..len]).is_err(), "too big is not that");
            let at = len - Ip::parse(&buf[..len]).unwrap().payload.len();
            for (kind, code, why) in kinds {
                buf[at..at + 4].copy_from_slice(&[kind, code, 0, 0]);
                let ip = Ip::parse(&buf[..len]).unwrap();
                let pseudo = pseudo_sum(ip.source, ip.target, PROTOCOL_ICMPV6, (len - at) as u16);
                let sum = if v6 { checksum(&[&pseudo, ip.payload]) } else { checksum(&[ip.payload]) };
                buf[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
                let said = Unreachable::parse(&buf[..len]).unwrap();
                assert_eq!((said.why, said.seq, said.target.port()), (why, 0x0102_0304, 80));
                buf[at + 1] ^= 0x40;
                assert!(Unreachable::parse(&buf[..len]).is_err(), "a wrong sum");
            }
        }
    }

    fn offending(v6: bool) -> Vec<u8> {
        let (a, b) = if v6 { ("[2001:db8::1]:40000", "[2001:db8::2]:80") } else { ("192.0.2.1:40000", "192.0.2.2:80") };
        let header = TcpHeader { seq: 0x0102_0304, ..TcpHeader::default() };
        let payload = &[7; 1_400];
        let packet =
            TcpPacket { source: a.parse().unwrap(), target: b.parse().unwrap(), ecn: Ecn::Ect0, header, payload };
        let mut buf = vec![0; 1_500];
        let len = packet.emit(&mut buf).unwrap();
        assert_eq!(TcpPacket::parse(&buf[..len]), Ok(packet));
        buf.truncate(len);
        buf
    }

    #[test]
    fn too_big_names_connection_and_mtu() {
        for (v6, router) in [(false, "198.51.100.1"), (true, "2001:db8::9")] {
            let packet = offending(v6);
            let mut buf = [0; 256];
            let len = TooBig::emit(router.parse().unwrap(), 1_280, &packet, &mut buf).unwrap();
            let message = TooBig::parse(&buf[..len]).unwrap();
            assert_eq!((message.mtu, message.seq, message.router), (1_280, 0x0102_0304, router.parse().unwrap()));
            assert_eq!((message.source.port(), message.target.port()), (40_000, 80));
            for bit in 0..len * 8 {
                let mut bad = buf;
                bad[bit / 8] ^= 1 << (bit % 8);
                // IPv6 has no sum over its hop count, traffic class and flow label.
                if v6 && (bit < 32 || (56..64).contains(&bit)) {
                    continue;
                }
                let read = TooBig::parse(&bad[..len]);
                // The quoted bytes are covered by the message's own checksum, IPv4's header by its own.
                assert!(read.is_err() || !v6 && bit < 160 && read == Ok(message), "bit {bit}: {read:?}");
            }
            for cut in 0..len {
                assert!(TooBig::parse(&buf[..cut]).is_err(), "cut to {cut}");
            }
        }
    }

    /// Built and summed by an independent program: 192.0.2.254 tells 192.0.2.1 that 1,400 bytes fit.
    #[test]
    fn another_programs_bytes() {
        const MESSAGE: [u8; 56] = [
            0x45, 0x00, 0x00, 0x38, 0x12, 0x34, 0x40, 0x00, 0x40, 0x01, 0xa3, 0x91, 0xc0, 0x00, 0x02, 0xfe, 0xc0, 0x00,
            0x02, 0x01, 0x03, 0x04, 0xbd, 0x55, 0x00, 0x00, 0x05, 0x78, 0x45, 0x00, 0x00, 0x1c, 0x12, 0x34, 0x40, 0x00,
            0x40, 0x06, 0xa4, 0xa4, 0xc0, 0x00, 0x02, 0x01, 0xc0, 0x00, 0x02, 0x02, 0x9c, 0x40, 0x00, 0x50, 0xde, 0xad,
            0xbe, 0xef,
        ];
        let message = TooBig::parse(&MESSAGE).unwrap();
        assert_eq!((message.mtu, message.seq), (1_400, 0xdead_beef));
        assert_eq!(message.source, "192.0.2.1:40000".parse().unwrap());
    }

    #[test]
    fn ordinary_segments_are_no_messages() {
        assert!(TooBig::parse(&offending(false)).is_err());
        assert!(TooBig::parse(&offending(true)).is_err());
    }
}
