//! CUBIC (RFC 9438), either to the letter or in the integer arithmetic of Linux. Windows in its equations are in segments.

use super::{Acked, Window};
use wavelane_base::{Instant, Span};

/// RFC 9438, sections 4.1 and 4.6.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// RFC 9438, section 4.3: growth of the Reno-friendly estimate per window.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    pub(super) window: Window,
    /// Fractions of a byte not yet in the window.
    carry: f64,
    w_max: f64,
    /// The window before the latest reduction.
    w_prior: f64,
    epoch: Option<Epoch>,
    timed_out: bool,
    whole: Whole,
}

/// Linux's counters (`net/ipv4/tcp_cubic.c`), in segments unless stated otherwise.
#[derive(Clone, Copy, Debug, Default)]
struct Whole {
    /// Bytes acknowledged towards the next segment of the window, and how many segments that takes.
    counted: u64,
    needed: u64,
    /// Bytes acknowledged towards the next segment of Reno's window, and that window.
    reno_counted: u64,
    reno: u64,
    /// The tick in which `needed` was last computed, and for which window.
    computed: Option<(u64, u64)>,
}

/// A clock of 250 ticks a second, Linux's default.
const TICK: Span = Span::from_millis(4);
/// Linux computes only after more ticks while the window does not change (HZ / 32).
const COMPUTE_AFTER_TICKS: u64 = 7;
/// Acknowledged windows per segment of Reno's growth, in eighths: 8 (1 + BETA) / 3 / (1 - BETA), as Linux rounds it.
const RENO_EIGHTHS: u64 = 15;
/// Before the first loss the window grows by at least a segment per this many.
const NEEDED_AT_FIRST: u64 = 20;
/// Linux's BETA of 717 / 1,024.
const BETA_1024: u64 = 717;

/// A stage of congestion avoidance.
#[derive(Clone, Debug)]
struct Epoch {
    start: Instant,
    k: f64,
    origin: f64,
    /// Reno's window estimate.
    estimate: f64,
}

impl Cubic {
    pub(super) fn new(window: Window) -> Self {
        Self { window, carry: 0.0, w_max: 0.0, w_prior: 0.0, epoch: None, timed_out: false, whole: Whole::default() }
    }

    /// When the stage of congestion avoidance under way began.
    pub(super) fn stage(&self) -> Option<Instant> {
        self.epoch.as_ref().map(|epoch| epoch.start)
    }

    fn segments(&self) -> f64 {
        self.window.cwnd as f64 / self.window.mss as f64
    }

    pub(super) fn on_ack(&mut self, acked: &Acked) {
        let mut rest = acked.octets;
        if self.window.in_slow_start() {
            rest = self.window.slow_start(acked);
        }
        if rest > 0 && self.window.whole {
            self.avoid_whole(acked, rest);
        } else if rest > 0 {
            self.avoid(acked.now, acked.smoothed, rest as f64 / self.window.mss as f64);
        }
    }

    fn avoid(&mut self, now: Instant, rtt: Span, acked: f64) {
        let cwnd = self.segments();
        if self.epoch.is_none() {
            // Section 4.8: the epoch after a timeout starts from the current cwnd.
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

    /// As [`Cubic::avoid`], in Linux's steps: after how many acknowledged segments the window grows by one.
    fn avoid_whole(&mut self, acked: &Acked, rest: u64) {
        let (now, mss, cwnd) = (acked.now, self.window.mss, self.window.cwnd / self.window.mss);
        let whole = &mut self.whole;
        whole.reno_counted += rest;
        let fresh = self.epoch.is_none();
        let epoch = self.epoch.get_or_insert_with(|| {
            let origin = self.w_max.max(cwnd as f64);
            whole.reno_counted = rest;
            whole.reno = cwnd;
            Epoch { start: now, k: cube_root((origin - cwnd as f64) / C), origin, estimate: 0.0 }
        });
        let tick = ticks(now);
        let stale = whole.computed.is_none_or(|(at, of)| of != cwnd || tick.saturating_sub(at) > COMPUTE_AFTER_TICKS);
        if fresh || stale {
            // The curve once per tick. Within one, Reno's requirement from before the growth stays in effect: with RTTs
            // shorter than a tick, cwnd grows by more than Reno's segment.
            if fresh || whole.computed.is_none_or(|(at, _)| at != tick) {
                whole.computed = Some((tick, cwnd));
                let passed = tick.saturating_sub(ticks(epoch.start)) + acked.least.as_nanos().div_ceil(TICK.as_nanos());
                let t = TICK.times(passed).as_secs_f64() - epoch.k;
                let target = (C * t * t * t + epoch.origin).max(0.0) as u64;
                whole.needed = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
                if self.w_max == 0.0 {
                    whole.needed = whole.needed.min(NEEDED_AT_FIRST);
                }
            }
            let per_segment = (cwnd * RENO_EIGHTHS / 8).max(1) * mss;
            whole.reno += whole.reno_counted.saturating_sub(1) / per_segment;
            whole.reno_counted -= whole.reno_counted.saturating_sub(1) / per_segment * per_segment;
            if whole.reno > cwnd {
                whole.needed = whole.needed.min(cwnd / (whole.reno - cwnd));
            }
            whole.needed = whole.needed.max(2);
        }
        if whole.counted >= whole.needed * mss {
            whole.counted = 0;
            self.window.cwnd += mss;
        }
        whole.counted += rest;
        let grown = whole.counted / (whole.needed * mss);
        whole.counted -= grown * whole.needed * mss;
        self.window.cwnd += grown * mss;
    }

    /// Sections 4.6 and 4.7.
    pub(super) fn reduce(&mut self, _now: Instant) {
        if self.window.whole {
            let cwnd = self.window.cwnd / self.window.mss;
            // Fast convergence: release bandwidth to new flows.
            let less = cwnd * (1_024 + BETA_1024) / 2_048;
            self.w_max = if (cwnd as f64) < self.w_max { less } else { cwnd } as f64;
            self.window.ssthresh =
                self.window.rounded(self.window.cwnd / self.window.mss * BETA_1024 / 1_024 * self.window.mss);
            self.window.cwnd = self.window.ssthresh;
            self.epoch = None;
            return;
        }
        let cwnd = self.segments();
        self.w_prior = cwnd;
        // Fast convergence: release bandwidth to new flows.
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.window.ssthresh = ((self.window.cwnd as f64 * BETA) as u64).max(2 * self.window.mss);
        self.window.cwnd = self.window.ssthresh;
        self.epoch = None;
        self.timed_out = false;
        self.carry = 0.0;
    }

    pub(super) fn after_timeout(&mut self) {
        self.timed_out = true;
        self.epoch = None;
        if self.window.whole {
            // Linux resets everything but ssthresh.
            self.w_max = 0.0;
            self.whole = Whole::default();
        }
    }

    /// Undo as in Linux: windows only. The epoch that the reduction ended is not resumed, so growth begins at the plateau
    /// (`tcp_undo_cwnd_reduction`; the threshold is three quarters of the window at least, `tcp_current_ssthresh`).
    pub(super) fn take_back(&mut self, prior: &Window) {
        self.window.ssthresh = self.window.ssthresh.max(prior.ssthresh).max(prior.cwnd / 4 * 3);
        self.window.cwnd = self.window.cwnd.max(prior.cwnd);
    }

    /// Idle time is not counted.
    pub(super) fn shift(&mut self, idle: Span) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += idle;
        }
    }
}

fn ticks(at: Instant) -> u64 {
    at.as_nanos() / TICK.as_nanos()
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
    use super::super::{Acked, Algorithm};
    use crate::config::{Config, CongestionControl};
    use wavelane_base::{Instant, Span};

    const MSS: u64 = 1_000;
    const ROUND_TRIP: Span = Span::from_millis(100);

    /// A round trip in which the window is acknowledged segment by segment; returns by how many segments it grew.
    fn round(cubic: &mut Algorithm, now: &mut Instant) -> u64 {
        let before = cubic.cwnd() / MSS;
        for _ in 0..before {
            *now += ROUND_TRIP.scale(1, before);
            let acked = Acked {
                now: *now,
                octets: MSS,
                delivered: 0,
                lost: 0,
                rtt: Some(ROUND_TRIP),
                smoothed: ROUND_TRIP,
                least: ROUND_TRIP,
                pipe: before * MSS,
                next: 0,
                una: 0,
                limited: true,
                sample: None,
                repairing: false,
            };
            cubic.on_ack(&acked, false);
        }
        cubic.cwnd() / MSS - before
    }

    /// Where a tick has many round trips, what Reno needs when it has outgrown the window counts until the tick ends.
    #[test]
    fn within_a_tick_the_window_grows_by_more_than_a_segment() {
        let config = Config { congestion: CongestionControl::Cubic, initial_window: 100, ..Config::default() };
        let start = Instant::from_secs(1);
        let mut cubic = Algorithm::new(&config, start, MSS, 100, true, 0);
        cubic.on_congestion(start, 100 * MSS);
        assert_eq!(cubic.cwnd(), 70 * MSS);
        // Reno's window grows by one per 131 segments: 70 * 15 / 8. The curve stays below its plateau for two seconds.
        let mut grown = Vec::new();
        let mut last = cubic.cwnd();
        for i in 0..7_000u64 {
            // A round trip of 1 ms has 70 segments.
            let now = start + Span::from_millis(1).scale(i, 70);
            let millis = i / 70;
            cubic.on_ack(
                &Acked {
                    now,
                    octets: MSS,
                    delivered: 0,
                    lost: 0,
                    rtt: Some(Span::from_millis(1)),
                    smoothed: Span::from_millis(1),
                    least: Span::from_millis(1),
                    pipe: last,
                    next: 0,
                    una: 0,
                    limited: true,
                    sample: None,
                    repairing: false,
                },
                false,
            );
            grown.extend((cubic.cwnd() > last).then_some(millis));
            last = cubic.cwnd();
        }
        // The window does not change, so it is first updated after eight ticks. Reno's would have grown by 19 by their end.
        assert!(grown.iter().all(|millis| (32..36).contains(millis)), "{grown:?}");
        assert!(grown.len() > 2 * 19, "{}", grown.len());
    }

    /// Linux gives the windows back and begins a new stage at the plateau; RFC 9438, section 4.9, goes on where it was.
    #[test]
    fn an_undone_reduction_restores_the_window_not_the_epoch() {
        for (whole_segments, resumes) in [(true, false), (false, true)] {
            let congestion = CongestionControl::Cubic;
            let config = Config { whole_segments, initial_window: 100, congestion, ..Config::default() };
            let mut now = Instant::ZERO;
            let mut cubic = Algorithm::new(&config, now, MSS, 100, true, 0);
            cubic.on_congestion(now, 100 * MSS);
            let mut last = 0;
            // Eleven seconds are past the plateau, where growth is steep again.
            for _ in 0..110 {
                last = round(&mut cubic, &mut now);
            }
            let (cwnd, prior) = (cubic.cwnd(), cubic.clone());
            assert!(last >= 3, "{last} segments per round trip at {cwnd}");
            cubic.on_congestion(now, cwnd);
            assert!(cubic.cwnd() < cwnd);
            cubic.take_back(prior);
            assert_eq!(cubic.cwnd(), cwnd);
            assert!(cubic.ssthresh() >= Some(70 * MSS), "{:?}", cubic.ssthresh());
            let next = round(&mut cubic, &mut now);
            assert_eq!(next >= last, resumes, "{last} segments before, {next} after");
        }
    }
}
