//! Headers before and inside a packet, as far as splitting and merging need them.

/// Bytes of a `virtio_net_hdr` (virtio 1.2, section 5.1.6; linux/virtio_net.h), without the later fields.
pub(super) const VNET_LEN: usize = 10;
/// The checksum is incomplete: the field holds the pseudo-header's sum.
pub(super) const NEEDS_CSUM: u8 = 1;
/// A single packet, not a super-packet.
pub(super) const GSO_NONE: u8 = 0;
/// One TCP super-packet in IPv4.
pub(super) const GSO_TCPV4: u8 = 1;
/// One TCP super-packet in IPv6.
pub(super) const GSO_TCPV6: u8 = 4;
/// Several UDP datagrams of one flow.
pub(super) const GSO_UDP_L4: u8 = 5;
/// Combined with a TCP type if congestion-window-reduced is set in the header.
pub(super) const GSO_ECN: u8 = 0x80;

pub(super) const PROTOCOL_TCP: u8 = 6;
pub(super) const PROTOCOL_UDP: u8 = 17;
pub(super) const UDP_HEADER: usize = 8;
/// Offset of the checksum in a TCP header (RFC 9293, section 3.1).
pub(super) const TCP_CHECKSUM_AT: usize = 16;
/// Offset of the checksum in a UDP header (RFC 768).
pub(super) const UDP_CHECKSUM_AT: usize = 6;

pub(super) const FIN: u8 = 0x01;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;
pub(super) const CWR: u8 = 0x80;

/// The header the kernel puts before each packet; all fields in host byte order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct VnetHeader {
    pub(super) flags: u8,
    pub(super) gso_type: u8,
    pub(super) header_len: u16,
    /// Payload bytes of each segment.
    pub(super) gso_size: u16,
    pub(super) csum_start: u16,
    pub(super) csum_offset: u16,
}

impl VnetHeader {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let b: &[u8; VNET_LEN] = bytes.get(..VNET_LEN)?.try_into().ok()?;
        let field = |at: usize| u16::from_ne_bytes([b[at], b[at + 1]]);
        Some(Self {
            flags: b[0],
            gso_type: b[1],
            header_len: field(2),
            gso_size: field(4),
            csum_start: field(6),
            csum_offset: field(8),
        })
    }
    pub(super) fn bytes(&self) -> [u8; VNET_LEN] {
        let mut out = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        for (at, value) in [(2, self.header_len), (4, self.gso_size), (6, self.csum_start), (8, self.csum_offset)] {
            out[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        out
    }
}

/// Offsets of a packet's parts. Extension headers and IPv4 fragments are not parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) six: bool,
    /// Offset of TCP or UDP.
    pub(super) transport: usize,
    pub(super) protocol: u8,
    /// Offset of its payload.
    pub(super) payload: usize,
}

impl Layout {
    /// Parses the headers of a TCP or UDP packet; `None` if it is something else, or truncated.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        let six = match packet.first()? >> 4 {
            4 => false,
            6 => true,
            _ => return None,
        };
        let (transport, protocol) = if six {
            (40, *packet.get(6)?)
        } else {
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
            if fragment != 0 {
                return None;
            }
            (usize::from(packet[0] & 15) * 4, *packet.get(9)?)
        };
        let header = match protocol {
            PROTOCOL_TCP => usize::from(packet.get(transport + 12)? >> 4) * 4,
            PROTOCOL_UDP => UDP_HEADER,
            _ => return None,
        };
        let least = if protocol == PROTOCOL_TCP { 20 } else { UDP_HEADER };
        let payload = transport + header;
        let sound = transport >= if six { 40 } else { 20 } && header >= least && payload <= packet.len();
        sound.then_some(Self { six, transport, protocol, payload })
    }
    /// Writes the IP header's length and, in IPv4, identification and checksum.
    pub(super) fn finish_ip(&self, packet: &mut [u8], identification: Option<u16>) {
        let len = packet.len();
        let field = |n: usize| u16::try_from(n).expect("packets here are at most 65,535 bytes long").to_be_bytes();
        if self.six {
            packet[4..6].copy_from_slice(&field(len - 40));
            return;
        }
        packet[2..4].copy_from_slice(&field(len));
        if let Some(id) = identification {
            packet[4..6].copy_from_slice(&id.to_be_bytes());
        }
        packet[10..12].fill(0);
        let sum = !fold(sum(0, &packet[..self.transport]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    /// The pseudo-header's sum for the data after the IP header (RFC 9293, section 3.1; RFC 8200, section 8.1).
    pub(super) fn pseudo_sum(&self, packet: &[u8]) -> u32 {
        let addresses = if self.six { &packet[8..40] } else { &packet[12..20] };
        let length = (packet.len() - self.transport) as u32;
        sum(u32::from(self.protocol) + (length >> 16) + (length & 0xffff), addresses)
    }
    /// Offset of the transport's checksum in the packet.
    pub(super) fn checksum_at(&self) -> usize {
        self.transport + if self.protocol == PROTOCOL_TCP { TCP_CHECKSUM_AT } else { UDP_CHECKSUM_AT }
    }
    /// Writes the transport's checksum.
    pub(super) fn finish_transport(&self, packet: &mut [u8]) {
        let at = self.checksum_at();
        packet[at..at + 2].fill(0);
        let sum = !fold(sum(self.pseudo_sum(packet), &packet[self.transport..]));
        // Zero would mean that there is no checksum (RFC 768).
        let sum = if sum == 0 && self.protocol == PROTOCOL_UDP { u16::MAX } else { sum };
        packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    /// Whether the transport's checksum is correct.
    pub(super) fn is_intact(&self, packet: &[u8]) -> bool {
        fold(sum(self.pseudo_sum(packet), &packet[self.transport..])) == 0xffff
    }
    pub(super) fn identification(packet: &[u8]) -> u16 {
        u16::from_be_bytes([packet[4], packet[5]])
    }
    pub(super) fn sequence(&self, packet: &[u8]) -> u32 {
        let at = self.transport + 4;
        u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
    }
    pub(super) fn flags_at(&self) -> usize {
        self.transport + 13
    }
}

/// Adds `bytes` to a sum of sixteen-bit words (RFC 1071); at most 65,535 bytes, so that nothing overflows.
pub(super) fn sum(start: u32, bytes: &[u8]) -> u32 {
    // Four octets at a time: 2^16 is 1 modulo 0xffff, so wide sums fold into the same result.
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let wide = |word: &[u8; 4]| u64::from(u32::from_be_bytes(*word));
    let mut total = u64::from(start) + words.iter().map(wide).sum::<u64>() + wide(&last);
    while total > u64::from(u32::MAX) {
        total = (total & 0xffff_ffff) + (total >> 32);
    }
    total as u32
}

/// Folds a sum to sixteen bits.
pub(super) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
