//! Segments in flight: one entry per segment, in sequence order, with its SACK and loss state.
//!
//! Positions count from the SYN (0); the first byte of data is 1.

use super::rate::Stamp;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) stamp: Stamp,
    /// Sent with PSH.
    pub(super) pushed: bool,
    /// Sent more than once.
    pub(super) again: bool,
    pub(super) sacked: bool,
    /// Marked lost and not retransmitted since.
    pub(super) lost: bool,
}

impl Sent {
    pub(super) fn len(&self) -> u64 {
        self.end - self.start
    }
}

#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    queue: VecDeque<Sent>,
    /// Bytes.
    sacked: u64,
    /// Segments.
    sacked_segments: usize,
    /// Bytes.
    lost: u64,
    /// No lost entry starts below this.
    lost_from: u64,
    /// Bytes that left the network according to duplicate acknowledgements, without SACK.
    left: u64,
    /// SACK state is guessed: only an acknowledgement counts as delivery, and a timeout discards the guesses.
    guessing: bool,
    /// The highest end of any entry that was sent more than once.
    pub(super) again_end: u64,
}

impl Scoreboard {
    pub(super) fn new(guessing: bool) -> Self {
        Self { guessing, ..Self::default() }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
    pub(super) fn front(&self) -> Option<&Sent> {
        self.queue.front()
    }
    pub(super) fn back(&self) -> Option<&Sent> {
        self.queue.back()
    }
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Sent> {
        self.queue.iter()
    }
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
    pub(super) fn get(&self, place: usize) -> Option<&Sent> {
        self.queue.get(place)
    }
    pub(super) fn sacked_segments(&self) -> usize {
        self.sacked_segments
    }
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
    /// Bytes believed to be in the network.
    pub(super) fn pipe(&self) -> u64 {
        let all = self.queue.back().map_or(0, |last| last.end) - self.queue.front().map_or(0, |first| first.start);
        all.saturating_sub(self.sacked + self.lost + self.left)
    }
    pub(super) fn push(&mut self, start: u64, end: u64, stamp: Stamp, pushed: bool) {
        self.queue.push_back(Sent { start, end, stamp, pushed, again: false, sacked: false, lost: false });
    }

    /// Everything below `ack` has arrived. `delivered` is called for each segment not yet known to have arrived.
    pub(super) fn acknowledge(&mut self, ack: u64, mut delivered: impl FnMut(&Sent)) {
        while let Some(first) = self.queue.front_mut().filter(|first| first.start < ack) {
            let part = Sent { end: first.end.min(ack), ..*first };
            first.start = part.end;
            if part.sacked {
                self.sacked -= part.len();
            }
            if !part.sacked || self.guessing {
                delivered(&part);
            }
            if part.lost {
                self.lost -= part.len();
            }
            if part.end == first.end {
                self.sacked_segments -= usize::from(part.sacked);
                self.queue.pop_front();
            }
        }
        self.left = self.left.min(self.queue.back().map_or(0, |last| last.end.saturating_sub(ack)));
    }

    /// `left..right` has arrived. `delivered` is called for each segment not yet known to have arrived.
    pub(super) fn sack(&mut self, left: u64, right: u64, mut delivered: impl FnMut(&Sent)) {
        let mut place = self.queue.partition_point(|sent| sent.end <= left);
        while let Some(sent) = self.queue.get(place).copied().filter(|sent| sent.start < right) {
            if sent.sacked {
                place += 1;
                continue;
            }
            if sent.start < left {
                self.split(place, left);
                place += 1;
                continue;
            }
            if sent.end > right {
                self.split(place, right);
            }
            let sent = &mut self.queue[place];
            delivered(sent);
            sent.sacked = true;
            self.sacked += sent.len();
            self.sacked_segments += 1;
            if std::mem::take(&mut sent.lost) {
                self.lost -= sent.len();
            }
            place += 1;
        }
    }

    /// Clears the SACK state of the first entry.
    pub(super) fn unsack_first(&mut self) {
        if let Some(first) = self.queue.front_mut().filter(|first| first.sacked) {
            first.sacked = false;
            self.sacked -= first.len();
            self.sacked_segments -= 1;
        }
    }
    fn split(&mut self, place: usize, at: u64) {
        let first = &mut self.queue[place];
        let second = Sent { start: at, ..*first };
        first.end = at;
        first.pushed = false;
        self.queue.insert(place + 1, second);
    }

    pub(super) fn mark_lost(&mut self, place: usize) {
        let sent = &mut self.queue[place];
        if sent.sacked || sent.lost {
            return;
        }
        sent.lost = true;
        self.lost_from = if self.lost == 0 { sent.start } else { self.lost_from.min(sent.start) };
        self.lost += sent.len();
    }
    /// Splits segments longer than `mss` and marks them lost. Returns whether there were any.
    pub(super) fn cut_and_lose(&mut self, mss: u64) -> bool {
        let mut any = false;
        let mut place = 0;
        while let Some(sent) = self.queue.get(place).copied() {
            if !sent.sacked && sent.len() > mss {
                any = true;
                self.split(place, sent.start + mss);
                self.mark_lost(place);
                // The remainder is examined next; it has the same state.
                if self.queue[place + 1].len() <= mss {
                    self.mark_lost(place + 1);
                }
            }
            place += 1;
        }
        any
    }
    /// After a timeout: everything not known to have arrived is marked lost. If the receiver reneged (the first segment is
    /// reported as received), all SACK state is discarded (RFC 2018, section 8).
    pub(super) fn mark_all_lost(&mut self) {
        if self.guessing || self.queue.front().is_some_and(|first| first.sacked) {
            self.queue.iter_mut().for_each(|sent| sent.sacked = false);
            self.sacked = 0;
            self.sacked_segments = 0;
        }
        self.left = 0;
        for place in 0..self.queue.len() {
            self.mark_lost(place);
        }
    }
    /// Clears all loss marks.
    pub(super) fn clear_lost(&mut self) {
        self.queue.iter_mut().for_each(|sent| sent.lost = false);
        self.lost = 0;
    }
    /// The lowest entry that is marked lost.
    pub(super) fn first_lost(&self) -> Option<usize> {
        if self.lost == 0 {
            return None;
        }
        let from = self.queue.partition_point(|sent| sent.end <= self.lost_from);
        self.queue.iter().skip(from).position(|sent| sent.lost).map(|place| from + place)
    }
    /// Whether a retransmitted segment is still outstanding.
    pub(super) fn is_repeat_in_flight(&self) -> bool {
        let below = self.queue.iter().take_while(|sent| sent.start < self.again_end);
        below.into_iter().any(|sent| sent.again && !sent.sacked && !sent.lost)
    }
    /// Whether what starts at `left` was sent more than once and is known to have arrived.
    pub(super) fn is_reported_repeat(&self, left: u64) -> bool {
        let place = self.queue.partition_point(|sent| sent.end <= left);
        self.queue.get(place).is_some_and(|sent| sent.again && sent.sacked)
    }
    pub(super) fn sent_again(&mut self, place: usize, stamp: Stamp) {
        let sent = &mut self.queue[place];
        sent.stamp = stamp;
        sent.again = true;
        self.again_end = self.again_end.max(sent.end);
        if std::mem::take(&mut sent.lost) {
            self.lost -= sent.len();
            self.lost_from = sent.end;
        }
    }
    /// A duplicate acknowledgement without SACK: one segment has left.
    pub(super) fn note_left(&mut self, octets: u64) {
        let all = self.queue.back().map_or(0, |last| last.end) - self.queue.front().map_or(0, |first| first.start);
        self.left = (self.left + octets).min(all.saturating_sub(self.lost + 1));
    }
    /// A cumulative advance of `octets` covers segments already counted by duplicate acknowledgements, all but one.
    pub(super) fn forget_left(&mut self, octets: u64) {
        self.left = self.left.saturating_sub(octets);
    }
}
