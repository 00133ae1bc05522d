//! Carrying the owner's flows: how they begin and end, and the links' events about them.

use super::about::is_about;
use super::edge::{Edge, KEPT_FLOOR, Role};
use super::relay::{Asked, Side};
use super::sealed::{Deceit, unsealed_notice};
use super::shares::Lending;
use super::{Event, Gateway, OpenError, PeerId};
use std::net::SocketAddr;
use wavelane_base::{FlowId, Instant, ReadOutcome};
use wavelane_services::hop::{HopEvent, HopOpenError};
use wavelane_transport::seal::Heard;
use wavelane_wire::frame::{Answered, Passage, Reach, Reason, Seal, Word};

/// Why a neighbour's request is refused, and how the flow ended if it did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) reason: Reason,
    ended: Option<Answered>,
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self { reason, ended: None }
    }
}

/// What a flow's handshake is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    pub(super) token: [u8; 16],
    pub(super) source: SocketAddr,
    pub(super) target: SocketAddr,
}

impl Gateway {
    /// Asks `peer` to connect to `target` on behalf of the application at `source`. If a table decides, and the peer's routes
    /// cover the target, the peer that the table names is asked instead.
    pub fn open(
        &mut self,
        now: Instant,
        peer: PeerId,
        source: SocketAddr,
        target: SocketAddr,
    ) -> Result<FlowId, OpenError> {
        if peer.0 >= self.links.len() {
            return Err(OpenError::UnknownPeer);
        }
        let ways = self.ways_to(None, target.ip());
        let peer = self.named_by_table(now, peer, target.ip())?;
        self.lend(peer);
        let mut token = [0; 16];
        self.dice.fill(&mut token);
        let routed = ways.contains(&peer);
        let choice = routed && self.is_choice(&ways);
        let mut edge = Edge::new(token, Role::Opener { peer, source, target, resumes: 0, routed, choice });
        edge.seal = self.ask_for_keys(peer, choice, &Around { token, source, target });
        let passage = Some(edge.passage());
        let name = self.blocks(peer).open(now, source, target, passage);
        let name = name.map_err(|HopOpenError::TableFull(most)| OpenError::TableFull(most))?;
        let id = self.flows.insert(peer, name, Some(Box::new(edge)));
        self.settle(now, peer);
        Ok(id)
    }

    /// The target of an incoming flow answered.
    pub fn accept(&mut self, now: Instant, flow: FlowId) {
        let edge = self.flows.edge(flow).map(|edge| {
            edge.accepted = true;
            edge.answered(true)
        });
        // A flow that lost its way is accepted once it is resumed.
        let Some((peer, name)) = self.flows.find(flow) else { return };
        self.blocks(peer).accept(now, name, edge);
        self.settle(now, peer);
    }

    /// The target of an incoming flow refused it; the flow is forgotten.
    pub fn refuse(&mut self, now: Instant, flow: FlowId, why: Reason) {
        let at = self.flows.find(flow);
        self.forget(flow);
        if let Some((peer, name)) = at {
            self.blocks(peer).refuse(now, name, why, None);
            self.settle(now, peer);
        }
    }

    /// Refuses requests that a peer has not answered, because it is down.
    pub fn refuse_unanswered(&mut self, now: Instant, peer: PeerId) {
        for (id, name) in self.flows.of_peer(peer) {
            let asked = self.flows.edge(id).is_some_and(|edge| !edge.accepted && edge.opener_peer().is_some());
            if asked {
                name.into_iter().for_each(|name| self.blocks(peer).reset(name, Reason::Unreachable));
                self.end(id, Reason::Unreachable, false);
            }
        }
        self.settle(now, peer);
    }

    /// Whether an answer of the neighbour that carries the flow is due, so that the flow's state is unknown.
    pub fn is_silent(&self, flow: FlowId) -> bool {
        self.flows.find(flow).is_none_or(|(peer, _)| !self.peers[peer.0].up)
    }

    /// What a flow may keep for the other edge now: bounds its rate to this per RTT between the edges. Half the pool is shared by the
    /// peers, so that the flows of one that never says how far they got leave those of the others their part.
    pub(super) fn share_kept(&self, flow: FlowId) -> u64 {
        let free = self.flows.keeper(flow).filter(|peer| peer.0 < self.keeping.peers());
        let free = free.map_or(0, |PeerId(peer)| self.keeping.free(peer));
        (free / 4).max(KEPT_FLOOR)
    }

    /// What an edge keeps changed from `before`, which counted to `charged`, to `after` of `keeper`.
    fn recount(&mut self, (charged, before): (Option<PeerId>, u64), (keeper, after): (Option<PeerId>, u64)) {
        self.kept = self.kept - before + after;
        // During a reload peers have their new numbers before the shares are set anew.
        let known = |peer: Option<PeerId>| peer.filter(|peer| peer.0 < self.keeping.peers());
        let (charged, keeper) = (known(charged), known(keeper));
        if let Some(PeerId(peer)) = charged {
            self.keeping.hold(peer, self.keeping.held(peer).saturating_sub(before));
        }
        if let Some(PeerId(peer)) = keeper {
            self.keeping.hold(peer, self.keeping.held(peer) + after);
        }
    }

    /// Resets how the peers share kept bytes.
    pub(super) fn share_out_kept(&mut self) {
        self.keeping = Lending::new(self.config.pool.get() / 2, self.links.len());
        for flow in self.flows.with_edges() {
            let keeper = self.flows.keeper(flow);
            let Some(edge) = self.flows.edge(flow) else { continue };
            edge.charged = keeper;
            let kept = edge.kept();
            self.recount((None, kept), (keeper, kept));
        }
    }

    /// Applies `act` to an edge and updates the total of kept bytes.
    pub(super) fn with_edge<R>(&mut self, flow: FlowId, act: impl FnOnce(&mut Edge) -> R) -> Option<R> {
        let keeper = self.flows.keeper(flow);
        let edge = self.flows.edge(flow)?;
        let before = (edge.charged, edge.kept());
        let result = act(edge);
        edge.charged = keeper;
        let after = (keeper, edge.kept());
        self.recount(before, after);
        Some(result)
    }

    /// Takes a flow out of the table.
    pub(super) fn forget(&mut self, flow: FlowId) {
        let loser = self.flows.loser(flow);
        if let Some(mut edge) = self.flows.remove(flow).and_then(|entry| entry.edge) {
            self.recount((edge.charged, edge.kept()), (None, 0));
            self.desk.release(edge.take_opened());
        }
        loser.into_iter().for_each(|peer| self.note_held(peer));
    }

    /// Handles a link's event.
    pub(super) fn translate(&mut self, now: Instant, peer: PeerId, event: HopEvent) {
        let name = match event {
            HopEvent::Incoming { flow, source, target, passage } => {
                match self.incoming(now, (peer, flow), (source, target), passage) {
                    Ok(()) => self.note_opening(peer),
                    Err(Refusal { reason, ended }) => self.blocks(peer).refuse(now, flow, reason, ended),
                }
                return;
            }
            HopEvent::Accepted(flow, _)
            | HopEvent::Progress(flow, ..)
            | HopEvent::Ending(flow)
            | HopEvent::Readable(flow)
            | HopEvent::Writable(flow)
            | HopEvent::Receipted(flow)
            | HopEvent::Asks(flow)
            | HopEvent::Filled(flow)
            | HopEvent::Vtx(flow, ..)
            | HopEvent::Lacks(flow, _)
            | HopEvent::Again(flow, ..)
            | HopEvent::ProgressAgain(flow)
            | HopEvent::Open(flow, ..)
            | HopEvent::ByDigest(flow, ..)
            | HopEvent::Idle(flow)
            | HopEvent::Refused(flow, ..)
            | HopEvent::Reset(flow, _)
            | HopEvent::Withdrawn(flow)
            | HopEvent::Closed(flow) => flow,
        };
        match event {
            HopEvent::Idle(_) => return self.idle(now, (peer, name)),
            HopEvent::Asks(_) => return self.note_asking(now, (peer, name)),
            HopEvent::Filled(_) => return self.end_turn(now, (peer, name)),
            HopEvent::ByDigest(_, offset, len, digest) => {
                return self.take_by_digest(now, (peer, name), (offset, len), &digest);
            }
            HopEvent::Refused(..) | HopEvent::Reset(..) | HopEvent::Withdrawn(_) | HopEvent::Closed(_) => {
                self.stop_asking(now, (peer, name));
            }
            _ => {}
        }
        if self.relays.contains((peer, name)) {
            return self.relay_event(now, (peer, name), event);
        }
        let Some(id) = self.flows.id(peer, name) else { return };
        match event {
            HopEvent::Incoming { .. }
            | HopEvent::Idle(_)
            | HopEvent::Asks(_)
            | HopEvent::Filled(_)
            | HopEvent::Receipted(_)
            | HopEvent::Open(..)
            | HopEvent::ByDigest(..)
            | HopEvent::Again(..) => {}
            HopEvent::Vtx(_, start, end) => self.edge_has(now, id, (peer, name), (start, end)),
            HopEvent::Lacks(_, parts) => self.edge_sends_again(id, (peer, name), &parts),
            HopEvent::ProgressAgain(_) => self.edge_pauses(now, id),
            HopEvent::Accepted(_, answered) => self.accepted(now, id, (peer, name), answered),
            HopEvent::Progress(_, reach, word) => self.progressed(now, id, reach, word),
            HopEvent::Ending(_) => self.events.push_back(Event::Ending(id)),
            HopEvent::Readable(_) => {
                if self.flows.edge(id).is_some_and(|edge| edge.reach.finished) {
                    // The owner has already read to the end; the new way's end is consumed here.
                    self.finish_reading(now, (peer, name));
                } else {
                    self.events.push_back(Event::Readable(id));
                }
            }
            HopEvent::Writable(_) => {
                if self.flows.edge(id).is_none() {
                    self.events.push_back(Event::Writable(id));
                } else {
                    self.replay(now, id);
                }
            }
            // The other edge distrusts the way.
            HopEvent::Reset(_, Reason::Corrupted) if self.is_distrusted_for_good(now, id) => {
                self.end_distrusted(now, id);
            }
            // The other edge was asked by another way.
            HopEvent::Reset(_, Reason::Complete) if self.waits_at_left_way(id) => self.ask_after(now, id),
            HopEvent::Refused(_, Reason::Complete, ended) => self.ended_there(now, id, ended),
            HopEvent::Refused(_, reason, _) | HopEvent::Reset(_, reason) => self.lost(now, id, reason),
            HopEvent::Withdrawn(_) => self.lost(now, id, Reason::Restarted),
            HopEvent::Closed(_) if self.flows.edge(id).is_some_and(|edge| !edge.knows_end()) => {
                self.distrust(now, id, Deceit::Word);
            }
            HopEvent::Closed(_) => self.closed(id),
        }
    }

    /// Whether the flow is ours to open anew if the other edge says that it was asked by another way.
    fn waits_at_left_way(&mut self, id: FlowId) -> bool {
        self.flows.edge(id).is_some_and(|edge| edge.accepted && !edge.is_done() && edge.opener_peer().is_some())
    }

    /// Nothing of a flow moved for the idle time. An outage does not count as idle: it is waited out.
    fn idle(&mut self, now: Instant, side: Side) {
        if self.peers[side.0.0].up {
            self.counters.flows_idle += 1;
            self.blocks(side.0).reset(side.1, Reason::TimedOut);
            self.translate(now, side.0, HopEvent::Reset(side.1, Reason::TimedOut));
        }
    }

    /// For flows across relays: a repeated or late request for an ended flow can be answered. Only the answering edge is asked.
    pub(super) fn remember_ended(&mut self, id: FlowId, well: bool) {
        if let Some(edge) = self.flows.edge(id).filter(|edge| edge.opener_peer().is_none()) {
            let token = edge.token;
            let end = well.then(|| edge.end());
            self.ended.insert(token, end);
        }
    }

    /// A neighbour asks for a flow: a new one to us, one that we already have, or one to be relayed.
    pub(super) fn incoming(
        &mut self,
        now: Instant,
        side: Side,
        (source, target): (SocketAddr, SocketAddr),
        passage: Option<Passage>,
    ) -> Result<(), Refusal> {
        // What is asked of this gateway itself is passed on by none.
        let for_us = passage.is_none() && is_about(source, target);
        if !for_us {
            self.check_incoming(side.0, source, target)?;
        }
        let resumed = passage.is_some_and(|passage| passage.received.is_some());
        let next = if for_us { None } else { self.next_hop(side.0, target.ip()) };
        // A resumed flow was admitted before. Its other edge can verify that; a relay cannot, and defers what exceeds the rate.
        if (!resumed || next.is_some()) && !self.arrivals.admit(now, side.0.0) {
            return Err(if resumed { Reason::Restarted } else { Reason::NoRoom }.into());
        }
        // If the table has no route, or leads back, a flow is not for us, unless it is known here.
        let known = passage.is_some_and(|passage| self.is_known_here(&passage.token));
        if next.is_some() || !for_us && !known && !self.ends_here(target.ip()) {
            let asked = Asked { source, target, passage, failed: 0 };
            return Ok(self.relay(now, side, asked)?);
        }
        let across = passage
            .filter(|passage| passage.hops > 0 || passage.choice || passage.attempt > 0 || passage.seal.is_some());
        if let Some(passage) = across {
            if let Some(id) = self.flows.id_of_token(&passage.token) {
                // Anyone who knows the token can ask: that says nothing of the way, so no relay is to shun the next hop for it.
                if !self.flows.edge(id).is_some_and(|edge| edge.takes(&passage)) {
                    self.counters.dropped_stale_opens += 1;
                    return Err(Reason::Complete.into());
                }
                if !self.is_resumed_by_edge(id, &passage) {
                    return Err(Reason::Complete.into());
                }
                self.take_up(now, id, side, passage);
                return Ok(());
            }
            if let Some(end) = self.ended.find(&passage.token) {
                let reason = if end.is_some() { Reason::Complete } else { Reason::Aborted };
                return Err(Refusal { reason, ended: end });
            }
        }
        if resumed {
            return Err(Reason::Aborted.into());
        }
        let token = across.map_or([0; 16], |passage| passage.token);
        let mut seal = self.agree_on_keys((now, side.0), &Around { token, source, target }, across.as_ref())?;
        let edge = across.map(|passage| {
            let mut edge = Edge::new(passage.token, Role::Answerer);
            (edge.attempt, edge.relays, edge.seal) = (passage.attempt, Some(passage.hops), seal.take());
            Box::new(edge)
        });
        let flow = self.flows.insert(side.0, side.1, edge);
        self.events.push_back(Event::Incoming { flow, peer: side.0, source, target });
        Ok(())
    }

    /// Whether this is the answering edge of a flow, or was.
    fn is_known_here(&mut self, token: &[u8; 16]) -> bool {
        let answers = |edge: &mut Edge| matches!(edge.role, Role::Answerer);
        let flow = self.flows.id_of_token(token);
        flow.is_some_and(|id| self.flows.edge(id).is_some_and(answers)) || self.ended.find(token).is_some()
    }

    /// The opening edge asks for a flow that we have: the way was lost, perhaps before we noticed.
    fn take_up(&mut self, now: Instant, id: FlowId, side: Side, passage: Passage) {
        self.counters.flows_resumed += 1;
        self.dirty.extend(self.flows.loser(id));
        if let Some((peer, name)) = self.flows.attach(id, side.0, side.1) {
            // Nothing failed on that way, so no relay of it is to shun another. If the opening edge still waits there, it asks again.
            self.blocks(peer).reset(name, Reason::Complete);
            self.dirty.insert(peer);
        }
        let from = passage.received.unwrap_or(0);
        let with_keys = matches!(passage.seal, Some(Seal::Keys(_)));
        match self.with_edge(id, |edge| {
            (edge.attempt, edge.relays) = (passage.attempt, Some(passage.hops));
            (edge.asked_at, edge.way_rtt) = (now, None);
            (edge.accepted, edge.start_from(from), edge.answered(with_keys))
        }) {
            Some((true, true, answered)) => {
                self.blocks(side.0).accept(now, side.1, Some(answered));
                self.resumed(now, id, side);
            }
            // Our own application has not answered yet.
            Some((false, true, _)) => {}
            Some((_, false, _)) => {
                self.blocks(side.0).refuse(now, side.1, Reason::Aborted, None);
                self.end(id, Reason::Aborted, true);
            }
            None => {}
        }
    }

    /// The far application answered, or the other edge resumed the flow.
    fn accepted(&mut self, now: Instant, id: FlowId, side: Side, answered: Option<Answered>) {
        let must_seal = self.config.seal;
        // A node that claims to be the other edge without its key is not.
        let honest = |edge: &mut Edge| answered.map_or(!edge.is_sealed(), |answered| edge.take_answer(answered));
        if self.with_edge(id, honest) == Some(false) {
            return self.distrust(now, id, Deceit::Word);
        }
        let Some((sealed, role)) = self.flows.edge(id).map(|edge| (edge.is_sealed(), edge.role)) else {
            return self.events.push_back(Event::Accepted(id));
        };
        // An answer for a flow that no relay carries needs no seal: the flow was asked for again.
        if let (true, false, Some(_), Role::Opener { target, peer, .. }) = (must_seal, sealed, answered, role)
            && self.config.peers.get(peer.0).map(|peer| peer.public_key) != self.egress_key(target.ip())
        {
            self.counters.refused_seals += 1;
            self.events.push_back(Event::Notice { peer: Some(peer), text: unsealed_notice(target) });
            return self.abandon(id, Reason::Prohibited);
        }
        let Some(edge) = self.flows.edge(id) else { return };
        let first = !core::mem::replace(&mut edge.accepted, true);
        let Some(received) = answered.map(|answered| answered.received) else {
            if !first {
                return self.abandon(id, Reason::Aborted);
            }
            edge.direct = true;
            if edge.awaiting {
                // It was reopened before it was answered: bytes written earlier are sent first.
                edge.start_from(0);
            }
            self.events.extend([Event::Accepted(id), Event::Readable(id)]);
            return self.replay(now, id);
        };
        if first {
            self.watch_vtx(now, id);
            // Octets may have overtaken the answer.
            self.events.extend([Event::Accepted(id), Event::Readable(id)]);
        }
        let Some(edge) = self.flows.edge(id) else { return };
        let anew = edge.awaiting;
        edge.way_rtt = anew.then(|| now.since(edge.asked_at));
        let fits = if anew { self.with_edge(id, |edge| edge.start_from(received)) } else { Some(received == 0) };
        if fits != Some(true) {
            return self.abandon(id, Reason::Aborted);
        }
        if anew {
            self.resumed(now, id, side);
        } else if self.is_sealed(id) {
            // Without keys nothing could be written, nor the end be sent.
            self.replay(now, id);
        }
    }

    /// The other edge reports how far its application has read.
    fn progressed(&mut self, now: Instant, id: FlowId, reach: Reach, word: Option<Word>) {
        let Some(edge) = self.flows.edge(id) else { return };
        let before = edge.kept_on_way();
        match edge.hear(reach, word) {
            Heard::News => {}
            Heard::Old => return,
            Heard::Forged => return self.distrust(now, id, Deceit::Word),
        }
        if self.with_edge(id, |edge| edge.acknowledge(reach.received)) == Some(false) {
            return self.abandon(id, Reason::Aborted);
        }
        self.answer_end(now, id);
        if let Some(edge) = self.flows.edge(id) {
            // The opening edge sends this as soon as it has our answer.
            let is_first = edge.way_rtt.is_none() && matches!(edge.role, Role::Answerer);
            if is_first {
                edge.way_rtt = Some(now.since(edge.asked_at));
            }
            if word.is_none() || edge.kept_on_way() > before {
                edge.watch.progress(now);
            } else {
                edge.watch.pause(now);
            }
            if is_first {
                self.watch_anew(now, id);
            }
        }
        self.wake_writer(id);
    }

    /// Both applications have everything: the answering edge says so once it knows, so that the opening edge, which alone can
    /// ask for a flow again, outlasts every word that the other one lacks.
    fn answer_end(&mut self, now: Instant, id: FlowId) {
        let Some((peer, name)) = self.flows.find(id) else { return };
        let Some(edge) = self.flows.edge(id) else { return };
        if matches!(edge.role, Role::Answerer) && edge.reach.finished && edge.other_finished {
            let said = edge.say_reach();
            self.blocks(peer).say_progress(now, name, said, true);
            self.dirty.insert(peer);
        }
    }

    /// The answering edge remembers the flow as ended well, and says so by a word if the flow is sealed. Without an account of the
    /// end it was asked by another way.
    fn ended_there(&mut self, now: Instant, id: FlowId, ended: Option<Answered>) {
        let proven = self.flows.edge(id).is_none_or(|edge| !edge.is_sealed() || edge.hear_end(ended));
        match self.flows.edge(id).is_some() && ended.is_none() {
            _ if !proven => self.distrust(now, id, Deceit::Word),
            true => self.ask_after(now, id),
            false => self.lost(now, id, Reason::Complete),
        }
    }

    /// A new way is established: sends what the other edge lacks and reports what we have.
    fn resumed(&mut self, now: Instant, id: FlowId, side: Side) {
        if let Some(edge) = self.flows.edge(id) {
            edge.watch.progress(now);
            let said = edge.say_reach();
            self.blocks(side.0).say_progress(now, side.1, said, true);
        }
        self.watch_anew(now, id);
        self.replay(now, id);
        // The owner's view of the lost way's bytes is void.
        self.events.push_back(Event::Readable(id));
    }

    /// Hands kept bytes to the current way as far as there is room, then the end, then wakes the writer.
    pub(super) fn replay(&mut self, now: Instant, id: FlowId) {
        let Some((peer, name)) = self.flows.find(id) else { return };
        let Some(edge) = self.flows.edge(id) else { return };
        // Without keys not even the end can be sent.
        if edge.awaiting || !edge.can_seal() {
            return;
        }
        // Not through `blocks()`: the edge is borrowed at the same time.
        let hop = &mut self.links[peer.0].service.blocks;
        let Some(edge) = self.flows.edge(id) else { return };
        while edge.is_replaying() {
            let chunk = edge.next_replay(usize::MAX);
            let taken = hop.write(now, name, chunk);
            edge.replayed(taken);
            if taken == 0 {
                self.dirty.insert(peer);
                return;
            }
        }
        if edge.ended {
            hop.shutdown(now, name);
        }
        self.dirty.insert(peer);
        self.watch_vtx(now, id);
        self.wake_writer(id);
        let direct = self.flows.edge(id).is_some_and(|edge| edge.direct);
        if let Some(edge) = direct.then(|| self.flows.drop_edge(id)).flatten() {
            self.recount((edge.charged, edge.kept()), (None, 0));
        }
    }

    fn wake_writer(&mut self, id: FlowId) {
        let share = self.share_kept(id);
        if self.flows.edge(id).is_some_and(|edge| edge.wakes_writer(share)) {
            self.events.push_back(Event::Writable(id));
        }
    }

    fn finish_reading(&mut self, now: Instant, (peer, name): Side) {
        let hop = self.blocks(peer);
        while let ReadOutcome::Data(_) = hop.read(now, name, &mut [0; 64]) {}
        self.dirty.insert(peer);
    }

    /// The flow ended well.
    pub(super) fn closed(&mut self, id: FlowId) {
        self.remember_ended(id, true);
        self.forget(id);
        self.events.push_back(Event::Closed(id));
    }

    /// The flow ends abnormally, unless both applications have everything.
    pub(super) fn end(&mut self, id: FlowId, reason: Reason, accepted: bool) {
        if self.flows.edge(id).is_some_and(|edge| edge.is_over()) {
            return self.closed(id);
        }
        let opening = self.flows.edge(id).is_some_and(|edge| edge.opener_peer().is_some()) && !accepted;
        self.remember_ended(id, false);
        self.forget(id);
        self.events.push_back(if opening { Event::Refused(id, reason) } else { Event::Reset(id, reason) });
    }

    /// The other edge sent an impossible value: the flow ends on both sides.
    fn abandon(&mut self, id: FlowId, reason: Reason) {
        if let Some((peer, name)) = self.flows.find(id) {
            self.blocks(peer).reset(name, reason);
            self.dirty.insert(peer);
        }
        self.end(id, reason, true);
    }
}
