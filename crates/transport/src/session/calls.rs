//! How long a handshake's answer took, if its first message was sent several times.
//!
//! The copies are identical, so an answer does not show which of them it answers: the first one, over a long path, or the last one, because
//! the peer was not up before. But a peer answers every copy that arrives. So the first answer is attributed to the last copy, and each
//! further answer moves this back by one copy.

use super::Origin;
use std::collections::VecDeque;
use wavelane_base::{Instant, PortId, Span};
use wavelane_wire::datagram::MAC_LEN;

/// Most copies of one first message whose times are kept: more than are sent in its lifetime.
const CALLS_KEPT: usize = 128;

/// When the copies of an unanswered first message were sent.
#[derive(Default)]
pub(super) struct Calls(VecDeque<Instant>);

impl Calls {
    /// A copy is sent, or several on different ways.
    pub(super) fn note(&mut self, now: Instant) {
        if self.0.len() == CALLS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }
}

/// The first answer to a first message, and the copies that it or a later one may answer.
pub(super) struct FirstAnswer {
    index: u32,
    mac1: [u8; MAC_LEN],
    place: (PortId, Origin),
    at: Instant,
    calls: Calls,
}

impl FirstAnswer {
    /// An answer to our message with the `index` arrived from a place.
    pub(super) fn new(at: Instant, index: u32, mac1: [u8; MAC_LEN], place: (PortId, Origin), calls: Calls) -> Self {
        Self { index, mac1, place, at, calls }
    }

    /// Another answer arrived. Returns whether it counts; a copy that came on another way does not.
    pub(super) fn again(&mut self, index: u32, mac1: &[u8; MAC_LEN], place: (PortId, Origin)) -> bool {
        let says = self.index == index && self.mac1 == *mac1 && self.place == place && self.calls.0.len() > 1;
        if says {
            self.calls.0.pop_back();
        }
        says
    }

    /// The time from the copy that the first answer is attributed to until that answer.
    pub(super) fn round_trip(&self) -> Span {
        self.calls.0.back().map_or(Span::ZERO, |call| self.at.since(*call))
    }
}
