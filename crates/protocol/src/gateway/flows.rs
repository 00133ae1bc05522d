//! The flow table: the owner's names for flows, and which link carries which.

use super::PeerId;
use std::collections::BTreeMap;
use wavelane_base::FlowId;
use wavelane_wire::frame::FlowName;

/// Both directions of the naming. Bounded by the links' own flow limits: an entry exists only while its link knows
/// the flow.
#[derive(Debug, Default)]
pub(super) struct FlowTable {
    by_id: BTreeMap<FlowId, (PeerId, FlowName)>,
    by_name: BTreeMap<(PeerId, FlowName), FlowId>,
    next: u64,
}

impl FlowTable {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
    /// Names a new flow. Ids are never reused.
    pub(super) fn insert(&mut self, peer: PeerId, name: FlowName) -> FlowId {
        let id = FlowId(self.next);
        self.next += 1;
        self.by_id.insert(id, (peer, name));
        self.by_name.insert((peer, name), id);
        id
    }
    pub(super) fn find(&self, id: FlowId) -> Option<(PeerId, FlowName)> {
        self.by_id.get(&id).copied()
    }
    pub(super) fn id(&self, peer: PeerId, name: FlowName) -> Option<FlowId> {
        self.by_name.get(&(peer, name)).copied()
    }
    /// The flows of one peer.
    pub(super) fn of_peer(&self, peer: PeerId) -> Vec<(FlowId, FlowName)> {
        self.by_id.iter().filter(|(_, (p, _))| *p == peer).map(|(id, (_, name))| (*id, *name)).collect()
    }
    /// Peers have other numbers now; flows of peers without one are forgotten.
    pub(super) fn rename_peers(&mut self, new_id: impl Fn(PeerId) -> Option<PeerId>) {
        let before = core::mem::take(&mut self.by_id);
        let kept = before.into_iter().filter_map(|(id, (peer, name))| Some((id, (new_id(peer)?, name))));
        self.by_id = kept.collect();
        self.by_name = self.by_id.iter().map(|(id, (peer, name))| ((*peer, *name), *id)).collect();
    }
    /// Forgets a flow and returns the id it had.
    pub(super) fn remove(&mut self, peer: PeerId, name: FlowName) -> Option<FlowId> {
        let id = self.by_name.remove(&(peer, name))?;
        self.by_id.remove(&id);
        Some(id)
    }
}
