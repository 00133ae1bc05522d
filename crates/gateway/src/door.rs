//! A gateway as the far side of a door: its flows over links, and what it reports of them.

use super::{Gateway, GatewayEvent, OpenError, PeerId, Reason};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{FlowId, Instant};
use wavelane_door::{FarSide, FlowEvent, Flows, NotOpened};

impl Flows for Gateway {
    fn room(&mut self, now: Instant, flow: FlowId) -> usize {
        let room = self.flows.room(&mut self.net, now, flow);
        self.settle(now);
        room
    }
    fn unread(&mut self, now: Instant, flow: FlowId) -> (&[u8], &[u8]) {
        if self.flows.is_sealed(flow) {
            self.open_next(now, flow);
            return (self.flows.opened(flow), &[]);
        }
        self.flows.unread(&mut self.net, flow)
    }
    fn consume(&mut self, now: Instant, flow: FlowId, octets: usize) {
        self.flows.consume(&mut self.net, now, flow, octets);
        self.settle(now);
    }
}

impl FarSide for Gateway {
    type Way = PeerId;
    fn towards(&self, now: Instant, target: IpAddr) -> Option<PeerId> {
        self.peer_towards(now, target)
    }
    fn open(&mut self, now: Instant, way: PeerId, source: SocketAddr, target: SocketAddr) -> Result<FlowId, NotOpened> {
        Gateway::open(self, now, way, source, target).map_err(|why| match why {
            OpenError::NoWay(_) => NotOpened::NoWay,
            OpenError::TableFull(_) | OpenError::UnknownPeer => NotOpened::NoRoom,
        })
    }
    fn accept(&mut self, now: Instant, flow: FlowId) {
        Gateway::accept(self, now, flow);
    }
    fn refuse(&mut self, now: Instant, flow: FlowId, why: Reason) {
        Gateway::refuse(self, now, flow, why);
    }
    fn is_silent(&self, flow: FlowId) -> bool {
        self.flows.is_silent(&self.net, flow)
    }
}

impl GatewayEvent {
    /// What it tells a door, if it is about a flow.
    pub fn of_flow(&self) -> Option<FlowEvent> {
        Some(match *self {
            Self::Incoming { flow, source, target, .. } => FlowEvent::Incoming { flow, source, target },
            Self::Accepted(flow) => FlowEvent::Accepted(flow),
            Self::Refused(flow, why) => FlowEvent::Refused(flow, why),
            Self::Ending(flow) => FlowEvent::Ending(flow),
            Self::Readable(flow) => FlowEvent::Readable(flow),
            Self::Writable(flow) => FlowEvent::Writable(flow),
            Self::Reset(flow, why) => FlowEvent::Reset(flow, why),
            Self::Closed(flow) => FlowEvent::Closed(flow),
            _ => return None,
        })
    }
}

#[cfg(test)]
#[path = "door_tests.rs"]
mod tests;
