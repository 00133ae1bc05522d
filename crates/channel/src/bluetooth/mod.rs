//! A Bluetooth link: a master and a slave that take turns in slots, and repeat what was not acknowledged.
//!
//! The page `docs/models/bluetooth.md` states what the model covers and what it leaves out.

mod baseband;
mod config;

pub use config::{BluetoothConfig, BluetoothError, OVERHEAD, Packets, Quality, SLOT, Scheduler};

use crate::loss::GilbertElliott;
use crate::pair::{Held, PairCounters, Side, side_of};
use baseband::Packet;
use core::convert::Infallible;
use wavelane_base::{Chance, Ecn, FrameMeta, Instant, Machine, PortId, Ratio, Seed, Span, Transmit, Wakeup};

const MASTER: usize = 0;
const SLAVE: usize = 1;
/// How long after the quality changed a sender follows: errors are counted and a wish is sent (policy; Part C, section 3.8, leaves the
/// criterion to the maker).
const CQDDR_AFTER: Span = Span::from_millis(500);
/// Turns begin with the master's slots, which are the even ones.
const TURN: Span = Span::from_micros(1_250);

/// What one side is sending.
#[derive(Default)]
struct Sending {
    frame: Option<Held>,
    /// Bytes of it, with what is around it, that are not acknowledged.
    left: usize,
    /// The packet with the next of them, until it is acknowledged.
    packet: Option<Packet>,
    /// Whether the other side has that packet.
    received: bool,
}

/// What happens next.
#[derive(Clone, Copy)]
enum Step {
    /// The master may send.
    Turn(Instant),
    /// The master's packet is over, if it sent data or a poll.
    Heard(Instant),
    /// The slave's packet is over: its reply, and whether the master's packet had arrived.
    Answered(Instant, Packet, bool),
}

impl Step {
    fn at(self) -> Instant {
        match self {
            Self::Turn(at) | Self::Heard(at) | Self::Answered(at, ..) => at,
        }
    }
}

/// The link; see the module. Port 0 is the master's.
pub struct Bluetooth {
    config: BluetoothConfig,
    sides: [Side; 2],
    sending: [Sending; 2],
    next: Step,
    /// When the slave is polled even if the master has nothing to send.
    poll_due: Instant,
    scheduler: Option<GilbertElliott>,
    quality: Option<GilbertElliott>,
    /// Whether senders think that the quality is bad, and since when it is the other way round.
    wished: bool,
    differs_since: Option<Instant>,
    dice: Chance,
}

impl Sending {
    /// The packet to send now, if there is data.
    fn packet(&mut self, side: &mut Side, slots: u8, coded: bool) -> Option<Packet> {
        if self.frame.is_none() {
            self.frame = side.pop();
            self.left = self.frame.as_ref().map_or(0, |frame| frame.bytes.len() + OVERHEAD);
        }
        self.frame.as_ref()?;
        if self.packet.is_some() {
            side.counters.repeated += 1;
        }
        side.counters.pieces += 1;
        Some(*self.packet.get_or_insert_with(|| Packet::of(self.left, slots, coded)))
    }
    /// The other side has received the packet, maybe again.
    fn arrived(&mut self, side: &mut Side) {
        if !std::mem::replace(&mut self.received, true)
            && self.packet.is_some_and(|packet| packet.payload == self.left)
            && let Some(frame) = &mut self.frame
        {
            side.arrive(Held { bytes: std::mem::take(&mut frame.bytes), ecn: frame.ecn });
        }
    }
    /// The sender knows of it, if it was so.
    fn acknowledged(&mut self) {
        if std::mem::take(&mut self.received)
            && let Some(packet) = self.packet.take()
        {
            self.left -= packet.payload;
            if self.left == 0 {
                self.frame = None;
            }
        }
    }
}

impl Bluetooth {
    /// A link called `name`: its random numbers come from the run's substreams `"NAME / packets"` and so on.
    pub fn new(seed: Seed, name: &str, config: BluetoothConfig) -> Result<Self, BluetoothError> {
        config.check()?;
        let process = |good, bad, what: &str| {
            GilbertElliott::new(good, bad, seed.chance(&format!("{name} / {what}")), Instant::ZERO)
        };
        let scheduler = match config.scheduler {
            Scheduler::Wandering { asymmetric, symmetric } => Some(process(asymmetric, symmetric, "scheduler")),
            _ => None,
        };
        Ok(Self {
            sides: [Side::new(config.queue), Side::new(config.queue)],
            sending: [Sending::default(), Sending::default()],
            next: Step::Turn(Instant::ZERO + TURN),
            poll_due: Instant::ZERO + config.poll,
            scheduler,
            quality: config.quality.map(|quality| process(quality.good, quality.bad, "quality")),
            wished: false,
            differs_since: None,
            dice: seed.chance(&format!("{name} / packets")),
            config,
        })
    }

    /// What became of the frames handed in at `port`.
    pub fn counters(&self, port: PortId) -> &PairCounters {
        &self.sides[side_of(port)].counters
    }

    /// Frames that wait at `port`.
    pub fn waiting(&self, port: PortId) -> usize {
        self.sides[side_of(port)].waiting()
    }

    /// Takes one frame with its memory.
    pub fn hand_in(&mut self, now: Instant, port: PortId, frame: Vec<u8>, meta: &FrameMeta) {
        self.advance(now);
        self.sides[side_of(port)].push(frame, meta);
        self.rouse(now);
    }

    /// The next frame that has arrived at either port, with its port and mark.
    pub fn take_ready(&mut self, now: Instant) -> Option<(PortId, Ecn, Vec<u8>)> {
        self.advance(now);
        [MASTER, SLAVE].into_iter().find_map(|side| {
            let (ecn, frame) = self.sides[side].take()?;
            Some((PortId(1 - side as u16), ecn, frame))
        })
    }

    /// A master with data need not wait until a poll is due.
    fn rouse(&mut self, now: Instant) {
        if let Step::Turn(at) = self.next
            && !self.sides[MASTER].is_empty()
        {
            self.next = Step::Turn(at.min(even_after(now)));
        }
        self.advance(now);
    }

    fn advance(&mut self, now: Instant) {
        while self.next.at() <= now {
            self.next = match self.next {
                Step::Turn(at) => self.turn(at),
                Step::Heard(at) => self.heard(at),
                Step::Answered(at, reply, asked) => self.answered(at, reply, asked),
            };
        }
    }

    /// Whether the slave is given all slots of the longest packet.
    fn is_symmetric(&mut self, at: Instant) -> bool {
        match &mut self.scheduler {
            Some(process) => process.share(at, at).ends_bad,
            None => self.config.scheduler == Scheduler::Symmetric,
        }
    }

    /// Slots that a reply occupies, with those kept for it.
    fn reply_slots(&mut self, at: Instant, packet: Packet) -> Span {
        let least = if self.is_symmetric(at) { self.config.slots } else { 1 };
        SLOT.times(u64::from(packet.slots.max(least)))
    }

    /// Whether data is coded now.
    fn coded(&mut self, at: Instant) -> bool {
        match self.config.packets {
            Packets::Dh => false,
            Packets::Dm => true,
            Packets::Cqddr => {
                let is_bad = self.is_bad(at);
                if is_bad == self.wished {
                    self.differs_since = None;
                } else if at >= *self.differs_since.get_or_insert(at) + CQDDR_AFTER {
                    self.wished = is_bad;
                    self.differs_since = None;
                }
                self.wished
            }
        }
    }

    fn is_bad(&mut self, at: Instant) -> bool {
        self.quality.as_mut().is_some_and(|process| process.share(at, at).ends_bad)
    }

    /// Whether a packet that ends now is received.
    fn receives(&mut self, at: Instant, packet: Packet) -> bool {
        let is_bad = self.is_bad(at);
        let Some(quality) = self.config.quality else { return true };
        let ratio = if is_bad { quality.in_bad } else { quality.in_good };
        let chance = packet.received(share(ratio));
        self.dice.unit() < chance
    }

    fn turn(&mut self, at: Instant) -> Step {
        let coded = self.coded(at);
        let data = self.sending[MASTER].packet(&mut self.sides[MASTER], self.config.slots, coded);
        if data.is_none() && at < self.poll_due {
            return Step::Turn(self.poll_due);
        }
        Step::Heard(at + SLOT.times(u64::from(data.unwrap_or(Packet::EMPTY).slots)))
    }

    fn heard(&mut self, at: Instant) -> Step {
        let packet = self.sending[MASTER].packet.unwrap_or(Packet::EMPTY);
        let arrived = self.receives(at, packet);
        if arrived {
            self.sending[MASTER].arrived(&mut self.sides[MASTER]);
            // It carries the acknowledgement of the slave's latest.
            self.sending[SLAVE].acknowledged();
        }
        let coded = self.coded(at);
        // Who was not asked does not answer; the slot passes.
        let data =
            if arrived { self.sending[SLAVE].packet(&mut self.sides[SLAVE], self.config.slots, coded) } else { None };
        let reply = data.unwrap_or(Packet::EMPTY);
        let took = self.reply_slots(at, reply);
        Step::Answered(at + took, reply, arrived)
    }

    fn answered(&mut self, at: Instant, reply: Packet, asked: bool) -> Step {
        let arrived = asked && self.receives(at, reply);
        if arrived {
            self.sending[MASTER].acknowledged();
            if reply.payload > 0 {
                self.sending[SLAVE].arrived(&mut self.sides[SLAVE]);
            }
        }
        // A slave that had data, or was not heard, may have more.
        let again = reply.payload > 0 || !arrived || self.sending[MASTER].packet.is_some();
        self.poll_due = if again { at } else { even_after(at + self.config.poll) };
        let has_data = !self.sides[MASTER].is_empty() || self.sending[MASTER].frame.is_some();
        Step::Turn(if has_data { at } else { self.poll_due })
    }
}

/// The first time at or after `at` at which the master may send.
fn even_after(at: Instant) -> Instant {
    Instant::ZERO + TURN.times(at.since(Instant::ZERO).as_nanos().div_ceil(TURN.as_nanos()))
}

fn share(ratio: Ratio) -> f64 {
    f64::from(ratio.num()) / f64::from(ratio.den())
}

impl Machine for Bluetooth {
    type Event = Infallible;

    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        self.advance(now);
        self.sides[side_of(port)].push_batch(frame, &meta);
        self.rouse(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], _max_segments: usize) -> Option<Transmit> {
        self.advance(now);
        self.sides[1 - side_of(port)].write(buf)
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        let cause = match self.next {
            Step::Turn(_) => "bluetooth: the master's turn",
            Step::Heard(_) => "bluetooth: the master's packet is over",
            Step::Answered(..) => "bluetooth: the slave's packet is over",
        };
        Some(Wakeup { at: self.next.at(), cause })
    }

    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }
}
