//! The interface between a link and the services that it carries.

use crate::RepairBudget;
use core::fmt::Debug;
use wavelane_base::{Class, Instant, Octets, Rate, Span, Wakeup};
use wavelane_wire::Writer;
#[cfg(doc)]
use wavelane_wire::datagram::OPEN_LEN_LEN;
use wavelane_wire::frame::Frame;

/// The digest of octets that were left open in a datagram.
pub type Digest = [u8; wavelane_wire::datagram::DIGEST_LEN];

/// What a link carries. The link decides when a datagram may be sent, how long it may be and how urgent its content has to be; the service
/// provides the content, and is told its fate.
pub trait Service: Debug {
    /// What one datagram carried of this service; the link keeps it until the fate is known.
    type Load: Debug + Default;

    /// The class of the most urgent data that waits. Less urgent data may wait as well.
    fn wants(&self, now: Instant) -> Option<Class>;

    /// Whether bulk waits, possibly behind more urgent data.
    fn bulk(&self) -> Bulk;

    /// Whether a small exchange waits, possibly behind more urgent data.
    fn micro_waits(&self, now: Instant) -> bool;

    /// Fills the rest of a datagram. Returns whether [`Carries::Media`] were among what was written. All of it asks for a lane ack; it may
    /// reach to the datagram's end, so nothing is appended after it.
    fn fill(&mut self, now: Instant, fill: &mut Fill<'_, '_, Self::Load>) -> bool;

    /// Which part of the waiting data the next datagram takes, if symbols help and it may carry `class`.
    fn carries(&mut self, now: Instant, class: Class, budget: &mut RepairBudget) -> Carries;

    /// What the next bulk begins with. `None` if symbols should not take room from it.
    fn next_bulk(&mut self, now: Instant) -> Option<NextBulk>;

    /// Whether acks may wait for the next datagram with data.
    fn lets_acks_wait(&self) -> bool;

    /// A datagram arrived that carried `load`.
    fn delivered(&mut self, now: Instant, load: Self::Load);

    /// A datagram that carried `load` is taken for lost.
    fn lost(&mut self, now: Instant, load: Self::Load);

    /// No ack came although one is overdue: the oldest data in flight is retransmitted, as if it were lost.
    fn doubt_oldest(&mut self);

    /// A datagram is sent anyway on a thin path: other reports that are due soon go along. Returns whether there are any.
    fn hasten(&mut self) -> bool;

    /// The lanes' path states, the one with the highest rate first. Never empty.
    fn set_paths(&mut self, paths: &[PathView]);

    /// A frame from the neighbour that is not the link's own. Returns whether it was traffic of a flow or a packet.
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) -> bool;

    /// The bytes of the data frame handled last were open, so that others may have overheard them.
    fn note_open(&mut self, frame: &Frame<'_>, digest: Digest);

    /// An authenticated datagram was received from the neighbour.
    fn heard(&mut self);

    /// The neighbour asks for an answer at once: what waits to be heard goes with it.
    fn asked(&mut self, now: Instant);

    /// The neighbour restarted without its state.
    fn restart(&mut self, now: Instant);

    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// The next deadline. Deadlines that only send are left out unless `can_send`.
    fn poll_timeout(&self, can_send: bool) -> Option<Wakeup>;
}

/// What a service has of bulk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bulk {
    /// Nothing.
    None,
    /// Some that cannot be sent now: the neighbour has granted no credit for it, or its writer waits for room.
    Held,
    /// Some that can be sent now.
    Ready,
}

/// A datagram that a service fills.
#[derive(Debug)]
pub struct Fill<'a, 'w, L> {
    /// The least urgent class that may be sent now.
    pub class: Class,
    /// Which part of the waiting data.
    pub carries: Carries,
    /// Room of a whole datagram.
    pub full: usize,
    /// Where frames are appended.
    pub w: &'a mut Writer<'w>,
    /// What was written.
    pub load: &'a mut L,
    /// Whether the datagram's last octets may be left open, so that others can overhear them; it then takes [`OPEN_LEN_LEN`] octets more.
    pub may_be_open: bool,
    /// The neighbour takes packets that are told by an earlier one's headers.
    pub compresses: bool,
    /// How many of the last octets are to be left open.
    pub open: usize,
    /// The link's repair budget: first transmissions pay in, retransmits and copies are charged.
    pub budget: &'a mut RepairBudget,
}

/// Which packets a datagram takes. Where symbols cover them, packets that cannot wait for a retransmit get datagrams of their own, so that
/// a symbol is no longer than they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carries {
    /// Any.
    All,
    /// Those that cannot wait for a retransmit.
    Media,
    /// The others.
    Others,
}

/// What the next bulk begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextBulk {
    /// The last bytes for a while: no later ones will reveal their loss.
    End,
    /// Retransmitted bytes: the bytes behind them have waited for a round trip already.
    Repeat,
    /// Bytes in mid-flow.
    First,
}

/// A lane's path state, as services see it. Used to size copies, blocks, credit and send buffers; pacing and congestion control are done by
/// the lanes.
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
    /// Longest time by which the neighbour delays an ack.
    pub ack_delay: Span,
    /// The report interval that the neighbour wishes, on the lanes that carry our reports of what it sends.
    pub told_apart: Span,
    /// Serialisation of one full packet.
    pub packet_time: Span,
    /// Largest packet of the medium known to pass.
    pub path_mtu: usize,
    /// The congestion window.
    pub window: Octets,
    /// Share of packets lost recently in the worse direction, 0 to 1.
    pub loss: f64,
    /// The same for our direction alone, once enough of our packets have a known fate.
    pub loss_outward: f64,
    /// How long the channel stays bad, if known; copies are spaced further apart.
    pub burst: Option<Span>,
    /// How long after a loss is detected repair symbols may still restore what cannot wait for a retransmit.
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
