//! Two hops joined by a pipe that loses, reorders, duplicates and reports fates after a round trip, sometimes wrongly.
#![allow(clippy::unwrap_used, reason = "tests")]

mod blocks;
mod delivery;
mod ending;
mod greet;
mod hostile;
mod idle;
mod laws;
mod model;
mod overheard;
mod schedule;
mod slow;
mod vtx;
mod withhold;

use super::*;
use wavelane_base::{Chance, Rate, Ratio, ReadOutcome, Seed, Span};
use wavelane_transport::RepairBudget;
use wavelane_wire::Writer;
use wavelane_wire::frame::{Frame, Frames};

pub(super) const MTU_PAYLOAD: usize = 1_180;
/// With more flows the sets of flows are not compared with the table at every step.
const LISTS_CHECKED_MAX: usize = 64;

pub(super) fn source() -> SocketAddr {
    "192.0.2.1:4000".parse().unwrap()
}
pub(super) fn target() -> SocketAddr {
    "198.51.100.2:80".parse().unwrap()
}
pub(super) fn ratio(n: u32, d: u32) -> Ratio {
    Ratio::new(n, d).unwrap()
}
pub(super) fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// What the pipe does to datagrams.
#[derive(Clone, Debug)]
pub(super) struct Pipe {
    pub(super) rate: Rate,
    pub(super) delay: Span,
    pub(super) jitter: Span,
    pub(super) loss: Ratio,
    pub(super) duplicate: Ratio,
    pub(super) spurious: Ratio,
    /// Everything sent in here is lost.
    pub(super) outages: Vec<(Instant, Instant)>,
}

impl Default for Pipe {
    fn default() -> Self {
        Self {
            rate: Rate::from_bps(20_000_000),
            delay: Span::from_millis(50),
            jitter: Span::ZERO,
            loss: Ratio::ZERO,
            duplicate: Ratio::ZERO,
            spurious: Ratio::ZERO,
            outages: Vec::new(),
        }
    }
}

/// A hop without a link, with the repair budget that a link would keep for it.
#[derive(Debug)]
pub(super) struct Lone {
    hop: Hop,
    budget: RepairBudget,
}

impl Lone {
    pub(super) fn new(config: HopConfig) -> Self {
        Self { hop: Hop::new(config), budget: RepairBudget::default() }
    }
    pub(super) fn set_path(&mut self, path: PathView) {
        self.budget.set_path(path.rate, path.rtt, path.loss);
        self.hop.set_path(path);
    }
    pub(super) fn fill(&mut self, now: Instant, class: Class, w: &mut Writer<'_>, carried: &mut Vec<Carried>) -> bool {
        self.hop.fill(now, class, &mut Datagram { w, carried, open: None, budget: &mut self.budget })
    }
}

impl core::ops::Deref for Lone {
    type Target = Hop;
    fn deref(&self) -> &Hop {
        &self.hop
    }
}

impl core::ops::DerefMut for Lone {
    fn deref_mut(&mut self) -> &mut Hop {
        &mut self.hop
    }
}

enum Happening {
    Arrives(usize, Vec<u8>),
    Fate(usize, Vec<Carried>, bool),
}

/// Both ends and what is in flight.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) hops: [Lone; 2],
    pub(super) pipe: Pipe,
    pub(super) events: [Vec<HopEvent>; 2],
    pub(super) datagrams: [u64; 2],
    pub(super) octets: [u64; 2],
    free_at: [Instant; 2],
    chance: Chance,
    queue: BTreeMap<(Instant, u64), Happening>,
    sequence: u64,
    /// Drops datagrams for which this returns `true`; for scripted losses.
    pub(super) eats: Option<fn(usize, &[Frame<'_>]) -> bool>,
    pub(super) eaten: u64,
}

impl World {
    pub(super) fn new(seed: u64, pipe: Pipe, config: HopConfig) -> Self {
        let mut hops = [Lone::new(config), Lone::new(config)];
        for hop in &mut hops {
            let rtt = pipe.delay.times(2);
            hop.set_path(PathView {
                rtt,
                rate: pipe.rate,
                loss: pipe.loss.as_f64(),
                burst: Some(Span::from_millis(5)),
                ..PathView::default()
            });
        }
        Self {
            now: Instant::from_millis(1),
            hops,
            pipe,
            events: [Vec::new(), Vec::new()],
            datagrams: [0; 2],
            octets: [0; 2],
            free_at: [Instant::ZERO; 2],
            chance: Seed(seed).chance("pipe"),
            queue: BTreeMap::new(),
            sequence: 0,
            eats: None,
            eaten: 0,
        }
    }
    fn later(&mut self, at: Instant, what: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), what);
    }
    fn wander(&mut self) -> Span {
        Span::from_nanos(self.chance.below(self.pipe.jitter.as_nanos() + 1))
    }

    fn send(&mut self, from: usize) {
        let mut budget = 10_000;
        while self.free_at[from] <= self.now && self.hops[from].wants(self.now).is_some() {
            budget -= 1;
            assert!(budget > 0, "the drain does not end");
            let (mut buf, mut carried) = ([0; MTU_PAYLOAD], Vec::new());
            let mut w = Writer::new(&mut buf);
            let wrote = self.hops[from].fill(self.now, Class::Bulk, &mut w, &mut carried);
            let len = w.len();
            if !wrote {
                // A copy without budget may be dropped; then nothing else is due either.
                continue;
            }
            self.datagrams[from] += 1;
            self.octets[from] += len as u64;
            let size = Octets::new(len as u64 + 60);
            self.free_at[from] = self.now.max(self.free_at[from]) + self.pipe.rate.time_for(size);
            self.transport(from, buf[..len].to_vec(), carried);
        }
    }

    fn transport(&mut self, from: usize, bytes: Vec<u8>, carried: Vec<Carried>) {
        let out = self.pipe.outages.iter().any(|(a, b)| (*a..*b).contains(&self.now));
        let eaten = self.eats.is_some_and(|eats| {
            let frames: Vec<_> = Frames::new(&bytes).map(|f| f.expect("our own frames parse")).collect();
            eats(from, &frames)
        });
        self.eaten += u64::from(eaten);
        let lost = self.chance.happens(self.pipe.loss) || out || eaten;
        let arrival = self.free_at[from] + self.pipe.delay + self.wander();
        let rtt = self.pipe.delay.times(2);
        if lost {
            let told = self.free_at[from] + rtt.scale(5, 4);
            return self.later(told, Happening::Fate(from, carried, false));
        }
        if self.chance.happens(self.pipe.duplicate) {
            let again = arrival + self.wander() + Span::from_millis(1);
            self.later(again, Happening::Arrives(1 - from, bytes.clone()));
        }
        let told = arrival + self.pipe.delay;
        if self.chance.happens(self.pipe.spurious) {
            self.later(told - Span::from_micros(1), Happening::Fate(from, carried.clone(), false));
        }
        self.later(arrival, Happening::Arrives(1 - from, bytes));
        self.later(told, Happening::Fate(from, carried, true));
    }

    /// Advances to `until` or to the next event, whichever is first.
    pub(super) fn step(&mut self, until: Instant) {
        for side in 0..2 {
            self.send(side);
        }
        let mut next = until;
        if let Some((&(at, _), _)) = self.queue.first_key_value() {
            next = next.min(at);
        }
        for side in 0..2 {
            if let Some(wakeup) = self.hops[side].poll_timeout() {
                assert!(wakeup.at > self.now, "stale deadline {:?} at {:?}", wakeup.at, self.now);
                next = next.min(wakeup.at);
            }
            if self.hops[side].wants(self.now).is_some() {
                next = next.min(self.free_at[side]);
            }
        }
        self.now = next.max(self.now);
        for side in 0..2 {
            self.hops[side].handle_timeout(self.now);
            let hop = &self.hops[side].hop;
            assert!(hop.flows.len() > LISTS_CHECKED_MAX || hop.relay.is_right(&hop.flows));
        }
        while let Some((&(at, n), _)) = self.queue.first_key_value() {
            if at > self.now {
                break;
            }
            match self.queue.remove(&(at, n)).unwrap() {
                Happening::Arrives(to, bytes) => {
                    for frame in Frames::new(&bytes) {
                        self.hops[to].handle_frame(self.now, &frame.expect("our own frames parse"));
                    }
                }
                Happening::Fate(side, carried, true) => {
                    carried.into_iter().for_each(|c| self.hops[side].delivered(self.now, c));
                }
                Happening::Fate(side, carried, false) => {
                    carried.into_iter().for_each(|c| self.hops[side].lost(self.now, c));
                }
            }
        }
        for side in 0..2 {
            while let Some(event) = self.hops[side].poll_event() {
                self.events[side].push(event);
            }
        }
    }
    pub(super) fn run_until(&mut self, until: Instant) {
        while self.now < until {
            self.step(until);
        }
    }
    /// Opens a flow from side 0 and accepts it at side 1.
    pub(super) fn open_accepted(&mut self) -> FlowName {
        let name = self.hops[0].open(self.now, source(), target(), None).unwrap();
        let other = name.from_other_side();
        let deadline = self.now + Span::from_secs(60);
        while !self.events[1].iter().any(|e| matches!(e, HopEvent::Incoming { flow, .. } if *flow == other)) {
            assert!(self.now < deadline, "the open never arrived");
            self.step(deadline);
        }
        self.hops[1].accept(self.now, other, None);
        while !self.events[0].contains(&HopEvent::Accepted(name, None)) {
            assert!(self.now < deadline, "the answer never arrived");
            self.step(deadline);
        }
        name
    }
}

/// The byte at `offset` of direction `from` of flow `number`.
pub(super) fn pattern(number: u64, from: usize, offset: u64) -> u8 {
    (offset.wrapping_mul(31) ^ (offset >> 8).wrapping_mul(17) ^ number.wrapping_mul(101) ^ (from as u64 * 77)) as u8
}

/// One direction's application: writes `total` bytes of the pattern, then ends; the other side checks them.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) flow: FlowName,
    pub(super) from: usize,
    pub(super) total: u64,
    pub(super) written: u64,
    pub(super) read: u64,
    pub(super) shut: bool,
    pub(super) ended: bool,
    /// The reader is stalled.
    pub(super) stalled: bool,
}

impl Stream {
    /// `flow` as side 0 names it.
    pub(super) fn new(flow: FlowName, from: usize, total: u64) -> Self {
        Self { flow, from, total, written: 0, read: 0, shut: false, ended: false, stalled: false }
    }
    fn name_at(&self, side: usize) -> FlowName {
        if side == 0 { self.flow } else { self.flow.from_other_side() }
    }
    /// Writes and reads as much as possible now, checking every byte.
    pub(super) fn pump(&mut self, world: &mut World) {
        let now = world.now;
        while self.written < self.total {
            let n = (self.total - self.written).min(8_192);
            let number = self.flow.number;
            let chunk: Vec<u8> = (self.written..self.written + n).map(|o| pattern(number, self.from, o)).collect();
            let took = world.hops[self.from].write(now, self.name_at(self.from), &chunk);
            self.written += took as u64;
            if (took as u64) < n {
                break;
            }
        }
        if self.written == self.total && !self.shut {
            self.shut = true;
            world.hops[self.from].shutdown(now, self.name_at(self.from));
        }
        let mut buf = [0; 16_384];
        while !self.stalled && !self.ended {
            match world.hops[1 - self.from].read(now, self.name_at(1 - self.from), &mut buf) {
                ReadOutcome::Data(n) => {
                    for b in &buf[..n] {
                        assert_eq!(*b, pattern(self.flow.number, self.from, self.read), "byte {} differs", self.read);
                        self.read += 1;
                    }
                }
                ReadOutcome::Blocked => break,
                ReadOutcome::End => {
                    assert_eq!(self.read, self.total, "the end came early");
                    self.ended = true;
                }
                ReadOutcome::Reset => panic!("flow {:?} reset after {} bytes", self.flow, self.read),
            }
        }
    }
}

/// Pumps `streams` until all have ended; panics at `deadline`.
pub(super) fn finish_all(world: &mut World, streams: &mut [Stream], deadline: Instant) {
    loop {
        for stream in streams.iter_mut() {
            stream.pump(world);
        }
        if streams.iter().all(|s| s.ended) {
            return;
        }
        assert!(world.now < deadline, "not done by {deadline:?}: {streams:?} {:?}", world.hops[0].counters());
        world.step(deadline.min(world.now + Span::from_millis(5)));
    }
}
