//! Whose turn it is: rings of flows with something to send.

use super::table::list;
use std::collections::BTreeSet;
use std::ops::Bound;
use wavelane_wire::frame::FlowName;

/// Bytes a bulk flow may send per turn; larger than any datagram.
pub(super) const QUANTUM: i64 = 9_216;
/// Micro bytes that may precede waiting bulk before bulk has its turn; from then on they alternate.
pub(super) const MICRO_RUN_MAX: u64 = 16 << 10;

/// Flows with something to send, served in a circle.
#[derive(Debug, Default)]
pub(super) struct Ring {
    members: BTreeSet<FlowName>,
    current: Option<FlowName>,
}

impl Ring {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
    /// Puts a flow in or takes it out; `listed` is whether it is in it.
    pub(super) fn list(&mut self, name: FlowName, listed: &mut bool, belongs: bool) {
        list(name, &mut self.members, listed, belongs);
    }
    /// The flow whose turn it is; if it left, the next one.
    pub(super) fn current(&mut self) -> Option<FlowName> {
        let next = match self.current {
            Some(name) if self.members.contains(&name) => Some(name),
            Some(name) => self.after(name),
            None => self.members.first().copied(),
        };
        if next.is_some() {
            self.current = next;
        }
        next
    }
    /// The turn passes on.
    pub(super) fn advance(&mut self) {
        self.current = self.current.and_then(|name| self.after(name));
    }
    fn after(&self, name: FlowName) -> Option<FlowName> {
        let beyond = (Bound::Excluded(name), Bound::Unbounded);
        self.members.range(beyond).next().or_else(|| self.members.first()).copied()
    }
}
