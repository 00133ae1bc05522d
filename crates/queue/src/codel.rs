//! Controlled delay (RFC 8289), with marking in place of dropping where an item allows it.

use super::fifo::Fifo;
use super::{Counters, Limits, Loss, Lost, Popped, Queued, Terms};
use wavelane_base::{Instant, Span};

/// A queue with at most this backlog is never dropped from: one packet of the largest common MTU (RFC 8289, section 4.2,
/// `MAXPACKET`).
const BACKLOG_MIN: usize = 1_514;
/// A new dropping state resumes the earlier drop rate if it begins within this many intervals of the last drop
/// (RFC 8289, section 4.1: "within the last 8 intervals"; section 5.3's code has 16, which Linux uses too).
const RESUME_INTERVALS: u64 = 16;
/// A source that reacts to drops does so within an RTT, which is below the interval. After this many intervals of drops with
/// a standing queue, a source is taken as unresponsive.
const DEAF_INTERVALS: u64 = 8;

/// CoDel's state (RFC 8289, section 5.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Law {
    /// When the sojourn time will have been above target for an interval, so that a drop is allowed.
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u64,
    last_count: u64,
    dropping: bool,
    /// When the current dropping state began.
    dropping_since: Instant,
}

impl Law {
    /// Takes the next item of `fifo` that CoDel does not drop. Dropped and marked items are counted.
    pub(super) fn pop<T: Queued>(
        &mut self,
        now: Instant,
        terms: Terms,
        fifo: &mut Fifo<T>,
        counters: &mut Counters,
        lost: Lost<'_, T>,
    ) -> Option<Popped<T>> {
        let (mut popped, mut may_drop) = self.take(now, terms, fifo);
        if self.dropping {
            if !may_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                self.drop_next = control_law(self.drop_next, terms.interval, self.count);
                if mark(&mut popped, counters) {
                    return popped;
                }
                drop_one(popped, counters, lost);
                (popped, may_drop) = self.take(now, terms, fifo);
                if !may_drop {
                    self.dropping = false;
                }
            }
        } else if may_drop {
            self.dropping = true;
            self.dropping_since = now;
            let delta = self.count - self.last_count;
            let lately = now.since(self.drop_next) < terms.interval.times(RESUME_INTERVALS);
            self.count = if delta > 1 && lately { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = control_law(now, terms.interval, self.count);
            if !mark(&mut popped, counters) {
                drop_one(popped, counters, lost);
                (popped, _) = self.take(now, terms, fifo);
            }
        }
        popped
    }

    /// Whether the source is unresponsive to drops.
    pub(super) fn is_deaf(&self, now: Instant, terms: Terms) -> bool {
        self.dropping && now.since(self.dropping_since) >= terms.interval.times(DEAF_INTERVALS)
    }

    /// All items were taken out at once, so there is no standing queue.
    pub(super) fn emptied(&mut self) {
        self.first_above = None;
        self.dropping = false;
    }

    /// The next item, and whether it may be dropped (`dodequeue` of RFC 8289, section 5.3).
    fn take<T: Queued>(&mut self, now: Instant, terms: Terms, fifo: &mut Fifo<T>) -> (Option<Popped<T>>, bool) {
        let Some(popped) = fifo.take(now) else {
            self.first_above = None;
            return (None, false);
        };
        if popped.sojourn < terms.target || fifo.octets() <= BACKLOG_MIN {
            self.first_above = None;
            return (Some(popped), false);
        }
        let first_above = *self.first_above.get_or_insert(now + terms.interval);
        (Some(popped), now >= first_above)
    }
}

fn mark<T: Queued>(popped: &mut Option<Popped<T>>, counters: &mut Counters) -> bool {
    let marked = popped.as_mut().is_some_and(|popped| popped.item.mark());
    counters.marked += u64::from(marked);
    marked
}

fn drop_one<T>(popped: Option<Popped<T>>, counters: &mut Counters, lost: Lost<'_, T>) {
    counters.dropped_delay += 1;
    if let Some(popped) = popped {
        lost(popped.item, Loss::Delay);
    }
}

/// When the next drop is due: the drop interval shrinks with the square root of the count (RFC 8289, section 3.3).
fn control_law(at: Instant, interval: Span, count: u64) -> Instant {
    at + Span::from_nanos((interval.as_nanos() as f64 / (count as f64).sqrt()) as u64)
}

/// One FIFO under CoDel.
#[derive(Debug)]
pub struct CoDel<T> {
    fifo: Fifo<T>,
    law: Law,
    pub(super) terms: Terms,
    counters: Counters,
}

impl<T: Queued> CoDel<T> {
    pub(super) fn new(limits: Limits) -> Self {
        Self { fifo: Fifo::new(limits), law: Law::default(), terms: Terms::default(), counters: Counters::default() }
    }
    pub(super) fn push(&mut self, now: Instant, item: T, lost: Lost<'_, T>) {
        self.fifo.push(now, item, lost);
    }
    pub(super) fn pop(&mut self, now: Instant, lost: Lost<'_, T>) -> Option<Popped<T>> {
        let popped = self.law.pop(now, self.terms, &mut self.fifo, &mut self.counters, lost);
        self.counters.popped += u64::from(popped.is_some());
        popped
    }
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.law.emptied();
        let all = self.fifo.take_all();
        self.counters.popped += all.len() as u64;
        all
    }
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.fifo.limits = limits;
    }
    pub(super) fn counters(&self) -> Counters {
        let fifo = self.fifo.counters;
        Counters { pushed: fifo.pushed, dropped_full: fifo.dropped_full, ..self.counters }
    }
    pub(super) fn len(&self) -> usize {
        self.fifo.len()
    }
    pub(super) fn octets(&self) -> usize {
        self.fifo.octets()
    }
}
