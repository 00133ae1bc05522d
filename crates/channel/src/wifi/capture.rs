//! Captured frames in the format of capture files: a radiotap header, then the 802.11 frame.
//!
//! Formats: radiotap.org ("Defined fields"), IEEE Std 802.11-2016 clause 9, all little-endian. No FCS is kept.

use super::ear::Heard;
use super::station::{Kind, OnAir};
use super::{Category, FRAME_MAX, Phy, PhyRate, Wifi, WifiConfig};
use std::collections::VecDeque;
use wavelane_base::{Instant, Span};

/// LINKTYPE_IEEE802_11_RADIOTAP, for the file that holds the frames (tcpdump.org/linktypes.html).
pub const LINKTYPE_RADIOTAP: u16 = 127;
/// Most frames kept until they are fetched; later ones are counted in [`Wifi::captures_missed`].
pub const CAPTURES_BOUND: usize = 1 << 12;

/// Fewest bytes that may be kept of a captured frame: the radiotap header and the longest MAC header.
pub const SNAPLEN_MIN: usize = 23 + 26;
/// Most bytes that a captured frame can have: those headers, LLC/SNAP and the longest packet.
pub const SNAPLEN_MAX: usize = SNAPLEN_MIN + 8 + FRAME_MAX;

/// Where frames are captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapturePoint {
    /// Every frame once, regardless of its receivers.
    Medium,
    /// Frames that this station sends, and those it receives, with or without error.
    Station(usize),
}

/// One captured frame, without its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captured {
    /// When it ended.
    pub at: Instant,
    /// Index of the capture point.
    pub point: usize,
    /// Whether the point is the sender.
    pub sent: bool,
    /// Bytes with the radiotap header, before truncation.
    pub octets: usize,
}

/// Captured frames waiting to be fetched.
#[derive(Debug)]
pub(super) struct Tap {
    points: Vec<CapturePoint>,
    snaplen: usize,
    waiting: VecDeque<(Captured, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    missed: u64,
}

impl Tap {
    /// What a cell captures, if anything.
    pub(super) fn new(config: &WifiConfig) -> Option<Box<Self>> {
        let WifiConfig { captures, snaplen, .. } = config;
        let (points, snaplen) = (captures.clone(), *snaplen);
        let tap = || Self { points, snaplen, waiting: VecDeque::new(), spare: Vec::new(), missed: 0 };
        (!captures.is_empty()).then(|| Box::new(tap()))
    }
}

impl Wifi {
    /// The oldest captured frame; `bytes` becomes its radiotap header and frame, truncated to the snap length.
    pub fn poll_capture(&mut self, bytes: &mut Vec<u8>) -> Option<Captured> {
        let tap = self.tap.as_mut()?;
        let (captured, kept) = tap.waiting.pop_front()?;
        bytes.clear();
        bytes.extend_from_slice(&kept);
        tap.spare.push(kept);
        Some(captured)
    }
    /// Frames not captured because the caller had not fetched the earlier [`CAPTURES_BOUND`].
    pub fn captures_missed(&self) -> u64 {
        self.tap.as_ref().map_or(0, |tap| tap.missed)
    }

    /// A frame has left its sender.
    pub(super) fn tap_sent(&mut self, sender: usize, frame: &OnAir) {
        let Some(mut tap) = self.tap.take() else { return };
        for point in 0..tap.points.len() {
            match tap.points[point] {
                CapturePoint::Medium => self.note(&mut tap, point, sender, frame, None),
                CapturePoint::Station(station) if station == sender => {
                    self.note(&mut tap, point, sender, frame, None);
                }
                CapturePoint::Station(_) => {}
            }
        }
        self.tap = Some(tap);
    }
    /// An ear has finished the reception of a frame.
    pub(super) fn tap_heard(&mut self, ear: usize, sender: usize, signal_db: i16, heard: Heard, frame: &OnAir) {
        if heard == Heard::Nothing {
            return;
        }
        let Some(mut tap) = self.tap.take() else { return };
        for point in 0..tap.points.len() {
            let CapturePoint::Station(station) = tap.points[point] else { continue };
            let shares = |class| self.stations[station].joined && self.stations[station].class == Some(class);
            if ear.checked_sub(self.stations.len()).map_or(ear == station, shares) {
                self.note(&mut tap, point, sender, frame, Some((signal_db, heard)));
            }
        }
        self.tap = Some(tap);
    }
    fn note(&self, tap: &mut Tap, point: usize, sender: usize, frame: &OnAir, heard: Option<(i16, Heard)>) {
        if tap.waiting.len() >= CAPTURES_BOUND {
            tap.missed += 1;
            return;
        }
        let mut bytes = tap.spare.pop().unwrap_or_default();
        bytes.clear();
        put_radiotap(&mut bytes, self.phy, frame, heard);
        let body = self.put_frame(&mut bytes, sender, frame);
        let octets = bytes.len() + body.len();
        bytes.extend_from_slice(&body[..body.len().min(tap.snaplen.saturating_sub(bytes.len()))]);
        bytes.truncate(tap.snaplen);
        tap.waiting.push_back((Captured { at: self.now, point, sent: heard.is_none(), octets }, bytes));
    }

    /// Appends the MAC header of a frame that `sender` has just finished; returns the frame body.
    fn put_frame(&self, out: &mut Vec<u8>, sender: usize, frame: &OnAir) -> &[u8] {
        let duration = (frame.after.as_nanos().div_ceil(1_000)).min(DURATION_MAX) as u16;
        let head = self.contenders[self.turn_of(sender)].queue.front();
        let head = head.filter(|_| frame.kind == Kind::Data);
        let retry = if frame.retry { RETRY } else { 0 };
        let qos = self.kinds > 1;
        let subtype = match frame.kind {
            Kind::Rts => 0xb4,
            Kind::Cts => 0xc4,
            Kind::Ack => 0xd4,
            Kind::Data if qos => 0x88,
            Kind::Data => 0x08,
        };
        out.extend_from_slice(&[subtype, retry]);
        out.extend_from_slice(&duration.to_le_bytes());
        out.extend_from_slice(&if frame.to == sender { [0xff; 6] } else { address(frame.to) });
        if let Kind::Rts | Kind::Data = frame.kind {
            out.extend_from_slice(&address(sender));
        }
        let Some(head) = head else { return &[] };
        out.extend_from_slice(&BSSID);
        // Four bits of fragment number, twelve of sequence number (9.2.4.4).
        out.extend_from_slice(&((head.number << 4) as u16).to_le_bytes());
        if qos {
            let policy = if frame.no_ack { NO_ACK } else { 0 };
            let category = Category::ALL[self.stations[sender].turn];
            out.extend_from_slice(&[category.priority() | policy, 0]);
        }
        let kind: [u8; 2] = match head.bytes.first().map(|first| first >> 4) {
            Some(4) => [0x08, 0x00],
            Some(6) => [0x86, 0xdd],
            // IEEE Std 802: local experimental.
            _ => [0x88, 0xb5],
        };
        out.extend_from_slice(&[0xaa, 0xaa, 0x03, 0, 0, 0, kind[0], kind[1]]);
        &head.bytes
    }
}

/// The largest value of a Duration field (9.2.4.2).
const DURATION_MAX: u64 = 32_767;
/// The Retry bit in the second byte of Frame Control (9.2.4.1.1).
const RETRY: u8 = 0x08;
/// Ack Policy "No Ack" in QoS Control (9.2.4.5.4).
const NO_ACK: u8 = 0x20;
/// One independent network; locally administered.
const BSSID: [u8; 6] = [0x02, b'W', b'L', 0xff, 0xff, 0xff];

/// The address of a station, locally administered.
pub fn address(station: usize) -> [u8; 6] {
    let [high, low] = (station as u16).to_be_bytes();
    [0x02, b'W', b'L', 0, high, low]
}

/// Fields of a radiotap header, by the bit that says that one is present.
mod field {
    pub(super) const TSFT: u32 = 1 << 0;
    pub(super) const FLAGS: u32 = 1 << 1;
    pub(super) const RATE: u32 = 1 << 2;
    pub(super) const CHANNEL: u32 = 1 << 3;
    pub(super) const DB_SIGNAL: u32 = 1 << 12;
}
/// Radiotap flag: sent with short preamble.
const SHORT_PREAMBLE: u8 = 0x02;
/// Radiotap flag: the FCS was wrong.
const BAD_FCS: u8 = 0x40;

/// Appends a radiotap header: arrival time of the first bit after preamble and header, rate, channel, and the reception
/// result.
fn put_radiotap(out: &mut Vec<u8>, phy: Phy, frame: &OnAir, heard: Option<(i16, Heard)>) {
    // 2,412 or 5,180 MHz; CCK 0x20, OFDM 0x40, 2 GHz 0x80, 5 GHz 0x100.
    let (mhz, kind): (u16, u16) = match phy {
        Phy::Ofdm | Phy::Ht { .. } | Phy::Vht { .. } => (5_180, 0x140),
        Phy::ErpOfdm { .. } => (2_412, 0xc0),
        _ => (2_412, 0xa0),
    };
    let mut flags = 0;
    if let Phy::HrDsss { short_preamble: true } = phy
        && frame.half_mbps > 2
    {
        flags |= SHORT_PREAMBLE;
    }
    if let Some((_, Heard::Broken)) = heard {
        flags |= BAD_FCS;
    }
    let signal = heard.map(|(db, _)| db.clamp(0, 255) as u8);
    let present = field::TSFT | field::FLAGS | field::RATE | field::CHANNEL;
    let present = present | if signal.is_some() { field::DB_SIGNAL } else { 0 };
    let len: u16 = 22 + u16::from(signal.is_some());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&present.to_le_bytes());
    out.extend_from_slice(&frame.body.as_micros().to_le_bytes());
    out.extend_from_slice(&[flags, frame.half_mbps]);
    out.extend_from_slice(&mhz.to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend(signal);
}

impl OnAir {
    /// The frame as transmitted at `now`.
    pub(super) fn at(self, now: Instant, rate: PhyRate, airtime: Span) -> Self {
        Self { body: now + rate.preamble(), end: now + airtime, half_mbps: rate.half_mbps(), ..self }
    }
}
