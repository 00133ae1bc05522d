//! A peer's datagrams come from a new address: following it there, and validating the address.

use super::setup::{carrier, lane_options};
use super::{LaneState, Neighbours};
use crate::PeerId;
use std::net::IpAddr;
use wavelane_base::{Address, Instant, PortId, Span};
use wavelane_transport::session::{Established, LANES_MAX, Way};

/// A peer that alternates between addresses faster than this has both: to begin anew with each turn costs more than to go on with
/// estimates that may be the other path's, which the controller corrects as it does after any change of the path.
const SWINGS: Span = Span::from_secs(30);

impl Neighbours {
    /// Our lane for the other direction of `theirs`, a lane of the peer whose datagram came `from` there to `port` and to our address
    /// `at`. A lane heard for the first time is paired with an unpaired lane, unless only another lane leads to the host it comes from,
    /// or with one whose path is the same, or gets a new one. `None` if no lane of ours uses that port.
    pub(super) fn lane_back(
        &mut self,
        now: Instant,
        peer: PeerId,
        theirs: u8,
        (port, from, at): (PortId, Option<Address>, Option<IpAddr>),
    ) -> Option<usize> {
        let pairs = self.states[peer.0].pairs;
        let by_port =
            |lane: &usize| self.sessions.port(peer.0, *lane) == Some(port) && !self.sessions.is_one_way(peer.0, *lane);
        let address = |lane: usize| self.sessions.address(peer.0, lane);
        // Lanes of the peer share one of ours only while their path is the same.
        let shared = |lane: usize| pairs.iter().filter(|pair| **pair == Some(lane)).count() > 1;
        let holds = |lane: &usize| by_port(lane) && (!shared(*lane) || address(*lane) == from);
        if let Some(ours) = pairs[usize::from(theirs)].filter(holds) {
            return Some(ours);
        }
        let lanes: Vec<usize> = (0..self.sessions.ways(peer.0)).filter(by_port).collect();
        lanes.first()?;
        let host = |lane: usize| address(lane).map(Address::host);
        let there = from.map(Address::host);
        // The other direction of a lane to another host would lead that lane away from its own path, for good.
        let open = |lane: &usize| self.sessions.port(peer.0, *lane).is_some() && !self.links[peer.0].is_closed(*lane);
        let others = there.is_some() && (0..self.sessions.ways(peer.0)).filter(open).any(|lane| host(lane) == there);
        let leads_away = |lane: &&usize| others && host(**lane).is_some_and(|host| Some(host) != there);
        // Each end made a lane for each lane that the other had made for its own, where one end's lane had left a path that the other's
        // still used.
        let same = |lane: &&usize| at.is_some() && address(**lane) == from && self.sessions.local(peer.0, **lane) == at;
        let same = lanes.iter().find(same).copied();
        let free: Vec<usize> = lanes.into_iter().filter(|lane| !pairs.contains(&Some(*lane))).collect();
        let exact = free.iter().find(|lane| address(**lane) == from);
        let ours = match exact.copied().or(same).or_else(|| free.iter().find(|lane| !leads_away(lane)).copied()) {
            Some(lane) => lane,
            None if self.links[peer.0].lanes() < LANES_MAX => self.add_lane(now, peer, port),
            None => *free.first()?,
        };
        self.states[peer.0].pairs[usize::from(theirs)] = Some(ours);
        Some(ours)
    }

    /// Adds a lane to the peer, by `port`. It leads nowhere until the peer is heard on it.
    fn add_lane(&mut self, now: Instant, peer: PeerId, port: PortId) -> usize {
        let config = self.lane_like(peer, LANES_MAX, port);
        self.sessions.add_way(peer.0, Way { port, address: None, one_way: false });
        self.links[peer.0].add_lane(now, &lane_options(&self.config, &config), self.dice.split());
        self.states[peer.0].lanes.push(LaneState { since: Some(now), ..LaneState::default() });
        self.states[peer.0].lanes.len() - 1
    }

    /// An authenticated datagram of `octets` came from `from` on the other direction of `lane`; `newest` if it has the highest
    /// number of its own lane.
    pub(crate) fn heard_from(
        &mut self,
        now: Instant,
        peer: PeerId,
        lane: usize,
        from: Address,
        octets: usize,
        newest: bool,
    ) {
        self.states[peer.0].lanes[lane].addresses.heard(now, from, octets);
        let before = self.sessions.address(peer.0, lane);
        if !newest || before == Some(from) {
            return;
        }
        let addresses = &mut self.states[peer.0].lanes[lane].addresses;
        let known = addresses.is_proven(now, from);
        if !known {
            let mut token = [0; 8];
            self.dice.fill(&mut token);
            addresses.doubt(now, from, octets, self.links[peer.0].path(now, lane).rtt, token);
        }
        self.sessions.set_address(now, peer.0, lane, from);
        self.fit_carrier(peer, lane);
        // A change of port alone is most likely a new NAT mapping of the same path (RFC 9000, section 9.4), and a peer that
        // returns at once has not moved: estimates are kept.
        let same_host = before.is_some_and(|before| before.host() == from.host());
        let at_once = self.states[peer.0].lanes[lane].moved.replace(now);
        let swings = known && at_once.is_some_and(|at| now.since(at) < SWINGS);
        if !same_host && !swings {
            self.links[peer.0].address_changed(now, lane);
        }
    }

    /// A session was established by a datagram at `port`. Our handshake to that address arrived, so the peer is there.
    pub(crate) fn established_from(&mut self, now: Instant, session: &Established, port: PortId) {
        let Some(from) = session.from.filter(|_| session.proven) else { return };
        let (sessions, peer) = (&self.sessions, session.peer);
        let lanes = || 0..sessions.ways(peer);
        let by_port = |lane: &usize| sessions.port(peer, *lane) == Some(port) && !sessions.is_one_way(peer, *lane);
        let there = |lane: &usize| sessions.address(peer, *lane) == Some(from);
        let lane =
            lanes().filter(by_port).find(there).or_else(|| lanes().find(there)).or_else(|| lanes().find(by_port));
        // An address that no lane can have proves nothing about the lanes.
        let Some(lane) = lane else { return };
        let addresses = &mut self.states[session.peer].lanes[lane].addresses;
        // Our call may have reached the peer at another of its addresses, so its answer does not end a trial.
        if !session.confirm || addresses.allowance(from).is_none() {
            addresses.prove(now, from);
        }
    }

    /// The peer's address on its first lane and our address it is reached from, if it was heard there recently and the address is
    /// proven: worth remembering for [`Neighbours::recall`].
    pub(crate) fn proven_place(&self, now: Instant, peer: PeerId) -> Option<(Address, Option<IpAddr>)> {
        let state = self.states.get(peer.0)?;
        let first = *state.numbers.first()?;
        let address = self.sessions.address(peer.0, first)?;
        let proven = state.lanes.get(first)?.addresses.is_proven(now, address);
        proven.then(|| (address, self.sessions.local(peer.0, first)))
    }

    /// Right after the start: a peer without a configured address was last at this one. It is called there a few times; until it
    /// answers from there nothing else is sent to that address.
    pub(crate) fn recall(&mut self, now: Instant, peer: PeerId, address: Address, local: Option<IpAddr>) {
        self.sessions.recall(now, peer.0, address, local);
    }

    /// Takes the peer's answers to our challenges.
    pub(super) fn take_path_responses(&mut self, now: Instant, peer: PeerId) {
        while let Some(token) = self.links[peer.0].poll_path_response() {
            let mut lanes = self.states[peer.0].lanes.iter_mut();
            lanes.any(|lane| lane.addresses.answered(now, token));
        }
    }

    /// An address not proven in time is replaced by the previous one.
    pub(super) fn give_up_address(&mut self, now: Instant, peer: PeerId) {
        for lane in 0..self.states[peer.0].lanes.len() {
            let current = self.sessions.address(peer.0, lane);
            if let Some(back) = self.states[peer.0].lanes[lane].addresses.handle_timeout(now, current) {
                self.sessions.set_address(now, peer.0, lane, back);
                self.addresses_unproven += 1;
                self.fit_carrier(peer, lane);
            }
        }
    }

    /// The peer may have moved to an address of the other IP version.
    pub(super) fn fit_carrier(&mut self, peer: PeerId, lane: usize) {
        let (address, port) = (self.sessions.address(peer.0, lane), self.sessions.port(peer.0, lane));
        if let (Some(address), Some(port)) = (address, port) {
            let carrier = carrier(&self.config, &self.lane_like(peer, lane, port), Some(address));
            self.links[peer.0].set_carrier(lane, carrier);
        }
    }

    /// Maximum length of a datagram to the peer on a lane now; `Err` with the maximum if only a challenge may be sent. Hands a
    /// due challenge to the link.
    pub(super) fn room_for_peer(&mut self, peer: usize, lane: usize, room: usize) -> Result<usize, usize> {
        let (link, addresses) = (&mut self.links[peer], &self.states[peer].lanes[lane].addresses);
        let to = self.sessions.address(peer, lane);
        // Never a challenge meant for another address: the answer would prove that address.
        link.challenge(lane, to.and_then(|to| addresses.challenge(to)));
        let Some(allowance) = to.and_then(|to| addresses.allowance(to)) else { return Ok(room) };
        let allowance = usize::try_from(allowance).unwrap_or(usize::MAX);
        if allowance >= link.datagram_max(lane) { Ok(room.min(allowance)) } else { Err(room.min(allowance)) }
    }

    /// A datagram of `octets` is sent to the peer.
    pub(super) fn note_sent_to_peer(&mut self, now: Instant, peer: usize, lane: usize, octets: usize) {
        let Some(to) = self.sessions.address(peer, lane) else { return };
        let addresses = &mut self.states[peer].lanes[lane].addresses;
        if addresses.allowance(to).is_some() {
            addresses.sent(to, octets);
            if addresses.challenge(to).is_some() && !self.links[peer].challenge_waits(lane) {
                addresses.asked(now, to, self.links[peer].path(now, lane).rtt);
            }
        }
    }
}

#[cfg(test)]
#[path = "moves_tests.rs"]
mod tests;
