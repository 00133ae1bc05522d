//! A peer's datagrams come from somewhere else: following it there, and having it prove that it is there.

use super::{Gateway, PeerId};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{Instant, PortId, Span};
use wavelane_transport::session::Established;

/// A peer that changes between addresses faster than this has both.
const SWINGS: Span = Span::from_secs(1);

impl Gateway {
    /// An authenticated datagram of `octets` came from `from`; `newest` if it has the highest number of its lane.
    pub(super) fn heard_from(
        &mut self,
        now: Instant,
        peer: PeerId,
        (from, port): (SocketAddr, PortId),
        octets: usize,
        newest: bool,
    ) {
        self.peers[peer.0].addresses.heard(now, from, octets);
        let before = self.sessions.address(peer.0);
        if !newest || before == Some(from) {
            return;
        }
        let addresses = &mut self.peers[peer.0].addresses;
        let known = addresses.is_proven(now, from);
        if !known {
            let mut token = [0; 8];
            self.dice.fill(&mut token);
            addresses.doubt(now, from, octets, self.links[peer.0].path(now).rtt, token);
        }
        self.sessions.set_address(now, peer.0, from, port);
        // Another port alone is most likely a new mapping of the same path (RFC 9000, section 9.4), and who comes back
        // at once was never away: nothing that was learnt is doubted.
        let same_host = before.is_some_and(|before| before.ip() == from.ip());
        let at_once = self.peers[peer.0].moved.replace(now);
        let swings = known && at_once.is_some_and(|at| now.since(at) < SWINGS);
        if !same_host && !swings {
            self.links[peer.0].address_changed(now);
        }
    }

    /// A session stands. What we sent there for it arrived, so the peer is there.
    pub(super) fn established_from(&mut self, now: Instant, session: &Established) {
        let Some(from) = session.from.filter(|_| session.proven) else { return };
        let addresses = &mut self.peers[session.peer].addresses;
        // Our call may have reached the peer at another of its addresses, so the answer to it ends no trial.
        if !session.confirm || addresses.allowance(from).is_none() {
            addresses.prove(now, from);
        }
    }

    /// Where the peer is and from which of our addresses it is reached, if it was heard there lately and has proven that it
    /// is there: worth remembering for [`Gateway::recall`].
    pub fn proven_place(&self, now: Instant, peer: PeerId) -> Option<(SocketAddr, Option<IpAddr>)> {
        let address = self.sessions.address(peer.0)?;
        let proven = self.peers.get(peer.0)?.addresses.is_proven(now, address);
        proven.then(|| (address, self.sessions.local(peer.0)))
    }

    /// Right after the start: the peer, of whom the configuration tells no address, was here before. It is called there a few
    /// times; until it answers from there nothing else is sent to the place.
    pub fn recall(&mut self, now: Instant, peer: PeerId, address: SocketAddr, local: Option<IpAddr>) {
        self.sessions.recall(now, peer.0, address, local);
    }

    /// Takes the peer's answers to our challenges.
    pub(super) fn take_path_responses(&mut self, now: Instant, peer: PeerId) {
        while let Some(token) = self.links[peer.0].poll_path_response() {
            self.peers[peer.0].addresses.answered(now, token);
        }
    }

    /// An address that was not proven in time is left for the one before.
    pub(super) fn give_up_address(&mut self, now: Instant, peer: PeerId) {
        let current = self.sessions.address(peer.0);
        if let Some(back) = self.peers[peer.0].addresses.handle_timeout(now, current) {
            let port = self.sessions.port(peer.0);
            self.sessions.set_address(now, peer.0, back, port);
            self.counters.addresses_unproven += 1;
        }
    }

    /// How long a datagram to the peer may be now; an error if nothing but a challenge may leave, of that length. Hands
    /// a challenge that is due to the link.
    pub(super) fn room_for_peer(&mut self, peer: usize, room: usize) -> Result<usize, usize> {
        let (link, addresses) = (&mut self.links[peer], &self.peers[peer].addresses);
        let to = self.sessions.address(peer);
        // Never one that was meant for another address: its answer would prove that one.
        link.challenge(to.and_then(|to| addresses.challenge(to)));
        let Some(allowance) = to.and_then(|to| addresses.allowance(to)) else { return Ok(room) };
        let allowance = usize::try_from(allowance).unwrap_or(usize::MAX);
        if allowance >= link.datagram_max() { Ok(room.min(allowance)) } else { Err(room.min(allowance)) }
    }

    /// A datagram of `octets` leaves for the peer.
    pub(super) fn note_sent_to_peer(&mut self, now: Instant, peer: usize, octets: usize) {
        let Some(to) = self.sessions.address(peer) else { return };
        let addresses = &mut self.peers[peer].addresses;
        if addresses.allowance(to).is_some() {
            addresses.sent(to, octets);
            if addresses.challenge(to).is_some() && !self.links[peer].challenge_waits() {
                addresses.asked(now, to, self.links[peer].path(now).rtt);
            }
        }
    }
}

#[cfg(test)]
#[path = "moves_tests.rs"]
mod tests;
