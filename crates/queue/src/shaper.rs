//! A shaper over a queue modelled on CAKE: a fixed output rate, with the framing overhead of the link behind it.
//!
//! As in Linux's CAKE, a virtual clock instead of a token bucket sets when the next item may leave: it advances by each
//! item's time at the rate, so there are no bursts, and a shaper that is served late catches up without losing rate.

use super::cake::{Cake, Tins};
use super::{Counters, FRAME, Limits, Lost, Popped, Queued, Terms, UNLIMITED};
use wavelane_base::{Instant, Octets, Rate, Span};

/// Minimum rate: a packet of 1,500 octets then takes a second and a half.
pub const RATE_MIN: Rate = Rate::from_bps(8_000);
/// An ATM cell and its payload in octets; a packet's last cell is padded (ITU-T I.361, I.363.5).
const ATM: (u64, u64) = (53, 48);
/// PTM sends 65 octets for 64 (ITU-T G.992.3, annex N).
const PTM: (u64, u64) = (65, 64);

/// The link's segmentation of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cells {
    /// None: packets are sent whole.
    #[default]
    None,
    /// ATM, under ADSL.
    Atm,
    /// PTM, under VDSL2.
    Ptm,
}

/// How many octets a packet takes on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Framing {
    /// Octets before and after each packet.
    pub overhead: u16,
    /// Minimum size of a packet with its overhead.
    pub least: u16,
    /// Segmentation of the result.
    pub cells: Cells,
}

impl Framing {
    /// The size on the link of a packet of `octets`.
    pub fn octets(self, octets: usize) -> Octets {
        let framed = (octets as u64).saturating_add(self.overhead.into()).max(self.least.into());
        Octets::new(match self.cells {
            Cells::None => framed,
            Cells::Atm => framed.div_ceil(ATM.1) * ATM.0,
            Cells::Ptm => framed + framed.div_ceil(PTM.1) * (PTM.0 - PTM.1),
        })
    }
}

/// The queue behind a clock of a set rate.
#[derive(Debug)]
pub struct Shaper<T> {
    queue: Cake<T>,
    rate: Rate,
    framing: Framing,
    /// When the next item may leave, and the fraction of a nanosecond, in units of 1/`rate`.
    free: Instant,
    carry: u64,
}

impl<T: Queued> Shaper<T> {
    /// An empty one. `round_trip` is CoDel's interval, usually 100 ms; packets are sorted into `tins`.
    pub fn new(rate: Rate, framing: Framing, round_trip: Span, tins: Tins, limits: Limits) -> Self {
        let mut queue = Cake::new(tins, limits);
        queue.set_terms(Terms { interval: round_trip, age: UNLIMITED, ..Terms::default() });
        let mut shaper = Self { queue, rate: RATE_MIN, framing, free: Instant::ZERO, carry: 0 };
        shaper.set_rate(rate);
        shaper
    }

    /// Changes the rate from the next item on.
    ///
    /// CoDel's target is at least one and a half times a full frame, and its interval grows with it, as CAKE sets them: a
    /// packet's own serialisation time on a slow link is not a queue (RFC 8289, section 4.3).
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate.max(RATE_MIN);
        self.carry = 0;
        self.queue.set_rate(Some(self.rate), self.framing.octets(FRAME.get() as usize));
    }
    /// The rate in force.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Adds an item; `lost` is called for each item dropped.
    pub fn push(&mut self, now: Instant, item: T, lost: Lost<'_, T>) {
        // Unused time is not credited.
        if self.queue.len() == 0 && self.free < now {
            self.free = now;
            self.carry = 0;
        }
        self.queue.push(now, item, lost);
    }

    /// When [`Self::pop`] may return an item; `None` while the queue is empty.
    pub fn due(&self) -> Option<Instant> {
        (self.queue.len() > 0).then_some(self.free)
    }

    /// Takes the next item out if it is due; `lost` is called for each item dropped.
    pub fn pop(&mut self, now: Instant, lost: Lost<'_, T>) -> Option<Popped<T>> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        let framing = self.framing;
        let popped = self.queue.pop_framed(now, |octets| framing.octets(octets), lost)?;
        let parts =
            u128::from(self.framing.octets(popped.item.octets()).get()) * 8_000_000_000 + u128::from(self.carry);
        let rate = u128::from(self.rate.as_bps());
        self.free += Span::from_nanos(u64::try_from(parts / rate).unwrap_or(u64::MAX));
        self.carry = (parts % rate) as u64;
        Some(popped)
    }

    /// Takes everything out, unserved.
    pub fn take_all(&mut self) -> Vec<T> {
        self.queue.take_all()
    }
    /// Items that wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Octets that wait.
    pub fn octets(&self) -> usize {
        self.queue.octets()
    }
    /// The queue's counters.
    pub fn counters(&self) -> Counters {
        self.queue.counters()
    }
}
