//! Echoes: small datagrams of one lane whose round trip, or loss, is reported to the owner. Each is a request for an ack at once.

use super::Link;
use crate::Service;
use wavelane_base::{Instant, Span};

/// Most outcomes kept until they are polled; a peer cannot cause any.
const HEARD_MAX: usize = 256;

/// One echo, kept with the datagram that makes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    /// The owner's name for it.
    pub(super) id: u32,
    /// When it left.
    pub(super) at: Instant,
}

/// What became of an echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo {
    /// The lane by which it left.
    pub lane: usize,
    /// The owner's name for it.
    pub id: u32,
    /// From its leaving to the first ack, by whichever lane that came; `None` if it is taken for lost.
    pub round_trip: Option<Span>,
}

impl<S: Service> Link<S> {
    /// The next datagram of a lane is an echo. One that still waits to leave is given up.
    pub fn echo(&mut self, lane: usize, id: u32) {
        if !self.lanes[lane].is_closed() {
            self.lanes[lane].echo = Some(id);
        }
    }

    /// The next outcome that was not taken yet.
    pub fn poll_echo(&mut self) -> Option<Echo> {
        self.heard_echoes.pop_front()
    }

    /// Whether one waits to leave.
    pub(super) fn echo_waits(&self) -> bool {
        self.lanes.iter().any(|lane| lane.echo.is_some())
    }

    /// The fate of a datagram that made one is known.
    pub(super) fn settle_echo(&mut self, now: Instant, lane: usize, sent: Sent, arrived: bool) {
        if self.heard_echoes.len() < HEARD_MAX {
            let round_trip = arrived.then(|| now.since(sent.at));
            self.heard_echoes.push_back(Echo { lane, id: sent.id, round_trip });
        }
    }
}
