//! Flows whose senders wait for a turn.

use super::{PeerId, Side};
use std::collections::BTreeMap;
use wavelane_wire::frame::FlowName;

/// With fewer waiting flows, ended ones are not searched for.
const OVER_MAX: usize = 64;
/// Most waiting flows of one peer that are offered a free turn: a flow with a slow reader may not be able to take it.
const OFFERS_MAX: usize = 4;

/// Flows whose senders wait, in order of arrival.
#[derive(Debug, Default)]
struct Queue {
    /// By ticket number, and the ticket of each.
    order: BTreeMap<u64, FlowName>,
    drew: BTreeMap<FlowName, u64>,
}

/// The waiting flows of all peers of a medium. A peer's request costs a look-up, not a scan of all that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Holds no peer without a flow.
    of_peer: BTreeMap<PeerId, Queue>,
    drawn: u64,
    flows: usize,
    /// At this number of flows, ended ones are searched for.
    look_at: usize,
}

impl Waiting {
    /// Appends a flow, unless it waits already.
    pub(super) fn push(&mut self, (peer, name): Side) {
        let queue = self.of_peer.entry(peer).or_default();
        if queue.drew.contains_key(&name) {
            return;
        }
        self.drawn += 1;
        self.flows += 1;
        queue.order.insert(self.drawn, name);
        queue.drew.insert(name, self.drawn);
    }
    pub(super) fn remove(&mut self, (peer, name): Side) {
        let Some(queue) = self.of_peer.get_mut(&peer) else { return };
        let Some(drew) = queue.drew.remove(&name) else { return };
        queue.order.remove(&drew);
        self.flows -= 1;
        if queue.order.is_empty() {
            self.of_peer.remove(&peer);
        }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.of_peer.is_empty()
    }
    /// The peers whose flows wait.
    pub(super) fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.of_peer.keys().copied()
    }
    /// Whether flows of others than `peer` wait.
    pub(super) fn has_others(&self, peer: PeerId) -> bool {
        self.of_peer.len() > usize::from(self.of_peer.contains_key(&peer))
    }
    /// The first [`OFFERS_MAX`] of each peer, with their tickets.
    pub(super) fn first(&self) -> impl Iterator<Item = (u64, Side)> {
        let of_peer = |(peer, queue): (&PeerId, &Queue)| {
            let peer = *peer;
            let first = queue.order.iter().take(OFFERS_MAX).map(|(drew, name)| (*drew, *name));
            first.map(move |(drew, name)| (drew, (peer, name))).collect::<Vec<_>>()
        };
        self.of_peer.iter().flat_map(of_peer)
    }
    /// Whether `peer` has more than those.
    pub(super) fn exceeds_offers(&self, peer: PeerId) -> bool {
        self.of_peer.get(&peer).is_some_and(|queue| queue.order.len() > OFFERS_MAX)
    }
    /// All of them, if their number has grown so much since the last check that some are probably over.
    pub(super) fn all_if_due(&self) -> Vec<Side> {
        if self.flows < self.look_at.max(OVER_MAX) {
            return Vec::new();
        }
        self.of_peer.iter().flat_map(|(peer, queue)| queue.drew.keys().map(|name| (*peer, *name))).collect()
    }
    pub(super) fn looked_at(&mut self) {
        self.look_at = self.flows * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::side;
    use super::*;

    #[test]
    fn flows_that_are_over_are_looked_for_seldom() {
        let mut waiting = Waiting::default();
        let mut looked = 0;
        for number in 0..10_000 {
            waiting.push(side(0, number));
            let all = waiting.all_if_due();
            looked += all.len();
            if !all.is_empty() {
                assert_eq!(all.len(), waiting.flows);
                waiting.looked_at();
            }
        }
        assert!((1..30_000).contains(&looked), "{looked}");
    }
}
