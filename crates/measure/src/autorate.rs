//! The rate of a shaper in front of a link of variable rate, from one-way delay and carried rate.
//!
//! A queue behind the shaper shows as delay. The rate is steered so that the delay stays a little above its baseline: a link whose queue
//! is empty idles at times, and one whose queue is long makes others wait. What the delay exceeds its goal by moves the rate in
//! proportion, and so does its change, which is the difference of both rates: before the queue is long, the shaper is as slow as the
//! link. A delay that goes to and fro is taken at its least, and one that stands while the rate is well below what it was is the path's:
//! it becomes the baseline. When idle the rate returns to a middle one. Only differences of delays are used, so the two clocks need no
//! common offset, only equal rates.

use std::collections::VecDeque;
use wavelane_base::maths::exponential;
use wavelane_base::{Instant, Octets, Rate, Span};

/// The baseline follows a rise at this rate, per second, and a fall at once, by this share per sample.
const BASELINE_UP: f64 = 0.1;
const BASELINE_DOWN: f64 = 0.9;
/// Share of the shaper's rate from which the link counts as loaded.
const LOADED: f64 = 0.75;
/// The goal, as a share of the rise that counts as a queue: the rest is for what comes before an answer is here. A packet's time at the
/// shaper, and a share of what the delay goes to and fro by, are added.
const GOAL: f64 = 1.0 / 6.0;
const PACKET: Octets = Octets::new(1_500);
const LEEWAY: f64 = 0.4;
/// And this share of the time between two samples, in which the rate moves unseen.
const STEPS: f64 = 0.1;
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
/// Samples further apart say nothing of the change between, and count as if they were so far apart.
const APART: Span = Span::from_millis(200);
/// Where the least round trip of a question is longer than this, the rate changes as much more slowly: it would swing.
const SWIFT_S: f64 = 0.06;
/// Samples of this time are looked at together: at least so many, and at most.
const WINDOW: Span = Span::from_millis(150);
const WINDOW_SAMPLES: std::ops::RangeInclusive<usize> = 6..=32;
/// The latest sample may lie so many times as far above what counts as the delay goes to and fro from one to the next.
const WOBBLES: f64 = 6.0;
/// The least delay of a window stands if it moves by no more than these milliseconds, or this share of its rise.
const STANDS_MS: f64 = 3.0;
const STANDS: f64 = 0.25;
/// A rise that stands for this long while the rate is at most this share of what it was is no queue, which would have drained; until that is
/// known the rate stays above another share.
const WELL_BELOW: f64 = 0.75;
const PROOF: Span = Span::from_secs(1);
const FLOOR: f64 = 0.5;
/// Questions are being lost, as in a full queue, if they are so many times as far apart in the mean as the closest eighth is.
const LOSSY: f64 = 1.25;
/// The most distances between samples that are kept to tell.
const GAPS_MAX: usize = 1_024;
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

/// Why the rate was changed last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AutorateCause {
    /// Little is sent: it goes back to the middle.
    #[default]
    Idle,
    /// It is filled, and the delay is as low as it is meant to be.
    Room,
    /// The delay is longer than that, or grows.
    Queue,
    /// No sample comes.
    Silence,
}

/// A rise that stands: the delay, the highest rate since, and since when the rate is well below that.
#[derive(Clone, Copy, Debug)]
struct Standing {
    low_ms: f64,
    rate: f64,
    below: Option<Instant>,
}

/// Delays of a window, in milliseconds.
struct Looks {
    /// The least.
    low: f64,
    /// The latest, less what it may be above by chance.
    now: f64,
    /// What it goes to and fro by.
    spread: f64,
}

/// Follows one direction of one link.
#[derive(Clone, Debug)]
pub struct Autorate {
    terms: AutorateTerms,
    rate: f64,
    baseline_ms: Option<f64>,
    /// The latest samples, each with the moment at which it was asked for.
    window: VecDeque<(Instant, f64)>,
    /// The latest rise, in milliseconds.
    rise_ms: f64,
    cause: AutorateCause,
    /// The least round trip of a question, in seconds; like the baseline it follows a rise.
    lag_s: Option<f64>,
    standing: Option<Standing>,
    /// How far apart the samples were since the rate is well below what it was.
    gaps: Vec<Span>,
    returned: Instant,
    heard: Instant,
}

impl Autorate {
    /// Begins at the middle rate. Bounds out of order are corrected.
    pub fn new(now: Instant, terms: AutorateTerms) -> Self {
        let most = terms.most.max(terms.least);
        let terms = AutorateTerms { most, middle: terms.middle.clamp(terms.least, most), ..terms };
        let rate = terms.middle.as_bps() as f64;
        let (window, gaps, baseline_ms, lag_s, standing) = (VecDeque::new(), Vec::new(), None, None, None);
        let cause = AutorateCause::default();
        Self { terms, rate, baseline_ms, window, rise_ms: 0.0, cause, lag_s, standing, gaps, returned: now, heard: now }
    }

    /// The rate for the shaper.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.rate as u64)
    }

    /// Why it was changed last, and by how many milliseconds the delay is above its baseline.
    pub fn cause(&self) -> (AutorateCause, f64) {
        (self.cause, self.rise_ms)
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
        let before = self.window.back().map(|(at, _)| *at);
        // One that came late or twice says nothing of the change.
        if before.is_some_and(|at| asked <= at) {
            return self.rate();
        }
        let apart = before.map(|at| asked.since(at));
        let is_far = apart.is_none_or(|apart| apart > APART);
        let looks = self.look(asked, delay_ms, is_far);
        let apart_s = apart.map_or(0.0, |apart| apart.min(APART).as_secs_f64());
        let lag_s = now.since(asked).as_secs_f64();
        let least_s = self.lag_s.get_or_insert(lag_s);
        *least_s = lag_s.min(*least_s + (lag_s - *least_s) * BASELINE_UP * apart_s);
        let baseline = self.baseline_ms.get_or_insert(delay_ms);
        let above = delay_ms - *baseline;
        *baseline += above * if above > 0.0 { BASELINE_UP * apart_s } else { BASELINE_DOWN };
        let baseline = *baseline;
        let earlier = std::mem::replace(&mut self.rise_ms, (looks.now - baseline).max(0.0));
        if let Some(apart) = apart {
            let packet_ms = self.rate().max(Rate::from_bps(1)).time_for(PACKET).as_secs_f64() * 1e3;
            let goal = (GOAL * self.terms.rise.as_secs_f64() * 1e3).max(GOAL_LEAST_MS)
                + LEEWAY * looks.spread
                + packet_ms
                + STEPS * apart_s * 1e3;
            let change = if is_far { 0.0 } else { self.rise_ms - earlier };
            let is_loaded = carried.as_bps() as f64 >= LOADED * self.rate;
            self.steer(now, (goal, change), apart_s, is_loaded);
            if looks.low - baseline > goal {
                if self.gaps.len() < GAPS_MAX {
                    self.gaps.push(apart);
                }
                self.doubt(now, &looks, baseline);
            } else {
                self.standing = None;
            }
        }
        self.rate = self.rate.clamp(self.terms.least.as_bps() as f64, self.terms.most.as_bps() as f64);
        self.rate()
    }

    /// Takes a sample into the window, which begins anew after a pause.
    fn look(&mut self, asked: Instant, delay_ms: f64, anew: bool) -> Looks {
        if anew {
            self.window.clear();
        }
        let is_old = |at: Instant| asked.since(at) > WINDOW;
        while self.window.len() == *WINDOW_SAMPLES.end()
            || self.window.len() > *WINDOW_SAMPLES.start() && self.window.front().is_some_and(|(at, _)| is_old(*at))
        {
            self.window.pop_front();
        }
        self.window.push_back((asked, delay_ms));
        let low = self.window.iter().fold(delay_ms, |low, (_, delay)| low.min(*delay));
        let changes = || self.window.iter().zip(self.window.iter().skip(1)).map(|((_, a), (_, b))| b - a);
        let (mut turns, mut largest) = (0.0, 0.0_f64);
        for (one, next) in changes().zip(changes().skip(1)).filter(|(one, next)| one * next < 0.0) {
            let turn = one.abs().min(next.abs());
            turns += turn;
            largest = largest.max(turn);
        }
        // A queue that begins to drain turns once.
        let spread = WOBBLES * (turns - largest) / self.window.len().saturating_sub(2).max(1) as f64;
        Looks { low, now: low.max(delay_ms - spread), spread }
    }

    fn steer(&mut self, now: Instant, (goal, change): (f64, f64), apart_s: f64, is_loaded: bool) {
        let level = (GAIN * (1.0 - self.rise_ms / goal)).clamp(-FALL, GROWTH) * apart_s;
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
        let swift = SWIFT_S / self.lag_s.map_or(SWIFT_S, |lag_s| lag_s.max(SWIFT_S));
        let step = (level - slope) * swift;
        self.cause = if step < 0.0 { AutorateCause::Queue } else { AutorateCause::Room };
        self.rate *= exponential(step);
    }

    /// Whether a rise above the goal is a queue: one drains while the rate is well below what it was, unless the link is slower yet.
    fn doubt(&mut self, now: Instant, looks: &Looks, baseline: f64) {
        let moved = (STANDS * (looks.low - baseline)).max(STANDS_MS) + looks.spread;
        let anew = Standing { low_ms: looks.low, rate: self.rate, below: None };
        let mut standing = match self.standing {
            // It drains.
            Some(before) if looks.low < before.low_ms - moved => Standing { rate: before.rate, ..anew },
            Some(before) if looks.low <= before.low_ms + moved => before,
            // It grows: the link has become slower.
            _ => anew,
        };
        standing.rate = standing.rate.max(self.rate);
        self.rate = self.rate.max(FLOOR * standing.rate);
        if self.rate <= (WELL_BELOW * standing.rate).max(self.terms.least.as_bps() as f64) {
            if standing.below.is_none() {
                self.gaps.clear();
            }
            let is_long = now.since(*standing.below.get_or_insert(now)) >= PROOF;
            if is_long && self.gaps.len() >= *WINDOW_SAMPLES.start() {
                // A queue that is full stands as well: the link may be slower than this.
                if self.is_lossy() {
                    standing = Standing { rate: self.rate, ..anew };
                } else {
                    self.baseline_ms = Some(looks.low);
                    self.standing = None;
                    return;
                }
            }
        }
        self.standing = Some(standing);
    }

    /// Whether questions were lost lately, by the samples' distances.
    fn is_lossy(&mut self) -> bool {
        self.gaps.sort_unstable();
        let close = self.gaps.get(self.gaps.len() / 8).copied().unwrap_or_default().as_secs_f64();
        let all = self.gaps.iter().map(|gap| gap.as_secs_f64()).sum::<f64>();
        all > LOSSY * close * self.gaps.len() as f64
    }

    fn return_to_middle(&mut self, now: Instant) {
        let middle = self.terms.middle.as_bps() as f64;
        let (down, up) = (self.rate * (1.0 - RETURN), self.rate * (1.0 + RETURN));
        self.rate = if self.rate > middle { down.max(middle) } else { up.min(middle) };
        self.returned = now;
        self.cause = AutorateCause::Idle;
    }

    /// Time passed without a sample. Returns the new rate.
    pub fn silent(&mut self, now: Instant) -> Rate {
        if now.since(self.heard) >= SILENCE {
            self.baseline_ms = None;
            self.lag_s = None;
            self.standing = None;
            self.window.clear();
            self.rate = self.terms.middle.as_bps() as f64;
            self.cause = AutorateCause::Silence;
        }
        self.rate()
    }
}

#[cfg(test)]
#[path = "autorate_tests.rs"]
mod tests;
