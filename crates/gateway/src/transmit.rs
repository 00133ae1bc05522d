//! Transmission: one sealed datagram, or a batch of equal-size ones for the same neighbour.

use super::{Gateway, PeerId};
use wavelane_base::{Carrier, Class, Ecn, Instant, LinkAcks, PortId, Radio, Transmit};

impl Gateway {
    /// The next datagram for `port`, or a batch.
    ///
    /// A batch holds what separate calls would have returned at this moment, byte for byte, so pacer, window and packet numbers
    /// count each datagram in it. It ends with the first one that is not full.
    pub(super) fn next_batch(
        &mut self,
        now: Instant,
        port: PortId,
        buf: &mut [u8],
        segments_max: usize,
    ) -> Option<Transmit> {
        if let Some(out) = self.sessions.poll_handshake(now, port, buf) {
            return Some(Transmit {
                len: out.len,
                to: out.to,
                from: out.from,
                class: Class::Control,
                ..Transmit::default()
            });
        }
        for step in 0..self.links.len() {
            let peer = (self.cursor + step) % self.links.len();
            if !self.sessions.can_seal(now, peer) {
                continue;
            }
            for lane in 0..self.sessions.ways(peer) {
                // A lane created for a lane of the peer leads nowhere until that one is heard.
                let nowhere = !self.peers[peer].numbers.contains(&lane) && self.sessions.address(peer, lane).is_none();
                if self.sessions.port(peer, lane) != Some(port) || nowhere {
                    continue;
                }
                let Some((first, class)) = self.next_datagram(now, peer, lane, buf) else { continue };
                self.cursor = (peer + 1) % self.links.len();
                // The lane counts an unsealed one as sent and will declare it lost, so it is retransmitted under the next
                // session.
                let Some(first) = first else { continue };
                // A radio takes options per frame.
                let radio = self.radio_of(peer, lane);
                let len = self.extend(now, peer, lane, buf, first, if radio.is_some() { 1 } else { segments_max });
                let segment_size = (len > first).then_some(first as u16);
                let (to, from) = (self.sessions.address(peer, lane), self.sessions.local(peer, lane));
                let acks = radio.map(|radio| radio.acks).filter(|_| class == Class::Bulk);
                let no_ack = acks.is_some_and(|acks| acks != LinkAcks::Each);
                let guarded = acks == Some(LinkAcks::First);
                let (ecn, txop) = (Ecn::NotEct, radio.is_some());
                return Some(Transmit { len, segment_size, to, from, class, ecn, no_ack, guarded, txop });
            }
        }
        None
    }

    fn carrier_of(&self, peer: usize, lane: usize) -> Carrier {
        let place = self.peers[peer].numbers.iter().position(|number| *number == lane);
        let own = place.map(|place| self.config.peers[peer].lanes[place].carrier);
        let like = || self.sessions.port(peer, lane).map(|port| self.lane_like(PeerId(peer), lane, port).carrier);
        own.or_else(like).unwrap_or_default()
    }

    fn radio_of(&self, peer: usize, lane: usize) -> Option<Radio> {
        let place = self.peers[peer].numbers.iter().position(|number| *number == lane)?;
        self.config.peers[peer].lanes[place].carrier.radio
    }

    /// Composes and seals one datagram at the start of `buf`: its length, or `None` within if it could not be sealed.
    fn next_datagram(
        &mut self,
        now: Instant,
        peer: usize,
        lane: usize,
        buf: &mut [u8],
    ) -> Option<(Option<usize>, Class)> {
        let room = buf.len();
        let overheard = self.config.overhear && self.radio_of(peer, lane).is_some() && self.sessions.overhears(peer);
        self.links[peer].let_overhear(lane, overheard);
        let draft = match self.room_for_peer(peer, lane, room) {
            Ok(room) => self.links[peer].compose(now, lane, &mut buf[..room])?,
            Err(room) => self.links[peer].compose_path_frames(now, lane, &mut buf[..room])?,
        };
        let plain = (draft.plain_len, draft.open);
        let sealed = self.sessions.seal_partly(now, peer, (draft.lane, draft.number), buf, plain);
        self.note_sent_to_peer(now, peer, lane, sealed.unwrap_or(0));
        if let Some(len) = sealed {
            let octets = len + self.links[peer].overhead(Some(lane));
            self.peers[peer].sent.count(octets);
            self.peers[peer].lanes[lane].sent.count(octets);
        }
        self.settle(now, PeerId(peer));
        self.counters.dropped_no_session += u64::from(sealed.is_none());
        Some((sealed, draft.class))
    }

    /// Appends datagrams while they are as long as the first, which is at the start of `buf`. Returns the total octets.
    fn extend(
        &mut self,
        now: Instant,
        peer: usize,
        lane: usize,
        buf: &mut [u8],
        first: usize,
        segments_max: usize,
    ) -> usize {
        let room = buf.len().min(self.carrier_of(peer, lane).batch) / first;
        let most = self.links[peer].batch_max(lane, first).min(segments_max).min(room);
        let mut len = first;
        while len < most * first
            && !self.links[peer].probe_waits(now, lane)
            && !self.sessions.port(peer, lane).is_some_and(|port| self.sessions.handshake_waits(port))
        {
            let Some((Some(next), _)) = self.next_datagram(now, peer, lane, &mut buf[len..len + first]) else { break };
            len += next;
            if next < first {
                break;
            }
        }
        len
    }
}
