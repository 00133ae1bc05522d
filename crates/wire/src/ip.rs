//! IPv4, IPv6 and UDP headers with their checksums (RFC 791, RFC 8200, RFC 768, RFC 1071): what surrounds a datagram
//! of a UDP lane or a TCP segment.
//!
//! Packets built here are never fragmented: they carry "don't fragment" and identification zero, as RFC 6864
//! (section 4.1) allows for atomic datagrams, so that path-MTU search sees the path as it is.

use crate::codec::{DecodeError, NoRoom, Reader, Writer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};
use wavelane_base::Ecn;

/// Bytes of an IPv4 header without options.
pub const IPV4_HEADER_LEN: usize = 20;
/// Bytes of an IPv6 header without extensions.
pub const IPV6_HEADER_LEN: usize = 40;
/// Bytes of a UDP header.
pub const UDP_HEADER_LEN: usize = 8;
/// The protocol number of UDP (IANA protocol numbers).
pub const PROTOCOL_UDP: u8 = 17;
/// Hop limit of packets built here (RFC 1700's recommended default).
pub const DEFAULT_TTL: u8 = 64;

const VERSION_AND_LEN: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
/// "More fragments" and the fragment offset: any bit set means a fragment.
const FRAGMENT_BITS: u16 = 0x3fff;

/// A parsed IPv4 header and what follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4<'a> {
    /// Sender.
    pub source: Ipv4Addr,
    /// Receiver.
    pub target: Ipv4Addr,
    /// The ECN field.
    pub ecn: Ecn,
    /// Remaining hops.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: u8,
    /// The payload, without padding that a link added behind the packet.
    pub payload: &'a [u8],
}

/// A parsed header of either version and what follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ip<'a> {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub target: IpAddr,
    /// The ECN field.
    pub ecn: Ecn,
    /// What the payload is.
    pub protocol: u8,
    /// The payload, without padding that a link added behind the packet.
    pub payload: &'a [u8],
}

/// IPv6 extension headers that may stand before a whole payload: hop-by-hop, routing, destination options (RFC 8200,
/// section 4). A fragment header is refused, as IPv4's fragments are.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
/// Most extension headers; more are refused.
const EXTENSIONS_MAX: usize = 8;

impl<'a> Ip<'a> {
    /// Reads a packet of either version; see [`Ipv4::parse`]. IPv6 extension headers are skipped.
    pub fn parse(packet: &'a [u8]) -> Result<Self, DecodeError> {
        if packet.first().is_some_and(|first| first >> 4 == 6) {
            return Self::parse_v6(packet);
        }
        let Ipv4 { source, target, ecn, protocol, payload, .. } = Ipv4::parse(packet)?;
        Ok(Self { source: source.into(), target: target.into(), ecn, protocol, payload })
    }

    fn parse_v6(packet: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(packet);
        let (first, _flow) = (r.u16()?, r.u16()?);
        let (len, mut protocol, _hops) = (usize::from(r.u16()?), r.u8()?, r.u8()?);
        let (source, target) = (Ipv6Addr::from(r.array::<16>()?), Ipv6Addr::from(r.array::<16>()?));
        let mut payload = r.take(len)?;
        for _ in 0..EXTENSIONS_MAX {
            if !EXTENSIONS.contains(&protocol) {
                break;
            }
            let mut extension = Reader::new(payload);
            protocol = extension.u8()?;
            // Counted in 8 bytes, without the first 8.
            let rest = usize::from(extension.u8()?) * 8 + 6;
            extension.take(rest)?;
            payload = extension.take_rest();
        }
        let ecn = ecn_from_bits((first >> 4) as u8);
        Ok(Self { source: source.into(), target: target.into(), ecn, protocol, payload })
    }
}

/// A parsed IPv4 packet that holds a whole UDP datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Udp4<'a> {
    /// Sender.
    pub source: SocketAddrV4,
    /// Receiver.
    pub target: SocketAddrV4,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The datagram's bytes.
    pub payload: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Reads a packet and verifies its header checksum. Options are skipped; fragments are refused.
    pub fn parse(packet: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(packet);
        let first = r.u8()?;
        if first >> 4 != 4 {
            return Err(DecodeError::Invalid("IP version"));
        }
        let header_len = usize::from(first & 0x0f) * 4;
        if header_len < IPV4_HEADER_LEN {
            return Err(DecodeError::Invalid("IPv4 header length"));
        }
        let (ecn, total) = (ecn_from_bits(r.u8()?), usize::from(r.u16()?));
        let (_identification, fragment) = (r.u16()?, r.u16()?);
        let (ttl, protocol, _checksum) = (r.u8()?, r.u8()?, r.u16()?);
        let (source, target) = (Ipv4Addr::from(r.array::<4>()?), Ipv4Addr::from(r.array::<4>()?));
        if total < header_len {
            return Err(DecodeError::Invalid("IPv4 total length"));
        }
        let whole = packet.get(..total).ok_or(DecodeError::Truncated)?;
        let (header, payload) = whole.split_at(header_len);
        if checksum(&[header]) != 0 {
            return Err(DecodeError::Invalid("IPv4 header checksum"));
        }
        if fragment & FRAGMENT_BITS != 0 {
            return Err(DecodeError::Invalid("IPv4 fragment"));
        }
        Ok(Self { source, target, ecn, ttl, protocol, payload })
    }
}

impl<'a> Udp4<'a> {
    /// Reads an IPv4 packet with a UDP datagram and verifies both checksums. A UDP checksum of zero means that the
    /// sender computed none (RFC 768).
    pub fn parse(packet: &'a [u8]) -> Result<Self, DecodeError> {
        let ip = Ipv4::parse(packet)?;
        if ip.protocol != PROTOCOL_UDP {
            return Err(DecodeError::Invalid("IP protocol"));
        }
        let mut r = Reader::new(ip.payload);
        let (source, target) = (r.u16()?, r.u16()?);
        let (len, sum) = (usize::from(r.u16()?), r.u16()?);
        if len < UDP_HEADER_LEN {
            return Err(DecodeError::Invalid("UDP length"));
        }
        let datagram = ip.payload.get(..len).ok_or(DecodeError::Truncated)?;
        if sum != 0 && checksum(&[&pseudo_header(ip.source, ip.target, PROTOCOL_UDP, len as u16), datagram]) != 0 {
            return Err(DecodeError::Invalid("UDP checksum"));
        }
        Ok(Self {
            source: SocketAddrV4::new(ip.source, source),
            target: SocketAddrV4::new(ip.target, target),
            ecn: ip.ecn,
            payload: &datagram[UDP_HEADER_LEN..],
        })
    }

    /// Writes the packet with both checksums into `buf` and returns its length.
    ///
    /// # Errors
    /// [`NoRoom`] if the packet does not fit `buf` or the 65,535 bytes of an IPv4 packet; `buf` is then undefined.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, NoRoom> {
        let udp_len = u16::try_from(UDP_HEADER_LEN + self.payload.len()).map_err(|_| NoRoom)?;
        let total = udp_len.checked_add(IPV4_HEADER_LEN as u16).ok_or(NoRoom)?;
        let (source, target) = (*self.source.ip(), *self.target.ip());
        let mut w = Writer::new(buf);
        put_header(&mut w, source, target, PROTOCOL_UDP, self.ecn, total)?;
        w.u16(self.source.port())?;
        w.u16(self.target.port())?;
        w.u16(udp_len)?;
        w.u16(0)?;
        w.put(self.payload)?;
        let len = w.len();
        let datagram = finish_header(&mut buf[..len]);
        // Zero would mean "no checksum"; its other representation in ones' complement says the same sum (RFC 768).
        let udp_sum = match checksum(&[&pseudo_header(source, target, PROTOCOL_UDP, udp_len), datagram]) {
            0 => u16::MAX,
            sum => sum,
        };
        datagram[6..8].copy_from_slice(&udp_sum.to_be_bytes());
        Ok(len)
    }
}

/// The Internet checksum (RFC 1071) of the concatenated `parts`; every part but the last must have even length.
/// Over data that includes its own correct checksum, the result is zero.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    // Four octets at a time: 2^16 is 1 modulo 0xffff, so wide sums fold into the same result. The sum does not depend on the
    // order of octets in words (RFC 1071, section 2, B), so the machine's own is taken.
    let mut sum = 0u64;
    for part in parts {
        let (words, rest) = part.as_chunks::<4>();
        sum += words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum::<u64>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        sum += u64::from(u32::from_ne_bytes(last));
    }
    !u16::from_be(fold(sum))
}

/// The ones' complement sum of a sum's 16-bit words.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Writes an IPv4 header without options and with a checksum of zero; [`finish_header`] fills that in.
pub(crate) fn put_header(
    w: &mut Writer<'_>,
    source: Ipv4Addr,
    target: Ipv4Addr,
    protocol: u8,
    ecn: Ecn,
    total: u16,
) -> Result<(), NoRoom> {
    w.put(&[VERSION_AND_LEN, ecn_bits(ecn)])?;
    w.u16(total)?;
    w.u16(0)?;
    w.u16(DONT_FRAGMENT)?;
    w.put(&[DEFAULT_TTL, protocol])?;
    w.u16(0)?;
    w.put(&source.octets())?;
    w.put(&target.octets())
}

/// Fills in the header checksum of a whole packet and returns what follows the header.
pub(crate) fn finish_header(packet: &mut [u8]) -> &mut [u8] {
    let (header, payload) = packet.split_at_mut(IPV4_HEADER_LEN);
    let sum = checksum(&[header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    payload
}

/// The pseudo-header of a UDP or TCP checksum (RFC 768; RFC 9293, section 3.1).
pub(crate) fn pseudo_header(source: Ipv4Addr, target: Ipv4Addr, protocol: u8, len: u16) -> [u8; 12] {
    let mut out = [0; 12];
    out[..4].copy_from_slice(&source.octets());
    out[4..8].copy_from_slice(&target.octets());
    out[9] = protocol;
    out[10..].copy_from_slice(&len.to_be_bytes());
    out
}

/// The pseudo-header of either version, summed up so that it has one size (RFC 768; RFC 8200, section 8.1).
pub fn pseudo_sum(source: IpAddr, target: IpAddr, protocol: u8, len: u16) -> [u8; 2] {
    let addresses = match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => u64::from(source.to_bits()) + u64::from(target.to_bits()),
        // `checksum` complements; a checksum's own input must not be.
        (IpAddr::V6(source), IpAddr::V6(target)) => u64::from(!checksum(&[&source.octets(), &target.octets()])),
        _ => 0,
    };
    fold(addresses + u64::from(protocol) + u64::from(len)).to_be_bytes()
}

/// Writes a header of the addresses' version in front of `len` bytes; [`finish_ip`] completes it.
pub(crate) fn put_ip(
    w: &mut Writer<'_>,
    source: IpAddr,
    target: IpAddr,
    protocol: u8,
    ecn: Ecn,
    len: u16,
) -> Result<(), NoRoom> {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let total = len.checked_add(IPV4_HEADER_LEN as u16).ok_or(NoRoom)?;
            put_header(w, source, target, protocol, ecn, total)
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            w.u16(0x6000 | u16::from(ecn_bits(ecn)) << 4)?;
            w.u16(0)?;
            w.u16(len)?;
            w.put(&[protocol, DEFAULT_TTL])?;
            w.put(&source.octets())?;
            w.put(&target.octets())
        }
        _ => Err(NoRoom),
    }
}

/// Completes the header that [`put_ip`] wrote and returns what follows it.
pub(crate) fn finish_ip(packet: &mut [u8]) -> &mut [u8] {
    if packet[0] >> 4 == 6 { &mut packet[IPV6_HEADER_LEN..] } else { finish_header(packet) }
}

/// The two ECN bits (RFC 3168, section 5).
fn ecn_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

pub(crate) fn ecn_from_bits(traffic_class: u8) -> Ecn {
    match traffic_class & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

#[cfg(test)]
#[path = "ip_tests.rs"]
mod tests;
