//! Relaying flows: one neighbour asks for a target that another one reaches.
//!
//! A relay holds two flows, one on each link, and moves bytes between them as they arrive (cut-through, in order). Its receipts
//! towards the source mean custody: it repairs receipted bytes itself on the next hop. It takes no more than the next hop has
//! room for, so the slowest hop's rate reaches the source through the credits.

mod cache;
mod vtx;

use crate::neighbours::Side;
use crate::routing::Net;
use crate::shares::Passing;
use crate::{PeerId, TamperingRelay};
use cache::Cache;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wavelane_base::{Instant, ReadOutcome};
use wavelane_services::hop::{HopEvent, Window};
use wavelane_settings::Backpressure;
use wavelane_transport::Digest;
use wavelane_wire::frame::{FlowName, Passage, Reason, Seal};

/// Most relays a flow may cross: a longer way is a loop.
pub const HOPS_MAX: u8 = 8;
/// Bytes moved from one hop to the next at once.
const CHUNK: usize = 16 << 10;

/// What a neighbour asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) source: SocketAddr,
    pub(crate) target: SocketAddr,
    pub(crate) passage: Option<Passage>,
    /// How many ways this relay has tried for it that led nowhere.
    pub(crate) failed: u8,
}

/// Most ways that a relay tries for one request, one after the other. Otherwise neighbours that always refuse at once would keep
/// it asking for ever, because ways that are only distrusted are tried again.
const WAYS_ASKED_MAX: u8 = 16;

impl Asked {
    /// Whether a node before us knows another way.
    fn has_choice(&self) -> bool {
        self.passage.is_some_and(|passage| passage.choice)
    }
    fn is_resumed(&self) -> bool {
        self.passage.is_some_and(|passage| passage.received.is_some())
    }
    /// Whether the other edge has to agree on keys for it.
    fn is_for_keys(&self) -> bool {
        self.passage.is_some_and(|passage| matches!(passage.seal, Some(Seal::Keys(_))))
    }
    fn hops(&self) -> u8 {
        self.passage.map_or(0, |passage| passage.hops)
    }
    /// What identifies the same request if it comes back in a loop.
    fn title(&self) -> Option<Title> {
        self.passage.map(|passage| (passage.token, passage.attempt))
    }
}

/// A request's token and attempt number.
type Title = ([u8; 16], u64);

/// The other side of a relayed flow.
#[derive(Clone, Copy, Debug)]
struct Other {
    side: Side,
    /// On the side towards the opener: what it asked for.
    asked: Option<Asked>,
    /// The answer was relayed.
    answered: bool,
}

impl Other {
    /// The request that the opener on this side waits for, if its answer was not relayed yet.
    fn awaits(&self) -> Option<Title> {
        self.asked.filter(|_| !self.answered)?.title()
    }
}

/// All relayed flows. Both sides are listed; a side is removed when its link has forgotten it.
#[derive(Debug, Default)]
struct Sides {
    others: BTreeMap<Side, Other>,
    /// Sides towards an opener that wait for their answer, by request.
    pending: BTreeSet<(Title, Side)>,
}

impl Sides {
    /// The relayed flows on one link.
    fn of_peer(&self, peer: PeerId) -> Vec<FlowName> {
        self.others.keys().filter(|(at, _)| *at == peer).map(|(_, name)| *name).collect()
    }
    /// Removes and returns the sides whose other side was at `peer` and has already closed; both directions were read to their
    /// ends there.
    fn take_left_alone(&mut self, peer: PeerId) -> Vec<Side> {
        let closed = |other: &Other| other.side.0 == peer && !self.others.contains_key(&other.side);
        let alone: Vec<Side> = self.others.iter().filter(|(_, o)| closed(o)).map(|(side, _)| *side).collect();
        for side in &alone {
            self.remove(*side);
        }
        alone
    }
    /// Renumbers peers; flows over a peer without a new number were ended before.
    fn rename_peers(&mut self, new_id: impl Fn(PeerId) -> Option<PeerId>) {
        let renamed = |(peer, name): Side| Some((new_id(peer)?, name));
        let before = core::mem::take(&mut self.others);
        self.others = before
            .into_iter()
            .filter_map(|(side, other)| Some((renamed(side)?, Other { side: renamed(other.side)?, ..other })))
            .collect();
        let waits = |(side, other): (&Side, &Other)| Some((other.awaits()?, *side));
        self.pending = self.others.iter().filter_map(waits).collect();
    }
    /// Relayed flows: the side towards the opener, the other side, and the request.
    fn downstream(&self) -> Vec<(Side, Side, Asked)> {
        self.others.iter().filter_map(|(up, other)| Some((*up, other.side, other.asked?))).collect()
    }
    fn asked(&self, up: Side) -> Option<(Asked, bool)> {
        let other = self.others.get(&up)?;
        Some((other.asked?, other.answered))
    }
    /// Whether the same request is pending here.
    fn is_pending(&self, asked: &Asked) -> bool {
        let first = (PeerId(0), FlowName { mine: false, number: 0 });
        let waits = |title| self.pending.range((title, first)..).next().is_some_and(|(of, _)| *of == title);
        asked.title().is_some_and(waits)
    }
    fn join(&mut self, up: Side, down: Side, asked: Asked) {
        self.insert(up, Other { side: down, asked: Some(asked), answered: false });
        self.insert(down, Other { side: up, asked: None, answered: false });
    }
    fn insert(&mut self, side: Side, other: Other) {
        self.remove(side);
        self.pending.extend(other.awaits().map(|title| (title, side)));
        self.others.insert(side, other);
    }
    /// The answer was relayed.
    fn note_answered(&mut self, side: Side) {
        let Some(other) = self.others.get_mut(&side) else { return };
        if let Some(title) = other.awaits() {
            self.pending.remove(&(title, side));
        }
        other.answered = true;
    }
    fn remove(&mut self, side: Side) -> bool {
        let Some(other) = self.others.remove(&side) else { return false };
        if let Some(title) = other.awaits() {
            self.pending.remove(&(title, side));
        }
        true
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    sides: Sides,
    /// Copies of forwarded bytes.
    cache: Cache,
    /// Offers that are forwarded once the bytes are here again: first and last byte by the side they came from.
    waiting: BTreeMap<Side, (u64, u64)>,
    /// How neighbours share requests for keys that are passed on.
    passing: Passing,
    /// The fault [`crate::Faults::tampering`].
    tampering: Option<Box<dyn TamperingRelay>>,
    relayed: u64,
    octets: u64,
    refused_loop: u64,
}

impl Relays {
    pub(crate) fn counters(&self) -> [(&'static str, u64); 5] {
        [
            ("flows_relayed", self.relayed),
            ("relayed_octets", self.octets),
            ("refused_relay_loop", self.refused_loop),
            ("refused_key_rate", self.passing.refused),
            ("cache_evicted_octets", self.cache.evicted_octets),
        ]
    }

    pub(crate) fn contains(&self, side: Side) -> bool {
        self.sides.others.contains_key(&side)
    }

    /// Sides now, two per flow.
    pub(crate) fn len(&self) -> usize {
        self.sides.others.len()
    }

    pub(crate) fn set_tampering(&mut self, tampering: Option<Box<dyn TamperingRelay>>) {
        self.tampering = tampering;
    }

    /// Resets how neighbours share, and the cache's budget.
    pub(crate) fn share_out(&mut self, now: Instant, net: &Net) {
        self.passing = Passing::new(now, net.peers.len());
        self.cache.set_budget(net.peers.config().cache.get());
    }

    /// Renumbers peers; flows over a peer without a new number were ended before.
    pub(crate) fn rename_peers(&mut self, new_id: impl Fn(PeerId) -> Option<PeerId>) {
        self.sides.rename_peers(new_id);
        self.cache.clear();
        self.waiting.clear();
    }

    /// A neighbour is removed: the flows relayed to or from it end.
    pub(crate) fn dismiss(&mut self, net: &mut Net, now: Instant, peer: PeerId) {
        for name in self.sides.of_peer(peer) {
            net.peers.blocks(peer).reset(name, Reason::Aborted);
            self.handle_event(net, now, (peer, name), HopEvent::Reset(name, Reason::Aborted));
        }
        for (beyond, name) in self.sides.take_left_alone(peer) {
            // Its end would never be reported.
            net.peers.blocks(beyond).reset(name, Reason::Aborted);
        }
    }

    /// A neighbour went down or came back, or routes changed: flows leave lost ways for others.
    pub(crate) fn leave_lost_ways(&mut self, net: &mut Net, now: Instant) {
        for (up, down, asked) in self.sides.downstream() {
            let target = asked.target.ip();
            let lost = net.peers.was_down(down.0) || !net.ways_to(Some(up.0), target).contains(&down.0);
            if lost && (net.good_way(now, Some(up.0), target).is_some() || asked.has_choice()) {
                net.peers.blocks(down.0).reset(down.1, Reason::Restarted);
                net.peers.touch(down.0);
                self.led_nowhere(net, now, up, down, Reason::Unreachable);
            }
        }
    }

    /// Relays a flow. The answer upstream waits for the answer from downstream. Uses the first neighbour that leads to the
    /// target, is not down and has not failed recently.
    pub(crate) fn relay(&mut self, net: &mut Net, now: Instant, up: Side, asked: Asked) -> Result<(), Reason> {
        let target = asked.target.ip();
        // It may have come back to us over another neighbour; an earlier attempt by another way is no loop.
        if asked.hops() >= HOPS_MAX || asked.hops() > 0 && self.sides.is_pending(&asked) {
            self.refused_loop += 1;
            return Err(Reason::Unreachable);
        }
        let next = match net.any_way(now, Some(up.0), target) {
            Some(next) => next,
            // A new flow is refused. A resumed one waits for the way to come back, unless an earlier node has another way.
            None if !asked.is_resumed() => return Err(Reason::Unreachable),
            None if asked.has_choice() => return Err(Reason::Restarted),
            None => net.next_hop(up.0, target).ok_or(Reason::Restarted)?,
        };
        self.pass_on(net, now, up, next, asked)?;
        self.relayed += 1;
        Ok(())
    }

    fn pass_on(&mut self, net: &mut Net, now: Instant, up: Side, next: PeerId, asked: Asked) -> Result<(), Reason> {
        if asked.is_for_keys() && !self.passing.admit(now, up.0.0, next.0) {
            return Err(Reason::NoRoom);
        }
        let choice = net.is_choice(&net.ways_to(Some(up.0), asked.target.ip()));
        let onward = |passage: Passage| Passage { hops: passage.hops + 1, choice: passage.choice || choice, ..passage };
        net.peers.lend(next);
        let onward = asked.passage.map(onward);
        let name = net.peers.blocks(next).open(now, asked.source, asked.target, onward).map_err(|_| Reason::NoRoom)?;
        let down = (next, name);
        self.sides.join(up, down, asked);
        self.press_back(net, now, up, down);
        self.press_back(net, now, down, up);
        net.peers.touch(next);
        Ok(())
    }

    /// The way to which a flow was relayed is lost, or led nowhere; its downstream side is over. Before the answer, another way
    /// may be tried. After it, only the opening edge knows how far the flow got.
    fn led_nowhere(&mut self, net: &mut Net, now: Instant, up: Side, down: Side, reason: Reason) {
        let asked = self.sides.asked(up);
        self.leave(down);
        let Some((asked, answered)) = asked else { return };
        self.leave(up);
        net.peers.touch(up.0);
        match reason {
            Reason::Corrupted => net.distrust_way(now, Some(up.0), down.0, asked.target.ip()),
            _ => net.shun(now, Some(up.0), down.0, asked.target.ip()),
        }
        if answered {
            let told = if reason == Reason::Corrupted { reason } else { Reason::Restarted };
            return net.peers.blocks(up.0).reset(up.1, told);
        }
        let reason = if asked.is_resumed() { Reason::Restarted } else { reason };
        let asked = Asked { failed: asked.failed.saturating_add(1), ..asked };
        let next = net.next_way(now, Some(up.0), asked.target.ip()).filter(|_| asked.failed < WAYS_ASKED_MAX);
        let refused = next.map_or(Err(reason), |next| self.pass_on(net, now, up, next, asked));
        if let Err(reason) = refused {
            net.peers.blocks(up.0).refuse(now, up.1, reason, None);
        }
    }

    /// Handles a link's event about a relayed flow.
    pub(crate) fn handle_event(&mut self, net: &mut Net, now: Instant, side: Side, event: HopEvent) {
        let Some(Other { side: other, asked, answered: _ }) = self.sides.others.get(&side).copied() else { return };
        match event {
            HopEvent::Incoming { .. }
            | HopEvent::Ending(_)
            | HopEvent::Idle(_)
            | HopEvent::Asks(_)
            | HopEvent::Filled(_)
            | HopEvent::ByDigest(..) => {}
            HopEvent::Open(_, bytes, digest) => self.pass_digest(net, now, other, bytes, digest),
            HopEvent::Accepted(_, received) => {
                for side in [side, other] {
                    self.sides.note_answered(side);
                }
                net.peers.blocks(other.0).accept(now, other.1, received);
                self.pass(net, now, side, other);
            }
            HopEvent::Readable(_) => self.pass(net, now, side, other),
            HopEvent::Writable(_) => self.pass(net, now, other, side),
            HopEvent::Receipted(_) => self.press_back(net, now, other, side),
            HopEvent::Vtx(_, start, end) => self.answer_vtx(net, side, other, (start, end)),
            HopEvent::Lacks(_, parts) => self.send_again(net, side, other, &parts),
            HopEvent::Again(_, offset, bytes) => self.keep_again(net, side, other, offset, &bytes),
            HopEvent::ProgressAgain(_) => net.peers.blocks(other.0).repeat_progress(other.1),
            HopEvent::Progress(_, mut reach, word) => {
                if let Some(tampering) = &mut self.tampering {
                    tampering.progress(&mut reach);
                }
                net.peers.blocks(other.0).say_progress(now, other.1, (reach, word), true);
            }
            HopEvent::Refused(_, reason @ (Reason::Restarted | Reason::Unreachable), _) => {
                self.led_nowhere(net, now, other, side, reason);
            }
            HopEvent::Withdrawn(_) | HopEvent::Reset(_, Reason::Restarted) if asked.is_none() => {
                self.led_nowhere(net, now, other, side, Reason::Restarted);
            }
            // One of the edges found that a relay on this way fails: it may be the next one.
            HopEvent::Reset(_, Reason::Corrupted) | HopEvent::Refused(_, Reason::Corrupted, _) if asked.is_none() => {
                self.led_nowhere(net, now, other, side, Reason::Corrupted);
            }
            // The answering edge was asked by another way: nothing failed on this one.
            HopEvent::Reset(_, reason @ Reason::Complete) if asked.is_none() => {
                self.leave(side);
                if self.leave(other) {
                    net.peers.blocks(other.0).reset(other.1, reason);
                }
            }
            HopEvent::Refused(_, reason, ended) => {
                let asked = self.sides.asked(other).filter(|_| reason == Reason::NoRoom);
                if asked.is_some_and(|(asked, _)| asked.is_for_keys()) {
                    self.passing.note_refusal(now, side.0.0);
                }
                self.leave(side);
                if self.leave(other) {
                    net.peers.blocks(other.0).refuse(now, other.1, reason, ended);
                }
            }
            HopEvent::Withdrawn(_) => {
                self.leave(side);
                if self.leave(other) {
                    net.peers.blocks(other.0).reset(other.1, Reason::Restarted);
                }
            }
            HopEvent::Reset(_, reason) => {
                self.leave(side);
                if let (Reason::Corrupted, Some(asked)) = (reason, asked) {
                    net.distrust_way(now, Some(side.0), other.0, asked.target.ip());
                }
                if self.leave(other) {
                    // Only the opening edge resumes a lost flow; if the opening edge itself was lost, the flow is over.
                    let final_loss = reason == Reason::Restarted && asked.is_some_and(|asked| asked.hops() == 0);
                    let reason = if final_loss { Reason::Aborted } else { reason };
                    let hop = net.peers.blocks(other.0);
                    if matches!(reason, Reason::Restarted | Reason::Corrupted) {
                        hop.reset(other.1, reason);
                    } else {
                        // Bytes relayed earlier are delivered first.
                        hop.end(now, other.1, reason);
                    }
                }
            }
            HopEvent::Closed(_) => {
                self.leave(side);
            }
        }
        net.peers.touch(other.0);
    }

    /// A side's link has forgotten it. Returns whether it was listed.
    fn leave(&mut self, side: Side) -> bool {
        self.cache.forget(side);
        self.waiting.remove(&side);
        self.sides.remove(side)
    }

    /// What is forwarded to `to` came openly: whoever is behind `to` may have overheard it.
    fn pass_digest(&self, net: &mut Net, now: Instant, to: Side, bytes: (u64, u64), digest: Digest) {
        // A relay that changes what it forwards does not have the bytes of the digest.
        if net.peers.overhears(to.0) && self.tampering.is_none() {
            net.peers.blocks(to.0).know_digest(now, to.1, bytes, digest);
        }
    }

    /// Moves readable bytes from `from` to `to`, as far as there is room.
    fn pass(&mut self, net: &mut Net, now: Instant, from: Side, to: Side) {
        let mut buf = [0; CHUNK];
        loop {
            net.peers.lend(to.0);
            // Read even without room, to detect the end.
            let room = net.peers.blocks(to.0).room(to.1).min(CHUNK);
            let offset = net.peers.blocks(from.0).taken(from.1);
            match net.peers.blocks(from.0).read(now, from.1, &mut buf[..room]) {
                ReadOutcome::Data(octets) => {
                    if !self.cache.is_off() {
                        self.cache.keep(from, offset, &buf[..octets]);
                    }
                    let mut passed = std::borrow::Cow::from(&buf[..octets]);
                    if let Some(tampering) = &mut self.tampering {
                        tampering.octets(to.0, passed.to_mut());
                        passed.to_mut().truncate(room);
                    }
                    let taken = net.peers.blocks(to.0).write(now, to.1, &passed);
                    assert_eq!(taken, passed.len(), "there was room, and what was read is nowhere else any more");
                    self.octets += taken as u64;
                    net.peers.note_held(to.0);
                }
                ReadOutcome::End => {
                    net.peers.blocks(to.0).shutdown(now, to.1);
                    break;
                }
                ReadOutcome::Blocked | ReadOutcome::Reset => {
                    if room == 0 {
                        net.peers.blocks(to.0).want_room(now, to.1);
                    }
                    break;
                }
            }
        }
        self.press_back(net, now, from, to);
        [from.0, to.0].into_iter().for_each(|peer| net.peers.touch(peer));
    }

    /// Sends `from` its new credit, given what `to` has not receipted.
    fn press_back(&self, net: &mut Net, now: Instant, from: Side, to: Side) {
        if net.peers.share_radio(from.0, to.0) {
            let onward = net.peers.blocks(to.0).onward(to.1);
            net.peers.blocks(to.0).send_whole(to.1);
            net.peers.blocks(from.0).set_onward(now, from.1, onward);
            net.peers.touch(from.0);
        }
        let window = match net.peers.config().backpressure {
            Backpressure::Adaptive => return,
            Backpressure::Blocks(most) => {
                let onward = net.peers.blocks(to.0);
                let limit = u64::from(most.max(1)) * onward.block_octets();
                Window::Octets(limit.saturating_sub(onward.unreceipted(to.1)))
            }
            Backpressure::Off => Window::Pool,
        };
        net.peers.lend(from.0);
        net.peers.blocks(from.0).set_window(now, from.1, window);
        net.peers.touch(from.0);
    }
}

/// What tests look at and change.
#[cfg(test)]
impl Relays {
    pub(crate) fn of_peer(&self, peer: PeerId) -> Vec<FlowName> {
        self.sides.of_peer(peer)
    }
    pub(crate) fn pass_on_for(&mut self, now: Instant, peers: usize) {
        self.passing = Passing::new(now, peers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(number: u64) -> Side {
        (PeerId((number % 3) as usize), FlowName { mine: number.is_multiple_of(2), number })
    }

    fn asked(token: u8, attempt: u64) -> Asked {
        let address = SocketAddr::from(([192, 0, 2, 1], 80));
        let passage = Passage { token: [token; 16], hops: 1, received: None, choice: false, attempt, seal: None };
        Asked { source: address, target: address, passage: Some(passage), failed: 0 }
    }

    #[test]
    fn a_request_is_pending_until_answered_or_gone() {
        let mut relays = Sides::default();
        relays.join(side(1), side(2), asked(7, 3));
        relays.join(side(3), side(4), asked(7, 3));
        relays.join(side(5), side(8), asked(8, 0));
        let nothing = Asked { passage: None, ..asked(0, 0) };
        relays.join(side(7), side(10), nothing);
        let pending = |relays: &Sides| [asked(7, 3), asked(8, 0), asked(7, 2), nothing].map(|a| relays.is_pending(&a));
        assert_eq!(pending(&relays), [true, true, false, false]);
        relays.note_answered(side(1));
        relays.note_answered(side(1));
        assert_eq!(pending(&relays), [true, true, false, false], "the other one waits still");
        relays.rename_peers(|peer| (peer != side(3).0).then_some(peer));
        assert_eq!(pending(&relays), [false, true, false, false]);
        assert!(relays.remove(side(5)) && !relays.remove(side(5)));
        assert!(relays.pending.is_empty());
    }
}
