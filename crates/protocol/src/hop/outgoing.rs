//! The sending half of a flow: bytes until they are receipted, what is in flight, what must be repaired.

use super::incoming::IDLE_CAPACITY;
use super::ranges::RangeSet;
use super::room::START;
use super::sure::{SENDS_MAX, Sure, copy_spacing};
use super::types::{Path, earlier};
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Instant, Span};

/// Unreceipted bytes of a direction up to which it is latency-bound: class micro.
pub(super) const MICRO_MAX: u64 = 1_100;
/// Smallest and largest block.
pub(super) const BLOCK_MIN: u64 = 64 << 10;
/// See [`BLOCK_MIN`].
pub(super) const BLOCK_MAX: u64 = 4 << 20;
/// Age at which a block closes.
pub(super) const BLOCK_AGE: Span = Span::from_secs(1);
/// A writer that does not use the room it was told of for this long has nothing to say.
const WRITER_PAUSE: Span = Span::from_millis(2);
/// First wait before asking for a receipt that does not come, and the longest between questions.
pub(super) const QUERY_MIN: Span = Span::from_millis(100);
/// See [`QUERY_MIN`].
pub(super) const QUERY_MAX: Span = Span::from_secs(1);
/// A range list shorter than this was not truncated (the receipt format's promise).
pub(super) const RANGES_WHOLE: usize = 32;

/// One sent, unreceipted stretch of bytes.
#[derive(Clone, Copy, Debug)]
struct Seg {
    end: u64,
    /// The newest sending; its fate decides.
    serial: u64,
    first_at: Instant,
    sends: u8,
    copy_at: Option<Instant>,
    /// When a lane ack said that it arrived.
    landed: Option<Instant>,
}

/// The block being filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) number: u64,
    pub(super) start: u64,
    pub(super) length: Option<u64>,
    pub(super) micro: bool,
    opened: Instant,
}

/// What to send next of a direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Repair,
    Copy,
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
    /// Less than that for now, as its newest receipt said.
    held_up_at: Option<u64>,
    /// The direction's length, once the owner ended it.
    pub(super) fin: Option<u64>,
    pub(super) finish: Sure,
    /// The peer holds every byte and knows the end.
    pub(super) complete: bool,
    block: Option<Block>,
    blocks: u64,
    last_first_at: Instant,
    /// A question about the newest block, for a receipt.
    pub(super) query: Sure,
    query_at: Option<Instant>,
    query_wait: Span,
    /// Writing was refused for lack of room; tell when there is some.
    pub(super) blocked: bool,
    copy_at: Option<Instant>,
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
    /// Bytes on the way or lost: sent and not receipted.
    fn in_flight(&self) -> u64 {
        self.flying + self.missing.total()
    }
    fn unsent(&self) -> u64 {
        self.written() - self.next
    }
    /// Everything written was receipted.
    pub(super) fn is_drained(&self) -> bool {
        self.buf.is_empty()
    }
    /// Whether this direction is latency-bound now.
    pub(super) fn is_micro(&self) -> bool {
        self.in_flight() + self.unsent() <= MICRO_MAX
    }
    /// A writer that was refused is told that there is room.
    pub(super) fn unblock(&mut self, now: Instant) {
        self.blocked = false;
        self.unblocked_at = Some(now);
    }
    /// Whether the writer seems to have no more: it was not refused, and has had time to write since it last was.
    pub(super) fn ends_soon(&self, now: Instant) -> bool {
        let idle = self.unblocked_at.is_none_or(|at| now.since(at) >= WRITER_PAUSE);
        !self.blocked && (idle || self.fin.is_some())
    }
    pub(super) fn grant(&mut self, credit: u64) {
        self.credit = self.credit.max(credit);
    }
    /// Bytes a writer may add now, given how many may wait and this flow's share of the pool.
    ///
    /// Bytes in flight are not counted: a writer is asked for the path's next moments, whatever is being repaired.
    pub(super) fn room(&self, ahead: u64, share: u64) -> u64 {
        let began = if self.is_drained() { self.next } else { self.began };
        let ahead = ahead.max((began + START).saturating_sub(self.next));
        ahead.saturating_sub(self.unsent()).min(share.saturating_sub(self.buffered()))
    }
    pub(super) fn write(&mut self, data: &[u8]) {
        if self.is_drained() {
            self.began = self.next;
        }
        self.buf.extend(data);
    }
    pub(super) fn shut(&mut self) {
        if self.fin.is_none() {
            self.fin = Some(self.written());
            self.finish.ask();
        }
    }
    /// The end is announced with the last bytes, not megabytes ahead of them.
    pub(super) fn finish_due(&self) -> bool {
        self.finish.due && self.unsent() <= MICRO_MAX
    }
    /// Whether credit holds up what there is to send.
    fn is_starved(&self) -> bool {
        (self.unsent() > 0 && self.next >= self.credit.min(self.ceiling()))
            || self.missing.first().is_some_and(|(start, _)| start >= self.ceiling())
    }
    /// Bytes from here on would be dropped now.
    fn ceiling(&self) -> u64 {
        self.held_up_at.unwrap_or(u64::MAX)
    }
    /// The peer cannot keep what it promised: nothing is sent from `credit` on until it says otherwise.
    pub(super) fn hold_up(&mut self, credit: Option<u64>) {
        self.held_up_at = credit;
    }
    pub(super) fn has_data(&self) -> bool {
        self.choose().is_some()
    }

    /// What goes next: repairs, then copies, then new bytes.
    pub(super) fn choose(&self) -> Option<Stretch> {
        let ceiling = self.ceiling();
        for (known, kind) in [(self.missing.first(), Kind::Repair), (self.copies.first(), Kind::Copy)] {
            if let Some((start, end)) = known.filter(|(start, _)| *start < ceiling) {
                return Some(Stretch { start, end: end.min(ceiling), kind });
            }
        }
        let end = self.written().min(self.credit).min(ceiling);
        (self.next < end).then_some(Stretch { start: self.next, end, kind: Kind::First })
    }
    /// Whether what goes next was lost before.
    pub(super) fn repeats_next(&self) -> bool {
        self.choose().is_some_and(|stretch| stretch.kind == Kind::Repair)
    }
    /// Forgets copies that came due, for want of budget.
    pub(super) fn drop_due_copies(&mut self) {
        self.copies = RangeSet::default();
    }

    /// The block that new bytes at `next` begin, if they begin one. `now_sent` bytes go out with the offer.
    pub(super) fn new_block(&self, now: Instant, path: &Path, now_sent: u64) -> Option<Block> {
        let micro = self.is_micro() && now_sent == self.unsent();
        let size = (path.rate.octets_in(path.rtt).get() * 3 / 2).clamp(BLOCK_MIN, BLOCK_MAX);
        let open = self.block.is_some_and(|b| {
            b.length.is_none()
                && !micro
                && self.next - b.start < size
                && now.since(b.opened) < BLOCK_AGE
                && now.since(self.last_first_at) < QUERY_MIN
        });
        let length = micro.then_some(now_sent);
        (!open).then_some(Block { number: self.blocks, start: self.next, length, micro, opened: now })
    }
    pub(super) fn block_opened(&mut self, block: Block) {
        self.blocks = block.number + 1;
        self.block = Some(block);
    }
    /// What a question is about: the newest block, or the next one if nothing was ever offered.
    pub(super) fn asked_block(&self, now: Instant) -> Block {
        let none = Block { number: 0, start: self.base, length: None, micro: false, opened: now };
        self.block.unwrap_or(none)
    }

    /// The bytes `start..end` as the two halves of the ring.
    pub(super) fn bytes(&self, start: u64, end: u64) -> (&[u8], &[u8]) {
        let (from, to) = ((start - self.base) as usize, (end - self.base) as usize);
        let (front, back) = self.buf.as_slices();
        let cut = front.len();
        let first = &front[from.min(cut)..to.min(cut)];
        (first, &back[from.saturating_sub(cut)..to.saturating_sub(cut)])
    }

    /// `start..end` of `stretch` was written under `serial`. `sends_max` says how many sendings there may be without a verdict.
    pub(super) fn wrote(&mut self, now: Instant, sent: Stretch, serial: u64, path: &Path, sends_max: u8) {
        let (mut sends, mut first_at) = (0, now);
        match sent.kind {
            Kind::First => {
                self.next = sent.end;
                self.last_first_at = now;
            }
            Kind::Repair => self.missing.remove(sent.start, sent.end),
            Kind::Copy => {
                for (_, seg) in self.segs.range(sent.start..sent.end) {
                    (sends, first_at) = (sends.max(seg.sends), first_at.min(seg.first_at));
                }
            }
        }
        self.cut(sent.start, sent.end);
        sends += 1;
        let copy_at =
            (sends < sends_max).then(|| (first_at + copy_spacing(path, sends)).max(now + Span::from_nanos(1)));
        self.copy_at = earlier(self.copy_at, copy_at);
        self.segs.insert(sent.start, Seg { end: sent.end, serial, first_at, sends, copy_at, landed: None });
        self.flying += sent.end - sent.start;
        self.watch(now, path);
    }

    /// Removes `start..end` from `segs`, splitting at the edges.
    fn cut(&mut self, start: u64, end: u64) {
        self.copies.remove(start, end);
        while let Some((&s, &seg)) = self.segs.range(..end).next_back() {
            if seg.end <= start {
                break;
            }
            self.segs.remove(&s);
            if s < start {
                self.segs.insert(s, Seg { end: start, ..seg });
            }
            if seg.end > end {
                self.segs.insert(end, seg);
            }
            let gone = seg.end.min(end) - s.max(start);
            self.flying -= gone;
            if seg.landed.is_some() {
                self.landed -= gone;
            }
        }
    }

    /// A lane ack reported these bytes. They stay until a receipt takes custody.
    pub(super) fn delivered(&mut self, now: Instant, start: u64, end: u64, path: &Path) {
        let end = end.min(self.next);
        let start = start.max(self.base);
        if start >= end {
            return;
        }
        // A sending that was called lost and arrived after all: newest information wins.
        let revived: Vec<_> = self.missing_within(start, end);
        for (s, e) in revived {
            self.missing.remove(s, e);
            let seg = Seg { end: e, serial: 0, first_at: now, sends: SENDS_MAX, copy_at: None, landed: None };
            self.segs.insert(s, seg);
            self.flying += e - s;
        }
        let first = self.segs.range(..=start).next_back().map_or(start, |(&s, _)| s);
        let touched: Vec<(u64, Seg)> = self
            .segs
            .range(first..end)
            .filter(|(_, seg)| seg.end > start && seg.landed.is_none())
            .map(|(&s, &seg)| (s, seg))
            .collect();
        for (s, seg) in touched {
            let (from, to) = (s.max(start), seg.end.min(end));
            self.cut(from, to);
            self.segs.insert(from, Seg { end: to, landed: Some(now), copy_at: None, ..seg });
            self.flying += to - from;
            self.landed += to - from;
        }
        self.watch(now, path);
    }

    fn missing_within(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        if self.missing.is_empty() {
            return Vec::new();
        }
        let mut parts = Vec::new();
        let mut at = start;
        for (s, e) in self.missing.gaps(start, end) {
            if at < s {
                parts.push((at, s));
            }
            at = e;
        }
        if at < end {
            parts.push((at, end));
        }
        parts
    }

    /// The sending `serial` of these bytes was lost; what it was the newest sending of must be repaired.
    pub(super) fn lost(&mut self, start: u64, end: u64, serial: u64) {
        let first = self.segs.range(..=start).next_back().map_or(start, |(&s, _)| s);
        let gone: Vec<(u64, u64)> = self
            .segs
            .range(first..end.max(first))
            .filter(|(_, seg)| seg.end > start && seg.serial == serial && seg.landed.is_none())
            .map(|(&s, seg)| (s.max(start), seg.end.min(end)))
            .collect();
        for (s, e) in gone {
            self.cut(s, e);
            self.missing.insert(s, e);
        }
    }

    /// The sending of what has been on the way longest without word of it.
    pub(super) fn oldest_serial(&self) -> Option<u64> {
        self.segs.values().find(|seg| seg.landed.is_none()).map(|seg| seg.serial)
    }

    /// Takes the first stretch that nothing was heard of for lost.
    pub(super) fn doubt_oldest(&mut self) {
        let oldest = self.segs.iter().find(|(_, seg)| seg.landed.is_none()).map(|(&start, seg)| (start, seg.end));
        if let Some((start, end)) = oldest {
            self.cut(start, end);
            self.missing.insert(start, end);
        }
    }

    /// Whether a receipt speaks only of bytes that were sent.
    pub(super) fn is_plausible(&self, cumulative: u64, ranges: &[(u64, u64)]) -> bool {
        cumulative <= self.next && ranges.first().is_none_or(|&(_, last)| last < self.next)
    }

    /// Takes a plausible receipt: frees what it covers; what it denies although a lane ack reported it long enough
    /// ago is repaired. Returns how many bytes that were.
    pub(super) fn receipt(&mut self, now: Instant, cumulative: u64, ranges: &[(u64, u64)], path: &Path) -> u64 {
        let before = self.base + self.flying + self.missing.total();
        if cumulative > self.base {
            self.cut(self.base, cumulative);
            self.missing.remove(self.base, cumulative);
            self.buf.drain(..(cumulative - self.base) as usize);
            self.base = cumulative;
            if self.buf.is_empty() && self.buf.capacity() > IDLE_CAPACITY {
                self.buf = VecDeque::new();
            }
        }
        for &(first, last) in ranges {
            // `cut` and `remove` take an empty span for what lies below the base.
            let first = first.max(self.base);
            self.cut(first, last + 1);
            self.missing.remove(first, last + 1);
        }
        let mut contradicted = 0;
        if cumulative == self.base {
            contradicted = self.contradict(now, ranges, path);
        }
        if before != self.base + self.flying + self.missing.total() || contradicted > 0 {
            self.query_wait = Span::ZERO;
            self.query_at = None;
        }
        self.watch(now, path);
        contradicted
    }

    /// Landed bytes that a current receipt does not hold were dropped behind the lane. Known for certain only of the
    /// first hole, and of all if the list is whole.
    fn contradict(&mut self, now: Instant, ranges: &[(u64, u64)], path: &Path) -> u64 {
        if self.landed == 0 {
            return 0;
        }
        let grace = path.rtt.scale(1, 2).max(Span::from_millis(50));
        let whole = ranges.len() < RANGES_WHOLE;
        let denied: Vec<(u64, u64)> = self
            .segs
            .iter()
            .take_while(|(start, _)| whole || **start == self.base)
            .filter(|(_, seg)| seg.landed.is_some_and(|at| at + grace <= now))
            .map(|(&start, seg)| (start, seg.end))
            .collect();
        for &(start, end) in &denied {
            self.cut(start, end);
            self.missing.insert(start, end);
        }
        denied.iter().map(|(s, e)| e - s).sum()
    }

    /// The peer said that it holds everything. `false` if it cannot know.
    pub(super) fn completed(&mut self, cumulative: u64) -> bool {
        let fits = self.fin == Some(cumulative) && self.base == cumulative && self.finish.sent;
        if fits {
            self.complete = true;
            self.finish.settle();
            self.query.settle();
            self.query_at = None;
        }
        fits
    }

    /// Starts or stops the wait for a receipt.
    pub(super) fn watch(&mut self, now: Instant, path: &Path) {
        if self.landed == self.flying {
            // Nothing is left that a copy could help.
            self.copy_at = None;
        }
        let finish_silent = self.fin.is_some() && !self.complete && self.finish.arrived;
        let wanted = !self.complete && (self.landed > 0 || finish_silent || self.is_starved());
        if !wanted {
            self.query_at = None;
            self.query_wait = Span::ZERO;
        } else if self.query_at.is_none() && !self.query.due && !self.query.flying() {
            if self.query_wait == Span::ZERO {
                self.query_wait = path.rtt.times(2).max(QUERY_MIN).min(QUERY_MAX);
            }
            self.query_at = Some(now + self.query_wait);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        super::sure::earliest([self.query_at, self.copy_at, self.finish.deadline()])
    }

    /// Time has passed. Returns whether a question became due.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        self.finish.tick(now);
        if self.copy_at.is_some_and(|at| at <= now) {
            self.copy_at = None;
            // Copies exist only for directions of at most `MICRO_MAX` bytes, or that were so a moment ago.
            for (&start, seg) in &mut self.segs {
                if seg.copy_at.is_some_and(|at| at <= now) {
                    seg.copy_at = None;
                    self.copies.insert(start, seg.end);
                }
                self.copy_at = earlier(self.copy_at, seg.copy_at);
            }
        }
        if self.query_at.is_none_or(|at| at > now) {
            return false;
        }
        self.query_at = None;
        self.query_wait = self.query_wait.times(2).min(QUERY_MAX);
        if self.fin.is_some() && !self.complete && self.finish.arrived && self.is_drained() {
            self.finish.ask();
        }
        self.query.ask();
        true
    }

    /// Gives the buffer back; the flow is over.
    pub(super) fn discard(&mut self) {
        *self = Self { complete: self.complete, ..Self::default() };
    }
}
