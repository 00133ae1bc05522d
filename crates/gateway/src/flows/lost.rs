//! Flows whose way over a relay was lost: the opening edge asks for them again, the answering edge waits for that.

use super::Flows;
use super::edge::{DETACHED_MAX, Edge, Role, resume_wait};
use crate::neighbours::Side;
use crate::routing::Net;
use wavelane_base::{FlowId, Instant, Span};
use wavelane_wire::frame::Reason;

/// A flow that left a way because an edge distrusts it asks for another at once if it last asked this long ago, else after about
/// this long.
const DISTRUSTED_EVERY: Span = Span::from_secs(1);
/// The wait of a distrusted flow is at most that of this many tries.
const DISTRUSTED_TRIES_MAX: u32 = 3;

impl Flows {
    /// A flow's way is gone, or led nowhere. Reopens it, waits for that, or tells the owner.
    pub(crate) fn lost(&mut self, net: &mut Net, now: Instant, id: FlowId, reason: Reason) {
        let Some(edge) = self.table.edge(id) else { return self.end(net, id, reason, true) };
        let accepted = edge.accepted;
        // The answering edge has nothing more to hear. If its last word is lost, the opening edge asks.
        let answered_all = matches!(edge.role, Role::Answerer) && edge.is_over();
        let told = reason == Reason::Complete && accepted && edge.reach.finished && edge.knows_end();
        if told || answered_all {
            return self.closed(net, id);
        }
        // A way with a failing relay is treated as lost.
        let restarted = reason == Reason::Restarted || reason == Reason::Corrupted && edge.is_sealed();
        // A relay or the other edge is full now: the flow was established before, so another try may find room.
        let full = reason == Reason::NoRoom && accepted && edge.awaiting && edge.opener_peer().is_some();
        let Role::Opener { peer, target, choice, .. } = edge.role else {
            return if restarted {
                self.wait_for_way(net, id, now + DETACHED_MAX, accepted)
            } else {
                self.end(net, id, reason, accepted)
            };
        };
        // One of several ways leads nowhere; before the first answer each way is tried once.
        let nowhere = choice && reason == Reason::Unreachable;
        match reason {
            Reason::Corrupted if choice => net.distrust_way(now, None, peer, target.ip()),
            _ if choice && (restarted || full || nowhere) => net.shun(now, None, peer, target.ip()),
            _ => {}
        }
        let exhausted = nowhere && !accepted && net.next_way(now, None, target.ip()).is_none();
        if exhausted || !restarted && !full && !nowhere {
            return self.end(net, id, reason, accepted);
        }
        self.try_again(net, now, id);
    }

    /// The opening edge asks at once if there is a usable way, else later.
    pub(super) fn try_again(&mut self, net: &mut Net, now: Instant, id: FlowId) {
        let Some(edge) = self.table.edge(id) else { return };
        let Role::Opener { target, resumes, choice, .. } = edge.role else { return };
        let rested = now.since(edge.asked_at) >= DISTRUSTED_EVERY;
        // A flow that looks for an honest way has little time, and may have detected the failure slowly.
        let looks = edge.distrusts > 0 && rested;
        // With one way: the first time, since it may be back already. With several: any that has not failed recently.
        let at_once = if choice { None } else { Some(resumes == 0) };
        let target = target.ip();
        match looks || at_once.unwrap_or_else(|| net.good_way(now, None, target).is_some()) {
            true => self.open_anew(net, now, id),
            false => self.put_off(net, now, id),
        }
    }

    /// The other edge left this way for another, so nothing failed. The opening edge asks at once, but the next times later: a relay
    /// may say so always.
    pub(super) fn ask_after(&mut self, net: &mut Net, now: Instant, id: FlowId) {
        match self.table.edge(id).and_then(|edge| edge.tries().copied()) {
            Some(0) => self.open_anew(net, now, id),
            _ => self.put_off(net, now, id),
        }
    }

    /// Waits without a way until `until`, or until another one is found.
    fn wait_for_way(&mut self, net: &mut Net, id: FlowId, until: Instant, accepted: bool) {
        // A peer may have at most as many lost flows as its limit of flows.
        let carrier = self.table.find(id).map(|(peer, _)| peer);
        if carrier.is_some_and(|peer| net.peers.may_lose_no_more(peer)) {
            return self.end(net, id, Reason::NoRoom, accepted);
        }
        self.table.detach(&mut net.peers, id, Some(until));
    }

    /// Schedules reopening of a lost flow, unless it was tried often enough.
    fn put_off(&mut self, net: &mut Net, now: Instant, id: FlowId) {
        let Some(edge) = self.table.edge(id) else { return };
        let (accepted, role, most, distrusts) = (edge.accepted, edge.role, edge.resumes_max(), edge.distrusts);
        match role {
            Role::Opener { resumes, .. } if resumes < most => {
                let tries = if distrusts > 0 { resumes.min(DISTRUSTED_TRIES_MAX) } else { resumes };
                let wait = resume_wait(tries, net.peers.dice().next_u64());
                self.wait_for_way(net, id, now + wait, accepted);
            }
            _ => self.end(net, id, Reason::Restarted, accepted),
        }
    }

    /// Asks for a lost flow again: through the peer it was opened through, or the best of several.
    pub(super) fn open_anew(&mut self, net: &mut Net, now: Instant, id: FlowId) {
        let Some(edge) = self.table.edge(id) else { return };
        let Role::Opener { peer, target, routed, .. } = edge.role else { return };
        let best = if routed { net.any_way(now, None, target.ip()).unwrap_or(peer) } else { peer };
        let several = routed && net.is_choice(&net.ways_to(None, target.ip()));
        let Some(edge) = self.table.edge(id) else { return };
        let Role::Opener { peer, source, target, resumes, choice, .. } = &mut edge.role else { return };
        *peer = best;
        *choice = *choice || several;
        *resumes += 1;
        let (peer, source, target) = (*peer, *source, *target);
        edge.attempt += 1;
        edge.asked_at = now;
        edge.way_rtt = None;
        edge.awaiting = true;
        let passage = Some(edge.passage());
        net.peers.lend(peer);
        match net.peers.blocks(peer).open(now, source, target, passage) {
            Ok(name) => {
                self.counters.resumed += 1;
                self.table.attach(&mut net.peers, id, (peer, name));
                net.peers.touch(peer);
            }
            // The table is full; other flows will end sooner or later.
            Err(_) => self.put_off(net, now, id),
        }
    }

    /// Handles flows that were not resumed in time, and those whose next try is due: returns after each such try, until there is none.
    pub(crate) fn look_after_lost(&mut self, net: &mut Net, now: Instant) -> bool {
        while let Some((_, id)) = self.table.first_deadline().filter(|(at, _)| *at <= now) {
            if let Some(peer) = self.table.edge(id).and_then(|edge| edge.opener_peer()) {
                self.open_anew(net, now, id);
                net.peers.touch(peer);
                return true;
            }
            if self.table.edge(id).is_some_and(|edge| edge.is_done()) {
                self.closed(net, id);
            } else {
                self.counters.given_up += 1;
                self.end(net, id, Reason::TimedOut, true);
            }
        }
        false
    }

    /// A neighbour went down or came back, or routes changed: flows leave lost ways for others.
    pub(crate) fn leave_lost_ways(&mut self, net: &mut Net, now: Instant) {
        for (id, side) in self.table.opened_here() {
            self.leave_as_edge(net, now, id, side);
        }
    }

    /// Retries waiting flows of this edge for which there is a good way now.
    pub(crate) fn take_new_ways(&mut self, net: &mut Net, now: Instant) {
        for (id, target) in self.table.waiting_here() {
            if net.good_way(now, None, target.ip()).is_some() {
                self.uncounted(net, id, |flows, net| flows.open_anew(net, now, id));
            }
        }
    }

    fn leave_as_edge(&mut self, net: &mut Net, now: Instant, id: FlowId, side: Side) {
        let Some(Role::Opener { target, routed, .. }) = self.table.edge(id).map(|edge| edge.role) else { return };
        let target = target.ip();
        let ways = net.ways_to(None, target);
        let named = ways.contains(&side.0) || !routed;
        let other = routed && ways.iter().any(|way| *way != side.0 && !net.peers.was_down(*way));
        if !other || named && !net.peers.was_down(side.0) {
            return;
        }
        self.counters.moved += 1;
        net.peers.blocks(side.0).reset(side.1, Reason::Restarted);
        net.peers.touch(side.0);
        match named {
            true => self.try_again(net, now, id),
            false => self.uncounted(net, id, |flows, net| flows.try_again(net, now, id)),
        }
    }

    /// Acts on a table change without counting a try: however often the table changes, a flow loses no try by it.
    fn uncounted(&mut self, net: &mut Net, id: FlowId, act: impl FnOnce(&mut Self, &mut Net)) {
        let before = self.table.edge(id).and_then(Edge::tries).copied();
        act(self, net);
        if let (Some(before), Some(tries)) = (before, self.table.edge(id).and_then(Edge::tries)) {
            *tries = before;
        }
    }
}
