//! A tiny deterministic bottleneck for tests: one shared forward link, one private return path per lane.
//!
//! Order as on a cable: queue, serialise, lose, delay. Jitter keeps the order.

#![allow(clippy::unwrap_used, reason = "test code")]

mod figures;
mod lanes;
mod link;

pub(super) use lanes::App;
pub(super) use link::{Bottleneck, Loss, Policer};

use super::rival::{Kind, RIVAL_BYTES, Rival};
use crate::Controller;
use lanes::{ACK_BYTES, Lane};
use link::Queued;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use wavelane_base::{Chance, Instant, Octets, Seed, Span};
use wavelane_wire::frame::LaneAck;

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
    /// The packet in service has left, unless the rate changed since.
    Served {
        service: u64,
    },
    RivalArrive {
        rival: usize,
        number: u64,
    },
    RivalAck {
        rival: usize,
        number: u64,
    },
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) link: Bottleneck,
    pub(super) lanes: Vec<Lane>,
    pub(super) rivals: Vec<Rival>,
    events: BinaryHeap<Reverse<(Instant, u64)>>,
    bodies: BTreeMap<u64, What>,
    seq: u64,
    /// The one in front is in service.
    waiting: VecDeque<Queued>,
    waiting_bytes: u64,
    /// Ends of service foretold so far, and the latest of them.
    services: u64,
    served_at: Instant,
    /// When each packet entered the queue, and how long it was there.
    pub(super) waits: Vec<(Instant, Span)>,
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
    pub(super) fn new(link: Bottleneck, lanes: usize, seed: u64) -> Self {
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
            services: 0,
            served_at: Instant::ZERO,
            waits: Vec::new(),
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
                next = lane.next(self.now).map_or(next, |at| next.min(at));
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
                What::Served { service } if service < self.services => {}
                What::Served { .. } => self.served(),
                What::Arrive { lane, number, bytes, eliciting } => self.arrive(lane, number, bytes, eliciting),
                What::Ack { lane, ack } => {
                    self.lanes[lane].came.octets += ACK_BYTES;
                    let came = self.lanes[lane].came;
                    self.lanes[lane].sender.set_came(came);
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
        self.wake_lanes();
    }
}
