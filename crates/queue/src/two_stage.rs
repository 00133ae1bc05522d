//! A queue in front of a driver's ring: the discipline has no control over items in the ring.

use super::{Counters, Limits, Lost, Popped, Queue, Queued};
use std::collections::VecDeque;
use wavelane_base::{Instant, Rate};

/// A queue, and behind it a ring that takes items while it has room. A ring of zero items means no ring.
///
/// A FIFO of `q` items in front of a ring of `r` is `ifconfig txqueuelen q` on a device with `r` transmit descriptors.
#[derive(Debug)]
pub struct TwoStage<T> {
    first: Queue<T>,
    /// With the arrival time of each at the first stage.
    ring: VecDeque<(Instant, T)>,
    ring_octets: usize,
    room: usize,
    /// Items that bypassed an empty first stage.
    past: u64,
    /// Items that left the ring.
    left: u64,
}

impl<T: Queued> TwoStage<T> {
    /// `first`, which is empty, in front of a ring of `ring` items.
    pub fn new(first: Queue<T>, ring: usize) -> Self {
        Self { first, ring: VecDeque::new(), ring_octets: 0, room: ring, past: 0, left: 0 }
    }

    /// Adds an item; `lost` is called for each item dropped.
    pub fn push(&mut self, now: Instant, item: T, lost: Lost<'_, T>) {
        // Nothing waits, so the item bypasses the queue, even a FIFO with a limit of 0 items.
        if matches!(self.first, Queue::Fifo(_)) && self.first.is_empty() && self.ring.len() < self.room {
            self.past += 1;
            return self.load(now, item);
        }
        self.first.push_noting(now, item, lost);
        self.fill(now, lost);
    }

    /// Takes the next item out; `lost` is called for each item that the first stage drops.
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

    /// Moves items into the ring while it has room.
    fn fill(&mut self, now: Instant, lost: Lost<'_, T>) {
        while self.ring.len() < self.room {
            let Some(Popped { item, sojourn }) = self.first.pop_noting(now, lost) else { return };
            let at = Instant::from_nanos(now.since(Instant::ZERO).saturating_sub(sojourn).as_nanos());
            self.load(at, item);
        }
    }

    /// Sets the output rate known to the first stage.
    pub fn set_rate(&mut self, rate: Option<Rate>) {
        self.first.set_rate(rate);
    }
    /// Changes the limits of the first stage; items already waiting stay.
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
    /// Items waiting in both stages.
    pub fn len(&self) -> usize {
        self.first.len() + self.ring.len()
    }
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Octets waiting in both stages.
    pub fn octets(&self) -> usize {
        self.first.octets() + self.ring_octets
    }
    /// Counters of both stages.
    pub fn counters(&self) -> Counters {
        let first = self.first.counters();
        let popped = if self.room == 0 { first.popped } else { self.left };
        Counters { pushed: first.pushed + self.past, popped, ..first }
    }
}
