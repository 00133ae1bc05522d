//! What a hostile peer says: frames of every type whose fields are zero, small, learnt, learnt and a little beside it,
//! or at the ends of their ranges.

#[path = "hostile_overheard.rs"]
mod overheard;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use wavelane_base::{Chance, Seed};
use wavelane_wire::Writer;
use wavelane_wire::codec::VARINT_MAX;
use wavelane_wire::datagram::NUMBER_MAX;
use wavelane_wire::frame::{
    ANSWER_KEYS_LEN, Answered, CompressedFrame, FlowName, Frame, Frames, LaneAck, OPEN_KEYS_LEN, Open, Order,
    PacketFrame, Passage, RANGES_MAX, Ranges, Reach, Reason, ReceiptState, RepairFrame, Seal, Word, emit_data_to_end,
};
use wavelane_wire::packet::Changes;

/// Plaintext of one datagram.
const PAYLOAD_MAX: usize = 1400;
/// Numbers and names that are remembered.
const LEARNT_MAX: usize = 24;
/// The ends of every field's range, and of the sums, shifts and times that are made of it.
const ENDS: [u64; 16] = [
    VARINT_MAX,
    VARINT_MAX - 1,
    VARINT_MAX - 127,
    VARINT_MAX / 2,
    VARINT_MAX / 1_000,
    NUMBER_MAX,
    NUMBER_MAX - 1,
    NUMBER_MAX + 1,
    1 << 61,
    (1 << 61) - 1,
    u64::MAX / 1_000,
    i64::MAX as u64 / 1_000,
    u32::MAX as u64,
    1 << 40,
    65_535,
    128,
];

/// Where the choices come from: a seed, or a fuzzer's bytes.
pub(crate) enum Source<'a> {
    /// Acts that are left, and whether there is a radio cell.
    Seed(Box<Chance>, usize, bool),
    Bytes(&'a [u8]),
}

impl<'a> Source<'a> {
    pub(crate) fn of_seed(seed: u64, acts: usize) -> Self {
        Self::Seed(Box::new(Seed(seed).chance("hostile peer")), acts, seed % 4 == 3)
    }
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
    /// Whether lanes are radios in a cell: of a fuzzer's bytes the last one decides.
    pub(crate) fn has_radio(&self) -> bool {
        match self {
            Self::Seed(_, _, radio) => *radio,
            Self::Bytes(bytes) => bytes.last().is_some_and(|last| last % 4 == 3),
        }
    }
    /// Whether there is another act.
    pub(crate) fn goes_on(&mut self) -> bool {
        match self {
            Self::Seed(_, acts, _) => {
                *acts = acts.saturating_sub(1);
                *acts > 0
            }
            Self::Bytes(rest) => !rest.is_empty(),
        }
    }
    pub(crate) fn byte(&mut self) -> u8 {
        match self {
            Self::Seed(chance, ..) => chance.next_u64() as u8,
            Self::Bytes(rest) => rest.split_off_first().copied().unwrap_or(0),
        }
    }
    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }
    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.below(of.len())])
    }
    fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }
}

/// What the hub said, as far as it makes good lies.
#[derive(Default)]
pub(crate) struct Learnt {
    /// Flows as the hostile peer names them.
    names: Vec<FlowName>,
    /// Packet numbers, offsets, credits.
    numbers: Vec<u64>,
    tokens: Vec<[u8; 16]>,
    challenges: Vec<[u8; 8]>,
    /// The hub's packets that came: runs without a gap, oldest first.
    came: Vec<(u64, u64)>,
    at: usize,
    /// The next number of a flow of its own, and of a packet.
    next_flow: u64,
    next_packet: u64,
    /// The newest one of [`Learnt::sealed_flow`].
    sealed: Option<FlowName>,
    /// Digests and lengths of what the hub may have overheard.
    overheard: Vec<([u8; 16], u64)>,
    /// Octets at the end of the last payload that nothing follows.
    at_end: usize,
    /// Where the bytes of its flows go on.
    offsets: BTreeMap<FlowName, u64>,
}

impl Learnt {
    fn keep<T: PartialEq>(list: &mut Vec<T>, at: &mut usize, value: T) {
        if list.contains(&value) {
            return;
        }
        if list.len() < LEARNT_MAX {
            list.push(value);
        } else {
            *at += 1;
            list[*at % LEARNT_MAX] = value;
        }
    }

    /// Reads one of the hub's datagrams.
    pub(crate) fn read(&mut self, number: u64, payload: &[u8]) {
        match self.came.last_mut() {
            Some((_, last)) if number == *last + 1 => *last = number,
            Some((_, last)) if number <= *last => {}
            _ => self.came.push((number, number)),
        }
        if self.came.len() > LEARNT_MAX {
            self.came.remove(0);
        }
        for frame in Frames::new(payload).flatten() {
            let (name, number) = match frame {
                Frame::Open(open) => {
                    if let Some(passage) = open.passage {
                        Self::keep(&mut self.tokens, &mut self.at, passage.token);
                    }
                    (Some(open.flow), open.credit)
                }
                Frame::Answer { flow, credit, .. } => (Some(flow), credit),
                Frame::Offer { flow, start, .. } => (Some(flow), start),
                Frame::Data { flow, offset, bytes } => (Some(flow), offset + bytes.len() as u64),
                Frame::Receipt { flow, cumulative, credit, .. } => {
                    Self::keep(&mut self.numbers, &mut self.at, cumulative);
                    (Some(flow), credit)
                }
                Frame::Finish { flow, length } => (Some(flow), length),
                Frame::LaneAck(ack) => (None, ack.ranges.0.first().map_or(0, |range| range.1)),
                Frame::Packet(packet) => (None, packet.number),
                Frame::PathChallenge(token) => {
                    Self::keep(&mut self.challenges, &mut self.at, token);
                    continue;
                }
                _ => continue,
            };
            if let Some(name) = name {
                Self::keep(&mut self.names, &mut self.at, name.from_other_side());
            }
            Self::keep(&mut self.numbers, &mut self.at, number);
        }
    }

    fn number(&mut self, source: &mut Source<'_>) -> u64 {
        let number = match source.byte() {
            0..=39 => 0,
            40..=99 => u64::from(source.byte()),
            100..=179 => {
                let near = source.pick(&self.numbers).unwrap_or(0);
                let beside = u64::from(source.byte() % 8);
                if source.byte() < 128 { near.saturating_add(beside) } else { near.saturating_sub(beside) }
            }
            180..=189 => self.highest().saturating_add(u64::from(source.byte() % 4)),
            190..=239 => source.pick(&ENDS).unwrap_or(0),
            _ => source.word(),
        };
        number.min(VARINT_MAX)
    }

    fn highest(&self) -> u64 {
        self.came.last().map_or(0, |run| run.1)
    }

    fn name(&mut self, source: &mut Source<'_>) -> FlowName {
        match source.byte() {
            0..=199 => source.pick(&self.names).unwrap_or(FlowName { mine: true, number: 0 }),
            200..=219 => FlowName { mine: true, number: self.next_flow },
            _ => FlowName { mine: source.byte() < 128, number: self.number(source) >> 1 },
        }
    }

    /// Ranges from `top` down, as the format wants them.
    fn ranges(&mut self, source: &mut Source<'_>, top: u64) -> Ranges {
        let count = if source.byte() < 8 { RANGES_MAX } else { source.below(6) };
        let (mut ranges, mut last) = (Vec::new(), Some(top));
        for _ in 0..count {
            let Some(end) = last else { break };
            let extent = match source.byte() {
                0..=99 => 0,
                100..=199 => u64::from(source.byte()),
                200..=219 => end,
                _ => self.number(source),
            };
            let first = end.saturating_sub(extent);
            ranges.push((first, end));
            last = first.checked_sub(2 + u64::from(source.byte() % 4));
        }
        Ranges(ranges)
    }

    /// How many octets at the end of `payload`, the last one, are bytes of a flow.
    pub(crate) fn open_octets(&mut self, payload: &[u8]) -> usize {
        core::mem::take(&mut self.at_end).min(payload.len())
    }

    /// The payload of a datagram: frames of every type, in any order.
    pub(crate) fn payload(&mut self, source: &mut Source<'_>) -> Vec<u8> {
        let mut buf = [0; PAYLOAD_MAX];
        let mut w = Writer::new(&mut buf);
        self.at_end = 0;
        let count = if source.byte() < 16 { usize::MAX } else { 1 + source.below(6) };
        // A flood is of one type, or it would not be one.
        let flood = (count == usize::MAX).then(|| source.byte());
        for _ in 0..count.min(700) {
            let kind = flood.unwrap_or_else(|| source.byte());
            if self.frame(source, kind % 40, &mut w).is_none() {
                break;
            }
        }
        let len = w.len();
        buf[..len].to_vec()
    }

    /// Appends one frame; `None` once there is no room.
    fn frame(&mut self, source: &mut Source<'_>, kind: u8, w: &mut Writer<'_>) -> Option<()> {
        let lane = if source.byte() < 220 { 0 } else { source.byte() };
        let frame = match kind {
            0 if !self.overheard.is_empty() && source.byte() < 200 => return self.by_digest(source, w),
            1 if !self.overheard.is_empty() && source.byte() < 200 => return self.heard(source, w),
            0 => Frame::Padding,
            1 => Frame::Ping,
            2..=4 => return self.honest_ack(source, w),
            5 | 6 => {
                let top = self.number(source);
                let ranges = self.ranges(source, top);
                let ranges = if ranges.0.is_empty() { Ranges(vec![(top, top)]) } else { ranges };
                let (ack_delay_us, arrival_us) = (self.number(source), self.number(source));
                let ecn = [self.number(source), self.number(source), self.number(source)];
                Frame::LaneAck(LaneAck { lane, ranges, ack_delay_us, arrival_us, ecn })
            }
            7 => {
                let (packets, delay_us) = (self.number(source), self.number(source));
                Frame::AckWish { lane, packets, delay_us, now: source.byte() < 128 }
            }
            8 => Frame::Close,
            9 => Frame::Protected,
            10..=13 => return self.repair(source, lane, w),
            14 => {
                let top = self.number(source);
                let numbers = self.ranges(source, top);
                Frame::Repaired { lane, numbers }
            }
            15..=17 => return self.packet_frame(source, w),
            18 => {
                // Skipped by its length, or longer than its datagram.
                w.varint(0x40 + u64::from(source.byte() % 64) + 1).ok()?;
                let length = if source.byte() < 200 { u64::from(source.byte() % 20) } else { self.number(source) };
                w.varint(length).ok()?;
                return w.put(&[7; 20][..length.min(20) as usize]).ok();
            }
            19 if source.byte() < 30 => return self.by_digest(source, w),
            19 if source.byte() < 30 => return self.heard(source, w),
            19 if source.byte() < 100 => Frame::PathChallenge([source.byte(); 8]),
            19 if source.byte() < 200 => Frame::PathResponse(source.pick(&self.challenges).unwrap_or([1; 8])),
            19 if source.byte() < 60 => Frame::LaneGone { lane: source.byte() % 10, next: self.number(source) },
            19 if source.byte() < 100 => Frame::Metered { lanes: source.byte(), order: source.byte() },
            19 => return w.put(&[source.byte() % 0x40, source.byte(), source.byte()]).ok(),
            other => return self.flow_frame(source, other, w),
        };
        frame.emit(w).ok()
    }

    /// What an honest receiver would say, so that the hub's window grows: everything so far, but for a hole now and then.
    fn honest_ack(&mut self, source: &mut Source<'_>, w: &mut Writer<'_>) -> Option<()> {
        let mut runs: Vec<(u64, u64)> = self.came.iter().rev().copied().collect();
        let Some(newest) = runs.first_mut() else { return Some(()) };
        if source.byte() < 60 {
            let hole = newest.1.saturating_sub(u64::from(source.byte()));
            if hole > newest.0 + 1 && hole + 1 < newest.1 {
                let upper = (hole + 1, newest.1);
                newest.1 = hole - 1;
                runs.insert(0, upper);
            }
        }
        let arrival_us = if source.byte() < 230 { 1_000 * self.highest() } else { self.number(source) };
        let ack = LaneAck { lane: 0, ranges: Ranges(runs), ack_delay_us: 0, arrival_us, ecn: [0; 3] };
        Frame::LaneAck(ack).emit(w).ok()
    }

    fn repair(&mut self, source: &mut Source<'_>, lane: u8, w: &mut Writer<'_>) -> Option<()> {
        let mask = match source.byte() {
            0..=79 => 1,
            80..=119 => 3,
            120..=149 => u128::MAX,
            _ => u128::from(source.word()) << 64 | u128::from(source.word()) | 1,
        };
        let mut symbol = [0; 200];
        symbol[1] = source.byte() % 200;
        // The first frames of what it brings back.
        symbol[2..20].fill_with(|| source.byte());
        let first = self.number(source);
        let frame =
            RepairFrame { lane, key: source.byte() % 128, first, mask, symbol: &symbol[..2 + source.below(190)] };
        Frame::Repair(frame).emit(w).ok()?;
        // It runs to the datagram's end.
        None
    }

    fn packet_frame(&mut self, source: &mut Source<'_>, w: &mut Writer<'_>) -> Option<()> {
        let bytes = packet(source, [10, 2, 0, 2], [10, 1, 0, 2]);
        self.next_packet += 1;
        let number = if source.byte() < 240 { self.next_packet } else { self.number(source) };
        let order = (source.byte() < 100 && number > 0).then(|| {
            let back = if source.byte() < 200 { 1 } else { self.number(source).clamp(1, number) };
            Order { back, hold_ms: self.number(source) }
        });
        let piece = (source.byte() < 60).then(|| {
            let (total, offset) = (source.word() as u16, source.word() as u16);
            if source.byte() < 200 { (0, bytes.len() as u16 + u16::from(source.byte())) } else { (offset, total) }
        });
        let keep = piece.is_none() && number.is_multiple_of(2);
        Frame::Packet(PacketFrame { number, order, piece, keep, bytes: &bytes }).emit(w).ok()?;
        if !number.is_multiple_of(3) {
            return Some(());
        }
        // One that is told by this or by one that is not there.
        let changes = Changes {
            id: number as u16 & 3,
            acknowledged: number as u32,
            checksum: number as u16,
            ..Changes::default()
        };
        let payload = &bytes[..bytes.len() % 40];
        let base = (number - number % 5) as u16;
        let ahead = 1 + number % 7;
        Frame::Compressed(CompressedFrame { base, ahead, keep, order, changes, payload }).emit(w).ok()
    }

    fn address(&mut self, source: &mut Source<'_>) -> SocketAddr {
        match source.byte() {
            0..=119 => SocketAddr::from(([10, 1, 0, source.byte()], 80)),
            120..=199 => SocketAddr::from(([10, 4, 0, source.byte()], 443)),
            200..=229 => SocketAddr::from((source.word().to_be_bytes().map(u16::from), source.word() as u16)),
            _ => SocketAddr::from(((source.word() as u32).to_be_bytes(), source.word() as u16)),
        }
    }

    fn passage(&mut self, source: &mut Source<'_>) -> Passage {
        let token = source.pick(&self.tokens).unwrap_or([source.byte(); 16]);
        let hops = if source.byte() < 200 { source.byte() % 10 } else { source.byte() };
        let received = (source.byte() < 100).then(|| self.number(source));
        let choice = source.byte() < 80;
        let attempt = if source.byte() < 80 { self.number(source) } else { 0 };
        let seal = match hops % 8 {
            1 => Some(Seal::Keys([token[0]; OPEN_KEYS_LEN])),
            2 => Some(Seal::Word(Word { count: attempt, tag: token })),
            _ => None,
        };
        Passage { token, hops, received, choice, attempt, seal }
    }

    fn flow_frame(&mut self, source: &mut Source<'_>, kind: u8, w: &mut Writer<'_>) -> Option<()> {
        let flow = self.name(source);
        let reason = source.pick(&[Reason::Refused, Reason::Restarted, Reason::Complete, Reason::Aborted])?;
        let frame = match kind {
            20..=22 => {
                let flow = if source.byte() < 230 { FlowName { mine: true, number: self.next_flow } } else { flow };
                self.next_flow = (self.next_flow + 1) % (VARINT_MAX >> 1);
                Self::keep(&mut self.names, &mut self.at, flow);
                let passage = (source.byte() < 128).then(|| self.passage(source));
                let (from, target) = (self.address(source), self.address(source));
                Frame::Open(Open { flow, source: from, target, credit: self.number(source), passage })
            }
            23 | 24 => {
                let refusal = (source.byte() < 40).then_some(reason);
                let received = (source.byte() < 80).then(|| self.number(source));
                let credit = self.number(source);
                let edge = received.map(|received| Answered {
                    received,
                    seal: match received % 8 {
                        1 => Some(Seal::Keys([credit as u8; ANSWER_KEYS_LEN])),
                        2 => Some(Seal::Word(Word { count: credit, tag: [7; 16] })),
                        _ => None,
                    },
                });
                Frame::Answer { flow, refusal, credit, edge }
            }
            25 => {
                let (block, start) = (self.number(source), self.number(source));
                let length = (source.byte() < 128).then(|| self.number(source));
                let [micro, vtx, parcels] = [1, 2, 4].map(|bit| source.byte() & bit != 0);
                Frame::Offer { flow, block, start, length, micro, vtx, parcels }
            }
            26..=30 => {
                let len = source.below(256) * (1 + source.below(2));
                let honest = source.byte() < 160;
                let next = self.offsets.entry(flow).or_default();
                let before = core::mem::replace(next, *next + if honest { len as u64 } else { 0 });
                let offset = if honest { before.min(VARINT_MAX - 1_000) } else { self.number(source) };
                Frame::Data { flow, offset, bytes: &[9; 600][..len] }
            }
            31 => {
                let (offset, bytes) = (self.number(source), [3; PAYLOAD_MAX]);
                let room = emit_data_to_end(w, flow, offset).ok()?;
                let len = room.min(source.below(256) * 6);
                w.put(&bytes[..len]).ok()?;
                self.at_end = len;
                return None;
            }
            32..=34 => {
                let rare = [ReceiptState::Complete, ReceiptState::Unknown, ReceiptState::Refuse];
                let state = match source.byte() {
                    0..=179 => ReceiptState::Accept,
                    180..=209 => ReceiptState::Wait,
                    210..=239 => ReceiptState::AlreadyHave,
                    _ => source.pick(&rare)?,
                };
                let (cumulative, credit, top) = (self.number(source), self.number(source), self.number(source));
                Frame::Receipt { flow, state, cumulative, credit, ranges: self.ranges(source, top) }
            }
            35 => Frame::Finish { flow, length: self.number(source) },
            36 if source.byte() < 120 => {
                let after = (source.byte() < 128).then(|| Reach { received: self.number(source), finished: flow.mine });
                Frame::Reset { flow, reason, after }
            }
            37 if source.byte() < 200 => Frame::Forget { below: 0, ranges: Ranges(vec![(flow.number, flow.number)]) },
            37 => {
                let (below, top) = (self.number(source), self.number(source));
                Frame::Forget { below, ranges: self.ranges(source, top) }
            }
            _ => {
                let received = self.number(source);
                let word = (received % 4 == 1).then_some(Word { count: received, tag: [9; 16] });
                Frame::Progress { flow, reach: Reach { received, finished: flow.mine }, word }
            }
        };
        frame.emit(w).ok()
    }
}

/// An IPv4 packet that may be good: UDP, TCP or ICMP, with some octets wrong now and then.
pub(crate) fn packet(source: &mut Source<'_>, from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let mut bytes = vec![0; 28 + source.below(256) * (1 + source.below(4))];
    let total = bytes.len() as u16;
    bytes[0] = 0x45;
    bytes[1] = if source.byte() < 60 { 46 << 2 } else { 0 };
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes[8] = 64;
    bytes[9] = [17, 17, 6, 1][source.below(4)];
    bytes[12..16].copy_from_slice(&from);
    bytes[16..20].copy_from_slice(&to);
    bytes[20..24].copy_from_slice(&[0x10, source.byte() % 4, 0, 53]);
    if source.byte() < 30 {
        let place = source.below(40).min(bytes.len() - 1);
        bytes[place] = source.byte();
    }
    let sum = bytes[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes());
    bytes
}
