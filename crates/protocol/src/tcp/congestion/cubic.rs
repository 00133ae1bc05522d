//! CUBIC (RFC 9438). Windows in its equations are in segments.

use super::{Acked, Window};
use wavelane_base::{Instant, Span};

/// RFC 9438, sections 4.1 and 4.6.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// RFC 9438, section 4.3: growth of the Reno-friendly estimate per window.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[derive(Debug)]
pub(in crate::tcp) struct Cubic {
    pub(super) window: Window,
    /// Fractions of a byte not yet in the window.
    carry: f64,
    w_max: f64,
    /// The window before the latest reduction.
    w_prior: f64,
    epoch: Option<Epoch>,
    timed_out: bool,
}

/// A stage of congestion avoidance.
#[derive(Debug)]
struct Epoch {
    start: Instant,
    k: f64,
    origin: f64,
    /// What Reno would have.
    estimate: f64,
}

impl Cubic {
    pub(super) fn new(window: Window) -> Self {
        Self { window, carry: 0.0, w_max: 0.0, w_prior: 0.0, epoch: None, timed_out: false }
    }

    fn segments(&self) -> f64 {
        self.window.cwnd as f64 / self.window.mss as f64
    }

    pub(super) fn on_ack(&mut self, acked: &Acked) {
        let mut rest = acked.octets;
        if self.window.in_slow_start() {
            rest = self.window.slow_start(acked);
        }
        if rest > 0 {
            self.avoid(acked.now, acked.smoothed, rest as f64 / self.window.mss as f64);
        }
    }

    fn avoid(&mut self, now: Instant, rtt: Span, acked: f64) {
        let cwnd = self.segments();
        if self.epoch.is_none() {
            // Section 4.8: the stage after a timeout starts from where it is.
            let origin = if std::mem::take(&mut self.timed_out) { cwnd } else { self.w_max.max(cwnd) };
            let k = cube_root((origin - cwnd) / C);
            self.epoch = Some(Epoch { start: now, k, origin, estimate: cwnd });
        }
        let Some(epoch) = &mut self.epoch else { return };
        let at = |t: f64| C * (t - epoch.k) * (t - epoch.k) * (t - epoch.k) + epoch.origin;
        let t = now.since(epoch.start).as_secs_f64();
        let alpha = if epoch.estimate >= self.w_prior { 1.0 } else { ALPHA };
        epoch.estimate += alpha * acked / cwnd;
        let next = if at(t) < epoch.estimate {
            epoch.estimate.max(cwnd)
        } else {
            let target = at(t + rtt.as_secs_f64()).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) / cwnd * acked
        };
        let grown = (next - cwnd) * self.window.mss as f64 + self.carry;
        let whole = grown.max(0.0) as u64;
        self.carry = grown - whole as f64;
        self.window.cwnd += whole;
    }

    /// Sections 4.6 and 4.7.
    pub(super) fn reduce(&mut self, _now: Instant) {
        let cwnd = self.segments();
        self.w_prior = cwnd;
        // Fast convergence: give way to newcomers.
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.window.ssthresh = ((self.window.cwnd as f64 * BETA) as u64).max(2 * self.window.mss);
        self.window.cwnd = self.window.ssthresh;
        self.epoch = None;
        self.timed_out = false;
        self.carry = 0.0;
    }

    pub(super) fn after_timeout(&mut self) {
        self.timed_out = true;
    }

    /// Time in which nothing was sent does not count.
    pub(super) fn shift(&mut self, idle: Span) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += idle;
        }
    }
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
