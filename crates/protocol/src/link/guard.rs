//! Repair symbols on one lane: which datagrams are protected, when symbols go, and what becomes of lost datagrams
//! while symbols that may bring them back are on the way.
//!
//! Protected is what cannot wait a round trip for its repeat: the end of a stretch after which nobody has more to
//! say. `docs/decisions/0014-one-repair-budget.md` says why bulk in mid-flow is not.

use super::Load;
use crate::fec::{Encoder, LENGTH_LEN, REPAIRS_MAX, Repair, repairs_for};
use crate::hop::Path;
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Instant, Span, Wakeup};
use wavelane_wire::frame::repair_head_max;

/// Most datagrams that one symbol covers, and widest span of their numbers.
const COVERED_MAX: usize = 64;
/// Octets that a protected datagram leaves free, so that a symbol over it fits a datagram as well.
pub(super) const RESERVE: usize = repair_head_max(COVERED_MAX) + LENGTH_LEN;
/// Most symbols planned.
const PLAN_MAX: usize = 48;
/// Loss bursts from this length on swallow a stretch and its symbols together: repeats serve as well.
const BURSTY: Span = Span::from_millis(4);
/// A lost datagram waits so long at least for symbols to bring it back before it is repeated.
const PATIENCE_MIN: Span = Span::from_millis(5);

/// What became of protected datagrams; all only grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GuardCounters {
    pub(super) protected: u64,
    pub(super) symbols: u64,
    pub(super) symbol_octets: u64,
    /// Lost, and brought back by symbols.
    pub(super) repaired: u64,
    /// Lost, and not.
    pub(super) unrepaired: u64,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Guard {
    encoder: Encoder,
    /// Datagrams protected since symbols were last planned.
    fresh: usize,
    /// When the next symbols are to go.
    plan: VecDeque<Instant>,
    /// Symbols whose fate is open.
    flying: usize,
    /// Lost datagrams that a symbol may bring back, and until when they wait for it.
    parked: BTreeMap<u64, (Instant, Load)>,
    counters: GuardCounters,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            encoder: Encoder::new(COVERED_MAX),
            fresh: 0,
            plan: VecDeque::new(),
            flying: 0,
            parked: BTreeMap::new(),
            counters: GuardCounters::default(),
        }
    }
}

impl Guard {
    pub(super) fn counters(&self) -> GuardCounters {
        self.counters
    }

    /// Datagram `number` left and is protected.
    pub(super) fn protect(&mut self, number: u64, plaintext: &[u8]) {
        self.encoder.push(number, plaintext);
        self.fresh += 1;
        self.counters.protected += 1;
    }

    /// Nobody has more to send: what was protected since gets its symbols.
    pub(super) fn stretch_ended(&mut self, now: Instant, path: &Path) {
        let fresh = core::mem::take(&mut self.fresh).min(self.encoder.len());
        if fresh == 0 || path.burst.is_some_and(|burst| burst >= BURSTY) {
            return;
        }
        // More than the bound lets symbols bring back is left to repeats, oldest first.
        while repairs_for(self.encoder.len(), path.loss) >= REPAIRS_MAX {
            self.encoder.keep_newest(self.encoder.len() - 1);
        }
        let fresh = fresh.min(self.encoder.len());
        let wanted = repairs_for(fresh, path.loss).min(PLAN_MAX.saturating_sub(self.plan.len()));
        self.plan.extend(core::iter::repeat_n(now, wanted));
    }

    /// Whether a symbol is to go now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.encoder.is_empty() && self.plan.front().is_some_and(|at| *at <= now)
    }

    /// Octets of the next symbol's frame.
    pub(super) fn frame_len(&self) -> usize {
        repair_head_max(COVERED_MAX) + self.encoder.symbol_len()
    }

    /// The symbol that is due.
    pub(super) fn take_symbol(&mut self) -> Option<Repair> {
        self.plan.pop_front();
        let repair = self.encoder.repair()?;
        self.flying += 1;
        self.counters.symbols += 1;
        self.counters.symbol_octets += repair.symbol.len() as u64;
        Some(repair)
    }

    /// The symbols that are due cannot be paid.
    pub(super) fn drop_plan(&mut self) {
        self.plan.clear();
    }

    /// What became of a symbol. It brought back what it could before this is known.
    pub(super) fn symbol_settled(&mut self) {
        self.flying = self.flying.saturating_sub(1);
    }

    /// A protected datagram arrived.
    pub(super) fn arrived(&mut self, number: u64) {
        self.encoder.forget(number);
        if self.encoder.is_empty() {
            self.plan.clear();
        }
    }

    /// A protected datagram was lost. Gives back what is to be repeated at once.
    pub(super) fn lost(&mut self, now: Instant, number: u64, load: Load, rtt: Span) -> Option<Load> {
        if self.encoder.covers(number) && (self.flying > 0 || !self.plan.is_empty()) {
            self.parked.insert(number, (now + PATIENCE_MIN.max(rtt.scale(1, 8)), load));
            return None;
        }
        self.arrived(number);
        self.counters.unrepaired += 1;
        Some(load)
    }

    /// The neighbour made datagram `number` from symbols. Gives back what it load if it was taken for lost.
    pub(super) fn repaired(&mut self, number: u64) -> Option<Load> {
        self.counters.repaired += 1;
        self.arrived(number);
        self.parked.remove(&number).map(|(_, load)| load)
    }

    /// The next lost datagram that waited long enough, or for which no symbol is on the way any more.
    pub(super) fn poll_given_up(&mut self, now: Instant) -> Option<Load> {
        let hopeless = self.flying == 0 && self.plan.is_empty();
        let (&number, _) = self.parked.iter().find(|(_, (until, _))| hopeless || *until <= now)?;
        let (_, load) = self.parked.remove(&number)?;
        self.arrived(number);
        self.counters.unrepaired += 1;
        Some(load)
    }

    /// When something waited long enough.
    pub(super) fn poll_timeout(&self) -> Option<Wakeup> {
        let at = self.parked.values().map(|(until, _)| *until).min()?;
        Some(Wakeup { at, cause: "link: a lost datagram was not repaired" })
    }
}
