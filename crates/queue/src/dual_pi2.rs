//! The dual queue coupled active queue management DualPI2 (RFC 9332, appendix A): one queue for senders that respond to the
//! fraction of marks (L4S), one for classic senders, and one controller whose output is squared for the classic queue, so
//! that both kinds get about the same rate.

use super::fifo::Fifo;
use super::{Counters, Limits, Loss, Lost, Popped, Queued};
use wavelane_base::{Instant, Span};

/// An L4S queue with at most this backlog is not marked for its own delay (RFC 9332, appendix A.1, `Th_len`).
const L4S_HELD: usize = 1_514;
/// The scheduler's initial credit of a busy period is for this many octets (a full Ethernet frame).
const FULL_ITEM: i64 = 1_514;

/// DualPI2's parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DualPi2Terms {
    /// Target delay of the classic queue.
    pub target: Span,
    /// How often the controller computes.
    pub update: Span,
    /// Gain of the delay's distance from the target, in 1/s.
    pub alpha: f64,
    /// Gain of the delay's change, in 1/s.
    pub beta: f64,
    /// How much stronger the signal is for L4S (`k`).
    pub coupling: f64,
    /// Delay of the L4S queue from which each item is marked.
    pub step: Span,
    /// Percentage of the octets that the classic queue gets while both have a backlog.
    pub classic_share: i64,
}

impl Default for DualPi2Terms {
    /// RFC 9332, appendix A.1; the classic queue's share as in Linux (`classic_protection`), the L4S threshold of 1 ms
    /// as in section 2.5.1.1's example and Linux.
    fn default() -> Self {
        Self {
            target: Span::from_millis(15),
            update: Span::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            step: Span::from_millis(1),
            classic_share: 10,
        }
    }
}

/// The two queues.
#[derive(Debug)]
pub struct DualPi2<T> {
    classic: Fifo<T>,
    l4s: Fifo<T>,
    terms: DualPi2Terms,
    pub(super) limits: Limits,
    /// The controller's output, before it is squared for the classic queue.
    output: f64,
    delay_before: Span,
    due: Option<Instant>,
    /// Sum of probabilities since the last signal, per queue: signals are spread evenly, without random numbers (`recur` of
    /// RFC 9332, appendix A.1).
    sums: Sums,
    /// If positive, the classic queue is served.
    credit: i64,
    pub(super) counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    classic: f64,
    l4s: f64,
    overload: f64,
}

/// Whether the event of this probability happens, spread evenly.
fn recur(sum: &mut f64, probability: f64) -> bool {
    *sum += probability;
    let happens = *sum > 1.0;
    *sum -= f64::from(u8::from(happens));
    happens
}

impl<T: Queued> DualPi2<T> {
    pub(super) fn new(terms: DualPi2Terms, limits: Limits) -> Self {
        Self {
            classic: Fifo::new(Limits::OF_THE_WHOLE),
            l4s: Fifo::new(Limits::OF_THE_WHOLE),
            terms,
            limits,
            output: 0.0,
            delay_before: Span::ZERO,
            due: None,
            sums: Sums::default(),
            credit: 0,
            counters: Counters::default(),
        }
    }

    /// Performs the updates that were due by `now` (RFC 9332, appendix A.1, figure 6).
    fn catch_up(&mut self, now: Instant) {
        let mut due = self.due.unwrap_or(now + self.terms.update);
        while due <= now {
            if self.len() == 0 && self.output == 0.0 && self.delay_before == Span::ZERO {
                let missed = now.since(due).as_nanos() / self.terms.update.as_nanos().max(1) + 1;
                due += self.terms.update.times(missed);
                break;
            }
            let delay = self.classic.oldest().map_or(Span::ZERO, |at| due.since(at));
            let (delay_s, before_s) = (delay.as_secs_f64(), self.delay_before.as_secs_f64());
            self.output += self.terms.alpha * (delay_s - self.terms.target.as_secs_f64());
            self.output = (self.output + self.terms.beta * (delay_s - before_s)).clamp(0.0, 1.0);
            self.delay_before = delay;
            due += self.terms.update;
        }
        self.due = Some(due);
    }

    /// Whether the signals for L4S are at their strongest: from here on both queues drop (RFC 9332, appendix A.2).
    fn is_overloaded(&self) -> bool {
        self.output * self.terms.coupling >= 1.0
    }

    pub(super) fn push(&mut self, now: Instant, item: T, lost: Lost<'_, T>) {
        self.catch_up(now);
        self.counters.pushed += 1;
        if self.len() >= self.limits.items || self.octets() + item.octets() > self.limits.octets {
            self.counters.dropped_full += 1;
            return lost(item, Loss::Full);
        }
        let queue = if item.is_scalable() { &mut self.l4s } else { &mut self.classic };
        queue.push(now, item, &mut |_, _| {});
    }

    /// The queue that is served next. Weighted round robin, in which L4S normally has priority (RFC 9332, section 4.2.2).
    fn l4s_is_next(&mut self) -> bool {
        if self.classic.len() == 0 || self.l4s.len() == 0 {
            // Only one queue has a backlog.
            self.credit = FULL_ITEM * (2 * self.terms.classic_share - 100);
            return self.l4s.len() > 0;
        }
        self.credit <= 0
    }

    pub(super) fn pop(&mut self, now: Instant, lost: Lost<'_, T>) -> Option<Popped<T>> {
        self.catch_up(now);
        loop {
            let overloaded = self.is_overloaded();
            let squared = self.output * self.output;
            if self.l4s_is_next() {
                let mut popped = self.l4s.take(now)?;
                self.credit += self.terms.classic_share * popped.item.octets() as i64;
                if overloaded && recur(&mut self.sums.overload, squared) {
                    self.counters.dropped_delay += 1;
                    lost(popped.item, Loss::Delay);
                    continue;
                }
                let own = popped.sojourn >= self.terms.step && self.l4s.octets() >= L4S_HELD;
                let coupled = (self.output * self.terms.coupling).min(1.0);
                if recur(&mut self.sums.l4s, if own { 1.0 } else { coupled }) {
                    self.counters.marked += u64::from(popped.item.mark());
                }
                self.counters.popped += 1;
                return Some(popped);
            }
            let mut popped = self.classic.take(now)?;
            self.credit -= (100 - self.terms.classic_share) * popped.item.octets() as i64;
            if recur(&mut self.sums.classic, squared) {
                if overloaded || !popped.item.mark() {
                    self.counters.dropped_delay += 1;
                    lost(popped.item, Loss::Delay);
                    continue;
                }
                self.counters.marked += 1;
            }
            self.counters.popped += 1;
            return Some(popped);
        }
    }

    pub(super) fn take_all(&mut self) -> Vec<T> {
        let mut all = self.l4s.take_all();
        all.extend(self.classic.take_all());
        self.counters.popped += all.len() as u64;
        all
    }
    pub(super) fn len(&self) -> usize {
        self.classic.len() + self.l4s.len()
    }
    pub(super) fn octets(&self) -> usize {
        self.classic.octets() + self.l4s.octets()
    }
    /// The controller's output: the probability of a signal is its square for classic senders, and `k` times it for L4S.
    pub fn output(&self) -> f64 {
        self.output
    }
}
