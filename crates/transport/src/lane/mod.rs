//! Lanes: one unidirectional path to a neighbour, with its own packet numbers, acknowledgements and controller.
//!
//! [`LaneSender`] and [`LaneReceiver`] are plain structs with the methods of [`wavelane_base::Machine`]. The link owns them: it builds and
//! seals datagrams, reports to the sender what it sent, and passes on the frames it receives. Nothing here knows what a packet carried;
//! that is the opaque record `R`, which is returned exactly once, as [`Outcome::Delivered`] or [`Outcome::Lost`]. `docs/protocol/lane.md`
//! describes the same in prose.

mod arrivals;
mod control;
mod crowd;
mod forward;
mod gauge;
mod losses;
mod mtu;
mod pace;
mod receiver;
mod rtt;
mod sender;
mod sent;
mod wish;

#[cfg(test)]
#[path = "tests/bottleneck/mod.rs"]
mod bottleneck;
#[cfg(test)]
mod control_tests;
#[cfg(test)]
mod falls_tests;
#[cfg(test)]
mod first_tests;
#[cfg(test)]
mod lane_tests;
#[cfg(test)]
#[path = "tests/rival.rs"]
mod rival;
#[cfg(test)]
mod rival_tests;
#[cfg(test)]
mod slow_tests;
#[cfg(test)]
mod start_tests;

pub(crate) use gauge::{FIRST_BOUND_MIN, LARGE_MIN, SMALL_MAX};
pub use receiver::LaneReceiver;
pub(crate) use receiver::RIDING_DELAY;
pub use sender::LaneSender;
pub(crate) use sent::SENT_MIN;
pub(crate) use wish::Came;

use wavelane_base::{Carrier, Rate, Span};

/// Which congestion controller a lane uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Controller {
    /// Keeps the queue short and ignores loss that does not follow our rate.
    #[default]
    Delay,
    /// CUBIC (RFC 9438), for comparison and for paths that demand it.
    Cubic,
    /// A dedicated link of known rate: no adaptation.
    Fixed(Rate),
    /// A radio whose medium access is the only rate control: sends as fast as its port accepts, at most this. Acks are rare, because each
    /// is a transmission in the same medium.
    Radio(Rate),
}

impl Controller {
    /// The rate at which the delay controller starts unless a lane is configured to start slower.
    pub const START_RATE: Rate = wavelane_settings::START_RATE;
    /// The lowest configured start rate: that of the slowest modems (ITU-T V.21).
    pub const START_RATE_MIN: Rate = wavelane_settings::START_RATE_MIN;
}

/// A lane is slow where a full packet takes at least this long.
pub(crate) const SLOW_PACKET: Span = Span::from_millis(20);

/// A lane's configuration.
#[derive(Clone, Copy, Debug)]
pub struct LaneConfig {
    /// The lane's number, as used in datagram headers and lane acks.
    pub lane: u8,
    /// Which congestion controller to run.
    pub controller: Controller,
    /// The rate at which the delay controller starts, if less than its own 4 Mbit/s; measured from then on.
    pub start_rate: Option<Rate>,
    /// What carries its datagrams.
    pub carrier: Carrier,
    /// Most packets tracked until their fate is known, and a little longer.
    pub sent_max: usize,
}

/// Whether a datagram may leave now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Yes, with at most this many octets of datagram.
    Open {
        /// Largest datagram.
        datagram_max: usize,
    },
    /// Not now: the window is full (an ack will open it) or the pacer waits (`poll_timeout` says until when).
    Closed,
}

/// The fate of one sent packet. Every packet has exactly one outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<R> {
    /// The receiver acknowledged it.
    Delivered(R),
    /// It is taken for lost. It may still arrive; the lane's estimators then learn of it, but no further outcome follows.
    Lost(R),
}

/// A packet the lane wants sent although the link may have no data to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// No ack came although one is overdue: send one eliciting packet now (a `Ping`, or better, a retransmit of the oldest data), ignoring
    /// the window and the pacer.
    Tail,
    /// Send a `Ping` padded to exactly this many octets of datagram and report it with
    /// [`LaneSender::sent_mtu_probe`].
    Mtu {
        /// Octets of datagram.
        datagram: usize,
    },
    /// Many packets that ask for no ack were sent: put a `Ping` into the next one.
    AckRequest,
}

/// The state of a lane's path.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LaneView {
    /// Smoothed round-trip time (RFC 9002, section 5.3), once measured.
    pub rtt: Option<Span>,
    /// Lowest round-trip time of the base window.
    pub rtt_min: Option<Span>,
    /// Variation of the round-trip time (RFC 9002, section 5.3).
    pub rtt_var: Span,
    /// Queueing delay in the forward direction as the controller sees it now.
    pub queue_delay: Option<Span>,
    /// The controller's estimate of the lane's rate, in IP bytes.
    pub rate: Rate,
    /// Share of packets lost recently, 0 to 1; zero while copies are withheld to see whether they cause it.
    pub loss: f64,
    /// Mean duration of the loss bursts seen recently; `None` until packets close enough to judge were lost.
    pub burst: Option<Span>,
    /// IP bytes in flight.
    pub in_flight: u64,
    /// The congestion window, in IP bytes.
    pub window: u64,
    /// Largest IP packet the path is known to carry.
    pub path_mtu: usize,
    /// Whether that is less than nearly every path carries: something on it silently drops larger packets.
    pub below_base: bool,
    /// Whether packets leave one by one: what was sent in batches was lost, and the same sizes alone arrived.
    pub single: bool,
    /// Packets delivered since the start.
    pub delivered_packets: u64,
    /// IP bytes delivered since the start.
    pub delivered_bytes: u64,
    /// Packets lost since the start, path-MTU probes not counted.
    pub lost_packets: u64,
    /// Packets taken for lost that arrived later.
    pub spurious_losses: u64,
}
