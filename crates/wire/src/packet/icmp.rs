//! The ICMP errors of a router: RFC 792, RFC 1122 (section 3.2.2), RFC 1812 (section 4.3) and RFC 4443.

use super::{
    DESTINATION, FRAGMENT, HOP_BY_HOP, IPV6_HEADER_LEN, PROTOCOL_ICMP, PROTOCOL_ICMP6, Packet, ROUTING, is_routable,
};
use crate::ip::{DEFAULT_TTL, IPV4_HEADER_LEN, checksum};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest ICMP error over IPv4 (RFC 1812, section 4.3.2.3).
pub const ICMP_V4_LEN_MAX: usize = 576;
/// Longest ICMPv6 error: the least MTU of IPv6 (RFC 4443, section 2.4 (c)).
pub const ICMP_V6_LEN_MAX: usize = 1280;
/// Bytes of an ICMP error before the quoted packet, both versions.
const ICMP_HEADER_LEN: usize = 8;
/// Internetwork control, as RFC 1812 (section 4.3.2.5) wants for errors.
const TOS_ERROR: u8 = 0xc0;
const DONT_FRAGMENT: u8 = 0x40;

/// Why a packet was not forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpError {
    /// No route leads to its target.
    NoRoute,
    /// The gateway that its route leads to does not answer.
    HostUnreachable,
    /// A rule forbids it.
    Prohibited,
    /// It is longer than this many bytes and must not be fragmented.
    TooBig(u32),
    /// It has no hops left.
    TimeExceeded,
}

impl IcmpError {
    /// Type and code (RFC 792, RFC 1812 section 5.2.7.1, RFC 4443 section 3).
    const fn codes(self, v4: bool) -> (u8, u8) {
        match (self, v4) {
            (Self::NoRoute, true) => (3, 0),
            (Self::HostUnreachable, true) => (3, 1),
            (Self::Prohibited, true) => (3, 13),
            (Self::TooBig(_), true) => (3, 4),
            (Self::TimeExceeded, true) => (11, 0),
            (Self::NoRoute, false) => (1, 0),
            (Self::HostUnreachable, false) => (1, 3),
            (Self::Prohibited, false) => (1, 1),
            (Self::TooBig(_), false) => (2, 0),
            (Self::TimeExceeded, false) => (3, 0),
        }
    }

    /// The four bytes behind the checksum: an MTU (RFC 1191, section 4; RFC 4443, section 3.2) or nothing.
    fn rest(self, v4: bool) -> [u8; 4] {
        match self {
            Self::TooBig(mtu) if v4 => u32::from(u16::try_from(mtu).unwrap_or(u16::MAX)).to_be_bytes(),
            Self::TooBig(mtu) => mtu.to_be_bytes(),
            _ => [0; 4],
        }
    }
}

/// Whether an error about `packet` may be sent at all (RFC 1122, section 3.2.2; RFC 1812, section 4.3.2.7; RFC 4443,
/// section 2.4 (e)): never about an ICMP error, to a source that is no single host, or about a later fragment.
pub fn may_answer(packet: &Packet<'_>) -> bool {
    let upper = packet.upper().first().copied();
    let about_error = match packet.protocol {
        // Unreachable, source quench, redirect, time exceeded, parameter problem; unknown without a type byte.
        PROTOCOL_ICMP => upper.is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12)),
        // Types below 128 are errors; 137 is a redirect.
        PROTOCOL_ICMP6 => upper.is_none_or(|kind| kind < 128 || kind == 137),
        _ => false,
    };
    let later = packet.fragment.offset > 0;
    !about_error && !later && is_routable(packet.source) && !packet.target.is_multicast()
}

/// How a router treats a packet to be forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crossing {
    /// Decided by its addresses.
    Plain,
    /// An error that hosts and routers send to whom a packet came from, and the quoted packet's source and target, if
    /// they are there.
    Error(Option<(IpAddr, IpAddr)>),
    /// Link-local or obsolete: not forwarded.
    Never,
}

/// Sorts a packet by its kind of ICMP. Link-local messages are not forwarded (RFC 1256, RFC 4861, RFC 4890 section 4.3.3),
/// nor are redirects and deprecated types (RFC 6633, RFC 6918).
pub fn crossing(packet: &Packet<'_>) -> Crossing {
    if packet.fragment.offset > 0 {
        return Crossing::Plain;
    }
    let upper = packet.upper();
    match (packet.protocol, upper.first()) {
        // Unreachable, time exceeded, parameter problem.
        (PROTOCOL_ICMP, Some(3 | 11 | 12)) => Crossing::Error(quoted_v4(upper)),
        // Source quench, redirect, router discovery, information, address mask, and others withdrawn.
        (PROTOCOL_ICMP, Some(4..=6 | 9 | 10 | 15..=18 | 30..=39)) => Crossing::Never,
        // Unreachable, too big, time exceeded, parameter problem.
        (PROTOCOL_ICMP6, Some(1..=4)) => Crossing::Error(quoted_v6(upper)),
        // Unknown errors; multicast listeners, neighbour and router discovery, redirect, renumbering, node
        // information, and their kin.
        (PROTOCOL_ICMP6, Some(0 | 5..=127 | 130..=143 | 148 | 149 | 151..=153)) => Crossing::Never,
        (PROTOCOL_ICMP | PROTOCOL_ICMP6, None) => Crossing::Never,
        // More extension headers than were walked through: any kind may lie behind them.
        (HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION, _) if packet.source.is_ipv6() => Crossing::Never,
        _ => Crossing::Plain,
    }
}

fn quoted_v4(icmp: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let quoted: &[u8; IPV4_HEADER_LEN] = icmp.get(ICMP_HEADER_LEN..)?.first_chunk()?;
    let address = |at: usize| IpAddr::from([quoted[at], quoted[at + 1], quoted[at + 2], quoted[at + 3]]);
    (quoted[0] >> 4 == 4).then(|| (address(12), address(16)))
}

fn quoted_v6(icmp: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let quoted: &[u8; IPV6_HEADER_LEN] = icmp.get(ICMP_HEADER_LEN..)?.first_chunk()?;
    let address = |at: usize| IpAddr::from(core::array::from_fn::<u8, 16, _>(|i| quoted[at + i]));
    (quoted[0] >> 4 == 6).then(|| (address(8), address(24)))
}

/// The error about `packet` that `from` sends, as a whole IP packet; `None` if the versions differ.
pub fn answer(error: IcmpError, packet: &Packet<'_>, from: IpAddr) -> Option<Vec<u8>> {
    match (from, packet.source) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Some(answer_v4(error, packet, from, to)),
        (IpAddr::V6(from), IpAddr::V6(to)) => Some(answer_v6(error, packet, from, to)),
        _ => None,
    }
}

fn icmp_header(error: IcmpError, v4: bool) -> [u8; ICMP_HEADER_LEN] {
    let ((kind, code), rest) = (error.codes(v4), error.rest(v4));
    [kind, code, 0, 0, rest[0], rest[1], rest[2], rest[3]]
}

fn answer_v4(error: IcmpError, packet: &Packet<'_>, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let quoted = &packet.bytes[..packet.bytes.len().min(ICMP_V4_LEN_MAX - IPV4_HEADER_LEN - ICMP_HEADER_LEN)];
    let total = IPV4_HEADER_LEN + ICMP_HEADER_LEN + quoted.len();
    let mut out = Vec::with_capacity(total);
    // Identification zero with "don't fragment": atomic (RFC 6864, section 4.1).
    let [high, low] = (total as u16).to_be_bytes();
    out.extend([0x45, TOS_ERROR, high, low, 0, 0, DONT_FRAGMENT, 0, DEFAULT_TTL, PROTOCOL_ICMP, 0, 0]);
    out.extend(from.octets());
    out.extend(to.octets());
    let sum = checksum(&[&out]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend(icmp_header(error, true));
    out.extend_from_slice(quoted);
    let sum = checksum(&[&out[IPV4_HEADER_LEN..]]);
    out[IPV4_HEADER_LEN + 2..IPV4_HEADER_LEN + 4].copy_from_slice(&sum.to_be_bytes());
    out
}

fn answer_v6(error: IcmpError, packet: &Packet<'_>, from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let quoted = &packet.bytes[..packet.bytes.len().min(ICMP_V6_LEN_MAX - IPV6_HEADER_LEN - ICMP_HEADER_LEN)];
    let payload = ICMP_HEADER_LEN + quoted.len();
    let mut out = Vec::with_capacity(IPV6_HEADER_LEN + payload);
    let [high, low] = (payload as u16).to_be_bytes();
    out.extend([0x60, 0, 0, 0, high, low, PROTOCOL_ICMP6, DEFAULT_TTL]);
    out.extend(from.octets());
    out.extend(to.octets());
    out.extend(icmp_header(error, false));
    out.extend_from_slice(quoted);
    // The pseudo-header of RFC 8200, section 8.1: addresses, length, zeros and the next header.
    let tail = [0, 0, high, low, 0, 0, 0, PROTOCOL_ICMP6];
    let sum = checksum(&[&out[8..IPV6_HEADER_LEN], &tail, &out[IPV6_HEADER_LEN..]]);
    out[IPV6_HEADER_LEN + 2..IPV6_HEADER_LEN + 4].copy_from_slice(&sum.to_be_bytes());
    out
}
