//! What happens next: entries ordered by time, then by the order in which they were made.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wavelane_base::Instant;

/// A queue of things to come. Entries of equal time come out in the order they went in, so nothing depends on luck.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    next_sequence: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    sequence: u64,
    what: T,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), next_sequence: 0 }
    }
    /// Notes `what` for `at`.
    pub(crate) fn push(&mut self, at: Instant, what: T) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.heap.push(Reverse(Entry { at, sequence, what }));
    }
    /// The next entry, if it is due at `until` or before.
    pub(crate) fn pop_until(&mut self, until: Instant) -> Option<(Instant, T)> {
        if self.heap.peek()?.0.at > until {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

impl<T> Entry<T> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.sequence)
    }
}
impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// One actor's wake-up call: remembers what was asked for, so that a changed wish makes the old entry void.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarm {
    armed: Option<Instant>,
    generation: u64,
}

impl Alarm {
    /// Notes the actor's present wish. Returns what to put on the agenda, if anything changed to that effect.
    pub(crate) fn set(&mut self, wish: Option<Instant>) -> Option<(Instant, u64)> {
        if self.armed == wish {
            return None;
        }
        self.armed = wish;
        self.generation += 1;
        wish.map(|at| (at, self.generation))
    }
    /// Whether an agenda entry of `generation` still stands; taking it disarms the alarm.
    pub(crate) fn take(&mut self, generation: u64) -> bool {
        let stands = self.armed.is_some() && self.generation == generation;
        if stands {
            self.armed = None;
        }
        stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_the_order_of_making() {
        let mut agenda = Agenda::new();
        for (at, what) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
            agenda.push(Instant::from_nanos(at), what);
        }
        let mut out = Vec::new();
        while let Some((_, what)) = agenda.pop_until(Instant::from_nanos(4)) {
            out.push(what);
        }
        assert_eq!(out, ['a', 'b']);
        assert_eq!(agenda.pop_until(Instant::FAR_FUTURE), Some((Instant::from_nanos(5), 'c')));
        assert_eq!(agenda.pop_until(Instant::FAR_FUTURE), Some((Instant::from_nanos(5), 'd')));
        assert_eq!(agenda.pop_until(Instant::FAR_FUTURE), None);
    }

    #[test]
    fn a_changed_wish_voids_the_older_entry() {
        let mut alarm = Alarm::default();
        let at = Instant::from_nanos;
        let (_, first) = alarm.set(Some(at(9))).expect("a new wish");
        assert_eq!(alarm.set(Some(at(9))), None, "the same wish needs no second entry");
        let (_, second) = alarm.set(Some(at(4))).expect("a changed wish");
        assert!(!alarm.take(first));
        assert!(alarm.take(second));
        assert!(!alarm.take(second), "an entry is good for one call");
        let (_, third) = alarm.set(Some(at(4))).expect("a wish after the call");
        assert_eq!(alarm.set(None), None);
        assert!(!alarm.take(third));
    }
}
