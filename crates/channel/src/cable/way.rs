//! One direction of a cable.

use super::count::{Cause, Counters, Holding, Tally};
use super::draws::{Dice, Turn, hits, scaled, span_below};
use super::policer::Bucket;
use super::serialiser::Serialiser;
use super::waiting::{Frame, Waiting};
use super::{
    CableEvent, ConfigError, Direction, DirectionConfig, Discipline, Events, FLIGHT_BOUND, FRAME_MAX, FRAMES_BOUND,
    Parameter,
};
use crate::loss::{LossProcess, Sending, in_windows};
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Ecn, FrameMeta, Instant, Seed, Transmit, Wakeup};
use wavelane_queue::Loss;

/// The frame in the serialiser.
struct Service {
    frame: Frame,
    start: Instant,
    end: Instant,
    in_outage: bool,
}

/// A frame on its way to the far port.
struct Flying {
    due: Instant,
    bytes: Vec<u8>,
    ecn: Ecn,
    number: u64,
}

/// Order of delivery: due time, then the order in which frames left the serialiser.
type Due = (Instant, u64);

/// One direction: queue, serialiser, impairments, and the frames in flight.
pub(super) struct Way {
    direction: Direction,
    config: DirectionConfig,
    dice: Dice,
    loss: LossProcess,
    bucket: Option<Bucket>,
    queue: Waiting,
    serialiser: Serialiser,
    service: Option<Service>,
    flight: BTreeMap<Due, Flying>,
    /// Due and not fetched yet.
    ready: VecDeque<Flying>,
    /// Earliest due time of the next frame that keeps order.
    floor: Instant,
    launched: u64,
    waiting: Tally,
    in_flight: Tally,
    counters: Counters,
}

impl Way {
    pub(super) fn new(seed: Seed, cable: &str, direction: Direction, config: DirectionConfig) -> Self {
        let prefix = format!("{cable} {}", direction.name());
        Self {
            direction,
            dice: Dice::new(seed, &prefix),
            loss: LossProcess::new(seed, &prefix, config.loss.clone(), Instant::ZERO),
            bucket: config.policer.map(|policer| Bucket::new(policer, Instant::ZERO)),
            queue: Waiting::new(seed, &prefix, &config),
            config,
            serialiser: Serialiser::default(),
            service: None,
            flight: BTreeMap::new(),
            ready: VecDeque::new(),
            floor: Instant::ZERO,
            launched: 0,
            waiting: Tally::default(),
            in_flight: Tally::default(),
            counters: Counters::default(),
        }
    }

    pub(super) fn config(&self) -> &DirectionConfig {
        &self.config
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn holding(&self) -> Holding {
        let mut in_service = Tally::default();
        if let Some(service) = &self.service {
            in_service.add(service.frame.bytes.len());
        }
        Holding { waiting: self.waiting, in_service, in_flight: self.in_flight }
    }

    /// Takes a frame from the near port. The caller has advanced to `now`.
    pub(super) fn accept(&mut self, now: Instant, bytes: Vec<u8>, meta: &FrameMeta, events: &mut Events) {
        let number = self.counters.offered.frames;
        self.counters.offered.add(bytes.len());
        let draws = self.dice.roll();
        let longest = self.config.mtu.map_or(FRAME_MAX as u64, |mtu| mtu.get().min(FRAME_MAX as u64));
        let cause = if bytes.len() as u64 > longest {
            Some(Cause::Oversize)
        } else if self.bucket.as_mut().is_some_and(|bucket| !bucket.passes(now, bytes.len())) {
            Some(Cause::Policer)
        } else {
            None
        };
        if let Some(cause) = cause {
            return self.lose(now, cause, number, bytes.len(), events);
        }
        let (ecn, flow, hosts, dscp) = (meta.ecn, meta.flow, meta.hosts, meta.dscp);
        let frame = Frame { bytes, ecn, flow, hosts, dscp, number, arrived: now, draws };
        // With a FIFO, a frame that need not wait bypasses the queue.
        if self.service.is_none() && self.config.queueing.discipline == Discipline::Fifo {
            return self.serve(now, frame, events);
        }
        self.waiting.add(frame.bytes.len());
        let mut lost = Vec::new();
        self.queue.push(now, frame, &mut |frame, why| lost.push((frame, why)));
        self.lose_waiting(now, lost, events);
        if self.service.is_none() {
            return self.serve_next(now, events);
        }
        let peak = &mut self.counters.queue_peak;
        peak.frames = peak.frames.max(self.waiting.frames);
        peak.octets = peak.octets.max(self.waiting.octets);
    }

    /// Processes everything due by `now`, in time order.
    pub(super) fn advance(&mut self, now: Instant, events: &mut Events) {
        while let Some(service) = self.service.take_if(|service| service.end <= now) {
            let end = service.end;
            self.finish(service, events);
            self.serve_next(end, events);
        }
        while let Some(first) = self.flight.first_entry().filter(|entry| entry.key().0 <= now) {
            self.ready.push_back(first.remove());
        }
    }

    /// Writes the next due frame into `buf`. The caller has advanced to `now`.
    pub(super) fn deliver(&mut self, now: Instant, buf: &mut [u8], events: &mut Events) -> Option<Transmit> {
        while let Some(frame) = self.ready.pop_front() {
            let len = frame.bytes.len();
            self.in_flight.take(len);
            if let Some(room) = buf.get_mut(..len) {
                room.copy_from_slice(&frame.bytes);
                self.counters.delivered.add(len);
                return Some(Transmit { len, ecn: frame.ecn, ..Transmit::default() });
            }
            self.lose(now, Cause::Oversize, frame.number, len, events);
        }
        None
    }

    /// The next due frame and when it was due. The caller has advanced to the present.
    pub(super) fn take_ready(&mut self) -> Option<(Instant, Ecn, Vec<u8>)> {
        let frame = self.ready.pop_front()?;
        self.in_flight.take(frame.bytes.len());
        self.counters.delivered.add(frame.bytes.len());
        Some((frame.due, frame.ecn, frame.bytes))
    }

    pub(super) fn poll_timeout(&self) -> Option<Wakeup> {
        // Behind the end of a recording a frame is in service for ever.
        let ends = self.service.as_ref().filter(|service| service.end < Instant::FAR_FUTURE);
        let serialised = ends.map(|s| Wakeup { at: s.end, cause: "cable: frame serialised" });
        let due = self.flight.first_key_value().map(|(key, _)| Wakeup { at: key.0, cause: "cable: frame due" });
        Wakeup::earliest(serialised, due)
    }

    /// Changes a parameter. The caller has advanced to `now`.
    pub(super) fn set(&mut self, now: Instant, parameter: Parameter, events: &mut Events) -> Result<(), ConfigError> {
        let before = self.config.clone();
        self.config.set(parameter.clone())?;
        match parameter {
            Parameter::Rate(_) | Parameter::RateTrace(_)
                if (before.rate, &before.rate_trace) != (self.config.rate, &self.config.rate_trace) =>
            {
                self.queue.set_rate(self.config.rate);
                match &mut self.service {
                    Some(service) => service.end = self.serialiser.change(now, &before, &self.config),
                    None => self.serialiser.forget_spare(),
                }
            }
            Parameter::Queue(_) | Parameter::Queueing(..) => {
                let mut lost = Vec::new();
                self.queue.reconfigure(now, &before, &self.config, &mut |frame, why| lost.push((frame, why)));
                self.lose_waiting(now, lost, events);
            }
            Parameter::Loss(loss) => self.loss.replace(loss, now),
            Parameter::Policer(policer) => self.bucket = policer.map(|policer| Bucket::new(policer, now)),
            _ => {}
        }
        Ok(())
    }

    /// Takes the next frame from the queue into the serialiser at `start`, if one waits.
    fn serve_next(&mut self, start: Instant, events: &mut Events) {
        // A frame of zero duration leaves the server free for the next one at once.
        while self.service.is_none() {
            let mut lost = Vec::new();
            let next = self.queue.pop(start, &mut |frame, why| lost.push((frame, why)));
            self.lose_waiting(start, lost, events);
            let Some(next) = next else {
                // What a recorded opportunity has left lapses; what comes now waits for the next one.
                if self.config.rate_trace.is_some() {
                    self.serialiser.forget_spare();
                }
                return;
            };
            self.waiting.take(next.bytes.len());
            self.serve(start, next, events);
        }
    }

    /// Counts frames dropped by the queue.
    fn lose_waiting(&mut self, at: Instant, lost: Vec<(Frame, Loss)>, events: &mut Events) {
        for (frame, why) in lost {
            self.waiting.take(frame.bytes.len());
            let cause = if why == Loss::Full { Cause::Queue } else { Cause::Delay };
            self.lose(at, cause, frame.number, frame.bytes.len(), events);
        }
        self.counters.marked = self.queue.marked();
    }

    /// Puts a frame into the serialiser at `start`.
    fn serve(&mut self, start: Instant, frame: Frame, events: &mut Events) {
        let waited = start.since(frame.arrived);
        self.counters.queue_delay_total += waited;
        self.counters.queue_delay_max = self.counters.queue_delay_max.max(waited);
        let end = self.serialiser.start(start, frame.bytes.len(), &self.config);
        let in_outage = in_windows(&self.config.outages, start);
        let service = Service { frame, start, end, in_outage };
        if end > start {
            self.service = Some(service);
        } else {
            // Nothing to serialise: an infinite rate or an empty frame never occupies the server.
            self.finish(service, events);
        }
    }

    /// A frame has left the serialiser: lose, corrupt, duplicate, delay, reorder.
    fn finish(&mut self, service: Service, events: &mut Events) {
        let Service { frame, start, end, in_outage } = service;
        let Frame { mut bytes, ecn, number, draws, .. } = frame;
        let octets = bytes.len();
        self.counters.serialised.add(octets);
        if in_outage {
            return self.lose(end, Cause::Outage, number, octets, events);
        }
        if self.loss.takes(&Sending { number, octets, start, end }, draws.loss) {
            return self.lose(end, Cause::Loss, number, octets, events);
        }
        if octets > 0 && hits(draws.corrupt, self.config.corrupt) {
            let bit = scaled(draws.corrupt_bit, octets as u64 * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.counters.corrupted.add(octets);
        }
        let copy = hits(draws.duplicate, self.config.duplicate).then(|| bytes.clone());
        self.launch(end, Flying { due: end, bytes, ecn, number }, draws.first, events);
        if let Some(bytes) = copy {
            self.counters.copied.add(octets);
            self.launch(end, Flying { due: end, bytes, ecn, number }, draws.copy, events);
        }
    }

    /// Sends a frame on its way at `start`.
    fn launch(&mut self, start: Instant, mut frame: Flying, turn: Turn, events: &mut Events) {
        let octets = frame.bytes.len();
        if self.in_flight.frames >= FRAMES_BOUND || self.in_flight.octets + octets as u64 > FLIGHT_BOUND.get() {
            return self.lose(start, Cause::Flight, frame.number, octets, events);
        }
        let mut due = start + self.config.delay_at(start) + span_below(turn.jitter, self.config.jitter);
        if self.config.keep_order {
            due = due.max(self.floor);
        }
        if hits(turn.reorder, self.config.reorder.p) {
            // Only this frame is delayed: later frames keep their due times and so pass it.
            due += self.config.reorder.extra;
            self.counters.reordered.add(octets);
        } else {
            self.floor = self.floor.max(due);
        }
        frame.due = due;
        self.in_flight.add(octets);
        self.flight.insert((due, self.launched), frame);
        self.launched += 1;
    }

    fn lose(&mut self, at: Instant, cause: Cause, number: u64, octets: usize, events: &mut Events) {
        self.counters.drop_one(cause, octets);
        events.push(CableEvent::Dropped { at, direction: self.direction, cause, number, octets });
    }
}
