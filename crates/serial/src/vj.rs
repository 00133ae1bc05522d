//! TCP/IP headers compressed against the previous packet of the same connection (RFC 1144).
//!
//! Departures, all towards fewer wrong packets: a packet whose IP header checksum does not hold goes as it is; flags beyond
//! those of 1990 (RFC 3168) and reserved bits send a full header when they change; and a packet whose TCP checksum does not
//! hold after decompression is dropped here, as the host behind would.

use wavelane_wire::Reader;
use wavelane_wire::ip::{IPV4_HEADER_LEN, checksum};
use wavelane_wire::serial::vj::{COMPRESSED_MAX, Change, Moves, SLOT_AT};
use wavelane_wire::tcp::{Flags, PROTOCOL_TCP, TCP_HEADER_LEN};

/// The most octets of both headers: sixty each.
const HEADERS_MAX: usize = 120;
/// "More fragments" and the fragment offset.
const FRAGMENT_BITS: u16 = 0x3fff;

/// The headers of one packet.
#[derive(Clone, Debug)]
struct Headers {
    octets: [u8; HEADERS_MAX],
    /// Octets of the IP header, and of both.
    ip: usize,
    len: usize,
}

impl Headers {
    /// The headers of a whole, unfragmented TCP packet over IPv4.
    fn of(packet: &[u8]) -> Option<Self> {
        let first = *packet.first()?;
        let ip = usize::from(first & 0xf) * 4;
        let fixed = packet.get(..ip).filter(|header| first >> 4 == 4 && header.len() >= IPV4_HEADER_LEN)?;
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let fragment = u16::from_be_bytes([fixed[6], fixed[7]]);
        let whole = total == packet.len() && fragment & FRAGMENT_BITS == 0 && fixed[SLOT_AT] == PROTOCOL_TCP;
        if !whole || checksum(&[fixed]) != 0 {
            return None;
        }
        let len = ip + usize::from(packet.get(ip + 12)? >> 4) * 4;
        let headers = packet.get(..len).filter(|headers| headers.len() >= ip + TCP_HEADER_LEN)?;
        let mut octets = [0; HEADERS_MAX];
        octets[..len].copy_from_slice(headers);
        Some(Self { octets, ip, len })
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.octets[at], self.octets[at + 1]])
    }
    fn put_u16(&mut self, at: usize, n: u16) {
        self.octets[at..at + 2].copy_from_slice(&n.to_be_bytes());
    }
    /// A number of the TCP header: 4 is the sequence, 8 the acknowledgement.
    fn u32(&self, at: usize) -> u32 {
        self.octets[self.ip + at..][..4].iter().fold(0, |n, &octet| n << 8 | u32::from(octet))
    }
    fn advance(&mut self, at: usize, by: u16) {
        let moved = self.u32(at).wrapping_add(u32::from(by));
        self.octets[self.ip + at..][..4].copy_from_slice(&moved.to_be_bytes());
    }
    fn flags(&self) -> Flags {
        Flags(self.octets[self.ip + 13])
    }
    fn set_flag(&mut self, flag: Flags, on: bool) {
        let flags = self.flags();
        self.octets[self.ip + 13] = if on { flags.with(flag) } else { flags.without(flag) }.0;
    }
    /// Octets of data behind the headers.
    fn data(&self) -> u16 {
        self.u16(2).wrapping_sub(self.len as u16)
    }
    /// Addresses and ports.
    fn connection(&self) -> ([u8; 8], [u8; 4]) {
        let (mut addresses, mut ports) = ([0; 8], [0; 4]);
        addresses.copy_from_slice(&self.octets[12..20]);
        ports.copy_from_slice(&self.octets[self.ip..][..4]);
        (addresses, ports)
    }
    /// What may not change from one compressed packet to the next (RFC 1144, figure 3): all but the fields with deltas.
    fn constant(&self) -> impl PartialEq + '_ {
        let tcp = &self.octets[self.ip..self.len];
        let flags = self.flags().without(Flags::PSH).without(Flags::URG);
        let (options, ip_options) = (&tcp[TCP_HEADER_LEN..], &self.octets[IPV4_HEADER_LEN..self.ip]);
        (&self.octets[..2], &self.octets[6..10], ip_options, tcp[12], flags, options)
    }
}

/// What stands where the packet stood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VjKind {
    /// The packet itself.
    Ip,
    /// The packet with a slot's number in its protocol field.
    Full,
    /// A compressed header and the data.
    Compressed,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    headers: Option<Headers>,
    used: u64,
}

/// The sending end.
#[derive(Debug)]
pub struct Compressor {
    slots: Vec<Slot>,
    /// Whether the slot is left out when it is the previous packet's ...
    omits_slot: bool,
    /// ... also of a packet with data.
    omits_slot_of_data: bool,
    last: Option<usize>,
    /// Packets so far, by which the least recently used slot is found.
    clock: u64,
}

impl Compressor {
    /// With so many slots, 1 to 256. `omits_slot` and `omits_slot_of_data`: a slot is left out if it is the previous packet's, of packets
    /// without data and with.
    pub fn new(slots: usize, omits_slot: bool, omits_slot_of_data: bool) -> Self {
        let slots = vec![Slot::default(); slots.clamp(1, 256)];
        Self { slots, omits_slot, omits_slot_of_data: omits_slot && omits_slot_of_data, last: None, clock: 0 }
    }

    /// Appends the packet, compressed if it can be, and says which it is. Never longer than the packet.
    pub fn compress(&mut self, packet: &[u8], out: &mut Vec<u8>) -> VjKind {
        let steady = |headers: &Headers| {
            let control = Flags::SYN.with(Flags::FIN).with(Flags::RST).with(Flags::ACK);
            headers.flags().0 & control.0 == Flags::ACK.0
        };
        let Some(headers) = Headers::of(packet).filter(steady) else {
            out.extend_from_slice(packet);
            return VjKind::Ip;
        };
        let (at, change) = self.place(headers);
        let (slot, start, end) =
            (at as u8, out.len(), self.slots[at].headers.as_ref().map_or(0, |headers| headers.len));
        let kind = match change {
            Some(change) => {
                let omits = if packet.len() > end { self.omits_slot_of_data } else { self.omits_slot };
                let slot = (!omits || self.last != Some(at)).then_some(slot);
                Change { slot, ..change }.put(out);
                debug_assert!(out.len() - start <= COMPRESSED_MAX);
                out.extend_from_slice(&packet[end..]);
                VjKind::Compressed
            }
            None => {
                out.extend_from_slice(packet);
                out[start + SLOT_AT] = slot;
                VjKind::Full
            }
        };
        self.last = Some(at);
        kind
    }

    /// Keeps the headers in their connection's slot, or in the one longest unused, and says how they differ from those there.
    fn place(&mut self, headers: Headers) -> (usize, Option<Change>) {
        self.clock += 1;
        let connection = headers.connection();
        let known = |slot: &Slot| slot.headers.as_ref().is_some_and(|old| old.connection() == connection);
        let at = self.slots.iter().position(known).unwrap_or_else(|| {
            let oldest = self.slots.iter().enumerate().min_by_key(|(_, slot)| slot.used);
            oldest.map_or(0, |(at, _)| at)
        });
        let slot = &mut self.slots[at];
        slot.used = self.clock;
        let old = slot.headers.replace(headers);
        let change = old.filter(|old| old.connection() == connection).zip(slot.headers.as_ref());
        (at, change.and_then(|(old, new)| difference(&old, new)))
    }
}

/// How a packet's headers differ from its connection's previous ones, if that can be said in a compressed header.
fn difference(old: &Headers, new: &Headers) -> Option<Change> {
    if old.ip != new.ip || old.len != new.len || old.constant() != new.constant() {
        return None;
    }
    let delta = |at: usize| u16::try_from(new.u32(at).wrapping_sub(old.u32(at))).ok();
    let (window_at, urgent_at) = (new.ip + 14, new.ip + 18);
    let urgent = new.flags().has(Flags::URG).then(|| new.u16(urgent_at));
    if urgent.is_none() && new.u16(urgent_at) != old.u16(urgent_at) {
        return None;
    }
    let (ack, sequence) = (delta(8)?, delta(4)?);
    let window = new.u16(window_at).wrapping_sub(old.u16(window_at));
    // RFC 1144's own decompressor leaves URG set behind the two short masks.
    let short = !old.flags().has(Flags::URG);
    let moves = match (urgent, window, ack, sequence) {
        // Data after an acknowledgement; anything else unchanged is a retransmission, which shall find the ends in step.
        (None, 0, 0, 0) if old.data() != 0 || new.data() == 0 => return None,
        (None, 0, ack, sequence) if short && ack == sequence && sequence != 0 && sequence == old.data() => Moves::Echo,
        (None, 0, 0, sequence) if short && sequence != 0 && sequence == old.data() => Moves::Data,
        _ => Moves::Given { urgent, window, ack, sequence },
    };
    let id = new.u16(4).wrapping_sub(old.u16(4));
    let (checksum, push) = (new.u16(new.ip + 16), new.flags().has(Flags::PSH));
    (!moves.is_ambiguous()).then_some(Change { slot: None, push, checksum, moves, id })
}

/// The receiving end. A packet that it refuses is lost; the sender's next full header puts it right.
#[derive(Debug)]
pub struct Decompressor {
    slots: Vec<Option<Headers>>,
    last: Option<usize>,
    /// A frame was lost, perhaps of another slot: what names no slot is dropped (RFC 1144, section 4.1).
    tossing: bool,
}

impl Decompressor {
    /// With so many slots, 1 to 256.
    pub fn new(slots: usize) -> Self {
        Self { slots: vec![None; slots.clamp(1, 256)], last: None, tossing: false }
    }

    /// Tells that a frame was lost to noise.
    pub fn line_error(&mut self) {
        self.tossing = true;
    }

    /// Puts a packet of [`VjKind::Full`] right in place and keeps its headers. Returns whether it is a packet.
    pub fn full(&mut self, packet: &mut [u8]) -> bool {
        let kept = self.keep(packet);
        self.tossing = !kept;
        kept
    }

    fn keep(&mut self, packet: &mut [u8]) -> bool {
        let Some(slot) = packet.get_mut(SLOT_AT) else { return false };
        let at = usize::from(core::mem::replace(slot, PROTOCOL_TCP));
        match (Headers::of(packet), self.slots.get_mut(at)) {
            (Some(headers), Some(slot)) => {
                *slot = Some(headers);
                self.last = Some(at);
                true
            }
            _ => false,
        }
    }

    /// Appends the packet that a compressed one stands for. Returns whether there is one.
    pub fn compressed(&mut self, packet: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let restored = self.restore(packet, out).is_some();
        if !restored {
            out.truncate(start);
            self.tossing = true;
        }
        restored
    }

    fn restore(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let mut r = Reader::new(packet);
        let change = Change::parse(&mut r).ok()?;
        let data = r.take_rest();
        let at = match change.slot {
            Some(slot) => usize::from(slot),
            None => self.last.filter(|_| !self.tossing)?,
        };
        let mut headers = self.slots.get(at)?.clone()?;
        self.last = Some(at);
        self.tossing = false;
        headers.apply(&change, data.len())?;
        let (start, len) = (out.len(), headers.len);
        out.extend_from_slice(&headers.octets[..len]);
        out.extend_from_slice(data);
        if !tcp_checksum_holds(&out[start..], headers.ip) {
            return None;
        }
        self.slots[at] = Some(headers);
        Some(())
    }
}

impl Headers {
    /// The headers of the packet after this one, whose data has `data` octets.
    fn apply(&mut self, change: &Change, data: usize) -> Option<()> {
        let (ip, before) = (self.ip, self.data());
        let total = u16::try_from(self.len + data).ok()?;
        self.put_u16(ip + 16, change.checksum);
        self.set_flag(Flags::PSH, change.push);
        match change.moves {
            Moves::Echo => {
                self.advance(8, before);
                self.advance(4, before);
                self.set_flag(Flags::URG, false);
            }
            Moves::Data => {
                self.advance(4, before);
                self.set_flag(Flags::URG, false);
            }
            Moves::Given { urgent, window, ack, sequence } => {
                self.set_flag(Flags::URG, urgent.is_some());
                if let Some(urgent) = urgent {
                    self.put_u16(ip + 18, urgent);
                }
                self.put_u16(ip + 14, self.u16(ip + 14).wrapping_add(window));
                self.advance(8, ack);
                self.advance(4, sequence);
            }
        }
        self.put_u16(2, total);
        self.put_u16(4, self.u16(4).wrapping_add(change.id));
        self.put_u16(10, 0);
        let sum = checksum(&[&self.octets[..ip]]);
        self.put_u16(10, sum);
        Some(())
    }
}

fn tcp_checksum_holds(packet: &[u8], ip: usize) -> bool {
    let len = (packet.len() - ip) as u16;
    let mut pseudo = [0; 12];
    pseudo[..8].copy_from_slice(&packet[12..20]);
    pseudo[9] = PROTOCOL_TCP;
    pseudo[10..].copy_from_slice(&len.to_be_bytes());
    checksum(&[&pseudo, &packet[ip..]]) == 0
}
