//! Virtual retransmission: an Offer with the VTX flag asks the next node whether it still has bytes that it receipted; only what
//! it lacks is sent to it again. `docs/protocol/hop.md`, "Virtual retransmission".

use super::super::flow::State;
use super::super::types::HopEvent;
use super::super::{Hop, Reach};
use wavelane_base::{Instant, RangeSet, Span};
use wavelane_wire::frame::{FlowName, Ranges};

/// The most that one offer asks for.
pub const VTX_OCTETS_MAX: u64 = 256 << 10;
/// Least time between two answered offers of one flow; one RTT if that is longer.
const VTX_EVERY: Span = Span::from_millis(100);

impl Hop {
    /// Asks the peer whether it still has the receipted bytes `start..end`. [`HopEvent::Lacks`] reports what it lacks.
    pub fn offer_vtx(&mut self, flow: FlowName, start: u64, end: u64) {
        let Some(f) = self.flows.get_mut(&flow).filter(|f| f.state == State::Open) else { return };
        if let Some(across) = &mut f.across {
            across.asked = Some((start, end.min(start + VTX_OCTETS_MAX)));
            across.awaits_word = true;
            across.vtx.ask();
            self.settle(flow);
        }
    }

    /// Answers [`HopEvent::Vtx`]: of the bytes that were read, the owner still has `owners`.
    pub fn answer_vtx(&mut self, flow: FlowName, (start, end): (u64, u64), owners: &RangeSet) {
        let Some(f) = self.flows.get_mut(&flow).filter(|f| f.state == State::Open) else { return };
        if let Some(across) = &mut f.across {
            across.here = (start, f.inc.account(start, end, owners));
            across.answer.ask();
            self.settle(flow);
        }
    }

    /// Retransmits receipted bytes that the peer reported lacking.
    pub fn send_again(&mut self, flow: FlowName, offset: u64, bytes: Vec<u8>) {
        // Requested by a peer, so never beyond the pool: the edge asks again.
        if self.held.to_send + bytes.len() as u64 > self.half_pool() {
            return;
        }
        let Some(f) = self.flows.get_mut(&flow).filter(|f| f.state == State::Open) else { return };
        if offset + bytes.len() as u64 <= f.out.receipted() {
            f.out.again.put(offset, bytes);
            self.settle(flow);
        }
    }

    /// Repeats to the other edge how far its bytes were taken.
    pub fn repeat_progress(&mut self, flow: FlowName) {
        let Some(across) = self.flows.get_mut(&flow).and_then(|f| f.across.as_mut()) else { return };
        if !across.word.flying() {
            across.word.ask();
            self.settle(flow);
        }
    }

    /// Bytes of the flow that the owner took here.
    pub fn taken(&self, flow: FlowName) -> u64 {
        self.flows.get(&flow).map_or(0, |f| f.inc.taken())
    }

    /// Bytes of the flow that the peer receipted from the start on.
    pub fn receipted(&self, flow: FlowName) -> u64 {
        self.flows.get(&flow).map_or(0, |f| f.out.receipted())
    }

    /// The peer asks for what it sent before.
    pub(in crate::hop) fn on_vtx(&mut self, now: Instant, name: FlowName, start: u64, length: Option<u64>) {
        let every = VTX_EVERY.max(self.path.rtt);
        let length = length.filter(|length| *length <= VTX_OCTETS_MAX);
        let Some(flow) = self.flows.get_mut(&name) else { return self.stranger(name) };
        let across = flow.across.as_mut().filter(|_| flow.state == State::Open);
        let (Some(across), Some(end)) = (across, length.and_then(|length| start.checked_add(length))) else {
            self.counters.protocol_errors += u64::from(flow.state == State::Open);
            return;
        };
        if across.vtx_at.is_some_and(|at| now.since(at) < every) {
            self.counters.dropped_vtx_often += 1;
            return;
        }
        across.vtx_at = Some(now);
        self.counters.vtx_offers += 1;
        self.events.push_back(HopEvent::Vtx(name, start, end));
    }

    /// The answer: the peer has `ranges` of the bytes asked for.
    pub(in crate::hop) fn on_already_have(&mut self, name: FlowName, start: u64, ranges: &Ranges) {
        let Some(flow) = self.flows.get_mut(&name) else { return };
        let asked = flow.across.as_mut().and_then(|across| across.asked.take_if(|(from, _)| *from == start));
        // An answer to an older question, or to none.
        let Some((start, end)) = asked else { return };
        if let Some(across) = &mut flow.across {
            across.vtx.settle();
        }
        // Bytes not receipted yet are sent as usual.
        let end = end.min(flow.out.receipted());
        let mut here = RangeSet::default();
        for &(first, last) in &ranges.0 {
            here.insert(first, last.saturating_add(1));
        }
        let lacks = if start < end { here.gaps(start, end) } else { Vec::new() };
        if !lacks.is_empty() {
            self.events.push_back(HopEvent::Lacks(name, lacks));
        }
        self.settle(name);
    }

    /// The other edge repeats its progress: it is alive, and its application is stalled. The owner is told if it has asked for
    /// the flow's bytes since.
    pub(in crate::hop) fn on_same_progress(&mut self, name: FlowName, reach: Reach) {
        let across = self.flows.get_mut(&name).and_then(|f| f.across.as_mut());
        if let Some(across) = across.filter(|across| across.theirs == reach)
            && core::mem::take(&mut across.awaits_word)
        {
            self.events.push_back(HopEvent::ProgressAgain(name));
        }
    }
}
