//! The headers of a TCP/IP packet as what differs from those of an earlier one: [`Headers`] are what both ends keep of a packet, [`Changes`]
//! what is sent of a later one of the same connection.

use super::IPV6_HEADER_LEN;
use crate::ip::{IPV4_HEADER_LEN, checksum, pseudo_sum};
use crate::tcp::{Flags, KIND_NOP, KIND_SACK, KIND_TIMESTAMPS, PROTOCOL_TCP, SACK_BLOCKS_MAX, TCP_HEADER_LEN};
use std::net::{Ipv4Addr, Ipv6Addr};

/// "More fragments" and the fragment offset.
const FRAGMENT_BITS: u16 = 0x3fff;
/// The timestamps option with its padding (RFC 7323, appendix A), and what of it is always the same.
const TIMES_LEN: usize = 12;
const TIMES_HEAD: [u8; 4] = [KIND_NOP, KIND_NOP, KIND_TIMESTAMPS, 10];

/// What is kept of a TCP packet without IP options or extensions, whose TCP options are timestamps, or none, and SACK.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Both headers, the second without SACK.
    octets: Vec<u8>,
    /// Octets of the first.
    ip: usize,
}

/// What is different in a later packet's headers; numbers are how far they moved, modulo their size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// The identification (IPv4).
    pub id: u16,
    /// The sequence number.
    pub sequence: u32,
    /// The acknowledgement number.
    pub acknowledged: u32,
    /// The window, if it is another one.
    pub window: Option<u16>,
    /// Timestamp and echoed timestamp.
    pub times: (u32, u32),
    /// Blocks of SACK: from the new acknowledgement number to their left edge, and their length.
    pub sack: [(u32, u32); SACK_BLOCKS_MAX],
    /// How many.
    pub sack_blocks: u8,
    /// The control bits, if they are others.
    pub flags: Option<u8>,
    /// DSCP and ECN, if they are others.
    pub class: Option<u8>,
    /// TCP's checksum. It is the original packet's, so that what is put together wrongly is dropped.
    pub checksum: u16,
}

fn u16_at(octets: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([octets[at], octets[at + 1]])
}
fn u32_at(octets: &[u8], at: usize) -> u32 {
    octets[at..at + 4].iter().fold(0, |n, &octet| n << 8 | u32::from(octet))
}
fn put_u16(octets: &mut [u8], at: usize, n: u16) {
    octets[at..at + 2].copy_from_slice(&n.to_be_bytes());
}
fn put_u32(octets: &mut [u8], at: usize, n: u32) {
    octets[at..at + 4].copy_from_slice(&n.to_be_bytes());
}

impl Headers {
    /// Those of a packet, with the length of both and its SACK option.
    fn read(packet: &[u8]) -> Option<(Self, usize, &[u8])> {
        let first = *packet.first()?;
        let ip = match first >> 4 {
            4 if first & 0xf == 5 => {
                let header = packet.get(..IPV4_HEADER_LEN)?;
                let whole = usize::from(u16_at(header, 2)) == packet.len() && u16_at(header, 6) & FRAGMENT_BITS == 0;
                (whole && header[9] == PROTOCOL_TCP).then_some(IPV4_HEADER_LEN)?
            }
            6 => {
                let header = packet.get(..IPV6_HEADER_LEN)?;
                let whole = usize::from(u16_at(header, 4)) + IPV6_HEADER_LEN == packet.len();
                (whole && header[6] == PROTOCOL_TCP).then_some(IPV6_HEADER_LEN)?
            }
            _ => return None,
        };
        let tcp = packet.get(ip..)?;
        let len = usize::from(tcp.get(12)? >> 4) * 4;
        let options = tcp.get(TCP_HEADER_LEN..len)?;
        let flags = Flags(tcp[13]);
        let rare = [Flags::SYN, Flags::RST, Flags::URG].iter().any(|flag| flags.has(*flag));
        if rare || u16_at(tcp, 18) != 0 {
            return None;
        }
        let times = if options.starts_with(&TIMES_HEAD) && options.len() >= TIMES_LEN { TIMES_LEN } else { 0 };
        let sack = &options[times..];
        let known = match sack {
            [] => true,
            [KIND_NOP, KIND_NOP, KIND_SACK, len, rest @ ..] => {
                usize::from(*len) == rest.len() + 2 && rest.len().is_multiple_of(8) && !rest.is_empty()
            }
            _ => false,
        };
        let octets = packet[..ip + TCP_HEADER_LEN + times].to_vec();
        known.then_some((Self { octets, ip }, ip + len, sack))
    }

    /// What is to be kept of a packet; nothing of one that no later one is told by.
    pub fn of(packet: &[u8]) -> Option<Self> {
        Self::read(packet).map(|(headers, ..)| headers)
    }

    fn is_v4(&self) -> bool {
        self.ip == IPV4_HEADER_LEN
    }
    fn tcp(&self) -> &[u8] {
        &self.octets[self.ip..]
    }
    fn has_times(&self) -> bool {
        self.octets.len() > self.ip + TCP_HEADER_LEN
    }
    /// DSCP and ECN.
    fn class(&self) -> u8 {
        if self.is_v4() { self.octets[1] } else { self.octets[0] << 4 | self.octets[1] >> 4 }
    }
    fn set_class(&mut self, class: u8) {
        if self.is_v4() {
            self.octets[1] = class;
        } else {
            self.octets[0] = 0x60 | class >> 4;
            self.octets[1] = class << 4 | self.octets[1] & 0xf;
        }
    }

    /// What makes `packet` of these headers, and how many octets its own have; nothing if no changes make it.
    pub fn changes_to(&self, packet: &[u8]) -> Option<(Changes, usize)> {
        let (new, len, sack) = Self::read(packet)?;
        if (new.ip, new.octets.len()) != (self.ip, self.octets.len()) {
            return None;
        }
        let (old_tcp, tcp) = (self.tcp(), new.tcp());
        let moved = |at: usize| u32_at(tcp, at).wrapping_sub(u32_at(old_tcp, at));
        let differs = |new: u8, old: u8| (new != old).then_some(new);
        let mut changes = Changes {
            id: if self.is_v4() { u16_at(&new.octets, 4).wrapping_sub(u16_at(&self.octets, 4)) } else { 0 },
            sequence: moved(4),
            acknowledged: moved(8),
            window: Some(u16_at(tcp, 14)).filter(|window| *window != u16_at(old_tcp, 14)),
            times: if self.has_times() { (moved(24), moved(28)) } else { (0, 0) },
            flags: differs(tcp[13], old_tcp[13]),
            class: differs(new.class(), self.class()),
            checksum: u16_at(tcp, 16),
            ..Changes::default()
        };
        for block in sack.get(4..).unwrap_or_default().chunks(8) {
            let (left, right) = (u32_at(block, 0), u32_at(block, 4));
            *changes.sack.get_mut(usize::from(changes.sack_blocks))? =
                (left.wrapping_sub(u32_at(tcp, 8)), right.wrapping_sub(left));
            changes.sack_blocks += 1;
        }
        // All else must be the same, and the checksums right: the other end can only make that.
        (self.apply(&changes, &packet[len..]).as_deref() == Some(packet)).then_some((changes, len))
    }

    /// The packet that `changes` and a payload make; nothing if its checksum does not hold, or it would be too long.
    pub fn apply(&self, changes: &Changes, payload: &[u8]) -> Option<Vec<u8>> {
        let mut headers = self.clone();
        let ip = self.ip;
        if let Some(class) = changes.class {
            headers.set_class(class);
        }
        let blocks = changes.sack.get(..usize::from(changes.sack_blocks))?;
        let sack_len = if blocks.is_empty() { 0 } else { 4 + 8 * blocks.len() };
        let tcp_len = self.tcp().len() + sack_len;
        let upper = tcp_len + payload.len();
        let octets = &mut headers.octets;
        let tcp = &mut octets[ip..];
        let advance = |tcp: &mut [u8], at: usize, by: u32| {
            let n = u32_at(tcp, at).wrapping_add(by);
            put_u32(tcp, at, n);
            n
        };
        advance(tcp, 4, changes.sequence);
        let acknowledged = advance(tcp, 8, changes.acknowledged);
        // At most 60 octets.
        tcp[12] = tcp[12] & 0xf | u8::try_from(tcp_len / 4).ok().filter(|words| *words < 16)? << 4;
        tcp[13] = changes.flags.unwrap_or(tcp[13]);
        put_u16(tcp, 14, changes.window.unwrap_or(u16_at(tcp, 14)));
        put_u16(tcp, 16, changes.checksum);
        if self.has_times() {
            advance(tcp, 24, changes.times.0);
            advance(tcp, 28, changes.times.1);
        }
        if self.is_v4() {
            put_u16(octets, 2, u16::try_from(ip + upper).ok()?);
            let id = u16_at(octets, 4).wrapping_add(changes.id);
            put_u16(octets, 4, id);
            put_u16(octets, 10, 0);
            let sum = checksum(&[&octets[..ip]]);
            put_u16(octets, 10, sum);
        } else {
            put_u16(octets, 4, u16::try_from(upper).ok()?);
        }
        let mut packet = headers.octets;
        if !blocks.is_empty() {
            packet.extend([KIND_NOP, KIND_NOP, KIND_SACK, 2 + 8 * changes.sack_blocks]);
            for (ahead, len) in blocks {
                let left = acknowledged.wrapping_add(*ahead);
                packet.extend(left.to_be_bytes());
                packet.extend(left.wrapping_add(*len).to_be_bytes());
            }
        }
        packet.extend(payload);
        let (source, target) = if self.is_v4() {
            let address = |at: usize| Ipv4Addr::from(u32_at(&packet, at)).into();
            (address(12), address(16))
        } else {
            let address =
                |at: usize| packet[at..at + 16].try_into().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into());
            (address(8).ok()?, address(24).ok()?)
        };
        let sum = pseudo_sum(source, target, PROTOCOL_TCP, u16::try_from(upper).ok()?);
        (checksum(&[&sum, &packet[ip..]]) == 0).then_some(packet)
    }
}
