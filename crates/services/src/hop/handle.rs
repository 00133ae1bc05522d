//! Processes received frames. The peer is authenticated but may be wrong or hostile: everything is checked against what we
//! promised and sent, and mismatches are counted.

use super::flow::{Cause, Flow, LastWord, State, is_news, round};
use super::incoming::Dropped;
use super::outgoing::Manner;
use super::types::{HopEvent, Window};
use super::{Hop, STRAYS_MAX};
use wavelane_base::Instant;
use wavelane_wire::frame::{Answered, FlowName, Frame, Open, Ranges, Reach, Reason, ReceiptState, Word};

/// An answer without its flow.
struct Answer {
    refusal: Option<Reason>,
    credit: u64,
    edge: Option<Answered>,
}

/// A receipt without its flow.
struct Receipt<'a> {
    state: ReceiptState,
    cumulative: u64,
    credit: u64,
    ranges: &'a Ranges,
}

impl Hop {
    /// Takes one received frame; frames that are not the block service's are ignored.
    pub fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        self.handle_timeout(now);
        match frame {
            Frame::Open(open) => self.on_open(now, open),
            Frame::Answer { flow, refusal, credit, edge } => {
                let answer = Answer { refusal: *refusal, credit: *credit, edge: *edge };
                self.on_answer(now, flow.from_other_side(), answer);
            }
            Frame::Offer { flow, start, length, vtx: true, .. } => {
                self.on_vtx(now, flow.from_other_side(), *start, *length);
            }
            Frame::Offer { flow, block, start, length, micro, .. } => {
                let name = flow.from_other_side();
                let apart = self.path.told_apart;
                if let Some(f) = self.receiving(name) {
                    f.inc.set_apart(apart);
                    f.inc.offer(now, *block, *start, *length, *micro);
                    let end = length.map(|length| start.saturating_add(length));
                    if end.is_some_and(|end| f.inc.asks(end)) {
                        self.events.push_back(HopEvent::Asks(name));
                    } else if length.is_none() && f.inc.is_short() {
                        f.inc.mute = true;
                        self.pass_mute(now, name);
                        self.ask_for_mute(name);
                    }
                    self.settle(name);
                }
            }
            Frame::Data { flow, offset, bytes } => self.on_data(now, flow.from_other_side(), *offset, bytes),
            Frame::Receipt { flow, state: ReceiptState::AlreadyHave, cumulative, ranges, .. } => {
                self.on_already_have(flow.from_other_side(), *cumulative, ranges);
            }
            Frame::Receipt { flow, state, cumulative, credit, ranges } => {
                let receipt = Receipt { state: *state, cumulative: *cumulative, credit: *credit, ranges };
                self.on_receipt(now, flow.from_other_side(), &receipt);
            }
            Frame::Finish { flow, length } => self.on_finish(flow.from_other_side(), *length),
            Frame::Reset { flow, reason, after: None } => self.on_reset(flow.from_other_side(), *reason),
            Frame::Reset { flow, reason, after: Some(reach) } => {
                self.on_end(flow.from_other_side(), *reason, *reach);
            }
            Frame::Forget { below, ranges } => self.on_forget(*below, ranges),
            Frame::Progress { flow, reach, word } => self.on_progress(flow.from_other_side(), *reach, *word),
            Frame::Heard { digests } => self.on_heard(now, digests),
            Frame::DataByDigest { flow, offset, len, digest } => {
                self.on_digest(flow.from_other_side(), *offset, *len, *digest);
            }
            Frame::Padding
            | Frame::Ping
            | Frame::LaneAck(_)
            | Frame::AckWish { .. }
            | Frame::Close
            | Frame::Protected
            | Frame::Repair(_)
            | Frame::Repaired { .. }
            | Frame::Packet(_)
            | Frame::Compressed(_)
            | Frame::PathChallenge(_)
            | Frame::PathResponse(_)
            | Frame::LaneGone { .. }
            | Frame::Metered { .. }
            | Frame::Unknown { .. } => {}
        }
    }

    fn on_open(&mut self, _now: Instant, open: &Open) {
        let name = open.flow.from_other_side();
        if name.mine {
            self.counters.protocol_errors += 1;
            return;
        }
        if let Some(flow) = self.flows.get_mut(&name) {
            // The opener asks again: it has not heard our answer, if there is one.
            let answered = flow.is_sending() || (flow.state == State::Done && flow.last_word == LastWord::Answer);
            if answered && !flow.answer.flying() {
                flow.answer.ask();
            }
            self.settle(name);
            return;
        }
        if self.over_theirs.contains(name.number) {
            self.stray(name);
            return;
        }
        let full = self.live >= self.lent.flows;
        let mut flow = Flow::new(State::Asked, open.source, open.target, open.passage);
        flow.out.manner = Manner::of(&self.config);
        flow.inc.withheld = self.held_at_first();
        flow.out.grant(open.credit);
        flow.moved_at = _now;
        self.relay.joined(&flow);
        self.flows.insert(name, flow);
        self.live += 1;
        self.counters.incoming += 1;
        if full {
            self.counters.refused_table_full += 1;
            self.answer(_now, name, Some(Reason::NoRoom));
        } else {
            let Open { source, target, passage, .. } = *open;
            self.events.push_back(HopEvent::Incoming { flow: name, source, target, passage });
            self.settle(name);
        }
    }

    fn on_answer(&mut self, now: Instant, name: FlowName, answer: Answer) {
        let Answer { refusal, credit, edge } = answer;
        let known = self.flows.get_mut(&name).filter(|_| name.mine);
        let Some(flow) = known else {
            self.counters.dropped_unknown_flow += 1;
            return;
        };
        if flow.state != State::Opening {
            // A repetition; a refusal after an acceptance contradicts it.
            self.counters.protocol_errors += u64::from(flow.state == State::Open && refusal.is_some());
            return;
        }
        flow.open.settle();
        flow.open_again_at = None;
        match refusal {
            None => {
                flow.out.grant(credit);
                flow.across = edge.map(|_| flow.across.take().unwrap_or_default());
                let early = flow.across.as_ref().map(|across| (across.theirs, across.their_word));
                let early = early.filter(|said| is_news(Default::default(), *said));
                flow.out.watch(now, &self.path);
                self.events.push_back(HopEvent::Accepted(name, edge));
                self.events.extend(early.map(|(reach, word)| HopEvent::Progress(name, reach, word)));
                self.step(name, Cause::PeerAccepts);
                // Bytes that overtook the answer.
                if self.flows.get_mut(&name).is_some_and(Flow::wakes_reader) {
                    self.events.push_back(HopEvent::Readable(name));
                }
                self.settle(name);
            }
            Some(reason) => {
                self.events.push_back(HopEvent::Refused(name, reason, edge));
                self.step(name, Cause::PeerRefuses);
            }
        }
    }

    /// The flow if it takes bytes from the peer; unknown flows are counted and answered.
    fn receiving(&mut self, name: FlowName) -> Option<&mut Flow> {
        match self.flows.get_mut(&name).map(|f| (f.state, f.last_word)) {
            None => self.stranger(name),
            Some((State::Opening | State::Open, _)) => return self.flows.get_mut(&name),
            // All was received; the peer does not know it yet.
            Some((State::Done, LastWord::Receipt)) => {
                if let Some(flow) = self.flows.get_mut(&name) {
                    flow.inc.receipt_now = true;
                }
                self.settle(name);
            }
            Some((State::Asked | State::Ending | State::Done | State::Gone, _)) => {}
        }
        None
    }

    pub(super) fn on_data(&mut self, now: Instant, name: FlowName, offset: u64, bytes: &[u8]) {
        let room = self.unread_room();
        let path = self.path;
        let mut losing = self.losing.take();
        let Some(flow) = self.receiving(name) else {
            self.losing = losing;
            return;
        };
        let faulty = losing.as_mut().filter(|_| flow.across.is_some());
        let again = flow.inc.take_again(offset, bytes, faulty);
        flow.inc.set_apart(path.told_apart);
        flow.inc.observe(now, &round(&path), room);
        let result = flow.inc.take(now, offset, bytes, room);
        if let Some(losing) = losing.as_mut().filter(|_| flow.across.is_some()) {
            flow.inc.lose_blocks(losing);
        }
        if result == Err(Dropped::PoolFull) {
            flow.inc.press();
        }
        let mut wake = false;
        if let Ok(taken) = result {
            flow.moves(now, taken.fresh > 0);
            if taken.fresh == 0 {
                flow.inc.receipt_for_duplicate(now);
            }
            flow.consider_credit(now, &path, room);
            wake = flow.wakes_reader();
        }
        match result {
            Ok(taken) => {
                self.counters.received_octets += taken.fresh;
                self.counters.duplicate_octets += taken.duplicate;
            }
            Err(Dropped::BeyondCredit) => self.counters.dropped_beyond_credit += bytes.len() as u64,
            Err(Dropped::AfterFinish) => self.counters.protocol_errors += 1,
            Err(Dropped::PoolFull) => self.counters.dropped_pool_full += bytes.len() as u64,
        }
        self.losing = losing;
        self.let_pass(now, name);
        self.events.extend(again.into_iter().map(|(offset, bytes)| HopEvent::Again(name, offset, bytes)));
        if wake {
            self.events.push_back(HopEvent::Readable(name));
        }
        self.settle(name);
    }

    fn on_receipt(&mut self, now: Instant, name: FlowName, receipt: &Receipt<'_>) {
        let path = self.path;
        let Some(flow) = self.flows.get_mut(&name) else {
            self.counters.dropped_unknown_flow += 1;
            return;
        };
        match receipt.state {
            ReceiptState::Unknown if flow.out.complete => return,
            ReceiptState::Unknown => return self.lose(name, Cause::PeerLostIt, Reason::Restarted),
            ReceiptState::Refuse => return self.lose(name, Cause::PeerResets, Reason::Refused),
            ReceiptState::Accept | ReceiptState::Wait | ReceiptState::Complete => {}
            // Concerns only the bytes asked for, not the flow.
            ReceiptState::AlreadyHave => return,
        }
        if !flow.is_sending() || flow.ended_by_peer.is_some() {
            // Before our Open was answered, or after the end: nothing was sent, or the receipt has no effect.
            return;
        }
        if !flow.out.is_plausible(receipt.cumulative, &receipt.ranges.0) {
            self.counters.protocol_errors += 1;
            return;
        }
        let held_up = receipt.state == ReceiptState::Wait;
        flow.out.hold_up(held_up.then_some(receipt.credit.max(receipt.cumulative)));
        let (before, credit) = (flow.out.buffered(), flow.out.has_credit());
        flow.out.grant(receipt.credit);
        self.counters.contradicted_octets += flow.out.receipt(now, receipt.cumulative, &receipt.ranges.0, &path);
        flow.moves(now, flow.out.buffered() < before);
        let clears = flow.inc.ahead.is_some() && credit != flow.out.has_credit();
        let counts = flow.inc.ahead.is_some() || matches!(flow.inc.window, Window::Octets(_));
        if clears || counts && flow.out.buffered() < before {
            self.events.push_back(HopEvent::Receipted(name));
        }
        if receipt.state == ReceiptState::Complete && !flow.out.complete && !flow.out.completed(receipt.cumulative) {
            // An old receipt, or one for an end we never announced.
            self.counters.protocol_errors += u64::from(flow.out.fin != Some(receipt.cumulative));
        }
        self.settle(name);
        self.wake_writer(now, name);
        self.conclude(name);
        self.settle(name);
    }

    fn on_progress(&mut self, name: FlowName, reach: Reach, word: Option<Word>) {
        self.counters.progress_frames += 1;
        let Some(flow) = self.flows.get_mut(&name) else { return self.stranger(name) };
        if flow.state == State::Opening && flow.passage.is_some() {
            // The frame overtook the answer, which says whether relays lie between.
            let across = flow.across.get_or_insert_default();
            across.their_word = across.their_word.max(word);
            across.theirs = across.theirs.max(reach);
            return;
        }
        let Some(across) = &mut flow.across else {
            self.counters.protocol_errors += u64::from(flow.state == State::Open);
            return;
        };
        if flow.state == State::Open && is_news((across.theirs, across.their_word), (reach, word)) {
            across.their_word = word.or(across.their_word);
            across.theirs = across.theirs.max(reach);
            self.events.push_back(HopEvent::Progress(name, reach, word));
            self.conclude(name);
            self.settle(name);
        } else {
            self.on_same_progress(name, reach);
        }
    }

    fn on_finish(&mut self, name: FlowName, length: u64) {
        let mut losing = self.losing.take();
        let Some(flow) = self.receiving(name) else {
            self.losing = losing;
            return;
        };
        let fits = flow.inc.finish(length);
        if let Some(losing) = losing.as_mut().filter(|_| flow.across.is_some()) {
            flow.inc.lose_blocks(losing);
        }
        let wake = fits && flow.wakes_reader();
        if wake {
            self.events.push_back(HopEvent::Readable(name));
        }
        self.losing = losing;
        self.counters.protocol_errors += u64::from(!fits);
        self.settle(name);
    }

    fn on_reset(&mut self, name: FlowName, reason: Reason) {
        if self.flows.contains_key(&name) {
            self.lose(name, Cause::PeerResets, reason);
        } else if name.mine {
            self.counters.dropped_unknown_flow += 1;
        } else {
            // The Reset overtook its Open, which must no longer create the flow.
            self.note_over(name.number);
        }
    }

    /// The peer's owner reset the flow after `reach`: ours reads that far, then sees the reset.
    fn on_end(&mut self, name: FlowName, reason: Reason, reach: Reach) {
        let Some(flow) = self.flows.get_mut(&name) else { return self.on_reset(name, reason) };
        if !matches!(flow.state, State::Opening | State::Open) || !flow.inc.finish(reach.received) {
            self.counters.protocol_errors += u64::from(flow.state == State::Open);
            return self.on_reset(name, reason);
        }
        if flow.ended_by_peer.replace((reason, reach.finished)).is_none() {
            self.relay.forget_sent(flow, u64::MAX);
            flow.out.discard();
            self.events.push_back(HopEvent::Ending(name));
        }
        if flow.wakes_reader() {
            self.events.push_back(HopEvent::Readable(name));
        }
        self.conclude(name);
        self.settle(name);
    }

    fn on_forget(&mut self, below: u64, ranges: &Ranges) {
        let theirs = |number| FlowName { mine: false, number };
        let spans = ranges.0.iter().map(|&(first, last)| (first, last)).chain((below > 0).then(|| (0, below - 1)));
        let spans: Vec<(u64, u64)> = spans.collect();
        let forgotten: Vec<FlowName> = spans
            .iter()
            .flat_map(|&(first, last)| self.flows.range(theirs(first)..=theirs(last)).map(|(name, _)| *name))
            .collect();
        for name in forgotten {
            let Some(flow) = self.flows.get(&name) else { continue };
            // The opener may forget a flow that is complete both ways although our owner has not read it all yet.
            let over = matches!(flow.state, State::Ending | State::Done);
            let complete = (flow.out.complete || flow.ended_by_peer.is_some()) && flow.inc.is_complete();
            if over {
                self.step(name, Cause::PeerLostIt);
            } else if !complete {
                self.counters.protocol_errors += 1;
                self.lose(name, Cause::PeerLostIt, Reason::Aborted);
            } else if let Some(flow) = self.flows.get_mut(&name) {
                flow.inc.complete_arrived = true;
            }
        }
        self.over_theirs.raise(below);
        for &(first, last) in &ranges.0 {
            self.over_theirs.insert_span(first, last.saturating_add(1), 2 * self.config.flows_max.max(32));
        }
    }

    fn note_over(&mut self, number: u64) {
        self.over_theirs.insert(number, 2 * self.config.flows_max.max(32));
    }

    /// The flow ends abnormally: tells the owner unless it knows already.
    pub(super) fn lose(&mut self, name: FlowName, cause: Cause, reason: Reason) {
        match self.flows.get(&name).map(|f| f.state) {
            Some(State::Opening) => self.events.push_back(HopEvent::Refused(name, reason, None)),
            // If the peer itself says so, it has not lost its state, since it knows the flow.
            Some(State::Asked | State::Open) if (cause, reason) == (Cause::PeerResets, Reason::Restarted) => {
                self.events.push_back(HopEvent::Withdrawn(name));
            }
            Some(State::Asked | State::Open) => self.events.push_back(HopEvent::Reset(name, reason)),
            _ => {}
        }
        if self.flows.get(&name).is_some_and(|f| !matches!(f.state, State::Ending | State::Done)) {
            self.counters.resets += 1;
        }
        self.step(name, cause);
    }

    /// A frame for a flow that is in no table. If the flow is over, the peer is told; a frame of a flow never seen is dropped
    /// silently, since its Open may be in flight.
    pub(super) fn stranger(&mut self, name: FlowName) {
        self.counters.dropped_unknown_flow += 1;
        let over = if name.mine { name.number < self.next_mine } else { self.over_theirs.contains(name.number) };
        if over {
            self.stray(name);
        }
    }

    fn stray(&mut self, name: FlowName) {
        if self.strays.len() < STRAYS_MAX && !self.strays.contains(&name) {
            self.strays.push_back(name);
        }
    }
}
