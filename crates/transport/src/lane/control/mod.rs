//! Congestion control: how fast a lane may send and how much may be in flight.

mod cause;
mod compete;
mod cubic;
mod delay;
mod service;
mod shallow;

use super::forward::Forward;
use super::losses::Losses;
use super::sent::Resolved;
use crate::Controller;
use cubic::Cubic;
use delay::Delay;
use wavelane_base::{Instant, Rate, Span};

/// A full packet, where a number of packets is meant.
const PACKET: u64 = 1500;

/// The newest packet an ack acknowledges, if it is newer than all before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    pub(super) number: u64,
    pub(super) bytes: u32,
    pub(super) sent_at: Instant,
    /// Receiver's clock, nanoseconds.
    pub(super) arrival: u64,
    pub(super) end: u64,
    pub(super) app_limited: bool,
}

/// The content of one ack.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckSample {
    pub(super) now: Instant,
    pub(super) newest: Option<Newest>,
    /// Bytes newly delivered.
    pub(super) delivered: u64,
    /// When the newest packet newly declared lost was sent.
    pub(super) lost_sent: Option<Instant>,
    /// How long something was in flight without any ack; zero for an idle lane.
    pub(super) waited: Span,
    /// This ack's round trip minus the peer's ack delay.
    pub(super) latest_rtt: Option<Span>,
    /// Smoothed.
    pub(super) rtt: Span,
    pub(super) rtt_min: Span,
    /// The interval between acks that we wished for.
    pub(super) acks_apart: Span,
    /// The part of it imposed by a thin return path; else zero.
    pub(super) acks_thin: Span,
}

/// The controllers, a closed set.
#[derive(Debug)]
pub(super) enum Control {
    /// Keeps the queue short.
    Delay(Box<Delay>),
    /// Loss-driven (RFC 9438).
    Cubic(Cubic),
    /// Constant rate.
    Fixed(Rate),
}

impl Control {
    pub(super) fn new(now: Instant, which: Controller, start_rate: Option<Rate>) -> Self {
        match which {
            Controller::Fixed(rate) | Controller::Radio(rate) => Self::Fixed(rate),
            Controller::Cubic => Self::Cubic(Cubic::new()),
            Controller::Delay => Self::Delay(Box::new(Delay::new(now, start_rate))),
        }
    }
    pub(super) fn on_ack(&mut self, sample: &AckSample, forward: &mut Forward, losses: &mut Losses) {
        match self {
            Self::Delay(delay) => delay.on_ack(sample, forward, losses),
            Self::Cubic(cubic) => cubic.on_ack(sample),
            Self::Fixed(_) => {}
        }
    }
    /// Whether nothing of the lane was measured yet that a first window could follow.
    pub(super) fn is_new(&self) -> bool {
        matches!(self, Self::Delay(delay) if delay.is_new())
    }
    /// The lane carries at most `bound`, if there is one; nothing more is known of it.
    pub(super) fn start_at(&mut self, bound: Option<Rate>) {
        if let Self::Delay(delay) = self {
            delay.start_at(bound);
        }
    }
    /// A packet's fate became known.
    pub(super) fn resolved(&mut self, packet: &Resolved) {
        if let Self::Delay(delay) = self {
            delay.resolved(packet);
        }
    }
    /// The estimate of the lane's rate, in IP bytes.
    pub(super) fn rate(&self) -> Rate {
        match self {
            Self::Delay(delay) => delay.rate(),
            Self::Cubic(cubic) => cubic.rate(),
            Self::Fixed(rate) => *rate,
        }
    }
    /// Pacing rate, in IP bytes.
    pub(super) fn pacing(&self) -> Rate {
        match self {
            Self::Delay(delay) => delay.pacing(),
            Self::Cubic(cubic) => cubic.pacing(),
            Self::Fixed(rate) => *rate,
        }
    }
    /// Bytes that may be in flight.
    pub(super) fn window(&self, rtt: Span) -> u64 {
        match self {
            Self::Delay(delay) => delay.window(),
            Self::Cubic(cubic) => cubic.window(),
            Self::Fixed(rate) => 2 * rate.octets_in(rtt + Span::from_millis(500)).get() + 32 * PACKET,
        }
    }
    /// Queueing delay, where the controller measures it.
    pub(super) fn queue(&self) -> Option<Span> {
        match self {
            Self::Delay(delay) => delay.queue(),
            Self::Cubic(_) | Self::Fixed(_) => None,
        }
    }
    pub(super) fn path_changed(&mut self, now: Instant) {
        match self {
            Self::Delay(delay) => delay.path_changed(now),
            // RFC 9000, section 9.4: the controller is reset on a new path.
            Self::Cubic(cubic) => *cubic = Cubic::new(),
            Self::Fixed(_) => {}
        }
    }
}
