//! The time of day for shapers: this gateway is a reflector for who comes from the address of a peer that is up (docs/protocol/probe.md,
//! *Ask*), as a house does whose gateway that peer is. To others it is silent.

use super::Daemon;
use crate::shaper::reflector;
use std::net::IpAddr;
use wavelane_base::{Address, Ecn, FrameMeta, Instant, Machine, PortId, Span};
use wavelane_gateway::PeerId;
use wavelane_host::udp::Destination;

/// Questions taken in one round of a port.
pub(super) const QUESTIONS_MAX: usize = 64;
/// Answers a second, all together: as many as a probe server gives.
const ANSWERS_MAX: u32 = 1_000;
const SECOND: Span = Span::from_secs(1);

/// A question that came.
pub(super) struct TimeQuestion {
    pub(super) from: Address,
    pub(super) at: Option<IpAddr>,
    pub(super) came: Instant,
    pub(super) octets: [u8; reflector::QUESTION_LEN],
}

/// How many were answered since a moment.
#[derive(Debug)]
pub(super) struct Answers {
    since: Instant,
    given: u32,
}

impl Answers {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, given: 0 }
    }
    fn may(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= SECOND {
            *self = Self::new(now);
        }
        self.given += u32::from(self.given < ANSWERS_MAX);
        self.given < ANSWERS_MAX
    }
}

impl Daemon {
    /// Answers those of peers; the others are what they seem to be, no datagram of ours.
    pub(super) fn tell_time(&mut self, port: usize, questions: Vec<TimeQuestion>) {
        for mut question in questions {
            let host = question.from.ip().map(|from| from.ip().to_canonical());
            let is_peers = (0..self.config.peers.len()).any(|peer| {
                let place = self.gateway.proven_place(self.now, PeerId(peer));
                place.and_then(|(address, _)| address.ip()).map(|at| at.ip().to_canonical()) == host && host.is_some()
            });
            if !is_peers {
                let meta = FrameMeta { rx_time: question.came, from: Some(question.from), ..FrameMeta::default() };
                self.gateway.handle_frame(self.now, PortId(port as u16), &mut question.octets, meta);
            } else if self.answers.may(self.now) {
                let Some(socket) = &mut self.lanes[port].socket else { return };
                let answer = reflector::time(&question.octets, question.came, self.clock.now());
                let to = Destination { to: question.from, from: question.at, dscp: 0 };
                socket.send(&answer, None, to, Ecn::NotEct);
                self.counters.one("times_told");
            } else {
                self.counters.one("dropped_time_questions");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_a_second_are_answered() {
        let mut answers = Answers::new(Instant::ZERO);
        let given = (0..20_000).filter(|n| answers.may(Instant::from_micros(n * 100))).count();
        assert!((1_990..=2_000).contains(&given), "{given}");
    }
}
