//! Ack withholding: limits how many large blocks are received through one medium at once.
//!
//! Hidden terminals: senders that do not hear each other collide at a receiver despite carrier sensing. Only the receiver knows
//! all that have data, and lets them send one after the other. A grant is never withdrawn: a silent sender loses its turn, not
//! its credit.

use super::relay::Side;
use super::{Config, Gateway, LaneConfig, Medium, PeerConfig, PeerId};
use std::collections::BTreeMap;
use wavelane_base::{Instant, Span, Wakeup};
use wavelane_wire::frame::FlowName;

/// If nothing of a granted block arrives for this long, the turn passes on. Longer than a sender takes to detect that the end of
/// its block was lost.
const SILENT: Span = Span::from_millis(250);
/// Maximum duration of a turn, even if bytes still arrive: a megabyte at 500 kbit/s.
const LONGEST: Span = Span::from_secs(16);

/// When a block is complete and no other sender waits, the others are asked for offers, and their answers awaited for this long:
/// while blocks arrive, hardly anything from a hidden sender gets through. An exchange of two small frames at 1 Mbit/s takes
/// less.
const LISTEN: Span = Span::from_millis(6);

/// With fewer waiting flows, ended ones are not searched for.
const OVER_MAX: usize = 64;

/// Most waiting flows of one peer that are offered a free turn: a flow with a slow reader may not be able to take it.
const OFFERS_MAX: usize = 4;

/// How many large blocks are received at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Withholding {
    /// From all neighbours of one medium together.
    pub at_once: u8,
    /// On every medium; if not, on radios only.
    pub everywhere: bool,
}

/// The medium that lanes share: a radio cell, or a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    Cell(u16),
    Port(u16),
}

/// A block that is being received.
#[derive(Debug)]
struct Turn {
    side: Side,
    since: Instant,
    /// Bytes of its flow received at the last check, and the time of the next check.
    received: u64,
    look_at: Instant,
}

/// Flows whose senders wait, in order of arrival.
#[derive(Debug, Default)]
struct Queue {
    /// By ticket number, and the ticket of each.
    order: BTreeMap<u64, FlowName>,
    drew: BTreeMap<FlowName, u64>,
}

/// The waiting flows of all peers of a medium. A peer's request costs a look-up, not a scan of all that wait.
#[derive(Debug, Default)]
struct Waiting {
    /// Holds no peer without a flow.
    of_peer: BTreeMap<PeerId, Queue>,
    drawn: u64,
    flows: usize,
    /// At this number of flows, ended ones are searched for.
    look_at: usize,
}

impl Waiting {
    /// Appends a flow, unless it waits already.
    fn push(&mut self, (peer, name): Side) {
        let queue = self.of_peer.entry(peer).or_default();
        if queue.drew.contains_key(&name) {
            return;
        }
        self.drawn += 1;
        self.flows += 1;
        queue.order.insert(self.drawn, name);
        queue.drew.insert(name, self.drawn);
    }
    fn remove(&mut self, (peer, name): Side) {
        let Some(queue) = self.of_peer.get_mut(&peer) else { return };
        let Some(drew) = queue.drew.remove(&name) else { return };
        queue.order.remove(&drew);
        self.flows -= 1;
        if queue.order.is_empty() {
            self.of_peer.remove(&peer);
        }
    }
    fn is_empty(&self) -> bool {
        self.of_peer.is_empty()
    }
    /// Whether flows of others than `peer` wait.
    fn has_others(&self, peer: PeerId) -> bool {
        self.of_peer.len() > usize::from(self.of_peer.contains_key(&peer))
    }
    /// The first [`OFFERS_MAX`] of each peer, with their tickets.
    fn first(&self) -> impl Iterator<Item = (u64, Side)> {
        let of_peer = |(peer, queue): (&PeerId, &Queue)| {
            let peer = *peer;
            let first = queue.order.iter().take(OFFERS_MAX).map(|(drew, name)| (*drew, *name));
            first.map(move |(drew, name)| (drew, (peer, name))).collect::<Vec<_>>()
        };
        self.of_peer.iter().flat_map(of_peer)
    }
    /// Whether `peer` has more than those.
    fn exceeds_offers(&self, peer: PeerId) -> bool {
        self.of_peer.get(&peer).is_some_and(|queue| queue.order.len() > OFFERS_MAX)
    }
    /// All of them, if their number has grown so much since the last check that some are probably over.
    fn all_if_due(&self) -> Vec<Side> {
        if self.flows < self.look_at.max(OVER_MAX) {
            return Vec::new();
        }
        self.of_peer.iter().flat_map(|(peer, queue)| queue.drew.keys().map(|name| (*peer, *name))).collect()
    }
    fn looked_at(&mut self) {
        self.look_at = self.flows * 2;
    }
}

/// The grants of one medium.
#[derive(Debug, Default)]
struct Gate {
    turns: Vec<Turn>,
    /// Flows whose senders wait, each once: at most twice the maximum number of flows, or [`OVER_MAX`]. Some may be over.
    waiting: Waiting,
    /// Peers in the order of their last turn, the newest last.
    served: Vec<PeerId>,
    /// Until then the newest is not served again.
    listens_until: Option<Instant>,
}

/// The grants of all mediums.
#[derive(Debug, Default)]
pub(super) struct Grants {
    gates: BTreeMap<Place, Gate>,
    pub(super) granted: u64,
    pub(super) expired: u64,
}

impl Gate {
    /// The waiting flows that are offered a turn; those of the peers served longest ago first.
    fn in_turn(&self) -> Vec<Side> {
        let mut order: Vec<(u64, Side)> = self.waiting.first().collect();
        order.sort_by_key(|(drew, side)| (self.served.iter().position(|peer| *peer == side.0), *drew));
        order.into_iter().map(|(_, side)| side).collect()
    }
    fn leave(&mut self, side: Side) {
        self.waiting.remove(side);
        self.turns.retain(|turn| turn.side != side);
    }
}

/// Whether what a peer sends is withheld.
pub(super) fn withholds(config: &Config, peer: &PeerConfig) -> bool {
    config.withhold.is_some_and(|of| of.everywhere || peer.lanes.first().is_some_and(LaneConfig::is_radio))
}

impl Gateway {
    fn place_of(&self, peer: PeerId) -> Place {
        match self.config.peers[peer.0].lanes[0] {
            LaneConfig { medium: Medium::Radio { cell, .. }, .. } => Place::Cell(cell),
            LaneConfig { port, .. } => Place::Port(port.0),
        }
    }

    /// A neighbour has bytes that wait for a grant.
    pub(super) fn note_asking(&mut self, side: Side) {
        let place = self.place_of(side.0);
        let gate = self.grants.gates.entry(place).or_default();
        gate.waiting.push(side);
        // Flows that we ended are not reported here. Searching for them this seldom has constant amortised cost per request.
        let all = gate.waiting.all_if_due();
        if all.is_empty() {
            return;
        }
        let over: Vec<Side> = all.into_iter().filter(|side| !self.blocks(side.0).is_open(side.1)).collect();
        let waiting = &mut self.grants.gates.entry(place).or_default().waiting;
        over.into_iter().for_each(|side| waiting.remove(side));
        waiting.looked_at();
    }

    /// The granted bytes have arrived, or the flow is over.
    pub(super) fn end_turn(&mut self, now: Instant, side: Side) {
        let place = self.place_of(side.0);
        let Some(gate) = self.grants.gates.get_mut(&place) else { return };
        gate.turns.retain(|turn| turn.side != side);
        if gate.waiting.has_others(side.0) {
            return;
        }
        let others = (0..self.links.len()).map(PeerId).filter(|peer| *peer != side.0 && self.place_of(*peer) == place);
        let mut asked = false;
        for peer in others.collect::<Vec<_>>() {
            if self.blocks(peer).request_offers() {
                asked = true;
                self.dirty.insert(peer);
            }
        }
        if let Some(gate) = self.grants.gates.get_mut(&place) {
            gate.listens_until = asked.then_some(now + LISTEN);
        }
    }
    /// A flow is over.
    pub(super) fn stop_asking(&mut self, side: Side) {
        let place = self.place_of(side.0);
        if let Some(gate) = self.grants.gates.get_mut(&place) {
            gate.leave(side);
        }
    }

    /// Peers were renumbered. Waiting senders ask again.
    pub(super) fn forget_grants(&mut self) {
        self.grants.gates.clear();
    }

    /// Gives every free turn to a waiting flow.
    pub(super) fn give_turns(&mut self, now: Instant) {
        let Some(most) = self.config.withhold.map(|of| usize::from(of.at_once)) else { return };
        let places: Vec<Place> = self.grants.gates.keys().copied().collect();
        for place in places {
            let Some(gate) = self.grants.gates.get(&place) else { continue };
            if gate.waiting.is_empty() || gate.turns.len() >= most {
                continue;
            }
            let newest = gate.listens_until.and(gate.served.last().copied());
            for side in gate.in_turn().into_iter().filter(|side| Some(side.0) != newest) {
                self.lend(side.0);
                let granted = self.blocks(side.0).grant(now, side.1);
                let received = self.blocks(side.0).received(side.1);
                let Some(gate) = self.grants.gates.get_mut(&place) else { break };
                let others_wait = gate.waiting.exceeds_offers(side.0);
                if granted == Some(0) && !others_wait {
                    continue;
                }
                gate.waiting.remove(side);
                if granted == Some(0) {
                    gate.waiting.push(side);
                    continue;
                }
                if granted.is_some() {
                    gate.served.retain(|peer| *peer != side.0);
                    gate.served.push(side.0);
                    gate.listens_until = None;
                    gate.turns.push(Turn { side, since: now, received, look_at: now + SILENT });
                    self.grants.granted += 1;
                }
                if gate.turns.len() >= most {
                    break;
                }
            }
        }
    }

    /// Ends unused turns.
    pub(super) fn look_at_turns(&mut self, now: Instant) {
        let mut gates = core::mem::take(&mut self.grants.gates);
        for turn in gates.values_mut().flat_map(|gate| &mut gate.turns).filter(|turn| turn.look_at <= now) {
            let received = self.blocks(turn.side.0).received(turn.side.1);
            if received > turn.received && now.since(turn.since) < LONGEST {
                (turn.received, turn.look_at) = (received, now + SILENT);
            }
        }
        for gate in gates.values_mut() {
            gate.listens_until = gate.listens_until.filter(|at| *at > now);
            let before = gate.turns.len();
            gate.turns.retain(|turn| turn.look_at > now);
            self.grants.expired += (before - gate.turns.len()) as u64;
        }
        self.grants.gates = gates;
    }

    pub(super) fn grants_wakeup(&self) -> Option<Wakeup> {
        let turns = self.grants.gates.values().flat_map(|gate| &gate.turns).map(|turn| turn.look_at);
        let listens = self.grants.gates.values().filter_map(|gate| gate.listens_until);
        let at = turns.chain(listens).min()?;
        Some(Wakeup { at, cause: "gateway: a granted block is looked at" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(peer: usize, number: u64) -> Side {
        (PeerId(peer), FlowName { mine: false, number })
    }

    fn gate(of: impl IntoIterator<Item = Side>) -> Gate {
        let mut gate = Gate::default();
        of.into_iter().for_each(|side| gate.waiting.push(side));
        gate
    }

    #[test]
    fn flows_of_one_peer_leave_offers_to_others() {
        let mut gate = gate((0..100).map(|n| side(0, n)).chain([side(1, 0)]));
        let in_turn = |gate: &Gate| gate.in_turn().into_iter().map(|side| side.0.0).collect::<Vec<_>>();
        assert_eq!(in_turn(&gate), [0, 0, 0, 0, 1]);
        assert!(gate.waiting.exceeds_offers(PeerId(0)) && !gate.waiting.exceeds_offers(PeerId(1)));
        gate.served.push(PeerId(0));
        assert_eq!(in_turn(&gate), [1, 0, 0, 0, 0]);
    }

    #[test]
    fn who_waits_waits_once_and_in_the_order_of_asking() {
        let mut gate = gate([side(1, 5), side(0, 9), side(1, 2), side(1, 5)]);
        assert_eq!(gate.in_turn(), [side(1, 5), side(0, 9), side(1, 2)]);
        gate.waiting.remove(side(1, 5));
        gate.waiting.push(side(1, 5));
        assert_eq!(gate.in_turn(), [side(0, 9), side(1, 2), side(1, 5)]);
        assert!(gate.waiting.has_others(PeerId(1)) && gate.waiting.has_others(PeerId(2)));
        gate.waiting.remove(side(0, 9));
        gate.waiting.remove(side(0, 9));
        assert!(!gate.waiting.has_others(PeerId(1)) && gate.waiting.has_others(PeerId(0)));
        gate.leave(side(1, 2));
        gate.leave(side(1, 5));
        assert!(gate.waiting.is_empty() && gate.waiting.flows == 0);
    }

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
