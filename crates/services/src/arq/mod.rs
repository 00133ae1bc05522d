//! Per-packet ARQ (automatic repeat request) on one link: packet numbers, copies kept until their fate is known, retransmission
//! on evidence, reassembly, and order kept per flow for a bounded time.
//!
//! The lane tells [`Sender`] the fate of every datagram; ARQ has no receipts of its own. [`Receiver`] needs only the frames.
//! `docs/protocol/packets.md` is the prose twin.

mod abandoned;
mod headers;
mod keep;
mod receiver;
mod repeats;
mod seen;
mod sender;
mod terms;

#[cfg(test)]
mod tests;

pub use receiver::{Receiver, ReceiverCounters, ReceiverLimits};
pub use sender::{Datagram, Sender, SenderCounters, Wrote, flow_place};
pub use terms::Times;

/// How a class of packets is protected against loss. A closed list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Repair {
    /// Sent once.
    None,
    /// Retransmitted on evidence, within the persistence.
    #[default]
    Arq,
    /// Cannot wait for a retransmission: the link's repair symbols cover it. What they do not recover is retransmitted once if
    /// not too late; never in order.
    Fec,
}

/// When a packet is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tries {
    /// On evidence from later acks, with a timer behind it.
    #[default]
    Evidence,
    /// As the acknowledgement layer between IP and TCP of 1998 had it: by a timer alone, whose gaps double from the RTT to 0.1 s; given up
    /// after a second.
    Of1998,
}

/// What ARQ must know of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Treatment {
    /// How losses are repaired.
    pub repair: Repair,
    /// With which packets it keeps order.
    pub order: Ordering,
    /// It is a pure acknowledgement, so a newer one of its flow supersedes it.
    pub only_newest: bool,
}

/// Whether a packet may be held for an earlier one of its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ordering {
    /// Never.
    #[default]
    Free,
    /// Unless its flow is sparse: then delay matters more than order.
    Dense,
    /// Always: a transport that takes reordering for loss.
    Strict,
}

/// Which bytes of which packet a datagram carried, handed back to [`Sender::delivered`] or [`Sender::lost`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    number: u64,
    start: u32,
    end: u32,
    round: u16,
    /// An additional copy of a retransmission, sent only if the budget allows.
    copy: bool,
}

impl Piece {
    fn octets(&self) -> u64 {
        u64::from(self.end - self.start)
    }
}
