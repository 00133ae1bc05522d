//! Cutting new bytes into blocks: when one ends, and which one a query is about.

use super::{Outgoing, QUERY_MIN};
use wavelane_base::{Instant, Span};
use wavelane_transport::PathView;

/// Smallest and largest block.
const BLOCK_MIN: u64 = 64 << 10;
/// See [`BLOCK_MIN`].
const BLOCK_MAX: u64 = 4 << 20;
/// Age at which a block closes.
const BLOCK_AGE: Span = Span::from_secs(1);

/// The block being filled.
#[derive(Clone, Copy, Debug)]
pub(in crate::hop) struct Block {
    pub(in crate::hop) number: u64,
    pub(in crate::hop) start: u64,
    pub(in crate::hop) length: Option<u64>,
    pub(in crate::hop) micro: bool,
    opened: Instant,
}

/// Where a block closes on a path.
pub(in crate::hop) fn block_octets(path: &PathView) -> u64 {
    (path.rate.octets_in(path.rtt).get() * 3 / 2).clamp(BLOCK_MIN, BLOCK_MAX)
}

impl Outgoing {
    /// The block that new bytes at `next` begin, if any. `now_sent` bytes go out with the offer.
    pub(in crate::hop) fn new_block(&self, now: Instant, path: &PathView, now_sent: u64) -> Option<Block> {
        let micro = self.is_micro() && now_sent == self.unsent();
        let size = self.manner.block.unwrap_or_else(|| block_octets(path));
        let open = self.block.is_some_and(|b| {
            b.length.is_none()
                && !micro
                && self.next - b.start < size
                && (self.manner.block.is_some() || now.since(b.opened) < BLOCK_AGE)
                && now.since(self.last_first_at) < QUERY_MIN
        });
        let length = micro.then_some(now_sent);
        (!open).then_some(Block { number: self.blocks, start: self.next, length, micro, opened: now })
    }
    pub(in crate::hop) fn block_opened(&mut self, block: Block) {
        self.blocks = block.number + 1;
        self.block = Some(block);
    }
    /// The block a query is about: the newest one, or the next one if none was ever offered.
    pub(in crate::hop) fn asked_block(&self, now: Instant) -> Block {
        let none = Block { number: 0, start: self.base, length: None, micro: false, opened: now };
        let asked = self.block.unwrap_or(none);
        match self.waits {
            Some((start, _)) if start == self.next => {
                Block { number: self.blocks, start, length: Some(self.unsent()), micro: false, ..asked }
            }
            _ => asked,
        }
    }
    /// Where the block that is being sent ends, if its size is fixed.
    pub(super) fn block_end(&self) -> Option<u64> {
        Some(self.block?.start + self.manner.block?)
    }
    /// Whether the offer of the waiting bytes is not known to have arrived.
    pub(in crate::hop) fn is_waiting_unheard(&self) -> bool {
        self.waits.is_some_and(|(start, _)| start == self.next) && !self.query.due && !self.query.arrived
    }
    /// Offers the bytes that wait beyond the credit, and again when they have doubled.
    pub(in crate::hop) fn offer_waiting(&mut self) {
        let waiting = self.unsent();
        let may_send = self.has_credit() && !self.shuns_crumbs();
        if waiting == 0 || may_send || self.credit == 0 {
            return;
        }
        let told = self.waits.filter(|(start, _)| *start == self.next).map_or(0, |(_, octets)| octets);
        if waiting >= 2 * told.max(1) || told == 0 {
            self.waits = Some((self.next, waiting));
            self.query.ask();
        }
    }
}
