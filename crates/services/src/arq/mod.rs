//! Per-packet repeat (automatic repeat request) on one link: numbers, copies kept until their fate is known, repeats
//! on evidence, pieces put together again, and order kept per flow for a bounded time.
//!
//! [`Sender`] is told by the lane what became of every datagram; a receipt of its own does not exist. [`Receiver`]
//! needs nothing but the frames. `docs/protocol/packets.md` is the prose twin.

mod abandoned;
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
    /// Repeated on evidence, within the persistence.
    #[default]
    Arq,
    /// Cannot wait for a repeat: the link's repair symbols cover it. What they do not bring back is repeated once if
    /// that is not too late; never in order.
    Fec,
}

/// What the repeat machine must know of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Treatment {
    /// How losses are met.
    pub repair: Repair,
    /// Which packets it keeps its order with.
    pub order: Ordering,
    /// It only acknowledges, so a newer one of its flow makes it worthless.
    pub only_newest: bool,
}

/// Whether a packet may be held for an earlier one of its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ordering {
    /// Never.
    #[default]
    Free,
    /// Unless its flow is sparse: too slow for the order to matter more than the delay.
    Dense,
    /// Always: a transport that takes disorder for loss.
    Strict,
}

/// Which bytes of which packet a datagram carried, handed back to [`Sender::delivered`] or [`Sender::lost`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    number: u64,
    start: u32,
    end: u32,
    round: u16,
    /// A further sending of a repeat, which goes only if the budget has something left.
    copy: bool,
}

impl Piece {
    fn octets(&self) -> u64 {
        u64::from(self.end - self.start)
    }
}
