//! Virtual retransmission at an edge: it asks for the bytes that it keeps once the other edge's application made no progress for a while,
//! because a node may have lost a block after it had receipted it ([`crate::relays`]).

use super::Flows;
use super::edge::Edge;
use super::sealed::Deceit;
use crate::neighbours::Side;
use crate::routing::Net;
use wavelane_base::{FlowId, Instant, Octets, RangeSet, Span, Wakeup};
use wavelane_services::hop::VTX_OCTETS_MAX;

/// Without progress of the other edge for this long an edge asks where the bytes are ...
pub(super) const VTX_AFTER: Span = Span::from_secs(1);
/// ... and after twice as long each time, up to this.
const VTX_AFTER_MAX: Span = Span::from_secs(16);

/// Unanswered queries to a sealed flow's other edge after which its way is left: receipted bytes are withheld.
const UNHEARD_MAX: u32 = 2;
/// The same for a flow that recently left a way because of an edge's distrust: several ways are to be tried in little time.
const UNHEARD_AGAIN_MAX: u32 = 1;

/// Minimum bytes asked for at once: the smallest block.
const VTX_OCTETS_MIN: u64 = 64 << 10;

/// How an edge waits for the other edge's progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    at: Option<Instant>,
    heard: Instant,
    wait: Span,
    /// Offers since then.
    unheard: u32,
}

impl Default for Watch {
    fn default() -> Self {
        Self { at: None, heard: Instant::ZERO, wait: VTX_AFTER, unheard: 0 }
    }
}

impl Watch {
    /// The other edge's application made progress.
    pub(super) fn progress(&mut self, now: Instant) {
        self.heard = now;
        self.wait = VTX_AFTER;
        self.unheard = 0;
    }
    /// How much to ask for: less while it has no effect, so that it fits into caches shared with others.
    fn octets(self) -> u64 {
        (VTX_OCTETS_MAX / (self.wait.as_nanos() / VTX_AFTER.as_nanos()).max(1)).max(VTX_OCTETS_MIN)
    }
    /// It made no progress, and the other edge says so.
    pub(super) fn pause(&mut self, now: Instant) {
        self.heard = now;
        self.unheard = 0;
    }
}

impl Flows {
    /// Starts watching a flow, if its edge keeps anything.
    pub(super) fn watch_vtx(&mut self, net: &mut Net, now: Instant, id: FlowId) {
        if net.peers.config().cache == Octets::ZERO {
            return;
        }
        let Some(edge) = self.table.edge(id).filter(|edge| edge.accepted && !edge.direct && edge.kept() > 0) else {
            return;
        };
        if edge.watch.at.is_none() {
            edge.watch.progress(now);
            let at = now + VTX_AFTER.min(edge.patience(now));
            edge.watch.at = Some(at);
            self.watched.insert((at, id));
        }
    }

    /// Restarts watching from now on, regardless of the previous way.
    pub(super) fn watch_anew(&mut self, net: &mut Net, now: Instant, id: FlowId) {
        if let Some(at) = self.table.edge(id).and_then(|edge| edge.watch.at.take()) {
            self.watched.remove(&(at, id));
        }
        self.watch_vtx(net, now, id);
    }

    pub(super) fn watch_wakeup(&self) -> Option<Wakeup> {
        let first = self.watched.first();
        first.map(|(at, _)| Wakeup { at: *at, cause: "gateway: look whether the other edge has a flow's bytes" })
    }

    /// Edges without progress for too long ask for their bytes.
    pub(crate) fn look_for_lost_blocks(&mut self, net: &mut Net, now: Instant) {
        while let Some(&(at, id)) = self.watched.first().filter(|(at, _)| *at <= now) {
            self.watched.remove(&(at, id));
            let Some(edge) = self.table.edge(id).filter(|edge| edge.watch.at == Some(at)) else { continue };
            edge.watch.at = None;
            if edge.kept() == 0 {
                continue;
            }
            let patience = edge.patience(now);
            let mut next = edge.watch.heard + edge.watch.wait.min(patience);
            let most = if edge.looks_for_way(now) { UNHEARD_AGAIN_MAX } else { UNHEARD_MAX };
            let unheard = edge.is_sealed() && edge.watch.unheard >= most;
            if unheard && next <= now && self.kept_and_taken(net, id).is_some() {
                self.distrust(net, now, id, Deceit::Withheld);
                self.watch_vtx(net, now, id);
                continue;
            }
            if next <= now {
                let asks = self.ask_for_kept(net, id);
                let Some(edge) = self.table.edge(id) else { continue };
                if asks {
                    edge.watch.unheard += 1;
                    edge.watch.wait = edge.watch.wait.times(2).min(VTX_AFTER_MAX);
                }
                next = now + edge.watch.wait.min(patience);
            }
            if let Some(edge) = self.table.edge(id) {
                edge.watch.at = Some(next);
                self.watched.insert((next, id));
            }
        }
    }

    /// The first bytes that the other application lacks and that the neighbour, not being silent, has receipted.
    fn kept_and_taken(&mut self, net: &mut Net, id: FlowId) -> Option<(u64, u64)> {
        let (peer, name) = self.table.find(id).filter(|(peer, _)| net.peers.is_up(*peer))?;
        let receipted = net.peers.blocks(peer).receipted(name);
        let edge = self.table.edge(id).filter(|edge| !edge.awaiting)?;
        let (start, most) = (edge.kept_on_way(), edge.watch.octets());
        (receipted > start).then_some((start, receipted.min(start + most)))
    }

    /// Asks the next node for the first bytes that the other application lacks; not while they are still on the first hop, or the
    /// neighbour is silent.
    fn ask_for_kept(&mut self, net: &mut Net, id: FlowId) -> bool {
        let Some((peer, name)) = self.table.find(id) else { return false };
        let Some((start, end)) = self.kept_and_taken(net, id) else { return false };
        net.peers.blocks(peer).offer_vtx(name, start, end);
        self.counters.vtx_asked += 1;
        net.peers.touch(peer);
        true
    }

    /// The other edge asks: bytes that our application read are held; unread ones are here or were lost here.
    pub(super) fn edge_has(&mut self, net: &mut Net, now: Instant, id: FlowId, side: Side, bytes: (u64, u64)) {
        // On a sealed flow only a reader's pause is confirmed: withheld bytes must be noticed.
        let sealed = self.is_sealed(id);
        let pauses = sealed && self.reader_pauses(net, id, side);
        let word = self.table.edge(id).filter(|_| pauses).map(Edge::say_reach);
        let hop = net.peers.blocks(side.0);
        let mut all = RangeSet::default();
        all.insert(0, hop.taken(side.1).max(1));
        hop.answer_vtx(side.1, bytes, &all);
        match word {
            Some(said) => hop.say_progress(now, side.1, said, true),
            None if sealed => {}
            None => hop.repeat_progress(side.1),
        }
        net.peers.touch(side.0);
    }

    /// The next node lacks bytes that we keep.
    pub(super) fn edge_sends_again(&mut self, net: &mut Net, id: FlowId, side: Side, parts: &[(u64, u64)]) {
        for &(start, end) in parts {
            let Some(edge) = self.table.edge(id) else { return };
            if let Some((offset, bytes)) = edge.kept_between(start, end) {
                net.peers.blocks(side.0).send_again(side.1, offset, bytes);
            }
        }
        net.peers.touch(side.0);
    }

    /// The other edge answers, and its application reads nothing.
    pub(super) fn edge_pauses(&mut self, now: Instant, id: FlowId) {
        if let Some(edge) = self.table.edge(id) {
            edge.watch.pause(now);
        }
    }
}
