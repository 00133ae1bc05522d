//! The configured queue in front of the serialiser.

use super::config::{CoDelTimes, DirectionConfig, Discipline, QueueLimit};
use super::draws::Draws;
use wavelane_base::{Chance, Ecn, Instant, Rate, Seed};
use wavelane_queue::{DualPi2Terms, Lost, PieTerms, Queue, Queued, Terms, TwoStage, UNLIMITED};

/// A frame that waits or is in service.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    pub(super) ecn: Ecn,
    pub(super) flow: u64,
    pub(super) hosts: (u64, u64),
    pub(super) dscp: u8,
    pub(super) number: u64,
    pub(super) arrived: Instant,
    pub(super) draws: Draws,
}

impl Queued for Frame {
    fn octets(&self) -> usize {
        self.bytes.len()
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    /// Unknown in a cable; none of its disciplines uses it.
    fn heeds_drops(&self) -> bool {
        true
    }
    fn mark(&mut self) -> bool {
        let can = self.ecn != Ecn::NotEct;
        if can {
            self.ecn = Ecn::Ce;
        }
        can
    }
    fn hosts(&self) -> (u64, u64) {
        self.hosts
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
    /// ECT(1), and frames already marked CE (RFC 9331, section 5.1).
    fn is_scalable(&self) -> bool {
        matches!(self.ecn, Ecn::Ect1 | Ecn::Ce)
    }
}

/// The queue, and the random substream for a replacement.
pub(super) struct Waiting {
    queue: TwoStage<Frame>,
    chance: Chance,
    /// Frames that earlier queues marked.
    marked: u64,
}

impl Waiting {
    /// An empty queue as configured.
    pub(super) fn new(seed: Seed, prefix: &str, config: &DirectionConfig) -> Self {
        let chance = seed.chance(&format!("{prefix} / queue"));
        Self { queue: build(config, chance.clone()), chance, marked: 0 }
    }

    /// The configuration changed: waiting frames move to the new queue if the discipline differs.
    pub(super) fn reconfigure(
        &mut self,
        now: Instant,
        old: &DirectionConfig,
        config: &DirectionConfig,
        lost: Lost<'_, Frame>,
    ) {
        if old.queueing == config.queueing {
            return self.queue.set_limits(config.queue.limits());
        }
        self.marked = self.marked();
        let moved = std::mem::replace(&mut self.queue, build(config, self.chance.clone())).take_all();
        for frame in moved {
            self.queue.push(now, frame, lost);
        }
    }

    /// The serialiser's rate has changed.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>) {
        self.queue.set_rate(rate);
    }
    pub(super) fn push(&mut self, now: Instant, frame: Frame, lost: Lost<'_, Frame>) {
        self.queue.push(now, frame, lost);
    }
    pub(super) fn pop(&mut self, now: Instant, lost: Lost<'_, Frame>) -> Option<Frame> {
        self.queue.pop(now, lost).map(|popped| popped.item)
    }
    /// Frames marked so far.
    pub(super) fn marked(&self) -> u64 {
        self.marked + self.queue.counters().marked
    }
}

fn build(config: &DirectionConfig, chance: Chance) -> TwoStage<Frame> {
    let mut queue = managed(config.queueing.discipline, config.queue, chance);
    queue.set_rate(config.rate);
    TwoStage::new(queue, config.queueing.ring as usize)
}

/// An empty queue under a discipline.
pub(crate) fn managed<T: Queued>(discipline: Discipline, limit: QueueLimit, chance: Chance) -> Queue<T> {
    use wavelane_queue::Discipline as Kind;
    let limits = limit.limits();
    let timed = |mut queue: Queue<T>, CoDelTimes { target, interval }| {
        queue.set_terms(Terms { target, interval, age: UNLIMITED, ..Terms::default() });
        queue
    };
    match discipline {
        Discipline::Fifo => Queue::new(Kind::Fifo, limits),
        Discipline::CoDel(times) => timed(Queue::new(Kind::CoDel, limits), times),
        Discipline::FqCoDel(times) => timed(Queue::new(Kind::FqCoDel, limits), times),
        Discipline::Pie(target) => Queue::pie(PieTerms { target, ..PieTerms::default() }, limits, chance),
        Discipline::Cake(times, tins) => timed(Queue::cake(tins, limits), times),
        Discipline::DualPi2(target) => Queue::dual_pi2(DualPi2Terms { target, ..DualPi2Terms::default() }, limits),
    }
}
