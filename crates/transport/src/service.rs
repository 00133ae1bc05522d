//! What a link and the services that it carries know of each other.

use crate::RepairBudget;
use core::fmt::Debug;
use wavelane_base::{Class, Instant, Octets, Rate, Span, Wakeup};
use wavelane_wire::Writer;
use wavelane_wire::frame::Frame;

/// What a link carries. The link says when a datagram may leave, how long it may be and how urgent what it takes has to be;
/// the service says what that is, and hears what became of it.
pub trait Service: Debug {
    /// What one datagram carried of this service, which the link keeps until its fate is known.
    type Load: Debug + Default;

    /// The class of the most urgent thing that waits. Less urgent ones may wait as well.
    fn wants(&self, now: Instant) -> Option<Class>;

    /// Whether a small exchange waits, behind what is more urgent or not.
    fn micro_waits(&self, now: Instant) -> bool;

    /// Fills the rest of a datagram. Returns whether [`Carries::Media`] were among what was written. All that is written
    /// asks for a lane ack; what is written may reach to the datagram's end, so that nothing is appended after it.
    fn fill(&mut self, now: Instant, fill: &mut Fill<'_, '_, Self::Load>) -> bool;

    /// Which part of what waits the next datagram takes, where symbols help and it may carry `class`.
    fn carries(&mut self, now: Instant, class: Class, budget: &mut RepairBudget) -> Carries;

    /// What leads the bulk that leaves next. `None` if symbols are not to take room from it.
    fn next_bulk(&mut self, now: Instant) -> Option<NextBulk>;

    /// Whether acks may wait for the next datagram with data.
    fn lets_acks_wait(&self) -> bool;

    /// A datagram arrived that carried `load`.
    fn delivered(&mut self, now: Instant, load: Self::Load);

    /// A datagram that carried `load` is taken for lost.
    fn lost(&mut self, now: Instant, load: Self::Load);

    /// No ack came although one is overdue: what has been on the way longest is repeated, as if it were lost.
    fn doubt_oldest(&mut self);

    /// A datagram leaves anyway on a thin way: what else is to be told before long goes along. Whether that is anything.
    fn hasten(&mut self) -> bool;

    /// What the lanes know of their paths, the one that carries most first. Never empty.
    fn set_paths(&mut self, paths: &[PathView]);

    /// A frame came from the neighbour that is not the link's own. Returns whether it was traffic of a flow or a packet.
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) -> bool;

    /// An authenticated datagram came from the neighbour.
    fn heard(&mut self);

    /// The neighbour came back without its memory.
    fn restart(&mut self, now: Instant);

    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// The next deadline. What only sends may wait while nothing can be sent.
    fn poll_timeout(&self, can_send: bool) -> Option<Wakeup>;
}

/// A datagram that a service fills.
#[derive(Debug)]
pub struct Fill<'a, 'w, L> {
    /// The least urgent class that may leave now.
    pub class: Class,
    /// Which part of what waits.
    pub carries: Carries,
    /// Room of a whole datagram.
    pub full: usize,
    /// Where frames are appended.
    pub w: &'a mut Writer<'w>,
    /// What was written.
    pub load: &'a mut L,
    /// The link's account: first sendings pay in, repeats and copies are taken out.
    pub budget: &'a mut RepairBudget,
}

/// Which packets a datagram takes. What cannot wait for a repeat has datagrams of its own where symbols cover it, so that a
/// symbol is no longer than it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carries {
    /// Any.
    All,
    /// Those that cannot wait for a repeat.
    Media,
    /// The others.
    Others,
}

/// What leads the bulk that leaves next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextBulk {
    /// The last bytes for a while: no later ones will show that they were lost.
    End,
    /// Bytes that were lost before: what lies behind them has waited for a round trip already.
    Repeat,
    /// Bytes in mid-flow.
    First,
}

/// What a lane knows of the way to the neighbour, as services see it. Sizes copies, blocks, credit and send buffers; pacing
/// and congestion are the lanes' business.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathView {
    /// The lane's number.
    pub lane: u8,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Its variation.
    pub rtt_var: Span,
    /// The controller's rate.
    pub rate: Rate,
    /// Longest time the neighbour keeps an ack back.
    pub ack_delay: Span,
    /// How far apart the neighbour wishes to hear from us, by the lanes that carry what we say of what it sends.
    pub told_apart: Span,
    /// Serialisation of one full packet.
    pub packet_time: Span,
    /// Largest packet of the medium that it is known to carry.
    pub path_mtu: usize,
    /// What the controller lets be in flight.
    pub window: Octets,
    /// Share of packets lost recently in the worse direction, 0 to 1.
    pub loss: f64,
    /// The same of our direction alone, once enough of our packets have a known fate.
    pub loss_outward: f64,
    /// How long the channel stays bad when it is bad, if that is known; copies are spaced past it.
    pub burst: Option<Span>,
    /// How long after a loss is known repair symbols may still bring back what cannot wait for a repeat.
    pub symbols: Span,
}

impl Default for PathView {
    fn default() -> Self {
        Self {
            lane: 0,
            rtt: Span::from_millis(100),
            rtt_var: Span::ZERO,
            rate: Rate::from_bps(1_000_000),
            ack_delay: Span::ZERO,
            told_apart: Span::ZERO,
            packet_time: Span::ZERO,
            path_mtu: 0,
            window: Octets::ZERO,
            loss: 0.0,
            loss_outward: 0.0,
            burst: None,
            symbols: Span::ZERO,
        }
    }
}
