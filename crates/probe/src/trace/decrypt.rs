//! Decrypts captured data datagrams with logged keys and writes their contents as another capture.

use super::capture::{self, CaptureError, Ending};
use super::link::{LinkType, ip_of};
use super::packet::nested;
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use wavelane_measure::pcapng::{LINKTYPE_PDU, LINKTYPE_RAW, PDU_TAGS, put_head, put_packet};
use wavelane_wire::datagram::{DATA_HEADER_LEN, DataHeader, OPEN_LEN_LEN, Suite, TAG_LEN, kind, open_octets};
use wavelane_wire::ip::{PROTOCOL_UDP, UDP_HEADER_LEN, checksum};
use wavelane_wire::keylog::{LoggedKey, NotAKey};

/// Maximum number of keys from a key log: a busy node's of a month.
const LOG_KEYS_MAX: usize = 1 << 16;
/// Maximum length of a key log's line in octets.
const LINE_MAX: u64 = 256;
/// Maximum number of damaged lines in a key log; a file with more is something else.
pub(super) const BAD_LINES_MAX: usize = 64;
/// Maximum number of keys tried for one datagram: those that share a receiver's index.
const TRIES_MAX: usize = 8;
/// Maximum number of positions tried for the start of a super-packet's second datagram.
const CUTS_MAX: usize = 4;
/// Packets between two calls of `go_on`.
const PACKETS_PER_STEP: u64 = 1 << 12;

/// Why a key log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// It cannot be read.
    #[error("cannot read {0}")]
    Io(#[from] io::Error),
    /// A line is not one of a key log.
    #[error("line {0}: {1}; `wavelaned --key-log FILE` and `wavelane run --keys` write such files")]
    Line(usize, NotAKey),
    /// Too many lines.
    #[error("more than {LOG_KEYS_MAX} keys: cut the log to the time of the capture")]
    TooMany,
    /// No key at all.
    #[error("there is no key in it: the capture's sessions were agreed on before or after it was written")]
    Empty,
}

/// The keys of a key log, by the receiver's index.
pub struct Keys(BTreeMap<u32, Vec<LessSafeKey>>);

impl Keys {
    /// Reads a key log. A duplicate key, logged at both ends of a session, counts once; damaged lines are skipped.
    pub fn read(log: impl BufRead) -> Result<Self, KeysError> {
        let mut log = log;
        let (mut bad, mut bad_lines) = (None, 0);
        let (mut seen, mut keys) = (std::collections::BTreeSet::new(), BTreeMap::<u32, Vec<LessSafeKey>>::new());
        for number in 1.. {
            let mut line = String::new();
            if (&mut log).take(LINE_MAX).read_line(&mut line)? == 0 {
                break;
            }
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // A full disk, or a copy of a log that is being written, leaves a truncated line.
            let logged: LoggedKey = match line.parse() {
                Ok(logged) => logged,
                Err(why) => {
                    bad_lines += 1;
                    if bad_lines > BAD_LINES_MAX {
                        return Err(KeysError::Line(number, why));
                    }
                    bad = bad.or(Some((number, why)));
                    continue;
                }
            };
            if !seen.insert((logged.receiver, logged.key)) {
                continue;
            }
            if seen.len() > LOG_KEYS_MAX {
                return Err(KeysError::TooMany);
            }
            let algorithm = match logged.suite {
                Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
                Suite::Aes256Gcm => &AES_256_GCM,
            };
            let key = UnboundKey::new(algorithm, &logged.key).expect("both ciphers take 32-byte keys");
            keys.entry(logged.receiver).or_default().push(LessSafeKey::new(key));
        }
        match (keys.is_empty(), bad) {
            (false, _) => Ok(Self(keys)),
            (true, Some((number, why))) => Err(KeysError::Line(number, why)),
            (true, None) => Err(KeysError::Empty),
        }
    }

    /// Decrypts a data datagram. `None` if none of the keys fits.
    fn open(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        let header = DataHeader::parse(datagram).ok()?;
        let (clear, sealed) = datagram.split_at(DATA_HEADER_LEN);
        if datagram[0] == kind::DATA_OPEN {
            return self.open_partly(header, datagram);
        }
        self.0.get(&header.receiver)?.iter().take(TRIES_MAX).find_map(|key| {
            let mut bytes = sealed.to_vec();
            let nonce = Nonce::assume_unique_for_key(header.nonce());
            let plain = key.open_in_place(nonce, Aad::from(clear), &mut bytes).ok()?;
            Some([&[kind::OPENED], &clear[1..], plain].concat())
        })
    }

    /// Decrypts a data datagram whose last octets are open.
    fn open_partly(&self, header: DataHeader, datagram: &[u8]) -> Option<Vec<u8>> {
        let open = open_octets(datagram).ok()?;
        let (clear, length) = (&datagram[..DATA_HEADER_LEN], &datagram[open.end..open.end + OPEN_LEN_LEN]);
        let hash = ring::digest::digest(&ring::digest::SHA256, &datagram[open.clone()]);
        let around = [clear, length, hash.as_ref()].concat();
        let (sealed, tag) = (&datagram[DATA_HEADER_LEN..open.start], &datagram[open.end + OPEN_LEN_LEN..]);
        self.0.get(&header.receiver)?.iter().take(TRIES_MAX).find_map(|key| {
            let mut bytes = [sealed, tag].concat();
            let nonce = Nonce::assume_unique_for_key(header.nonce());
            let plain = key.open_in_place(nonce, Aad::from(&around), &mut bytes).ok()?;
            Some([&[kind::OPENED], &clear[1..], plain, &datagram[open.clone()]].concat())
        })
    }

    /// Decrypts the datagrams of a payload: one, or several of equal size where the capture holds a packet that the network card was still
    /// to segment (UDP segmentation offload).
    fn open_all(&self, payload: &[u8]) -> Option<Vec<Vec<u8>>> {
        if let Some(opened) = self.open(payload) {
            return Some(vec![opened]);
        }
        let (head, least) = (payload.get(..6)?, DATA_HEADER_LEN + TAG_LEN);
        let starts = (least..payload.len().saturating_sub(least)).filter(|at| payload[*at..].starts_with(head));
        starts.take(CUTS_MAX).find_map(|size| payload.chunks(size).map(|datagram| self.open(datagram)).collect())
    }
}

/// Results for a capture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opened {
    /// Packets read.
    pub packets: u64,
    /// Data datagrams decrypted.
    pub opened: u64,
    /// Data datagrams without a matching key in the log: of other sessions, or not ours at all.
    pub without_key: u64,
    /// Data datagrams of which only the beginning was captured.
    pub cut_off: u64,
    /// Packets left out: not IP, nor, in a capture of lines, a datagram of ours.
    pub not_ip: u64,
    /// How the file ended.
    pub ending: Ending,
}

/// Why nothing, or not everything, was written.
#[derive(Debug, thiserror::Error)]
pub enum DecryptError {
    /// An error in the capture.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// An error in the new file.
    #[error("cannot write {0}")]
    Write(#[source] io::Error),
}

/// Copies the IP packets of a capture to `out`, or the datagrams of one that holds those of serial lanes, with data datagrams opened
/// where a key fits. `go_on` is asked now and then with the number of packets so far; false ends it early.
pub fn decrypt(
    file: impl Read + Send,
    keys: &Keys,
    out: &mut impl Write,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<Opened, DecryptError> {
    let mut sum = Opened::default();
    let mut block = Vec::new();
    let mut wrote = Ok(());
    // The file has one interface: the first packet's.
    let mut of_lines = None;
    let ending = capture::packets(file, |packet| {
        sum.packets += 1;
        let is_line = packet.link == Ok(LinkType::Pdu);
        let inner = match packet.bytes.starts_with(&PDU_TAGS) {
            _ if of_lines.is_some_and(|before| before != is_line) => None,
            true if is_line => Some(packet.bytes),
            _ => packet.link.and_then(|link| ip_of(link, packet.bytes)).ok(),
        };
        let Some(ip) = inner else {
            sum.not_ip += 1;
            return true;
        };
        // What is around a datagram of ours goes as a link's header does.
        let is_ours = |ip: &&[u8]| Udp::find(ip).is_some_and(|udp| InPacket::Udp(udp).is_data(ip));
        let ip = if is_line { ip } else { nested(ip).find(is_ours).unwrap_or(ip) };
        block.clear();
        if of_lines.replace(is_line).is_none() {
            put_head(&mut block, if is_line { LINKTYPE_PDU } else { LINKTYPE_RAW }, "opened", 0);
        }
        let behind = (packet.octets as usize).saturating_sub(packet.bytes.len() - ip.len());
        let place = if is_line { Some(InPacket::Tagged(behind)) } else { Udp::find(ip).map(InPacket::Udp) };
        let whole = place.filter(|place| place.is_data(ip)).and_then(|place| sum.open(&place, ip, keys));
        match whole {
            Some(packets) => packets.iter().for_each(|p| put_packet(&mut block, packet.unix_ns, None, p, p.len())),
            None => put_packet(&mut block, packet.unix_ns, None, ip, behind.max(ip.len())),
        }
        wrote = out.write_all(&block);
        wrote.is_ok() && (!sum.packets.is_multiple_of(PACKETS_PER_STEP) || go_on(sum.packets))
    })?;
    if of_lines.is_none() {
        put_head(&mut block, LINKTYPE_RAW, "opened", 0);
        wrote = out.write_all(&block);
    }
    wrote.and_then(|()| out.flush()).map_err(DecryptError::Write)?;
    sum.ending = ending;
    Ok(sum)
}

impl Opened {
    /// The packets that replace a captured one: `None` if it stays as it is.
    fn open(&mut self, place: &InPacket, packet: &[u8], keys: &Keys) -> Option<Vec<Vec<u8>>> {
        if place.end() > packet.len() {
            self.cut_off += 1;
            return None;
        }
        let Some(opened) = keys.open_all(place.payload(packet)) else {
            self.without_key += 1;
            return None;
        };
        self.opened += opened.len() as u64;
        Some(opened.iter().map(|datagram| place.with(packet, datagram)).collect())
    }
}

/// Where a packet's datagram is.
enum InPacket {
    Udp(Udp),
    /// Behind tags, of so many octets as there were.
    Tagged(usize),
}

impl InPacket {
    fn end(&self) -> usize {
        match self {
            Self::Udp(udp) => udp.end,
            Self::Tagged(octets) => *octets,
        }
    }
    /// The captured part.
    fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Udp(udp) => udp.payload(packet),
            Self::Tagged(_) => &packet[PDU_TAGS.len()..],
        }
    }
    fn is_data(&self, packet: &[u8]) -> bool {
        matches!(self.payload(packet).first(), Some(&(kind::DATA | kind::DATA_OPEN)))
    }
    /// The packet with another datagram.
    fn with(&self, packet: &[u8], datagram: &[u8]) -> Vec<u8> {
        match self {
            Self::Udp(udp) => udp.with(packet, datagram),
            Self::Tagged(_) => [&PDU_TAGS[..], datagram].concat(),
        }
    }
}

/// Position of a UDP datagram in an IP packet.
struct Udp {
    v6: bool,
    at: usize,
    end: usize,
}

impl Udp {
    fn find(ip: &[u8]) -> Option<Self> {
        let v6 = ip.first()? >> 4 == 6;
        let (at, protocol, whole) = if v6 {
            (40, *ip.get(6)?, true)
        } else {
            let fragment = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3FFF;
            (usize::from(ip.first()? & 0x0F) * 4, *ip.get(9)?, fragment == 0)
        };
        let head = ip.get(at..at + UDP_HEADER_LEN)?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let udp = protocol == PROTOCOL_UDP && whole && at >= 20 && length >= UDP_HEADER_LEN;
        udp.then_some(Self { v6, at, end: at + length })
    }
    /// The captured part of the payload.
    fn payload<'a>(&self, ip: &'a [u8]) -> &'a [u8] {
        &ip[self.at + UDP_HEADER_LEN..self.end.min(ip.len())]
    }
    /// The packet with another payload, which is no longer than its own; lengths and checksums are updated.
    fn with(&self, ip: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut packet = [&ip[..self.at + UDP_HEADER_LEN], payload].concat();
        let length = ((packet.len() - self.at) as u16).to_be_bytes();
        if self.v6 {
            packet[4..6].copy_from_slice(&length);
        } else {
            let total = (packet.len() as u16).to_be_bytes();
            packet[2..4].copy_from_slice(&total);
            packet[10..12].fill(0);
            let sum = checksum(&[&packet[..self.at]]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        packet[self.at + 4..self.at + 6].copy_from_slice(&length);
        packet[self.at + 6..self.at + 8].fill(0);
        let (head, datagram) = packet.split_at(self.at);
        let addresses = if self.v6 { &head[8..40] } else { &head[12..20] };
        // Zero would mean that there is no checksum (RFC 768).
        let sum = match checksum(&[addresses, &[0, PROTOCOL_UDP], &length, datagram]) {
            0 => u16::MAX,
            sum => sum,
        };
        packet[self.at + 6..self.at + 8].copy_from_slice(&sum.to_be_bytes());
        packet
    }
}
