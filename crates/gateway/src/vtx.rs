//! Virtual retransmission: a block that a node lost after it had receipted it is retransmitted by the nearest upstream node that
//! still has it.
//!
//! The edge that sent the bytes asks, once the other edge's application made no progress for a while; every node that has the
//! bytes asks the next one. The edge itself has all that it asks for (it keeps what the other application lacks), a relay what is
//! in its cache.

use super::edge::Edge;
use super::relay::Side;
use super::sealed::Deceit;
use super::{Gateway, PeerId};
use std::collections::{BTreeMap, BTreeSet};
use wavelane_base::{FlowId, Instant, RangeSet, Span, Wakeup};
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

/// What the gateway itself remembers.
#[derive(Debug, Default)]
pub(super) struct Vtx {
    /// When edges check whether the other one made progress.
    watched: BTreeSet<(Instant, FlowId)>,
    /// Offers that relays forward once they have the bytes again: first and last byte by the side they came from.
    waiting: BTreeMap<Side, (u64, u64)>,
    /// Offers that edges made.
    pub(super) asked: u64,
}

/// How an edge waits for the other edge's progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
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
        (self.heard, self.wait, self.unheard) = (now, VTX_AFTER, 0);
    }
    /// How much to ask for: less while it has no effect, so that it fits into caches shared with others.
    fn octets(self) -> u64 {
        (VTX_OCTETS_MAX / (self.wait.as_nanos() / VTX_AFTER.as_nanos()).max(1)).max(VTX_OCTETS_MIN)
    }
    /// It made no progress, and the other edge says so.
    pub(super) fn pause(&mut self, now: Instant) {
        (self.heard, self.unheard) = (now, 0);
    }
}

impl Gateway {
    /// Starts watching a flow, if its edge keeps anything.
    pub(super) fn watch_vtx(&mut self, now: Instant, id: FlowId) {
        if self.cache.is_off() {
            return;
        }
        let Some(edge) = self.flows.edge(id).filter(|edge| edge.accepted && !edge.direct && edge.kept() > 0) else {
            return;
        };
        if edge.watch.at.is_none() {
            edge.watch.progress(now);
            let at = now + VTX_AFTER.min(edge.patience(now));
            edge.watch.at = Some(at);
            self.vtx.watched.insert((at, id));
        }
    }

    /// Restarts watching from now on, regardless of the previous way.
    pub(super) fn watch_anew(&mut self, now: Instant, id: FlowId) {
        if let Some(at) = self.flows.edge(id).and_then(|edge| edge.watch.at.take()) {
            self.vtx.watched.remove(&(at, id));
        }
        self.watch_vtx(now, id);
    }

    pub(super) fn vtx_wakeup(&self) -> Option<Wakeup> {
        let first = self.vtx.watched.first();
        first.map(|(at, _)| Wakeup { at: *at, cause: "gateway: look whether the other edge has a flow's bytes" })
    }

    /// Edges without progress for too long ask for their bytes.
    pub(super) fn look_for_lost_blocks(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.vtx.watched.first().filter(|(at, _)| *at <= now) {
            self.vtx.watched.remove(&(at, id));
            let Some(edge) = self.flows.edge(id).filter(|edge| edge.watch.at == Some(at)) else { continue };
            edge.watch.at = None;
            if edge.kept() == 0 {
                continue;
            }
            let patience = edge.patience(now);
            let mut next = edge.watch.heard + edge.watch.wait.min(patience);
            let most = if edge.looks_for_way(now) { UNHEARD_AGAIN_MAX } else { UNHEARD_MAX };
            let unheard = edge.is_sealed() && edge.watch.unheard >= most;
            if unheard && next <= now && self.kept_and_taken(id).is_some() {
                self.distrust(now, id, Deceit::Withheld);
                self.watch_vtx(now, id);
                continue;
            }
            if next <= now {
                let asks = self.ask_for_kept(id);
                let Some(edge) = self.flows.edge(id) else { continue };
                if asks {
                    edge.watch.unheard += 1;
                    edge.watch.wait = edge.watch.wait.times(2).min(VTX_AFTER_MAX);
                }
                next = now + edge.watch.wait.min(patience);
            }
            if let Some(edge) = self.flows.edge(id) {
                edge.watch.at = Some(next);
                self.vtx.watched.insert((next, id));
            }
        }
    }

    /// The first bytes that the other application lacks and that the neighbour, not being silent, has receipted.
    fn kept_and_taken(&mut self, id: FlowId) -> Option<(u64, u64)> {
        let (peer, name) = self.flows.find(id).filter(|(peer, _)| self.peers[peer.0].up)?;
        let receipted = self.blocks(peer).receipted(name);
        let edge = self.flows.edge(id).filter(|edge| !edge.awaiting)?;
        let (start, most) = (edge.kept_on_way(), edge.watch.octets());
        (receipted > start).then_some((start, receipted.min(start + most)))
    }

    /// Asks the next node for the first bytes that the other application lacks; not while they are still on the first hop, or the
    /// neighbour is silent.
    fn ask_for_kept(&mut self, id: FlowId) -> bool {
        let Some((peer, name)) = self.flows.find(id) else { return false };
        let Some((start, end)) = self.kept_and_taken(id) else { return false };
        self.blocks(peer).offer_vtx(name, start, end);
        self.vtx.asked += 1;
        self.settle_later(peer);
        true
    }

    /// The other edge asks: bytes that our application read are held; unread ones are here or were lost here.
    pub(super) fn edge_has(&mut self, now: Instant, id: FlowId, side: Side, bytes: (u64, u64)) {
        // On a sealed flow only a reader's pause is confirmed: withheld bytes must be noticed.
        let sealed = self.is_sealed(id);
        let pauses = sealed && self.reader_pauses(id, side);
        let word = self.flows.edge(id).filter(|_| pauses).map(Edge::say_reach);
        let hop = self.blocks(side.0);
        let mut all = RangeSet::default();
        all.insert(0, hop.taken(side.1).max(1));
        hop.answer_vtx(side.1, bytes, &all);
        match word {
            Some(said) => hop.say_progress(now, side.1, said, true),
            None if sealed => {}
            None => hop.repeat_progress(side.1),
        }
        self.settle_later(side.0);
    }

    /// The next node lacks bytes that we keep.
    pub(super) fn edge_sends_again(&mut self, id: FlowId, side: Side, parts: &[(u64, u64)]) {
        for &(start, end) in parts {
            let Some(edge) = self.flows.edge(id) else { return };
            if let Some((offset, bytes)) = edge.kept_between(start, end) {
                self.blocks(side.0).send_again(side.1, offset, bytes);
            }
        }
        self.settle_later(side.0);
    }

    /// The other edge answers, and its application reads nothing.
    pub(super) fn edge_pauses(&mut self, now: Instant, id: FlowId) {
        if let Some(edge) = self.flows.edge(id) {
            edge.watch.pause(now);
        }
    }

    /// A relay is asked: it answers what it has, and asks the next node about what it has forwarded.
    pub(super) fn relay_has(&mut self, side: Side, other: Side, (start, end): (u64, u64)) {
        let passed_on = self.blocks(side.0).taken(side.1);
        let receipted = self.blocks(other.0).receipted(other.1);
        let mut here = self.cache.held(side, start, end.min(passed_on));
        put_custody(&mut here, receipted, passed_on);
        self.blocks(side.0).answer_vtx(side.1, (start, end), &here);
        let onward = (start, end.min(passed_on));
        if onward.0 < onward.1 {
            self.vtx.waiting.insert(side, onward);
            self.ask_onward(side, other);
        }
        self.settle_later(side.0);
    }

    /// Forwards an offer once the bytes are here: the next node may lack them.
    fn ask_onward(&mut self, side: Side, other: Side) {
        let Some(&(start, end)) = self.vtx.waiting.get(&side) else { return };
        let receipted = self.blocks(other.0).receipted(other.1);
        let cached = self.cache.held(side, start, end.min(receipted));
        match onward(&cached, receipted, (start, end)) {
            Onward::Offer(end) => {
                self.blocks(other.0).offer_vtx(other.1, start, end);
                self.settle_later(other.0);
                self.vtx.waiting.remove(&side);
            }
            Onward::Nothing => {
                self.vtx.waiting.remove(&side);
            }
            Onward::Wait => {}
        }
    }

    /// Bytes that a relay lacked have arrived again.
    pub(super) fn relay_keeps(&mut self, side: Side, other: Side, offset: u64, bytes: &[u8]) {
        self.cache.keep(side, offset, bytes);
        self.ask_onward(side, other);
    }

    /// The node downstream of a relay, on `side`, lacks bytes that came from `other`.
    pub(super) fn relay_sends_again(&mut self, side: Side, other: Side, parts: &[(u64, u64)]) {
        for &(start, end) in parts {
            for (offset, mut bytes) in self.cache.read(other, start, end) {
                if let Some(meddler) = &mut self.faults.meddler {
                    let most = bytes.len();
                    meddler.octets(side.0, &mut bytes);
                    bytes.truncate(most);
                }
                self.blocks(side.0).send_again(side.1, offset, bytes);
            }
        }
        self.settle_later(side.0);
    }

    /// A relay's side is gone.
    pub(super) fn forget_passed_on(&mut self, side: Side) {
        self.cache.forget(side);
        self.vtx.waiting.remove(&side);
    }

    /// Peers were renumbered.
    pub(super) fn forget_all_passed_on(&mut self) {
        self.cache.clear();
        self.vtx.waiting.clear();
    }

    fn settle_later(&mut self, peer: PeerId) {
        self.dirty.insert(peer);
    }
}

/// `here` holds the cached part of what a relay forwarded: adds the bytes in custody, which the next hop has not receipted.
fn put_custody(here: &mut RangeSet, receipted: u64, passed_on: u64) {
    here.insert(receipted, passed_on);
}

/// What a relay does with an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Onward {
    /// The next hop is asked for the offered bytes up to here.
    Offer(u64),
    /// It has receipted none of them.
    Nothing,
    /// The relay lacks some of them itself, and asks once they have arrived again.
    Wait,
}

/// What a relay whose cache holds `cached` does with an offer, given how far the next hop has receipted.
fn onward(cached: &RangeSet, receipted: u64, (start, end): (u64, u64)) -> Onward {
    let end = end.min(receipted);
    match (start < end, start < end && cached.gaps(start, end).is_empty()) {
        (false, _) => Onward::Nothing,
        (true, true) => Onward::Offer(end),
        (true, false) => Onward::Wait,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a vector that cannot be read should stop the test")]
    use super::*;

    fn spans(text: &str) -> RangeSet {
        let mut set = RangeSet::default();
        for (first, end) in text.split(',').filter_map(|part| part.split_once('-')) {
            set.insert(first.parse().unwrap(), end.parse().unwrap());
        }
        set
    }

    /// The relay's lines of `vectors/blocks.txt`, which a second implementation in another language checks as well.
    #[test]
    fn golden_relay_answers() {
        let text = include_str!("../../../vectors/blocks.txt");
        let mut checked = 0;
        for line in text.lines().filter(|line| line.starts_with("relay ")) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |i: usize| words[i].parse::<u64>().unwrap();
            let (passed_on, receipted, cached, start, end) =
                (number(1), number(2), spans(words[3]), number(4), number(4) + number(5));
            let mut here = cached.clone();
            put_custody(&mut here, receipted, passed_on);
            here.remove(0, start);
            here.remove(end.min(passed_on), u64::MAX);
            assert_eq!(here, spans(words[6]), "{line}");
            let expected = spans(words[7]).first();
            let asked = match onward(&cached, receipted, (start, end.min(passed_on))) {
                Onward::Offer(end) => Some((start, end)),
                Onward::Nothing | Onward::Wait => None,
            };
            assert_eq!(asked, expected, "{line}");
            checked += 1;
        }
        assert!(checked >= 7);
    }
}
