//! The rate of a shaper before a link whose own rate moves, from one-way delay and what was carried.
//!
//! The rules are those that users of `cake-autorate` run on LTE and satellite links: a queue that forms behind the shaper
//! shows as delay, and the shaper goes below what was carried; under load without delay it feels its way up; idle, it
//! returns to a middle rate. Only differences of delays are used, so the two clocks need not agree, only run alike.

use std::collections::VecDeque;
use wavelane_base::{Instant, Rate, Span};

/// Samples that are looked at together, and how many of them must be above the threshold.
const WINDOW: usize = 6;
const DETECTIONS: usize = 3;
/// Part of a rise, and of a fall, by which the baseline follows each sample.
const BASELINE_UP: f64 = 0.001;
const BASELINE_DOWN: f64 = 0.9;
/// Share of the shaper's rate from which on the link counts as loaded.
const LOADED: f64 = 0.75;
/// What is left of the carried rate after a cut, so that the queue drains, and of the shaper's own: that much at the
/// threshold, the lesser at thrice of it.
const CARRIED_KEPT: f64 = 0.9;
const CUT: (f64, f64) = (0.99, 0.75);
/// What a loaded sample without any rise adds; the closer to the threshold, the less.
const GROWTH: f64 = 0.04;
/// After a cut nothing else happens for so long: the samples under way tell of before.
const AFTER_CUT: Span = Span::from_millis(300);
/// Idle, the rate moves towards the middle so often, by this part.
const RETURN_EVERY: Span = Span::from_secs(1);
const RETURN: f64 = 0.01;
/// Without a sample for so long nothing is known, and the middle is as good as any.
pub const SILENCE: Span = Span::from_secs(5);

/// What the operator states.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AutorateTerms {
    /// Never below this: so much is used even where it makes a queue.
    pub least: Rate,
    /// Where it begins, and where it returns to while idle.
    pub middle: Rate,
    /// Never above this.
    pub most: Rate,
    /// A rise of the one-way delay above its baseline that is a queue.
    pub rise: Span,
}

/// A rise that is a queue, unless the operator says otherwise (`cake-autorate`'s `delay_thr`).
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
    /// Begins at the middle rate. The bounds are put in order if they are not.
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

    /// A probe came back: its one-way delay in milliseconds, give or take a constant, and what the shaper let out in the
    /// last moments. Gives the new rate.
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

    /// Time passed without a sample. Gives the new rate.
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
