//! A peer's lanes are added, removed and redirected while its flows continue: by a new configuration, or because the peer says
//! so.
//!
//! A lane's number is independent of its place in the configuration: a lane keeps its number while it exists, and its packet
//! numbers are continued by the next lane with that number.

use super::setup::{carrier, lane_options};
use super::{LaneState, Neighbours};
use crate::{LaneConfig, LaneStatus, PeerId};
use std::net::IpAddr;
use wavelane_base::{Address, Carrier, Instant, PortId};
use wavelane_transport::session::{LANES_MAX, Way};

/// The numbers of a configuration's lanes, given `known` numbers so far.
///
/// First, an unchanged lane keeps its number, then one by the same port with another address. Remaining lanes take the numbers of
/// removed ones; then, in this order, numbers never used, numbers of lanes closed earlier, and numbers of lanes created for lanes
/// of the peer.
fn numbers(old: &[(usize, Option<LaneConfig>)], new: &[LaneConfig], known: usize, closed: &[bool]) -> Vec<usize> {
    fn way(lane: &LaneConfig) -> (PortId, bool, Carrier) {
        (lane.port, lane.one_way, lane.carrier)
    }
    fn same(a: &LaneConfig, b: &LaneConfig) -> bool {
        way(a) == way(b) && a.address == b.address
    }
    fn moved(a: &LaneConfig, b: &LaneConfig) -> bool {
        way(a) == way(b)
    }
    let mut left: Vec<(usize, Option<LaneConfig>)> = old.to_vec();
    let mut found: Vec<Option<usize>> = vec![None; new.len()];
    let matches: [fn(&LaneConfig, &LaneConfig) -> bool; 3] = [same, moved, |_, _| true];
    for (round, is_it) in matches.into_iter().enumerate() {
        for (number, lane) in found.iter_mut().zip(new).filter(|(number, _)| number.is_none()) {
            *number = left
                .iter()
                .position(|(_, old)| old.map_or(round == 2, |old| is_it(&old, lane)))
                .map(|i| left.remove(i).0);
        }
    }
    let taken = |found: &[Option<usize>], number: usize| found.contains(&Some(number));
    for i in 0..found.len() {
        let fresh = (known..LANES_MAX).chain((0..known).filter(|n| closed[*n])).chain(0..known);
        found[i] = found[i].or_else(|| fresh.into_iter().find(|number| !taken(&found, *number)));
    }
    found.into_iter().flatten().collect()
}

impl Neighbours {
    /// A peer's lanes in the current configuration, with their numbers.
    pub(super) fn configured_lanes(&self, peer: usize) -> Vec<(usize, Option<LaneConfig>)> {
        let numbers = self.states[peer].numbers.iter().copied();
        numbers.zip(self.config.peers[peer].lanes.iter().copied().map(Some)).collect()
    }

    /// Whether a lane would go on under the controller that it was made with, and another is wanted.
    pub(super) fn changes_controller(&self, peer: usize, new: &[LaneConfig]) -> bool {
        let before = self.configured_lanes(peer);
        let closed: Vec<bool> = (0..self.links[peer].lanes()).map(|lane| self.links[peer].is_closed(lane)).collect();
        let numbers = numbers(&before, new, closed.len(), &closed);
        let old = |number| before.iter().find(|(of, _)| *of == number).and_then(|(_, lane)| *lane);
        let mut both = numbers.into_iter().zip(new).filter_map(|(number, new)| Some((old(number)?, new)));
        both.any(|(old, new)| old.effective_controller() != new.effective_controller())
    }

    /// Applies the configured lanes of a peer. `before` are those of the previous configuration, with their numbers.
    pub(super) fn set_lanes(&mut self, now: Instant, peer: PeerId, before: &[(usize, Option<LaneConfig>)]) {
        let new = self.config.peers[peer.0].lanes.clone();
        let link = &self.links[peer.0];
        let closed: Vec<bool> = (0..link.lanes()).map(|lane| link.is_closed(lane)).collect();
        let numbers = numbers(before, &new, closed.len(), &closed);
        for (number, lane) in numbers.iter().zip(&new) {
            self.set_lane(now, peer, *number, lane);
        }
        self.states[peer.0].numbers.clone_from(&numbers);
        let known = 0..self.links[peer.0].lanes();
        // What is configured of a port holds for the lanes created for lanes of the peer as well.
        let made = known.filter(|lane| !numbers.contains(lane)).filter_map(|lane| {
            let like = self.lane_like(peer, lane, self.sessions.port(peer.0, lane)?);
            Some((lane, lane_options(&self.config, &like)))
        });
        let options = numbers.iter().zip(&new).map(|(number, lane)| (*number, lane_options(&self.config, lane)));
        let options: Vec<_> = options.chain(made).collect();
        self.links[peer.0].set_choice(now, self.config.peers[peer.0].choice, &options);
        let ports: Vec<PortId> = new.iter().map(|lane| lane.port).collect();
        for lane in (0..self.links[peer.0].lanes()).filter(|lane| !numbers.contains(lane)) {
            // A lane created for a lane of the peer stays as long as its port is configured for the peer.
            let made = !before.iter().any(|(number, _)| number == &lane);
            let port = self.sessions.port(peer.0, lane);
            if port.is_some_and(|port| !(made && ports.contains(&port))) {
                self.take_lane_away(now, peer, lane);
            }
        }
    }

    fn set_lane(&mut self, now: Instant, peer: PeerId, number: usize, lane: &LaneConfig) {
        let LaneConfig { port, address, one_way, .. } = *lane;
        let (way, options) = (Way { port, address, one_way }, lane_options(&self.config, lane));
        while self.links[peer.0].lanes() <= number {
            self.sessions.add_way(peer.0, way);
            self.links[peer.0].add_lane(now, &options, self.dice.split());
            self.states[peer.0].lanes.push(LaneState { since: Some(now), ..LaneState::default() });
        }
        let before = (self.sessions.port(peer.0, number), self.sessions.address(peer.0, number));
        self.sessions.set_way(now, peer.0, number, way);
        if before.0 != Some(port) {
            self.forget_pair(peer, number);
            self.states[peer.0].lanes[number].since = Some(now);
            // The state of the previous port, or its absence, does not apply to this one.
            self.links[peer.0].set_there(now, number, true);
        }
        let address = self.sessions.address(peer.0, number);
        if self.links[peer.0].is_closed(number) {
            // A lane without an address waits until something arrives on it.
            if address.is_some() {
                self.links[peer.0].open_lane(now, number, &options);
            }
            return;
        }
        let host = |address: Option<Address>| address.map(Address::host);
        if before.0 != Some(port) || before.1.is_some() && host(before.1) != host(address) {
            self.links[peer.0].set_carrier(number, carrier(&self.config, lane, address));
            self.links[peer.0].lane_moved(now, number);
        }
    }

    fn take_lane_away(&mut self, now: Instant, peer: PeerId, lane: usize) {
        self.sessions.remove_way(now, peer.0, lane);
        self.links[peer.0].close_lane(now, lane);
        if !self.links[peer.0].is_closed(lane) {
            // The link keeps its last open lane. Without a port it carries nothing until another one opens.
            self.links[peer.0].set_there(now, lane, false);
        }
        self.states[peer.0].lanes[lane] = LaneState::default();
        self.forget_pair(peer, lane);
    }

    fn forget_pair(&mut self, peer: PeerId, ours: usize) {
        self.states[peer.0].pairs.iter_mut().filter(|pair| **pair == Some(ours)).for_each(|pair| *pair = None);
    }

    /// Lanes of the peer are gone: our lanes paired with them, if not configured, carry nothing until something arrives from
    /// there again.
    pub(super) fn take_gone(&mut self, now: Instant, peer: PeerId) {
        while let Some((theirs, next)) = self.links[peer.0].poll_gone() {
            let state = &mut self.states[peer.0];
            state.gone_below[usize::from(theirs)] = next;
            let Some(ours) = state.pairs[usize::from(theirs)].take() else { continue };
            let shared = state.pairs.contains(&Some(ours));
            if !shared && !self.sessions.is_configured(peer.0, ours) {
                self.links[peer.0].close_lane(now, ours);
                if self.links[peer.0].is_closed(ours) {
                    self.sessions.forget_address(peer.0, ours);
                }
            }
        }
    }

    /// Reopens a closed lane that is heard on, or whose address is known.
    pub(super) fn reopen_lane(&mut self, now: Instant, peer: PeerId, lane: usize) {
        if !self.links[peer.0].is_closed(lane) {
            return;
        }
        let Some(port) = self.sessions.port(peer.0, lane) else { return };
        let options = lane_options(&self.config, &self.lane_like(peer, lane, port));
        self.links[peer.0].open_lane(now, lane, &options);
    }

    /// The configuration of a lane, or for one created for a lane of the peer, that of a lane by the same port.
    pub(super) fn lane_like(&self, peer: PeerId, lane: usize, port: PortId) -> LaneConfig {
        let lanes = &self.config.peers[peer.0].lanes;
        let own = self.states[peer.0].place(lane);
        let own = own.and_then(|place| lanes.get(place));
        let like = own.or_else(|| lanes.iter().find(|lane| lane.port == port)).copied();
        LaneConfig { address: None, one_way: false, ..like.unwrap_or(LaneConfig::new(port, None)) }
    }

    /// These addresses are no longer ours. Lanes to a peer that sent from them let the system choose the source, and ask for an answer,
    /// which shows the peer our new address.
    pub(crate) fn addresses_gone(&mut self, now: Instant, peer: PeerId, gone: &[IpAddr]) {
        for lane in self.sessions.addresses_gone(peer.0, gone) {
            self.links[peer.0].lane_moved(now, lane);
        }
        self.touch(peer);
    }

    /// The lanes to a peer by a port.
    pub(super) fn lanes_by(&self, peer: PeerId, port: PortId) -> Vec<usize> {
        let lanes = 0..self.links[peer.0].lanes();
        lanes.filter(|lane| self.sessions.port(peer.0, *lane) == Some(port)).collect()
    }

    /// Sets whether a port is usable for a peer. Lanes by an unusable port count as failed, and ask for an answer once it is usable again.
    pub(crate) fn set_port_there(&mut self, now: Instant, peer: PeerId, port: PortId, there: bool) {
        for lane in self.lanes_by(peer, port) {
            self.links[peer.0].set_there(now, lane, there);
        }
        self.touch(peer);
    }

    /// Sets whether a port takes datagrams now.
    pub(crate) fn set_port_room(&mut self, now: Instant, port: PortId, room: bool) {
        for peer in self.ids() {
            self.lanes_by(peer, port).into_iter().for_each(|lane| self.links[peer.0].set_room(now, lane, room));
        }
    }

    /// Sets whether a port takes bulk now.
    pub(crate) fn set_bulk_room(&mut self, port: PortId, room: bool) {
        for peer in self.ids() {
            self.lanes_by(peer, port).into_iter().for_each(|lane| self.links[peer.0].hold_bulk(lane, !room));
        }
    }

    /// A lane's configured address changed, or is known for the first time: the peer is called there.
    pub(crate) fn relocate(&mut self, now: Instant, peer: PeerId, lane: usize, address: Address) {
        let config = self.config.peers.get_mut(peer.0);
        let Some(config) = config.and_then(|config| config.lanes.get_mut(lane)) else { return };
        config.address = Some(address);
        let lane = self.states[peer.0].numbers[lane];
        let before = self.sessions.address(peer.0, lane);
        self.sessions.rehome(now, peer.0, lane, address);
        self.fit_carrier(peer, lane);
        if self.links[peer.0].is_closed(lane) {
            self.reopen_lane(now, peer, lane);
        } else if before.is_some_and(|before| before.host() != address.host()) {
            // Estimates of the path to another host do not apply to this one.
            self.links[peer.0].lane_moved(now, lane);
        }
        self.touch(peer);
    }

    /// Whether a lane to the peer, by its place in the configuration, has failed: nothing sent on it is answered.
    pub(crate) fn lane_failed(&self, peer: PeerId, lane: usize) -> bool {
        let number = self.states.get(peer.0).and_then(|state| state.numbers.get(lane));
        number.is_some_and(|lane| self.links[peer.0].lane_failed(*lane))
    }

    /// The lanes that exist to a peer, in the order of its status: place in the configuration, and whether it has failed.
    pub(crate) fn lane_failures(&self, peer: PeerId) -> Vec<(Option<usize>, bool)> {
        let Some(state) = self.states.get(peer.0) else { return Vec::new() };
        let lanes = self.lanes(peer).into_iter().filter(|lane| self.sessions.port(peer.0, *lane).is_some());
        lanes.map(|lane| (state.place(lane), self.links[peer.0].lane_failed(lane))).collect()
    }

    /// Sends an echo, called `id`, by every lane to a peer that leads somewhere. Returns their numbers, with their status.
    pub(crate) fn echo(&mut self, now: Instant, peer: PeerId, id: u32) -> Vec<(usize, LaneStatus)> {
        if peer.0 >= self.links.len() {
            return Vec::new();
        }
        let lanes = self.lanes(peer).into_iter();
        let lanes: Vec<_> = lanes.filter_map(|lane| Some((lane, self.lane_status(now, peer, lane)?))).collect();
        lanes.iter().for_each(|(lane, _)| self.links[peer.0].echo(*lane, id));
        self.touch(peer);
        lanes
    }

    /// Where the peer's lanes come from: the number of each, its address, and others that it was at recently. Another socket of ours is
    /// another destination, for which a NAT may have another mapping.
    pub(crate) fn seen(&self, now: Instant, peer: PeerId) -> Vec<(u8, Address, Vec<Address>)> {
        let Some(state) = self.states.get(peer.0) else { return Vec::new() };
        let pairs = state.pairs.iter().enumerate().filter_map(|(theirs, ours)| Some((theirs as u8, (*ours)?)));
        let sight = |(theirs, ours): (u8, usize)| {
            let address = self.sessions.address(peer.0, ours)?;
            let others =
                state.lanes[ours].addresses.recent(now, state.lanes[ours].since).filter(|other| *other != address);
            Some((theirs, address, others.collect()))
        };
        pairs.filter_map(sight).collect()
    }

    /// The status of a lane by its number; `None` of one that is gone.
    pub(crate) fn lane(&self, now: Instant, peer: PeerId, lane: usize) -> Option<LaneStatus> {
        let is_there = self.links.get(peer.0).is_some_and(|link| lane < link.lanes() && !link.is_closed(lane));
        is_there.then(|| self.lane_status(now, peer, lane)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(port: u16, last: u8) -> LaneConfig {
        LaneConfig::new(PortId(port), Some(Address::Ip(([192, 0, 2, last], 4780).into())))
    }

    fn of(old: &[LaneConfig], new: &[LaneConfig]) -> Vec<usize> {
        let old: Vec<_> = old.iter().copied().map(Some).enumerate().collect();
        numbers(&old, new, old.len(), &vec![false; old.len()])
    }

    #[test]
    fn lanes_keep_their_numbers_in_any_order() {
        let [a, b, c] = [lane(0, 1), lane(1, 1), lane(2, 1)];
        assert_eq!(of(&[a, b, c], &[c, a, b]), [2, 0, 1]);
        assert_eq!(of(&[a, b, c], &[b, c]), [1, 2], "one goes");
        assert_eq!(of(&[a, b], &[b, c, a]), [1, 2, 0], "one comes");
    }

    #[test]
    fn a_lane_that_leads_elsewhere_keeps_its_number() {
        assert_eq!(of(&[lane(0, 1), lane(0, 2)], &[lane(0, 2), lane(0, 3)]), [1, 0]);
        assert_eq!(of(&[lane(0, 1), lane(1, 2)], &[lane(0, 1), lane(2, 2)]), [0, 1], "and one by another port");
    }

    #[test]
    fn unused_lane_numbers_come_first() {
        let many: Vec<_> = (0..LANES_MAX as u8).map(|n| lane(0, n)).collect();
        // Of five numbers 0 is configured, 1 and 3 were closed, 2 and 4 were created for lanes of the peer.
        let closed = [false, true, false, true, false];
        assert_eq!(numbers(&[(0, Some(many[0]))], &many, 5, &closed), [0, 5, 6, 7, 1, 3, 2, 4]);
    }
}
