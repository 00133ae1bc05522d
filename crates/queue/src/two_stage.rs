//! A queue before the ring of a driver: what the ring has taken no discipline can reach any more.

use super::{Counters, Limits, Lost, Popped, Queue, Queued};
use std::collections::VecDeque;
use wavelane_base::{Instant, Rate};

/// A queue, and behind it a ring that takes from it whatever it has room for. A ring of zero items is none.
///
/// A FIFO of `q` items before a ring of `r` is `ifconfig txqueuelen q` on a device with `r` transmit descriptors.
#[derive(Debug)]
pub struct TwoStage<T> {
    first: Queue<T>,
    /// With the moment at which each came to the first stage.
    ring: VecDeque<(Instant, T)>,
    ring_octets: usize,
    room: usize,
    /// Items that met an empty first stage and went past it.
    past: u64,
    /// Items that left the ring.
    left: u64,
}

impl<T: Queued> TwoStage<T> {
    /// `first`, which is empty, before a ring of `ring` items.
    pub fn new(first: Queue<T>, ring: usize) -> Self {
        Self { first, ring: VecDeque::new(), ring_octets: 0, room: ring, past: 0, left: 0 }
    }

    /// Adds an item; `lost` is told what is dropped in its place.
    pub fn push(&mut self, now: Instant, item: T, lost: Lost<'_, T>) {
        // Nothing waits, so there is nothing to decide: a FIFO of no items at all passes it on too.
        if matches!(self.first, Queue::Fifo(_)) && self.first.is_empty() && self.ring.len() < self.room {
            self.past += 1;
            return self.load(now, item);
        }
        self.first.push_noting(now, item, lost);
        self.fill(now, lost);
    }

    /// Takes the next item out; `lost` is told what the first stage drops on the way.
    pub fn pop(&mut self, now: Instant, lost: Lost<'_, T>) -> Option<Popped<T>> {
        if self.room == 0 {
            return self.first.pop_noting(now, lost);
        }
        let (at, item) = self.ring.pop_front()?;
        self.ring_octets -= item.octets();
        self.left += 1;
        self.fill(now, lost);
        Some(Popped { sojourn: now.since(at), item })
    }

    fn load(&mut self, at: Instant, item: T) {
        self.ring_octets += item.octets();
        self.ring.push_back((at, item));
    }

    /// Moves what the ring has room for.
    fn fill(&mut self, now: Instant, lost: Lost<'_, T>) {
        while self.ring.len() < self.room {
            let Some(Popped { item, sojourn }) = self.first.pop_noting(now, lost) else { return };
            let at = Instant::from_nanos(now.since(Instant::ZERO).saturating_sub(sojourn).as_nanos());
            self.load(at, item);
        }
    }

    /// Tells the first stage what leaves per second.
    pub fn set_rate(&mut self, rate: Option<Rate>) {
        self.first.set_rate(rate);
    }
    /// Changes how much may wait in the first stage; what waits already stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.first.set_limits(limits);
    }
    /// Takes everything out, the ring's items first.
    pub fn take_all(&mut self) -> Vec<T> {
        self.left += self.ring.len() as u64;
        self.ring_octets = 0;
        let mut all: Vec<T> = self.ring.drain(..).map(|(_, item)| item).collect();
        all.extend(self.first.take_all());
        all
    }
    /// Items that wait in both.
    pub fn len(&self) -> usize {
        self.first.len() + self.ring.len()
    }
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Octets that wait in both.
    pub fn octets(&self) -> usize {
        self.first.octets() + self.ring_octets
    }
    /// What both did so far.
    pub fn counters(&self) -> Counters {
        let first = self.first.counters();
        let popped = if self.room == 0 { first.popped } else { self.left };
        Counters { pushed: first.pushed + self.past, popped, ..first }
    }
}
