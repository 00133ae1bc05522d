//! A cellular bearer: two directions whose rates change, whose blocks are repeated until they arrive, and which stall together.
//!
//! The page `docs/models/cellular.md` states what the model covers and what it leaves out.

mod config;
mod gaps;
mod preset;

pub use config::{BLOCK_MAX, BLOCK_MIN, BearerConfig, CellularConfig, CellularError, Gaps, Promotion, TRIES_MAX};
pub use preset::{CELLULAR_PRESETS, Preset};

use crate::pair::{Held, PairCounters, Side, side_of};
use core::convert::Infallible;
use gaps::GapProcess;
use std::collections::VecDeque;
use wavelane_base::{Chance, Ecn, FrameMeta, Instant, Machine, Octets, PortId, Rate, Seed, Transmit, Wakeup};

/// Most frames between radio and far port in one direction; the radio waits for room.
const FLIGHT_MAX: usize = 1 << 16;

/// The frame on the air.
struct Service {
    frame: Held,
    end: Instant,
    /// When it arrives; `None` if it is given up.
    due: Option<Instant>,
}

/// One direction.
struct Bearer {
    config: BearerConfig,
    side: Side,
    service: Option<Service>,
    /// In order of arrival.
    flight: VecDeque<(Instant, Held)>,
    /// Frames arrive in order.
    floor: Instant,
    rate: Rate,
    rate_until: Instant,
    rates: Chance,
    losses: Chance,
    gaps: Vec<GapProcess>,
}

/// The terminal's channel, which both directions share.
#[derive(Default)]
struct Grant {
    /// When it can be used.
    ready: Instant,
    /// When it is taken away.
    ends: Option<Instant>,
}

/// The bearer; see the module. Port 0 is the network's.
pub struct Cellular {
    config: CellularConfig,
    bearers: [Bearer; 2],
    grant: Grant,
}

impl Grant {
    /// When a frame that could be sent at `at` is.
    fn start(&mut self, config: &CellularConfig, at: Instant) -> Instant {
        let Some(promotion) = config.promotion else { return at };
        if self.ends.is_none_or(|ends| ends <= at) {
            self.ready = at + promotion.takes;
        }
        at.max(self.ready)
    }
    /// A frame is sent until `end`.
    fn used(&mut self, config: &CellularConfig, end: Instant) {
        if let Some(promotion) = config.promotion {
            self.ends = Some(self.ends.unwrap_or(end).max(end + promotion.idle));
        }
    }
}

impl Bearer {
    fn new(seed: Seed, name: &str, way: &str, config: &CellularConfig, own: BearerConfig) -> Self {
        let chance = |what: &str| seed.chance(&format!("{name} {way} / {what}"));
        // Both directions draw the same gaps.
        let spikes = config.spikes.map(|gaps| GapProcess::new(gaps, Some(seed.chance(&format!("{name} / spikes")))));
        let handover = config.handover.map(|gaps| GapProcess::new(gaps, None));
        Self {
            config: own,
            side: Side::new(own.queue),
            service: None,
            flight: VecDeque::new(),
            floor: Instant::ZERO,
            rate: own.rate,
            rate_until: Instant::ZERO,
            rates: chance("rates"),
            losses: chance("blocks"),
            gaps: spikes.into_iter().chain(handover).collect(),
        }
    }

    /// The rate at a time; queries are in time order.
    fn rate_at(&mut self, at: Instant) -> Rate {
        while self.rate_until <= at {
            let (low, high) = (self.config.slowest.as_bps(), self.config.rate.as_bps());
            self.rate = Rate::from_bps(low + self.rates.below(high - low + 1));
            self.rate_until += self.config.hold;
        }
        self.rate
    }

    /// Transmissions of all blocks of a frame together, and of the block with the most; `None` if one is given up.
    fn transmissions(&mut self, octets: usize) -> (u64, Option<u32>) {
        let blocks = octets.div_ceil(self.config.block).max(1);
        let (mut all, mut most, mut lost) = (0, 1, false);
        for _ in 0..blocks {
            let mut tries = 1;
            while self.losses.happens(self.config.block_loss) {
                if tries == self.config.tries {
                    lost = true;
                    break;
                }
                tries += 1;
            }
            all += u64::from(tries);
            most = most.max(tries);
        }
        self.side.counters.pieces += all;
        self.side.counters.repeated += all - blocks as u64;
        (all, (!lost).then_some(most))
    }

    /// Sends the next frame, if one waits and the radio is free.
    fn serve(&mut self, at: Instant, config: &CellularConfig, grant: &mut Grant) {
        if self.service.is_some() || self.flight.len() >= FLIGHT_MAX {
            return;
        }
        let Some(frame) = self.side.pop() else { return };
        let granted = grant.start(config, at);
        let rate = self.rate_at(granted);
        let (all, most) = self.transmissions(frame.bytes.len());
        // A frame of less than a block, or its last block, takes what it needs.
        let blocks = frame.bytes.len().div_ceil(self.config.block).max(1) as u64;
        let octets = frame.bytes.len() as u64 * all / blocks;
        let mut work = (granted, granted + rate.time_for(Octets::new(octets)));
        for gaps in &mut self.gaps {
            work = gaps.finish(work.0, work.1.since(work.0));
        }
        let end = work.1;
        grant.used(config, end);
        let due = most.map(|most| end + self.config.round.times(u64::from(most - 1)) + self.config.delay);
        self.service = Some(Service { frame, end, due });
    }

    /// The frame on the air is over.
    fn finish(&mut self) {
        let Some(service) = self.service.take() else { return };
        match service.due {
            Some(due) => {
                self.floor = self.floor.max(due);
                self.flight.push_back((self.floor, service.frame));
            }
            None => self.side.counters.given_up.add(service.frame.bytes.len()),
        }
    }

    fn land(&mut self, now: Instant) {
        while self.flight.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, frame)) = self.flight.pop_front() {
                self.side.arrive(frame);
            }
        }
    }
}

impl Cellular {
    /// A bearer called `name`: its random numbers come from the run's substreams `"NAME forward / blocks"` and so on.
    pub fn new(seed: Seed, name: &str, config: CellularConfig) -> Result<Self, CellularError> {
        config.check()?;
        let bearer = |way, own| Bearer::new(seed, name, way, &config, own);
        let bearers = [bearer("forward", config.forward), bearer("reverse", config.reverse)];
        Ok(Self { config, bearers, grant: Grant::default() })
    }

    /// What became of the frames handed in at `port`.
    pub fn counters(&self, port: PortId) -> &PairCounters {
        &self.bearers[side_of(port)].side.counters
    }

    /// Frames that wait at `port`.
    pub fn waiting(&self, port: PortId) -> usize {
        self.bearers[side_of(port)].side.waiting()
    }

    /// Takes one frame with its memory.
    pub fn hand_in(&mut self, now: Instant, port: PortId, frame: Vec<u8>, meta: &FrameMeta) {
        self.advance(now);
        self.bearers[side_of(port)].side.push(frame, meta);
        self.begin(now);
    }

    /// The next frame that has arrived at either port, with its port and mark.
    pub fn take_ready(&mut self, now: Instant) -> Option<(PortId, Ecn, Vec<u8>)> {
        self.advance(now);
        [0, 1].into_iter().find_map(|way| {
            let (ecn, frame) = self.bearers[way].side.take()?;
            Some((PortId(1 - way as u16), ecn, frame))
        })
    }

    fn begin(&mut self, at: Instant) {
        for bearer in &mut self.bearers {
            bearer.serve(at, &self.config, &mut self.grant);
        }
    }

    /// What is due by `now`, in time order: both directions share the grant.
    fn advance(&mut self, now: Instant) {
        let ends = |bearer: &Bearer| bearer.service.as_ref().map_or(Instant::FAR_FUTURE, |service| service.end);
        loop {
            let way = usize::from(ends(&self.bearers[1]) < ends(&self.bearers[0]));
            let end = ends(&self.bearers[way]);
            if end > now || end == Instant::FAR_FUTURE {
                break;
            }
            self.bearers[way].finish();
            self.bearers[way].land(end);
            self.bearers[way].serve(end, &self.config, &mut self.grant);
        }
        self.bearers.iter_mut().for_each(|bearer| bearer.land(now));
        // What waited for room between radio and far port.
        self.begin(now);
    }
}

impl Machine for Cellular {
    type Event = Infallible;

    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        self.advance(now);
        self.bearers[side_of(port)].side.push_batch(frame, &meta);
        self.begin(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], _max_segments: usize) -> Option<Transmit> {
        self.advance(now);
        self.bearers[1 - side_of(port)].side.write(buf)
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        let each = self.bearers.iter().flat_map(|bearer| {
            let sent = bearer.service.as_ref().map(|s| Wakeup { at: s.end, cause: "cellular: frame sent" });
            let due = bearer.flight.front().map(|(at, _)| Wakeup { at: *at, cause: "cellular: frame due" });
            [sent, due]
        });
        each.fold(None, Wakeup::earliest)
    }

    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }
}
