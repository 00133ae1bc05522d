//! Queues with and without active management: FIFO, CoDel (RFC 8289), FQ-CoDel (RFC 8290), PIE (RFC 8033) and DualPI2 (RFC
//! 9332), a queue modelled on CAKE; a driver's ring behind any of them; airtime queue limits for a radio's ring; and a
//! shaper.
//!
//! A queue needs no timer: decisions are made when an item is pushed or popped, so reading its state changes nothing.
//! Periodic computations of an algorithm are caught up then: between two calls only the time changes, so the outcome is the
//! same. Every queue is bounded in items and in octets.
#![forbid(unsafe_code)]

mod aql;
mod cake;
mod codel;
mod dual_pi2;
mod fifo;
mod fq_codel;
mod pie;
mod shaper;
mod two_stage;

#[cfg(test)]
mod cake_tests;
#[cfg(test)]
mod rfc_tests;
#[cfg(test)]
mod shaper_tests;
#[cfg(test)]
mod tests;

pub use aql::{Account, Aql, AqlTerms};
pub use cake::{Cake, Tins};
pub use dual_pi2::{DualPi2, DualPi2Terms};
pub use pie::{Pie, PieTerms};
pub use shaper::{Cells, Framing, RATE_MIN, Shaper};
pub use two_stage::TwoStage;

use codel::CoDel;
use fifo::Fifo;
use fq_codel::FqCoDel;
use wavelane_base::{Chance, Instant, Octets, Rate, Span};

/// Something that waits in a queue.
pub trait Queued {
    /// Its size.
    fn octets(&self) -> usize;
    /// The hash of its flow; equal hashes share a sub-queue.
    fn flow(&self) -> u64;
    /// Whether its sender is expected to slow down on a drop.
    fn heeds_drops(&self) -> bool;
    /// Sets its congestion mark (CE) instead of dropping it. False if it cannot be marked.
    fn mark(&mut self) -> bool;
    /// Whether its sender responds in proportion to the fraction of marks, as L4S senders do (ECT(1), RFC 9331).
    fn is_scalable(&self) -> bool {
        false
    }
    /// Whether it says all that `older` of the same flow, which waits directly before it, says: it then takes its place. A queue for each
    /// flow asks.
    fn covers(&self, _older: &Self) -> bool
    where
        Self: Sized,
    {
        false
    }
    /// Its differentiated-services code point (RFC 2474).
    fn dscp(&self) -> u8 {
        0
    }
    /// Hashes of its source and of its destination; 0 if unknown.
    fn hosts(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// Why an item was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// A limit was reached.
    Full,
    /// Dropped by the AQM to control the delay.
    Delay,
    /// It had waited too long in a queue that was served.
    Age,
}

/// Called for each dropped item.
pub type Lost<'a, T> = &'a mut dyn FnMut(T, Loss);

/// Queue limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most items.
    pub items: usize,
    /// Most octets.
    pub octets: usize,
}

impl Limits {
    /// For a queue that is part of another, whose limits apply.
    const OF_THE_WHOLE: Self = Self { items: usize::MAX, octets: usize::MAX };
}

/// The largest packet of Ethernet as a qdisc sees it.
const FRAME: Octets = Octets::new(1_514);

/// CoDel's two times (RFC 8289, section 3), and the additional parameters of FQ-CoDel here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Target sojourn time.
    pub target: Span,
    /// How long it may be exceeded before the first drop: about an RTT.
    pub interval: Span,
    /// The longest that an item may wait while its queue is served, at least [`AGE_MAX`], unless its flow heeds drops. A
    /// flow found to be unresponsive gets at most [`AGE_MAX`]. [`UNLIMITED`] disables the age limit, as in RFC 8290.
    pub age: Span,
    /// Items do not age while nothing was taken out for this long, as that is not overload.
    pub pause: Span,
}

/// No limit to an item's age.
pub const UNLIMITED: Span = Span::from_nanos(u64::MAX);
/// Maximum waiting time of an item of an unresponsive flow.
pub const AGE_MAX: Span = Span::from_millis(100);

impl Default for Terms {
    /// RFC 8289, section 4.4.
    fn default() -> Self {
        Self {
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            age: AGE_MAX,
            pause: Span::from_millis(50),
        }
    }
}

/// The queue discipline: a closed list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Discipline {
    /// First in, first out; the newest is dropped when full.
    Fifo,
    /// One queue whose standing delay is controlled to the target.
    CoDel,
    /// A CoDel queue per flow, served in turn, sparse flows first.
    #[default]
    FqCoDel,
}

/// A queue's counters, which only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Items pushed.
    pub pushed: u64,
    /// Items popped.
    pub popped: u64,
    /// Items dropped because a limit was reached.
    pub dropped_full: u64,
    /// Items dropped by the AQM to control the delay.
    pub dropped_delay: u64,
    /// Items dropped because they had waited too long in a queue that was served.
    pub dropped_age: u64,
    /// Items marked instead of dropped.
    pub marked: u64,
    /// Items whose place a newer one took that says all they said.
    pub covered: u64,
}

/// A popped item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Popped<T> {
    /// The item.
    pub item: T,
    /// Its sojourn time.
    pub sojourn: Span,
}

/// A queue of one of the disciplines.
#[derive(Debug)]
pub enum Queue<T> {
    /// See [`Discipline::Fifo`].
    Fifo(Fifo<T>),
    /// See [`Discipline::CoDel`].
    CoDel(CoDel<T>),
    /// See [`Discipline::FqCoDel`].
    FqCoDel(FqCoDel<T>),
    /// Drops on arrival with a probability set by a delay controller.
    Pie(Pie<T>),
    /// Two queues for two kinds of senders, with coupled signals.
    DualPi2(DualPi2<T>),
    /// Tins by code point, with host fairness.
    Cake(Cake<T>),
}

impl<T: Queued> Queue<T> {
    /// An empty queue.
    pub fn new(discipline: Discipline, limits: Limits) -> Self {
        match discipline {
            Discipline::Fifo => Self::Fifo(Fifo::new(limits)),
            Discipline::CoDel => Self::CoDel(CoDel::new(limits)),
            Discipline::FqCoDel => Self::FqCoDel(FqCoDel::new(limits)),
        }
    }

    /// An empty queue under PIE.
    pub fn pie(terms: PieTerms, limits: Limits, chance: Chance) -> Self {
        Self::Pie(Pie::new(terms, limits, chance))
    }
    /// An empty queue under DualPI2.
    pub fn dual_pi2(terms: DualPi2Terms, limits: Limits) -> Self {
        Self::DualPi2(DualPi2::new(terms, limits))
    }

    /// An empty queue modelled on CAKE.
    pub fn cake(tins: Tins, limits: Limits) -> Self {
        Self::Cake(Cake::new(tins, limits))
    }

    /// Sets the output rate; only [`Queue::Cake`] uses it, to divide it among tins.
    pub fn set_rate(&mut self, rate: Option<Rate>) {
        if let Self::Cake(queue) = self {
            queue.set_rate(rate, FRAME);
        }
    }

    /// Changes the limits; items already waiting stay.
    pub fn set_limits(&mut self, limits: Limits) {
        match self {
            Self::Fifo(queue) => queue.limits = limits,
            Self::CoDel(queue) => queue.set_limits(limits),
            Self::FqCoDel(queue) => queue.limits = limits,
            Self::Pie(queue) => queue.set_limits(limits),
            Self::DualPi2(queue) => queue.limits = limits,
            Self::Cake(queue) => queue.limits = limits,
        }
    }

    /// Changes CoDel's times; they apply to waiting items too.
    pub fn set_terms(&mut self, terms: Terms) {
        match self {
            Self::Fifo(_) | Self::Pie(_) | Self::DualPi2(_) => {}
            Self::CoDel(queue) => queue.terms = terms,
            Self::FqCoDel(queue) => queue.terms = terms,
            Self::Cake(queue) => queue.set_terms(terms),
        }
    }

    /// Adds an item. If a limit is reached, this item or another one is dropped and counted.
    pub fn push(&mut self, now: Instant, item: T) {
        self.push_noting(now, item, &mut |_, _| {});
    }
    /// The same; `lost` is told what was dropped.
    pub fn push_noting(&mut self, now: Instant, item: T, lost: Lost<'_, T>) {
        match self {
            Self::Fifo(queue) => queue.push(now, item, lost),
            Self::CoDel(queue) => queue.push(now, item, lost),
            Self::FqCoDel(queue) => queue.push(now, item, lost),
            Self::Pie(queue) => queue.push(now, item, lost),
            Self::DualPi2(queue) => queue.push(now, item, lost),
            Self::Cake(queue) => queue.push(now, item, lost),
        }
    }

    /// Takes the next item out. `None` only if nothing is left.
    pub fn pop(&mut self, now: Instant) -> Option<Popped<T>> {
        self.pop_noting(now, &mut |_, _| {})
    }
    /// The same; `lost` is told what was dropped.
    pub fn pop_noting(&mut self, now: Instant, lost: Lost<'_, T>) -> Option<Popped<T>> {
        match self {
            Self::Fifo(queue) => queue.pop(now),
            Self::CoDel(queue) => queue.pop(now, lost),
            Self::FqCoDel(queue) => queue.pop(now, lost),
            Self::Pie(queue) => queue.pop(now),
            Self::DualPi2(queue) => queue.pop(now, lost),
            Self::Cake(queue) => queue.pop(now, lost),
        }
    }

    /// Takes everything out, unserved, however long it waited.
    pub fn take_all(&mut self) -> Vec<T> {
        match self {
            Self::Fifo(queue) => queue.take_all(),
            Self::CoDel(queue) => queue.take_all(),
            Self::FqCoDel(queue) => queue.take_all(),
            Self::Pie(queue) => queue.take_all(),
            Self::DualPi2(queue) => queue.take_all(),
            Self::Cake(queue) => queue.take_all(),
        }
    }

    /// The next item if it belongs to a flow that has not yet used up its first turn. Other disciplines return `None`.
    pub fn sparse_head(&self) -> Option<&T> {
        match self {
            Self::Fifo(_) | Self::CoDel(_) | Self::Pie(_) | Self::DualPi2(_) | Self::Cake(_) => None,
            Self::FqCoDel(queue) => queue.sparse_head(),
        }
    }

    /// Whether more waits than sparse flows' turns, each begun by an item of at most `small` octets.
    pub fn has_beyond_sparse(&self, small: usize) -> bool {
        match self {
            Self::FqCoDel(queue) => queue.has_beyond_sparse(small),
            _ => !self.is_empty(),
        }
    }

    /// Items that wait.
    pub fn len(&self) -> usize {
        match self {
            Self::Fifo(queue) => queue.len(),
            Self::CoDel(queue) => queue.len(),
            Self::FqCoDel(queue) => queue.len(),
            Self::Pie(queue) => queue.len(),
            Self::DualPi2(queue) => queue.len(),
            Self::Cake(queue) => queue.len(),
        }
    }
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Octets that wait.
    pub fn octets(&self) -> usize {
        match self {
            Self::Fifo(queue) => queue.octets(),
            Self::CoDel(queue) => queue.octets(),
            Self::FqCoDel(queue) => queue.octets(),
            Self::Pie(queue) => queue.octets(),
            Self::DualPi2(queue) => queue.octets(),
            Self::Cake(queue) => queue.octets(),
        }
    }
    /// What it did so far.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Fifo(queue) => queue.counters,
            Self::CoDel(queue) => queue.counters(),
            Self::FqCoDel(queue) => queue.counters,
            Self::Pie(queue) => queue.counters(),
            Self::DualPi2(queue) => queue.counters,
            Self::Cake(queue) => queue.counters(),
        }
    }
}
