//! Whose turn it is: rings of flows with something to send, and the budget of copies.

use std::collections::BTreeSet;
use std::ops::Bound;
use wavelane_base::{Instant, Octets, Rate};
use wavelane_wire::frame::FlowName;

/// Bytes a bulk flow may send per turn; larger than any datagram.
pub(super) const QUANTUM: i64 = 9_216;
/// Micro bytes that may go ahead of waiting bulk before bulk has its turn; from then on they alternate.
pub(super) const MICRO_RUN_MAX: u64 = 16 << 10;
/// Path loss from which copies are worth their bytes.
pub(super) const COPY_LOSS_MIN: f64 = 0.003;
/// Copy bytes per second that are always allowed.
pub(super) const COPY_FLOOR: Rate = Rate::from_bps(8 * 4096);
/// Most copy bytes saved up.
pub(super) const COPY_SAVED_MAX: u64 = 16 << 10;
/// One copy byte is earned per so many first bytes of bulk (2 %) ...
pub(super) const COPY_PER_BULK: u64 = 50;
/// ... and of micro traffic (25 %).
pub(super) const COPY_PER_MICRO: u64 = 4;

/// Flows with something to send, served in a circle.
#[derive(Debug, Default)]
pub(super) struct Ring {
    members: BTreeSet<FlowName>,
    current: Option<FlowName>,
}

impl Ring {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
    pub(super) fn set(&mut self, name: FlowName, is_member: bool) {
        if is_member {
            self.members.insert(name);
        } else {
            self.members.remove(&name);
        }
    }
    /// The flow whose turn it is; if it left, the next one.
    pub(super) fn current(&mut self) -> Option<FlowName> {
        let next = match self.current {
            Some(name) if self.members.contains(&name) => Some(name),
            Some(name) => self.after(name),
            None => self.members.first().copied(),
        };
        if next.is_some() {
            self.current = next;
        }
        next
    }
    /// The turn passes on.
    pub(super) fn advance(&mut self) {
        self.current = self.current.and_then(|name| self.after(name));
    }
    fn after(&self, name: FlowName) -> Option<FlowName> {
        let beyond = (Bound::Excluded(name), Bound::Unbounded);
        self.members.range(beyond).next().or_else(|| self.members.first()).copied()
    }
}

/// What copies may cost: a share of the bytes sent for the first time, and a small floor.
#[derive(Debug)]
pub(super) struct CopyBudget {
    saved: u64,
    at: Instant,
    rest: u64,
}

impl Default for CopyBudget {
    fn default() -> Self {
        Self { saved: COPY_SAVED_MAX, at: Instant::ZERO, rest: 0 }
    }
}

impl CopyBudget {
    /// `octets` were sent for the first time.
    pub(super) fn earn(&mut self, octets: u64, micro: bool) {
        // Kept in hundredths so that small frames earn too.
        self.rest += octets * 100 / if micro { COPY_PER_MICRO } else { COPY_PER_BULK };
        self.saved = (self.saved + self.rest / 100).min(COPY_SAVED_MAX);
        self.rest %= 100;
    }
    /// Takes `octets` out, if they are there.
    pub(super) fn spend(&mut self, now: Instant, octets: u64) -> bool {
        let floor = COPY_FLOOR.octets_in(now.since(self.at)).get();
        if floor > 0 {
            self.saved = self.saved.saturating_add(floor).min(COPY_SAVED_MAX);
            self.at = (self.at + COPY_FLOOR.time_for(Octets::new(floor))).min(now);
        }
        let affordable = self.saved >= octets;
        if affordable {
            self.saved -= octets;
        }
        affordable
    }
}
