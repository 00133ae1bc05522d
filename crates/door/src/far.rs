//! What the door asks of the far side: a gateway's flows over its links, or the [`crate::Pair`] of this very machine.

use std::net::{IpAddr, SocketAddr};
use wavelane_base::{FlowId, Instant, Streams};
use wavelane_wire::frame::Reason;

/// Access to a flow's bytes in place, besides the copying calls.
pub trait Flows: Streams {
    /// How many bytes `write` would take now; with none a [`FlowEvent::Writable`] follows.
    fn room(&mut self, now: Instant, flow: FlowId) -> usize;
    /// What `read` would return, in two parts.
    fn unread(&mut self, now: Instant, flow: FlowId) -> (&[u8], &[u8]);
    /// Marks the first `octets` of it as read.
    fn consume(&mut self, now: Instant, flow: FlowId, octets: usize);
}

/// Who opens flows for the door, and asks it for connections. It reports by [`FlowEvent`].
pub trait FarSide: Flows {
    /// What a flow is opened by: a peer, for a gateway.
    type Way: Copy;
    /// The way towards a target, if there is any.
    fn towards(&self, now: Instant, target: IpAddr) -> Option<Self::Way>;
    /// Asks for a flow; [`FlowEvent::Accepted`] or [`FlowEvent::Refused`] follows.
    fn open(
        &mut self,
        now: Instant,
        way: Self::Way,
        source: SocketAddr,
        target: SocketAddr,
    ) -> Result<FlowId, NotOpened>;
    /// The server of a [`FlowEvent::Incoming`] has answered.
    fn accept(&mut self, now: Instant, flow: FlowId);
    /// The server of a [`FlowEvent::Incoming`] cannot be reached, and why.
    fn refuse(&mut self, now: Instant, flow: FlowId, why: Reason);
    /// Whether nothing is known of the flow's other end at present.
    fn is_silent(&self, flow: FlowId) -> bool;
}

/// Why a flow could not even be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotOpened {
    /// There are too many.
    NoRoom,
    /// There is no way to the target.
    NoWay,
}

/// What the far side reports of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEvent {
    /// It wants a connection to `target`.
    Incoming {
        /// The flow.
        flow: FlowId,
        /// The application's address at the far side.
        source: SocketAddr,
        /// The server's.
        target: SocketAddr,
    },
    /// The far server has answered.
    Accepted(FlowId),
    /// It was not opened.
    Refused(FlowId, Reason),
    /// It was reset, after bytes that are still unread; [`FlowEvent::Reset`] follows once they are read.
    Ending(FlowId),
    /// There are bytes, an end or a reset to read.
    Readable(FlowId),
    /// There is room again.
    Writable(FlowId),
    /// It was reset.
    Reset(FlowId, Reason),
    /// Both directions ended in order, end to end.
    Closed(FlowId),
}

impl FlowEvent {
    /// Which flow it is about.
    pub fn flow(&self) -> FlowId {
        match *self {
            Self::Incoming { flow, .. }
            | Self::Accepted(flow)
            | Self::Refused(flow, _)
            | Self::Ending(flow)
            | Self::Readable(flow)
            | Self::Writable(flow)
            | Self::Reset(flow, _)
            | Self::Closed(flow) => flow,
        }
    }
}
