//! Receipted bytes that are retransmitted because the next node lost them: a VTX offer found them lacking.
//!
//! They are not repaired from receipts, which already covered them: a lost transmission is repeated, one arrival suffices. If the
//! node dropped it, the edge asks again.

use std::collections::BTreeMap;
use wavelane_base::RangeSet;

/// Most bytes of one flow that are retransmitted at once.
pub(in crate::hop) const AGAIN_MAX: u64 = 2 * super::super::VTX_OCTETS_MAX;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::hop) struct Again {
    /// Stretches of bytes by their offset; none overlap.
    parts: BTreeMap<u64, Vec<u8>>,
    /// What is to be sent.
    due: RangeSet,
    /// What is in flight: end and serial of the transmission by its start.
    flying: BTreeMap<u64, (u64, u64)>,
    octets: u64,
}

impl Again {
    pub(in crate::hop) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
    pub(in crate::hop) fn octets(&self) -> u64 {
        self.octets
    }
    /// Queues `bytes` from `offset` on, unless some of them are queued or in flight already or the limit is exceeded.
    pub(in crate::hop) fn put(&mut self, offset: u64, bytes: Vec<u8>) {
        let end = offset + bytes.len() as u64;
        let overlaps = self.parts.range(..end).next_back().is_some_and(|(at, part)| at + part.len() as u64 > offset);
        if bytes.is_empty() || overlaps || self.octets + bytes.len() as u64 > AGAIN_MAX {
            return;
        }
        self.octets += bytes.len() as u64;
        self.due.insert(offset, end);
        self.parts.insert(offset, bytes);
    }
    /// The first stretch to be sent, within one part.
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        let (start, end) = self.due.first()?;
        let (at, part) = self.parts.range(..=start).next_back()?;
        Some((start, end.min(at + part.len() as u64)))
    }
    pub(super) fn bytes(&self, start: u64, end: u64) -> &[u8] {
        let Some((at, part)) = self.parts.range(..=start).next_back() else { return &[] };
        &part[(start - at) as usize..(end - at) as usize]
    }
    pub(super) fn wrote(&mut self, start: u64, end: u64, serial: u64) {
        self.due.remove(start, end);
        self.flying.insert(start, (end, serial));
    }
    /// The fate of a transmission.
    pub(in crate::hop) fn fate(&mut self, start: u64, serial: u64, arrived: bool) {
        let Some((end, _)) = self.flying.get(&start).copied().filter(|(_, newest)| *newest == serial) else { return };
        self.flying.remove(&start);
        if !arrived {
            self.due.insert(start, end);
            return;
        }
        let Some((&at, part)) = self.parts.range(..=start).next_back() else { return };
        let (len, upto) = (part.len() as u64, at + part.len() as u64);
        let waits = self.due.gaps(at, upto) != [(at, upto)];
        let flies = self.flying.range(at..upto).next().is_some();
        if !waits && !flies {
            self.parts.remove(&at);
            self.octets -= len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_bytes_are_resent_until_delivered() {
        let mut again = Again::default();
        again.put(100, (0..50).collect());
        again.put(140, vec![9; 20]);
        assert_eq!((again.octets(), again.first()), (50, Some((100, 150))), "what is under way is not put twice");
        assert_eq!(again.bytes(110, 113), [10, 11, 12]);
        again.wrote(100, 130, 1);
        again.wrote(130, 150, 2);
        assert_eq!(again.first(), None);
        again.fate(130, 2, true);
        again.fate(100, 1, false);
        assert_eq!(again.first(), Some((100, 130)));
        again.wrote(100, 130, 3);
        again.fate(100, 1, true);
        assert!(!again.is_empty(), "an older sending's fate says nothing of the newest");
        again.fate(100, 3, true);
        assert!(again.is_empty() && again.octets() == 0);
    }

    #[test]
    fn no_more_is_taken_than_the_bound() {
        let mut again = Again::default();
        for n in 0..20 {
            again.put(n << 20, vec![0; 100_000]);
        }
        assert!(again.octets() <= AGAIN_MAX && again.octets() > AGAIN_MAX / 2);
    }
}
