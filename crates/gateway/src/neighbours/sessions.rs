//! Datagrams that arrive, and sessions that begin with them.

use super::{DOWN_AFTER, Neighbours};
use crate::{GatewayEvent, PeerId};
use core::ops::Range;
use wavelane_base::{FrameMeta, Instant, PortId};
use wavelane_transport::link::{Arrival, Echo};
use wavelane_transport::session::{Established, Incoming, OpenOctets, Origin};

/// Data in a datagram that a peer sealed.
#[derive(Debug)]
pub(crate) struct Data<'a> {
    now: Instant,
    port: PortId,
    meta: &'a FrameMeta,
    pub(crate) peer: PeerId,
    /// The peer's lane, and the number of the packet there.
    lane: u8,
    number: u64,
    payload: Range<usize>,
    newest: bool,
    open: Option<OpenOctets>,
}

impl Neighbours {
    /// After a link's events were handled: reports what became of echoes, and determines whether a session is needed.
    pub(crate) fn settle(&mut self, now: Instant, peer: PeerId) {
        self.note_held(peer);
        let link = &mut self.links[peer.0];
        while let Some(Echo { lane, id, round_trip }) = link.poll_echo() {
            self.events.push_back(GatewayEvent::Echo { peer, lane, id, round_trip });
        }
        // The first session is established unasked, so that a wrong key or address shows at start and not at the first flow.
        let state = &mut self.states[peer.0];
        let wants = !state.met || state.down || link.wants_session(now);
        self.sessions.want(now, peer.0, wants);
        state.can_seal = self.sessions.can_seal(now, peer.0);
        let asks = link.is_owed_answer() || wants && !state.can_seal;
        // With a long RTT the answer may still come.
        let patience = DOWN_AFTER.max(link.round_trip().times(2));
        state.down_at = if asks { state.down_at.or(Some(now + patience)) } else { None };
        if link.take_silence() {
            self.sessions.suspect(now, peer.0);
            if core::mem::take(&mut self.states[peer.0].up) {
                self.events.push_back(GatewayEvent::PeerSilent(peer));
            }
        }
    }

    /// Opens a datagram: the session that it established, and the data in it.
    pub(crate) fn open_datagram<'a>(
        &mut self,
        now: Instant,
        port: PortId,
        datagram: &mut [u8],
        meta: &'a FrameMeta,
    ) -> (Option<Established>, Option<Data<'a>>) {
        match self.sessions.handle_datagram(now, port, datagram, Origin { from: meta.from, at: meta.at }) {
            Incoming::Data { peer, lane, number, payload, newest, established, open } => {
                let peer = PeerId(peer);
                (established, Some(Data { now, port, meta, peer, lane, number, payload, newest, open }))
            }
            Incoming::Established(session) => (Some(session), None),
            Incoming::Handled | Incoming::Dropped(_) => (None, None),
        }
    }

    /// A session was established by a datagram at `port`, with the peer that is returned: it was heard.
    pub(crate) fn establish(&mut self, now: Instant, session: &Established, port: PortId) -> PeerId {
        let peer = PeerId(session.peer);
        let state = &mut self.states[peer.0];
        state.met = true;
        if session.restarted {
            state.pairs = Default::default();
            state.gone_below = Default::default();
            // Lanes created as the other directions of its lanes lead nowhere until those are heard again.
            let made = (0..self.sessions.ways(peer.0)).filter(|way| !state.numbers.contains(way));
            made.for_each(|way| self.sessions.forget_address(peer.0, way));
            self.links[peer.0].restart(now);
            self.events.push_back(GatewayEvent::PeerRestarted(peer));
        }
        self.links[peer.0].suppose(now, session.round_trip);
        if session.confirm {
            self.links[peer.0].confirm_session();
        }
        self.established_from(now, session, port);
        (0..self.sessions.ways(peer.0)).for_each(|lane| self.fit_carrier(peer, lane));
        self.touch(peer);
        peer
    }

    /// A peer was heard. Returns whether it was down before.
    pub(crate) fn heard(&mut self, now: Instant, peer: PeerId) -> bool {
        let state = &mut self.states[peer.0];
        state.heard = Some(now);
        let returned = state.down;
        state.down_at = None;
        state.down = false;
        if !core::mem::replace(&mut state.up, true) {
            self.events.push_back(GatewayEvent::PeerUp(peer));
        }
        self.links[peer.0].heard(now);
        returned
    }

    /// Finds our lane for the other direction of data of `octets`, and where it leads.
    pub(crate) fn trace_back(&mut self, data: &Data<'_>, octets: usize) -> Option<usize> {
        let Data { now, port, meta, peer, lane, number, newest, .. } = *data;
        let late = number < self.states[peer.0].gone_below[usize::from(lane)];
        let back = if late { None } else { self.lane_back(now, peer, lane, (port, meta.from, meta.at)) }?;
        self.reopen_lane(now, peer, back);
        if newest {
            self.sessions.set_local(peer.0, back, meta.at);
        }
        if let Some(from) = meta.from {
            self.heard_from(now, peer, back, from, octets, newest);
        }
        Some(back)
    }

    /// Takes data out of its datagram. `back` is as [`Neighbours::trace_back`] found it.
    pub(crate) fn take_data(&mut self, data: Data<'_>, back: Option<usize>, datagram: &[u8]) {
        let Data { now, port, meta, peer, lane, number, payload, open, newest: _ } = data;
        let octets = datagram.len() + self.links[peer.0].overhead(back);
        self.states[peer.0].note_heard_by(now, port, back, octets);
        self.lend(peer);
        self.late = now.since(meta.rx_time);
        let arrival = Arrival { now, rx_time: meta.rx_time, lane, back, number, ecn: meta.ecn, open };
        self.links[peer.0].handle_payload(arrival, &datagram[payload]);
        self.take_path_responses(now, peer);
        self.take_gone(now, peer);
        self.touch(peer);
    }
}
