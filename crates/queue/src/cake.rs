//! A queue modelled on CAKE (`sch_cake` of Linux; Høiland-Jørgensen and others, "Piece of CAKE", LANMAN 2018): tins by code
//! point, each an FQ-CoDel with host fairness.

use super::fq_codel::FqCoDel;
use super::{Counters, FRAME, Limits, Loss, Lost, Popped, Queued, Terms, UNLIMITED};
use wavelane_base::{Instant, Octets, Rate, Span};

/// Quantum of a tin of weight 1 if no rate is known, in octets.
const TURN: i64 = 1_514;

/// How packets are sorted by code point (tc-cake(8)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tins {
    /// All packets alike.
    BestEffort,
    /// Bulk, best effort, voice.
    #[default]
    Diffserv3,
    /// Bulk, best effort, video, voice.
    Diffserv4,
}

/// A tin's index; a higher one has priority while it stays within its share.
const BEST_EFFORT: usize = 0;
const BULK: usize = 1;

impl Tins {
    /// Each tin's share of the rate, as a divisor.
    fn shares(self) -> &'static [u64] {
        match self {
            Self::BestEffort => &[1],
            Self::Diffserv3 => &[1, 16, 4],
            Self::Diffserv4 => &[1, 16, 2, 4],
        }
    }
    /// The tin of a code point.
    pub fn of(self, dscp: u8) -> usize {
        match self {
            Self::BestEffort => BEST_EFFORT,
            Self::Diffserv3 => match dscp {
                // LE (RFC 8622) and CS1.
                1 | 8 => BULK,
                // TOS4, VA (RFC 5865), EF, CS6, CS7.
                4 | 44 | 46 | 48 | 56 => 2,
                _ => BEST_EFFORT,
            },
            Self::Diffserv4 => match dscp {
                1 | 8 => BULK,
                // TOS4, CS2, AF2x, CS3, AF3x, AF4x.
                4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38 => 2,
                // CS4, CS5, VA, EF, CS6, CS7.
                32 | 40 | 44 | 46 | 48 | 56 => 3,
                _ => BEST_EFFORT,
            },
        }
    }
}

#[derive(Debug)]
struct Tin<T> {
    queue: FqCoDel<T>,
    share: u64,
    /// If a rate is known: when it may send again without exceeding its share, with fractions of a nanosecond.
    free: Instant,
    carry: u128,
    /// If none is: octets left of its turn.
    deficit: i64,
}

/// The tins, and which of them is next.
#[derive(Debug)]
pub struct Cake<T> {
    kind: Tins,
    tins: Vec<Tin<T>>,
    /// The output rate, if known.
    rate: Option<Rate>,
    pub(super) limits: Limits,
    terms: Terms,
    turn: usize,
    /// Dropped before it entered a tin, or beyond the overall limit.
    refused: Counters,
}

impl<T: Queued> Cake<T> {
    pub(super) fn new(kind: Tins, limits: Limits) -> Self {
        let tin = |share: &u64| Tin {
            queue: FqCoDel::with_hosts(Limits::OF_THE_WHOLE),
            share: *share,
            free: Instant::ZERO,
            carry: 0,
            deficit: 0,
        };
        let tins = kind.shares().iter().map(tin).collect();
        let mut cake =
            Self { kind, tins, rate: None, limits, terms: Terms::default(), turn: 0, refused: Counters::default() };
        cake.set_terms(Terms { age: UNLIMITED, ..Terms::default() });
        cake
    }

    /// CoDel's times at high rates.
    pub(super) fn set_terms(&mut self, terms: Terms) {
        self.terms = terms;
        self.stretch(FRAME);
    }

    /// Sets the output rate, which the tins share. A full packet takes `frame` on the link.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>, frame: Octets) {
        self.rate = rate;
        self.tins.iter_mut().for_each(|tin| tin.carry = 0);
        self.stretch(frame);
    }

    /// The target is at least the time of one and a half full packets at the tin's share, and the interval grows with it: a
    /// packet's own serialisation time on a slow link is not a queue (RFC 8289, section 4.3).
    fn stretch(&mut self, frame: Octets) {
        for tin in &mut self.tins {
            let own = self.rate.map_or(Span::ZERO, |rate| rate.time_for(frame).times(tin.share).scale(3, 2));
            let target = own.max(self.terms.target);
            let grown = self.terms.interval + target.saturating_sub(self.terms.target);
            tin.queue.terms = Terms { target, interval: grown.max(target.times(2)), ..self.terms };
        }
    }

    pub(super) fn push(&mut self, now: Instant, item: T, lost: Lost<'_, T>) {
        if item.octets() > self.limits.octets || self.limits.items == 0 {
            self.refused.pushed += 1;
            self.refused.dropped_full += 1;
            return lost(item, Loss::Full);
        }
        let tin = &mut self.tins[self.kind.of(item.dscp())];
        // Unused time is not credited.
        if tin.queue.len() == 0 && tin.free < now {
            tin.free = now;
            tin.carry = 0;
        }
        tin.queue.push(now, item, lost);
        while self.len() > self.limits.items || self.octets() > self.limits.octets {
            let Some(fattest) = self.tins.iter_mut().max_by_key(|tin| tin.queue.fattest()) else { return };
            fattest.queue.drop_from_fattest(now, lost);
        }
    }

    /// The next item, with no framing overhead.
    pub(super) fn pop(&mut self, now: Instant, lost: Lost<'_, T>) -> Option<Popped<T>> {
        self.pop_framed(now, |octets| Octets::new(octets as u64), lost)
    }

    /// The same with framing overhead; CoDel may drop all items of a tin, then the next tin is tried.
    pub(super) fn pop_framed(
        &mut self,
        now: Instant,
        framed: impl Fn(usize) -> Octets,
        lost: Lost<'_, T>,
    ) -> Option<Popped<T>> {
        while self.len() > 0 {
            let next = if self.rate.is_some() { self.by_clock(now)? } else { self.by_turn() };
            let rate = self.rate;
            let tin = &mut self.tins[next];
            let Some(popped) = tin.queue.pop(now, lost) else { continue };
            tin.deficit -= popped.item.octets() as i64;
            if let Some(rate) = rate.filter(|rate| rate.as_bps() > 0) {
                let bits = u128::from(framed(popped.item.octets()).get()) * 8_000_000_000;
                let parts = bits * u128::from(tin.share);
                let bps = u128::from(rate.as_bps());
                let after = |from: Instant, parts: u128| {
                    (from + Span::from_nanos(u64::try_from(parts / bps).unwrap_or(u64::MAX)), parts % bps)
                };
                // A tin that exceeds its share while the others are idle owes at most one item's time, as in sch_cake's
                // cake_advance_shaper: a growing debt would deny it its share long after.
                (tin.free, tin.carry) = if tin.free < now {
                    after(tin.free, parts + tin.carry)
                } else {
                    after(now, parts).max((tin.free, tin.carry))
                };
            }
            return Some(popped);
        }
        None
    }

    /// The last tin of those within their share; else the one that may send earliest.
    fn by_clock(&self, now: Instant) -> Option<usize> {
        let waiting = || self.tins.iter().enumerate().filter(|(_, tin)| tin.queue.len() > 0);
        let keeps = waiting().rfind(|(_, tin)| tin.free <= now);
        keeps.or_else(|| waiting().rev().min_by_key(|(_, tin)| tin.free)).map(|(i, _)| i)
    }

    /// Deficit round robin by the shares; something waits.
    fn by_turn(&mut self) -> usize {
        loop {
            let tin = &mut self.tins[self.turn];
            if tin.queue.len() > 0 && tin.deficit > 0 {
                return self.turn;
            }
            // An empty tin gains no credit.
            tin.deficit = if tin.queue.len() == 0 { 0 } else { tin.deficit + TURN / tin.share as i64 };
            self.turn = (self.turn + 1) % self.tins.len();
        }
    }

    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.tins.iter_mut().rev().flat_map(|tin| tin.queue.take_all()).collect()
    }
    pub(super) fn len(&self) -> usize {
        self.tins.iter().map(|tin| tin.queue.len()).sum()
    }
    pub(super) fn octets(&self) -> usize {
        self.tins.iter().map(|tin| tin.queue.octets()).sum()
    }
    pub(super) fn counters(&self) -> Counters {
        let all = self.tins.iter().map(|tin| tin.queue.counters).chain([self.refused]);
        all.fold(Counters::default(), |sum, one| Counters {
            pushed: sum.pushed + one.pushed,
            popped: sum.popped + one.popped,
            dropped_full: sum.dropped_full + one.dropped_full,
            dropped_delay: sum.dropped_delay + one.dropped_delay,
            dropped_age: sum.dropped_age + one.dropped_age,
            marked: sum.marked + one.marked,
            covered: sum.covered + one.covered,
        })
    }
}
