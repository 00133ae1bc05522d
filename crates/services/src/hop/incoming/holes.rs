//! Received bytes that are no longer held, or were passed on and are asked for again: what a VTX offer finds lacking, and what is
//! retransmitted on its answer. Also the fault that makes such holes in simulations.

use super::Incoming;
use crate::hop::types::Losing;
use wavelane_base::RangeSet;

/// What the fault loses at once: one smallest block. The first block of a direction is spared, so that a question gets through.
const LOST_BLOCK: u64 = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Holes {
    /// Receipted bytes, not read yet, that were lost.
    pub(super) lost: RangeSet,
    /// Bytes that our newest answer to a VTX offer reported as lacking.
    wanted: RangeSet,
    /// The fault has decided every block that begins below.
    looked: u64,
    /// The block that begins there will be lost once it is whole.
    doomed: bool,
}

/// The parts of `start..end` that `set` covers.
pub(in crate::hop) fn within(set: &RangeSet, start: u64, end: u64) -> Vec<(u64, u64)> {
    let (mut parts, mut at) = (Vec::new(), start);
    if start >= end {
        return parts;
    }
    for (from, to) in set.gaps(start, end) {
        if at < from {
            parts.push((at, from));
        }
        at = to;
    }
    if at < end {
        parts.push((at, end));
    }
    parts
}

impl Incoming {
    /// Bytes below may be read: they are held, and not in a block that is being refilled, which may be lost again.
    pub(super) fn whole_end(&self) -> u64 {
        if self.whole_at().is_some() && !self.is_complete() {
            return self.taken();
        }
        let block = |(start, _)| start / LOST_BLOCK * LOST_BLOCK;
        let whole = self.holes.lost.first().map_or(self.cumulative, block);
        if self.holes.doomed { whole.min(self.holes.looked) } else { whole }
    }
    /// Bytes that the owner took.
    pub(in crate::hop) fn taken(&self) -> u64 {
        self.read
    }

    /// Which receipted bytes of `start..end` are held here, given which of the read ones (`owners`) the owner still has; highest
    /// first, as ranges of a frame. The others are accepted from now on if they arrive again.
    pub(in crate::hop) fn account(&mut self, start: u64, end: u64, owners: &RangeSet) -> Vec<(u64, u64)> {
        let end = end.min(self.cumulative);
        let mut here = RangeSet::default();
        for (from, to) in within(owners, start, end.min(self.read)) {
            here.insert(from, to);
        }
        let unread = start.max(self.read);
        if unread < end {
            for (from, to) in self.holes.lost.gaps(unread, end) {
                here.insert(from, to);
            }
        }
        self.holes.wanted = RangeSet::default();
        if start < end {
            for (from, to) in here.gaps(start, end) {
                self.holes.wanted.insert(from, to);
            }
        }
        here.descending().map(|(from, to)| (from, to - 1)).collect()
    }

    /// Takes those of `bytes` at `offset` that were reported lacking; returns the parts that the owner had read before.
    pub(in crate::hop) fn take_again(
        &mut self,
        offset: u64,
        bytes: &[u8],
        losing: Option<&mut Losing>,
    ) -> Vec<(u64, Vec<u8>)> {
        let end = offset.saturating_add(bytes.len() as u64);
        let parts = within(&self.holes.wanted, offset, end);
        let of = |from: u64, to: u64| &bytes[(from - offset) as usize..(to - offset) as usize];
        let mut owners = Vec::new();
        let mut filled = Vec::new();
        for (from, to) in parts {
            let middle = self.read.clamp(from, to);
            if from < middle {
                owners.push((from, of(from, middle).to_vec()));
            }
            if middle < to {
                self.copy_in(middle, of(middle, to));
                filled.extend(self.blocks_between(middle, to));
                self.holes.lost.remove(middle, to);
            }
        }
        self.holes.wanted.remove(offset, end);
        if let Some(losing) = losing {
            for (from, to) in filled {
                if within(&self.holes.lost, from, to).is_empty() && losing.happens() {
                    self.lose(from, to);
                }
            }
        }
        owners
    }

    /// The fault's blocks that overlap `start..end`.
    fn blocks_between(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let limit = self.finish.unwrap_or(u64::MAX).min(self.cumulative);
        let block = |n: u64| (n * LOST_BLOCK, ((n + 1) * LOST_BLOCK).min(limit));
        (start / LOST_BLOCK..end.div_ceil(LOST_BLOCK)).map(block).collect()
    }

    /// The fault, after bytes or the end arrived. Blocks to be lost are held until they are whole.
    pub(in crate::hop) fn lose_blocks(&mut self, losing: &mut Losing) {
        self.holes.looked = self.holes.looked.max(LOST_BLOCK);
        while self.holes.looked < self.cumulative {
            let start = self.holes.looked;
            if !self.holes.doomed && !losing.happens() {
                self.holes.looked = start + LOST_BLOCK;
                continue;
            }
            self.holes.doomed = true;
            let end = (start + LOST_BLOCK).min(self.finish.unwrap_or(u64::MAX));
            if self.cumulative < end {
                return;
            }
            self.lose(start, end);
            self.holes.doomed = false;
            self.holes.looked = start + LOST_BLOCK;
        }
    }

    fn lose(&mut self, start: u64, end: u64) {
        self.copy_in(start, &vec![0; (end - start) as usize]);
        self.holes.lost.insert(start, end);
    }
}
