//! The sending end: packet numbers, order marks, kept copies, retransmissions.

use super::abandoned::Abandoned;
use super::headers::{SentHeaders, Told};
use super::keep::Kept;
use super::terms::{PERSISTENCE_1998, Times};
use super::{Ordering, Piece, Repair, Treatment, Tries};
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Instant, Span};
use wavelane_transport::{Carries, RepairBudget};
use wavelane_wire::Writer;
use wavelane_wire::frame::{Frame, Order, PacketFrame};

/// Flows remembered for their order; further flows share places, which costs only needless ordering.
const FLOWS: usize = 1_024;
/// A flow with fewer packets than this per hold time is sparse: transports start with ten per RTT (RFC 6928; RFC 9002, section
/// 7.2).
const DENSE_MIN: u32 = 10;
/// Packets up to this size do not make a flow dense: voice stays unordered at any RTT.
const DENSE_OCTETS_MIN: usize = 300;
/// Minimum bytes of a piece, or three quarters of a datagram where that is less.
const PIECE_MIN: usize = 256;
/// Bytes that a piece's offset and length add to a frame's head.
const PIECE_FIELDS: usize = 4;
/// Overhead of an additional copy of a retransmission: frame, seal and headers (wire.md).
const COPY_OVERHEAD: u64 = 70;

/// What the sender remembers of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowMemory {
    /// Newest packet that later ones are ordered after, and when it was first sent.
    last: Option<(u64, Instant)>,
    pub(super) newest_ack: Option<u64>,
    /// Packets in the current hold time, and in the one before.
    counts: [u32; 2],
    since: Instant,
}

/// The place of the flow with hash `flow` in the sender's memory; few flows share one.
pub fn flow_place(flow: u64) -> usize {
    (flow % FLOWS as u64) as usize
}

/// What the sender did; all only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderCounters {
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub first_octets: u64,
    /// Transmissions of retransmitted pieces.
    pub repeated: u64,
    /// Their bytes.
    pub repeat_octets: u64,
    /// Copies of retransmissions that the repair budget did not cover.
    pub refused: u64,
    /// Packets that arrived although a transmission was lost.
    pub repaired: u64,
    /// Packets given up.
    pub unrepaired: u64,
    /// Retransmissions that were sent although the previous transmission had arrived.
    pub spurious: u64,
    /// Lost acknowledgements superseded by a newer one.
    pub superseded: u64,
    /// Packets that could not be kept for retransmission because the pool was used up.
    pub unkept: u64,
    /// Transmissions told by an earlier packet's headers, and the octets that this saved.
    pub compressed: u64,
    /// See [`Self::compressed`].
    pub compressed_octets: u64,
}

/// The datagram that is being filled, and what sending costs.
#[derive(Debug)]
pub struct Datagram<'a, 'w> {
    /// Capacity of a whole datagram.
    pub full: usize,
    /// `w` holds nothing but acks so far.
    pub fresh: bool,
    /// Where frames are appended.
    pub w: &'a mut Writer<'w>,
    /// Which bytes of which packets were written.
    pub pieces: &'a mut Vec<Piece>,
    /// What may go into it.
    pub carries: Carries,
    /// The neighbour takes packets that are told by an earlier one's headers.
    pub compresses: bool,
    /// Something of [`Repair::Fec`] was written.
    pub wrote_media: bool,
    /// The link's account: first transmissions credit it, retransmissions and their copies debit it.
    pub budget: &'a mut RepairBudget,
}

/// The result of an attempt to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrote {
    /// There is nothing to write.
    Nothing,
    /// Something was written.
    Frame,
    /// The next piece needs more room.
    NoRoom,
}

/// See the module's description.
#[derive(Debug)]
pub struct Sender {
    next: u64,
    pub(super) kept: BTreeMap<u64, Kept>,
    pub(super) abandoned: Abandoned,
    pub(super) octets: usize,
    pub(super) octets_max: usize,
    /// Retransmissions to be written, oldest first.
    pub(super) due: VecDeque<Piece>,
    /// Further copies of retransmissions, by time.
    pub(super) later: VecDeque<(Instant, Piece)>,
    /// By time: the packet, and the round it had when the timer was set.
    pub(super) timers: VecDeque<(Instant, u64, u16)>,
    /// The rest of a packet whose first pieces were sent.
    pub(super) current: Option<Piece>,
    pub(super) headers: SentHeaders,
    pub(super) flows: Vec<FlowMemory>,
    pub(super) path: Times,
    pub(super) tries: Tries,
    /// When the timer's allowance was last renewed, and what was used of it since.
    pub(super) timed: (Instant, u32),
    pub(super) counters: SenderCounters,
}

impl Sender {
    /// A sender that keeps at most `octets_max` bytes for retransmission.
    pub fn new(octets_max: usize, tries: Tries) -> Self {
        Self {
            tries,
            next: 0,
            kept: BTreeMap::new(),
            abandoned: Abandoned::default(),
            octets: 0,
            octets_max,
            due: VecDeque::new(),
            later: VecDeque::new(),
            timers: VecDeque::new(),
            current: None,
            headers: SentHeaders::default(),
            flows: Vec::new(),
            path: Times::default(),
            timed: (Instant::ZERO, 0),
            counters: SenderCounters::default(),
        }
    }

    /// What is known of the path now.
    pub fn set_path(&mut self, path: Times) {
        self.path = path;
    }
    /// What it did so far.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }
    /// Bytes kept, and of packets given up.
    pub fn octets(&self) -> usize {
        self.octets + self.abandoned.octets()
    }

    /// Whether retransmissions, or the rest of a packet, wait to be written.
    pub fn has_backlog(&self) -> bool {
        self.current.is_some() || !self.due.is_empty()
    }

    /// Takes a packet of the flow with hash `flow`; it is next after retransmissions. Only while no rest of another packet is
    /// left.
    pub fn start(&mut self, now: Instant, bytes: Vec<u8>, flow: u64, treatment: Treatment) {
        assert!(self.current.is_none(), "one packet at a time: the other would be forgotten");
        self.current = Some(self.admit(now, bytes, flow, treatment));
    }

    /// Takes a packet and writes it at once, before the rest of any other. The caller made sure that it fits.
    pub fn send_small(
        &mut self,
        now: Instant,
        (bytes, flow, treatment): (Vec<u8>, u64, Treatment),
        out: &mut Datagram<'_, '_>,
    ) -> Wrote {
        let piece = self.admit(now, bytes, flow, treatment);
        match self.write_piece(now, piece, true, out) {
            Some(end) if end == piece.end => Wrote::Frame,
            // It does not fit after all: it waits like any other, behind the retransmissions.
            _ => {
                self.due.push_front(piece);
                Wrote::NoRoom
            }
        }
    }

    fn admit(&mut self, now: Instant, bytes: Vec<u8>, flow: u64, mut treatment: Treatment) -> Piece {
        let number = self.next;
        self.next += 1;
        self.counters.sent += 1;
        self.counters.first_octets += bytes.len() as u64;
        if treatment.repair != Repair::None && self.octets() + bytes.len() > self.octets_max {
            treatment.repair = Repair::None;
            self.counters.unkept += 1;
        }
        let (order, place) = self.order(now, number, flow, treatment, bytes.len());
        let end = bytes.len() as u32;
        self.octets += bytes.len();
        let mut kept = Kept::new(now, bytes, order, treatment, place);
        kept.plan(0, end, 0, 1);
        self.kept.insert(number, kept);
        Piece { number, start: 0, end, round: 0, copy: false }
    }

    /// The packet that this one must not overtake, and its flow's place in the memory.
    fn order(
        &mut self,
        now: Instant,
        number: u64,
        flow: u64,
        treatment: Treatment,
        octets: usize,
    ) -> (Option<Order>, usize) {
        if self.flows.is_empty() {
            self.flows = vec![FlowMemory::default(); FLOWS];
        }
        let (hold, place) = (self.path.hold(), flow_place(flow));
        let memory = &mut self.flows[place];
        if treatment.only_newest {
            memory.newest_ack = Some(number);
        }
        if treatment.order == Ordering::Free {
            return (None, place);
        }
        if now.since(memory.since) > hold {
            let ran = now.since(memory.since) <= hold.times(2);
            memory.counts = [0, if ran { memory.counts[0] } else { 0 }];
            memory.since = now;
        }
        memory.counts[0] += u32::from(octets > DENSE_OCTETS_MIN);
        let dense = memory.counts.iter().any(|count| *count >= DENSE_MIN);
        let before = memory.last.replace((number, now));
        // A packet older than the hold has long arrived or never will.
        let near = before.filter(|(_, at)| now.since(*at) <= hold);
        let wanted = treatment.order == Ordering::Strict || dense;
        let hold = match (treatment.order, self.tries) {
            (_, Tries::Of1998) => PERSISTENCE_1998,
            (Ordering::Strict, _) => self.path.hold_strict(),
            _ => hold,
        };
        let order = near.filter(|_| wanted).map(|(n, _)| Order { back: number - n, hold_ms: hold.as_millis().max(1) });
        (order, place)
    }

    /// Writes the next frame: a retransmission, or the rest of the current packet. A piece that may not go into this datagram
    /// needs another one.
    pub fn write(&mut self, now: Instant, out: &mut Datagram<'_, '_>) -> Wrote {
        let Some(piece) = self.next(now, out.budget) else { return Wrote::Nothing };
        let fits = match out.carries {
            Carries::All => true,
            Carries::Media => self.is_media(piece),
            Carries::Others => !self.is_media(piece),
        };
        let Some(end) = (if fits { self.write_piece(now, piece, false, out) } else { None }) else {
            return Wrote::NoRoom;
        };
        let rest = (end < piece.end).then_some(Piece { start: end, ..piece });
        match (self.due.front_mut(), rest) {
            (Some(front), Some(rest)) => *front = rest,
            (Some(_), None) => drop(self.due.pop_front()),
            (None, rest) => self.current = rest,
        }
        Wrote::Frame
    }

    /// Whether the next piece cannot wait for a retransmission; `None` if there is none.
    pub fn next_is_media(&mut self, now: Instant, budget: &mut RepairBudget) -> Option<bool> {
        self.next(now, budget).map(|piece| self.is_media(piece))
    }

    fn is_media(&self, piece: Piece) -> bool {
        self.kept.get(&piece.number).is_some_and(|kept| kept.treatment.repair == Repair::Fec)
    }

    /// The first retransmission still needed; else the current packet's rest.
    fn next(&mut self, now: Instant, budget: &mut RepairBudget) -> Option<Piece> {
        while let Some(&piece) = self.due.front() {
            let kept = self.kept.get(&piece.number);
            let wanted = kept.is_some_and(|kept| !kept.has(piece.start, piece.end));
            if wanted && kept.is_some_and(|kept| now.since(kept.first_sent) > self.persistence(piece.number)) {
                // It waited behind others on a link that became slow; new packets have priority now.
                self.give_up_one(piece.number);
            } else if wanted && piece.copy && !budget.affords(now, piece.octets() + COPY_OVERHEAD) {
                self.counters.refused += 1;
                self.due.pop_front();
                // Treated as sent and lost: if the transmissions before it are lost too, the next round starts now.
                self.lost(now, piece);
                continue;
            } else if wanted {
                return Some(piece);
            }
            self.due.pop_front();
        }
        // A packet may have been given up because of its first pieces before its last one was sent.
        self.current = self.current.filter(|piece| self.kept.contains_key(&piece.number));
        self.current
    }

    /// Writes `piece`, or a useful part of it, and returns the end of what was written.
    fn write_piece(&mut self, now: Instant, piece: Piece, small: bool, out: &mut Datagram<'_, '_>) -> Option<u32> {
        let kept = self.kept.get_mut(&piece.number)?;
        let total = kept.bytes.len();
        let all = piece.start == 0 && piece.end as usize == total;
        let told = if out.compresses && all && self.path.is_slow() {
            let first = piece.round == 0 && !piece.copy;
            Some(self.headers.tell(now, (piece.number, kept.flow), kept.order, &kept.bytes, first))
        } else {
            None
        };
        let keeps = matches!(told, Some((Told::Whole { keep: true }, _)));
        let frame = |end: u32| {
            let whole = piece.start == 0 && end as usize == total;
            PacketFrame {
                number: piece.number,
                order: kept.order,
                piece: (!whole).then_some((piece.start as u16, total as u16)),
                keep: keeps && whole,
                bytes: &kept.bytes[piece.start as usize..end as usize],
            }
        };
        let (wanted, head) = ((piece.end - piece.start) as usize, frame(piece.end).head_len());
        let before = out.w.len();
        let compressed = match &told {
            Some((Told::Compressed(frame), whole_at)) if Frame::Compressed(*frame).emit(out.w).is_ok() => {
                self.counters.compressed += 1;
                self.counters.compressed_octets +=
                    ((head + wanted) as u64).saturating_sub((out.w.len() - before) as u64);
                Some((frame.keep, *whole_at))
            }
            _ => None,
        };
        let end = if compressed.is_some() || head + wanted <= out.w.room() {
            piece.end
        } else {
            let least = PIECE_MIN.min(out.full - out.full / 4);
            let room = out.w.room().checked_sub(head + PIECE_FIELDS).filter(|room| *room >= least)?;
            // A piece that fits the next datagram whole is not split, unless this one cannot hold more either.
            if small || !out.fresh && head + wanted <= out.full {
                return None;
            }
            piece.start + room.min(wanted) as u32
        };
        if compressed.is_none() {
            Frame::Packet(frame(end)).emit(out.w).ok()?;
        }
        let kept_since = match compressed {
            Some((keep, whole_at)) => keep.then_some(whole_at),
            None => (keeps && end == piece.end).then_some(now),
        };
        if let Some(whole_at) = kept_since {
            self.headers.wrote(piece.number, kept.flow, &kept.bytes, whole_at);
        }
        out.fresh = false;
        let sent = Piece { end, ..piece };
        let media = kept.treatment.repair == Repair::Fec;
        out.wrote_media |= media;
        kept.wrote(piece.start, end, piece.end, piece.round);
        out.pieces.push(sent);
        if piece.round == 0 && media {
            out.budget.earn_media(sent.octets());
        } else if piece.round == 0 {
            out.budget.earn(sent.octets(), small);
        } else {
            self.counters.repeated += 1;
            self.counters.repeat_octets += sent.octets();
            if piece.copy {
                out.budget.spend(now, sent.octets() + COPY_OVERHEAD);
            } else {
                out.budget.charge(sent.octets());
            }
        }
        if end == piece.end {
            if kept.is_kept() {
                self.arm(now, piece.number, piece.round);
            } else if end as usize == total {
                self.forget(piece.number);
            }
        }
        Some(end)
    }

    fn arm(&mut self, now: Instant, number: u64, round: u16) {
        let media = self.kept.get(&number).is_some_and(|kept| kept.treatment.repair == Repair::Fec);
        let timer = if self.tries == Tries::Of1998 { self.path.gap_1998(round) } else { self.path.timer() };
        let at = now + timer + if media { self.path.symbols } else { Span::ZERO };
        // Not always at the end: the timer shrinks with the RTT, most of all when that is first known.
        let place = self.timers.partition_point(|other| other.0 <= at);
        self.timers.insert(place, (at, number, round));
    }

    pub(super) fn forget(&mut self, number: u64) -> Option<Kept> {
        let kept = self.kept.remove(&number)?;
        self.octets -= kept.bytes.len();
        while self.timers.front().is_some_and(|timer| !self.is_live(*timer)) {
            self.timers.pop_front();
        }
        Some(kept)
    }

    /// Whether a timer is still valid.
    pub(super) fn is_live(&self, (_, number, round): (Instant, u64, u16)) -> bool {
        self.kept.get(&number).is_some_and(|kept| kept.rounds == round)
    }

    /// A datagram that carried `piece` arrived.
    pub fn delivered(&mut self, piece: Piece) {
        self.headers.fate(piece, true);
        let Some(kept) = self.kept.get_mut(&piece.number) else { return };
        let arrived = kept.delivered(piece.start, piece.end, piece.round);
        self.counters.spurious += arrived.needless;
        if arrived.complete && kept.is_kept() {
            self.counters.repaired += u64::from(kept.rounds > 0);
            self.forget(piece.number);
        }
    }
}
