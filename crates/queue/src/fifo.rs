//! First in, first out.

use super::{Counters, Limits, Loss, Lost, Popped, Queued};
use std::collections::VecDeque;
use wavelane_base::Instant;

/// Items in order of arrival, with the time of it.
#[derive(Debug)]
pub struct Fifo<T> {
    items: VecDeque<(Instant, T)>,
    octets: usize,
    pub(super) limits: Limits,
    pub(super) counters: Counters,
}

impl<T: Queued> Fifo<T> {
    pub(super) fn new(limits: Limits) -> Self {
        Self { items: VecDeque::new(), octets: 0, limits, counters: Counters::default() }
    }

    pub(super) fn push(&mut self, now: Instant, item: T, lost: Lost<'_, T>) {
        self.counters.pushed += 1;
        if self.items.len() >= self.limits.items || self.octets + item.octets() > self.limits.octets {
            self.counters.dropped_full += 1;
            return lost(item, Loss::Full);
        }
        self.octets += item.octets();
        self.items.push_back((now, item));
    }

    /// Takes the first item out, without counting it.
    pub(super) fn take(&mut self, now: Instant) -> Option<Popped<T>> {
        let (at, item) = self.items.pop_front()?;
        self.octets -= item.octets();
        Some(Popped { sojourn: now.since(at), item })
    }

    /// Takes the last item out, without counting it, if `newer` covers it.
    pub(super) fn take_covered(&mut self, newer: &T) -> Option<T> {
        self.items.back().filter(|(_, last)| newer.covers(last))?;
        let (_, last) = self.items.pop_back()?;
        self.octets -= last.octets();
        Some(last)
    }

    pub(super) fn pop(&mut self, now: Instant) -> Option<Popped<T>> {
        let popped = self.take(now);
        self.counters.popped += u64::from(popped.is_some());
        popped
    }

    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.octets = 0;
        self.counters.popped += self.items.len() as u64;
        self.items.drain(..).map(|(_, item)| item).collect()
    }

    /// When the first item came.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.items.front().map(|(at, _)| *at)
    }
    pub(super) fn first(&self) -> Option<&T> {
        self.items.front().map(|(_, item)| item)
    }
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }
    pub(super) fn octets(&self) -> usize {
        self.octets
    }
}
