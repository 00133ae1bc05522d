//! The rate of a shaper in front of a link of variable rate, from one-way delay and carried rate.
//!
//! A queue behind the shaper shows as delay. The rate is steered so that the delay stays a little above its baseline: a link whose queue
//! is empty idles at times, and one whose queue is long makes others wait. What the delay exceeds its goal by moves the rate in
//! proportion, and so does its change, which is the difference of both rates: before the queue is long, the shaper is as slow as the
//! link. When idle it returns to a middle rate. Only differences of delays are used, so the two clocks need no common offset, only equal
//! rates.

use wavelane_base::maths::exponential;
use wavelane_base::{Instant, Octets, Rate, Span};

/// The baseline follows a rise at this rate, per second, and a fall at once, by this share per sample.
const BASELINE_UP: f64 = 0.02;
const BASELINE_DOWN: f64 = 0.9;
/// Share of the shaper's rate from which the link counts as loaded.
const LOADED: f64 = 0.75;
/// The goal, as a share of the rise that counts as a queue: the rest is for what comes before an answer is here.
const GOAL: f64 = 1.0 / 3.0;
/// No goal is lower, in milliseconds: timestamps may be whole ones.
const GOAL_LEAST_MS: f64 = 2.0;
/// How fast the rate changes, per second, where the delay is off by its goal; how fast it grows and falls at the most.
const GAIN: f64 = 2.0;
const GROWTH: f64 = 2.0;
const FALL: f64 = 10.0;
/// What a millisecond of change does, and a change at the most: a shaper twice as fast as the link adds a millisecond in each, and is to be
/// half as fast after some forty; with few samples, no sooner than after two.
const CHANGE: f64 = 0.025;
const CHANGE_MOST: f64 = 0.7;
/// Samples further apart say nothing of the change between.
const APART: Span = Span::from_millis(200);
/// When idle, the rate moves towards the middle at this interval, by this fraction.
const RETURN_EVERY: Span = Span::from_secs(1);
const RETURN: f64 = 0.01;
/// Questions take this share of the rate, but are asked no more often and no more rarely than this.
const QUESTIONS: u64 = 100;
const OFTEN: Span = Span::from_millis(10);
const RARELY: Span = Span::from_millis(50);
/// Without a sample for this long, the middle rate is used.
pub const SILENCE: Span = Span::from_secs(5);

/// The operator's settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AutorateTerms {
    /// Minimum rate, used even if it causes a queue.
    pub least: Rate,
    /// Initial rate, and the rate when idle.
    pub middle: Rate,
    /// Maximum rate.
    pub most: Rate,
    /// Rise of the one-way delay above its baseline that counts as a queue: it is kept below that.
    pub rise: Span,
}

/// Default rise that counts as a queue (`cake-autorate`'s `delay_thr`).
pub const RISE_DEFAULT: Span = Span::from_millis(30);

/// Follows one direction of one link.
#[derive(Clone, Debug)]
pub struct Autorate {
    terms: AutorateTerms,
    rate: f64,
    baseline_ms: Option<f64>,
    /// When the latest sample was asked for, and its rise in milliseconds.
    last: Option<(Instant, f64)>,
    returned: Instant,
    heard: Instant,
}

impl Autorate {
    /// Begins at the middle rate. Bounds out of order are corrected.
    pub fn new(now: Instant, terms: AutorateTerms) -> Self {
        let most = terms.most.max(terms.least);
        let terms = AutorateTerms { most, middle: terms.middle.clamp(terms.least, most), ..terms };
        let rate = terms.middle.as_bps() as f64;
        Self { terms, rate, baseline_ms: None, last: None, returned: now, heard: now }
    }

    /// The rate for the shaper.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.rate as u64)
    }

    /// How long after a question of so many octets the next one is asked.
    pub fn ask_every(&self, octets: u64) -> Span {
        self.rate().max(Rate::from_bps(1)).time_for(Octets::new(octets * QUESTIONS)).clamp(OFTEN, RARELY)
    }

    /// Processes a probe: when it was asked for, its one-way delay in milliseconds, up to a constant, and the shaper's recent output rate.
    /// Returns the new rate.
    pub fn sample(&mut self, now: Instant, asked: Instant, delay_ms: f64, carried: Rate) -> Rate {
        if !delay_ms.is_finite() {
            return self.rate();
        }
        self.heard = now;
        let before = self.last.filter(|(at, _)| asked > *at && asked.since(*at) <= APART);
        let apart_s = before.map_or(0.0, |(at, _)| asked.since(at).as_secs_f64());
        let baseline = self.baseline_ms.get_or_insert(delay_ms);
        let rise = delay_ms - *baseline;
        *baseline += rise * if rise > 0.0 { BASELINE_UP * apart_s } else { BASELINE_DOWN };
        let rise = rise.max(0.0);
        if self.last.is_none_or(|(at, _)| asked > at) {
            self.last = Some((asked, rise));
        }
        if let Some((_, earlier)) = before {
            self.steer(now, (rise, rise - earlier), apart_s, carried.as_bps() as f64);
        }
        self.rate = self.rate.clamp(self.terms.least.as_bps() as f64, self.terms.most.as_bps() as f64);
        self.rate()
    }

    fn steer(&mut self, now: Instant, (rise, change): (f64, f64), apart_s: f64, carried: f64) {
        let goal = (GOAL * self.terms.rise.as_secs_f64() * 1e3).max(GOAL_LEAST_MS);
        let level = (GAIN * (1.0 - rise / goal)).clamp(-FALL, GROWTH) * apart_s;
        let is_loaded = carried >= LOADED * self.rate;
        if !is_loaded && level >= 0.0 {
            if now.since(self.returned) >= RETURN_EVERY {
                self.return_to_middle(now);
            }
            return;
        }
        self.returned = now;
        // Without load of ours the delay's change is not ours.
        let most = apart_s * 1e3;
        let slope = if is_loaded { (CHANGE_MOST / most).min(CHANGE) * change.clamp(-most, most) } else { 0.0 };
        self.rate *= exponential(level - slope);
    }

    fn return_to_middle(&mut self, now: Instant) {
        let middle = self.terms.middle.as_bps() as f64;
        let (down, up) = (self.rate * (1.0 - RETURN), self.rate * (1.0 + RETURN));
        self.rate = if self.rate > middle { down.max(middle) } else { up.min(middle) };
        self.returned = now;
    }

    /// Time passed without a sample. Returns the new rate.
    pub fn silent(&mut self, now: Instant) -> Rate {
        if now.since(self.heard) >= SILENCE {
            (self.baseline_ms, self.last) = (None, None);
            self.rate = self.terms.middle.as_bps() as f64;
        }
        self.rate()
    }
}

#[cfg(test)]
#[path = "autorate_tests.rs"]
mod tests;
