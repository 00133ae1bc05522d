//! The far end of one direction: what of the octets on the line reaches the program that reads them, and when.

use super::config::{BITS_8N1, Coding, SerialDirection};
use crate::cable::{hits, span_below};
use wavelane_base::{Chance, Instant, Ratio, Seed, Span};

/// Octet times without an octet after which a FIFO that is not full enough for its interrupt raises it (16550).
const TIMEOUT_OCTETS: u64 = 4;
/// Bits of data in an octet on the line; the first of the ten is the start bit, the last the stop bit.
const DATA_BITS: std::ops::Range<u64> = 1..9;

/// What a receiver has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverCounters {
    /// Octets that came off the line.
    pub octets: u64,
    /// Of these, octets of which noise changed a bit.
    pub damaged: u64,
    /// Octets without a valid start or stop bit, which noise took; no receiver hands them on.
    pub framing: u64,
    /// Octets for which the FIFO had no room.
    pub overrun: u64,
}

/// One receiver.
pub(super) struct Receiver {
    noise: Ratio,
    /// Bits of an octet on the line, start and stop bits among them if there are some.
    bits: std::ops::Range<u64>,
    dice: Chance,
    delays: Chance,
    octet: Span,
    fifo: Option<Fifo>,
    counters: ReceiverCounters,
}

/// A FIFO and the interrupt that empties it.
struct Fifo {
    room: u32,
    trigger: u32,
    service: Span,
    held: u32,
    /// When it will be emptied.
    read_at: Option<Instant>,
    last: Instant,
}

impl Fifo {
    /// Brings it to `now`: what was due is read.
    fn advance(&mut self, now: Instant, octet: Span, delays: &mut Chance) {
        if self.read_at.is_none() && self.held > 0 {
            let raised = self.last + octet.times(TIMEOUT_OCTETS);
            if raised <= now {
                self.read_at = Some(raised + self.served(delays));
            }
        }
        if self.read_at.is_some_and(|at| at <= now) {
            self.held = 0;
            self.read_at = None;
        }
    }
    /// An octet is complete. Whether it is kept.
    fn take(&mut self, now: Instant, octet: Span, delays: &mut Chance) -> bool {
        self.advance(now, octet, delays);
        self.last = now;
        if self.held == self.room {
            return false;
        }
        self.held += 1;
        if self.held >= self.trigger && self.read_at.is_none() {
            self.read_at = Some(now + self.served(delays));
        }
        true
    }
    /// From an interrupt until it is served.
    fn served(&self, delays: &mut Chance) -> Span {
        span_below(delays.next_u64(), self.service)
    }
    /// When what it holds has been read at the latest, if nothing follows.
    fn emptied(&self, octet: Span) -> Instant {
        self.read_at.unwrap_or(self.last + octet.times(TIMEOUT_OCTETS) + self.service)
    }
}

impl Receiver {
    /// The dice are the substreams `"PREFIX / noise"` and `"PREFIX / service"`.
    pub(super) fn new(seed: Seed, prefix: &str, config: &SerialDirection) -> Self {
        let fifo = config.uart.map(|uart| Fifo {
            room: uart.fifo,
            trigger: uart.trigger,
            service: uart.service,
            held: 0,
            read_at: None,
            last: Instant::ZERO,
        });
        Self {
            noise: config.noise,
            bits: if config.coding == Coding::Async { 0..BITS_8N1 } else { DATA_BITS },
            dice: seed.chance(&format!("{prefix} / noise")),
            delays: seed.chance(&format!("{prefix} / service")),
            octet: config.octet_time(),
            fifo,
            counters: ReceiverCounters::default(),
        }
    }

    pub(super) fn counters(&self) -> &ReceiverCounters {
        &self.counters
    }

    /// Octets whose last one was complete at `end`, one after the other. Returns when the program has what is left in `octets`.
    pub(super) fn take(&mut self, end: Instant, octets: &mut Vec<u8>) -> Instant {
        let count = octets.len() as u64;
        self.counters.octets += count;
        let mut done = 0;
        octets.retain_mut(|octet| {
            done += 1;
            let at = end - self.octet.times(count - done);
            let whole = self.noise == Ratio::ZERO || self.disturb(octet);
            // A receiver puts an octet with a framing error into its FIFO too, flagged.
            let room = self.fifo.as_mut().is_none_or(|fifo| fifo.take(at, self.octet, &mut self.delays));
            self.counters.overrun += u64::from(!room);
            whole && room
        });
        self.fifo.as_ref().map_or(end, |fifo| fifo.emptied(self.octet).max(end))
    }

    /// Noise meets an octet. Whether its start and stop bits are left.
    fn disturb(&mut self, octet: &mut u8) -> bool {
        let (before, mut whole) = (*octet, true);
        for bit in self.bits.clone() {
            if hits(self.dice.next_u64(), self.noise) {
                if DATA_BITS.contains(&bit) {
                    *octet ^= 1 << (bit - DATA_BITS.start);
                } else {
                    whole = false;
                }
            }
        }
        self.counters.framing += u64::from(!whole);
        self.counters.damaged += u64::from(whole && *octet != before);
        whole
    }
}
