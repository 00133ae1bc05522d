//! Datagrams that arrive, and sessions that begin with them.

use super::{Event, Gateway, PeerId, packets};
use wavelane_base::{FrameMeta, Instant, PortId};
use wavelane_transport::link::{Arrival, Echo};
use wavelane_transport::session::{Established, Incoming, Origin};

impl Gateway {
    pub(super) fn settle_session(&mut self, now: Instant, peer: PeerId) {
        let link = &mut self.links[peer.0];
        while let Some(Echo { lane, id, round_trip }) = link.poll_echo() {
            self.events.push_back(Event::Echo { peer, lane, id, round_trip });
        }
        // The first session is established unasked, so that a wrong key or address shows at start and not at the first flow.
        let state = &mut self.peers[peer.0];
        let wants = !state.met || state.down || link.wants_session(now);
        self.sessions.want(now, peer.0, wants);
        state.can_seal = self.sessions.can_seal(now, peer.0);
        let asks = link.is_owed_answer() || wants && !state.can_seal;
        // With a long RTT the answer may still come.
        let patience = packets::DOWN_AFTER.max(link.round_trip().times(2));
        state.down_at = if asks { state.down_at.or(Some(now + patience)) } else { None };
        if link.take_silence() {
            self.sessions.suspect(now, peer.0);
            if core::mem::take(&mut self.peers[peer.0].up) {
                self.events.push_back(Event::PeerSilent(peer));
            }
        }
    }

    pub(super) fn established(&mut self, now: Instant, session: &Established, port: PortId) {
        let peer = PeerId(session.peer);
        self.peers[peer.0].met = true;
        if session.restarted {
            let state = &mut self.peers[peer.0];
            (state.pairs, state.gone_below) = Default::default();
            // Lanes created as the other directions of its lanes lead nowhere until those are heard again.
            let made = (0..self.sessions.ways(peer.0)).filter(|way| !state.numbers.contains(way));
            made.for_each(|way| self.sessions.forget_address(peer.0, way));
            self.links[peer.0].restart(now);
            self.events.push_back(Event::PeerRestarted(peer));
        }
        self.links[peer.0].suppose(now, session.round_trip);
        if session.confirm {
            self.links[peer.0].confirm_session();
        }
        self.established_from(now, session, port);
        (0..self.sessions.ways(peer.0)).for_each(|lane| self.fit_carrier(peer, lane));
        self.heard(now, peer);
    }

    pub(super) fn heard(&mut self, now: Instant, peer: PeerId) {
        let state = &mut self.peers[peer.0];
        state.heard = Some(now);
        let returned = state.down;
        (state.down_at, state.down) = (None, false);
        if !core::mem::replace(&mut state.up, true) {
            self.events.push_back(Event::PeerUp(peer));
        }
        self.links[peer.0].heard(now);
        self.prolong_pause(now, peer);
        if returned {
            self.ways.returned(peer);
            self.leave_lost_ways(now);
        }
    }

    pub(super) fn handle_datagram(&mut self, now: Instant, port: PortId, datagram: &mut [u8], meta: &FrameMeta) {
        match self.sessions.handle_datagram(now, port, datagram, Origin { from: meta.from, at: meta.at }) {
            Incoming::Data { peer, lane, number, payload, newest, established, open } => {
                if let Some(session) = established {
                    self.established(now, &session, port);
                }
                let late = number < self.peers[peer].gone_below[usize::from(lane)];
                let back =
                    if late { None } else { self.lane_back(now, PeerId(peer), lane, (port, meta.from, meta.at)) };
                if let Some(ours) = back {
                    self.reopen_lane(now, PeerId(peer), ours);
                    if newest {
                        self.sessions.set_local(peer, ours, meta.at);
                    }
                    if let Some(from) = meta.from {
                        self.heard_from(now, PeerId(peer), ours, from, datagram.len(), newest);
                    }
                }
                self.heard(now, PeerId(peer));
                let octets = datagram.len() + self.links[peer].overhead(back);
                self.peers[peer].note_heard_by(now, port, back, octets);
                self.lend(PeerId(peer));
                let arrival = Arrival { now, rx_time: meta.rx_time, lane, back, number, ecn: meta.ecn, open };
                self.links[peer].handle_payload(arrival, &datagram[payload]);
                self.take_path_responses(now, PeerId(peer));
                self.take_gone(now, PeerId(peer));
                self.settle(now, PeerId(peer));
                self.note_answer(now, PeerId(peer));
            }
            Incoming::Established(session) => {
                self.established(now, &session, port);
                self.settle(now, PeerId(session.peer));
            }
            Incoming::Handled | Incoming::Dropped(_) => {}
        }
        self.drain_session_events(now);
    }
}
