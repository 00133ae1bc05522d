//! The owner's flows: how they begin and end, what their edges keep, and the links' events about them.

mod edge;
mod ended;
mod known_way;
mod lost;
mod scratch;
mod sealed;
mod streams;
mod table;
mod watch;

pub use known_way::KnownWay;

use crate::about::{ENDS, is_about};
use crate::neighbours::Side;
use crate::relays::Asked;
use crate::routing::Net;
use crate::shares::{Arrivals, Labour, Lending};
use crate::{GatewayEvent, OpenError, PeerId};
use edge::{Edge, KEPT_FLOOR, Role};
use ended::Ended;
use scratch::Scratch;
use sealed::{Deceit, unsealed_notice};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use table::FlowTable;
use wavelane_base::{FlowId, Instant, ReadOutcome, Wakeup};
use wavelane_services::hop::{HopEvent, HopOpenError};
use wavelane_transport::seal::Heard;
use wavelane_wire::frame::{Answered, Passage, Reach, Reason, Seal, Word};

/// New flows that peers may open in a second, for each place in the flow table.
const NEW_FLOWS: u64 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    table: FlowTable,
    /// Bytes that edges keep for each other, and how they are shared by the peers that carry their flows.
    kept: u64,
    keeping: Lending,
    /// How peers share new flows, and the time that agreeing on keys takes.
    arrivals: Arrivals,
    labour: Labour,
    /// Flows across relays that ended: the other edge may ask again.
    ended: Ended,
    /// Buffers shared by sealing and opening flows.
    scratch: Scratch,
    /// When edges check whether the other one made progress.
    watched: BTreeSet<(Instant, FlowId)>,
    /// When it was last logged that no way carries a sealed flow intact.
    corrupted_told: Option<Instant>,
    counters: Counters,
}

/// Counters of the owner's flows.
#[derive(Debug, Default)]
struct Counters {
    resumed: u64,
    moved: u64,
    dropped_stale_opens: u64,
    given_up: u64,
    dropped_parcels_foreign: u64,
    dropped_words_forged: u64,
    withheld: u64,
    corrupted: u64,
    refused_seals: u64,
    vtx_asked: u64,
}

/// Why a neighbour's request is refused, and how the flow ended if it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) ended: Option<Answered>,
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self { reason, ended: None }
    }
}

/// A flow's source and target.
pub(crate) type Ends = (SocketAddr, SocketAddr);

/// What a flow's handshake is bound to.
#[derive(Clone, Copy, Debug)]
struct Around {
    token: [u8; 16],
    source: SocketAddr,
    target: SocketAddr,
}

impl Flows {
    /// Asks `peer` to connect to `target`, or the peer that the table names instead.
    pub(crate) fn open(&mut self, net: &mut Net, now: Instant, peer: PeerId, ends: Ends) -> Result<FlowId, OpenError> {
        let (source, target) = ends;
        if peer.0 >= net.peers.len() {
            return Err(OpenError::UnknownPeer);
        }
        let ways = net.ways_to(None, target.ip());
        let peer = net.named_by_table(now, peer, target.ip())?;
        net.peers.lend(peer);
        let mut token = [0; 16];
        net.peers.dice().fill(&mut token);
        let routed = ways.contains(&peer);
        let choice = routed && net.is_choice(&ways);
        let mut edge = Edge::new(token, Role::Opener { peer, source, target, resumes: 0, routed, choice });
        edge.seal = Self::ask_for_keys(net, peer, choice, &Around { token, source, target });
        self.ask(net, now, (peer, ends), Some(Box::new(edge)))
    }

    /// Asks a neighbour what it has to say about itself.
    pub(crate) fn ask_about(&mut self, net: &mut Net, now: Instant, peer: PeerId) -> Result<FlowId, OpenError> {
        if peer.0 >= net.peers.len() {
            return Err(OpenError::UnknownPeer);
        }
        net.peers.lend(peer);
        self.ask(net, now, (peer, ENDS.into()), None)
    }

    fn ask(
        &mut self,
        net: &mut Net,
        now: Instant,
        (peer, (source, target)): (PeerId, Ends),
        mut edge: Option<Box<Edge>>,
    ) -> Result<FlowId, OpenError> {
        let passage = edge.as_mut().map(|edge| edge.passage());
        let name = net.peers.blocks(peer).open(now, source, target, passage);
        let name = name.map_err(|HopOpenError::TableFull(most)| OpenError::TableFull(most))?;
        net.peers.touch(peer);
        Ok(self.table.insert(peer, name, edge))
    }

    /// The target of an incoming flow answered.
    pub(crate) fn accept(&mut self, net: &mut Net, now: Instant, flow: FlowId) {
        let edge = self.table.edge(flow).map(|edge| {
            edge.accepted = true;
            edge.answered(true)
        });
        // A flow that lost its way is accepted once it is resumed.
        let Some((peer, name)) = self.table.find(flow) else { return };
        net.peers.blocks(peer).accept(now, name, edge);
        net.peers.touch(peer);
    }

    /// The target of an incoming flow refused it; the flow is forgotten.
    pub(crate) fn refuse(&mut self, net: &mut Net, now: Instant, flow: FlowId, why: Reason) {
        let at = self.table.find(flow);
        self.forget(net, flow);
        if let Some((peer, name)) = at {
            net.peers.blocks(peer).refuse(now, name, why, None);
            net.peers.touch(peer);
        }
    }

    /// Refuses requests that a peer has not answered, because it is down.
    pub(crate) fn refuse_unanswered(&mut self, net: &mut Net, peer: PeerId) {
        for (id, name) in self.table.of_peer(peer) {
            let asked = self.table.edge(id).is_some_and(|edge| !edge.accepted && edge.opener_peer().is_some());
            if asked {
                name.into_iter().for_each(|name| net.peers.blocks(peer).reset(name, Reason::Unreachable));
                self.end(net, id, Reason::Unreachable, false);
            }
        }
        net.peers.touch(peer);
    }

    /// A neighbour is removed: its flows end here.
    pub(crate) fn dismiss(&mut self, net: &mut Net, peer: PeerId) {
        for (id, name) in self.table.of_peer(peer) {
            if let Some(name) = name {
                net.peers.blocks(peer).reset(name, Reason::Aborted);
            }
            self.forget(net, id);
            net.peers.tell(GatewayEvent::Reset(id, Reason::Aborted));
        }
    }

    /// Renumbers peers; every flow's peer has a new number.
    pub(crate) fn rename_peers(&mut self, new_id: impl Fn(PeerId) -> Option<PeerId>) {
        self.table.rename_peers(new_id);
    }

    /// Whether an answer of the neighbour that carries the flow is due, so that the flow's state is unknown.
    pub(crate) fn is_silent(&self, net: &Net, flow: FlowId) -> bool {
        self.table.find(flow).is_none_or(|(peer, _)| !net.peers.is_up(peer))
    }

    /// The flow that a link calls so.
    pub(crate) fn id(&self, (peer, name): Side) -> Option<FlowId> {
        self.table.id(peer, name)
    }

    /// Flows, those that no link carries now, and the bytes that edges keep.
    pub(crate) fn held(&self) -> (usize, usize, u64) {
        (self.table.len(), self.table.detached(), self.kept)
    }

    pub(crate) fn counters(&self) -> [(&'static str, u64); 12] {
        let own = &self.counters;
        [
            ("flows_resumed", own.resumed),
            ("flows_moved", own.moved),
            ("dropped_stale_opens", own.dropped_stale_opens),
            ("flows_given_up", own.given_up),
            ("dropped_parcels_foreign", own.dropped_parcels_foreign),
            ("dropped_words_forged", own.dropped_words_forged),
            ("flows_withheld", own.withheld),
            ("flows_corrupted", own.corrupted),
            ("refused_seals", own.refused_seals),
            ("vtx_asked", own.vtx_asked),
            ("refused_flow_rate", self.arrivals.refused),
            ("refused_key_rate", self.labour.refused),
        ]
    }

    pub(crate) fn poll_timeout(&self) -> Option<Wakeup> {
        let lost = self.table.first_deadline();
        let lost = lost.map(|(at, _)| Wakeup { at, cause: "gateway: lost flow given up or tried again" });
        Wakeup::earliest(lost, self.watch_wakeup())
    }

    /// What a flow may keep for the other edge now: bounds its rate to this per RTT between the edges. Half the pool is shared by the
    /// peers, so that the flows of one that never says how far they got leave those of the others their part.
    pub(crate) fn share_kept(&self, flow: FlowId) -> u64 {
        let free = self.table.keeper(flow).filter(|peer| peer.0 < self.keeping.peers());
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

    /// Resets how the peers share.
    pub(crate) fn share_out(&mut self, now: Instant, net: &Net) {
        let (peers, flows_max) = (net.peers.len(), net.peers.config().flows_max as u64);
        self.arrivals = Arrivals::new(now, flows_max * NEW_FLOWS, peers);
        self.labour = Labour::new(now, peers);
        self.keeping = Lending::new(net.peers.config().pool.get() / 2, peers);
        for flow in self.table.with_edges() {
            let keeper = self.table.keeper(flow);
            let Some(edge) = self.table.edge(flow) else { continue };
            edge.charged = keeper;
            let kept = edge.kept();
            self.recount((None, kept), (keeper, kept));
        }
    }

    /// Applies `act` to an edge and updates the total of kept bytes.
    pub(crate) fn with_edge<R>(&mut self, flow: FlowId, act: impl FnOnce(&mut Edge) -> R) -> Option<R> {
        let keeper = self.table.keeper(flow);
        let edge = self.table.edge(flow)?;
        let before = (edge.charged, edge.kept());
        let result = act(edge);
        edge.charged = keeper;
        let after = (keeper, edge.kept());
        self.recount(before, after);
        Some(result)
    }

    /// Takes a flow out of the table.
    pub(crate) fn forget(&mut self, net: &mut Net, flow: FlowId) {
        let loser = self.table.loser(flow);
        if let Some(mut edge) = self.table.remove(&mut net.peers, flow).and_then(|entry| entry.edge) {
            self.recount((edge.charged, edge.kept()), (None, 0));
            self.scratch.release(edge.take_opened());
        }
        loser.into_iter().for_each(|peer| net.peers.note_held(peer));
    }

    /// Handles a link's event about a flow.
    pub(crate) fn handle_event(
        &mut self,
        net: &mut Net,
        now: Instant,
        id: FlowId,
        (peer, name): Side,
        event: HopEvent,
    ) {
        match event {
            HopEvent::Incoming { .. }
            | HopEvent::Idle(_)
            | HopEvent::Asks(_)
            | HopEvent::Filled(_)
            | HopEvent::Receipted(_)
            | HopEvent::Open(..)
            | HopEvent::ByDigest(..)
            | HopEvent::Again(..) => {}
            HopEvent::Vtx(_, start, end) => self.edge_has(net, now, id, (peer, name), (start, end)),
            HopEvent::Lacks(_, parts) => self.edge_sends_again(net, id, (peer, name), &parts),
            HopEvent::ProgressAgain(_) => self.edge_pauses(now, id),
            HopEvent::Accepted(_, answered) => self.accepted(net, now, id, (peer, name), answered),
            HopEvent::Progress(_, reach, word) => self.progressed(net, now, id, reach, word),
            HopEvent::Ending(_) => net.peers.tell(GatewayEvent::Ending(id)),
            HopEvent::Readable(_) => {
                if self.table.edge(id).is_some_and(|edge| edge.reach.finished) {
                    // The owner has already read to the end; the new way's end is consumed here.
                    self.finish_reading(net, now, (peer, name));
                } else {
                    net.peers.tell(GatewayEvent::Readable(id));
                }
            }
            HopEvent::Writable(_) => {
                if self.table.edge(id).is_none() {
                    net.peers.tell(GatewayEvent::Writable(id));
                } else {
                    self.replay(net, now, id);
                }
            }
            // The other edge distrusts the way.
            HopEvent::Reset(_, Reason::Corrupted) if self.is_distrusted_for_good(now, id) => {
                self.end_distrusted(net, now, id);
            }
            // The other edge was asked by another way.
            HopEvent::Reset(_, Reason::Complete) if self.waits_at_left_way(id) => self.ask_after(net, now, id),
            HopEvent::Refused(_, Reason::Complete, ended) => self.ended_there(net, now, id, ended),
            HopEvent::Refused(_, reason, _) | HopEvent::Reset(_, reason) => self.lost(net, now, id, reason),
            HopEvent::Withdrawn(_) => self.lost(net, now, id, Reason::Restarted),
            HopEvent::Closed(_) if self.table.edge(id).is_some_and(|edge| !edge.knows_end()) => {
                self.distrust(net, now, id, Deceit::Word);
            }
            HopEvent::Closed(_) => self.closed(net, id),
        }
    }

    /// Whether the flow is ours to open anew if the other edge says that it was asked by another way.
    fn waits_at_left_way(&mut self, id: FlowId) -> bool {
        self.table.edge(id).is_some_and(|edge| edge.accepted && !edge.is_done() && edge.opener_peer().is_some())
    }

    /// For flows across relays: a repeated or late request for an ended flow can be answered. Only the answering edge is asked.
    fn remember_ended(&mut self, id: FlowId, well: bool) {
        if let Some(edge) = self.table.edge(id).filter(|edge| edge.opener_peer().is_none()) {
            let token = edge.token;
            let end = well.then(|| edge.end());
            self.ended.insert(token, end);
        }
    }

    /// A neighbour asks for a flow: a new one to us, one that we already have, or one to be relayed, which is returned.
    pub(crate) fn incoming(
        &mut self,
        net: &mut Net,
        now: Instant,
        side: Side,
        (source, target): Ends,
        passage: Option<Passage>,
    ) -> Result<Option<Asked>, Refusal> {
        // What is asked of this gateway itself is passed on by none.
        let for_us = passage.is_none() && is_about(source, target);
        if !for_us {
            net.check_incoming(side.0, source, target)?;
        }
        let resumed = passage.is_some_and(|passage| passage.received.is_some());
        let next = if for_us { None } else { net.next_hop(side.0, target.ip()) };
        // A resumed flow was admitted before. Its other edge can verify that; a relay cannot, and defers what exceeds the rate.
        if (!resumed || next.is_some()) && !self.arrivals.admit(now, side.0.0) {
            return Err(if resumed { Reason::Restarted } else { Reason::NoRoom }.into());
        }
        // If the table has no route, or leads back, a flow is not for us, unless it is known here.
        let known = passage.is_some_and(|passage| self.is_known_here(&passage.token));
        if next.is_some() || !for_us && !known && !net.ends_here(target.ip()) {
            return Ok(Some(Asked { source, target, passage, failed: 0 }));
        }
        let across = passage
            .filter(|passage| passage.hops > 0 || passage.choice || passage.attempt > 0 || passage.seal.is_some());
        if let Some(passage) = across {
            if let Some(id) = self.table.id_of_token(&passage.token) {
                // Anyone who knows the token can ask: that says nothing of the way, so no relay is to shun the next hop for it.
                if !self.table.edge(id).is_some_and(|edge| edge.takes(&passage)) {
                    self.counters.dropped_stale_opens += 1;
                    return Err(Reason::Complete.into());
                }
                if !self.is_resumed_by_edge(id, &passage) {
                    return Err(Reason::Complete.into());
                }
                self.take_up(net, now, id, side, passage);
                return Ok(None);
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
        let mut seal = self.agree_on_keys(net, (now, side.0), &Around { token, source, target }, across.as_ref())?;
        let edge = across.map(|passage| {
            let mut edge = Edge::new(passage.token, Role::Answerer);
            edge.attempt = passage.attempt;
            edge.relays = Some(passage.hops);
            edge.seal = seal.take();
            Box::new(edge)
        });
        let flow = self.table.insert(side.0, side.1, edge);
        net.peers.tell(GatewayEvent::Incoming { flow, peer: side.0, source, target });
        Ok(None)
    }

    /// Whether this is the answering edge of a flow, or was.
    fn is_known_here(&mut self, token: &[u8; 16]) -> bool {
        let answers = |edge: &mut Edge| matches!(edge.role, Role::Answerer);
        let flow = self.table.id_of_token(token);
        flow.is_some_and(|id| self.table.edge(id).is_some_and(answers)) || self.ended.find(token).is_some()
    }

    /// The opening edge asks for a flow that we have: the way was lost, perhaps before we noticed.
    fn take_up(&mut self, net: &mut Net, now: Instant, id: FlowId, side: Side, passage: Passage) {
        self.counters.resumed += 1;
        self.table.loser(id).into_iter().for_each(|peer| net.peers.touch(peer));
        if let Some((peer, name)) = self.table.attach(&mut net.peers, id, side) {
            // Nothing failed on that way, so no relay of it is to shun another. If the opening edge still waits there, it asks again.
            net.peers.blocks(peer).reset(name, Reason::Complete);
            net.peers.touch(peer);
        }
        let from = passage.received.unwrap_or(0);
        let with_keys = matches!(passage.seal, Some(Seal::Keys(_)));
        match self.with_edge(id, |edge| {
            edge.attempt = passage.attempt;
            edge.relays = Some(passage.hops);
            edge.asked_at = now;
            edge.way_rtt = None;
            (edge.accepted, edge.start_from(from), edge.answered(with_keys))
        }) {
            Some((true, true, answered)) => {
                net.peers.blocks(side.0).accept(now, side.1, Some(answered));
                self.resumed(net, now, id, side);
            }
            // Our own application has not answered yet.
            Some((false, true, _)) => {}
            Some((_, false, _)) => {
                net.peers.blocks(side.0).refuse(now, side.1, Reason::Aborted, None);
                self.end(net, id, Reason::Aborted, true);
            }
            None => {}
        }
    }

    /// The far application answered, or the other edge resumed the flow.
    fn accepted(&mut self, net: &mut Net, now: Instant, id: FlowId, side: Side, answered: Option<Answered>) {
        let must_seal = net.peers.config().seal;
        // A node that claims to be the other edge without its key is not.
        let honest = |edge: &mut Edge| answered.map_or(!edge.is_sealed(), |answered| edge.take_answer(answered));
        if self.with_edge(id, honest) == Some(false) {
            return self.distrust(net, now, id, Deceit::Word);
        }
        let Some((sealed, role)) = self.table.edge(id).map(|edge| (edge.is_sealed(), edge.role)) else {
            return net.peers.tell(GatewayEvent::Accepted(id));
        };
        // An answer for a flow that no relay carries needs no seal: the flow was asked for again.
        if let (true, false, Some(_), Role::Opener { target, peer, .. }) = (must_seal, sealed, answered, role)
            && net.peers.config().peers.get(peer.0).map(|peer| peer.public_key)
                != net.peers.config().egress_key(target.ip())
        {
            self.counters.refused_seals += 1;
            net.peers.tell(GatewayEvent::Notice { peer: Some(peer), text: unsealed_notice(target) });
            return self.abandon(net, id, Reason::Prohibited);
        }
        let Some(edge) = self.table.edge(id) else { return };
        let first = !core::mem::replace(&mut edge.accepted, true);
        let Some(received) = answered.map(|answered| answered.received) else {
            if !first {
                return self.abandon(net, id, Reason::Aborted);
            }
            edge.direct = true;
            if edge.awaiting {
                // It was reopened before it was answered: bytes written earlier are sent first.
                edge.start_from(0);
            }
            [GatewayEvent::Accepted(id), GatewayEvent::Readable(id)]
                .into_iter()
                .for_each(|event| net.peers.tell(event));
            return self.replay(net, now, id);
        };
        if first {
            self.watch_vtx(net, now, id);
            // Octets may have overtaken the answer.
            [GatewayEvent::Accepted(id), GatewayEvent::Readable(id)]
                .into_iter()
                .for_each(|event| net.peers.tell(event));
        }
        let Some(edge) = self.table.edge(id) else { return };
        let anew = edge.awaiting;
        edge.way_rtt = anew.then(|| now.since(edge.asked_at));
        let fits = if anew { self.with_edge(id, |edge| edge.start_from(received)) } else { Some(received == 0) };
        if fits != Some(true) {
            return self.abandon(net, id, Reason::Aborted);
        }
        if anew {
            self.resumed(net, now, id, side);
        } else if self.is_sealed(id) {
            // Without keys nothing could be written, nor the end be sent.
            self.replay(net, now, id);
        }
    }

    /// The other edge reports how far its application has read.
    fn progressed(&mut self, net: &mut Net, now: Instant, id: FlowId, reach: Reach, word: Option<Word>) {
        let Some(edge) = self.table.edge(id) else { return };
        let before = edge.kept_on_way();
        match edge.hear(reach, word) {
            Heard::News => {}
            Heard::Old => return,
            Heard::Forged => return self.distrust(net, now, id, Deceit::Word),
        }
        if self.with_edge(id, |edge| edge.acknowledge(reach.received)) == Some(false) {
            return self.abandon(net, id, Reason::Aborted);
        }
        self.answer_end(net, now, id);
        if let Some(edge) = self.table.edge(id) {
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
                self.watch_anew(net, now, id);
            }
        }
        self.wake_writer(net, id);
    }

    /// Both applications have everything: the answering edge says so once it knows, so that the opening edge, which alone can
    /// ask for a flow again, outlasts every word that the other one lacks.
    fn answer_end(&mut self, net: &mut Net, now: Instant, id: FlowId) {
        let Some((peer, name)) = self.table.find(id) else { return };
        let Some(edge) = self.table.edge(id) else { return };
        if matches!(edge.role, Role::Answerer) && edge.reach.finished && edge.other_finished {
            let said = edge.say_reach();
            net.peers.blocks(peer).say_progress(now, name, said, true);
            net.peers.touch(peer);
        }
    }

    /// The answering edge remembers the flow as ended well, and says so by a word if the flow is sealed. Without an account of the
    /// end it was asked by another way.
    fn ended_there(&mut self, net: &mut Net, now: Instant, id: FlowId, ended: Option<Answered>) {
        let proven = self.table.edge(id).is_none_or(|edge| !edge.is_sealed() || edge.hear_end(ended));
        match self.table.edge(id).is_some() && ended.is_none() {
            _ if !proven => self.distrust(net, now, id, Deceit::Word),
            true => self.ask_after(net, now, id),
            false => self.lost(net, now, id, Reason::Complete),
        }
    }

    /// A new way is established: sends what the other edge lacks and reports what we have.
    fn resumed(&mut self, net: &mut Net, now: Instant, id: FlowId, side: Side) {
        if let Some(edge) = self.table.edge(id) {
            edge.watch.progress(now);
            let said = edge.say_reach();
            net.peers.blocks(side.0).say_progress(now, side.1, said, true);
        }
        self.watch_anew(net, now, id);
        self.replay(net, now, id);
        // The owner's view of the lost way's bytes is void.
        net.peers.tell(GatewayEvent::Readable(id));
    }

    /// Hands kept bytes to the current way as far as there is room, then the end, then wakes the writer.
    fn replay(&mut self, net: &mut Net, now: Instant, id: FlowId) {
        let Some((peer, name)) = self.table.find(id) else { return };
        let Some(edge) = self.table.edge(id) else { return };
        // Without keys not even the end can be sent.
        if edge.awaiting || !edge.can_seal() {
            return;
        }
        let hop = net.peers.blocks(peer);
        while edge.is_replaying() {
            let chunk = edge.next_replay(usize::MAX);
            let taken = hop.write(now, name, chunk);
            edge.replayed(taken);
            if taken == 0 {
                net.peers.touch(peer);
                return;
            }
        }
        if edge.ended {
            hop.shutdown(now, name);
        }
        net.peers.touch(peer);
        self.watch_vtx(net, now, id);
        self.wake_writer(net, id);
        let direct = self.table.edge(id).is_some_and(|edge| edge.direct);
        if let Some(edge) = direct.then(|| self.table.drop_edge(id)).flatten() {
            self.recount((edge.charged, edge.kept()), (None, 0));
        }
    }

    fn wake_writer(&mut self, net: &mut Net, id: FlowId) {
        let share = self.share_kept(id);
        if self.table.edge(id).is_some_and(|edge| edge.wakes_writer(share)) {
            net.peers.tell(GatewayEvent::Writable(id));
        }
    }

    fn finish_reading(&mut self, net: &mut Net, now: Instant, (peer, name): Side) {
        let hop = net.peers.blocks(peer);
        while let ReadOutcome::Data(_) = hop.read(now, name, &mut [0; 64]) {}
        net.peers.touch(peer);
    }

    /// The flow ended well.
    fn closed(&mut self, net: &mut Net, id: FlowId) {
        self.remember_ended(id, true);
        self.forget(net, id);
        net.peers.tell(GatewayEvent::Closed(id));
    }

    /// The flow ends abnormally, unless both applications have everything.
    fn end(&mut self, net: &mut Net, id: FlowId, reason: Reason, accepted: bool) {
        if self.table.edge(id).is_some_and(|edge| edge.is_over()) {
            return self.closed(net, id);
        }
        let opening = self.table.edge(id).is_some_and(|edge| edge.opener_peer().is_some()) && !accepted;
        self.remember_ended(id, false);
        self.forget(net, id);
        net.peers.tell(if opening { GatewayEvent::Refused(id, reason) } else { GatewayEvent::Reset(id, reason) });
    }

    /// The other edge sent an impossible value: the flow ends on both sides.
    fn abandon(&mut self, net: &mut Net, id: FlowId, reason: Reason) {
        if let Some((peer, name)) = self.table.find(id) {
            net.peers.blocks(peer).reset(name, reason);
            net.peers.touch(peer);
        }
        self.end(net, id, reason, true);
    }
}

/// What tests look at and change.
#[cfg(test)]
impl Flows {
    pub(crate) fn arrivals(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }
    pub(crate) fn edge(&mut self, id: FlowId) -> Option<&mut Edge> {
        self.table.edge(id)
    }
    pub(crate) fn find(&self, id: FlowId) -> Option<Side> {
        self.table.find(id)
    }
    pub(crate) fn of_peer(&self, peer: PeerId) -> Vec<FlowId> {
        self.table.of_peer(peer).into_iter().map(|(id, _)| id).collect()
    }
    pub(crate) fn insert(&mut self, (peer, name): Side, edge: Edge) -> FlowId {
        self.table.insert(peer, name, Some(Box::new(edge)))
    }
    pub(crate) fn is_remembered(&self, token: &[u8; 16]) -> bool {
        self.ended.find(token).is_some()
    }
    pub(crate) fn end_well(&mut self, token: [u8; 16], end: Answered) {
        self.ended.insert(token, Some(end));
    }
    pub(crate) fn kept_for(&self, peer: PeerId) -> (u64, u64) {
        (self.kept, self.keeping.held(peer.0))
    }
}

/// What tests name.
#[cfg(test)]
pub(crate) mod in_tests {
    pub(crate) use super::edge::{Edge, Role};
    pub(crate) use super::sealed::Sealing;
}
