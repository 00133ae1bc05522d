//! The table of flows: how a flow moves through its states, and what follows from any change to it.

use super::Hop;
use super::flow::{Cause, Flow, LastWord, State};
use super::shares::Held;
use super::types::HopEvent;
use std::collections::BTreeSet;
use wavelane_wire::frame::FlowName;

/// Puts a flow into a set or takes it out; `listed` is whether it is in it.
pub(super) fn list(name: FlowName, set: &mut BTreeSet<FlowName>, listed: &mut bool, belongs: bool) {
    if core::mem::replace(listed, belongs) != belongs {
        _ = if belongs { set.insert(name) } else { set.remove(&name) };
    }
}

/// The opener sends a Forget each time this many more flows are over.
const FORGET_EVERY: u64 = 64;

impl Hop {
    /// Moves a flow along the state table. Returns whether `cause` had a transition there.
    pub(super) fn step(&mut self, name: FlowName, cause: Cause) -> bool {
        let Some(flow) = self.flows.get_mut(&name) else { return false };
        let Some(to) = flow.state.next(cause) else { return false };
        let was_live = flow.state != State::Done;
        flow.state = to;
        if was_live && matches!(to, State::Done | State::Gone) {
            self.live -= 1;
        }
        if to == State::Done {
            self.forget_digests(name, u64::MAX);
            let Some(flow) = self.flows.get_mut(&name) else { return false };
            flow.out.discard();
            flow.inc.discard();
            self.done.push_back(name);
            if self.done.len() > self.config.flows_max {
                self.evict_oldest_done();
            }
        }
        if to == State::Gone {
            self.remove(name);
        }
        true
    }

    fn evict_oldest_done(&mut self) {
        if let Some(oldest) = self.done.pop_front()
            && self.flows.get(&oldest).is_some_and(|f| f.state == State::Done)
        {
            self.step(oldest, Cause::LastWordArrived);
        }
    }

    /// Takes a flow out of every table and remembers that it is over.
    fn remove(&mut self, name: FlowName) {
        self.forget_digests(name, u64::MAX);
        let Some(flow) = self.flows.remove(&name) else { return };
        self.held.change(flow.counted, Held::default());
        if let Some(at) = flow.timer {
            self.timers.remove(&(at, name));
        }
        self.receipts.remove(&name);
        self.unheard.remove(&name);
        self.relay.left(name, &flow);
        for ring in [&mut self.greeters, &mut self.control, &mut self.micro, &mut self.bulk, &mut self.held_back] {
            ring.list(name, &mut true, false);
        }
        if name.mine {
            if self.lowest_mine() >= self.forgotten + FORGET_EVERY && !self.forget.flying() {
                self.forget.ask();
            }
        } else {
            // The gaps among an opener's ended flows are at most as many as its live flows.
            self.over_theirs.insert(name.number, 2 * self.config.flows_max.max(32));
        }
    }

    /// Our lowest flow number still in the table: everything below is over.
    pub(super) fn lowest_mine(&self) -> u64 {
        let from = FlowName { mine: true, number: 0 };
        self.flows.range(from..).next().map_or(self.next_mine, |(name, _)| name.number)
    }

    /// Closes a flow whose two directions have ended, or one that the peer reset, once its bytes are read.
    pub(super) fn conclude(&mut self, name: FlowName) {
        if let Some(reason) = self.flows.get(&name).and_then(Flow::was_ended_by_peer) {
            self.lose(name, Cause::PeerResets, reason);
        } else if self.flows.get(&name).is_some_and(Flow::has_ended) {
            if let Some(flow) = self.flows.get_mut(&name) {
                flow.last_word = LastWord::Receipt;
            }
            self.counters.closed += 1;
            self.events.push_back(HopEvent::Closed(name));
            self.step(name, Cause::BothEnded);
        }
    }

    /// After any change to a flow: updates its place in the rings, its timer, the totals, and removes it if it is gone.
    pub(super) fn settle(&mut self, name: FlowName) {
        if self.flows.get(&name).is_some_and(Flow::is_gone) {
            self.step(name, Cause::LastWordArrived);
        }
        let Some(flow) = self.flows.get_mut(&name) else { return };
        let (data, micro) = (flow.wants_data(), flow.out.is_micro());
        let (greeting, control) = (flow.wants_greeting(), flow.wants_control());
        let held_back = !data && !micro && flow.is_sending() && flow.out.is_held();
        let receipt = flow.inc.receipt_at.is_some();
        let listed = &mut flow.listed;
        self.greeters.list(name, &mut listed.greeters, greeting);
        self.control.list(name, &mut listed.control, control);
        self.micro.list(name, &mut listed.micro, data && micro);
        self.bulk.list(name, &mut listed.bulk, data && !micro);
        self.held_back.list(name, &mut listed.held_back, held_back);
        list(name, &mut self.receipts, &mut listed.receipts, receipt);
        let unheard = flow.is_sending() && flow.out.is_unheard();
        list(name, &mut self.unheard, &mut flow.unheard, unheard);
        self.relay.note(name, flow);
        if !data || micro {
            flow.deficit = flow.deficit.min(0);
        }
        flow.watch_idle(self.config.idle);
        let deadline = flow.deadline();
        if deadline != flow.timer {
            if let Some(old) = flow.timer {
                self.timers.remove(&(old, name));
            }
            if let Some(at) = deadline {
                self.timers.insert((at, name));
            }
            flow.timer = deadline;
        }
        let holds = flow.holds();
        self.held.change(flow.counted, holds);
        flow.counted = holds;
    }
}
