//! Ack withholding: limits how many large blocks are received through one medium at once.
//!
//! Hidden terminals: senders that do not hear each other collide at a receiver despite carrier sensing. Only the receiver knows
//! all that have data, and lets them send one after the other. A grant is never withdrawn: a silent sender loses its turn, not
//! its credit.

mod askers;
mod pause;
mod waiting;

use super::neighbours::{Neighbours, Side};
use super::{Config, LaneConfig, PeerConfig, PeerId};
use askers::{Asked, Askers};
use pause::{Pause, Pauses};
use std::collections::{BTreeMap, BTreeSet};
use waiting::Waiting;
use wavelane_base::{Instant, LinkAcks, Span, Wakeup};

/// If nothing of a granted block arrives for this long, the turn passes on. Longer than a sender takes to detect that the end of
/// its block was lost.
const SILENT: Span = Span::from_millis(250);
/// When nothing else happens, flows that were refused a turn are offered one after this.
const OFFER_AGAIN: Span = Span::from_millis(50);
/// Maximum duration of a turn, even if bytes still arrive: a megabyte at 500 kbit/s.
const LONGEST: Span = Span::from_secs(16);
/// The same in cells with aggregates: who needs more asks again.
const LONGEST_BESIDE: Span = SILENT;

/// How many large blocks are received at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Withholding {
    /// From all neighbours of one medium together.
    pub at_once: u8,
    /// On every medium; if not, on radios only.
    pub everywhere: bool,
}

impl Withholding {
    /// One large block at once in radio cells.
    pub const ON_RADIOS: Self = Self { at_once: 1, everywhere: false };
}

/// The medium that lanes share: a radio cell, or a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    /// A cell, and whether its stations send aggregates.
    Cell(u16, bool),
    Port(u16),
}

impl Place {
    fn of(peers: &Neighbours, peer: PeerId) -> Self {
        let LaneConfig { port, carrier, .. } = peers.peer(peer).lanes[0];
        carrier.radio.map_or(Self::Port(port.0), |radio| Self::Cell(radio.cell, radio.acks == LinkAcks::Each))
    }
    /// Whether turns share the medium's time, and not octets: in cells with aggregates, whose stations may have any rate.
    fn shares_time(self) -> bool {
        matches!(self, Self::Cell(_, true))
    }
}

/// A block that is being received.
#[derive(Debug)]
struct Turn {
    side: Side,
    since: Instant,
    /// Bytes of its flow received before it.
    from: u64,
    /// The same at the last check, and the time of the next check.
    received: u64,
    look_at: Instant,
}

/// The grants of one medium.
#[derive(Debug, Default)]
struct Gate {
    turns: Vec<Turn>,
    /// Flows whose senders wait, each once: at most twice the maximum number of flows, or `OVER_MAX`. Some may be over.
    waiting: Waiting,
    /// Peers in the order of their last turn, the newest last.
    served: Vec<PeerId>,
    /// Peers whose short transfers went first, and which had no other turn since.
    preferred: BTreeSet<PeerId>,
    /// Peers in the order in which they were last asked for what they have to send, the newest last.
    asked: Vec<PeerId>,
    pauses: Pauses,
    askers: Askers,
    /// When flows that were refused a turn are offered one again, although nothing came.
    offer_at: Option<Instant>,
}

/// The grants of all mediums.
#[derive(Debug, Default)]
pub(super) struct Grants {
    gates: BTreeMap<Place, Gate>,
    granted: u64,
    expired: u64,
}

impl Gate {
    /// The waiting flows that are offered a turn: first short transfers, as `is_short` says, of peers that were not preferred since their
    /// last turn in order; then those of the peers served longest ago.
    fn in_turn(&self, is_short: impl Fn(Side) -> bool) -> Vec<Side> {
        let mut order: Vec<(u64, Side)> = self.waiting.first().collect();
        order.sort_by_cached_key(|(drew, side)| {
            let waits = self.preferred.contains(&side.0) || !is_short(*side);
            (waits, self.served.iter().position(|peer| *peer == side.0), *drew)
        });
        order.into_iter().map(|(_, side)| side).collect()
    }
    /// A flow got a turn: a peer that was preferred waits for its turn in order before it is preferred again.
    fn note_turn(&mut self, peer: PeerId, is_short: bool) {
        if !self.preferred.remove(&peer) && is_short {
            self.preferred.insert(peer);
        }
        self.served.retain(|of| *of != peer);
        self.served.push(peer);
    }
    fn leave(&mut self, now: Instant, side: Side) {
        self.waiting.remove(side);
        self.end_turns(now, |turn| turn.side == side);
    }
    /// Ends those turns. Returns how many there were.
    fn end_turns(&mut self, now: Instant, ends: impl Fn(&Turn) -> bool) -> usize {
        let before = self.turns.len();
        let took = self.turns.iter().filter(|turn| ends(turn)).map(|turn| now.since(turn.since));
        self.pauses.turns_took(took.fold(Span::ZERO, |all, took| all + took));
        self.turns.retain(|turn| !ends(turn));
        before - self.turns.len()
    }
}

/// Whether what a peer sends is withheld.
pub(super) fn withholds(config: &Config, peer: &PeerConfig) -> bool {
    config.withhold.is_some_and(|of| of.everywhere || peer.lanes.first().is_some_and(LaneConfig::is_radio))
}

impl Grants {
    /// A neighbour has bytes that wait for a grant.
    pub(super) fn note_asking(&mut self, peers: &mut Neighbours, now: Instant, side: Side) {
        let place = Place::of(peers, side.0);
        let gate = self.gates.entry(place).or_default();
        let rounds = peers.config().rounds;
        match gate.askers.note(now, side.0, gate.turns.is_empty()) {
            // Blocks that are repaired in rounds are granted one by one.
            Asked::Alone if !rounds => {
                peers.blocks(side.0).set_alone(now);
                if !peers.blocks(side.0).goes_on(side.1) {
                    return peers.blocks(side.0).go_on_alone(now, side.1);
                }
            }
            Asked::Beside(other) => peers.blocks(other).set_not_alone(),
            Asked::Alone | Asked::Among => {}
        }
        let gate = self.gates.entry(place).or_default();
        gate.waiting.push(side);
        // Flows that we ended are not reported here. Searching for them this seldom has constant amortised cost per request.
        let all = gate.waiting.all_if_due();
        if all.is_empty() {
            return;
        }
        let over: Vec<Side> = all.into_iter().filter(|side| !peers.blocks(side.0).is_open(side.1)).collect();
        let waiting = &mut self.gates.entry(place).or_default().waiting;
        over.into_iter().for_each(|side| waiting.remove(side));
        waiting.looked_at();
    }

    /// The granted bytes have arrived.
    pub(super) fn end_turn(&mut self, peers: &mut Neighbours, now: Instant, side: Side) {
        let place = Place::of(peers, side.0);
        let received = peers.blocks(side.0).received(side.1);
        let Some(gate) = self.gates.get_mut(&place) else { return };
        let turn = gate.turns.iter().find(|turn| turn.side == side);
        let (octets, took) =
            turn.map_or((0, Span::ZERO), |turn| (received.saturating_sub(turn.from), now.since(turn.since)));
        gate.end_turns(now, |turn| turn.side == side);
        if place.shares_time() && took > Span::ZERO {
            peers.blocks(side.0).note_turn(octets, took);
        }
        if !peers.blocks(side.0).goes_on(side.1) {
            self.listen(peers, now, place, side.0, pause::patience(octets, took));
        }
    }

    /// Between two turns: asks peers of which no request is known for what they have to send, and waits for their answers. Nothing is heard
    /// of a hidden sender while blocks arrive.
    ///
    /// In a radio cell the peer that had the turn is asked first, so that its last acks and its next request do not collide with the
    /// bursts of the next one; then others, one after the other, as long as that may take. Elsewhere all that have a flow are asked at once,
    /// if the turn would else go to the peer that had it.
    fn listen(&mut self, peers: &mut Neighbours, now: Instant, place: Place, served: PeerId, patience: Span) {
        let Some(gate) = self.gates.get(&place) else { return };
        let others_wait = gate.waiting.has_others(served);
        let one_by_one = matches!(place, Place::Cell(..)) && gate.turns.is_empty();
        let (may_ask, asked) = (if one_by_one { gate.pauses.may_ask() } else { !others_wait }, gate.asked.clone());
        let receives = gate.turns.iter().map(|turn| turn.side.0);
        let held: BTreeSet<PeerId> = gate.waiting.peers().chain(receives).chain([served]).collect();
        let here = peers.ids().filter(|peer| may_ask && Place::of(peers, *peer) == place);
        let mut rest: Vec<PeerId> = here.filter(|peer| !held.contains(peer)).collect();
        rest.sort_by_cached_key(|peer| asked.iter().position(|of| of == peer));
        let mut pause = Pause::new(now, held, patience);
        if one_by_one {
            pause.last_word = Some(served).filter(|_| others_wait || !rest.is_empty());
            pause.rest = rest.into();
        } else {
            rest.retain(|peer| peers.look_at_blocks(*peer).may_offer() && peers.ask_or_call(now, *peer));
            if rest.is_empty() {
                return;
            }
        }
        if let Some(gate) = self.gates.get_mut(&place) {
            gate.pauses.begin(now, pause);
        }
        if one_by_one {
            self.ask_next(peers, now, place);
        }
    }

    /// Asks the next peer of a pause.
    fn ask_next(&mut self, peers: &mut Neighbours, now: Instant, place: Place) {
        while let Some(gate) = self.gates.get_mut(&place)
            && let Some(peer) = gate.pauses.next(now)
        {
            gate.asked.retain(|of| *of != peer);
            gate.asked.push(peer);
            if peers.ask_or_call(now, peer) {
                return;
            }
        }
    }

    /// A peer was heard: in a pause there may be more to come.
    pub(super) fn prolong_pause(&mut self, peers: &Neighbours, now: Instant, peer: PeerId) {
        if self.gates.is_empty() {
            return;
        }
        let place = Place::of(peers, peer);
        if let Some(gate) = self.gates.get_mut(&place) {
            gate.pauses.heard(now, peer);
        }
    }

    /// A peer's datagram was handled, which may be the answer that a pause awaits.
    pub(super) fn note_answer(&mut self, peers: &mut Neighbours, now: Instant, peer: PeerId) {
        if !peers.take_answered(peer) {
            return;
        }
        let place = Place::of(peers, peer);
        if self.gates.get_mut(&place).is_some_and(|gate| gate.pauses.is_answer(peer)) {
            self.ask_next(peers, now, place);
            peers.touch(peer);
        }
    }

    /// A peer has opened a flow.
    pub(super) fn note_opening(&mut self, peers: &Neighbours, peer: PeerId) {
        let place = Place::of(peers, peer);
        if let Some(gate) = self.gates.get_mut(&place) {
            gate.pauses.opened(peer);
        }
    }

    /// A flow is over.
    pub(super) fn stop_asking(&mut self, peers: &Neighbours, now: Instant, side: Side) {
        let place = Place::of(peers, side.0);
        if let Some(gate) = self.gates.get_mut(&place) {
            gate.leave(now, side);
        }
    }

    /// Peers were renumbered. Waiting senders ask again.
    pub(super) fn forget(&mut self, peers: &mut Neighbours) {
        self.gates.clear();
        peers.ids().for_each(|peer| peers.blocks(peer).set_not_alone());
    }

    /// Gives every free turn to a waiting flow.
    pub(super) fn give_turns(&mut self, peers: &mut Neighbours, now: Instant) {
        let Some(most) = peers.config().withhold.map(|of| usize::from(of.at_once)) else { return };
        let places: Vec<Place> = self.gates.keys().copied().collect();
        for place in places {
            let Some(gate) = self.gates.get(&place) else { continue };
            if gate.waiting.is_empty() || gate.turns.len() >= most {
                self.gates.entry(place).or_default().offer_at = None;
                continue;
            }
            let short: BTreeSet<Side> = gate
                .waiting
                .first()
                .map(|(_, side)| side)
                .filter(|(peer, name)| peers.look_at_blocks(*peer).asks_little(*name))
                .collect();
            let in_turn = gate.in_turn(|side| short.contains(&side)).into_iter();
            let in_turn: Vec<Side> = in_turn.filter(|side| !gate.pauses.hold(side.0)).collect();
            let mut refused = false;
            for side in in_turn {
                peers.lend(side.0);
                let granted = peers.blocks(side.0).grant(now, side.1);
                let received = peers.blocks(side.0).received(side.1);
                let Some(gate) = self.gates.get_mut(&place) else { break };
                let others_wait = gate.waiting.exceeds_offers(side.0);
                refused |= granted == Some(0);
                if granted == Some(0) && !others_wait {
                    continue;
                }
                gate.waiting.remove(side);
                if granted == Some(0) {
                    gate.waiting.push(side);
                    continue;
                }
                if granted.is_some() {
                    gate.note_turn(side.0, short.contains(&side));
                    gate.pauses.end(now);
                    gate.turns.push(Turn { side, since: now, from: received, received, look_at: now + SILENT });
                    self.granted += 1;
                }
                if gate.turns.len() >= most {
                    break;
                }
            }
            if let Some(gate) = self.gates.get_mut(&place) {
                gate.offer_at = Some(now + OFFER_AGAIN).filter(|_| refused && gate.turns.is_empty());
            }
        }
    }

    /// Ends unused turns.
    pub(super) fn look_at_turns(&mut self, peers: &mut Neighbours, now: Instant) {
        let mut gates = core::mem::take(&mut self.gates);
        let turns =
            gates.iter_mut().flat_map(|(place, gate)| gate.turns.iter_mut().map(|turn| (place.shares_time(), turn)));
        for (shares_time, turn) in turns.filter(|(_, turn)| turn.look_at <= now) {
            let received = peers.blocks(turn.side.0).received(turn.side.1);
            if received > turn.received && now.since(turn.since) < if shares_time { LONGEST_BESIDE } else { LONGEST } {
                turn.received = received;
                turn.look_at = now + SILENT;
            } else if shares_time {
                peers.blocks(turn.side.0).note_turn(received.saturating_sub(turn.from), now.since(turn.since));
            }
        }
        let mut heard_out = Vec::new();
        for turn in gates.values().flat_map(|gate| &gate.turns).filter(|turn| turn.look_at <= now) {
            peers.blocks(turn.side.0).give_up_turn(now, turn.side.1);
            peers.touch(turn.side.0);
        }
        for (place, gate) in &mut gates {
            self.expired += gate.end_turns(now, |turn| turn.look_at <= now) as u64;
            heard_out.extend(gate.pauses.until().filter(|at| *at <= now).map(|_| *place));
        }
        self.gates = gates;
        heard_out.into_iter().for_each(|place| self.ask_next(peers, now, place));
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 2] {
        [("grants_given", self.granted), ("grants_expired", self.expired)]
    }

    pub(super) fn poll_timeout(&self) -> Option<Wakeup> {
        let turns = self.gates.values().flat_map(|gate| &gate.turns).map(|turn| turn.look_at);
        let pauses = self.gates.values().filter_map(|gate| gate.pauses.until());
        let offers = self.gates.values().filter(|gate| gate.turns.is_empty()).filter_map(|gate| gate.offer_at);
        let at = turns.chain(pauses).chain(offers).min()?;
        Some(Wakeup { at, cause: "gateway: a granted block is looked at" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_wire::frame::FlowName;

    pub(super) fn side(peer: usize, number: u64) -> Side {
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
        let in_turn = |gate: &Gate| gate.in_turn(|_| false).into_iter().map(|side| side.0.0).collect::<Vec<_>>();
        assert_eq!(in_turn(&gate), [0, 0, 0, 0, 1]);
        assert!(gate.waiting.exceeds_offers(PeerId(0)) && !gate.waiting.exceeds_offers(PeerId(1)));
        gate.served.push(PeerId(0));
        assert_eq!(in_turn(&gate), [1, 0, 0, 0, 0]);
    }

    #[test]
    fn short_transfers_go_first_every_other_time() {
        let mut gate = gate([side(0, 0), side(1, 0), side(2, 0)]);
        let short = |side: Side| side.0 == PeerId(2);
        let mut turns = Vec::new();
        for _ in 0..6 {
            let next = gate.in_turn(short)[0];
            gate.note_turn(next.0, short(next));
            turns.push(next.0.0);
        }
        assert_eq!(turns, [2, 0, 1, 2, 2, 0]);
    }

    #[test]
    fn who_waits_waits_once_and_in_the_order_of_asking() {
        let mut gate = gate([side(1, 5), side(0, 9), side(1, 2), side(1, 5)]);
        assert_eq!(gate.in_turn(|_| false), [side(1, 5), side(0, 9), side(1, 2)]);
        gate.waiting.remove(side(1, 5));
        gate.waiting.push(side(1, 5));
        assert_eq!(gate.in_turn(|_| false), [side(0, 9), side(1, 2), side(1, 5)]);
        assert!(gate.waiting.has_others(PeerId(1)) && gate.waiting.has_others(PeerId(2)));
        gate.waiting.remove(side(0, 9));
        gate.waiting.remove(side(0, 9));
        assert!(!gate.waiting.has_others(PeerId(1)) && gate.waiting.has_others(PeerId(0)));
        gate.leave(Instant::ZERO, side(1, 2));
        gate.leave(Instant::ZERO, side(1, 5));
        assert!(gate.waiting.is_empty());
    }
}
