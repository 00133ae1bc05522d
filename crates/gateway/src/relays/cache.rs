//! A relay's cache of forwarded bytes: copies, evicted oldest first, so that a block lost by a downstream node need not come from
//! the source again. Bytes in custody are not in it and are never evicted.

use crate::neighbours::Side;
use std::collections::BTreeMap;
use wavelane_base::RangeSet;

/// Maximum size of a piece, which is kept and evicted as a whole.
const PIECE_MAX: usize = 64 << 10;
/// Bookkeeping charged per piece.
const PIECE_OCTETS: u64 = 128;

#[derive(Debug)]
struct Piece {
    bytes: Vec<u8>,
    /// Its place in the LRU order.
    turn: u64,
}

impl Piece {
    fn octets(&self) -> u64 {
        self.bytes.len() as u64 + PIECE_OCTETS
    }
}

/// See the module. A direction of a flow is named by the side it comes from.
#[derive(Debug, Default)]
pub(super) struct Cache {
    budget: u64,
    octets: u64,
    /// By side and offset of the first byte; none overlap.
    pieces: BTreeMap<(Side, u64), Piece>,
    turns: BTreeMap<u64, (Side, u64)>,
    next_turn: u64,
    pub(super) evicted_octets: u64,
}

impl Cache {
    pub(super) fn new(budget: u64) -> Self {
        Self { budget, ..Self::default() }
    }
    /// Bytes including bookkeeping; never above the budget.
    #[cfg(test)]
    pub(super) fn octets(&self) -> u64 {
        self.octets
    }
    /// Sets another budget; what exceeds it is evicted when the next bytes arrive.
    pub(super) fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
    }
    pub(super) fn is_off(&self) -> bool {
        self.budget == 0
    }

    /// Keeps a copy of forwarded bytes.
    pub(super) fn keep(&mut self, side: Side, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = self.keep_some(side, offset, bytes);
            offset += taken as u64;
            bytes = &bytes[taken..];
        }
        while self.octets > self.budget {
            let Some((_, key)) = self.turns.pop_first() else { break };
            if let Some(piece) = self.pieces.remove(&key) {
                self.octets -= piece.octets();
                self.evicted_octets += piece.bytes.len() as u64;
            }
        }
    }

    fn keep_some(&mut self, side: Side, offset: u64, bytes: &[u8]) -> usize {
        let room = match self.pieces.range((side, offset + 1)..=(side, u64::MAX)).next() {
            // Bytes already cached are not kept twice.
            Some((&(_, next), _)) => bytes.len().min(usize::try_from(next - offset).unwrap_or(usize::MAX)),
            None => bytes.len(),
        };
        if let Some((&key, piece)) = self.pieces.range_mut((side, 0)..=(side, offset)).next_back() {
            let end = key.1 + piece.bytes.len() as u64;
            if offset < end {
                return bytes.len().min((end - offset) as usize);
            }
            if end == offset && piece.bytes.len() < PIECE_MAX {
                let taken = room.min(PIECE_MAX - piece.bytes.len());
                piece.bytes.extend_from_slice(&bytes[..taken]);
                self.octets += taken as u64;
                return taken;
            }
        }
        let taken = room.min(PIECE_MAX);
        let piece = Piece { bytes: bytes[..taken].to_vec(), turn: self.next_turn };
        self.turns.insert(self.next_turn, (side, offset));
        self.next_turn += 1;
        self.octets += piece.octets();
        self.pieces.insert((side, offset), piece);
        taken
    }

    /// The pieces that reach into `start..end`, by their offsets.
    fn touched(&self, side: Side, start: u64, end: u64) -> Vec<u64> {
        let before = self.pieces.range((side, 0)..=(side, start)).next_back().map(|((_, at), _)| *at);
        let later = self.pieces.range((side, start + 1)..(side, end.max(start + 1))).map(|((_, at), _)| *at);
        let reaches = |at: &u64| self.pieces[&(side, *at)].bytes.len() as u64 + at > start;
        before.into_iter().filter(reaches).chain(later).collect()
    }

    /// The cached bytes of `start..end`.
    pub(super) fn held(&self, side: Side, start: u64, end: u64) -> RangeSet {
        let mut held = RangeSet::default();
        for at in self.touched(side, start, end) {
            let upto = at + self.pieces[&(side, at)].bytes.len() as u64;
            held.insert(at.max(start), upto.min(end));
        }
        held
    }

    /// The cached bytes of `start..end`, with their offsets; they become the most recently used.
    pub(super) fn read(&mut self, side: Side, start: u64, end: u64) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        for at in self.touched(side, start, end) {
            let Some(piece) = self.pieces.get_mut(&(side, at)) else { continue };
            let (from, to) = (start.max(at), end.min(at + piece.bytes.len() as u64));
            found.push((from, piece.bytes[(from - at) as usize..(to - at) as usize].to_vec()));
            self.turns.remove(&piece.turn);
            piece.turn = self.next_turn;
            self.turns.insert(self.next_turn, (side, at));
            self.next_turn += 1;
        }
        found
    }

    /// The flow is over, or its name is no longer valid.
    pub(super) fn forget(&mut self, side: Side) {
        let keys: Vec<(Side, u64)> = self.pieces.range((side, 0)..=(side, u64::MAX)).map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(piece) = self.pieces.remove(&key) {
                self.octets -= piece.octets();
                self.turns.remove(&piece.turn);
            }
        }
    }

    /// Names of sides changed: the cache is emptied.
    pub(super) fn clear(&mut self) {
        *self = Self { evicted_octets: self.evicted_octets, ..Self::new(self.budget) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeerId;
    use proptest::prelude::*;
    use wavelane_wire::frame::FlowName;

    fn side(number: u64) -> Side {
        (PeerId(0), FlowName { mine: true, number })
    }

    fn byte(number: u64, offset: u64) -> u8 {
        (number * 31 + offset * 7 + offset / 256) as u8
    }

    proptest! {
        /// For any sequence of operations: what is read is what was kept, what `held` reports can be read, and the budget holds.
        #[test]
        fn the_cache_returns_kept_bytes_within_its_budget(
            steps in proptest::collection::vec((0..3u64, 0..400_000u64, 1..90_000u64, 0..4u8), 1..60)
        ) {
            let mut cache = Cache::new(300_000);
            for (number, offset, len, step) in steps {
                let end = offset + len;
                match step {
                    0 | 1 => {
                        let bytes: Vec<u8> = (offset..end).map(|at| byte(number, at)).collect();
                        cache.keep(side(number), offset, &bytes);
                    }
                    2 => {
                        let held = cache.held(side(number), offset, end);
                        let mut read = RangeSet::default();
                        for (at, bytes) in cache.read(side(number), offset, end) {
                            prop_assert!(bytes.iter().zip(at..).all(|(b, at)| *b == byte(number, at)));
                            read.insert(at, at + bytes.len() as u64);
                        }
                        prop_assert_eq!(held, read);
                    }
                    _ => cache.forget(side(number)),
                }
                prop_assert!(cache.octets() <= 300_000);
                prop_assert_eq!(cache.octets(), cache.pieces.values().map(Piece::octets).sum::<u64>());
                prop_assert_eq!(cache.turns.len(), cache.pieces.len());
            }
        }
    }

    #[test]
    fn the_least_recently_used_piece_is_evicted() {
        let mut cache = Cache::new(300_000);
        for n in 0..4 {
            cache.keep(side(n), 0, &[n as u8; PIECE_MAX]);
        }
        assert_eq!(cache.read(side(0), 0, 10), [(0, vec![0; 10])]);
        cache.keep(side(9), 0, &[9; PIECE_MAX]);
        assert!(cache.held(side(1), 0, 10).is_empty(), "the oldest that nobody asked for");
        assert!(!cache.held(side(0), 0, 10).is_empty() && !cache.held(side(2), 0, 10).is_empty());
        assert_eq!(cache.evicted_octets, PIECE_MAX as u64);
    }
}
