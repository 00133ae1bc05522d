//! A cable: two ports, two independent directions, each of which queues, serialises, loses, corrupts, duplicates,
//! delays and reorders frames, in this order.
//!
//! The page `docs/models/cable.md` states what the model covers and what it leaves out.

mod config;
mod count;
mod draws;
mod policer;
mod serialiser;
mod trace;
mod waiting;
mod way;

pub use config::{
    CableConfig, CoDelTimes, ConfigError, DirectionConfig, Discipline, FLIGHT_BOUND, FRAME_MAX, FRAMES_BOUND,
    Parameter, Policer, QUEUE_BOUND, QUEUE_DEFAULT, QueueLimit, Queueing, RING_BOUND, Reorder, SPAN_MAX,
};
pub use count::{Cause, Counters, Holding, Tally};
pub(crate) use draws::{hits, span_below};
pub use trace::{
    DelayTrace, ENTRIES_MAX, OPPORTUNITY, OPPORTUNITY_HEADER, PERIOD_MAX, RateTrace, Source, TRACE_RATE_MAX, Then,
    TraceError,
};
pub(crate) use waiting::managed;

use std::collections::VecDeque;
use wavelane_base::{Ecn, FrameMeta, Instant, Machine, PortId, Seed, Transmit, Wakeup};
use way::Way;

/// Most events kept until they are fetched; later ones are counted in [`Cable::events_missed`].
pub const EVENTS_BOUND: usize = 1 << 16;

/// One of a cable's two directions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// From side a, `PortId(0)`, to side b, `PortId(1)`.
    Forward,
    /// From side b to side a.
    Reverse,
}

/// What a cable reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CableEvent {
    /// A frame will not arrive.
    Dropped {
        /// When it was dropped: on arrival, or at the end of its serialisation.
        at: Instant,
        /// Its direction.
        direction: Direction,
        /// Why.
        cause: Cause,
        /// Its number, counted from 0 in order of arrival at the port.
        number: u64,
        /// Its length in bytes.
        octets: usize,
    },
}

/// A full-duplex medium between two ports; see the module.
///
/// A batch ([`FrameMeta::segment`]) is split on arrival and its frames are handled individually. The ECN mark handed in
/// comes out with the frame, possibly changed by a marking queue: the caller that fetches the frame writes it into the
/// header. Queues distinguish flows by [`FrameMeta::flow`]. A late wake-up changes no outcome: schedules follow the
/// deadlines, not the wake-ups.
pub struct Cable {
    ways: [Way; 2],
    events: Events,
}

/// Pending reports, bounded.
#[derive(Default)]
struct Events {
    waiting: VecDeque<CableEvent>,
    missed: u64,
}

impl Events {
    fn push(&mut self, event: CableEvent) {
        if self.waiting.len() < EVENTS_BOUND {
            self.waiting.push_back(event);
        } else {
            self.missed += 1;
        }
    }
}

impl Direction {
    /// Both, forward first.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    /// The direction of frames handed in at `port`.
    fn from_port(port: PortId) -> Self {
        match port.0 {
            0 => Self::Forward,
            1 => Self::Reverse,
            other => panic!("a cable has ports 0 and 1; the wiring names port {other}"),
        }
    }
    /// The direction of frames that come out at `port`.
    fn to_port(port: PortId) -> Self {
        match Self::from_port(port) {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }
    /// The word used in the names of substreams and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }
}

impl Cable {
    /// A cable called `name`. Its random numbers come from the run's substreams `"NAME forward / loss"` and so on, so two
    /// cables of one run need two names.
    pub fn new(seed: Seed, name: &str, config: CableConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let way = |direction, config| Way::new(seed, name, direction, config);
        Ok(Self {
            ways: [way(Direction::Forward, config.forward), way(Direction::Reverse, config.reverse)],
            events: Events::default(),
        })
    }

    /// Changes one parameter now. The cable is unchanged if the change is rejected.
    pub fn set(&mut self, now: Instant, direction: Direction, parameter: Parameter) -> Result<(), ConfigError> {
        let way = &mut self.ways[direction as usize];
        way.advance(now, &mut self.events);
        way.set(now, parameter, &mut self.events)?;
        way.advance(now, &mut self.events);
        Ok(())
    }

    /// The current parameters of one direction.
    pub fn config(&self, direction: Direction) -> &DirectionConfig {
        self.ways[direction as usize].config()
    }

    /// Counters of one direction since the start.
    pub fn counters(&self, direction: Direction) -> &Counters {
        self.ways[direction as usize].counters()
    }

    /// What one direction holds, as of the last call with a time.
    pub fn holding(&self, direction: Direction) -> Holding {
        self.ways[direction as usize].holding()
    }

    /// Takes one frame with its memory, and copies nothing; otherwise as [`Machine::handle_frame`].
    pub fn hand_in(&mut self, now: Instant, port: PortId, frame: Vec<u8>, meta: &FrameMeta) {
        let way = &mut self.ways[Direction::from_port(port) as usize];
        way.advance(now, &mut self.events);
        way.accept(now, frame, meta, &mut self.events);
        way.advance(now, &mut self.events);
    }

    /// The next frame that is due at either port, with its port and ECN mark. For drivers that keep frames; others poll
    /// the ports.
    pub fn take_ready(&mut self, now: Instant) -> Option<(PortId, Ecn, Vec<u8>)> {
        [PortId(0), PortId(1)].into_iter().find_map(|port| {
            let way = &mut self.ways[Direction::to_port(port) as usize];
            way.advance(now, &mut self.events);
            way.take_ready().map(|(_, ecn, frame)| (port, ecn, frame))
        })
    }

    /// The same with the time at which it was due, which may be past.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(PortId, Instant, Vec<u8>)> {
        [PortId(0), PortId(1)].into_iter().find_map(|port| {
            let way = &mut self.ways[Direction::to_port(port) as usize];
            way.advance(now, &mut self.events);
            way.take_ready().map(|(due, _, frame)| (port, due, frame))
        })
    }

    /// Whether the queue of frames handed in at `port` uses their flow and ECN mark.
    pub fn looks_at_flows(&self, port: PortId) -> bool {
        let queueing = self.ways[Direction::from_port(port) as usize].config().queueing;
        queueing.discipline != Discipline::Fifo
    }

    /// Events dropped because the caller had not fetched the earlier [`EVENTS_BOUND`].
    pub fn events_missed(&self) -> u64 {
        self.events.missed
    }
}

impl Machine for Cable {
    type Event = CableEvent;

    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        let way = &mut self.ways[Direction::from_port(port) as usize];
        way.advance(now, &mut self.events);
        match meta.segment {
            Some(size) if size > 0 && usize::from(size) < frame.len() => {
                for segment in frame.chunks(usize::from(size)) {
                    way.accept(now, segment.to_vec(), &meta, &mut self.events);
                }
            }
            _ => way.accept(now, frame.to_vec(), &meta, &mut self.events),
        }
        way.advance(now, &mut self.events);
    }

    fn handle_timeout(&mut self, now: Instant) {
        for way in &mut self.ways {
            way.advance(now, &mut self.events);
        }
    }

    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], _max_segments: usize) -> Option<Transmit> {
        let way = &mut self.ways[Direction::to_port(port) as usize];
        way.advance(now, &mut self.events);
        way.deliver(now, buf, &mut self.events)
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        let [forward, reverse] = &self.ways;
        Wakeup::earliest(forward.poll_timeout(), reverse.poll_timeout())
    }

    fn poll_event(&mut self) -> Option<CableEvent> {
        self.events.waiting.pop_front()
    }
}
