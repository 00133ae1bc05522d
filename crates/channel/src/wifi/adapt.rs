//! Rate control modelled on Minstrel-HT of Linux (net/mac80211/rc80211_minstrel_ht.c): statistics per rate and receiver, the
//! best rate by expected throughput, and occasional sample frames at other rates.

use super::PhyRate;
use wavelane_base::{Chance, Instant, Span};

/// Interval of updating the estimates (`update_interval`).
const UPDATE: Span = Span::from_millis(50);
/// Weight of the old estimate (`EWMA_LEVEL` 96 of 128).
const OLD: f64 = 0.75;
/// Cap of the success probability in the throughput estimate, because of collisions (`MINSTREL_FRAC(90, 100)`).
const GOOD: f64 = 0.9;
/// Below this success probability a rate's throughput counts as zero.
const USELESS: f64 = 0.1;
/// Above this success probability a rate is not sampled.
const KNOWN: f64 = 0.95;
/// Frames between two samples, and how many more per frame of an aggregate.
const SAMPLE_EVERY: u64 = 16;
const SAMPLE_PER_FRAME: f64 = 2.0;
/// A rate slower than the two best is sampled only after this many skipped opportunities.
const SKIPS: u32 = 20;
/// Bytes of the frame whose airtime is used to compare rates (`AVG_PKT_SIZE`), and how many are timed together where one
/// fills few symbols (`AVG_AMPDU_SIZE`).
const FRAME: usize = 1_200;
const FRAMES: u32 = 16;
/// After this many tries the second best rate is used, then the most reliable.
const TRIES_BEST: u32 = 2;
const TRIES_SECOND: u32 = 4;

/// Statistics of a rate.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    attempts: u64,
    successes: u64,
    /// Success probability; `None` before it was tried.
    chance: Option<f64>,
}

/// The controller of one sender towards one receiver.
#[derive(Clone, Debug)]
pub(super) struct Control {
    known: Vec<Known>,
    best: usize,
    second: usize,
    surest: usize,
    update_at: Instant,
    /// Frames and transmissions since the last update.
    frames: u64,
    transmissions: u64,
    /// Mean frames of an aggregate.
    burst: f64,
    /// Frames before the next sample.
    wait: u64,
    skips: u32,
}

impl Control {
    /// Number of rates without a measurement.
    pub(super) fn new(rates: usize) -> Self {
        Self {
            known: vec![Known::default(); rates],
            best: 0,
            second: 0,
            surest: 0,
            update_at: Instant::ZERO + UPDATE,
            frames: 0,
            transmissions: 0,
            burst: 1.0,
            wait: 0,
            skips: 0,
        }
    }
    /// The rate of a transmission whose first frame has failed `tries` times, and whether it is a sample: one frame.
    pub(super) fn choose(&mut self, tries: u32, dice: &mut Chance) -> (usize, bool) {
        match tries {
            0 if self.wait == 0 => self.sample(dice).map_or((self.best, false), |rate| (rate, true)),
            0..TRIES_BEST => (self.best, false),
            TRIES_BEST..TRIES_SECOND => (self.second, false),
            _ => (self.surest, false),
        }
    }
    fn sample(&mut self, dice: &mut Chance) -> Option<usize> {
        let rate = dice.below(self.known.len() as u64) as usize;
        let (known, slow) = (self.known[rate].chance, rate < self.best.min(self.second));
        // Unlike Linux, the second best is sampled too: here only frames that have failed twice are sent at it, so an
        // estimate from one failed frame would persist.
        let in_use = [self.best, self.surest].contains(&rate) && known.is_some();
        if in_use || known.is_some_and(|chance| chance > KNOWN) {
            return None;
        }
        if slow && self.skips < SKIPS {
            self.skips += 1;
            return None;
        }
        self.skips = 0;
        self.wait = SAMPLE_EVERY + (SAMPLE_PER_FRAME * self.burst) as u64;
        Some(rate)
    }
    /// A transmission at `rate` of `frames`, of which `successes` were acknowledged.
    pub(super) fn note(&mut self, rate: usize, frames: u64, successes: u64) {
        self.known[rate].attempts += frames;
        self.known[rate].successes += successes;
        self.frames += frames;
        self.transmissions += 1;
        self.wait = self.wait.saturating_sub(frames);
    }
    /// Updates the estimates when due, from the fixed time of a transmission (`fixed`) and the time of a frame at each rate.
    pub(super) fn update(&mut self, now: Instant, fixed: Span, frames: &[f64]) {
        if now < self.update_at {
            return;
        }
        self.update_at = now + UPDATE;
        if self.transmissions > 0 {
            let burst = self.frames as f64 / self.transmissions as f64;
            self.burst = OLD * self.burst + (1.0 - OLD) * burst;
            self.frames = 0;
            self.transmissions = 0;
        }
        for known in self.known.iter_mut().filter(|known| known.attempts > 0) {
            let share = known.successes as f64 / known.attempts as f64;
            known.chance = Some(known.chance.map_or(share, |old| OLD * old + (1.0 - OLD) * share));
            known.attempts = 0;
            known.successes = 0;
        }
        let chance = |rate: usize| self.known[rate].chance.unwrap_or(0.0);
        let throughput = |rate: usize| {
            let time = fixed.as_secs_f64() / self.burst + frames[rate];
            if chance(rate) < USELESS { 0.0 } else { chance(rate).min(GOOD) / time }
        };
        let most = |value: &dyn Fn(usize) -> f64, but: Option<usize>| {
            let others = (0..frames.len()).filter(|rate| Some(*rate) != but);
            others.fold(0, |best, rate| if value(rate) > value(best) || Some(best) == but { rate } else { best })
        };
        let best = most(&throughput, None);
        let second = Some(most(&throughput, Some(best))).filter(|rate| throughput(*rate) > 0.0).unwrap_or(best);
        // The fastest of the rates with a success probability above [`KNOWN`], else the one with the highest.
        let sure = |rate: usize| if chance(rate) > KNOWN { 1.0 + throughput(rate) } else { chance(rate) };
        let surest = most(&sure, None);
        self.best = best;
        self.second = second;
        self.surest = surest;
    }
}

/// The controllers of a cell.
#[derive(Debug)]
pub(super) struct Controls {
    pub(super) of: Vec<Control>,
    /// The available rates, slowest first.
    pub(super) rates: Vec<PhyRate>,
    /// Seconds that a frame takes at each.
    pub(super) frames: Vec<f64>,
    pub(super) dice: Chance,
    /// DIFS, the mean back-off, preamble, SIFS and a block acknowledgement.
    pub(super) fixed: Span,
}

impl Controls {
    /// For `pairs` of sender and receiver, without statistics.
    pub(super) fn new(pairs: usize, rates: Vec<PhyRate>, dice: Chance, fixed: Span) -> Self {
        let time = |rate: &PhyRate, octets| rate.airtime(octets).saturating_sub(rate.preamble()).as_secs_f64();
        let frame = |rate: &PhyRate| match rate.spread() {
            Some(_) => time(rate, FRAME * FRAMES as usize) / f64::from(FRAMES),
            None => time(rate, FRAME),
        };
        let frames = rates.iter().map(frame).collect();
        Self { of: vec![Control::new(rates.len()); pairs], rates, frames, dice, fixed }
    }
    /// The best rate of a pair according to the estimates.
    pub(super) fn best(&self, pair: usize) -> PhyRate {
        self.rates[self.of[pair].best]
    }
}
