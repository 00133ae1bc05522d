//! What was sent and is not receipted: in flight, reported by a lane ack, or lost.

use super::{Kind, Outgoing, Stretch};
use crate::hop::sure::{SENDS_MAX, copy_spacing};
use crate::hop::types::earlier;
use wavelane_base::{Instant, Span};
use wavelane_transport::PathView;

/// One sent, unreceipted stretch of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seg {
    pub(super) end: u64,
    /// The newest transmission; its fate decides.
    serial: u64,
    first_at: Instant,
    sends: u8,
    copy_at: Option<Instant>,
    /// When a lane ack reported its arrival.
    pub(super) landed: Option<Instant>,
}

impl Outgoing {
    /// `sent` was written under `serial`. `sends_max` limits the transmissions before a fate is known.
    pub(in crate::hop) fn wrote(&mut self, now: Instant, sent: Stretch, serial: u64, path: &PathView, sends_max: u8) {
        let (mut sends, mut first_at) = (0, now);
        match sent.kind {
            Kind::First => {
                self.next = sent.end;
                self.last_first_at = now;
            }
            Kind::Repair => self.missing.remove(sent.start, sent.end),
            Kind::Again => return self.again.wrote(sent.start, sent.end, serial),
            Kind::Copy => {
                for (_, seg) in self.segs.range(sent.start..sent.end) {
                    sends = sends.max(seg.sends);
                    first_at = first_at.min(seg.first_at);
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
    pub(super) fn cut(&mut self, start: u64, end: u64) {
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
    pub(in crate::hop) fn delivered(&mut self, now: Instant, start: u64, end: u64, path: &PathView) {
        let end = end.min(self.next);
        let start = start.max(self.base);
        if start >= end {
            return;
        }
        // A transmission declared lost arrived after all: the newest information wins.
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

    /// The transmission `serial` of these bytes was lost; those for which it was the newest must be repaired.
    pub(in crate::hop) fn lost(&mut self, start: u64, end: u64, serial: u64) {
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

    /// Whether any bytes are in flight without a lane ack.
    pub(in crate::hop) fn is_unheard(&self) -> bool {
        self.flying > self.landed
    }

    /// The serial of the first stretch in flight without a lane ack.
    pub(in crate::hop) fn oldest_serial(&self) -> Option<u64> {
        self.segs.values().find(|seg| seg.landed.is_none()).map(|seg| seg.serial)
    }

    /// Declares the first stretch without a lane ack lost.
    pub(in crate::hop) fn doubt_oldest(&mut self) {
        let oldest = self.segs.iter().find(|(_, seg)| seg.landed.is_none()).map(|(&start, seg)| (start, seg.end));
        if let Some((start, end)) = oldest {
            self.cut(start, end);
            self.missing.insert(start, end);
        }
    }

    /// Marks copies whose time has come as due.
    pub(super) fn note_due_copies(&mut self, now: Instant) {
        if self.copy_at.is_none_or(|at| at > now) {
            return;
        }
        self.copy_at = None;
        // Copies exist only for directions of at most `MICRO_MAX` bytes, or that were until recently.
        for (&start, seg) in &mut self.segs {
            if seg.copy_at.is_some_and(|at| at <= now) {
                seg.copy_at = None;
                self.copies.insert(start, seg.end);
            }
            self.copy_at = earlier(self.copy_at, seg.copy_at);
        }
    }
}
