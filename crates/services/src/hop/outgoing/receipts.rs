//! Receipts at the sender: bytes to release, bytes dropped behind the lane, and when to request a receipt that is missing.

use super::{Outgoing, QUERY_MAX, QUERY_MIN};
use crate::hop::memory::give_back;
use wavelane_base::{Instant, Span};
use wavelane_transport::PathView;

/// Maximum number of stretches into which a direction's bytes in flight are divided: this many, and ...
const STRETCHES_MIN: usize = 1024;
/// ... one more per this many bytes. A receiver that keeps whole datagrams never divides finer for long; one that receipts every
/// other byte would cost us a hundred times the bytes' memory in bookkeeping.
const STRETCH_OCTETS: u64 = 64;
/// Interval between searches for bytes dropped behind the lane: each iterates over every stretch.
const CONTRADICT_EVERY: Span = Span::from_millis(5);
/// A range list shorter than this was not truncated (a rule of the receipt format).
pub(in crate::hop) const RANGES_WHOLE: usize = 32;

impl Outgoing {
    /// Whether a receipt covers only bytes that were sent.
    pub(in crate::hop) fn is_plausible(&self, cumulative: u64, ranges: &[(u64, u64)]) -> bool {
        cumulative <= self.next && ranges.first().is_none_or(|&(_, last)| last < self.next)
    }

    /// Takes a plausible receipt: frees what it covers; bytes it lacks although a lane ack reported them long enough ago are
    /// repaired. Returns the number of the latter.
    pub(in crate::hop) fn receipt(
        &mut self,
        now: Instant,
        cumulative: u64,
        ranges: &[(u64, u64)],
        path: &PathView,
    ) -> u64 {
        let before = self.base + self.flying + self.missing.total();
        if cumulative > self.base {
            self.cut(self.base, cumulative);
            self.missing.remove(self.base, cumulative);
            self.buf.drain(..(cumulative - self.base) as usize);
            self.base = cumulative;
            give_back(&mut self.buf);
        }
        for &(first, last) in ranges {
            if self.is_in_pieces() {
                break;
            }
            // `cut` and `remove` accept an empty span, for ranges below the base.
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

    /// Number of stretches.
    pub(in crate::hop) fn stretches(&self) -> usize {
        self.segs.len() + self.missing.count()
    }

    /// Whether the bytes in flight are divided too finely for the memory that takes.
    fn is_in_pieces(&self) -> bool {
        let octets_max = (self.flying + self.missing.total()) / STRETCH_OCTETS;
        self.stretches() > STRETCHES_MIN + usize::try_from(octets_max).unwrap_or(usize::MAX)
    }

    /// Landed bytes missing from a current receipt were dropped behind the lane. This is certain for the first hole and for bytes
    /// above the lowest listed range, and for all bytes if the list is whole.
    fn contradict(&mut self, now: Instant, ranges: &[(u64, u64)], path: &PathView) -> u64 {
        if self.landed == 0 || self.contradicted_at.is_some_and(|at| now.since(at) < CONTRADICT_EVERY) {
            return 0;
        }
        self.contradicted_at = Some(now);
        let grace = path.rtt.scale(1, 2).max(Span::from_millis(50));
        let told = if ranges.len() < RANGES_WHOLE { self.base } else { ranges[ranges.len() - 1].0.max(self.base) };
        let first = self.segs.range(self.base..=self.base).filter(|_| told > self.base);
        let denied: Vec<(u64, u64)> = first
            .chain(self.segs.range(told..))
            .filter(|(_, seg)| seg.landed.is_some_and(|at| at + grace <= now))
            .map(|(&start, seg)| (start, seg.end))
            .collect();
        for &(start, end) in &denied {
            self.cut(start, end);
            self.missing.insert(start, end);
        }
        denied.iter().map(|(s, e)| e - s).sum()
    }

    /// The peer says that it holds everything. `false` if it cannot know.
    pub(in crate::hop) fn completed(&mut self, cumulative: u64) -> bool {
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
    pub(in crate::hop) fn watch(&mut self, now: Instant, path: &PathView) {
        if self.landed == self.flying {
            // No bytes are left that a copy could help.
            self.copy_at = None;
        }
        let owed = self.is_owed_receipt();
        if !owed && (self.complete || !self.is_starved()) {
            self.query_at = None;
            self.query_wait = Span::ZERO;
        } else if self.query_at.is_none() && !self.query.due && !self.query.flying() {
            if self.query_wait == Span::ZERO {
                // Where acks are to be rare, receipts are rare as well.
                let rare = path.ack_delay.times(2);
                let receipt = path.rtt.times(2).max(QUERY_MIN).min(QUERY_MAX).max(rare);
                self.query_wait = if owed { receipt } else { QUERY_MAX };
            }
            self.query_at = Some(now + self.query_wait);
        }
        if owed {
            self.query_at = self.query_at.map(|at| at.min(now + QUERY_MAX.max(path.ack_delay.times(2))));
        }
    }
}
