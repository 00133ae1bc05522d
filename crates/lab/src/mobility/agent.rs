//! The home agent and the mobile of Mobile IP (RFC 5944, sections 3.6 and 3.8), with co-located care-of addresses. Pure: the time is an
//! argument, messages are octets.

use super::registration::{Code, Reply, Request, Security, Wishes, timestamp};
use std::net::Ipv4Addr;
use wavelane_base::{Instant, Span};

/// How far a request's time of day may be from the home agent's (section 5.7.1: 7 s by default).
const CLOCKS: Span = Span::from_secs(7);
/// Longest lifetime that is granted: half of it passes until the mobile asks again.
const LIFETIME_MAX: u16 = 600;
/// First time until a request is sent again (section 3.6.3: at least 1 s, then at least double), and the longest.
const AGAIN: Span = Span::from_secs(1);
const AGAIN_MAX: Span = Span::from_secs(16);
/// Requests without an answer until the mobile gives up: 47 s.
const TRIES: u32 = 6;

/// A node's time of day, as nanoseconds since 1970 when its clock showed zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimeOfDay(pub(crate) u64);

impl TimeOfDay {
    fn stamp(self, now: Instant) -> u64 {
        timestamp(self.0 + now.as_nanos())
    }
}

/// The home agent of one mobile.
#[derive(Debug)]
pub(crate) struct HomeAgent {
    address: Ipv4Addr,
    home: Ipv4Addr,
    security: Security,
    clock: TimeOfDay,
    /// The last that was accepted.
    identification: u64,
    binding: Option<(Ipv4Addr, Instant)>,
}

impl HomeAgent {
    pub(crate) fn new(address: Ipv4Addr, home: Ipv4Addr, security: Security, clock: TimeOfDay) -> Self {
        Self { address, home, security, clock, identification: 0, binding: None }
    }

    /// Where the mobile is, while it is away.
    pub(crate) fn care_of(&self, now: Instant) -> Option<Ipv4Addr> {
        self.binding.filter(|(_, until)| now < *until).map(|(care_of, _)| care_of)
    }

    /// Takes a message that came; the answer, if there is one. What is no request, or of a mobile that shares nothing with this agent, gets
    /// none.
    pub(crate) fn handle(&mut self, now: Instant, message: &[u8]) -> Option<Vec<u8>> {
        let signed = Request::read(message).ok()?;
        let request = signed.message;
        if request.home != self.home {
            return None;
        }
        let stamp = self.clock.stamp(now);
        let mut identification = request.identification;
        let code = match () {
            () if !signed.is_by(&self.security) => Code::UNAUTHENTIC,
            () if !self.is_fresh(stamp, identification) => {
                // A mobile sets its clock by the upper half (ours has the agent's), and knows its request by the lower.
                identification = (stamp & !u64::from(u32::MAX)) | (identification & u64::from(u32::MAX));
                Code::IDENTIFICATION
            }
            () if request.agent != self.address => Code::OTHER_AGENT,
            () if request.wishes.any_of(Wishes::REVERSE) => Code::NO_REVERSE_TUNNEL,
            () if request.wishes.any_of(Wishes::ENCAPSULATION) => Code::NO_ENCAPSULATION,
            () if request.wishes.any_of(Wishes::SIMULTANEOUS) => Code::ACCEPTED_ALONE,
            () => Code::ACCEPTED,
        };
        let lifetime = request.lifetime.min(LIFETIME_MAX);
        // An authentic request uses its identification up, whatever becomes of it.
        if code != Code::UNAUTHENTIC && code != Code::IDENTIFICATION {
            self.identification = identification;
        }
        if code.is_accepted() {
            let until = now + Span::from_secs(lifetime.into());
            self.binding = Some((request.care_of, until)).filter(|(at, _)| lifetime > 0 && *at != self.home);
        }
        let reply = Reply { code, lifetime, home: self.home, agent: self.address, identification };
        Some(reply.write(&self.security))
    }

    /// Whether a request's time of day is near and later than any before.
    fn is_fresh(&self, stamp: u64, identification: u64) -> bool {
        let apart = (CLOCKS.as_nanos() / 1_000_000_000) << 32;
        identification > self.identification && identification.abs_diff(stamp) <= apart
    }
}

/// Where a mobile's registration stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Asked for.
    Asked,
    /// The home agent sends on what comes to the home address.
    Registered,
    /// Denied with that code.
    Denied(Code),
    /// Nobody answered.
    Unanswered,
}

/// The mobile's side.
#[derive(Debug)]
pub(crate) struct Mobile {
    request: Request,
    security: Security,
    clock: TimeOfDay,
    standing: Standing,
    tries: u32,
    /// When a request is to leave.
    due: Option<Instant>,
}

impl Mobile {
    /// Asks `agent` from now on to send on to `care_of` what comes to `home`.
    pub(crate) fn new(
        now: Instant,
        [home, agent, care_of]: [Ipv4Addr; 3],
        security: Security,
        clock: TimeOfDay,
    ) -> Self {
        let wishes = Wishes::DECAPSULATES;
        let request = Request { wishes, lifetime: LIFETIME_MAX, home, agent, care_of, identification: 0 };
        Self { request, security, clock, standing: Standing::Asked, tries: 0, due: Some(now) }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// When it has something to send.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// The request that is due.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.due.filter(|due| *due <= now)?;
        if self.tries == TRIES {
            self.stand(Standing::Unanswered, None);
            return None;
        }
        // Each has its own, so that none is taken for a replay.
        self.request.identification = self.clock.stamp(now).max(self.request.identification + 1);
        self.due = Some(now + AGAIN.times(1 << self.tries).min(AGAIN_MAX));
        self.tries += 1;
        Some(self.request.write(&self.security))
    }

    /// Takes a message that came. What does not answer the last request, or is not the home agent's, is left alone.
    pub(crate) fn handle(&mut self, now: Instant, message: &[u8]) {
        let Ok(signed) = Reply::read(message) else { return };
        let reply = signed.message;
        let low = |identification: u64| identification as u32;
        let asked = self.request.identification;
        let of_this = reply.home == self.request.home && low(reply.identification) == low(asked);
        if !of_this || self.tries == 0 || !signed.is_by(&self.security) {
            return;
        }
        match reply.code {
            code if !code.is_accepted() => self.stand(Standing::Denied(code), None),
            _ => {
                let half = Span::from_millis(u64::from(reply.lifetime.min(self.request.lifetime)) * 500);
                self.tries = 0;
                self.stand(Standing::Registered, Some(now + half));
            }
        }
    }

    fn stand(&mut self, standing: Standing, due: Option<Instant>) {
        self.standing = standing;
        self.due = due;
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
