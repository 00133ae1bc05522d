//! The block service on one hop: all flows with one peer, sans-IO. `docs/protocol/hop.md` is the prose twin.
//!
//! The link above owns session, lanes and lane acks. It asks [`Hop::fill`] for frames whenever a lane has room,
//! feeds received flow frames to [`Hop::handle_frame`], and reports the fate of everything carried through
//! [`Hop::delivered`] and [`Hop::lost`]. A session that dies reports everything it carried as lost.

mod bytes;
mod fates;
mod fill;
mod flow;
mod greet;
mod handle;
mod incoming;
mod memory;
mod numbers;
mod outgoing;
mod relay;
mod room;
mod schedule;
mod shares;
mod sure;
mod table;
mod types;

pub use fill::Datagram;
pub use relay::{OPEN_MIN, VTX_OCTETS_MAX};
pub use types::{Carried, Counters, HopConfig, HopEvent, HopOpenError, HopStatus, Item, Losing, Onward, Window};

use flow::{Cause, Flow, LastWord, State};
use greet::Greetings;
use numbers::Over;
use outgoing::Manner;
use relay::Relay;
use schedule::Ring;
use shares::Held;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use sure::Sure;
use types::{Lent, earlier};
use wavelane_base::{Class, Instant, Octets, Wakeup};
use wavelane_transport::{Bulk, PathView};
use wavelane_wire::frame::{Answered, FlowName, Passage, Reach, Reason, Word};

/// Most answers waiting to tell the peer that a flow is not known here.
const STRAYS_MAX: usize = 64;
/// All flows with one peer.
#[derive(Debug)]
pub struct Hop {
    config: HopConfig,
    path: PathView,
    flows: BTreeMap<FlowName, Flow>,
    /// Flows that are not `Done`.
    live: usize,
    /// Flows that became `Done`, oldest first, at most `flows_max`; some may be gone already.
    done: VecDeque<FlowName>,
    next_mine: u64,
    over_theirs: Over,
    /// Everything of ours below is over, as the peer was last told.
    forgotten: u64,
    forget: Sure,
    strays: VecDeque<FlowName>,
    /// Flows with an Open or Answer to send, and what those may cost.
    greeters: Ring,
    greetings: Greetings,
    control: Ring,
    micro: Ring,
    bulk: Ring,
    /// Bulk flows whose next bytes cannot be sent now: there is no credit for them, or no room to write them.
    held_back: Ring,
    micro_run: u64,
    timers: BTreeSet<(Instant, FlowName)>,
    /// Flows with a receipt that is to leave before long.
    receipts: BTreeSet<FlowName>,
    /// Flows with bytes in flight that no lane ack covers yet: at most packets in flight times what fits in one.
    unheard: BTreeSet<FlowName>,
    events: VecDeque<HopEvent>,
    serial: u64,
    /// Fates of older transmissions are ignored: the peer they went to is gone.
    serial_floor: u64,
    /// This service's part of the limits, which it shares with the services of other peers.
    lent: Lent,
    /// What all flows hold.
    held: Held,
    /// A fault of simulations.
    losing: Option<Losing>,
    /// What is done for flows that go on beyond the next node.
    relay: Relay,
    counters: Counters,
}

impl Hop {
    /// An empty block service.
    pub fn new(config: HopConfig) -> Self {
        Self {
            lent: Lent { flows: config.flows_max, pool: config.pool },
            config,
            path: PathView::default(),
            flows: BTreeMap::new(),
            live: 0,
            done: VecDeque::new(),
            next_mine: 0,
            over_theirs: Over::default(),
            forgotten: 0,
            forget: Sure::default(),
            strays: VecDeque::new(),
            greeters: Ring::default(),
            greetings: Greetings::default(),
            control: Ring::default(),
            micro: Ring::default(),
            bulk: Ring::default(),
            held_back: Ring::default(),
            micro_run: 0,
            timers: BTreeSet::new(),
            receipts: BTreeSet::new(),
            unheard: BTreeSet::new(),
            events: VecDeque::new(),
            serial: 0,
            serial_floor: 0,
            held: Held::default(),
            losing: None,
            relay: Relay::default(),
            counters: Counters::default(),
        }
    }

    /// Sets other limits from now on; what exceeds them already is not taken back.
    pub fn set_limits(&mut self, config: HopConfig) {
        self.config = config;
        self.lend(config.flows_max, config.pool);
        self.set_withholding();
    }

    /// Drops accepted blocks from now on, for simulations.
    pub fn lose_blocks(&mut self, losing: Losing) {
        self.losing = Some(losing);
    }

    /// Sets this service's part of the limits; what exceeds it already is not taken back.
    pub fn lend(&mut self, flows: usize, pool: Octets) {
        self.lent = Lent { flows, pool };
    }

    /// Asks the peer to connect to `target` for the application at `source`. Bytes may be written at once; they
    /// leave when the peer has accepted.
    pub fn open(
        &mut self,
        now: Instant,
        source: SocketAddr,
        target: SocketAddr,
        passage: Option<Passage>,
    ) -> Result<FlowName, HopOpenError> {
        if self.live >= self.lent.flows {
            return Err(HopOpenError::TableFull(self.lent.flows));
        }
        let name = FlowName { mine: true, number: self.next_mine };
        self.next_mine += 1;
        self.counters.opened += 1;
        let mut flow = Flow::new(State::Opening, source, target, passage);
        flow.out.manner = Manner::of(&self.config);
        flow.inc.withheld = self.held_at_first();
        flow.open.ask();
        flow.promise(now, &self.path, self.unread_room());
        flow.moved_at = now;
        self.relay.joined(&flow);
        self.flows.insert(name, flow);
        self.live += 1;
        self.settle(name);
        Ok(name)
    }

    /// Accepts an incoming flow. `edge` is what the answering edge says, set if relays lie between the edges. Ignored for any
    /// other flow.
    pub fn accept(&mut self, now: Instant, flow: FlowName, edge: Option<Answered>) {
        if let Some(f) = self.flows.get_mut(&flow)
            && f.state == State::Asked
        {
            f.answered = edge;
            f.across = edge.map(|_| Box::default());
        }
        self.answer(now, flow, None);
    }

    /// Refuses an incoming flow, with what its answering edge says if it ended before. Ignored for any other flow.
    pub fn refuse(&mut self, now: Instant, flow: FlowName, reason: Reason, edge: Option<Answered>) {
        if let Some(f) = self.flows.get_mut(&flow).filter(|f| f.state == State::Asked) {
            f.answered = edge;
        }
        self.answer(now, flow, Some(reason));
    }

    fn answer(&mut self, now: Instant, flow: FlowName, refusal: Option<Reason>) {
        let room = self.unread_room();
        let Some(f) = self.flows.get_mut(&flow) else { return };
        let cause = if refusal.is_none() { Cause::OwnerAccepts } else { Cause::OwnerRefuses };
        if f.state.next(cause).is_none() {
            return;
        }
        f.refusal = refusal;
        f.answer.ask();
        f.last_word = LastWord::Answer;
        if refusal.is_none() {
            f.promise(now, &self.path, room);
        }
        self.step(flow, cause);
        self.settle(flow);
    }

    /// Across relays: tells the other edge how far its bytes were taken, soon or at once. Ignored without relays.
    pub fn say_progress(&mut self, now: Instant, flow: FlowName, said: (Reach, Option<Word>), at_once: bool) {
        if let Some(f) = self.flows.get_mut(&flow) {
            f.say(now, said, at_once);
            self.settle(flow);
        }
    }

    /// Abandons both directions for `reason`: the far application gets what was written, and the end if we shut down, then sees a
    /// reset. No event follows.
    pub fn end(&mut self, now: Instant, flow: FlowName, reason: Reason) {
        let Some(f) = self.flows.get_mut(&flow) else { return };
        if f.state == State::Ending {
            return;
        }
        if f.ended_by_peer.is_some() || f.state != State::Open {
            // It would not be read, or nothing was sent.
            return self.reset(flow, reason);
        }
        f.reason = reason;
        f.reset.ask();
        f.out.end();
        f.out.watch(now, &self.path);
        f.inc.discard();
        self.counters.resets += 1;
        self.step(flow, Cause::OwnerEnds);
        self.settle(flow);
    }

    /// Abandons both directions for `reason` at once: what was not read at the far side is dropped there. No event
    /// follows.
    pub fn reset(&mut self, flow: FlowName, reason: Reason) {
        let Some(f) = self.flows.get_mut(&flow) else { return };
        if f.ended_by_peer.is_some() {
            // Its owner knows. Further frames of the peer are answered as for any flow that is over.
            self.step(flow, Cause::PeerResets);
            return;
        }
        if f.state.next(Cause::OwnerResets).is_none() {
            return;
        }
        let never_sent = f.state == State::Opening && !f.open.sent;
        f.reason = reason;
        f.reset.ask();
        f.last_word = LastWord::Reset;
        self.counters.resets += 1;
        self.step(flow, Cause::OwnerResets);
        if never_sent {
            // The peer does not learn of this number unless we send a Forget.
            self.step(flow, Cause::LastWordArrived);
            self.forget.ask();
        }
        self.settle(flow);
    }

    /// Refreshes what the lanes know of the path.
    pub fn set_path(&mut self, path: PathView) {
        self.path = path;
    }

    /// No ack came although one is overdue: the bytes longest in flight are retransmitted, as if they were lost.
    pub(crate) fn doubt_oldest(&mut self) {
        // Does not iterate over all flows: the peer controls both their number and when no ack comes.
        let oldest = |name: &FlowName| Some((self.flows.get(name)?.out.oldest_serial()?, *name));
        let Some((_, name)) = self.unheard.iter().filter_map(oldest).min() else { return };
        if let Some(flow) = self.flows.get_mut(&name) {
            flow.out.doubt_oldest();
        }
        self.settle(name);
    }

    /// Receipts that are to leave before long leave now. Whether there are any.
    pub(crate) fn hasten_receipts(&mut self) -> bool {
        // Does not iterate over all flows: this runs for every datagram, and the peer controls the number of flows.
        let names = core::mem::take(&mut self.receipts);
        for name in &names {
            if let Some(flow) = self.flows.get_mut(name) {
                flow.inc.hasten();
                flow.listed.receipts = false;
            }
            self.settle(*name);
        }
        !names.is_empty()
    }

    /// Whether the current bulk flow will soon have nothing more to send: no later bytes would then reveal the loss of its last
    /// ones.
    pub(crate) fn ends_soon(&mut self, now: Instant) -> bool {
        self.bulk.current().and_then(|name| self.flows.get(&name)).is_some_and(|flow| flow.out.ends_soon(now))
    }

    /// Whether the current bulk flow sends a retransmission next.
    pub(crate) fn repeats_next(&mut self) -> bool {
        self.bulk.current().and_then(|name| self.flows.get(&name)).is_some_and(|flow| flow.out.repeats_next())
    }

    /// The most urgent class with something to send now. Less urgent classes may also have something to send: call [`Hop::fill`]
    /// with the least urgent class that the lane permits, or bulk is starved.
    pub fn wants(&self, now: Instant) -> Option<Class> {
        let greets = self.greeting_waits() && self.greetings.is_open(now);
        if greets || self.relay.is_due() || !self.strays.is_empty() || !self.control.is_empty() {
            return Some(Class::Control);
        }
        match (self.micro.is_empty(), self.bulk.is_empty()) {
            (true, true) => None,
            (false, _) => Some(Class::Micro),
            (true, false) => Some(Class::Bulk),
        }
    }

    /// Whether bulk waits, and whether for credit, or its writer for room.
    pub fn bulk(&self) -> Bulk {
        match (self.bulk.is_empty(), self.held_back.is_empty()) {
            (false, _) => Bulk::Ready,
            (true, false) => Bulk::Held,
            (true, true) => Bulk::None,
        }
    }

    /// Whether bytes of small exchanges wait.
    pub fn micro_waits(&self) -> bool {
        !self.micro.is_empty()
    }

    /// Whether an Open, Answer or Forget is due.
    fn greeting_waits(&self) -> bool {
        self.forget.due || !self.greeters.is_empty()
    }

    /// The peer came back without its memory: every flow is reset.
    pub fn peer_restarted(&mut self, _now: Instant) {
        for (&name, flow) in &self.flows {
            match flow.state {
                State::Opening => self.events.push_back(HopEvent::Refused(name, Reason::Restarted, None)),
                State::Asked | State::Open => self.events.push_back(HopEvent::Reset(name, Reason::Restarted)),
                State::Ending | State::Done | State::Gone => continue,
            }
            self.counters.resets += 1;
        }
        self.flows.clear();
        self.live = 0;
        self.held = Held::default();
        self.done.clear();
        self.strays.clear();
        self.timers.clear();
        self.receipts.clear();
        self.unheard.clear();
        self.relay.start_anew();
        self.greeters = Default::default();
        self.control = Default::default();
        self.micro = Default::default();
        self.bulk = Default::default();
        self.held_back = Default::default();
        self.over_theirs = Over::default();
        self.serial_floor = self.serial + 1;
        // Our flow numbers continue; the new peer learns that the old ones are over.
        self.forgotten = 0;
        self.forget = Sure::default();
        if self.next_mine > 0 {
            self.forget.ask();
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, name)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            if let Some(flow) = self.flows.get_mut(&name) {
                flow.timer = None;
                if flow.tick(now) {
                    self.counters.probes += 1;
                }
                if flow.tick_idle(now, self.config.idle) {
                    self.events.push_back(HopEvent::Idle(name));
                }
                if flow.inc.pass_at.is_some_and(|at| at <= now) {
                    self.pass_mute(now, name);
                }
            }
            self.settle(name);
        }
        self.forget.tick(now);
        self.relay.tick(now);
        self.greetings.tick(now);
    }

    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        let flow = self.timers.first().map(|(at, _)| *at);
        let greeting = self.greetings.deadline().filter(|_| self.greeting_waits());
        let report = self.relay.deadline();
        earlier(earlier(flow, report), earlier(greeting, self.forget.deadline()))
            .map(|at| Wakeup { at, cause: "hop: receipt, copy or question due" })
    }

    /// The next report, oldest first.
    pub fn poll_event(&mut self) -> Option<HopEvent> {
        self.events.pop_front()
    }

    /// What is held now.
    pub fn status(&self) -> HopStatus {
        HopStatus {
            flows: self.live,
            closing: self.flows.len() - self.live,
            to_send: self.held.to_send,
            unread: self.held.unread,
        }
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

#[cfg(test)]
mod tests;
