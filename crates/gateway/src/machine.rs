//! The gateway as a machine: frames, timeouts, transmission, events.

use super::{Event, Gateway, PeerId};
use wavelane_base::{FrameMeta, Instant, Machine, PortId, Transmit, Wakeup};

impl Machine for Gateway {
    type Event = Event;

    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        let size = meta.segment.map_or(frame.len(), usize::from).max(1);
        for datagram in frame.chunks_mut(size) {
            self.handle_datagram(now, port, datagram, &meta);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.sessions.handle_timeout(now);
        self.drain_session_events(now);
        for peer in 0..self.links.len() {
            self.links[peer].handle_timeout(now);
            self.give_up_address(now, PeerId(peer));
            self.note_down(now, PeerId(peer));
            self.refuse_waiting(now, PeerId(peer));
            self.settle(now, PeerId(peer));
            self.note_path_mtu(now, peer);
        }
        self.look_after_lost_flows(now);
        self.look_for_lost_blocks(now);
        self.look_at_turns(now);
        self.give_turns(now);
        if let Some(peer) = self.dirty.first().copied() {
            self.settle(now, peer);
        }
    }

    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], segments_max: usize) -> Option<Transmit> {
        let batch = self.next_batch(now, port, buf, segments_max);
        // A handshake that was sent may cause an event for the owner.
        self.drain_session_events(now);
        batch
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        let links = self.links.iter().zip(&self.peers).map(|(link, peer)| link.poll_timeout(peer.can_seal));
        let links = links.chain((0..self.links.len()).map(|peer| self.down_time(PeerId(peer))));
        let lanes = self.peers.iter().flat_map(|peer| &peer.lanes);
        let links = links.chain(lanes.map(|lane| lane.addresses.poll_timeout()));
        let lost = self
            .flows
            .first_deadline()
            .map(|(at, _)| Wakeup { at, cause: "gateway: lost flow given up or tried again" });
        let flows = Wakeup::earliest(Wakeup::earliest(lost, self.vtx_wakeup()), self.grants_wakeup());
        Wakeup::earliest(links.fold(self.sessions.poll_timeout(), Wakeup::earliest), flows)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
