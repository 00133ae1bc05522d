//! CUBIC (RFC 9438), for comparison and for paths that demand it.

use super::{AckSample, PACKET};
use wavelane_base::{Instant, Octets, Rate, Span};

/// RFC 9438, section 5: `C` and beta.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
const INITIAL_WINDOW: f64 = 10.0;
const WINDOW_MIN: f64 = 2.0;
/// A returning flow aims at its old share for this many reductions, then at what loss allows.
const SHARE_CUTS: u32 = 3;
/// Pacing gain, in percent: slow start doubles per round trip.
const PACING_START: u64 = 200;
const PACING: u64 = 120;

/// Windows are in packets of [`PACKET`] bytes.
#[derive(Debug)]
pub(crate) struct Cubic {
    window: f64,
    threshold: f64,
    window_max: f64,
    reno: f64,
    /// Start of the growth, its duration up to the previous window, and its factor.
    epoch: Option<(Instant, f64, f64)>,
    reduced_at: Option<Instant>,
    rtt: Span,
    /// The share that growth aims at after an early reduction, and for how many more reductions.
    share: Option<(Rate, u32)>,
    /// It emulates this many flows.
    weight: u32,
}

impl Cubic {
    pub(crate) fn new() -> Self {
        Self {
            window: INITIAL_WINDOW,
            threshold: f64::MAX,
            window_max: 0.0,
            reno: 0.0,
            epoch: None,
            reduced_at: None,
            rtt: Span::from_millis(100),
            share: None,
            weight: 1,
        }
    }
    /// A flow with `window` bytes in flight.
    pub(crate) fn with_window(window: u64, rtt: Span) -> Self {
        let window = (window as f64 / PACKET as f64).max(WINDOW_MIN);
        Self { window, threshold: window, window_max: window, rtt, ..Self::new() }
    }
    /// A flow that had `share` of the link and was pushed down to `rate`: it doubles up to its share; if loss comes first, it grows from
    /// there as after a reduction.
    pub(crate) fn returning(rate: Rate, share: Rate, rtt: Span) -> Self {
        let window = packets(rate, rtt).max(WINDOW_MIN);
        Self { window, threshold: packets(share, rtt), share: Some((share, SHARE_CUTS)), rtt, ..Self::new() }
    }
    /// From now on it emulates this many flows, of which a loss cuts one.
    pub(crate) fn set_weight(&mut self, weight: u32) {
        self.weight = weight;
    }
    /// The factor of a reduction.
    fn beta(&self) -> f64 {
        1.0 - (1.0 - BETA) / f64::from(self.weight)
    }
    pub(crate) fn window(&self) -> u64 {
        (self.window * PACKET as f64) as u64
    }
    pub(crate) fn rate(&self) -> Rate {
        Rate::of(Octets::new(self.window()), self.rtt)
    }
    pub(crate) fn pacing(&self) -> Rate {
        self.rate().scale(if self.window < self.threshold { PACING_START } else { PACING }, 100)
    }

    pub(crate) fn on_ack(&mut self, sample: &AckSample) {
        self.rtt = sample.rtt.max(Span::from_micros(100));
        if let Some(sent_at) = sample.lost_sent {
            self.reduce(sample.now, sent_at);
        }
        if let Some((share, SHARE_CUTS)) = self.share {
            self.threshold = packets(share, self.rtt);
        }
        let acked = sample.delivered as f64 / PACKET as f64;
        if sample.newest.is_none_or(|n| n.app_limited) {
            return;
        }
        if self.window < self.threshold {
            self.window += acked;
        } else {
            self.grow(sample.now, acked);
        }
    }

    fn grow(&mut self, now: Instant, acked: f64) {
        let flows = f64::from(self.weight);
        // RFC 9438, section 4.3: Reno-friendly growth per window, of each of the flows.
        let alpha = flows * flows * 3.0 * (1.0 - self.beta()) / (1.0 + self.beta());
        let (start, k, c) = *self.epoch.get_or_insert_with(|| {
            self.reno = self.window;
            let short = (self.window_max - self.window).max(0.0);
            (now, cube_root(short / (C * flows)), C * flows)
        });
        let t = (now.since(start) + self.rtt).as_secs_f64() - k;
        let cubic = c * t * t * t + self.window_max.max(self.window.min(self.window_max));
        self.reno += alpha * acked / self.window;
        let target = cubic.clamp(self.window, 1.5 * self.window);
        self.window += (target - self.window) / self.window * acked;
        self.window = self.window.max(self.reno);
    }

    /// One reduction per round trip: only packets sent after the last one count.
    fn reduce(&mut self, now: Instant, sent_at: Instant) {
        if self.reduced_at.is_some_and(|at| sent_at <= at) {
            return;
        }
        self.reduced_at = Some(now);
        // RFC 9438, section 4.7: fast convergence.
        self.window_max =
            if self.window < self.window_max { self.window * (1.0 + self.beta()) / 2.0 } else { self.window };
        if let Some((share, cuts)) = self.share {
            self.window_max = self.window_max.max(packets(share, self.rtt));
            self.share = (cuts > 1).then_some((share, cuts - 1));
        }
        self.window = (self.window * self.beta()).max(WINDOW_MIN);
        self.threshold = self.window;
        self.epoch = None;
    }
}

/// Packets in flight at a rate.
fn packets(rate: Rate, rtt: Span) -> f64 {
    rate.octets_in(rtt).get() as f64 / PACKET as f64
}

/// Newton's method: only operations that give the same bits on every machine.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut root = x.max(1.0);
    for _ in 0..64 {
        root = (2.0 * root + x / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for x in [0.001, 1.0, 27.0, 1e9] {
            let root = cube_root(x);
            assert!((root * root * root / x - 1.0).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn one_reduction_per_round_trip_by_beta() {
        let mut cubic = Cubic::new();
        cubic.window = 100.0;
        cubic.reduce(Instant::from_millis(200), Instant::from_millis(100));
        cubic.reduce(Instant::from_millis(210), Instant::from_millis(150));
        assert!((cubic.window - 70.0).abs() < 1e-9);
        cubic.reduce(Instant::from_millis(400), Instant::from_millis(250));
        assert!((cubic.window - 49.0).abs() < 1e-9);
        assert!((cubic.window_max - 59.5).abs() < 1e-9);
    }
}
