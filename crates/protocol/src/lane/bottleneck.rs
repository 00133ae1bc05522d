//! A tiny deterministic bottleneck for tests: one shared forward link, one private way back per lane.
//!
//! Order as on a cable: queue, serialise, lose, delay. Jitter keeps the order.

#![allow(clippy::unwrap_used, reason = "test code")]

use super::rival::{Kind, RIVAL_BYTES, Rival};
use super::{LaneConfig, LaneReceiver, LaneSender, Outcome, Probe, Room};
use crate::gateway::Controller;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use wavelane_base::{Chance, Class, Ecn, Instant, Octets, Rate, Seed, Span, Wakeup};
use wavelane_wire::frame::LaneAck;

pub(super) const OVERHEAD: usize = 28;
/// A lane ack alone in a datagram, as an IP packet.
const ACK_BYTES: u64 = 84;

#[derive(Clone, Copy, Debug)]
pub(super) enum Loss {
    None,
    Random(f64),
    /// Mean time in the good state (no loss) and in the bad one (all lost).
    Bursts {
        good: Span,
        bad: Span,
    },
}

/// A token bucket that drops what does not conform and delays nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policer {
    pub(super) rate: Rate,
    pub(super) depth: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) rate: Rate,
    pub(super) queue_bytes: u64,
    pub(super) policer: Option<Policer>,
    /// One way, after serialisation.
    pub(super) delay: Span,
    pub(super) jitter: Span,
    pub(super) loss: Loss,
    /// On the way back.
    pub(super) ack_loss: Loss,
    /// Arrivals are seen at the next multiple of this, as by a host that is scheduled so often.
    pub(super) tick: Span,
    /// Nothing passes, in either direction.
    pub(super) outage: bool,
    pub(super) mtu: usize,
    /// Rate of the way back; acks queue there without limit.
    pub(super) reverse_rate: Rate,
}

impl Link {
    pub(super) fn new(mbit: u64, rtt_ms: u64) -> Self {
        Self {
            rate: Rate::from_bps(mbit * 1_000_000),
            queue_bytes: 250_000,
            policer: None,
            delay: Span::from_micros(rtt_ms * 500),
            jitter: Span::ZERO,
            loss: Loss::None,
            ack_loss: Loss::None,
            tick: Span::from_nanos(1),
            outage: false,
            mtu: 1500,
            reverse_rate: Rate::from_bps(1_000_000_000),
        }
    }
}

/// What the application of a lane offers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum App {
    Silent,
    Greedy,
    /// This many bytes every so often.
    Chunks {
        bytes: u64,
        every: Span,
    },
}

pub(super) struct Lane {
    pub(super) sender: LaneSender<u64>,
    receiver: LaneReceiver,
    pub(super) app: App,
    next_chunk: Instant,
    backlog: u64,
    wake: Option<Wakeup>,
    reverse_free: Instant,
    /// IP bytes that arrived, per 100 ms.
    pub(super) arrived: Vec<u64>,
    pub(super) offered_packets: u64,
    pub(super) dropped_packets: u64,
    pub(super) outcomes: BTreeMap<u64, bool>,
    pub(super) keep_outcomes: bool,
    pub(super) last_arrival: Instant,
    pub(super) tail_probes: u64,
}

enum What {
    Arrive {
        lane: usize,
        number: u64,
        bytes: u64,
        eliciting: bool,
    },
    Ack {
        lane: usize,
        ack: LaneAck,
    },
    /// The packet in service has left.
    Served,
    RivalArrive {
        rival: usize,
        number: u64,
    },
    RivalAck {
        rival: usize,
        number: u64,
    },
}

#[derive(Clone, Copy)]
enum From {
    Lane { lane: usize, eliciting: bool },
    Rival(usize),
}

#[derive(Clone, Copy)]
struct Queued {
    from: From,
    number: u64,
    bytes: u64,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) link: Link,
    pub(super) lanes: Vec<Lane>,
    pub(super) rivals: Vec<Rival>,
    events: BinaryHeap<Reverse<(Instant, u64)>>,
    bodies: BTreeMap<u64, What>,
    seq: u64,
    /// The one in front is in service.
    waiting: VecDeque<Queued>,
    waiting_bytes: u64,
    tokens: f64,
    tokens_at: Instant,
    gilbert: [(bool, Instant); 2],
    last_out: Instant,
    chance: Chance,
    /// (time, queueing delay) every 10 ms.
    pub(super) queue: Vec<(Instant, Span)>,
    next_sample: Instant,
    /// The receiver's clock runs fast by this many parts per million.
    pub(super) drift_ppm: i64,
}

impl World {
    pub(super) fn new(link: Link, lanes: usize, seed: u64) -> Self {
        let mut world = Self {
            now: Instant::from_secs(1),
            link,
            lanes: Vec::new(),
            rivals: Vec::new(),
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            seq: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            tokens: 0.0,
            tokens_at: Instant::from_secs(1),
            gilbert: [(false, Instant::from_secs(1)); 2],
            last_out: Instant::ZERO,
            chance: Seed(seed).chance("bottleneck"),
            queue: Vec::new(),
            next_sample: Instant::from_secs(1),
            drift_ppm: 30,
        };
        world.tokens = link.policer.map_or(0.0, |p| p.depth as f64);
        for i in 0..lanes {
            world.add_lane(Controller::Delay, if i == 0 { App::Greedy } else { App::Silent });
        }
        world
    }

    pub(super) fn add_lane(&mut self, controller: Controller, app: App) -> usize {
        let config = LaneConfig { lane: self.lanes.len() as u8, controller, mtu_max: 1500, overhead: OVERHEAD };
        self.lanes.push(Lane {
            sender: LaneSender::new(self.now, config),
            receiver: LaneReceiver::new(config.lane),
            app,
            next_chunk: self.now,
            backlog: 0,
            wake: None,
            reverse_free: self.now,
            arrived: Vec::new(),
            offered_packets: 0,
            dropped_packets: 0,
            outcomes: BTreeMap::new(),
            keep_outcomes: false,
            last_arrival: self.now,
            tail_probes: 0,
        });
        self.lanes.len() - 1
    }

    /// A TCP sender joins.
    pub(super) fn add_rival(&mut self, kind: Kind) -> usize {
        self.rivals.push(Rival::new(self.now, kind));
        self.pump_rival(self.rivals.len() - 1);
        self.rivals.len() - 1
    }

    /// Seconds since the start of the run.
    pub(super) fn time(&self) -> f64 {
        self.now.as_secs_f64() - 1.0
    }

    fn remote(&self, at: Instant) -> Instant {
        let ns = at.as_nanos() as i64;
        Instant::from_nanos((ns + ns / 1_000_000 * self.drift_ppm + 3_600_000_000_000) as u64)
    }

    fn post(&mut self, at: Instant, what: What) {
        self.seq += 1;
        self.events.push(Reverse((at, self.seq)));
        self.bodies.insert(self.seq, what);
    }

    /// Runs until `seconds` after the start.
    pub(super) fn run_until(&mut self, seconds: f64) {
        let end = Instant::from_secs(1) + Span::from_secs_f64(seconds);
        for lane in 0..self.lanes.len() {
            self.pump(lane);
        }
        loop {
            let mut next = self.next_sample;
            if let Some(Reverse((at, _))) = self.events.peek() {
                next = next.min(*at);
            }
            for lane in &self.lanes {
                if let Some(wake) = lane.wake {
                    next = next.min(wake.at);
                }
                if lane.next_chunk > self.now && matches!(lane.app, App::Chunks { .. }) {
                    next = next.min(lane.next_chunk);
                }
            }
            if next > end {
                self.now = end;
                return;
            }
            assert!(next >= self.now);
            self.now = next;
            if self.now >= self.next_sample {
                self.queue.push((self.now, self.link.rate.time_for(Octets::new(self.waiting_bytes))));
                self.next_sample += Span::from_millis(10);
                for i in 0..self.rivals.len() {
                    self.rivals[i].tick(self.now);
                    self.pump_rival(i);
                }
            }
            self.step();
        }
    }

    fn step(&mut self) {
        while self.events.peek().is_some_and(|e| e.0.0 <= self.now) {
            let seq = self.events.pop().unwrap().0.1;
            match self.bodies.remove(&seq).unwrap() {
                What::Served => self.served(),
                What::Arrive { lane, number, bytes, eliciting } => self.arrive(lane, number, bytes, eliciting),
                What::Ack { lane, ack } => {
                    self.lanes[lane].sender.handle_ack(self.now, &ack);
                    self.pump(lane);
                }
                What::RivalArrive { rival, number } => {
                    let slot = (self.time() * 10.0) as usize;
                    let arrived = &mut self.rivals[rival].arrived;
                    arrived.resize(arrived.len().max(slot + 1), 0);
                    arrived[slot] += RIVAL_BYTES;
                    if !self.link.outage && !self.lost(1, self.link.ack_loss) {
                        self.post(self.now + self.link.delay, What::RivalAck { rival, number });
                    }
                }
                What::RivalAck { rival, number } => {
                    self.rivals[rival].acked(self.now, number);
                    self.pump_rival(rival);
                }
            }
        }
        for i in 0..self.lanes.len() {
            let remote = self.remote(self.now);
            let lane = &mut self.lanes[i];
            lane.receiver.handle_timeout(remote);
            let due = lane.wake.is_some_and(|w| w.at <= self.now);
            let chunk = lane.next_chunk <= self.now && matches!(lane.app, App::Chunks { .. });
            if due {
                lane.sender.handle_timeout(self.now);
            }
            if due || chunk || lane.receiver.ack_due(remote) {
                self.pump(i);
            }
        }
    }

    fn arrive(&mut self, i: usize, number: u64, bytes: u64, eliciting: bool) {
        let remote = self.remote(self.now);
        let slot = (self.time() * 10.0) as usize;
        let lane = &mut self.lanes[i];
        if lane.arrived.len() <= slot {
            lane.arrived.resize(slot + 1, 0);
        }
        lane.arrived[slot] += bytes;
        lane.last_arrival = self.now;
        lane.receiver.received(remote, remote, number, Ecn::NotEct, eliciting, false);
        if lane.receiver.ack_due(remote) {
            self.pump(i);
        }
    }

    fn pump(&mut self, i: usize) {
        self.send_acks(i);
        loop {
            let now = self.now;
            let lane = &mut self.lanes[i];
            while let Some(outcome) = lane.sender.poll_outcome() {
                let (number, delivered) = match outcome {
                    Outcome::Delivered(n) => (n, true),
                    Outcome::Lost(n) => (n, false),
                };
                if lane.keep_outcomes {
                    assert!(lane.outcomes.insert(number, delivered).is_none(), "two outcomes for {number}");
                }
            }
            if let App::Chunks { bytes, every } = lane.app
                && now >= lane.next_chunk
            {
                lane.backlog += bytes;
                lane.next_chunk += every;
            }
            match lane.sender.poll_probe(now) {
                Some(Probe::Tail) => {
                    lane.tail_probes += 1;
                    self.transmit(i, 60, true);
                    continue;
                }
                Some(Probe::Mtu { datagram }) => {
                    let number = lane.sender.next_number();
                    lane.sender.sent_mtu_probe(now, datagram);
                    self.carry(i, number, (datagram + OVERHEAD) as u64, true);
                    continue;
                }
                Some(Probe::AckRequest) | None => {}
            }
            let wants = lane.app == App::Greedy || lane.backlog > 0;
            match lane.sender.room(now, Class::Bulk) {
                Room::Open { datagram_max } if wants => {
                    let size =
                        if lane.app == App::Greedy { datagram_max } else { datagram_max.min(lane.backlog as usize) };
                    lane.backlog = lane.backlog.saturating_sub(size as u64);
                    self.transmit(i, size, false);
                }
                Room::Open { .. } => {
                    lane.sender.set_app_limited(now);
                    break;
                }
                Room::Closed => break,
            }
        }
        let local = self.remote_wake(i);
        self.lanes[i].wake = Wakeup::earliest(self.lanes[i].sender.poll_timeout(), local);
        assert!(self.lanes[i].wake.is_none_or(|w| w.at > self.now), "stale deadline {:?}", self.lanes[i].wake);
    }

    /// The receiver's deadline on our clock, rounded up by the drift.
    fn remote_wake(&self, i: usize) -> Option<Wakeup> {
        let wake = self.lanes[i].receiver.poll_timeout()?;
        let wait = wake.at.since(self.remote(self.now)) + Span::from_micros(1);
        Some(Wakeup { at: self.now + wait, cause: wake.cause })
    }

    fn transmit(&mut self, i: usize, datagram: usize, _probe: bool) {
        let number = self.lanes[i].sender.next_number();
        self.lanes[i].sender.sent(self.now, datagram, true, false, number);
        self.carry(i, number, (datagram + OVERHEAD) as u64, true);
    }

    fn send_acks(&mut self, i: usize) {
        let remote = self.remote(self.now);
        let lane = &mut self.lanes[i];
        if let Some((packets, delay)) = lane.sender.ack_wish() {
            lane.receiver.wish(packets, delay);
            lane.sender.wish_sent(self.now);
        }
        if !lane.receiver.ack_due(remote) {
            return;
        }
        if let Some(ack) = lane.receiver.take_ack(remote, 32) {
            lane.reverse_free =
                lane.reverse_free.max(self.now) + self.link.reverse_rate.time_for(Octets::new(ACK_BYTES));
            let at = lane.reverse_free + self.link.delay;
            if !self.link.outage && !self.lost(1, self.link.ack_loss) {
                self.post(at, What::Ack { lane: i, ack });
            }
        }
    }

    /// The forward bottleneck.
    fn carry(&mut self, lane: usize, number: u64, bytes: u64, eliciting: bool) {
        self.lanes[lane].offered_packets += 1;
        if bytes as usize <= self.link.mtu && !self.enqueue(From::Lane { lane, eliciting }, number, bytes) {
            self.lanes[lane].dropped_packets += 1;
        }
    }

    fn pump_rival(&mut self, rival: usize) {
        while let Some(number) = self.rivals[rival].poll(self.now) {
            self.enqueue(From::Rival(rival), number, RIVAL_BYTES);
        }
    }

    /// Whether there was room.
    fn enqueue(&mut self, from: From, number: u64, bytes: u64) -> bool {
        if let Some(policer) = self.link.policer {
            let gained = policer.rate.as_bps() as f64 / 8.0 * self.now.since(self.tokens_at).as_secs_f64();
            self.tokens = (self.tokens + gained).min(policer.depth as f64);
            self.tokens_at = self.now;
            if self.tokens < bytes as f64 {
                return false;
            }
            self.tokens -= bytes as f64;
        }
        // The one in service does not count.
        let front = self.waiting.front().map_or(0, |q| q.bytes);
        if self.waiting_bytes - front + bytes > self.link.queue_bytes {
            return false;
        }
        self.waiting.push_back(Queued { from, number, bytes });
        self.waiting_bytes += bytes;
        if self.waiting.len() == 1 {
            self.serve_next();
        }
        true
    }

    fn serve_next(&mut self) {
        if let Some(next) = self.waiting.front() {
            let at = self.now + self.link.rate.time_for(Octets::new(next.bytes));
            self.post(at, What::Served);
        }
    }

    fn served(&mut self) {
        let Queued { from, number, bytes } = self.waiting.pop_front().unwrap();
        self.waiting_bytes -= bytes;
        self.serve_next();
        if self.link.outage || self.lost(0, self.link.loss) {
            return;
        }
        let jitter = Span::from_nanos(self.chance.below(self.link.jitter.as_nanos() + 1));
        self.last_out = self.last_out.max(self.now + self.link.delay + jitter);
        let tick = self.link.tick.as_nanos();
        let seen = Instant::from_nanos(self.last_out.as_nanos().div_ceil(tick) * tick);
        let what = match from {
            From::Lane { lane, eliciting } => What::Arrive { lane, number, bytes, eliciting },
            From::Rival(rival) => What::RivalArrive { rival, number },
        };
        self.post(seen, what);
    }

    /// `way` is 0 forward and 1 back.
    fn lost(&mut self, way: usize, loss: Loss) -> bool {
        match loss {
            Loss::None => false,
            Loss::Random(p) => self.chance.unit() < p,
            Loss::Bursts { good, bad } => {
                let (is_bad, switch_at) = &mut self.gilbert[way];
                while self.now >= *switch_at {
                    *is_bad = !*is_bad;
                    *switch_at += self.chance.exponential(if *is_bad { bad } else { good });
                }
                *is_bad
            }
        }
    }

    /// The link's rate changes; the packet in service leaves at the old one.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.link.rate = rate;
    }

    /// Mean rate at which IP bytes of `lane` arrived between two times, in bit/s.
    pub(super) fn goodput(&self, lane: usize, from: f64, to: f64) -> f64 {
        let slots = (from * 10.0) as usize..(to * 10.0) as usize;
        let bytes: u64 = slots.filter_map(|s| self.lanes[lane].arrived.get(s)).sum();
        bytes as f64 * 8.0 / (to - from)
    }

    /// The same for a rival.
    pub(super) fn rival_goodput(&self, rival: usize, from: f64, to: f64) -> f64 {
        let slots = (from * 10.0) as usize..(to * 10.0) as usize;
        let bytes: u64 = slots.filter_map(|s| self.rivals[rival].arrived.get(s)).sum();
        bytes as f64 * 8.0 / (to - from)
    }

    /// Mean and largest queueing delay between two times, in milliseconds.
    pub(super) fn queue_ms(&self, from: f64, to: f64) -> (f64, f64) {
        let mut samples = Vec::new();
        for (at, delay) in &self.queue {
            let t = at.as_secs_f64() - 1.0;
            if t >= from && t < to {
                samples.push(delay.as_secs_f64() * 1e3);
            }
        }
        let mean = samples.iter().sum::<f64>() / samples.len().max(1) as f64;
        (mean, samples.iter().fold(0.0, |a: f64, b| a.max(*b)))
    }

    pub(super) fn drop_share(&self) -> f64 {
        let dropped: u64 = self.lanes.iter().map(|l| l.dropped_packets).sum();
        let offered: u64 = self.lanes.iter().map(|l| l.offered_packets).sum();
        dropped as f64 / offered.max(1) as f64
    }

    /// Goodput in Mbit/s per 100 ms, for looking at a failed run.
    pub(super) fn trace(&self, lane: usize) -> String {
        self.lanes[lane].arrived.iter().map(|b| format!("{:.1} ", *b as f64 * 80.0 / 1e6)).collect()
    }
}
