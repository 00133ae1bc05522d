//! The sending half of a flow: bytes until they are receipted, what is in flight, what must be repaired.

mod again;
mod blocks;
mod flight;
mod receipts;

pub(super) use blocks::{Block, block_octets};
pub(super) use receipts::RANGES_WHOLE;

use super::memory::make_room;
use super::relay::{GRANT_MAX, Stretches};
use super::room::{START, WRITABLE_MIN};
use super::shares::{FLOOR, WriteRoom};
use super::sure::Sure;
use super::types::HopConfig;
use again::Again;
use flight::Seg;
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::RangeSet;
use wavelane_base::{Instant, Octets, Span};
use wavelane_wire::frame::Reach;

/// A direction with at most this many unreceipted bytes is latency-bound: class micro.
const MICRO_MAX: u64 = 1_100;
/// A writer that leaves the offered room unused for this long has nothing to write.
const WRITER_PAUSE: Span = Span::from_millis(2);
/// First wait before querying a missing receipt, and the longest interval between queries.
const QUERY_MIN: Span = Span::from_millis(100);
/// See [`QUERY_MIN`]. If only credit is lacking, this is the first wait and the next constant the longest: the receiver announces
/// new credit unasked, and repeats that until it arrives.
const QUERY_MAX: Span = Span::from_secs(1);
/// See [`QUERY_MAX`].
const QUERY_STARVED_MAX: Span = Span::from_secs(16);
/// A reader is proven once the far side has taken this many bytes: kernels on the path take about this much before any
/// application does.
const PROVEN: u64 = 128 << 10;
/// Bytes that may wait beyond the credit.
const BEYOND_CREDIT: u64 = FLOOR;

/// How a direction is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Manner {
    /// It never counts as latency-bound.
    all_bulk: bool,
    /// The size of its blocks, if the path does not decide.
    block: Option<u64>,
    /// Lost parts of a block are retransmitted once all of it was sent.
    rounds: bool,
    /// Bytes beyond the credit are kept ready for a grant, up to one block.
    withheld: bool,
}

impl Manner {
    pub(super) fn of(config: &HopConfig) -> Self {
        let HopConfig { micro_blocks, block, rounds, withhold: withheld, .. } = *config;
        Self { all_bulk: !micro_blocks, block: block.map(Octets::get), rounds, withheld }
    }
    /// Bytes that may wait beyond the credit.
    fn beyond_credit(self) -> u64 {
        if self.withheld { self.block.unwrap_or(GRANT_MAX) } else { BEYOND_CREDIT }
    }
}

/// What to send next of a direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Repair,
    Copy,
    /// The peer receipted it and lost it.
    Again,
    First,
}

/// A stretch chosen to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stretch {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) kind: Kind,
}

/// The sending half.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Every byte below is receipted; the offset of `buf`'s first byte.
    base: u64,
    /// The next byte never sent.
    next: u64,
    buf: VecDeque<u8>,
    /// Where the writer last began after everything had been receipted.
    began: u64,
    /// Sent and neither receipted nor known lost, by start.
    segs: BTreeMap<u64, Seg>,
    /// Bytes in `segs`.
    flying: u64,
    /// Bytes of those that a lane ack reported.
    landed: u64,
    /// Known lost.
    missing: RangeSet,
    /// In flight, and a copy is due.
    copies: RangeSet,
    /// The peer takes bytes below this.
    credit: u64,
    /// It was raised by no more than [`FLOOR`] last.
    crumbs: bool,
    /// The credit once grew by a turn.
    turns: bool,
    /// A lower limit for now, from its newest receipt.
    held_up_at: Option<u64>,
    /// The direction's length, once the owner ended it.
    pub(super) fin: Option<u64>,
    pub(super) finish: Sure,
    /// The owner ended the direction in order before it reset the flow.
    ended: bool,
    /// The peer holds every byte and knows the end.
    pub(super) complete: bool,
    block: Option<Block>,
    blocks: u64,
    last_first_at: Instant,
    /// A question about the newest block, for a receipt.
    pub(super) query: Sure,
    query_at: Option<Instant>,
    query_wait: Span,
    /// Bytes that the peer may have overheard before they are sent.
    pub(super) stretches_known: Stretches,
    /// Receipted bytes that are sent again.
    pub(super) again: Again,
    /// How it is sent.
    pub(super) manner: Manner,
    /// It comes in turns and goes in turns, by the same radio, and the last request for one was heard.
    pub(super) whole: bool,
    /// The last offer of bytes beyond the credit: their start and number.
    waits: Option<(u64, u64)>,
    /// A write was refused for lack of room; the writer is told when there is some.
    pub(super) blocked: bool,
    copy_at: Option<Instant>,
    /// When bytes dropped behind the lane were last searched for.
    contradicted_at: Option<Instant>,
    /// When a refused writer was last told that there is room.
    unblocked_at: Option<Instant>,
}

impl Outgoing {
    pub(super) fn buffered(&self) -> u64 {
        self.buf.len() as u64
    }
    fn written(&self) -> u64 {
        self.base + self.buffered()
    }
    /// Bytes in flight or lost: sent and not receipted.
    fn in_flight(&self) -> u64 {
        self.flying + self.missing.total()
    }
    pub(super) fn unsent(&self) -> u64 {
        self.written() - self.next
    }
    /// Everything written was receipted.
    pub(super) fn is_drained(&self) -> bool {
        self.buf.is_empty()
    }
    /// Whether this direction is latency-bound now.
    pub(super) fn is_micro(&self) -> bool {
        !self.manner.all_bulk && self.again.is_empty() && self.in_flight() + self.unsent() <= MICRO_MAX
    }
    /// A refused writer is woken when there is room.
    pub(super) fn unblock(&mut self, now: Instant) {
        self.blocked = false;
        self.unblocked_at = Some(now);
    }
    /// Whether the writer seems to have no more: it is not refused, and has had time to write since it last was.
    pub(super) fn ends_soon(&self, now: Instant) -> bool {
        let idle = self.unblocked_at.is_none_or(|at| now.since(at) >= WRITER_PAUSE);
        !self.blocked && (idle || self.fin.is_some())
    }
    pub(super) fn grant(&mut self, credit: u64) {
        if credit > self.credit {
            self.crumbs = credit - self.credit <= FLOOR;
            self.turns |= self.credit > 0 && !self.crumbs;
        }
        self.credit = self.credit.max(credit);
    }
    /// Bytes a writer may add now.
    ///
    /// Bytes in flight are not counted: the room covers what the path takes next, regardless of repairs.
    pub(super) fn room(&self, room: WriteRoom) -> u64 {
        self.ahead(room).saturating_sub(self.unsent()).min(self.share(room).saturating_sub(self.buffered()))
    }
    fn share(&self, room: WriteRoom) -> u64 {
        if self.base < PROVEN { room.share.min(room.first) } else { room.share }
    }
    /// Least room for which a blocked writer is woken: half of what may wait, so that the other half keeps the lane busy until it
    /// writes.
    pub(super) fn room_wanted(&self, room: WriteRoom) -> u64 {
        WRITABLE_MIN.min(self.share(room) / 2).min(self.ahead(room) / 2)
    }
    /// Bytes that may wait beyond those in flight: beyond the credit, because the peer's reader does not read, only a few.
    fn ahead(&self, room: WriteRoom) -> u64 {
        let began = if self.is_drained() { self.next } else { self.began };
        let wanted = room.ahead.max((began + START).saturating_sub(self.next)).min(room.part);
        let beyond = self.manner.beyond_credit();
        let wanted = if self.manner.withheld { wanted.max(beyond.min(room.part)) } else { wanted };
        let taken = self.credit.min(self.ceiling()).saturating_sub(self.next) + beyond;
        // Before the answer it is not known what the peer takes.
        if self.credit == 0 { wanted } else { wanted.min(taken) }
    }
    pub(super) fn write(&mut self, data: &[u8]) {
        if self.is_drained() {
            self.began = self.next;
        }
        make_room(&mut self.buf, data.len());
        self.buf.extend(data);
    }
    pub(super) fn shut(&mut self) {
        if self.fin.is_none() {
            self.blocked = false;
            self.fin = Some(self.written());
            self.finish.ask();
        }
    }
    /// The owner is gone: nothing more will be written. The Reset announces the end, not a Finish.
    pub(super) fn end(&mut self) {
        self.ended = self.fin.is_some();
        self.fin = Some(self.written());
        self.finish = Sure::default();
        self.blocked = false;
    }
    /// How far the peer's application gets.
    pub(super) fn reach(&self) -> Reach {
        Reach { received: self.fin.unwrap_or(0), finished: self.ended }
    }
    /// The Finish is sent with the last bytes, not megabytes ahead of them.
    pub(super) fn finish_due(&self) -> bool {
        self.finish.due && self.unsent() <= MICRO_MAX
    }
    /// Whether there is credit for bytes not sent yet.
    pub(super) fn has_credit(&self) -> bool {
        self.next < self.credit.min(self.ceiling())
    }
    /// The credit is not used for the first crumb of what waits for a turn: the next hop would send it on at once. A next hop that never gave
    /// a turn, or that lets more pass meanwhile, has other rules, and its credit is used.
    fn shuns_crumbs(&self) -> bool {
        let left = self.credit.min(self.ceiling()).saturating_sub(self.next);
        self.whole && self.turns && self.crumbs && left <= FLOOR && self.written() > self.credit
    }
    /// Whether lack of credit blocks sending.
    fn is_starved(&self) -> bool {
        (self.unsent() > 0 && (self.next >= self.credit.min(self.ceiling()) || self.shuns_crumbs()))
            || self.missing.first().is_some_and(|(start, _)| start >= self.ceiling())
    }
    /// Whether bytes will follow that cannot be sent now, for lack of credit or of room to write them.
    pub(super) fn is_held(&self) -> bool {
        self.blocked || self.is_starved()
    }
    /// Bytes from this offset on would be dropped now.
    fn ceiling(&self) -> u64 {
        self.held_up_at.unwrap_or(u64::MAX)
    }
    /// The peer cannot hold the credit it granted: nothing is sent from `credit` on until it says otherwise.
    pub(super) fn hold_up(&mut self, credit: Option<u64>) {
        self.held_up_at = credit;
    }
    pub(super) fn has_data(&self) -> bool {
        self.choose().is_some()
    }

    /// What to send next: repairs, then copies, then new bytes.
    pub(super) fn choose(&self) -> Option<Stretch> {
        let ceiling = self.ceiling();
        let most = if self.shuns_crumbs() { self.next } else { self.credit };
        let new_end = self.written().min(most).min(ceiling).min(self.stretches_known.held_from());
        if let (true, Some(block)) = (self.manner.rounds, self.block_end())
            && self.next < new_end.min(block)
        {
            return Some(Stretch { start: self.next, end: new_end.min(block), kind: Kind::First });
        }
        for (known, kind) in [(self.missing.first(), Kind::Repair), (self.copies.first(), Kind::Copy)] {
            if let Some((start, end)) = known.filter(|(start, _)| *start < ceiling) {
                return Some(Stretch { start, end: end.min(ceiling), kind });
            }
        }
        if let Some((start, end)) = self.again.first() {
            return Some(Stretch { start, end, kind: Kind::Again });
        }
        (self.next < new_end).then_some(Stretch { start: self.next, end: new_end, kind: Kind::First })
    }
    /// Whether the next stretch is a retransmission.
    pub(super) fn repeats_next(&self) -> bool {
        self.choose().is_some_and(|stretch| matches!(stretch.kind, Kind::Repair | Kind::Again))
    }
    /// Drops due copies that the budget does not cover.
    pub(super) fn drop_due_copies(&mut self) {
        self.copies = RangeSet::default();
    }

    /// Every byte below was sent.
    pub(super) fn sent_so_far(&self) -> u64 {
        self.next
    }
    /// Every byte below is receipted.
    pub(super) fn receipted(&self) -> u64 {
        self.base
    }
    /// The bytes of a stretch as the two halves of the ring.
    pub(super) fn bytes(&self, Stretch { start, end, kind }: Stretch) -> (&[u8], &[u8]) {
        if kind == Kind::Again {
            return (self.again.bytes(start, end), &[]);
        }
        let (from, to) = ((start - self.base) as usize, (end - self.base) as usize);
        let (front, back) = self.buf.as_slices();
        let cut = front.len();
        let first = &front[from.min(cut)..to.min(cut)];
        (first, &back[from.saturating_sub(cut)..to.saturating_sub(cut)])
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        super::sure::earliest([self.query_at, self.copy_at, self.finish.deadline(), self.stretches_known.deadline()])
    }

    /// Time has passed. Returns whether a question became due.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        self.finish.tick(now);
        self.stretches_known.tick(now);
        self.note_due_copies(now);
        if self.query_at.is_none_or(|at| at > now) {
            return false;
        }
        self.query_at = None;
        self.whole = false;
        self.query_wait = self.query_wait.times(2).min(self.longest_wait());
        if self.fin.is_some() && !self.complete && self.finish.arrived && self.is_drained() {
            self.finish.ask();
        }
        self.query.ask();
        true
    }

    /// Whether a receipt is due: for bytes that landed, or for the end.
    fn is_owed_receipt(&self) -> bool {
        self.landed > 0 || (self.fin.is_some() && !self.complete && self.finish.arrived)
    }
    fn longest_wait(&self) -> Span {
        if self.is_owed_receipt() { QUERY_MAX } else { QUERY_STARVED_MAX }
    }

    /// Frees the buffer; the flow is over.
    pub(super) fn discard(&mut self) {
        *self = Self { complete: self.complete, ..Self::default() };
    }
}
