//! The gateway as a machine: frames, timeouts, transmission, events, and the bytes of flows.

use super::{Event, Gateway};
use wavelane_base::{FlowId, FrameMeta, Instant, Machine, PortId, ReadOutcome, Streams, Transmit, Wakeup};

impl Machine for Gateway {
    type Event = Event;

    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        let size = meta.segment.map_or(frame.len(), usize::from).max(1);
        for datagram in frame.chunks_mut(size) {
            self.handle_datagram(now, port, datagram, &meta);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.look_after_all(now);
    }

    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], segments_max: usize) -> Option<Transmit> {
        let batch = self.next_batch(now, port, buf, segments_max);
        // A handshake that was sent may cause an event for the owner.
        self.drain_session_events(now);
        batch
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        let flows = Wakeup::earliest(self.flows.poll_timeout(), self.grants.poll_timeout());
        Wakeup::earliest(self.net.peers.poll_timeout(), flows)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.net.peers.poll_event()
    }
}

impl Streams for Gateway {
    fn write(&mut self, now: Instant, flow: FlowId, data: &[u8]) -> usize {
        let taken = self.flows.write(&mut self.net, now, flow, data);
        self.settle(now);
        taken
    }

    fn read(&mut self, now: Instant, flow: FlowId, buf: &mut [u8]) -> ReadOutcome {
        let sealed = self.flows.is_sealed(flow);
        if sealed && self.open_next(now, flow) {
            return self.flows.read_opened(flow, buf);
        }
        let outcome = match sealed {
            true => self.flows.read_end(&mut self.net, now, flow),
            false => self.flows.read(&mut self.net, now, flow, buf),
        };
        self.settle(now);
        outcome
    }

    fn shutdown(&mut self, now: Instant, flow: FlowId) {
        self.flows.shutdown(&mut self.net, now, flow);
        self.settle(now);
    }

    fn reset(&mut self, now: Instant, flow: FlowId) {
        self.flows.reset(&mut self.net, now, flow);
        self.settle(now);
    }
}
