//! A loss model with its state.

use super::{GilbertElliott, LossConfig, LossTrace, PerUnit, in_windows};
use crate::cable::hits;
use wavelane_base::{Instant, Ratio, Seed};

/// One frame's passage through the serialiser.
pub(crate) struct Sending {
    /// Counted from 0 in order of arrival at the port.
    pub(crate) number: u64,
    pub(crate) octets: usize,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

/// A loss model with its state. Only the Gilbert-Elliott process has its own random stream.
pub(crate) struct LossProcess {
    config: LossConfig,
    bursts: Option<GilbertElliott>,
    seed: Seed,
    prefix: String,
    /// Number of processes so far in this direction, so that each has its own substream.
    generation: u64,
}

impl LossProcess {
    pub(crate) fn new(seed: Seed, prefix: &str, config: LossConfig, now: Instant) -> Self {
        let mut process =
            Self { config: LossConfig::None, bursts: None, seed, prefix: prefix.to_owned(), generation: 0 };
        process.replace(config, now);
        process
    }

    /// Changes the model at `now`. The state process continues unchanged if its mean dwell times are the same.
    pub(crate) fn replace(&mut self, config: LossConfig, now: Instant) {
        if let LossConfig::GilbertElliott { good, bad, .. } = config {
            let same = self.bursts.as_ref().is_some_and(|bursts| bursts.means() == (good, bad));
            if !same {
                let dice = self.seed.chance(&format!("{} / dwell {}", self.prefix, self.generation));
                self.generation += 1;
                self.bursts = Some(GilbertElliott::new(good, bad, dice, now));
            }
        } else {
            self.bursts = None;
        }
        self.config = config;
    }

    /// Whether the model loses this frame; `draw` is the frame's random draw.
    pub(crate) fn takes(&mut self, sending: &Sending, draw: u64) -> bool {
        match &self.config {
            LossConfig::None => false,
            LossConfig::Random { p } => hits(draw, *p),
            LossConfig::GilbertElliott { in_good, in_bad, per, .. } => {
                let Some(bursts) = &mut self.bursts else { return false };
                let share = bursts.share(sending.start, sending.end);
                match per {
                    PerUnit::Packet => hits(draw, if share.ends_bad { *in_bad } else { *in_good }),
                    PerUnit::Bit => {
                        let bits = sending.octets as u64 * 8;
                        let bits_bad = if share.whole.as_nanos() > 0 {
                            share.bad.scale(bits, share.whole.as_nanos()).as_nanos()
                        } else if share.ends_bad {
                            bits
                        } else {
                            0
                        };
                        let survives = all_survive(*in_good, bits - bits_bad) * all_survive(*in_bad, bits_bad);
                        // 53 bits are what an f64 holds.
                        (draw >> 11) as f64 / (1u64 << 53) as f64 >= survives
                    }
                }
            }
            LossConfig::Trace(LossTrace::Intervals(windows)) => in_windows(windows, sending.end),
            LossConfig::Trace(LossTrace::Frames(frames)) => frames.binary_search(&sending.number).is_ok(),
        }
    }
}

/// `(1 - p)^bits` by repeated squaring, which gives the same bits on every machine; `powf` may not.
pub(crate) fn all_survive(p: Ratio, mut bits: u64) -> f64 {
    let mut power = f64::from(p.den() - p.num()) / f64::from(p.den());
    let mut product = 1.0;
    while bits > 0 {
        if bits & 1 == 1 {
            product *= power;
        }
        power *= power;
        bits >>= 1;
    }
    product
}
