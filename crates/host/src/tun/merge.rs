//! Merges consecutive TCP segments of one flow into one super-packet for the kernel.
//!
//! A super-packet can be split again into exactly the received segments: segments are merged only if they differ only in sequence number,
//! push flag and length, are in order, and have a correct checksum (a wrong one must stay wrong). Only IPv4 identifications of packets that
//! forbid fragmentation may change (RFC 6864, section 4.1).

use super::header::{
    ACK, GSO_TCPV4, GSO_TCPV6, Layout, NEEDS_CSUM, PROTOCOL_TCP, PSH, TCP_CHECKSUM_AT, VnetHeader, fold,
};

/// Maximum number of flows merged at the same time; beyond that the oldest train is written.
pub const TRAINS_MAX: usize = 8;
/// Segments in one super-packet.
pub const SEGMENTS_MAX: usize = 64;
/// Maximum length of an IPv4 packet.
const LENGTH_MAX: usize = 65_535;

/// Segments of one flow, merged so far.
#[derive(Debug)]
struct Train {
    packet: Vec<u8>,
    layout: Layout,
    /// Payload size of every segment but the last.
    size: usize,
    segments: usize,
    /// The last segment was short or pushed: nothing may be appended.
    closed: bool,
}

/// Trains waiting to be written, oldest first.
#[derive(Debug, Default)]
pub(super) struct Merger {
    trains: Vec<Train>,
    /// Buffers of written trains, for reuse.
    spare: Vec<Vec<u8>>,
}

impl Merger {
    /// Takes a packet; `write` gets the packets to be written now, in order within each flow.
    pub(super) fn push(&mut self, packet: &[u8], write: &mut impl FnMut(VnetHeader, &[u8])) {
        let Some(layout) = Layout::of(packet).filter(|l| l.protocol == PROTOCOL_TCP) else {
            return write(VnetHeader::default(), packet);
        };
        let same = self.trains.iter().position(|t| t.is_flow_of(layout, packet));
        if let Some(i) = same {
            if self.trains[i].take(layout, packet) {
                return;
            }
            self.leave(i, write);
        }
        if !may_begin(layout, packet) {
            return write(VnetHeader::default(), packet);
        }
        if self.trains.len() == TRAINS_MAX {
            self.leave(0, write);
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        let closed = packet[layout.flags_at()] & PSH != 0;
        let size = packet.len() - layout.payload;
        self.trains.push(Train { packet: buffer, layout, size, segments: 1, closed });
    }
    /// Writes all trains.
    pub(super) fn flush(&mut self, write: &mut impl FnMut(VnetHeader, &[u8])) {
        while !self.trains.is_empty() {
            self.leave(0, write);
        }
    }
    fn leave(&mut self, i: usize, write: &mut impl FnMut(VnetHeader, &[u8])) {
        let mut train = self.trains.remove(i);
        let about = train.finish();
        write(about, &train.packet);
        self.spare.push(train.packet);
    }
}

/// Whether segments may be appended to this one: plain data, complete and intact.
fn may_begin(layout: Layout, packet: &[u8]) -> bool {
    let plain = packet[layout.flags_at()] & !PSH == ACK;
    let options = !layout.six && layout.transport != 20;
    let length = if layout.six {
        40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]))
    } else {
        usize::from(u16::from_be_bytes([packet[2], packet[3]]))
    };
    plain && !options && length == packet.len() && packet.len() > layout.payload && layout.is_intact(packet)
}

impl Train {
    /// Same family, addresses and ports.
    fn is_flow_of(&self, layout: Layout, packet: &[u8]) -> bool {
        let (from, to) = if layout.six { (8, 40) } else { (12, 20) };
        let ports = layout.transport..layout.transport + 4;
        self.layout.six == layout.six
            && self.packet[from..to] == packet[from..to]
            && self.packet[self.layout.transport..self.layout.transport + 4] == packet[ports]
    }
    /// Appends the segment if it continues the train.
    fn take(&mut self, layout: Layout, packet: &[u8]) -> bool {
        let fresh = packet.len() - layout.payload;
        let next = self.layout.sequence(&self.packet).wrapping_add((self.packet.len() - self.layout.payload) as u32);
        let fits = !self.closed
            && layout == self.layout
            && (1..=self.size).contains(&fresh)
            && self.segments < SEGMENTS_MAX
            && self.packet.len() + fresh <= LENGTH_MAX
            && layout.sequence(packet) == next
            && self.same_headers(packet)
            && may_begin(layout, packet);
        if !fits {
            return false;
        }
        self.packet.extend_from_slice(&packet[layout.payload..]);
        let pushed = packet[layout.flags_at()] & PSH;
        self.packet[layout.flags_at()] |= pushed;
        self.closed = pushed != 0 || fresh < self.size;
        self.segments += 1;
        true
    }
    /// Everything is equal except lengths, checksums, sequence and push.
    fn same_headers(&self, packet: &[u8]) -> bool {
        let (a, b, t) = (&self.packet, packet, self.layout.transport);
        let equal = |from: usize, to: usize| a[from..to] == b[from..to];
        let ip = if self.layout.six {
            // Traffic class and flow label; next header and hop limit.
            equal(0, 4) && equal(6, 8)
        } else {
            let expected = Layout::identification(a).wrapping_add(self.segments as u16);
            let free = a[6] & 0x40 != 0;
            equal(0, 2) && equal(6, 10) && (free || Layout::identification(b) == expected)
        };
        // Acknowledgement and header length; window; urgent pointer and options.
        ip && equal(t + 8, t + 13) && equal(t + 14, t + 16) && equal(t + 18, self.layout.payload)
    }
    /// Writes lengths and partial checksums; returns the header for the kernel.
    fn finish(&mut self) -> VnetHeader {
        if self.segments == 1 {
            return VnetHeader::default();
        }
        self.layout.finish_ip(&mut self.packet, None);
        let pseudo = fold(self.layout.pseudo_sum(&self.packet));
        let at = self.layout.checksum_at();
        self.packet[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: if self.layout.six { GSO_TCPV6 } else { GSO_TCPV4 },
            header_len: self.layout.payload as u16,
            gso_size: self.size as u16,
            csum_start: self.layout.transport as u16,
            csum_offset: TCP_CHECKSUM_AT as u16,
        }
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
