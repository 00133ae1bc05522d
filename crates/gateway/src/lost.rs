//! Flows whose way over a relay was lost: the opening edge asks for them again, the answering edge waits for that.

use super::Gateway;
use super::edge::{DETACHED_MAX, Role, resume_wait};
use wavelane_base::{FlowId, Instant, Span};
use wavelane_wire::frame::Reason;

/// A flow that left a way because an edge distrusts it asks for another at once if it last asked this long ago, else after about
/// this long.
const DISTRUSTED_EVERY: Span = Span::from_secs(1);
/// The wait of a distrusted flow is at most that of this many tries.
const DISTRUSTED_TRIES_MAX: u32 = 3;

impl Gateway {
    /// A flow's way is gone, or led nowhere. Reopens it, waits for that, or tells the owner.
    pub(super) fn lost(&mut self, now: Instant, id: FlowId, reason: Reason) {
        let Some(edge) = self.flows.edge(id) else { return self.end(id, reason, true) };
        let accepted = edge.accepted;
        // The answering edge has nothing more to hear. If its last word is lost, the opening edge asks.
        let answered_all = matches!(edge.role, Role::Answerer) && edge.is_over();
        let told = reason == Reason::Complete && accepted && edge.reach.finished && edge.knows_end();
        if told || answered_all {
            return self.closed(id);
        }
        // A way with a failing relay is treated as lost.
        let restarted = reason == Reason::Restarted || reason == Reason::Corrupted && edge.is_sealed();
        // A relay or the other edge is full now: the flow was established before, so another try may find room.
        let full = reason == Reason::NoRoom && accepted && edge.awaiting && edge.opener_peer().is_some();
        let Role::Opener { peer, target, choice, .. } = edge.role else {
            return if restarted {
                self.wait_for_way(id, now + DETACHED_MAX, accepted)
            } else {
                self.end(id, reason, accepted)
            };
        };
        // One of several ways leads nowhere; before the first answer each way is tried once.
        let nowhere = choice && reason == Reason::Unreachable;
        match reason {
            Reason::Corrupted if choice => self.distrust_way(now, None, peer, target.ip()),
            _ if choice && (restarted || full || nowhere) => self.shun(now, None, peer, target.ip()),
            _ => {}
        }
        let exhausted = nowhere && !accepted && self.next_way(now, None, target.ip()).is_none();
        if exhausted || !restarted && !full && !nowhere {
            return self.end(id, reason, accepted);
        }
        self.try_again(now, id);
    }

    /// The opening edge asks at once if there is a usable way, else later.
    pub(super) fn try_again(&mut self, now: Instant, id: FlowId) {
        let Some(edge) = self.flows.edge(id) else { return };
        let Role::Opener { target, resumes, choice, .. } = edge.role else { return };
        let rested = now.since(edge.asked_at) >= DISTRUSTED_EVERY;
        // A flow that looks for an honest way has little time, and may have detected the failure slowly.
        let looks = edge.distrusts > 0 && rested;
        // With one way: the first time, since it may be back already. With several: any that has not failed recently.
        let at_once = if choice { None } else { Some(resumes == 0) };
        let target = target.ip();
        match looks || at_once.unwrap_or_else(|| self.good_way(now, None, target).is_some()) {
            true => self.open_anew(now, id),
            false => self.put_off(now, id),
        }
    }

    /// The other edge left this way for another, so nothing failed. The opening edge asks at once, but the next times later: a relay
    /// may say so always.
    pub(super) fn ask_after(&mut self, now: Instant, id: FlowId) {
        match self.flows.edge(id).and_then(|edge| edge.tries().copied()) {
            Some(0) => self.open_anew(now, id),
            _ => self.put_off(now, id),
        }
    }

    /// Waits without a way until `until`, or until another one is found.
    fn wait_for_way(&mut self, id: FlowId, until: Instant, accepted: bool) {
        // A peer may have at most as many lost flows as its limit of flows.
        let carrier = self.flows.find(id).map(|(peer, _)| peer);
        if carrier.is_some_and(|peer| self.flows.lost_by(peer) >= self.places.limit(peer.0)) {
            return self.end(id, Reason::NoRoom, accepted);
        }
        self.flows.detach(id, Some(until));
    }

    /// Schedules reopening of a lost flow, unless it was tried often enough.
    fn put_off(&mut self, now: Instant, id: FlowId) {
        let Some(edge) = self.flows.edge(id) else { return };
        let (accepted, role, most, distrusts) = (edge.accepted, edge.role, edge.resumes_max(), edge.distrusts);
        match role {
            Role::Opener { resumes, .. } if resumes < most => {
                let tries = if distrusts > 0 { resumes.min(DISTRUSTED_TRIES_MAX) } else { resumes };
                let wait = resume_wait(tries, self.dice.next_u64());
                self.wait_for_way(id, now + wait, accepted);
            }
            _ => self.end(id, Reason::Restarted, accepted),
        }
    }

    /// Asks for a lost flow again: through the peer it was opened through, or the best of several.
    pub(super) fn open_anew(&mut self, now: Instant, id: FlowId) {
        let Some(edge) = self.flows.edge(id) else { return };
        let Role::Opener { peer, target, routed, .. } = edge.role else { return };
        let best = if routed { self.any_way(now, None, target.ip()).unwrap_or(peer) } else { peer };
        let several = routed && self.is_choice(&self.ways_to(None, target.ip()));
        let Some(edge) = self.flows.edge(id) else { return };
        let Role::Opener { peer, source, target, resumes, choice, .. } = &mut edge.role else { return };
        (*peer, *choice) = (best, *choice || several);
        *resumes += 1;
        let (peer, source, target) = (*peer, *source, *target);
        edge.attempt += 1;
        (edge.asked_at, edge.way_rtt) = (now, None);
        edge.awaiting = true;
        let passage = Some(edge.passage());
        self.lend(peer);
        match self.blocks(peer).open(now, source, target, passage) {
            Ok(name) => {
                self.counters.flows_resumed += 1;
                self.flows.attach(id, peer, name);
                self.dirty.insert(peer);
            }
            // The table is full; other flows will end sooner or later.
            Err(_) => self.put_off(now, id),
        }
    }

    /// Handles flows that were not resumed in time, and those whose next try is due.
    pub(super) fn look_after_lost_flows(&mut self, now: Instant) {
        while let Some((at, id)) = self.flows.first_deadline() {
            if at > now {
                break;
            }
            if let Some(peer) = self.flows.edge(id).and_then(|edge| edge.opener_peer()) {
                self.open_anew(now, id);
                self.settle(now, peer);
                continue;
            }
            if self.flows.edge(id).is_some_and(|edge| edge.is_done()) {
                self.closed(id);
            } else {
                self.counters.flows_given_up += 1;
                self.end(id, Reason::TimedOut, true);
            }
        }
    }
}
