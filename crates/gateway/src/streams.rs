//! The bytes of the owner's flows: written, read and ended.

use super::Gateway;
use super::relay::Side;
use super::sealed::worthwhile;
use wavelane_base::{FlowId, Instant, ReadOutcome, Streams};
use wavelane_wire::frame::Reason;

impl Streams for Gateway {
    fn write(&mut self, now: Instant, flow: FlowId, data: &[u8]) -> usize {
        if self.is_sealed(flow) {
            return self.write_sealed(now, flow, data);
        }
        let room = self.edge_room(flow).min(data.len());
        if room == 0 {
            // While older bytes are being replayed nothing may overtake them, not even an empty write.
            self.with_edge(flow, |edge| edge.writer_waits |= !data.is_empty());
            return 0;
        }
        let Some((peer, name)) = self.flows.find(flow) else { return 0 };
        self.lend(peer);
        let taken = self.blocks(peer).write(now, name, &data[..room]);
        self.with_edge(flow, |edge| {
            edge.wrote(&data[..taken]);
            edge.writer_waits |= taken < data.len();
        });
        self.watch_vtx(now, flow);
        self.settle(now, peer);
        taken
    }

    fn read(&mut self, now: Instant, flow: FlowId, buf: &mut [u8]) -> ReadOutcome {
        if self.is_sealed(flow) {
            return self.read_sealed(now, flow, buf);
        }
        let Some((peer, name)) = self.flows.find(flow) else {
            return match self.flows.edge(flow) {
                Some(edge) if edge.reach.finished => ReadOutcome::End,
                Some(_) => ReadOutcome::Blocked,
                None => ReadOutcome::Reset,
            };
        };
        match self.flows.edge(flow) {
            Some(edge) if edge.reach.finished => return ReadOutcome::End,
            // Octets that overtook the answer wait for it: if the way is lost before, the flow is asked for from its start.
            Some(edge) if !edge.accepted => return ReadOutcome::Blocked,
            _ => {}
        }
        self.lend(peer);
        let outcome = self.blocks(peer).read(now, name, buf);
        self.tell_reach(now, flow, (peer, name), outcome);
        self.settle(now, peer);
        outcome
    }

    fn shutdown(&mut self, now: Instant, flow: FlowId) {
        if self.is_sealed(flow) {
            return self.shutdown_sealed(now, flow);
        }
        let replaying = self.flows.edge(flow).is_some_and(|edge| {
            edge.ended = true;
            edge.is_replaying()
        });
        let Some((peer, name)) = self.flows.find(flow) else { return };
        if !replaying {
            self.blocks(peer).shutdown(now, name);
            self.settle(now, peer);
        }
    }

    fn reset(&mut self, now: Instant, flow: FlowId) {
        let at = self.flows.find(flow);
        // A late request for it is not one for a new flow.
        self.remember_ended(flow, false);
        self.forget(flow);
        if let Some((peer, name)) = at {
            self.blocks(peer).end(now, name, Reason::Aborted);
            self.settle(now, peer);
        }
    }
}

impl Gateway {
    /// How much the flow's edge lets it write now: without an edge, anything.
    pub(super) fn edge_room(&mut self, flow: FlowId) -> usize {
        let share = self.share_kept(flow);
        let carried = self.flows.find(flow).is_some();
        match self.flows.edge(flow) {
            None => usize::MAX,
            Some(edge) if edge.ended || edge.is_replaying() || !carried || !edge.can_seal() => 0,
            Some(edge) => edge.room(share),
        }
    }

    /// How many bytes `write` would take now. If none, an [`crate::Event::Writable`] follows once there is room worth writing for, so
    /// that the bytes may wait where they are until then.
    pub fn room(&mut self, now: Instant, flow: FlowId) -> usize {
        let edge = self.edge_room(flow);
        let Some((peer, name)) = self.flows.find(flow) else {
            self.with_edge(flow, |edge| edge.writer_waits = true);
            return 0;
        };
        self.lend(peer);
        let room = self.blocks(peer).room(name).min(edge);
        let room = if self.is_sealed(flow) { worthwhile(room) } else { room };
        if room == 0 {
            self.with_edge(flow, |edge| edge.writer_waits = true);
            self.blocks(peer).want_room(now, name);
            self.settle(now, peer);
        }
        room
    }

    /// What `read` would return, in place, in two parts. Also empty if `read` would return no bytes.
    pub fn unread(&mut self, now: Instant, flow: FlowId) -> (&[u8], &[u8]) {
        if self.is_sealed(flow) {
            return (self.unread_sealed(now, flow), &[]);
        }
        match self.flows.find(flow) {
            Some((peer, name)) if self.flows.edge(flow).is_none_or(|edge| edge.accepted && !edge.reach.finished) => {
                self.blocks(peer).unread(name)
            }
            _ => (&[], &[]),
        }
    }

    /// Marks the first `octets` of [`Gateway::unread`] as read.
    pub fn consume(&mut self, now: Instant, flow: FlowId, octets: usize) {
        if self.is_sealed(flow) {
            return self.consume_sealed(flow, octets);
        }
        let Some((peer, name)) = self.flows.find(flow).filter(|_| octets > 0) else { return };
        self.lend(peer);
        let outcome = self.blocks(peer).consume(now, name, octets);
        self.tell_reach(now, flow, (peer, name), outcome);
        self.settle(now, peer);
    }

    /// Across relays: sends the other edge what our application has read (Progress).
    pub(super) fn tell_reach(&mut self, now: Instant, flow: FlowId, (peer, name): Side, outcome: ReadOutcome) {
        let Some(edge) = self.flows.edge(flow) else { return };
        let at_once = match outcome {
            ReadOutcome::Data(octets) => edge.read(octets),
            ReadOutcome::End => {
                edge.reach.finished = true;
                true
            }
            ReadOutcome::Blocked | ReadOutcome::Reset => return,
        };
        let said = edge.say_reach();
        self.blocks(peer).say_progress(now, name, said, at_once);
    }
}
