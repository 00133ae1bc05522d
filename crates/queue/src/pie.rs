//! The proportional integral controller enhanced, PIE (RFC 8033): items are dropped on arrival, with a probability that
//! follows the delay.

use super::fifo::Fifo;
use super::{Counters, Limits, Loss, Lost, Popped, Queued};
use wavelane_base::{Chance, Instant, Span};

/// A queue with a backlog of at most two items of this size is never dropped from (RFC 8033, section 4.1, `MEAN_PKTSIZE`).
const MEAN_ITEM: usize = 1_024;
/// Below this probability nothing is dropped if the delay was less than half of the target (RFC 8033, section 4.1).
const SAFE_PROBABILITY: f64 = 0.2;
/// Drops are spread: none until the sum of probabilities since the last drop reaches the first value, a certain one beyond
/// the second (RFC 8033, section 5.4).
const SPREAD: (f64, f64) = (0.85, 8.5);
/// The gains are divided by the second value while the probability is below the first (RFC 8033, section 4.2).
const TUNING: [(f64, f64); 6] =
    [(0.000_001, 2_048.0), (0.000_01, 512.0), (0.000_1, 128.0), (0.001, 32.0), (0.01, 8.0), (0.1, 2.0)];
/// From the first value on, the probability grows by at most the second per update (RFC 8033, section 5.5).
const STEP_MAX: (f64, f64) = (0.1, 0.02);
/// Decay factor of the probability per update interval without delay (RFC 8033, section 4.2).
const DECAY: f64 = 0.98;

/// PIE's parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PieTerms {
    /// Target delay (`QDELAY_REF`).
    pub target: Span,
    /// How often the probability is computed (`T_UPDATE`).
    pub update: Span,
    /// Gain of the delay's distance from the target, in 1/s.
    pub alpha: f64,
    /// Gain of the delay's change, in 1/s.
    pub beta: f64,
    /// Burst allowance (`MAX_BURST`).
    pub burst: Span,
    /// Items are marked only while the probability is below this, and dropped above (`mark_ecnth`).
    pub mark_below: f64,
}

impl Default for PieTerms {
    /// RFC 8033, sections 4.2, 4.3 and 5.1.
    fn default() -> Self {
        Self {
            target: Span::from_millis(15),
            update: Span::from_millis(15),
            alpha: 0.125,
            beta: 1.25,
            burst: Span::from_millis(150),
            mark_below: 0.1,
        }
    }
}

/// The controller (RFC 8033, section 4.2).
#[derive(Clone, Copy, Debug)]
struct DropControl {
    probability: f64,
    delay_before: Span,
    burst_left: Span,
    due: Instant,
}

/// A FIFO with random drops on arrival.
#[derive(Debug)]
pub struct Pie<T> {
    fifo: Fifo<T>,
    terms: PieTerms,
    controller: Option<DropControl>,
    /// Sum of probabilities since the last drop.
    sum: f64,
    chance: Chance,
    counters: Counters,
}

impl DropControl {
    fn new(now: Instant, terms: &PieTerms) -> Self {
        Self { probability: 0.0, delay_before: Span::ZERO, burst_left: terms.burst, due: now + terms.update }
    }

    /// One update, with the delay at its time.
    fn update(&mut self, delay: Span, terms: &PieTerms) {
        let (delay_s, before_s) = (delay.as_secs_f64(), self.delay_before.as_secs_f64());
        let change = terms.alpha * (delay_s - terms.target.as_secs_f64()) + terms.beta * (delay_s - before_s);
        let tuned = TUNING.iter().find(|(below, _)| self.probability < *below);
        let mut step = tuned.map_or(change, |(_, divisor)| change / divisor);
        if self.probability >= STEP_MAX.0 {
            step = step.min(STEP_MAX.1);
        }
        self.probability += step;
        if delay == Span::ZERO && self.delay_before == Span::ZERO {
            self.probability *= DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        let half = terms.target.scale(1, 2);
        let calm = self.probability == 0.0 && delay < half && self.delay_before < half;
        self.burst_left = if calm { terms.burst } else { self.burst_left.saturating_sub(terms.update) };
        self.delay_before = delay;
        self.due += terms.update;
    }

    /// Whether further updates on an empty queue change nothing.
    fn is_at_rest(&self, terms: &PieTerms) -> bool {
        self.probability == 0.0 && self.delay_before == Span::ZERO && self.burst_left == terms.burst
    }
}

impl<T: Queued> Pie<T> {
    pub(super) fn new(terms: PieTerms, limits: Limits, chance: Chance) -> Self {
        let fifo = Fifo::new(limits);
        Self { fifo, terms, controller: None, sum: 0.0, chance, counters: Counters::default() }
    }

    /// Performs the updates that were due by `now`.
    fn catch_up(&mut self, now: Instant) {
        let controller = self.controller.get_or_insert_with(|| DropControl::new(now, &self.terms));
        while controller.due <= now {
            if self.fifo.len() == 0 && controller.is_at_rest(&self.terms) {
                let missed = now.since(controller.due).as_nanos() / self.terms.update.as_nanos().max(1) + 1;
                controller.due += self.terms.update.times(missed);
                return;
            }
            let waits = self.fifo.oldest().map_or(Span::ZERO, |at| controller.due.since(at));
            controller.update(waits, &self.terms);
        }
    }

    /// Whether an arrival is dropped or marked (RFC 8033, sections 4.1 and 5.4).
    fn takes(&mut self) -> bool {
        let Some(controller) = self.controller else { return false };
        let calm = controller.delay_before < self.terms.target.scale(1, 2) && controller.probability < SAFE_PROBABILITY;
        if calm || self.fifo.octets() <= 2 * MEAN_ITEM || controller.burst_left > Span::ZERO {
            return false;
        }
        if controller.probability == 0.0 {
            self.sum = 0.0;
        }
        self.sum += controller.probability;
        if self.sum < SPREAD.0 {
            return false;
        }
        let taken = self.sum >= SPREAD.1 || self.chance.unit() < controller.probability;
        if taken {
            self.sum = 0.0;
        }
        taken
    }

    pub(super) fn push(&mut self, now: Instant, mut item: T, lost: Lost<'_, T>) {
        self.catch_up(now);
        if self.takes() {
            let gentle = self.controller.is_some_and(|c| c.probability < self.terms.mark_below);
            if gentle && item.mark() {
                self.counters.marked += 1;
            } else {
                self.counters.pushed += 1;
                self.counters.dropped_delay += 1;
                return lost(item, Loss::Delay);
            }
        }
        self.fifo.push(now, item, lost);
    }
    pub(super) fn pop(&mut self, now: Instant) -> Option<Popped<T>> {
        self.catch_up(now);
        self.fifo.pop(now)
    }
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.fifo.take_all()
    }
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.fifo.limits = limits;
    }
    pub(super) fn counters(&self) -> Counters {
        let (own, fifo) = (self.counters, self.fifo.counters);
        Counters { pushed: own.pushed + fifo.pushed, marked: own.marked, dropped_delay: own.dropped_delay, ..fifo }
    }
    pub(super) fn len(&self) -> usize {
        self.fifo.len()
    }
    pub(super) fn octets(&self) -> usize {
        self.fifo.octets()
    }
    /// The probability that an arrival is dropped or marked.
    pub fn probability(&self) -> f64 {
        self.controller.map_or(0.0, |controller| controller.probability)
    }
}
