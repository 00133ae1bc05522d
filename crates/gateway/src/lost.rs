//! Flows whose way over a relay was lost: the opening edge asks for them again, the answering one waits for that.

use super::edge::{DETACHED_MAX, LAST_WORD_MAX, RESUMES_MAX, Role, resume_wait};
use super::{Event, Gateway};
use wavelane_base::{FlowId, Instant};
use wavelane_wire::frame::Reason;

impl Gateway {
    /// A flow's way is gone. Opens it anew, waits for that, or tells the owner.
    pub(super) fn lost(&mut self, now: Instant, id: FlowId, reason: Reason) {
        let Some(edge) = self.flows.edge(id) else { return self.end(id, reason, true) };
        let accepted = edge.accepted;
        if reason == Reason::Complete && accepted && edge.reach.finished {
            self.forget(id);
            return self.events.push_back(Event::Closed(id));
        }
        // A relay or the other edge is full now: it was asked for what stood before, so another try may find room.
        let full = reason == Reason::NoRoom && accepted && edge.awaiting && edge.opener_peer().is_some();
        if reason != Reason::Restarted && !full {
            return self.end(id, reason, accepted);
        }
        let wait = if edge.is_done() { LAST_WORD_MAX } else { DETACHED_MAX };
        match edge.role {
            Role::Answerer => self.wait_for_way(id, now + wait, accepted),
            // At the first time the way may well be there already.
            Role::Opener { resumes: 0, .. } => self.open_anew(now, id),
            Role::Opener { .. } => self.put_off(now, id),
        }
    }

    /// No way is known until `until`, or another one comes.
    fn wait_for_way(&mut self, id: FlowId, until: Instant, accepted: bool) {
        // A peer may lose as many as it may have.
        let carrier = self.flows.find(id).map(|(peer, _)| peer);
        if carrier.is_some_and(|peer| self.flows.lost_by(peer) >= self.places.limit(peer.0)) {
            return self.end(id, Reason::NoRoom, accepted);
        }
        self.flows.detach(id, Some(until));
    }

    /// Opens a lost flow anew later, unless that was tried often enough.
    fn put_off(&mut self, now: Instant, id: FlowId) {
        let Some(edge) = self.flows.edge(id) else { return };
        let (accepted, role) = (edge.accepted, edge.role);
        match role {
            Role::Opener { resumes, .. } if resumes < RESUMES_MAX => {
                let wait = resume_wait(resumes, self.dice.next_u64());
                self.wait_for_way(id, now + wait, accepted);
            }
            _ => self.end(id, Reason::Restarted, accepted),
        }
    }

    /// Asks for a lost flow again over the peer that it was opened through.
    fn open_anew(&mut self, now: Instant, id: FlowId) {
        let Some(edge) = self.flows.edge(id) else { return };
        let Role::Opener { peer, source, target, resumes } = &mut edge.role else { return };
        *resumes += 1;
        let (peer, source, target) = (*peer, *source, *target);
        edge.awaiting = true;
        let passage = Some(edge.passage());
        match self.blocks(peer).open(now, source, target, passage) {
            Ok(name) => {
                self.counters.flows_resumed += 1;
                self.flows.attach(id, peer, name);
                self.dirty.insert(peer);
            }
            // Others have its place; they end sooner or later.
            Err(_) => self.put_off(now, id),
        }
    }

    /// Flows that nobody took up again in time, and those whose next try is due.
    pub(super) fn look_after_lost_flows(&mut self, now: Instant) {
        while let Some((at, id)) = self.flows.first_deadline() {
            if at > now {
                break;
            }
            if let Some(peer) = self.flows.edge(id).and_then(|edge| edge.opener_peer()) {
                self.lend(peer);
                self.open_anew(now, id);
                self.settle(now, peer);
                continue;
            }
            let done = self.flows.edge(id).is_some_and(|edge| edge.is_done());
            self.forget(id);
            self.counters.flows_given_up += u64::from(!done);
            self.events.push_back(if done { Event::Closed(id) } else { Event::Reset(id, Reason::TimedOut) });
        }
    }
}
