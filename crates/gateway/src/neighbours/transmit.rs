//! Transmission: one sealed datagram, or what a batch of equal-size ones for the same neighbour is made of.

use super::Neighbours;
use crate::PeerId;
use wavelane_base::{Carrier, Class, Ecn, Instant, LinkAcks, PortId, Radio, Transmit};

impl Neighbours {
    pub(crate) fn poll_handshake(&mut self, now: Instant, port: PortId, buf: &mut [u8]) -> Option<Transmit> {
        let out = self.sessions.poll_handshake(now, port, buf)?;
        Some(Transmit { len: out.len, to: out.to, from: out.from, class: Class::Control, ..Transmit::default() })
    }

    /// The peer that is served after `step` others.
    pub(crate) fn in_turn(&self, step: usize) -> PeerId {
        PeerId((self.cursor + step) % self.links.len())
    }

    /// A peer was served: next time the one after it is the first.
    pub(crate) fn served(&mut self, peer: PeerId) {
        self.cursor = (peer.0 + 1) % self.links.len();
    }

    /// How many lanes there are by which datagrams can be sealed for a peer.
    pub(crate) fn sealing_lanes(&self, now: Instant, peer: PeerId) -> usize {
        if self.sessions.can_seal(now, peer.0) { self.sessions.ways(peer.0) } else { 0 }
    }

    /// Whether a lane sends by a port.
    pub(crate) fn sends_by(&self, peer: PeerId, lane: usize, port: PortId) -> bool {
        // A lane created for a lane of the peer leads nowhere until that one is heard.
        let nowhere = self.states[peer.0].place(lane).is_none() && self.sessions.address(peer.0, lane).is_none();
        self.sessions.port(peer.0, lane) == Some(port) && !nowhere
    }

    fn carrier_of(&self, peer: PeerId, lane: usize) -> Carrier {
        let own = self.states[peer.0].place(lane).map(|place| self.config.peers[peer.0].lanes[place].carrier);
        let like = || self.sessions.port(peer.0, lane).map(|port| self.lane_like(peer, lane, port).carrier);
        own.or_else(like).unwrap_or_default()
    }

    fn radio_of(&self, peer: PeerId, lane: usize) -> Option<Radio> {
        let place = self.states[peer.0].place(lane)?;
        self.config.peers[peer.0].lanes[place].carrier.radio
    }

    /// Composes and seals one datagram at the start of `buf`: its length, or `None` within if it could not be sealed. The lane counts
    /// such a one as sent and will declare it lost, so it is retransmitted under the next session.
    pub(crate) fn next_datagram(
        &mut self,
        now: Instant,
        peer: PeerId,
        lane: usize,
        buf: &mut [u8],
    ) -> Option<(Option<usize>, Class)> {
        let room = buf.len();
        let overheard = self.config.overhear && self.radio_of(peer, lane).is_some() && self.overhears(peer);
        self.links[peer.0].let_overhear(lane, overheard);
        self.links[peer.0].let_compress(self.sessions.compresses(peer.0));
        let draft = match self.room_for_peer(peer.0, lane, room) {
            Ok(room) => self.links[peer.0].compose(now, lane, &mut buf[..room])?,
            Err(room) => self.links[peer.0].compose_path_frames(now, lane, &mut buf[..room])?,
        };
        let plain = (draft.plain_len, draft.open);
        let sealed = self.sessions.seal_partly(now, peer.0, (draft.lane, draft.number), buf, plain);
        self.note_sent_to_peer(now, peer.0, lane, sealed.unwrap_or(0));
        if let Some(len) = sealed {
            let octets = len + self.links[peer.0].overhead(Some(lane));
            self.states[peer.0].sent.count(octets);
            self.states[peer.0].lanes[lane].sent.count(octets);
        }
        self.touch(peer);
        self.dropped_no_session += u64::from(sealed.is_none());
        Some((sealed, draft.class))
    }

    /// Most octets of a batch that begins with a datagram of `first`, of at most `segments_max`.
    pub(crate) fn batch_max(
        &self,
        (peer, lane): (PeerId, usize),
        first: usize,
        buf: usize,
        segments_max: usize,
    ) -> usize {
        // A radio takes options per frame.
        let segments_max = if self.radio_of(peer, lane).is_some() { 1 } else { segments_max };
        let room = buf.min(self.carrier_of(peer, lane).batch) / first;
        first * self.links[peer.0].batch_max(lane, first).min(segments_max).min(room)
    }

    /// Whether something must go before the next datagram of a batch.
    pub(crate) fn batch_waits(&self, now: Instant, peer: PeerId, lane: usize, port: PortId) -> bool {
        self.links[peer.0].probe_waits(now, lane) || self.sessions.handshake_waits(port)
    }

    /// A batch of `len` octets, the `first` of them in its first datagram.
    pub(crate) fn batch(&self, (peer, lane): (PeerId, usize), class: Class, (len, first): (usize, usize)) -> Transmit {
        let segment_size = (len > first).then_some(first as u16);
        let (to, from) = (self.sessions.address(peer.0, lane), self.sessions.local(peer.0, lane));
        let radio = self.radio_of(peer, lane);
        let acks = radio.map(|radio| radio.acks).filter(|_| class == Class::Bulk);
        let no_ack = acks.is_some_and(|acks| acks != LinkAcks::Each);
        let guarded = acks.is_some_and(|acks| acks != LinkAcks::Never);
        Transmit { len, segment_size, to, from, class, ecn: Ecn::NotEct, no_ack, guarded, txop: radio.is_some() }
    }
}
