//! Parses a captured frame into its TCP segment, as far as it was captured.
//!
//! `wavelane_wire` parses whole packets and rejects damaged ones; a capture contains only the first bytes of a packet, and its checksums
//! are often not yet filled in by the network card. So lengths are taken from the IP header and the available bytes are used. Nothing here
//! allocates, and every loop is bounded by the frame.

use super::link::{LinkType, Unread, ip_of};
use std::net::{IpAddr, Ipv6Addr};
use wavelane_wire::tcp::{Flags, PROTOCOL_TCP, SACK_BLOCKS_MAX, TCP_HEADER_LEN, WINDOW_SCALE_MAX};

/// An address of either family; IPv4 as an IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(u128);

const MAPPED: u128 = 0xFFFF << 32;

impl Address {
    fn v4(octets: [u8; 4]) -> Self {
        Self(MAPPED | u128::from(u32::from_be_bytes(octets)))
    }
    fn v6(octets: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(octets))
    }
    /// The address in its original family.
    pub fn ip(self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }
}

/// An address and a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Endpoint {
    /// The host.
    pub address: Address,
    /// The port.
    pub port: u16,
}

impl core::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        std::net::SocketAddr::new(self.address.ip(), self.port).fmt(f)
    }
}

/// The contents of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frame {
    /// A TCP segment whose fixed header was captured.
    Tcp(Segment),
    /// An IP packet of something else, or a later fragment.
    Other { from: Address, to: Address, ip_octets: u32 },
    /// A TCP segment truncated before the end of its fixed header.
    ShortTcp { from: Address, to: Address, ip_octets: u32 },
    /// No IP packet that can be read.
    Unread(Unread),
}

/// The relevant options of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Options {
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    /// TSval and TSecr (RFC 7323, section 3.2).
    pub(crate) timestamps: Option<(u32, u32)>,
    sacks: [(u32, u32); SACK_BLOCKS_MAX],
    sack_count: u8,
}

impl Options {
    /// The SACK blocks, as left and right edge.
    pub(crate) fn sacks(&self) -> &[(u32, u32)] {
        &self.sacks[..usize::from(self.sack_count)]
    }
}

/// A TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) from: Endpoint,
    pub(crate) to: Endpoint,
    /// Length of the whole IP packet.
    pub(crate) ip_octets: u32,
    /// Identification field of IPv4.
    pub(crate) ip_id: Option<u16>,
    /// Time to live, or hop limit.
    pub(crate) ttl: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    /// Octets of data, according to the headers.
    pub(crate) data: u32,
    /// How many of them were captured.
    pub(crate) captured: u32,
    pub(crate) options: Options,
}

impl Segment {
    pub(crate) fn has(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }
    /// Octets of sequence space: the data, and one each for SYN and FIN (RFC 9293, section 3.4).
    pub(crate) fn length(&self) -> u32 {
        self.data + u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN))
    }
}

/// Packets in packets, of which the inner is read, with its IP version (RFC 2003; RFC 4213, section 3): those of a home agent, of 6in4.
const WITHIN: [(u8, u8); 2] = [(4, 4), (41, 6)];
/// Headers of IP around the innermost; more than any network stacks.
const WITHIN_MAX: usize = 4;
/// Those of which only the outer is read: GRE and ESP (IANA, Assigned Internet Protocol Numbers).
const TUNNELS: [u8; 2] = [47, 50];

/// Maximum number of extension headers before TCP (RFC 8200, section 4.1, has six kinds).
const EXTENSIONS_MAX: usize = 8;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Parses a frame of original length `octets`, of which `frame` was captured.
pub(crate) fn read(link: LinkType, frame: &[u8], octets: u32) -> Frame {
    let packet = match ip_of(link, frame) {
        Ok(packet) => packet,
        Err(why) => return Frame::Unread(why),
    };
    let behind = (octets as usize).saturating_sub(frame.len() - packet.len());
    innermost(packet, behind).unwrap_or_else(Frame::Unread)
}

/// What the innermost of packets within packets contains; the outermost has `behind` octets.
fn innermost(mut packet: &[u8], mut behind: usize) -> Result<Frame, Unread> {
    for _ in 0..=WITHIN_MAX {
        let ip = header(packet, behind).ok_or(Unread::Damaged)?;
        if !ip.has_packet() {
            return Ok(transport(&ip, packet));
        }
        behind = (ip.octets as usize).saturating_sub(ip.header);
        packet = ip.within(packet).ok_or(Unread::Damaged)?;
    }
    Err(Unread::Protocol)
}

/// The packets within a packet, from itself on.
pub(super) fn nested(packet: &[u8]) -> impl Iterator<Item = &[u8]> {
    fn within<'a>(packet: &&'a [u8]) -> Option<&'a [u8]> {
        header(packet, packet.len())?.within(packet)
    }
    std::iter::successors(Some(packet), within).take(WITHIN_MAX + 1)
}

fn header(packet: &[u8], behind: usize) -> Option<Ip> {
    match packet.first()? >> 4 {
        4 => ipv4(packet, behind),
        6 => ipv6(packet, behind),
        _ => None,
    }
}

struct Ip {
    from: Address,
    to: Address,
    octets: u32,
    id: Option<u16>,
    ttl: u8,
    protocol: u8,
    first_fragment: bool,
    header: usize,
}

impl Ip {
    /// Whether a packet of IP begins behind this header.
    fn has_packet(&self) -> bool {
        self.first_fragment && WITHIN.iter().any(|(protocol, _)| *protocol == self.protocol)
    }
    /// That packet, if its start was captured and is of the version that was said.
    fn within<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let (_, version) = WITHIN.iter().find(|(protocol, _)| self.has_packet() && *protocol == self.protocol)?;
        packet.get(self.header..).filter(|inner| inner.first().is_some_and(|first| first >> 4 == *version))
    }
}

fn ipv4(packet: &[u8], behind: usize) -> Option<Ip> {
    let header = usize::from(packet.first()? & 0x0F) * 4;
    let fixed: &[u8; 20] = packet.first_chunk()?;
    if header < 20 {
        return None;
    }
    let stated = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    // Zero in packets that a network card has yet to segment (TSO); then the frame's length is used.
    let octets = if stated == 0 { behind } else { stated };
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]);
    Some(Ip {
        from: Address::v4([fixed[12], fixed[13], fixed[14], fixed[15]]),
        to: Address::v4([fixed[16], fixed[17], fixed[18], fixed[19]]),
        octets: u32::try_from(octets).ok()?,
        id: Some(u16::from_be_bytes([fixed[4], fixed[5]])),
        ttl: fixed[8],
        protocol: fixed[9],
        first_fragment: fragment & 0x1FFF == 0,
        header,
    })
}

fn ipv6(packet: &[u8], behind: usize) -> Option<Ip> {
    let fixed: &[u8; 40] = packet.first_chunk()?;
    let stated = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let octets = if stated == 0 { behind } else { 40 + stated };
    let mut ip = Ip {
        from: Address::v6(fixed[8..24].try_into().ok()?),
        to: Address::v6(fixed[24..40].try_into().ok()?),
        octets: u32::try_from(octets).ok()?,
        id: None,
        ttl: fixed[7],
        protocol: fixed[6],
        first_fragment: true,
        header: 40,
    };
    for _ in 0..EXTENSIONS_MAX {
        let Some(length) = extension(packet, &mut ip) else { break };
        ip.protocol = packet[ip.header];
        ip.header += length;
    }
    Some(ip)
}

/// The length of the extension header at `ip.header`, if there is one and its start was captured (RFC 8200, section 4).
fn extension(packet: &[u8], ip: &mut Ip) -> Option<usize> {
    let start = packet.get(ip.header..ip.header + 4)?;
    match ip.protocol {
        // Hop-by-hop options, routing, destination options: in units of 8 octets, without the first.
        0 | 43 | 60 => Some((usize::from(start[1]) + 1) * 8),
        44 => {
            ip.first_fragment = u16::from_be_bytes([start[2], start[3]]) & 0xFFF8 == 0;
            Some(8)
        }
        // Authentication header: in units of 4 octets, minus 2 (RFC 4302, section 2.2).
        51 => Some((usize::from(start[1]) + 2) * 4),
        _ => None,
    }
}

fn transport(ip: &Ip, packet: &[u8]) -> Frame {
    if TUNNELS.contains(&ip.protocol) {
        return Frame::Unread(Unread::Protocol);
    }
    let (from, to, ip_octets) = (ip.from, ip.to, ip.octets);
    if ip.protocol != PROTOCOL_TCP || !ip.first_fragment || ip_octets < (ip.header + TCP_HEADER_LEN) as u32 {
        return Frame::Other { from, to, ip_octets };
    }
    let tcp = packet.get(ip.header..).unwrap_or(&[]);
    segment(ip, tcp).map_or(Frame::ShortTcp { from, to, ip_octets }, Frame::Tcp)
}

fn segment(ip: &Ip, tcp: &[u8]) -> Option<Segment> {
    let fixed: &[u8; TCP_HEADER_LEN] = tcp.first_chunk()?;
    let header = usize::from(fixed[12] >> 4) * 4;
    let data = (ip.octets as usize).checked_sub(ip.header + header)?;
    if header < TCP_HEADER_LEN {
        return None;
    }
    let options = options(&tcp[TCP_HEADER_LEN..header.min(tcp.len())]);
    Some(Segment {
        from: Endpoint { address: ip.from, port: u16::from_be_bytes([fixed[0], fixed[1]]) },
        to: Endpoint { address: ip.to, port: u16::from_be_bytes([fixed[2], fixed[3]]) },
        ip_octets: ip.octets,
        ip_id: ip.id,
        ttl: ip.ttl,
        seq: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
        ack: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        flags: Flags(fixed[13]),
        window: u16::from_be_bytes([fixed[14], fixed[15]]),
        urgent: u16::from_be_bytes([fixed[18], fixed[19]]),
        data: data as u32,
        captured: tcp.len().saturating_sub(header).min(data) as u32,
        options,
    })
}

const KIND_END: u8 = 0;
const KIND_NOP: u8 = 1;
const KIND_MSS: u8 = 2;
const KIND_WINDOW_SCALE: u8 = 3;
const KIND_SACK_PERMITTED: u8 = 4;
const KIND_SACK: u8 = 5;
const KIND_TIMESTAMPS: u8 = 8;

/// Reads options until their end, the captured end, or the first impossible length.
fn options(mut bytes: &[u8]) -> Options {
    let mut options = Options::default();
    while let Some((&kind, rest)) = bytes.split_first() {
        match kind {
            KIND_END => break,
            KIND_NOP => bytes = rest,
            _ => {
                let Some(&length) = rest.first() else { break };
                let Some(body) = bytes.get(2..usize::from(length)) else { break };
                option(&mut options, kind, body);
                bytes = &bytes[usize::from(length)..];
            }
        }
    }
    options
}

fn option(options: &mut Options, kind: u8, body: &[u8]) {
    match (kind, body.len()) {
        (KIND_MSS, 2) => options.mss = u16_at(body, 0),
        (KIND_WINDOW_SCALE, 1) => options.window_scale = Some(body[0].min(WINDOW_SCALE_MAX)),
        (KIND_SACK_PERMITTED, 0) => options.sack_permitted = true,
        (KIND_TIMESTAMPS, 8) => options.timestamps = u32_at(body, 0).zip(u32_at(body, 4)),
        (KIND_SACK, length) if length % 8 == 0 => {
            for (slot, block) in options.sacks.iter_mut().zip(body.chunks_exact(8)) {
                if let Some(edges) = u32_at(block, 0).zip(u32_at(block, 4)) {
                    *slot = edges;
                    options.sack_count += 1;
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "packet_tests.rs"]
pub(super) mod tests;
