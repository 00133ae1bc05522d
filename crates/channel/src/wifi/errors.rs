//! Gilbert-Elliott bit errors with a short history, so that overlapping frames see the same bursts.

use super::fec::{Decoder, Fec};
use super::{BitErrors, ErrorsPer};
use crate::loss::all_survive;
use std::collections::VecDeque;
use wavelane_base::{Chance, Instant, Seed, Span};

/// How long past dwell times are kept; the longest frame, 2,334 bytes at 1 Mbit/s, lasts 19 ms, coded at most 76 ms, and
/// feedback is at most 20 ms old.
const MEMORY: Span = Span::from_millis(100);

/// The error processes of one cell and the random streams of its listeners.
#[derive(Debug)]
pub(super) struct Errors {
    config: BitErrors,
    processes: Vec<Bursts>,
    chance: Chance,
    fec: Option<(Fec, Decoder)>,
}

/// One two-state process, starting in the good state at time zero.
#[derive(Debug)]
struct Bursts {
    dice: Chance,
    /// The end of each dwell time kept, and whether it was bad; in ascending order.
    dwells: VecDeque<(Instant, bool)>,
    /// The start of the first dwell time kept.
    from: Instant,
}

impl Errors {
    pub(super) fn new(seed: Seed, name: &str, config: BitErrors, fec: Option<Fec>, stations: usize) -> Self {
        let processes = match config.per {
            ErrorsPer::Cell => 1,
            ErrorsPer::Receiver | ErrorsPer::Station { .. } => stations,
        };
        // Twice the average number within the history; a longer list is reallocated once.
        let cycles = MEMORY.as_nanos() / (config.good + config.bad).as_nanos().max(1);
        let room = (4 * cycles + 32).min(1_024) as usize;
        let burst = |i| Bursts {
            dice: seed.chance(&format!("{name} / dwell {i}")),
            dwells: VecDeque::with_capacity(room),
            from: Instant::ZERO,
        };
        Self {
            config,
            processes: (0..processes).map(burst).collect(),
            chance: seed.chance(&format!("{name} / errors")),
            fec: fec.map(|fec| (fec, Decoder::new(fec.code, &config))),
        }
    }
    /// The process for frames from `sender` to `listener`.
    fn process(&self, sender: usize, listener: usize) -> usize {
        match self.config.per {
            ErrorsPer::Cell => 0,
            ErrorsPer::Receiver => listener,
            ErrorsPer::Station { hub } if listener == hub => sender,
            ErrorsPer::Station { .. } => listener,
        }
    }
    /// Whether `sender` codes what it sends to `listener` at `now`: if its estimate of the channel is bad.
    pub(super) fn coding(&mut self, sender: usize, listener: usize, now: Instant) -> bool {
        let process = self.process(sender, listener);
        let Some((fec, _)) = &self.fec else { return false };
        let known = Instant::from_nanos(now.as_nanos().saturating_sub(fec.feedback.as_nanos()));
        self.processes[process].is_bad(&self.config, known)
    }

    /// Whether `listener` receives without error all `octets` sent by `sender` from `start` to `end`.
    pub(super) fn spares(
        &mut self,
        sender: usize,
        listener: usize,
        (octets, coded): (usize, bool),
        (start, end): (Instant, Instant),
    ) -> bool {
        let process = self.process(sender, listener);
        if let Some((_, decoder)) = self.fec.as_ref().filter(|_| coded) {
            let (bursts, config) = (&mut self.processes[process], &self.config);
            let whole = end.since(start).as_nanos() as f64;
            let at = |share: f64| start + Span::from_nanos((whole * share) as u64);
            let bad_share = |from: f64, to: f64| {
                let (from, to) = (at(from), at(to));
                bursts.bad_within(config, from, to).as_nanos() as f64 / to.since(from).as_nanos().max(1) as f64
            };
            let survives = decoder.survival(octets, bad_share);
            return self.chance.unit() < survives;
        }
        let bits = octets as u64 * 8;
        let bad = self.processes[process].bad_within(&self.config, start, end);
        // Rounded to whole bits, at most all of them.
        let bits_bad = bad.scale(bits, end.since(start).as_nanos().max(1)).as_nanos().min(bits);
        let survives = all_survive(self.config.in_good, bits - bits_bad) * all_survive(self.config.in_bad, bits_bad);
        self.chance.unit() < survives
    }
}

impl Bursts {
    /// Whether the state is bad at `at`, which may lie a little in the past.
    fn is_bad(&mut self, config: &BitErrors, at: Instant) -> bool {
        self.bad_within(config, at, at + Span::from_nanos(1)) > Span::ZERO
    }
    /// Time in the bad state between `start` and `end`.
    fn bad_within(&mut self, config: &BitErrors, start: Instant, end: Instant) -> Span {
        loop {
            let (until, was_bad) = self.dwells.back().copied().unwrap_or((Instant::ZERO, true));
            if until > end {
                break;
            }
            let mean = if was_bad { config.good } else { config.bad };
            self.dwells.push_back((until + self.dice.exponential(mean), !was_bad));
            // Old dwell times are discarded while new ones are drawn, so that a long idle time does not fill memory; the
            // last one is kept.
            while self.dwells.len() > 1
                && let Some(&(first, _)) = self.dwells.front().filter(|dwell| dwell.0 + MEMORY < start)
            {
                self.dwells.pop_front();
                self.from = first;
            }
        }
        let (mut bad, mut mark) = (Span::ZERO, self.from);
        for &(until, is_bad) in &self.dwells {
            if is_bad {
                bad += until.min(end).since(mark.max(start));
            }
            mark = until;
        }
        bad
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may fail")]
    use super::*;
    use wavelane_base::Ratio;

    #[test]
    fn a_long_silence_is_passed_over_and_forgotten() {
        let (good, bad) = (Span::from_millis(5), Span::from_millis(2));
        let config = BitErrors { good, bad, in_good: Ratio::ZERO, in_bad: Ratio::ONE, per: ErrorsPer::Cell };
        let mut errors = Errors::new(Seed(1), "air", config, None, 2);
        for start in [Instant::ZERO, Instant::from_secs(1), Instant::from_secs(1_000)] {
            let bad = errors.processes[0].bad_within(&config, start, start + MEMORY);
            assert!(bad > Span::ZERO && bad < MEMORY);
            assert!(errors.processes[0].dwells.len() < 100);
        }
    }

    #[test]
    fn overlapping_questions_get_one_answer_and_the_share_is_right() {
        let config = BitErrors {
            good: Span::from_millis(100),
            bad: Span::from_micros(33_333),
            in_good: Ratio::ZERO,
            in_bad: Ratio::ONE,
            per: ErrorsPer::Cell,
        };
        let mut one = Errors::new(Seed(1), "air", config, None, 2);
        let mut two = Errors::new(Seed(1), "air", config, None, 2);
        let (mut bad, step) = (Span::ZERO, Span::from_millis(5));
        let steps = 400_000;
        for i in 0..steps {
            let start = Instant::ZERO + step.times(i);
            let whole = one.processes[0].bad_within(&config, start, start + step);
            bad += whole;
            if i % 7 == 0 {
                let half = start + Span::from_micros(2_500);
                let late = two.processes[0].bad_within(&config, half, start + step);
                let early = two.processes[0].bad_within(&config, start, half);
                assert_eq!(early + late, whole);
            }
        }
        // Deviation over 2,000 s: sqrt(2 g^2 b^2 / ((g+b)^3 T)) = 0.0022.
        let share = bad.as_secs_f64() / step.times(steps).as_secs_f64();
        assert!((share - 0.25).abs() < 0.0066, "{share}");
    }
}
