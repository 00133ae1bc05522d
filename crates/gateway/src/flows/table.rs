//! The flow table: the owner's ids of flows, and the link that carries each.

use super::edge::{Edge, Role};
use crate::PeerId;
use crate::neighbours::{Neighbours, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wavelane_base::{FlowId, Instant};
use wavelane_wire::frame::FlowName;

/// A flow of the owner's.
#[derive(Debug)]
pub(super) struct Entry {
    /// The link that carries it and its name there; none while no way to the other edge is known.
    pub(super) at: Option<Side>,
    /// The state needed to survive the loss of a relay; none if the neighbour is the other edge.
    pub(super) edge: Option<Box<Edge>>,
    /// The peer whose link carried it, while no way to the other edge is known.
    lost_by: Option<PeerId>,
}

/// Ids to names and back. Bounded by the links' own flow limits and, for flows without a link, by the share of the peer that
/// carried them ([`Neighbours::may_lose_no_more`]).
#[derive(Debug, Default)]
pub(super) struct FlowTable {
    by_id: BTreeMap<FlowId, Entry>,
    by_name: BTreeMap<Side, FlowId>,
    by_token: BTreeMap<[u8; 16], FlowId>,
    /// When flows without a link are given up, or retried.
    deadlines: BTreeSet<(Instant, FlowId)>,
    next: u64,
}

impl FlowTable {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
    /// Names a new flow. Ids are never reused.
    pub(super) fn insert(&mut self, peer: PeerId, name: FlowName, edge: Option<Box<Edge>>) -> FlowId {
        let id = FlowId(self.next);
        self.next += 1;
        if let Some(edge) = &edge {
            self.by_token.insert(edge.token, id);
        }
        self.by_id.insert(id, Entry { at: Some((peer, name)), edge, lost_by: None });
        self.by_name.insert((peer, name), id);
        id
    }
    /// The link that carries a flow now.
    pub(super) fn find(&self, id: FlowId) -> Option<Side> {
        self.by_id.get(&id)?.at
    }
    pub(super) fn id(&self, peer: PeerId, name: FlowName) -> Option<FlowId> {
        self.by_name.get(&(peer, name)).copied()
    }
    /// The flows that one peer carries, or that were opened through it and have no link now.
    pub(super) fn of_peer(&self, peer: PeerId) -> Vec<(FlowId, Option<FlowName>)> {
        let own = |entry: &Entry| match entry.at {
            Some((carrier, name)) => (carrier == peer).then_some(Some(name)),
            None => entry.edge.as_ref().is_some_and(|e| e.opener_peer() == Some(peer)).then_some(None),
        };
        self.by_id.iter().filter_map(|(id, entry)| Some((*id, own(entry)?))).collect()
    }
    /// The flows opened here that can be reopened, with what carries them.
    pub(super) fn opened_here(&self) -> Vec<(FlowId, Side)> {
        let opener = |entry: &Entry| entry.edge.as_ref().is_some_and(|edge| edge.opener_peer().is_some());
        self.by_id.iter().filter(|(_, entry)| opener(entry)).filter_map(|(id, entry)| Some((*id, entry.at?))).collect()
    }
    /// The flows opened here whose way is lost, and their targets.
    pub(super) fn waiting_here(&self) -> Vec<(FlowId, SocketAddr)> {
        let target = |id: &FlowId| match self.by_id.get(id)?.edge.as_deref()?.role {
            Role::Opener { target, routed: true, .. } => Some((*id, target)),
            _ => None,
        };
        self.deadlines.iter().filter_map(|(_, id)| target(id)).collect()
    }
    /// Renumbers peers; every flow's peer has a new number.
    pub(super) fn rename_peers(&mut self, new_id: impl Fn(PeerId) -> Option<PeerId>) {
        self.by_name.clear();
        for (id, entry) in &mut self.by_id {
            entry.lost_by = entry.lost_by.and_then(&new_id);
            entry.at = entry.at.and_then(|(peer, name)| Some((new_id(peer)?, name)));
            self.by_name.extend(entry.at.map(|at| (at, *id)));
            if let Some(edge) = &mut entry.edge {
                edge.rename_peer(&new_id);
            }
        }
    }
    pub(super) fn id_of_token(&self, token: &[u8; 16]) -> Option<FlowId> {
        self.by_token.get(token).copied()
    }
    pub(super) fn look(&self, id: FlowId) -> Option<&Entry> {
        self.by_id.get(&id)
    }
    pub(super) fn edge(&mut self, id: FlowId) -> Option<&mut Edge> {
        self.by_id.get_mut(&id)?.edge.as_deref_mut()
    }
    pub(super) fn look_at_edge(&self, id: FlowId) -> Option<&Edge> {
        self.by_id.get(&id)?.edge.as_deref()
    }
    /// The neighbour turned out to be the other edge: the edge state is dropped.
    pub(super) fn drop_edge(&mut self, id: FlowId) -> Option<Box<Edge>> {
        let edge = self.by_id.get_mut(&id)?.edge.take()?;
        self.by_token.remove(&edge.token);
        Some(edge)
    }
    /// The flow uses that link from now on; returns the previous one.
    pub(super) fn attach(&mut self, peers: &mut Neighbours, id: FlowId, at: Side) -> Option<Side> {
        let before = self.detach(peers, id, None);
        self.by_id.get_mut(&id)?.at = Some(at);
        self.by_name.insert(at, id);
        before
    }
    /// No link carries the flow now; at `until` it is given up, or retried.
    pub(super) fn detach(&mut self, peers: &mut Neighbours, id: FlowId, until: Option<Instant>) -> Option<Side> {
        let entry = self.by_id.get_mut(&id)?;
        let before = entry.at.take();
        if let Some(at) = before {
            self.by_name.remove(&at);
        }
        let loser = entry.lost_by.take();
        if let Some(peer) = loser {
            *peers.lost_flows(peer) -= 1;
        }
        if let (Some(peer), Some(_)) = (before.map(|(peer, _)| peer).or(loser), until) {
            entry.lost_by = Some(peer);
            *peers.lost_flows(peer) += 1;
        }
        if let Some(edge) = &mut entry.edge {
            if let Some(old) = core::mem::replace(&mut edge.give_up_at, until) {
                self.deadlines.remove(&(old, id));
            }
            self.deadlines.extend(until.map(|at| (at, id)));
        }
        before
    }
    /// Forgets a flow.
    pub(super) fn remove(&mut self, peers: &mut Neighbours, id: FlowId) -> Option<Entry> {
        self.detach(peers, id, None);
        let entry = self.by_id.remove(&id)?;
        if let Some(edge) = &entry.edge {
            self.by_token.remove(&edge.token);
        }
        Some(entry)
    }
    /// The first flow to be given up or retried, and when.
    pub(super) fn first_deadline(&self) -> Option<(Instant, FlowId)> {
        self.deadlines.first().copied()
    }
    /// Flows that no link carries now.
    pub(super) fn detached(&self) -> usize {
        self.deadlines.len()
    }
    /// The peer that carried a flow that no link carries now.
    pub(super) fn loser(&self, id: FlowId) -> Option<PeerId> {
        self.by_id.get(&id)?.lost_by
    }
    /// The peer that carries a flow, or did last.
    pub(super) fn keeper(&self, id: FlowId) -> Option<PeerId> {
        let entry = self.by_id.get(&id)?;
        let carrier = entry.at.map(|(peer, _)| peer).or(entry.lost_by);
        carrier.or_else(|| entry.edge.as_ref()?.opener_peer())
    }
    /// All flows with the state to survive the loss of a relay.
    pub(super) fn with_edges(&self) -> Vec<FlowId> {
        self.by_id.iter().filter(|(_, entry)| entry.edge.is_some()).map(|(id, _)| *id).collect()
    }
}
