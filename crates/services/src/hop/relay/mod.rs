//! What a hop does for flows that go on beyond the next node: senders take turns before a relay ([`withhold`]), bytes that a relay still has
//! are not sent again ([`vtx`]), and bytes that the neighbour overheard are named instead of sent ([`overheard`]). What this needs to know
//! is its own; the rest of the hop asks for it.

mod overheard;
mod vtx;
mod withhold;

pub use overheard::OPEN_MIN;
pub(super) use overheard::Stretches;
pub use vtx::VTX_OCTETS_MAX;
pub(super) use withhold::{GRANT_MAX, Held};

use super::flow::Flow;
use overheard::Overheard;
#[cfg(test)]
use std::collections::BTreeMap;
use wavelane_base::{Instant, Rate};
use wavelane_wire::Writer;
use wavelane_wire::frame::FlowName;
use withhold::{Bypass, Offers};

/// What a hop knows of relaying.
#[derive(Debug, Default)]
pub(super) struct Relay {
    /// What its neighbour's last turn carried, where turns are noted.
    turn_rate: Option<Rate>,
    /// Flows that ask, or may be asked, for bytes that wait.
    offers: Offers,
    /// What withheld flows may take without a grant.
    bypass: Bypass,
    /// The peer is the only one on its medium that asks.
    alone: bool,
    overheard: Overheard,
}

impl Relay {
    /// The peer is another one now: what is known of flows is of no use.
    pub(super) fn start_anew(&mut self) {
        self.offers = Offers::default();
        self.overheard = Overheard::default();
    }
    /// A flow joined the table.
    pub(super) fn joined(&mut self, flow: &Flow) {
        self.overheard.sealed += usize::from(flow.is_sealed());
    }
    /// A flow changed.
    pub(super) fn note(&mut self, name: FlowName, flow: &mut Flow) {
        self.offers.note(name, flow);
    }
    /// A flow left the table.
    pub(super) fn left(&mut self, name: FlowName, flow: &Flow) {
        self.offers.remove(name);
        self.overheard.sealed -= usize::from(flow.is_sealed());
    }
    /// Everything of a direction below `end` was sent.
    pub(super) fn forget_sent(&mut self, flow: &mut Flow, end: u64) {
        self.overheard.forget(&flow.out.stretches_known.sent(end));
    }
    /// Whether a report of what was overheard is to leave now.
    pub(super) fn is_due(&self) -> bool {
        self.overheard.is_due()
    }
    /// When one is.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.overheard.deadline()
    }
    /// Time passed.
    pub(super) fn tick(&mut self, now: Instant) {
        self.overheard.tick(now);
    }
    /// Reports what fits. `false` if something is due and nothing fits.
    pub(super) fn write(&mut self, w: &mut Writer<'_>) -> bool {
        self.overheard.write(w)
    }
    /// Whether its sets of flows are what a look at every flow would find.
    #[cfg(test)]
    pub(super) fn is_right(&self, flows: &BTreeMap<FlowName, Flow>) -> bool {
        self.offers.are_right(flows)
    }
    /// Flows that searches for Offers looked at.
    #[cfg(test)]
    pub(super) fn looked_at(&self) -> u64 {
        self.offers.looked_at
    }
    /// Digests to report, known, and reported early.
    #[cfg(test)]
    pub(super) fn digests(&self) -> [usize; 3] {
        self.overheard.sizes()
    }
}
