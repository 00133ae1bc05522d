//! IP packets that only pass through: one view of IPv4 (RFC 791) and IPv6 (RFC 8200), and the few edits a router
//! makes. Unlike [`crate::ip`], nothing here ends a transport: options, extension headers and fragments are kept.

mod edit;
mod fragment;
mod headers;
mod icmp;
mod owned;

pub use edit::mark_congestion;
pub use fragment::fragments_v4;
pub use headers::{Changes, Headers};
pub use icmp::{Crossing, ICMP_V4_LEN_MAX, ICMP_V6_LEN_MAX, IcmpError, answer, crossing, may_answer};
pub use owned::IpPacket;

use crate::codec::DecodeError;
use crate::ip::{IPV4_HEADER_LEN, PROTOCOL_UDP, checksum};
use crate::tcp::{PROTOCOL_TCP, TCP_HEADER_LEN};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wavelane_base::{Ecn, FrameMeta};

/// Bytes of an IPv6 header without extensions.
pub const IPV6_HEADER_LEN: usize = 40;
/// The protocol number of ICMP (IANA protocol numbers).
pub const PROTOCOL_ICMP: u8 = 1;
/// The protocol number of ICMPv6.
pub const PROTOCOL_ICMP6: u8 = 58;
const PROTOCOL_DCCP: u8 = 33;
const PROTOCOL_SCTP: u8 = 132;
const PROTOCOL_UDPLITE: u8 = 136;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// Most extension headers walked through; what lies behind more counts as an unknown protocol.
const EXTENSIONS_MAX: usize = 8;

/// One whole packet, its headers read and its bytes at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub target: IpAddr,
    /// Differentiated services code point (RFC 2474).
    pub dscp: u8,
    /// The ECN field.
    pub ecn: Ecn,
    /// Remaining hops.
    pub hops: u8,
    /// What [`Self::upper`] is: the first header that is no IPv6 extension.
    pub protocol: u8,
    /// Where this packet stands in a fragmented one.
    pub fragment: Fragment,
    /// The packet, without what a link padded behind it.
    pub bytes: &'a [u8],
    /// Where the upper header begins.
    upper_at: usize,
}

/// The fragmentation fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fragment {
    /// Routers must not fragment it (always so in IPv6).
    pub dont: bool,
    /// Bytes of the original payload before this piece's.
    pub offset: usize,
    /// Further pieces follow.
    pub more: bool,
}

impl Fragment {
    /// Whether the packet is one piece of several.
    pub fn is_piece(self) -> bool {
        self.more || self.offset > 0
    }
}

/// What queues and order need to know of a TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Bytes of payload.
    pub payload: usize,
    /// The control bits.
    pub flags: crate::tcp::Flags,
}

impl<'a> Packet<'a> {
    /// Reads a packet of either version and verifies what of it a router relies on: lengths, and the IPv4 header
    /// checksum. Upper headers are not judged.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        match bytes.first().ok_or(DecodeError::Truncated)? >> 4 {
            4 => Self::parse_v4(bytes),
            6 => Self::parse_v6(bytes),
            _ => Err(DecodeError::Invalid("IP version")),
        }
    }

    fn parse_v4(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let head: &[u8; IPV4_HEADER_LEN] = bytes.first_chunk().ok_or(DecodeError::Truncated)?;
        let header_len = usize::from(head[0] & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if header_len < IPV4_HEADER_LEN || total < header_len {
            return Err(DecodeError::Invalid("IPv4 length"));
        }
        let bytes = bytes.get(..total).ok_or(DecodeError::Truncated)?;
        if checksum(&[&bytes[..header_len]]) != 0 {
            return Err(DecodeError::Invalid("IPv4 header checksum"));
        }
        let bits = u16::from_be_bytes([head[6], head[7]]);
        Ok(Self {
            source: Ipv4Addr::new(head[12], head[13], head[14], head[15]).into(),
            target: Ipv4Addr::new(head[16], head[17], head[18], head[19]).into(),
            dscp: head[1] >> 2,
            ecn: crate::ip::ecn_from_bits(head[1]),
            hops: head[8],
            protocol: head[9],
            fragment: Fragment {
                dont: bits & 0x4000 != 0,
                more: bits & 0x2000 != 0,
                offset: usize::from(bits & 0x1fff) * 8,
            },
            bytes,
            upper_at: header_len,
        })
    }

    fn parse_v6(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let head: &[u8; IPV6_HEADER_LEN] = bytes.first_chunk().ok_or(DecodeError::Truncated)?;
        // A length of zero would announce a jumbogram (RFC 2675), or a packet with nothing to carry.
        let total = IPV6_HEADER_LEN + usize::from(u16::from_be_bytes([head[4], head[5]]));
        let bytes = bytes.get(..total).ok_or(DecodeError::Truncated)?;
        let class = head[0] << 4 | head[1] >> 4;
        let address = |at: usize| {
            let octets: [u8; 16] = core::array::from_fn(|i| head[at + i]);
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        let (protocol, upper_at, fragment) = walk_extensions(bytes, head[6])?;
        Ok(Self {
            source: address(8),
            target: address(24),
            dscp: class >> 2,
            ecn: crate::ip::ecn_from_bits(class),
            hops: head[7],
            protocol,
            fragment,
            bytes,
            upper_at,
        })
    }

    /// The upper header and all behind it; in a later fragment, bytes from the middle of a payload.
    pub fn upper(&self) -> &'a [u8] {
        &self.bytes[self.upper_at..]
    }

    /// Source and target port, where the protocol has them and this packet holds them. Fragments have none, so that
    /// all pieces of a packet belong to the same flow.
    pub fn ports(&self) -> Option<(u16, u16)> {
        let has_ports =
            matches!(self.protocol, PROTOCOL_TCP | PROTOCOL_UDP | PROTOCOL_DCCP | PROTOCOL_SCTP | PROTOCOL_UDPLITE);
        let head: &[u8; 4] = self.upper().first_chunk()?;
        let ports = (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]));
        (has_ports && !self.fragment.is_piece()).then_some(ports)
    }

    /// The TCP segment inside, if there is a whole one.
    pub fn segment(&self) -> Option<Segment> {
        if self.protocol != PROTOCOL_TCP || self.fragment.is_piece() {
            return None;
        }
        let head: &[u8; TCP_HEADER_LEN] = self.upper().first_chunk()?;
        let header_len = usize::from(head[12] >> 4) * 4;
        let payload = self.upper().len().checked_sub(header_len.max(TCP_HEADER_LEN))?;
        Some(Segment { payload, flags: crate::tcp::Flags(head[13]) })
    }

    /// The TCP header, without a look at the checksum, and the octets of payload, if there is a whole segment.
    pub fn tcp_header(&self) -> Option<(crate::tcp::TcpHeader, usize)> {
        let payload = self.segment()?.payload;
        let (_, _, header) = crate::tcp::TcpHeader::read(&mut crate::codec::Reader::new(self.upper())).ok()?;
        Some((header, payload))
    }

    /// Whether both addresses may cross a gateway: neither multicast, loopback, link-local nor unspecified.
    pub fn has_routable_addresses(&self) -> bool {
        [self.source, self.target].into_iter().all(is_routable)
    }
}

/// What a queue looks at: a hash of addresses, protocol and ports, hashes of both addresses, code point and ECN field; the rest
/// is as by default, and all of it where the packet cannot be read. Anybody can compute the hashes; where strangers send, keyed
/// ones are wanted.
pub fn queue_meta(packet: &[u8]) -> FrameMeta {
    let Ok(packet) = Packet::parse(packet) else { return FrameMeta::default() };
    let wide = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    let (source, target) = (wide(packet.source), wide(packet.target));
    let ports = packet.ports().unwrap_or_default();
    let rest = u64::from(packet.protocol) << 32 | u64::from(ports.0) << 16 | u64::from(ports.1);
    let halves = |address: u128| [address as u64, (address >> 64) as u64];
    let [source, target] = [halves(source), halves(target)];
    FrameMeta {
        ecn: packet.ecn,
        dscp: packet.dscp,
        flow: mixed(&[source[0], source[1], target[0], target[1], rest]),
        hosts: (mixed(&source), mixed(&target)),
        ..FrameMeta::default()
    }
}

/// The finaliser of SplitMix64: every bit of a word moves every bit of the sum.
fn mixed(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum: u64, word| {
        let mut z = (sum ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

fn is_routable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            // 240.0.0.0/4 is reserved (RFC 1112, section 4), the limited broadcast address among it.
            !(ip.is_multicast()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.octets()[0] == 0
                || ip.octets()[0] >= 240)
        }
        IpAddr::V6(ip) => !(ip.is_multicast() || ip.is_loopback() || ip.is_unspecified() || ip.is_unicast_link_local()),
    }
}

/// From the first next-header value to the upper protocol, where it begins, and the fragment header on the way.
fn walk_extensions(bytes: &[u8], first: u8) -> Result<(u8, usize, Fragment), DecodeError> {
    let (mut next, mut at) = (first, IPV6_HEADER_LEN);
    let mut fragment = Fragment { dont: true, ..Fragment::default() };
    for _ in 0..EXTENSIONS_MAX {
        if !matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION) {
            break;
        }
        let head: &[u8; 8] = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(DecodeError::Truncated)?;
        let len = if next == FRAGMENT { 8 } else { (usize::from(head[1]) + 1) * 8 };
        if next == FRAGMENT {
            let bits = u16::from_be_bytes([head[2], head[3]]);
            fragment = Fragment { dont: true, offset: usize::from(bits & 0xfff8), more: bits & 1 != 0 };
        }
        next = head[0];
        at += len;
        if at > bytes.len() {
            return Err(DecodeError::Truncated);
        }
        // What follows in a later fragment is no header.
        if fragment.offset > 0 {
            break;
        }
    }
    Ok((next, at, fragment))
}

#[cfg(test)]
mod tests;
