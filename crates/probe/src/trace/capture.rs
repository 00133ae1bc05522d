//! Capture files: pcap and pcapng, plain or compressed with gzip or zstd, read as a stream.
//!
//! Memory is one buffer, whatever the file's size. Damage ends the reading; everything read before it is used.

use super::link::{LinkType, Unread, ip_of};
use super::unpack::{Full, Stored, decompressed};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A larger block is skipped: the largest frame that tcpdump keeps is 262,144 octets, but key logs and comments may be longer.
const BLOCK_MAX: usize = 1 << 20;
/// Maximum number of interfaces remembered per pcapng section; packets of others are counted as unreadable.
const INTERFACES_MAX: usize = 4_096;
const NS_PER_S: u128 = 1_000_000_000;
/// The type of the obsolete Packet Block.
const OLD_PACKET: u32 = 2;
/// Types of all blocks that hold a packet (draft-ietf-opsawg-pcapng, section 11.1).
const PACKET_BLOCKS: [u32; 3] = [OLD_PACKET, 3, 6];
/// The length that a block has twice, at its beginning and at its end.
const LENGTH_OCTETS: u64 = 4;

/// Why a file cannot be read as a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened or read.
    #[error("cannot read {0}")]
    Io(#[from] io::Error),
    /// Neither format.
    #[error("this is neither a pcap nor a pcapng file; write one with `tcpdump -w FILE`")]
    Unknown,
    /// The file ends before its first header does.
    #[error("the file ends within its first header: the capture was cut off; capture again")]
    Empty,
    /// There the fields of a packet's header are in another order.
    #[error("pcap files before version 2.3 are not read; write it anew with `tcpdump -r FILE -w NEW`")]
    Old,
    /// No interface with a readable link type.
    #[error("link type {0} is not read; capture on an interface with one of {read}", read = LinkType::READ)]
    LinkType(i32),
}

/// One packet of a capture.
pub(crate) struct Packet<'a> {
    /// Time stamp in nanoseconds since 1970.
    pub(crate) unix_ns: u64,
    /// Why nothing can be read of it, instead of its link type.
    pub(crate) link: Result<LinkType, Unread>,
    /// The captured bytes.
    pub(crate) bytes: &'a [u8],
    /// The original length.
    pub(crate) octets: u32,
}

/// How the reading ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ending {
    /// Octets of the (uncompressed) capture that were used.
    pub octets: u64,
    /// Why the rest was not used: `None` at a regular end.
    pub damage: Option<String>,
    /// Octets of that rest; counted until they are more than were used. What cannot be unpacked is counted by its share of the file.
    pub lost: u64,
    /// Octets of packets among those that were used: key logs and comments in front of them show nothing of how much was read.
    packets: u64,
    /// The rest is the beginning of one packet whose end is not in the file, as a program leaves it that is stopped while it writes.
    is_one_cut_off: bool,
}

impl Ending {
    /// Whether most of the capture lies behind the damage.
    pub fn is_mostly_lost(&self) -> bool {
        self.lost > self.packets && !self.is_one_cut_off
    }
}

/// No packet of IP is longer, with what a link puts in front: a rest of more is not one that is cut off.
const PACKET_MAX: u64 = 65_535 + 1_024;
/// Octets that a frame has behind its packet: padding to Ethernet's least, check sequences, what switches append.
const BEHIND_MAX: usize = 128;
/// Octets that a block has beside its packet: its head, and comments of usual length.
const OPTIONS_MAX: u64 = 4 << 10;

/// An interface of a section, or the one of a pcap file.
#[derive(Clone, Copy)]
struct Interface {
    link: Result<LinkType, Unread>,
    snaplen: u32,
    /// Ticks per second and their offset in seconds.
    ticks_per_s: u128,
    offset_s: i64,
}

impl Interface {
    fn time(&self, ticks: u64) -> u64 {
        // The case of nearly all files; the general form divides 128 bits.
        match (self.ticks_per_s, self.offset_s) {
            (NS_PER_S, 0) => return ticks,
            (1_000_000, 0) => return ticks.saturating_mul(1_000),
            _ => {}
        }
        let ns = u128::from(ticks) * NS_PER_S / self.ticks_per_s;
        let moved =
            i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(i128::from(self.offset_s) * NS_PER_S as i128);
        u64::try_from(moved.max(0)).unwrap_or(u64::MAX)
    }
}

/// Ticks per second of an `if_tsresol` option: a power of ten, or of two if the top bit is set.
///
/// draft-ietf-opsawg-pcapng, section 4.2. Anything finer than 2^63 or 10^19 ticks is not a valid clock.
fn ticks_per_s(resolution: u8) -> u128 {
    let exponent = u32::from(resolution & 0x7F);
    if resolution & 0x80 == 0 { 10_u128.pow(exponent.min(19)) } else { 1 << exponent.min(63) }
}

/// Passes each packet of `file` to `each` until the end, the first damage, or until `each` returns false.
pub(crate) fn packets(
    file: impl Read + Send,
    mut each: impl FnMut(Packet<'_>) -> bool,
) -> Result<Ending, CaptureError> {
    let mut stored = Stored::new(file);
    let file = Full::new(decompressed(&mut stored)?);
    let broken = Arc::clone(&file.broken);
    let mut reader = create_reader(BLOCK_MAX, file).map_err(|e| match e {
        PcapError::HeaderNotRecognized => CaptureError::Unknown,
        PcapError::ReadError => CaptureError::Io(io::Error::other("it: the file or its compression is damaged")),
        _ => CaptureError::Empty,
    })?;
    let mut state = State::default();
    let mut ending = Ending::default();
    let mut refilled_at = None;
    loop {
        let empty = reader.data().is_empty();
        match reader.next() {
            // Nothing on a wire has no octets: both lengths of a packet were zeroed, and its data follow as if they were the next.
            Ok((_, PcapBlockOwned::Legacy(packet))) if packet.caplen == 0 && packet.origlen == 0 => {
                ending.damage = Some("a packet has no length".to_owned());
                break;
            }
            Ok((length, block)) => {
                let holds = holds_packet(&block);
                let go_on = state.block(block, &mut each) && !state.old;
                reader.consume(length);
                ending.octets += length as u64;
                ending.packets += if holds { length as u64 } else { 0 };
                if !go_on {
                    break;
                }
            }
            Err(PcapError::Eof) => break,
            // Near the end of its buffer the parser may also request a larger one: retry with a full one.
            Err(PcapError::Incomplete(_) | PcapError::BufferTooSmall) if refilled_at != Some(ending.octets) => {
                refilled_at = Some(ending.octets);
                if reader.refill().is_err() {
                    break;
                }
            }
            Err(PcapError::UnexpectedEof | PcapError::Incomplete(_)) if empty => break,
            Err(e) => {
                let why = damage(&e);
                let ends = matches!(e, PcapError::UnexpectedEof | PcapError::Incomplete(_));
                let Some((kind, length)) = large_block(reader.data(), &state) else {
                    ending.is_one_cut_off = ends && state.is_packets_beginning(reader.data());
                    ending.damage = Some(why);
                    break;
                };
                match skip(&mut *reader, length, state.big_endian) {
                    Ok(()) => ending.octets += length,
                    Err(why) => {
                        ending.damage = Some(why.to_owned());
                        break;
                    }
                }
                let too_large = Packet { unix_ns: 0, link: Err(Unread::TooLarge), bytes: &[], octets: 0 };
                if PACKET_BLOCKS.contains(&kind) && !each(too_large) {
                    break;
                }
            }
        }
    }
    if ending.damage.is_some() {
        ending.lost = rest(&mut *reader, ending.octets);
    }
    drop(reader);
    if broken.load(Ordering::Relaxed) {
        ending.damage = Some("the rest of the file cannot be read or unpacked".to_owned());
        let (used, behind) = stored.rest();
        let share = u128::from(ending.octets) * u128::from(behind) / u128::from(used.max(1));
        ending.lost += u64::try_from(share).unwrap_or(u64::MAX);
        ending.is_one_cut_off &= behind == 0;
    }
    match (state.read_any, state.refused) {
        _ if state.old => Err(CaptureError::Old),
        (false, Some(number)) => Err(CaptureError::LinkType(number)),
        _ => Ok(ending),
    }
}

fn holds_packet(block: &PcapBlockOwned<'_>) -> bool {
    match block {
        PcapBlockOwned::Legacy(_) => true,
        PcapBlockOwned::LegacyHeader(_) => false,
        PcapBlockOwned::NG(block) => match block {
            Block::EnhancedPacket(_) | Block::SimplePacket(_) => true,
            Block::Unknown(b) => [OLD_PACKET, OLD_PACKET.swap_bytes()].contains(&b.block_type),
            _ => false,
        },
    }
}

/// The type and length of a block that begins here and is longer than what a full buffer holds; `None` if it is not one.
fn large_block(data: &[u8], state: &State) -> Option<(u32, u64)> {
    let (kind, length) = (state.word(data, 0)?, u64::from(state.word(data, 4)?));
    // A buffer that is not full ends with the file; the parser wants some room beyond a block.
    const ROOM: u64 = 64;
    let is_large = data.len() > BLOCK_MAX / 2 && length + ROOM >= data.len() as u64;
    (state.next_generation && length.is_multiple_of(4) && is_large).then_some((kind, length))
}

/// Passes over `length` octets, of which the last repeat that length.
fn skip(reader: &mut dyn PcapReaderIterator, length: u64, big_endian: bool) -> Result<(), &'static str> {
    const CUT_OFF: &str = "a block larger than the rest of the file begins: it is damaged or cut off";
    let mut left = length - LENGTH_OCTETS;
    loop {
        let step = left.min(reader.data().len() as u64);
        reader.consume(step as usize);
        left -= step;
        if let (0, Some(end)) = (left, reader.data().first_chunk()) {
            let stated = if big_endian { u32::from_be_bytes(*end) } else { u32::from_le_bytes(*end) };
            reader.consume(end.len());
            return if u64::from(stated) == length { Ok(()) } else { Err("a block is damaged") };
        }
        let before = reader.data().len();
        if reader.refill().is_err() || reader.data().len() == before {
            return Err(CUT_OFF);
        }
    }
}

/// Octets that are left, counted until they are more than `most`.
fn rest(reader: &mut dyn PcapReaderIterator, most: u64) -> u64 {
    let mut count = 0;
    loop {
        let here = reader.data().len();
        reader.consume(here);
        count += here as u64;
        if count > most || reader.refill().is_err() || reader.data().is_empty() {
            return count;
        }
    }
}

/// What an error of the parser means for the file.
fn damage(error: &PcapError<&[u8]>) -> String {
    match error {
        PcapError::UnexpectedEof | PcapError::Incomplete(_) => "the last packet is cut off".to_owned(),
        PcapError::BufferTooSmall => format!("a block claims to be longer than {BLOCK_MAX} octets"),
        _ => "a block is damaged".to_owned(),
    }
}

#[derive(Default)]
struct State {
    interfaces: Vec<Interface>,
    /// A packet of a readable link type was seen.
    read_any: bool,
    /// An unsupported link type.
    refused: Option<i32>,
    /// A pcap file before version 2.3.
    old: bool,
    /// The section, or the pcap file, is big-endian.
    big_endian: bool,
    /// A pcapng file.
    next_generation: bool,
}

/// The body of an obsolete Packet Block (draft-ietf-opsawg-pcapng, appendix A), which files before 2010 have: its interface, ticks,
/// length on the wire, and what was captured.
pub(super) fn old_packet(body: &[u8], big_endian: bool) -> Option<(usize, u64, u32, &[u8])> {
    let number = |at: usize, octets: usize| {
        let bytes = body.get(at..at + octets)?;
        let push = |n: u64, octet: &u8| n << 8 | u64::from(*octet);
        Some(if big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) })
    };
    let (interface, kept, octets) = (number(0, 2)?, number(12, 4)?, number(16, 4)?);
    let bytes = body.get(20..)?.get(..usize::try_from(kept).ok()?)?;
    Some((interface as usize, number(4, 4)? << 32 | number(8, 4)?, octets as u32, bytes))
}

impl State {
    fn word(&self, data: &[u8], at: usize) -> Option<u32> {
        let bytes = data.get(at..at + 4)?.try_into().ok()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }
    /// Whether the data of which the file has no more can begin a packet. A length that was damaged contradicts the other ones.
    fn is_packets_beginning(&self, data: &[u8]) -> bool {
        let word = |at| self.word(data, at).map(u64::from);
        let (captured, wire) = if self.next_generation { (20, 24) } else { (8, 12) };
        let (Some(captured), Some(wire)) = (word(captured), word(wire)) else { return true };
        let fits = match (self.next_generation, word(0), word(4)) {
            // The part of a second.
            (false, _, part) => part.is_some_and(|part| u128::from(part) < NS_PER_S),
            (true, Some(2 | 6), Some(length)) => (captured..=captured + OPTIONS_MAX).contains(&length),
            _ => return false,
        };
        fits && captured <= wire.min(PACKET_MAX) && !self.is_longer_than_its_packet(data, captured)
    }
    /// Whether a frame of so many octets, whose beginning is there, contradicts the length in its packet's own header.
    fn is_longer_than_its_packet(&self, data: &[u8], captured: u64) -> bool {
        let (number, at) = match self.next_generation {
            true if self.word(data, 0) == Some(6) => (self.word(data, 8).unwrap_or(0), 28),
            // Which interface an obsolete block is of is not looked for.
            true => return false,
            false => (0, 16),
        };
        let link = self.interfaces.get(number as usize).and_then(|interface| interface.link.ok());
        let frame = data.get(at..).unwrap_or_default();
        let Some(packet) = link.and_then(|link| ip_of(link, frame).ok()) else { return false };
        let length = |at: usize| Some(usize::from(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
        let stated = match packet.first().map(|first| first >> 4) {
            Some(4) => length(2),
            Some(6) => length(4).filter(|octets| *octets > 0).map(|octets| 40 + octets),
            _ => None,
        };
        // Of none the sender's card was to write it.
        let stated = stated.filter(|octets| *octets > 0);
        stated.is_some_and(|octets| captured > (frame.len() - packet.len() + octets + BEHIND_MAX) as u64)
    }
    fn interface(&mut self, number: i32, snaplen: u32, ticks_per_s: u128, offset_s: i64) {
        let link = LinkType::of(number).ok_or(Unread::LinkType);
        match link {
            Ok(_) => self.read_any = true,
            Err(_) => self.refused = Some(number),
        }
        if self.interfaces.len() < INTERFACES_MAX {
            self.interfaces.push(Interface { link, snaplen, ticks_per_s, offset_s });
        }
    }
    /// A packet of a section's interface. If the interface was not described, or not remembered, the packet is unreadable.
    fn packet<'a>(&self, interface: usize, ticks: u64, octets: u32, bytes: &'a [u8]) -> Packet<'a> {
        let interface = self.interfaces.get(interface);
        let unix_ns = interface.map_or(0, |interface| interface.time(ticks));
        let link = interface.map_or(Err(Unread::Interface), |interface| interface.link);
        Packet { unix_ns, link, bytes, octets: octets.max(bytes.len() as u32) }
    }
    /// Processes a block; false ends the reading.
    fn block(&mut self, block: PcapBlockOwned<'_>, each: &mut impl FnMut(Packet<'_>) -> bool) -> bool {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.big_endian = header.is_bigendian();
                self.old = (header.version_major, header.version_minor) < (2, 3);
                let ticks = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                // The upper bits of the field hold the length of a frame check sequence, not the type.
                self.interface(header.network.0 & 0x03FF_FFFF, header.snaplen, ticks, 0);
            }
            PcapBlockOwned::Legacy(packet) => {
                let Some(interface) = self.interfaces.first() else { return true };
                let ticks = u128::from(packet.ts_sec) * interface.ticks_per_s + u128::from(packet.ts_usec);
                let unix_ns = interface.time(u64::try_from(ticks).unwrap_or(u64::MAX));
                let (link, bytes) = (interface.link, packet.data);
                return each(Packet { unix_ns, link, bytes, octets: packet.origlen.max(bytes.len() as u32) });
            }
            PcapBlockOwned::NG(block) => return self.block_of_pcapng(&block, each),
        }
        true
    }
    fn block_of_pcapng(&mut self, block: &Block<'_>, each: &mut impl FnMut(Packet<'_>) -> bool) -> bool {
        match block {
            Block::SectionHeader(b) => {
                self.interfaces.clear();
                self.next_generation = true;
                self.big_endian = b.big_endian();
            }
            Block::InterfaceDescription(b) => {
                self.interface(b.linktype.0, b.snaplen, ticks_per_s(b.if_tsresol), b.if_tsoffset);
            }
            Block::EnhancedPacket(b) => {
                let ticks = u64::from(b.ts_high) << 32 | u64::from(b.ts_low);
                return each(self.packet(b.if_id as usize, ticks, b.origlen, b.packet_data()));
            }
            // The parser reads an unknown block's type in one byte order, whatever the section's.
            Block::Unknown(b) if b.block_type == if self.big_endian { OLD_PACKET.swap_bytes() } else { OLD_PACKET } => {
                let Some((interface, ticks, octets, bytes)) = old_packet(b.data, self.big_endian) else { return true };
                return each(self.packet(interface, ticks, octets, bytes));
            }
            Block::SimplePacket(b) => {
                let Some(interface) = self.interfaces.first() else { return true };
                // Without times, RTT and rates are unknown: the packet counts as unreadable.
                let data = b.packet_data();
                let kept = if interface.snaplen == 0 { data.len() } else { data.len().min(interface.snaplen as usize) };
                return each(Packet { unix_ns: 0, link: Err(Unread::NoTime), bytes: &data[..kept], octets: b.origlen });
            }
            _ => {}
        }
        true
    }
}
