//! Frames between machines and ports.

use crate::{Address, Instant};
use std::net::IpAddr;

/// One place where frames enter and leave a node. The node's owner numbers them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PortId(pub u16);

/// The ECN field of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(1), also the L4S identifier (RFC 9331).
    Ect1,
    /// ECT(0).
    Ect0,
    /// Congestion experienced.
    Ce,
}

/// How urgent a frame is. Order is service order: earlier is served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Class {
    /// Handshakes, acknowledgements, credit.
    Control,
    /// Small, latency-bound exchanges.
    Micro,
    /// Everything else.
    #[default]
    Bulk,
}

/// Metadata of a received frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameMeta {
    /// When the frame arrived at the port, on this node's clock; not later than `now`.
    pub rx_time: Instant,
    /// The ECN mark it carried.
    pub ecn: Ecn,
    /// If the buffer holds several frames of equal size (GRO), that size; the last may be shorter.
    pub segment: Option<u16>,
    /// Who sent it, on carriers that say so.
    pub from: Option<Address>,
    /// Which of this node's addresses it was sent to, on carriers that say so.
    pub at: Option<IpAddr>,
    /// Hash of the flow it belongs to, for queues that tell flows apart; set by the caller that reads headers; 0 is unknown.
    pub flow: u64,
    /// Hashes of its source and its destination, for queues in which hosts share; 0 is unknown.
    pub hosts: (u64, u64),
    /// Its differentiated-services code point (RFC 2474), for queues that sort by it.
    pub dscp: u8,
}

/// A frame, or a batch of equal-size frames, that a machine wrote into the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transmit {
    /// Bytes written.
    pub len: usize,
    /// If the buffer holds several frames (GSO), the size of each but the last, which may be shorter.
    pub segment_size: Option<u16>,
    /// Destination, on carriers that need an address.
    pub to: Option<Address>,
    /// Source, one of this node's addresses; `None` leaves it to the system.
    pub from: Option<IpAddr>,
    /// Service class.
    pub class: Class,
    /// The ECN mark to send with.
    pub ecn: Ecn,
    /// Radio ports: ask for no link-layer acknowledgement.
    pub no_ack: bool,
    /// Radio ports: an acknowledgement after all if it is the first of a burst, an RTS before an aggregate.
    pub guarded: bool,
    /// Radio ports: this batch may be sent in one transmit opportunity.
    pub txop: bool,
}
