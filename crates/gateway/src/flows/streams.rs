//! The bytes of the owner's flows: written, read and ended.

use super::Flows;
use super::sealed::worthwhile;
use crate::neighbours::Side;
use crate::routing::Net;
use wavelane_base::{FlowId, Instant, ReadOutcome};
use wavelane_wire::frame::Reason;

impl Flows {
    pub(crate) fn write(&mut self, net: &mut Net, now: Instant, flow: FlowId, data: &[u8]) -> usize {
        if self.is_sealed(flow) {
            return self.write_sealed(net, now, flow, data);
        }
        let room = self.edge_room(flow).min(data.len());
        if room == 0 {
            // While older bytes are being replayed nothing may overtake them, not even an empty write.
            self.with_edge(flow, |edge| edge.writer_waits |= !data.is_empty());
            return 0;
        }
        let Some((peer, name)) = self.table.find(flow) else { return 0 };
        net.peers.lend(peer);
        let taken = net.peers.blocks(peer).write(now, name, &data[..room]);
        self.with_edge(flow, |edge| {
            edge.wrote(&data[..taken]);
            edge.writer_waits |= taken < data.len();
        });
        self.watch_vtx(net, now, flow);
        net.peers.touch(peer);
        taken
    }

    /// Reads a flow that is not sealed.
    pub(crate) fn read(&mut self, net: &mut Net, now: Instant, flow: FlowId, buf: &mut [u8]) -> ReadOutcome {
        let Some((peer, name)) = self.table.find(flow) else {
            return match self.table.edge(flow) {
                Some(edge) if edge.reach.finished => ReadOutcome::End,
                Some(_) => ReadOutcome::Blocked,
                None => ReadOutcome::Reset,
            };
        };
        match self.table.edge(flow) {
            Some(edge) if edge.reach.finished => return ReadOutcome::End,
            // Octets that overtook the answer wait for it: if the way is lost before, the flow is asked for from its start.
            Some(edge) if !edge.accepted => return ReadOutcome::Blocked,
            _ => {}
        }
        net.peers.lend(peer);
        let outcome = net.peers.blocks(peer).read(now, name, buf);
        self.tell_reach(net, now, flow, (peer, name), outcome);
        net.peers.touch(peer);
        outcome
    }

    pub(crate) fn shutdown(&mut self, net: &mut Net, now: Instant, flow: FlowId) {
        if self.is_sealed(flow) {
            return self.shutdown_sealed(net, now, flow);
        }
        let replaying = self.table.edge(flow).is_some_and(|edge| {
            edge.ended = true;
            edge.is_replaying()
        });
        let Some((peer, name)) = self.table.find(flow) else { return };
        if !replaying {
            net.peers.blocks(peer).shutdown(now, name);
            net.peers.touch(peer);
        }
    }

    pub(crate) fn reset(&mut self, net: &mut Net, now: Instant, flow: FlowId) {
        let at = self.table.find(flow);
        // A late request for it is not one for a new flow.
        self.remember_ended(flow, false);
        self.forget(net, flow);
        if let Some((peer, name)) = at {
            net.peers.blocks(peer).end(now, name, Reason::Aborted);
            net.peers.touch(peer);
        }
    }

    /// How much the flow's edge lets it write now: without an edge, anything.
    pub(super) fn edge_room(&mut self, flow: FlowId) -> usize {
        let share = self.share_kept(flow);
        let carried = self.table.find(flow).is_some();
        match self.table.edge(flow) {
            None => usize::MAX,
            Some(edge) if edge.ended || edge.is_replaying() || !carried || !edge.can_seal() => 0,
            Some(edge) => edge.room(share),
        }
    }

    /// How many bytes `write` would take now.
    pub(crate) fn room(&mut self, net: &mut Net, now: Instant, flow: FlowId) -> usize {
        let edge = self.edge_room(flow);
        let Some((peer, name)) = self.table.find(flow) else {
            self.with_edge(flow, |edge| edge.writer_waits = true);
            return 0;
        };
        net.peers.lend(peer);
        let room = net.peers.blocks(peer).room(name).min(edge);
        let room = if self.is_sealed(flow) { worthwhile(room) } else { room };
        if room == 0 {
            self.with_edge(flow, |edge| edge.writer_waits = true);
            net.peers.blocks(peer).want_room(now, name);
            net.peers.touch(peer);
        }
        room
    }

    /// What `read` would return of a flow that is not sealed.
    pub(crate) fn unread<'a>(&self, net: &'a mut Net, flow: FlowId) -> (&'a [u8], &'a [u8]) {
        match self.table.find(flow) {
            Some((peer, name))
                if self.table.look_at_edge(flow).is_none_or(|edge| edge.accepted && !edge.reach.finished) =>
            {
                net.peers.blocks(peer).unread(name)
            }
            _ => (&[], &[]),
        }
    }

    /// Marks the first `octets` of what is unread as read.
    pub(crate) fn consume(&mut self, net: &mut Net, now: Instant, flow: FlowId, octets: usize) {
        if self.is_sealed(flow) {
            return self.consume_sealed(flow, octets);
        }
        let Some((peer, name)) = self.table.find(flow).filter(|_| octets > 0) else { return };
        net.peers.lend(peer);
        let outcome = net.peers.blocks(peer).consume(now, name, octets);
        self.tell_reach(net, now, flow, (peer, name), outcome);
        net.peers.touch(peer);
    }

    /// Across relays: sends the other edge what our application has read (Progress).
    pub(super) fn tell_reach(
        &mut self,
        net: &mut Net,
        now: Instant,
        flow: FlowId,
        (peer, name): Side,
        outcome: ReadOutcome,
    ) {
        let Some(edge) = self.table.edge(flow) else { return };
        let at_once = match outcome {
            ReadOutcome::Data(octets) => edge.read(octets),
            ReadOutcome::End => {
                edge.reach.finished = true;
                true
            }
            ReadOutcome::Blocked | ReadOutcome::Reset => return,
        };
        let said = edge.say_reach();
        net.peers.blocks(peer).say_progress(now, name, said, at_once);
    }
}
