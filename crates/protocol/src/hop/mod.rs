//! The block service on one hop: all flows with one peer, sans-IO. `docs/protocol/hop.md` is the prose twin.
//!
//! The link above owns session, lanes and lane acks. It asks [`Hop::fill`] for frames whenever a lane has room,
//! feeds received flow frames to [`Hop::handle_frame`], and reports the fate of everything carried through
//! [`Hop::delivered`] and [`Hop::lost`]. A session that dies reports everything it carried as lost.

mod budget;
mod fill;
mod flow;
mod handle;
mod incoming;
mod numbers;
mod outgoing;
pub(crate) mod ranges;
mod schedule;
mod sure;
mod types;

pub use budget::RepairBudget;
pub use types::{Carried, Counters, HopConfig, HopEvent, HopOpenError, HopStatus, Item, Path};

use flow::{Cause, Flow, LastWord, State};
use incoming::{CREDIT_FLOOR, UnreadRoom};
use numbers::Over;
use outgoing::{AHEAD, AHEAD_MIN};
use schedule::Ring;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use sure::Sure;
use types::earlier;
use wavelane_base::{Class, Instant, ReadOutcome, Wakeup};
use wavelane_wire::frame::{FlowName, Passage, Reach, Reason};

/// Most answers waiting to tell the peer that a flow is not known here.
const STRAYS_MAX: usize = 64;
/// The opener says which flows are over each time so many more are.
const FORGET_EVERY: u64 = 64;
/// Least room that makes a waiting writer worth waking.
const WRITABLE_MIN: u64 = 16 << 10;

/// All flows with one peer.
#[derive(Debug)]
pub struct Hop {
    config: HopConfig,
    path: Path,
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
    control: Ring,
    micro: Ring,
    bulk: Ring,
    micro_run: u64,
    /// What repair may cost in our direction; the link's repair symbols draw on it too.
    pub(crate) budget: RepairBudget,
    timers: BTreeSet<(Instant, FlowName)>,
    events: VecDeque<HopEvent>,
    serial: u64,
    /// Fates of older sendings mean nothing: the peer they went to is gone.
    serial_floor: u64,
    /// Bytes in all flows' send buffers, and unread in all receive buffers.
    held: (u64, u64),
    counters: Counters,
}

impl Hop {
    /// An empty block service.
    pub fn new(config: HopConfig) -> Self {
        Self {
            config,
            path: Path::default(),
            flows: BTreeMap::new(),
            live: 0,
            done: VecDeque::new(),
            next_mine: 0,
            over_theirs: Over::default(),
            forgotten: 0,
            forget: Sure::default(),
            strays: VecDeque::new(),
            control: Ring::default(),
            micro: Ring::default(),
            bulk: Ring::default(),
            micro_run: 0,
            budget: RepairBudget::default(),
            timers: BTreeSet::new(),
            events: VecDeque::new(),
            serial: 0,
            serial_floor: 0,
            held: (0, 0),
            counters: Counters::default(),
        }
    }

    /// Other limits from now on; what is above them already is not taken back.
    pub fn set_limits(&mut self, config: HopConfig) {
        self.config = config;
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
        if self.live >= self.config.flows_max {
            return Err(HopOpenError::TableFull(self.config.flows_max));
        }
        let name = FlowName { mine: true, number: self.next_mine };
        self.next_mine += 1;
        self.counters.opened += 1;
        let mut flow = Flow::new(State::Opening, source, target, passage);
        flow.open.ask();
        flow.promise(now, &self.path, self.receive_share());
        self.flows.insert(name, flow);
        self.live += 1;
        self.settle(name);
        Ok(name)
    }

    /// Accepts an incoming flow. `received` is set if relays lie between the edges: bytes of the opening edge that
    /// the answering edge's application has. Ignored for any other flow.
    pub fn accept(&mut self, now: Instant, flow: FlowName, received: Option<u64>) {
        if let Some(f) = self.flows.get_mut(&flow)
            && f.state == State::Asked
        {
            f.received = received;
            f.across = received.map(|_| Box::default());
        }
        self.answer(now, flow, None);
    }

    /// Does not take an incoming flow. Ignored for any other flow.
    pub fn refuse(&mut self, now: Instant, flow: FlowName, reason: Reason) {
        self.answer(now, flow, Some(reason));
    }

    fn answer(&mut self, now: Instant, flow: FlowName, refusal: Option<Reason>) {
        let share = self.receive_share();
        let Some(f) = self.flows.get_mut(&flow) else { return };
        let cause = if refusal.is_none() { Cause::OwnerAccepts } else { Cause::OwnerRefuses };
        if f.state.next(cause).is_none() {
            return;
        }
        f.refusal = refusal;
        f.answer.ask();
        f.last_word = LastWord::Answer;
        if refusal.is_none() {
            f.promise(now, &self.path, share);
        }
        self.step(flow, cause);
        self.settle(flow);
    }

    /// Accepts as many bytes of `data` as there is room for; fewer than offered means a `Writable` event will follow.
    pub fn write(&mut self, now: Instant, flow: FlowName, data: &[u8]) -> usize {
        let (ahead, share) = (self.ahead(), self.send_share());
        let Some(f) = self.flows.get_mut(&flow) else { return 0 };
        if !matches!(f.state, State::Opening | State::Open) || f.out.fin.is_some() {
            return 0;
        }
        let room = f.out.room(ahead, share);
        let n = data.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        f.out.write(&data[..n]);
        f.out.blocked = n < data.len();
        if f.state == State::Open {
            f.out.watch(now, &self.path);
        }
        self.settle(flow);
        n
    }

    /// Reads into `buf`. An empty `buf` reads nothing and says so with `Blocked`.
    pub fn read(&mut self, now: Instant, flow: FlowName, buf: &mut [u8]) -> ReadOutcome {
        let Some(f) = self.flows.get(&flow) else { return ReadOutcome::Reset };
        let (front, back) = f.inc.unread();
        let in_front = front.len().min(buf.len());
        let n = (front.len() + back.len()).min(buf.len());
        buf[..in_front].copy_from_slice(&front[..in_front]);
        buf[in_front..n].copy_from_slice(&back[..n - in_front]);
        self.consume(now, flow, n)
    }

    /// What [`Hop::read`] would give, where it lies. A flow that ended or was reset shows nothing.
    pub fn unread(&self, flow: FlowName) -> (&[u8], &[u8]) {
        self.flows.get(&flow).map_or((&[], &[]), |f| f.inc.unread())
    }

    /// Takes the first `octets` of [`Hop::unread`] as read; with none, says what a read would.
    pub fn consume(&mut self, now: Instant, flow: FlowName, octets: usize) -> ReadOutcome {
        let (share, cap) = (self.receive_share(), self.unread_room());
        let Some(f) = self.flows.get_mut(&flow) else { return ReadOutcome::Reset };
        if f.state == State::Done {
            return if f.inc.end_read { ReadOutcome::End } else { ReadOutcome::Reset };
        }
        let n = f.inc.consume(octets);
        let outcome = if n > 0 {
            let cap = f.inc.cap(cap);
            f.inc.receipt_now |= f.inc.relieve(cap);
            f.consider_credit(now, &self.path, share);
            ReadOutcome::Data(n)
        } else if f.inc.readable() && f.inc.is_all_read() {
            f.inc.end_read = true;
            ReadOutcome::End
        } else if f.inc.end_read {
            ReadOutcome::End
        } else {
            f.reader_waits = true;
            ReadOutcome::Blocked
        };
        self.conclude(flow);
        self.settle(flow);
        outcome
    }

    /// Ends our direction in an orderly way, after everything written.
    pub fn shutdown(&mut self, now: Instant, flow: FlowName) {
        let Some(f) = self.flows.get_mut(&flow) else { return };
        if matches!(f.state, State::Opening | State::Open) {
            f.out.shut();
            if f.state == State::Open {
                f.out.watch(now, &self.path);
            }
            self.settle(flow);
        }
    }

    /// How many bytes [`Hop::write`] would take now.
    pub fn room(&self, flow: FlowName) -> usize {
        let room = match self.flows.get(&flow) {
            Some(f) if matches!(f.state, State::Opening | State::Open) && f.out.fin.is_none() => {
                f.out.room(self.ahead(), self.send_share())
            }
            _ => 0,
        };
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Has a [`HopEvent::Writable`] follow once there is room worth writing for.
    pub fn want_room(&mut self, now: Instant, flow: FlowName) {
        if let Some(f) = self.flows.get_mut(&flow) {
            f.out.blocked = true;
        }
        self.wake_writer(now, flow);
    }

    /// Across relays: tells the other edge how far its bytes were taken, soon or at once. Ignored where no relay is.
    pub fn say_progress(&mut self, now: Instant, flow: FlowName, reach: Reach, at_once: bool) {
        if let Some(f) = self.flows.get_mut(&flow) {
            f.say(now, reach, at_once);
            self.settle(flow);
        }
    }

    /// Abandons both directions for `reason`; the far application sees a reset. No event follows.
    pub fn reset(&mut self, flow: FlowName, reason: Reason) {
        let Some(f) = self.flows.get_mut(&flow) else { return };
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
            // The peer never hears of this number unless we say that it is over.
            self.step(flow, Cause::LastWordArrived);
            self.forget.ask();
        }
        self.settle(flow);
    }

    /// Refreshes what the lanes know of the path.
    pub fn set_path(&mut self, path: Path) {
        self.budget.set_path(path.rate, path.loss);
        self.path = path;
    }

    /// No ack came although one is overdue: what has been on the way longest is repeated, as if it were lost.
    pub(crate) fn doubt_oldest(&mut self) {
        let oldest = |(name, flow): (&FlowName, &Flow)| Some((flow.out.oldest_serial()?, *name));
        let Some((_, name)) = self.flows.iter().filter(|(_, f)| f.state == State::Open).filter_map(oldest).min() else {
            return;
        };
        if let Some(flow) = self.flows.get_mut(&name) {
            flow.out.doubt_oldest();
        }
        self.settle(name);
    }

    /// What the lanes know of the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the bulk flow whose turn it is will soon have nothing more to send: its last bytes cannot wait for
    /// later ones to show that they were lost.
    pub(crate) fn ends_soon(&mut self, now: Instant) -> bool {
        self.bulk.current().and_then(|name| self.flows.get(&name)).is_some_and(|flow| flow.out.ends_soon(now))
    }

    /// The most urgent class with something to send now. Less urgent ones may wait as well: call [`Hop::fill`] with
    /// the least urgent class that the lane permits, or bulk never has its turn.
    pub fn wants(&self, _now: Instant) -> Option<Class> {
        if self.forget.due || !self.strays.is_empty() || !self.control.is_empty() {
            return Some(Class::Control);
        }
        match (self.micro.is_empty(), self.bulk.is_empty()) {
            (true, true) => None,
            (false, _) => Some(Class::Micro),
            (true, false) => Some(Class::Bulk),
        }
    }

    /// The peer came back without its memory: every flow is reset.
    pub fn peer_restarted(&mut self, _now: Instant) {
        for (&name, flow) in &self.flows {
            match flow.state {
                State::Opening => self.events.push_back(HopEvent::Refused(name, Reason::Restarted)),
                State::Asked | State::Open => self.events.push_back(HopEvent::Reset(name, Reason::Restarted)),
                State::Done | State::Gone => continue,
            }
            self.counters.resets += 1;
        }
        self.flows.clear();
        self.live = 0;
        self.held = (0, 0);
        self.done.clear();
        self.strays.clear();
        self.timers.clear();
        (self.control, self.micro, self.bulk) = Default::default();
        self.over_theirs = Over::default();
        self.serial_floor = self.serial + 1;
        // Our numbers go on; the new peer learns that the old ones are over.
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
            }
            self.settle(name);
        }
        self.forget.tick(now);
    }

    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        let flow = self.timers.first().map(|(at, _)| *at);
        earlier(flow, self.forget.deadline()).map(|at| Wakeup { at, cause: "hop: receipt, copy or question due" })
    }

    /// The next report, oldest first.
    pub fn poll_event(&mut self) -> Option<HopEvent> {
        self.events.pop_front()
    }

    /// What is held now.
    pub fn status(&self) -> HopStatus {
        HopStatus { flows: self.live, closing: self.flows.len() - self.live, to_send: self.held.0, unread: self.held.1 }
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes that a writer may have waiting here.
    fn ahead(&self) -> u64 {
        self.path.rate.octets_in(AHEAD).get().max(AHEAD_MIN)
    }
    /// Bytes one flow may have in its send buffer: half of what the others and it leave free (dynamic threshold).
    fn send_share(&self) -> u64 {
        (self.half_pool().saturating_sub(self.held.0) / 2).max(CREDIT_FLOOR)
    }
    /// Bytes one flow may be promised: shrinks as flows arrive and as unread bytes pile up.
    fn receive_share(&self) -> u64 {
        let parts = (self.live as u64 + 1).clamp(2, 4) + self.live as u64 / 8;
        (self.half_pool().saturating_sub(self.held.1) / parts).max(CREDIT_FLOOR)
    }
    /// What bounds the bytes that one flow may hold unread. Promises were made when there was more room, and are not withdrawn; without this
    /// cap flows whose readers stand still would fill the pool.
    fn unread_room(&self) -> UnreadRoom {
        UnreadRoom { flow: self.receive_share().saturating_mul(2), pool: self.half_pool().saturating_sub(self.held.1) }
    }
    fn half_pool(&self) -> u64 {
        self.config.pool.get() / 2
    }
    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Moves a flow along the state table. Returns whether `cause` had a place there.
    fn step(&mut self, name: FlowName, cause: Cause) -> bool {
        let Some(flow) = self.flows.get_mut(&name) else { return false };
        let Some(to) = flow.state.next(cause) else { return false };
        let was_live = flow.state != State::Done;
        flow.state = to;
        if was_live && matches!(to, State::Done | State::Gone) {
            self.live -= 1;
        }
        if to == State::Done {
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
        let Some(flow) = self.flows.remove(&name) else { return };
        self.held.0 -= flow.counted.0;
        self.held.1 -= flow.counted.1;
        if let Some(at) = flow.timer {
            self.timers.remove(&(at, name));
        }
        for ring in [&mut self.control, &mut self.micro, &mut self.bulk] {
            ring.set(name, false);
        }
        if name.mine {
            if self.lowest_mine() >= self.forgotten + FORGET_EVERY && !self.forget.flying() {
                self.forget.ask();
            }
        } else {
            // An opener has at most as many live flows as gaps among those that are over.
            self.over_theirs.insert(name.number, 2 * self.config.flows_max.max(32));
        }
    }

    /// Our lowest flow number still in the table: everything below is over.
    fn lowest_mine(&self) -> u64 {
        let from = FlowName { mine: true, number: 0 };
        self.flows.range(from..).next().map_or(self.next_mine, |(name, _)| name.number)
    }

    /// Tells a writer that was refused bytes once there is room worth writing for.
    fn wake_writer(&mut self, now: Instant, name: FlowName) {
        let (ahead, share) = (self.ahead(), self.send_share());
        let Some(flow) = self.flows.get_mut(&name) else { return };
        let room = WRITABLE_MIN.min(share / 2);
        if flow.out.blocked && flow.out.fin.is_none() && flow.out.room(ahead, share) >= room {
            flow.out.unblock(now);
            self.events.push_back(HopEvent::Writable(name));
        }
    }

    /// Closes a flow whose two directions have ended.
    fn conclude(&mut self, name: FlowName) {
        if self.flows.get(&name).is_some_and(Flow::has_ended) {
            if let Some(flow) = self.flows.get_mut(&name) {
                flow.last_word = LastWord::Receipt;
            }
            self.counters.closed += 1;
            self.events.push_back(HopEvent::Closed(name));
            self.step(name, Cause::BothEnded);
        }
    }

    /// After any change to a flow: its place in the rings, its timer, the totals, and whether it is gone.
    fn settle(&mut self, name: FlowName) {
        if self.flows.get(&name).is_some_and(Flow::is_gone) {
            self.step(name, Cause::LastWordArrived);
        }
        let Some(flow) = self.flows.get_mut(&name) else { return };
        let (data, micro) = (flow.wants_data(), flow.out.is_micro());
        self.control.set(name, flow.wants_control());
        self.micro.set(name, data && micro);
        self.bulk.set(name, data && !micro);
        if !data || micro {
            flow.deficit = flow.deficit.min(0);
        }
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
        let holds = (flow.out.buffered(), flow.inc.buffered());
        self.held.0 = self.held.0 - flow.counted.0 + holds.0;
        self.held.1 = self.held.1 - flow.counted.1 + holds.1;
        flow.counted = holds;
    }
}

#[cfg(test)]
mod tests;
