//! The receiving half: reassembly, the announced window, and when acknowledgements are sent.

use super::compression::Compression;
use super::config::Config;
use std::collections::VecDeque;
use wavelane_base::{Instant, Span};
use wavelane_wire::tcp::WINDOW_SCALE_MAX;

/// Most separate ranges of data kept beyond the first hole; segments that would add more are dropped.
pub(super) const STRETCHES_MAX: usize = 4_096;
/// What a buffer that is empty keeps of its memory at most.
pub(super) const IDLE_ROOM: usize = 4_096;
/// Smaller segments are not taken for full ones, however alike they are (RFC 9293, section 3.7.1: what every host takes).
const FULL_LEAST: usize = 536;
/// Most acknowledgements pending at once, if the peer sends faster than the machine is drained.
const ACKS_OWED_MAX: u32 = 64;
/// Initial window in segments (RFC 6928), used as one round trip's amount before one was measured.
const INITIAL_SEGMENTS: usize = 10;
/// SACK blocks reported, latest first (RFC 2018, section 4).
const REPORTS_MAX: usize = 4;
/// SACK blocks that fit in every acknowledgement, allowing for one lost acknowledgement (Linux's `TCP_SACK_BLOCKS_EXPECTED`).
const REPORTS_SURE: usize = 2;

#[derive(Debug)]
pub(super) struct Receiver {
    /// Bytes from `read_at` on; those from `next` on have holes.
    ring: VecDeque<u8>,
    read_at: u64,
    /// The next position expected.
    pub(super) next: u64,
    /// Ranges received beyond the first hole: disjoint, ascending.
    pub(super) stretches: Vec<(u64, u64)>,
    /// Starts of the most recently extended ranges, latest first.
    recent: Vec<u64>,
    /// The most recently extended range was further down in `recent` than is certain to be reported.
    far: bool,
    pub(super) compression: Compression,
    /// A duplicate to be reported (RFC 2883).
    duplicate: Option<(u64, u64)>,
    pub(super) buffer: usize,
    /// Largest window announced; grows to `buffer`.
    pub(super) limit: usize,
    /// Start of the current measurement, and the bytes read in it.
    pub(super) measured: (Instant, usize),
    /// The most that was read in a round trip.
    pub(super) per_round: usize,
    /// The RTT measured from echoes of our timestamps, and the last echo measured.
    pub(super) round_trip: (Option<Span>, u32),
    /// The announced right edge; never moved left.
    pub(super) edge: u64,
    /// A window of 0 is announced, whatever there is room for; what lies below the edge is still taken.
    pub(super) frozen: bool,
    pub(super) shift: u8,
    pub(super) mss: usize,
    count: u32,
    timer: Span,
    /// Quick acknowledgements: how many are left, and how many each trigger grants.
    quick: u32,
    quick_most: u32,
    /// Data with PSH arrived since the last acknowledgement, and is acknowledged when it is read.
    pushed: bool,
    ack_when_read: bool,
    /// The largest segment so far: a smaller one is taken as the end of a write.
    largest: usize,
    last_data: Option<Instant>,
    /// The latest segment was as large as any: it may not be the end of what its sender wrote.
    pub(super) more: bool,
    /// Bytes that may wait, read or not; no window promises more.
    pub(super) spare: usize,
    /// How far the pool stands by the announced edge: beyond, segments are as if they had been lost.
    vouched: u64,
    /// We reply to received data, so acknowledgements can be piggybacked.
    answers: bool,
    /// Full segments not acknowledged yet.
    waiting: u32,
    /// Acknowledgements that must go now.
    pub(super) owed: u32,
    pub(super) ack_at: Option<Instant>,
    /// The position of the peer's FIN, once known.
    pub(super) fin: Option<u64>,
}

/// The effect of a segment's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Took {
    /// The expected position moved.
    pub(super) advanced: bool,
    /// The peer's FIN is in order now.
    pub(super) ended: bool,
}

impl Receiver {
    /// The first window that a configuration announces.
    pub(super) fn first_limit(config: &Config) -> usize {
        config.receive_window_initial.unwrap_or(usize::MAX).min(config.receive_buffer)
    }
    /// By how many bits its window is scaled.
    pub(super) fn shift(config: &Config) -> u8 {
        let needed = (WINDOW_BITS..).take_while(|bits| config.receive_buffer >> bits > 0).count() as u8;
        if config.window_scale { needed.min(WINDOW_SCALE_MAX) } else { 0 }
    }
    pub(super) fn new(config: &Config, now: Instant) -> Self {
        let limit = Self::first_limit(config);
        Self {
            ring: VecDeque::new(),
            read_at: 1,
            next: 0,
            stretches: Vec::new(),
            recent: Vec::new(),
            far: false,
            compression: Compression::new(config.compressed_acks),
            duplicate: None,
            buffer: config.receive_buffer,
            limit,
            measured: (now, 0),
            per_round: INITIAL_SEGMENTS * usize::from(config.mss),
            round_trip: (None, 0),
            edge: 0,
            frozen: false,
            shift: Self::shift(config),
            mss: usize::from(config.mss),
            count: config.delayed_ack_count.max(1),
            timer: config.delayed_ack_timer,
            quick: config.quick_acks,
            quick_most: config.quick_acks,
            pushed: false,
            ack_when_read: config.ack_when_read,
            largest: 0,
            last_data: None,
            more: false,
            spare: usize::MAX,
            vouched: 0,
            answers: false,
            waiting: 0,
            owed: 0,
            ack_at: None,
            fin: None,
        }
    }

    /// The peer's SYN took position 0.
    pub(super) fn synchronise(&mut self) {
        self.next = 1;
        self.edge = 1;
    }
    /// Bytes ready to be read.
    pub(super) fn readable(&self) -> usize {
        (self.next.min(self.fin.unwrap_or(u64::MAX)).max(self.read_at) - self.read_at) as usize
    }
    /// Bytes held, holes included.
    pub(super) fn held(&self) -> usize {
        self.ring.len()
    }
    pub(super) fn round_trip(&self) -> (Option<Span>, u32) {
        self.round_trip
    }
    /// Sets the buffer to `octets`. A window limit equal to the old buffer grows with it.
    pub(super) fn resize(&mut self, octets: usize) {
        let whole = self.limit == self.buffer;
        self.buffer = octets;
        self.limit = if whole { octets } else { self.limit.min(octets) };
    }
    /// Whether every byte was read and the peer ended.
    pub(super) fn is_at_end(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin && self.read_at >= fin)
    }
    /// The announced right edge.
    pub(super) fn edge(&self) -> u64 {
        self.edge
    }
    /// A segment is dropped: with SACK, the acknowledgement reports its bytes received before (D-SACK, RFC 2883).
    pub(super) fn note_old(&mut self, start: Option<u64>, len: u64) {
        if let Some(start) = start.filter(|start| len > 0 && *start < self.next) {
            self.hurry();
            self.duplicate = Some((start, (start + len).min(self.next)));
        }
    }

    /// Takes `bytes` at `start`, and a FIN behind them. Data is trimmed to the announced window. With SACK, `round_trip`
    /// limits how long acknowledgements may be delayed.
    pub(super) fn take(&mut self, now: Instant, start: u64, bytes: &[u8], fin: bool, round_trip: Option<Span>) -> Took {
        let end = start + bytes.len() as u64;
        if fin && self.fin.is_none() && end <= self.edge {
            self.fin = Some(end);
        }
        // Data beyond the FIN is ignored.
        self.vouch();
        let stop = end.min(self.vouched).min(self.fin.unwrap_or(u64::MAX));
        let from = start.max(self.next);
        let was_hole = !self.stretches.is_empty();
        if start < self.next && start < end {
            self.duplicate = Some((start, end.min(self.next)));
            if end <= self.next {
                self.hurry();
            }
        }
        let before = self.next;
        if from < stop {
            let skip = (from - start) as usize;
            self.store(from, &bytes[skip..skip + (stop - from) as usize]);
        }
        let mut took = Took { advanced: self.next > before, ended: false };
        if self.fin == Some(self.next) {
            self.next += 1;
            took = Took { advanced: true, ended: true };
        }
        let in_order = start <= before && took.advanced && !was_hole;
        let beyond = start > before && !took.advanced && self.duplicate.is_none() && !self.is_hasty();
        let round_trip = round_trip.map(|smoothed| self.round_trip.0.map_or(smoothed, |ours| ours.min(smoothed)));
        if !(beyond && self.compression.leaves_out(now, self.next, self.far, round_trip)) {
            self.schedule(now, in_order && !took.ended, bytes.len());
        }
        took
    }

    fn store(&mut self, start: u64, bytes: &[u8]) {
        let end = start + bytes.len() as u64;
        if start > self.next && !self.note_stretch(start, end) {
            return;
        }
        let offset = (start - self.read_at) as usize;
        if self.ring.len() < offset + bytes.len() {
            self.ring.resize(offset + bytes.len(), 0);
        }
        let (head, tail) = self.ring.as_mut_slices();
        let cut = head.len().saturating_sub(offset).min(bytes.len());
        if cut > 0 {
            head[offset..offset + cut].copy_from_slice(&bytes[..cut]);
        }
        if cut < bytes.len() {
            let at = (offset + cut) - head.len();
            tail[at..at + bytes.len() - cut].copy_from_slice(&bytes[cut..]);
        }
        if start <= self.next {
            self.next = self.next.max(end);
            self.close_holes();
        }
    }

    /// Ranges that begin at or below the expected position are now in order.
    fn close_holes(&mut self) {
        let done = self.stretches.partition_point(|(start, _)| *start <= self.next);
        // They are disjoint, so the last has the highest end.
        if let Some((_, end)) = done.checked_sub(1).map(|last| self.stretches[last]) {
            self.next = self.next.max(end);
        }
        self.stretches.drain(..done);
        let lowest = self.next;
        self.recent.retain(|start| *start > lowest);
    }

    /// Adds a range, merging it with those it touches. Returns false if there are too many.
    fn note_stretch(&mut self, start: u64, end: u64) -> bool {
        let from = self.stretches.partition_point(|(_, e)| *e < start);
        let to = self.stretches.partition_point(|(s, _)| *s <= end);
        if from == to && self.stretches.len() >= STRETCHES_MAX {
            return false;
        }
        let touched = &self.stretches[from..to];
        if let Some(&(known, _)) = touched.iter().find(|(s, e)| *s <= start && end <= *e) {
            self.duplicate = Some((start, end));
            self.report_first(known);
            return true;
        }
        let whole = touched.iter().fold((start, end), |(a, b), (s, e)| (a.min(*s), b.max(*e)));
        let known = |start: &u64| touched.iter().any(|(s, _)| s == start);
        self.far = self.recent.iter().position(known).unwrap_or(self.recent.len()) >= REPORTS_SURE;
        self.recent.retain(|start| !known(start));
        self.stretches.splice(from..to, [whole]);
        self.report_first(whole.0);
        // Out-of-order data must not use up the window that the sender needs meanwhile (as Linux since 6.16:
        // net/ipv4/tcp_input.c, tcp_rcvbuf_grow, commit 63ad7dfedfae "tcp: adjust rcvbuf in presence of reorders").
        self.limit = self.limit.max(2 * self.per_round + self.waits()).min(self.buffer);
        true
    }
    fn report_first(&mut self, start: u64) {
        self.recent.retain(|other| *other != start);
        self.recent.insert(0, start);
        self.recent.truncate(REPORTS_MAX);
    }

    /// A segment with `octets` of data arrived. After an idle time longer than `rto` the sender restarts with a small cwnd
    /// and needs every acknowledgement (Linux's `tcp_event_data_recv` and `tcp_measure_rcv_mss`).
    pub(super) fn note_segment(&mut self, now: Instant, rto: Span, octets: usize, pushed: bool) {
        if octets == 0 {
            return;
        }
        if self.last_data.is_some_and(|last| now.since(last) > rto) {
            self.hasten();
        }
        self.last_data = Some(now);
        self.pushed |= pushed || octets < self.largest;
        self.largest = self.largest.max(octets);
        // A program that wrote just as much has nothing more to come.
        self.more = !pushed && octets == self.largest && octets >= FULL_LEAST;
    }
    /// The window, or what the pool leaves of it.
    pub(super) fn most(&self) -> usize {
        self.limit.min(self.spare)
    }
    /// Whatever is announced within what the pool has left is stood by from now on.
    pub(super) fn vouch(&mut self) {
        let most = self.edge.min(self.fin.unwrap_or(u64::MAX));
        self.vouched = self.vouched.max(self.read_at.saturating_add(self.spare as u64)).min(most);
    }
    /// The pool stands by no more than what is here.
    pub(super) fn withdraw(&mut self) {
        self.vouched = self.read_at + self.ring.len() as u64;
    }
    /// Bytes from the next to be read on that the pool stands by.
    pub(super) fn committed(&self) -> usize {
        self.held().max(self.vouched.saturating_sub(self.read_at) as usize)
    }
    /// Whether anything was read.
    pub(super) fn was_read(&self) -> bool {
        self.read_at > 1
    }
    /// When data came or were read last, as far as is known.
    pub(super) fn latest(&self) -> Instant {
        self.last_data.unwrap_or(self.measured.0).max(self.measured.0)
    }
    /// The sender retransmits received data or restarts: quick acknowledgements follow.
    fn hasten(&mut self) {
        let fit = (self.limit / (2 * self.mss.max(1))).max(2);
        self.quick = self.quick.max(self.quick_most.min(u32::try_from(fit).unwrap_or(u32::MAX)));
    }
    fn hurry(&mut self) {
        self.answers = false;
        self.hasten();
    }
    /// Data is sent: if it follows received data shortly, later acknowledgements can be piggybacked too.
    pub(super) fn note_reply(&mut self, now: Instant) {
        self.answers |= self.last_data.is_some_and(|last| now.since(last) < self.timer);
    }
    fn is_hasty(&self) -> bool {
        self.quick > 0 && !self.answers
    }
    /// RFC 5681, section 4.2: a segment that closes or opens a hole is acknowledged immediately; in order, every second segment.
    fn schedule(&mut self, now: Instant, in_order: bool, octets: usize) {
        if !in_order || self.is_hasty() {
            self.quick = self.quick.saturating_sub(1);
            self.owe();
            return;
        }
        // Small segments count too (Linux counts bytes; RFC 9293 full segments): two of them trigger the acknowledgement as well.
        self.waiting += if octets > 0 { 1 } else { 0 };
        if self.waiting >= self.count {
            self.owe();
        } else if self.ack_at.is_none() {
            self.ack_at = Some(now + self.timer);
        }
    }
    /// An acknowledgement must be sent now.
    pub(super) fn owe(&mut self) {
        self.owed = (self.owed + 1).min(ACKS_OWED_MAX);
    }
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.ack_at.is_some_and(|at| at <= now) {
            self.ack_at = None;
            // There was no data to piggyback on.
            self.answers = false;
            self.owe();
        }
        if self.compression.on_timeout(now) {
            self.owe();
        }
    }
    /// Whether an acknowledgement would carry SACK blocks.
    pub(super) fn has_reports(&self) -> bool {
        self.duplicate.is_some() || !self.stretches.is_empty()
    }
    /// The blocks to report, at most `most`; a duplicate comes first, once.
    pub(super) fn reports(&mut self, most: usize) -> Vec<(u64, u64)> {
        let mut blocks: Vec<(u64, u64)> = self.duplicate.take().into_iter().collect();
        for start in &self.recent {
            let place = self.stretches.partition_point(|(s, _)| s < start);
            blocks.extend(self.stretches.get(place).filter(|(s, _)| s == start));
        }
        blocks.truncate(most);
        blocks
    }
    /// An acknowledgement was sent, alone or with data.
    pub(super) fn acknowledged(&mut self, alone: bool) {
        self.owed = if alone { self.owed.saturating_sub(1) } else { 0 };
        self.waiting = 0;
        self.pushed = false;
        self.ack_at = None;
        if alone {
            // Segments with data carry no SACK blocks.
            self.compression.told();
        }
    }

    /// Reads into `buf`; returns how much. An acknowledgement is due if the window opened considerably.
    pub(super) fn read(&mut self, now: Instant, rtt: Option<Span>, buf: &mut [u8]) -> usize {
        let n = self.readable().min(buf.len());
        let (head, tail) = self.ring.as_slices();
        let cut = head.len().min(n);
        buf[..cut].copy_from_slice(&head[..cut]);
        buf[cut..n].copy_from_slice(&tail[..n - cut]);
        self.ring.drain(..n);
        if self.ring.is_empty() && self.ring.capacity() > IDLE_ROOM {
            self.ring = VecDeque::new();
        }
        self.read_at += n as u64;
        self.widen(now, rtt, n);
        let opened = self.next_edge() - self.edge;
        let most = self.most();
        let half_shut = self.edge - self.next < most as u64 / 2;
        if n > 0
            && self.fin.is_none()
            && !self.frozen
            && half_shut
            && opened as usize >= (2 * self.mss).min(most / 2).max(1)
        {
            self.owed = self.owed.max(1);
        }
        let wanted = self.ack_when_read && self.pushed && !self.answers;
        if n > 0 && wanted && self.ack_at.is_some() && self.ring.is_empty() {
            self.owed = self.owed.max(1);
        }
        n
    }
}

/// Bits of the header's window field.
const WINDOW_BITS: u32 = 16;
