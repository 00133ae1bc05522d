//! Passing flows on: what one neighbour asks for and another one reaches.
//!
//! A relay holds two flows, one on each link, and moves bytes between them as they come (cut-through, in order). Its
//! receipts towards the source mean custody: what it has receipted it repairs itself on the next hop. It takes no more
//! than the next hop's room, so the slowest hop's pace reaches the source through the credits.

use super::policy::longest;
use super::{Backpressure, Gateway, PeerId};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{Instant, ReadOutcome, route};
use wavelane_services::hop::{HopEvent, Window};
use wavelane_wire::frame::{FlowName, Passage, Reason};

/// Most relays a flow may pass: a way longer than this is a loop.
pub const HOPS_MAX: u8 = 8;
/// Bytes moved from one hop to the next at once.
const CHUNK: usize = 16 << 10;

/// One flow on one link.
pub(super) type Side = (PeerId, FlowName);

/// The other side of a relayed flow.
#[derive(Clone, Copy, Debug)]
struct Other {
    side: Side,
    /// The neighbour on *this* side opened the flow itself: if it restarts nobody can take the flow up again.
    opened_here: bool,
}

/// All flows passed on. Both sides are listed; a side leaves when its link has forgotten it.
#[derive(Debug, Default)]
pub(super) struct Relays {
    others: BTreeMap<Side, Other>,
    pub(super) relayed: u64,
    pub(super) bytes: u64,
    pub(super) refused_loop: u64,
}

impl Relays {
    pub(super) fn contains(&self, side: Side) -> bool {
        self.others.contains_key(&side)
    }
    /// The flows passed on over one link.
    pub(super) fn of_peer(&self, peer: PeerId) -> Vec<FlowName> {
        self.others.keys().filter(|(at, _)| *at == peer).map(|(_, name)| *name).collect()
    }
    /// Takes out the sides whose other side was at `peer` and has closed already; both directions were read to their ends
    /// there.
    pub(super) fn take_left_alone(&mut self, peer: PeerId) -> Vec<Side> {
        let closed = |other: &Other| other.side.0 == peer && !self.others.contains_key(&other.side);
        let alone: Vec<Side> = self.others.iter().filter(|(_, o)| closed(o)).map(|(side, _)| *side).collect();
        for side in &alone {
            self.others.remove(side);
        }
        alone
    }
    /// Peers have other numbers now; what went over a peer that has none was ended before.
    pub(super) fn rename_peers(&mut self, new_id: impl Fn(PeerId) -> Option<PeerId>) {
        let renamed = |(peer, name): Side| Some((new_id(peer)?, name));
        let before = core::mem::take(&mut self.others);
        self.others = before
            .into_iter()
            .filter_map(|(side, other)| Some((renamed(side)?, Other { side: renamed(other.side)?, ..other })))
            .collect();
    }
    /// Sides now, two per flow.
    pub(super) fn len(&self) -> usize {
        self.others.len()
    }
}

impl Gateway {
    /// The peer that a flow from `upstream` to `target` is passed on to: the longest matching route, unless what we
    /// serve matches longer. Of equal routes the first counts, of what begins now (`begins`) the first that is not down.
    pub(super) fn next_hop(&self, upstream: PeerId, target: IpAddr, begins: bool) -> Option<PeerId> {
        let peers = self.config.peers.iter().enumerate().filter(|(i, _)| *i != upstream.0);
        let routes = peers.flat_map(|(i, peer)| peer.routes.iter().map(move |prefix| (*prefix, PeerId(i))));
        let best = route(routes, target, |peer: PeerId| begins && self.peers[peer.0].down);
        let here = longest(&self.config.serves, target);
        best.filter(|(prefix, _)| here <= Some(prefix.bits)).map(|(_, peer)| peer)
    }

    /// Passes a flow on to `next`. The answer upstream waits for the answer from there.
    pub(super) fn relay(
        &mut self,
        now: Instant,
        up: Side,
        next: PeerId,
        ends: (SocketAddr, SocketAddr),
        passage: Option<Passage>,
    ) -> Result<(), Reason> {
        let hops = passage.map_or(0, |passage| passage.hops);
        if hops >= HOPS_MAX {
            self.relays.refused_loop += 1;
            return Err(Reason::Unreachable);
        }
        let onward = passage.map(|passage| Passage { hops: hops + 1, ..passage });
        self.lend(next);
        let name = self.blocks(next).open(now, ends.0, ends.1, onward).map_err(|_| Reason::NoRoom)?;
        let down = (next, name);
        self.relays.others.insert(up, Other { side: down, opened_here: hops == 0 });
        self.relays.others.insert(down, Other { side: up, opened_here: false });
        self.relays.relayed += 1;
        self.press_back(now, up, down);
        self.press_back(now, down, up);
        self.dirty.insert(next);
        Ok(())
    }

    /// What a link says of a flow that is passed on.
    pub(super) fn relay_event(&mut self, now: Instant, side: Side, event: HopEvent) {
        let Some(Other { side: other, opened_here }) = self.relays.others.get(&side).copied() else { return };
        match event {
            HopEvent::Incoming { .. } | HopEvent::Ending(_) | HopEvent::Idle(_) => {}
            HopEvent::Accepted(_, received) => {
                self.blocks(other.0).accept(now, other.1, received);
                self.pass(now, side, other);
            }
            HopEvent::Readable(_) => self.pass(now, side, other),
            HopEvent::Writable(_) => self.pass(now, other, side),
            HopEvent::Receipted(_) => self.press_back(now, other, side),
            HopEvent::Vtx(_, start, end) => self.relay_has(side, other, (start, end)),
            HopEvent::Lacks(_, parts) => self.relay_sends_again(side, other, &parts),
            HopEvent::Again(_, offset, bytes) => self.relay_keeps(side, other, offset, &bytes),
            HopEvent::ProgressAgain(_) => self.blocks(other.0).repeat_progress(other.1),
            HopEvent::Progress(_, reach) => self.blocks(other.0).say_progress(now, other.1, reach, true),
            HopEvent::Refused(_, reason) => {
                self.leave(side);
                if self.leave(other) {
                    self.blocks(other.0).refuse(now, other.1, reason);
                }
            }
            HopEvent::Reset(_, reason) => {
                self.leave(side);
                if self.leave(other) {
                    // Only the opening edge takes a lost flow up again; if it is what was lost, the flow is over.
                    let final_loss = reason == Reason::Restarted && opened_here;
                    let reason = if final_loss { Reason::Aborted } else { reason };
                    let hop = self.blocks(other.0);
                    if reason == Reason::Restarted {
                        hop.reset(other.1, reason);
                    } else {
                        // What was passed on before arrives before.
                        hop.end(now, other.1, reason);
                    }
                }
            }
            HopEvent::Closed(_) => {
                self.leave(side);
            }
        }
        self.dirty.insert(other.0);
    }

    /// A side's link has forgotten it. Returns whether it was there.
    fn leave(&mut self, side: Side) -> bool {
        self.forget_passed_on(side);
        self.relays.others.remove(&side).is_some()
    }

    /// Moves what is there to read from `from` to `to`, as far as there is room.
    fn pass(&mut self, now: Instant, from: Side, to: Side) {
        let mut buf = [0; CHUNK];
        loop {
            self.lend(to.0);
            // Without room the end is still to be found.
            let room = self.blocks(to.0).room(to.1).min(CHUNK);
            let offset = self.blocks(from.0).taken(from.1);
            match self.blocks(from.0).read(now, from.1, &mut buf[..room]) {
                ReadOutcome::Data(octets) => {
                    if !self.cache.is_off() {
                        self.cache.keep(from, offset, &buf[..octets]);
                    }
                    let taken = self.blocks(to.0).write(now, to.1, &buf[..octets]);
                    assert_eq!(taken, octets, "there was room, and what was read is nowhere else any more");
                    self.relays.bytes += taken as u64;
                    self.note_held(to.0);
                }
                ReadOutcome::End => {
                    self.blocks(to.0).shutdown(now, to.1);
                    break;
                }
                ReadOutcome::Blocked | ReadOutcome::Reset => {
                    if room == 0 {
                        self.blocks(to.0).want_room(now, to.1);
                    }
                    break;
                }
            }
        }
        self.press_back(now, from, to);
        self.dirty.extend([from.0, to.0]);
    }

    /// Has `from` be told how much more is taken of it, given what `to` has not receipted.
    fn press_back(&mut self, now: Instant, from: Side, to: Side) {
        let window = match self.config.backpressure {
            Backpressure::Adaptive => return,
            Backpressure::Blocks(most) => {
                let onward = self.blocks(to.0);
                let limit = u64::from(most.max(1)) * onward.block_octets();
                Window::Octets(limit.saturating_sub(onward.unreceipted(to.1)))
            }
            Backpressure::Off => Window::Pool,
        };
        self.lend(from.0);
        self.blocks(from.0).set_window(now, from.1, window);
        self.dirty.insert(from.0);
    }
}
