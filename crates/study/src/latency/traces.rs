//! Links whose rate moves: one recording, and two by formula, which are no operator's measurement, but of the kind that such links show.
//!
//! `lte`: the logarithm of the rate is a first-order autoregression (Ornstein-Uhlenbeck, sampled) around 10 Mbit/s with a
//! deviation of one half and a correlation time of 2 s, within 1 and 40 Mbit/s; 20 ms. `starlink`: every 15 s, the time after
//! which terminals are assigned anew, another rate, uniform in 4 to 24 Mbit/s, and another delay, 15 to 25 ms; within it the
//! rate varies by a tenth from step to step, and the first step of each has 1 Mbit/s.

use std::path::Path;
use wavelane_base::maths::exponential;
use wavelane_base::{Chance, Instant, Rate, Seed, Span};
use wavelane_channel::{DelayTrace, RateTrace};

/// The recording's name, which is that of its file.
pub(super) const RECORDED: &str = "leocc-starlink";
/// How long a rate stands.
pub(super) const STEP: Span = Span::from_millis(100);
/// How long a trace is.
pub(super) const TRACE_S: u64 = 120;
const STEPS: usize = 1_200;
/// The dice of both; another number is another drive, and another satellite.
const SEED: Seed = Seed(1);
const CORRELATION_S: f64 = 2.0;
const DEVIATION: f64 = 0.5;
const MEDIAN_BPS: f64 = 10e6;
const LTE_RANGE: (f64, f64) = (1e6, 40e6);
const ASSIGNED_STEPS: usize = 150;
const STARLINK_RANGE: (f64, f64) = (4e6, 24e6);
const STARLINK_LEAST: f64 = 1e6;

/// A link's rate and one-way delay, step by step.
pub(super) struct Trace {
    /// For people.
    pub(super) name: &'static str,
    /// At least one, unless it is a recording.
    pub(super) steps: Vec<(Rate, Span)>,
    /// Delivery opportunities, and delays.
    pub(super) recording: Option<(RateTrace, DelayTrace)>,
}

/// A number from the normal distribution, near enough: twelve uniform ones (Irwin-Hall).
fn normal(chance: &mut Chance) -> f64 {
    (0..12).map(|_| chance.unit()).sum::<f64>() - 6.0
}

fn rate(bps: f64) -> Rate {
    Rate::from_bps(bps as u64)
}

fn lte() -> Trace {
    let mut chance = SEED.chance("lte");
    let kept = exponential(-STEP.as_secs_f64() / CORRELATION_S);
    let fresh = (1.0 - kept * kept).sqrt() * DEVIATION;
    let mut x = normal(&mut chance) * DEVIATION;
    let step = |_| {
        x = kept * x + fresh * normal(&mut chance);
        let bps = MEDIAN_BPS * exponential(x);
        (rate(bps.clamp(LTE_RANGE.0, LTE_RANGE.1)), Span::from_millis(20))
    };
    Trace { name: "lte", steps: (0..STEPS).map(step).collect(), recording: None }
}

fn starlink() -> Trace {
    let mut chance = SEED.chance("starlink");
    let (mut level, mut delay) = (0.0, Span::ZERO);
    let step = |n: usize| {
        if n.is_multiple_of(ASSIGNED_STEPS) {
            level = STARLINK_RANGE.0 + (STARLINK_RANGE.1 - STARLINK_RANGE.0) * chance.unit();
            delay = Span::from_micros(15_000 + chance.below(10_001));
            return (rate(STARLINK_LEAST), delay);
        }
        (rate((level * (1.0 + 0.1 * normal(&mut chance))).max(STARLINK_LEAST)), delay)
    };
    Trace { name: "starlink", steps: (0..STEPS).map(step).collect(), recording: None }
}

impl Trace {
    /// All; `out` takes the recording's files.
    pub(super) fn all(out: &Path) -> Result<Vec<Self>, String> {
        let recording = Some(crate::traces::starlink(out)?);
        Ok(vec![lte(), starlink(), Self { name: RECORDED, steps: Vec::new(), recording }])
    }
    /// Rate and delay of a step; the last one persists. Of a recording those of its beginning.
    pub(super) fn at(&self, step: usize) -> (Rate, Span) {
        match &self.recording {
            Some((rate, delay)) => (rate.mean(), delay.at(Instant::ZERO)),
            None => self.steps[step.min(self.steps.len() - 1)],
        }
    }
    /// The delay of a packet that leaves the queue then.
    pub(super) fn delay_at(&self, at: Instant) -> Span {
        let step = at.since(Instant::ZERO).as_nanos() / STEP.as_nanos();
        self.recording.as_ref().map_or_else(|| self.at(step as usize).1, |(_, delay)| delay.at(at))
    }
    /// The mean rate.
    pub(super) fn mean(&self) -> Rate {
        if let Some((rate, _)) = &self.recording {
            return rate.mean_between(Instant::ZERO, Instant::from_secs(TRACE_S));
        }
        Rate::from_bps(self.steps.iter().map(|(rate, _)| rate.as_bps()).sum::<u64>() / self.steps.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(trace: &Trace) -> Vec<f64> {
        trace.steps.iter().map(|(rate, _)| rate.as_bps() as f64 / 1e6).collect()
    }

    /// The mean of a log-normal rate is its median times exp(deviation squared over 2), give or take what 60 independent
    /// pieces of it vary.
    #[test]
    fn traces_match_their_formulas() {
        let lte = lte();
        let (rates, mean) = (mbit(&lte), lte.mean().as_bps() as f64 / 1e6);
        assert!((8.5..14.5).contains(&mean), "{mean}");
        assert!(rates.iter().all(|rate| (1.0..=40.0).contains(rate)));
        let spread = rates.iter().copied().fold(0.0, f64::max) / rates.iter().copied().fold(f64::MAX, f64::min);
        assert!(spread > 4.0, "{spread}");
        // Neighbours are alike: 0.05 of the variance is fresh.
        let steps: f64 = rates.windows(2).map(|w| (w[1] / w[0] - 1.0).abs()).sum::<f64>() / 1_199.0;
        assert!((0.05..0.2).contains(&steps), "{steps}");
        let starlink = starlink();
        let rates = mbit(&starlink);
        for assigned in rates.chunks(ASSIGNED_STEPS) {
            assert_eq!(assigned[0], 1.0);
            let mean = assigned[1..].iter().sum::<f64>() / 149.0;
            assert!((3.8..24.5).contains(&mean) && assigned[1..].iter().all(|r| (r / mean - 1.0).abs() < 0.5));
        }
        assert_eq!((rates.len(), starlink.at(5_000)), (1_200, starlink.steps[1_199]));
    }
}
