//! Flows between two connections of one door, without a link: what a split proxy in one box needs.
//!
//! Each flow has two ends. What is written at one waits, up to a bound, to be read at the other; a reset arrives behind what
//! was written before it, and an orderly end is complete once both sides have read it.

use crate::far::{FarSide, FlowEvent, Flows, NotOpened};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{FlowId, Instant, IpPrefix, ReadOutcome, Streams};
use wavelane_wire::frame::Reason;

/// What a direction where nothing waits keeps of its memory at most.
const IDLE_ROOM: usize = 4_096;

/// A direction may hold this part of what is left of the half that all share: one whose reader has stopped leaves the others most of it,
/// also where the pool has the least that a file may give it (8 of its 128 KiB), and the usual pool binds only where 28 MiB wait.
const SHARE: usize = 16;

/// The bounds of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairConfig {
    /// Bytes that wait in each direction of a flow.
    pub room: usize,
    /// Flows at a time.
    pub flows_max: usize,
    /// Bytes that wait altogether. Half of it is for those that need more than an equal share of the other half.
    pub pool: usize,
}

/// Bytes that wait in a proxy, unless its owner says otherwise.
pub const POOL_DEFAULT: usize = 256 << 20;

impl Default for PairConfig {
    fn default() -> Self {
        Self { room: 256 << 10, flows_max: 16_384, pool: POOL_DEFAULT }
    }
}

/// What of a proxy's pool is for what waits between the halves, and what for their TCP in the same process.
pub fn pool_parts(pool: usize) -> (usize, usize) {
    (pool / 4, pool - pool / 4)
}

impl PairConfig {
    /// What each direction may hold whatever others do, and what all may hold before they get no more than that. Both together
    /// stay below the pool.
    fn shares(&self) -> (usize, usize) {
        ((self.pool / (4 * self.flows_max.max(1))).max(1), self.pool / 2)
    }
    /// How much may wait in a direction where `held` bytes do, of `waiting` in all.
    pub fn limit(&self, held: usize, waiting: usize) -> usize {
        let (own, shared) = self.shares();
        // What it holds is part of what it shares, so that it keeps that while nobody else wants more.
        self.room.min(own.max((held.saturating_add(shared.saturating_sub(waiting))) / SHARE))
    }
}

/// How much waits to be sent to an end: once as much as `high`, no more is taken until it is `low`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// In place of the pair's room.
    pub high: usize,
    /// At most `high`.
    pub low: usize,
}

/// One end of a flow.
#[derive(Default)]
struct End {
    marks: Option<Marks>,
    /// Written at the other end and unread here.
    waiting: VecDeque<u8>,
    /// The writer at the other end waits for room.
    wanted: bool,
    /// The other end has ended its direction, and that was read here.
    ended: bool,
    read_end: bool,
    /// The other end was reset; this one is once it has read everything.
    dying: bool,
    /// The flow was accepted.
    open: bool,
}

/// See the module's description.
pub struct Pair {
    config: PairConfig,
    /// Of ends in a network; the first that holds the address counts.
    towards: Vec<(IpPrefix, Marks)>,
    ends: BTreeMap<FlowId, End>,
    /// Flows with an end or two.
    flows: usize,
    /// Bytes that wait in all of them.
    waiting: usize,
    events: VecDeque<FlowEvent>,
    next: u64,
    /// Flows that ended in order, and accepted ones that were reset. A door counts each of their two connections.
    pub ended: (u64, u64),
}

/// The other end of a flow.
pub fn other(flow: FlowId) -> FlowId {
    FlowId(flow.0 ^ 1)
}

impl Pair {
    /// A pair without flows.
    pub fn new(config: PairConfig) -> Self {
        Self {
            config,
            towards: Vec::new(),
            ends: BTreeMap::new(),
            flows: 0,
            waiting: 0,
            events: VecDeque::new(),
            next: 0,
            ended: (0, 0),
        }
    }
    /// Bounds it otherwise from now on; what waits stays, and so do flows beyond the new bounds.
    pub fn set_config(&mut self, config: PairConfig) {
        self.config = config;
    }
    /// Flows from now on have these marks towards ends in one of these networks.
    pub fn set_marks(&mut self, towards: Vec<(IpPrefix, Marks)>) {
        self.towards = towards;
    }
    /// What to tell the door next; at most a few events per call and flow.
    pub fn poll_event(&mut self) -> Option<FlowEvent> {
        self.events.pop_front()
    }
    /// Flows at present, those included of which one end has yet to hear of a reset.
    pub fn flows(&self) -> usize {
        self.flows
    }
    /// Bytes that wait in all of them.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
    /// Forgets a flow: its connections go on without it.
    pub fn forget(&mut self, flow: FlowId) {
        self.remove(flow);
        self.remove(other(flow));
    }
    /// Takes an end away; the flow is over with the second one. Returns whether there was such an end.
    fn remove(&mut self, flow: FlowId) -> bool {
        let Some(end) = self.ends.remove(&flow) else { return false };
        self.waiting -= end.waiting.len();
        self.flows -= usize::from(!self.ends.contains_key(&other(flow)));
        true
    }
    /// How much may wait at an end, and at how much its writer is woken.
    fn limits(&self, end: &End) -> (usize, usize) {
        let room = end.marks.map_or(self.config.room, |marks| marks.high);
        let limit = PairConfig { room, ..self.config }.limit(end.waiting.len(), self.waiting);
        // Not for every byte: a writer is woken for something worth writing.
        (limit, end.marks.filter(|marks| marks.high == limit).map_or(limit - limit / 4, |marks| marks.low))
    }
    /// The end has read all that there was: a reset that waited behind it arrives, and a writer has room.
    fn was_read(&mut self, flow: FlowId) {
        let (_, low) = self.ends.get(&flow).map_or((0, 0), |end| self.limits(end));
        let Some(end) = self.ends.get_mut(&flow) else { return };
        if end.wanted && end.waiting.len() <= low {
            end.wanted = false;
            self.events.push_back(FlowEvent::Writable(other(flow)));
        }
        if end.dying && end.waiting.is_empty() && (end.read_end || !end.ended) {
            self.remove(flow);
            self.events.push_back(FlowEvent::Reset(flow, Reason::Aborted));
        }
    }
    fn is_over(&self, flow: FlowId) -> bool {
        self.ends.get(&flow).is_some_and(|end| end.read_end)
    }
}

impl Streams for Pair {
    fn write(&mut self, now: Instant, flow: FlowId, data: &[u8]) -> usize {
        let taken = self.room(now, flow).min(data.len());
        let Some(end) = self.ends.get_mut(&other(flow)).filter(|_| taken > 0) else { return 0 };
        if end.waiting.is_empty() {
            self.events.push_back(FlowEvent::Readable(other(flow)));
        }
        end.wanted |= taken < data.len();
        end.waiting.extend(&data[..taken]);
        self.waiting += taken;
        taken
    }
    fn read(&mut self, now: Instant, flow: FlowId, buf: &mut [u8]) -> ReadOutcome {
        let Some(end) = self.ends.get_mut(&flow) else { return ReadOutcome::Reset };
        if end.waiting.is_empty() {
            if !end.ended {
                return ReadOutcome::Blocked;
            }
            if !std::mem::replace(&mut end.read_end, true) {
                self.was_read(flow);
                if self.is_over(flow) && self.is_over(other(flow)) {
                    self.ended.0 += 1;
                    for flow in [flow, other(flow)] {
                        self.remove(flow);
                        self.events.push_back(FlowEvent::Closed(flow));
                    }
                }
            }
            return ReadOutcome::End;
        }
        let octets = end.waiting.len().min(buf.len());
        for (byte, into) in end.waiting.iter().zip(buf.iter_mut()) {
            *into = *byte;
        }
        self.consume(now, flow, octets);
        ReadOutcome::Data(octets)
    }
    fn shutdown(&mut self, _: Instant, flow: FlowId) {
        let Some(end) = self.ends.get_mut(&other(flow)) else { return };
        if !std::mem::replace(&mut end.ended, true) && end.waiting.is_empty() {
            self.events.push_back(FlowEvent::Readable(other(flow)));
        }
    }
    fn reset(&mut self, _: Instant, flow: FlowId) {
        if !self.remove(flow) {
            return;
        }
        if let Some(end) = self.ends.get_mut(&other(flow)) {
            end.dying = true;
            self.ended.1 += u64::from(end.open);
            self.events.push_back(FlowEvent::Ending(other(flow)));
            self.was_read(other(flow));
        }
    }
}

impl Flows for Pair {
    fn room(&mut self, _: Instant, flow: FlowId) -> usize {
        let alive = self.ends.contains_key(&flow);
        let (limit, low) = self.ends.get(&other(flow)).map_or((0, 0), |end| self.limits(end));
        let Some(end) = self.ends.get_mut(&other(flow)).filter(|end| alive && !end.ended) else { return 0 };
        let held = end.waiting.len();
        let stopped = end.marks.is_some() && end.wanted && held > low;
        let room = if stopped { 0 } else { limit.saturating_sub(held) };
        end.wanted |= room == 0;
        room
    }
    fn unread(&mut self, _: Instant, flow: FlowId) -> (&[u8], &[u8]) {
        self.ends.get(&flow).map_or((&[], &[]), |end| end.waiting.as_slices())
    }
    fn consume(&mut self, _: Instant, flow: FlowId, octets: usize) {
        if let Some(end) = self.ends.get_mut(&flow) {
            let octets = octets.min(end.waiting.len());
            end.waiting.drain(..octets);
            if end.waiting.is_empty() && end.waiting.capacity() > IDLE_ROOM {
                end.waiting = VecDeque::new();
            }
            self.waiting -= octets;
        }
        self.was_read(flow);
    }
}

impl FarSide for Pair {
    type Way = ();
    fn towards(&self, _: Instant, _: IpAddr) -> Option<()> {
        Some(())
    }
    fn open(&mut self, _: Instant, (): (), source: SocketAddr, target: SocketAddr) -> Result<FlowId, NotOpened> {
        if self.flows() >= self.config.flows_max {
            return Err(NotOpened::NoRoom);
        }
        let near = FlowId(self.next);
        self.next += 2;
        for (flow, remote) in [(near, source), (other(near), target)] {
            let of = self.towards.iter().find(|(network, _)| network.contains(remote.ip()));
            self.ends.insert(flow, End { marks: of.map(|(_, marks)| *marks), ..End::default() });
        }
        self.flows += 1;
        self.events.push_back(FlowEvent::Incoming { flow: other(near), source, target });
        Ok(near)
    }
    fn accept(&mut self, _: Instant, flow: FlowId) {
        for flow in [flow, other(flow)] {
            self.ends.entry(flow).and_modify(|end| end.open = true);
        }
        if self.ends.contains_key(&other(flow)) {
            self.events.push_back(FlowEvent::Accepted(other(flow)));
        }
    }
    fn refuse(&mut self, _: Instant, flow: FlowId, why: Reason) {
        self.remove(flow);
        if self.remove(other(flow)) {
            self.events.push_back(FlowEvent::Refused(other(flow), why));
        }
    }
    fn is_silent(&self, flow: FlowId) -> bool {
        !self.ends.contains_key(&flow)
    }
}

#[cfg(test)]
#[path = "pair_tests.rs"]
mod tests;
