//! Echoes: small datagrams of one lane whose round trip, or loss, is reported to the owner. Each is a request for an ack at once.

use super::Link;
use crate::Service;
use std::collections::VecDeque;
use wavelane_base::{Instant, Span};

/// Most outcomes kept until they are polled; a peer cannot cause any.
const HEARD_MAX: usize = 256;

/// Most echoes of a lane that wait to leave: one of each client of the control socket. Of more, the oldest is given up.
const WAITING_MAX: usize = 32;

/// The names of those that wait to leave, oldest first.
#[derive(Clone, Default, Debug)]
pub(super) struct Echoes(VecDeque<u32>);

impl Echoes {
    pub(super) fn wait(&self) -> bool {
        !self.0.is_empty()
    }
    /// The next leaves.
    pub(super) fn next(&mut self, now: Instant) -> Option<Sent> {
        self.0.pop_front().map(|id| Sent { id, at: now })
    }
    fn add(&mut self, id: u32) {
        if self.0.len() >= WAITING_MAX {
            self.0.pop_front();
        }
        self.0.push_back(id);
    }
}

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
    /// One of the next datagrams of a lane is an echo.
    pub fn echo(&mut self, lane: usize, id: u32) {
        if !self.lanes[lane].is_closed() {
            self.lanes[lane].echoes.add(id);
        }
    }

    /// The next outcome that was not taken yet.
    pub fn poll_echo(&mut self) -> Option<Echo> {
        self.heard_echoes.pop_front()
    }

    /// Whether one waits to leave.
    pub(super) fn echo_waits(&self) -> bool {
        self.lanes.iter().any(|lane| lane.echoes.wait())
    }

    /// The fate of a datagram that made one is known.
    pub(super) fn settle_echo(&mut self, now: Instant, lane: usize, sent: Sent, arrived: bool) {
        if self.heard_echoes.len() < HEARD_MAX {
            let round_trip = arrived.then(|| now.since(sent.at));
            self.heard_echoes.push_back(Echo { lane, id: sent.id, round_trip });
        }
    }
}
