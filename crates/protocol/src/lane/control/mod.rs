//! Congestion control: how fast a lane may send and how much may be in flight.

use wavelane_base::{Instant, Rate, Span};

use crate::gateway::Controller;

/// The controllers, a closed set.
#[derive(Debug)]
pub(super) enum Control {
    /// Constant rate.
    Fixed(Rate),
}

impl Control {
    pub(super) fn new(_now: Instant, which: Controller) -> Self {
        match which {
            Controller::Fixed(rate) => Self::Fixed(rate),
            Controller::Delay | Controller::Cubic => Self::Fixed(Rate::from_bps(20_000_000)),
        }
    }
    /// Pacing rate, in IP bytes.
    pub(super) fn pacing(&self) -> Rate {
        match self {
            Self::Fixed(rate) => *rate,
        }
    }
    /// Bytes that may be in flight.
    pub(super) fn window(&self, rtt: Span) -> u64 {
        match self {
            Self::Fixed(rate) => 2 * rate.octets_in(rtt + Span::from_millis(500)).get() + 32 * 1500,
        }
    }
}
