//! The rate of a shaper in front of a link of variable rate, from one-way delay and carried rate.
//!
//! The rules are those that users of `cake-autorate` run on LTE and satellite links: a queue behind the shaper shows as
//! delay, and the shaper is set below the carried rate; under load without delay it increases gradually; when idle it
//! returns to a middle rate. Only differences of delays are used, so the two clocks need no common offset, only equal rates.

use std::collections::VecDeque;
use wavelane_base::{Instant, Rate, Span};

/// Samples in the detection window, and how many of them must be above the threshold.
const WINDOW: usize = 6;
const DETECTIONS: usize = 3;
/// Smoothing factors of the baseline for a rise and for a fall.
const BASELINE_UP: f64 = 0.001;
const BASELINE_DOWN: f64 = 0.9;
/// Share of the shaper's rate from which the link counts as loaded.
const LOADED: f64 = 0.75;
/// What is left of the carried rate after a cut, so that the queue drains, and of the shaper's own: that much at the
/// threshold, the lesser at thrice of it.
const CARRIED_KEPT: f64 = 0.9;
const CUT: (f64, f64) = (0.99, 0.75);
/// What a loaded sample without any rise adds; the closer to the threshold, the less.
const GROWTH: f64 = 0.04;
/// Hold time after a cut: samples in flight still reflect the old rate.
const AFTER_CUT: Span = Span::from_millis(300);
/// When idle, the rate moves towards the middle at this interval, by this fraction.
const RETURN_EVERY: Span = Span::from_secs(1);
const RETURN: f64 = 0.01;
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
    /// Rise of the one-way delay above its baseline that counts as a queue.
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
    /// The latest rises, in milliseconds.
    rises: VecDeque<f64>,
    cut: Option<Instant>,
    returned: Instant,
    heard: Instant,
}

impl Autorate {
    /// Begins at the middle rate. Bounds out of order are corrected.
    pub fn new(now: Instant, terms: AutorateTerms) -> Self {
        let most = terms.most.max(terms.least);
        let terms = AutorateTerms { most, middle: terms.middle.clamp(terms.least, most), ..terms };
        let rate = terms.middle.as_bps() as f64;
        Self { terms, rate, baseline_ms: None, rises: VecDeque::new(), cut: None, returned: now, heard: now }
    }

    /// The rate for the shaper.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.rate as u64)
    }

    /// Processes a probe: its one-way delay in milliseconds, up to a constant, and the shaper's recent output rate. Returns
    /// the new rate.
    pub fn sample(&mut self, now: Instant, delay_ms: f64, carried: Rate) -> Rate {
        if !delay_ms.is_finite() {
            return self.rate();
        }
        self.heard = now;
        let baseline = self.baseline_ms.get_or_insert(delay_ms);
        let rise = delay_ms - *baseline;
        *baseline += rise * if rise > 0.0 { BASELINE_UP } else { BASELINE_DOWN };
        if self.rises.len() == WINDOW {
            self.rises.pop_front();
        }
        self.rises.push_back(rise);
        let carried = carried.as_bps() as f64;
        if self.cut.is_none_or(|cut| now.since(cut) >= AFTER_CUT) {
            self.move_rate(now, carried);
        }
        self.rate = self.rate.clamp(self.terms.least.as_bps() as f64, self.terms.most.as_bps() as f64);
        self.rate()
    }

    fn move_rate(&mut self, now: Instant, carried: f64) {
        let threshold = self.terms.rise.as_secs_f64() * 1e3;
        let mean = self.rises.iter().sum::<f64>() / self.rises.len().max(1) as f64;
        if self.rises.iter().filter(|rise| **rise > threshold).count() >= DETECTIONS {
            let severity = ((mean - threshold) / (2.0 * threshold)).clamp(0.0, 1.0);
            let kept = CUT.0 - (CUT.0 - CUT.1) * severity;
            self.rate = (self.rate * kept).min((carried * CARRIED_KEPT).max(self.rate * CUT.1));
            (self.cut, self.returned) = (Some(now), now);
            self.rises.clear();
        } else if carried >= LOADED * self.rate {
            self.rate *= 1.0 + GROWTH * (1.0 - (mean / threshold).clamp(0.0, 1.0));
            self.returned = now;
        } else if now.since(self.returned) >= RETURN_EVERY {
            self.return_to_middle(now);
        }
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
            self.rises.clear();
            self.baseline_ms = None;
            self.rate = self.terms.middle.as_bps() as f64;
        }
        self.rate()
    }
}

#[cfg(test)]
#[path = "autorate_tests.rs"]
mod tests;
