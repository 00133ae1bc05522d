//! A serial line: two ports, two independent directions of octets, with the rate of the line, a modem if there is one, noise, and the
//! receiver's FIFO.
//!
//! What is handed in is one frame as its sender puts it on the line, delimiters and all; what comes out is what the far receiver has of
//! those octets, which may be fewer. Where frames begin is the business of the nodes at both ends: a channel that knew the framing would
//! have to read headers to compress them.
//!
//! The page `docs/models/serial.md` states what the model covers and what it leaves out.

mod config;
mod receiver;

pub use config::{
    BITS_8N1, COMPUTER_RATE, Coding, FIFO_MAX, Gain, MODEM_DELAY, RATE_MAX, RATE_MIN, RATIO_MAX, SERVICE_MAX,
    SerialConfig, SerialDirection, SerialError, Uart,
};
pub use receiver::ReceiverCounters;

use crate::cable::{Cable, CableEvent, Direction};
use crate::{Counters, QueueLimit};
use receiver::Receiver;
use std::collections::VecDeque;
use wavelane_base::{FrameMeta, Instant, Machine, PortId, Seed, Transmit, Wakeup};

/// See the module.
pub struct Serial {
    /// Queue, rate, delay and loss of whole frames; its own queue has the default limit, the line's is kept here.
    cable: Cable,
    ways: [Way; 2],
}

/// What one direction adds to a cable's.
struct Way {
    queue: QueueLimit,
    receiver: Receiver,
    /// About to be read by the far program.
    held: VecDeque<(Instant, Vec<u8>)>,
    /// Read and not fetched yet.
    ready: VecDeque<Vec<u8>>,
    refused: u64,
}

impl Serial {
    /// A line called `name`, whose random numbers come from substreams that begin with it.
    pub fn new(seed: Seed, name: &str, config: &SerialConfig) -> Result<Self, SerialError> {
        config.check()?;
        let mut cable = config.cable();
        let way = |direction: Direction, config: &SerialDirection| Way {
            queue: config.cable.queue,
            receiver: Receiver::new(seed, &format!("{name} {}", direction.name()), config),
            held: VecDeque::new(),
            ready: VecDeque::new(),
            refused: 0,
        };
        let ways = [way(Direction::Forward, &config.forward), way(Direction::Reverse, &config.reverse)];
        cable.forward.queue = QueueLimit::Bounded;
        cable.reverse.queue = QueueLimit::Bounded;
        Ok(Self { cable: Cable::new(seed, name, cable)?, ways })
    }

    /// Whether a frame of `octets` handed in now would be queued. A sender that compresses headers asks before it does: of a frame that
    /// was compressed and then dropped the far end misses the state.
    pub fn has_room(&mut self, now: Instant, port: PortId, octets: usize) -> bool {
        self.cable.handle_timeout(now);
        let direction = Direction::BOTH[usize::from(port.0)];
        let (held, limits) = (self.cable.holding(direction), self.ways[usize::from(port.0)].queue.limits());
        let [frames, bytes] =
            [held.waiting.frames, held.waiting.octets].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        held.in_service.frames == 0 || (frames < limits.items && bytes + octets <= limits.octets)
    }

    /// Counts a frame that was not handed in because there was no room.
    pub fn refuse(&mut self, port: PortId) {
        self.ways[usize::from(port.0)].refused += 1;
    }

    /// Frames that found no room, of one direction.
    pub fn refused(&self, direction: Direction) -> u64 {
        self.ways[direction as usize].refused
    }
    /// Counters of whole frames of one direction, in octets as they are on the line.
    pub fn counters(&self, direction: Direction) -> &Counters {
        self.cable.counters(direction)
    }
    /// What the far receiver of one direction has done.
    pub fn receiver(&self, direction: Direction) -> &ReceiverCounters {
        self.ways[direction as usize].receiver.counters()
    }

    /// The next octets that the program at either end has read, and its port.
    pub fn take_ready(&mut self, now: Instant) -> Option<(PortId, Vec<u8>)> {
        self.receive(now);
        [PortId(0), PortId(1)].into_iter().find_map(|port| {
            // What comes out at port 0 was sent at port 1.
            let way = &mut self.ways[1 - usize::from(port.0)];
            way.ready.pop_front().map(|octets| (port, octets))
        })
    }

    /// Moves what has come off the line into the receivers.
    fn receive(&mut self, now: Instant) {
        while let Some((port, at, mut octets)) = self.cable.take_due(now) {
            let way = &mut self.ways[1 - usize::from(port.0)];
            let read = way.receiver.take(at, &mut octets);
            let read = way.held.back().map_or(read, |(before, _)| read.max(*before));
            way.held.push_back((read, octets));
        }
        for way in &mut self.ways {
            while way.held.front().is_some_and(|(at, _)| *at <= now) {
                way.ready.extend(way.held.pop_front().map(|(_, octets)| octets));
            }
        }
    }
}

impl Machine for Serial {
    type Event = CableEvent;

    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        let whole = frame.len().max(1);
        let size = meta.segment.map_or(whole, usize::from).max(1);
        for octets in frame.chunks(size) {
            if self.has_room(now, port, octets.len()) {
                self.cable.hand_in(now, port, octets.to_vec(), &FrameMeta::default());
            } else {
                self.refuse(port);
            }
        }
        self.receive(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.cable.handle_timeout(now);
        self.receive(now);
    }

    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], _max_segments: usize) -> Option<Transmit> {
        self.receive(now);
        let way = &mut self.ways[1 - usize::from(port.0)];
        let octets = way.ready.pop_front()?;
        let len = octets.len().min(buf.len());
        buf[..len].copy_from_slice(&octets[..len]);
        Some(Transmit { len, ..Transmit::default() })
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        let read = self.ways.iter().filter_map(|way| way.held.front());
        let read = read.map(|(at, _)| Wakeup { at: *at, cause: "serial: FIFO read" }).min_by_key(|wakeup| wakeup.at);
        Wakeup::earliest(self.cable.poll_timeout(), read)
    }

    fn poll_event(&mut self) -> Option<CableEvent> {
        self.cable.poll_event()
    }
}
