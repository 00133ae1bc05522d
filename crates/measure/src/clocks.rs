//! One-way delays between two unsynchronised clocks.
//!
//! Of a probe four times are known: sent and back on our clock, received and answered on theirs. A quick round trip met no
//! queue either way, so half of it is each way's delay, and the clocks' difference follows. A line through the quickest
//! round trips of every second gives offset and drift; what a loaded second delays in one direction has no part in it. That
//! an idle path takes as long there as back cannot be measured and is assumed; half of any difference shows as an error.

/// One answered probe, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// Sent, on our clock.
    pub sent: u64,
    /// Received, on their clock.
    pub received: u64,
    /// Answered, on their clock.
    pub answered: u64,
    /// Back, on our clock.
    pub back: u64,
}

/// The fastest exchange of each interval of this length is a candidate for one without queueing.
const STRETCH_NS: u64 = 1_000_000_000;
/// It is accepted if it took at most this much longer than the fastest of all, ...
const SLACK_NS: i128 = 500_000;
/// ... or 1/this of it: a long path varies more.
const SLACK_SHARE: i128 = 10;
/// With less time between the first and the last such exchange, noise would be taken for drift.
const DRIFT_FROM_NS: f64 = 2e9;
/// Larger drift is invalid, and so is the line.
const DRIFT_MAX: f64 = 0.002;
/// A stretch that nothing is known of: longer than any measurement.
const STRETCHES_MAX: usize = 100_000;

impl Exchange {
    /// The RTT without the processing time at the other end.
    fn round_trip(&self) -> i128 {
        i128::from(self.back) - i128::from(self.sent) - (i128::from(self.answered) - i128::from(self.received))
    }
    /// How far their clock is ahead if both directions took equally long; doubled, to stay an integer.
    fn ahead_twice(&self) -> i128 {
        i128::from(self.received) - i128::from(self.sent) + i128::from(self.answered) - i128::from(self.back)
    }
}

/// How far their clock is ahead of ours, as a line over our time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClockLine {
    /// Our time at which the line stands on `ahead`.
    at: u64,
    /// Whole nanoseconds at that time.
    ahead: i128,
    /// What the mean adds to it.
    fraction: f64,
    /// Theirs over ours, less one.
    drift: f64,
}

impl ClockLine {
    /// The line of these exchanges, in any order; `None` without one.
    pub fn fit(exchanges: &[Exchange]) -> Option<Self> {
        let sane = |e: &&Exchange| e.round_trip() >= 0 && e.back >= e.sent;
        let start = exchanges.iter().filter(sane).map(|e| e.sent).min()?;
        let mut quickest: Vec<Option<Exchange>> = Vec::new();
        for e in exchanges.iter().filter(sane) {
            let Ok(stretch) = usize::try_from((e.sent - start) / STRETCH_NS) else { continue };
            if stretch >= STRETCHES_MAX {
                continue;
            }
            if quickest.len() <= stretch {
                quickest.resize(stretch + 1, None);
            }
            let best = &mut quickest[stretch];
            if best.is_none_or(|b| e.round_trip() < b.round_trip()) {
                *best = Some(*e);
            }
        }
        let least = quickest.iter().flatten().map(Exchange::round_trip).min()?;
        let bound = least + SLACK_NS.max(least / SLACK_SHARE);
        let chosen: Vec<Exchange> = quickest.into_iter().flatten().filter(|e| e.round_trip() <= bound).collect();
        Self::through(&chosen)
    }

    /// Least squares, about the first point so that no digit is lost to large numbers.
    fn through(chosen: &[Exchange]) -> Option<Self> {
        let first = chosen.first()?;
        let n = chosen.len() as f64;
        let points: Vec<(f64, f64)> = chosen
            .iter()
            .map(|e| ((e.sent - first.sent) as f64, (e.ahead_twice() - first.ahead_twice()) as f64 / 2.0))
            .collect();
        let (mean_x, mean_y) =
            (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
        let over = |f: fn(f64, f64) -> f64| points.iter().map(|(x, y)| f(x - mean_x, y - mean_y)).sum::<f64>();
        let (squares, products) = (over(|x, _| x * x), over(|x, y| x * y));
        let long = points.last().is_some_and(|p| p.0 >= DRIFT_FROM_NS);
        let drift = if long { (products / squares).clamp(-DRIFT_MAX, DRIFT_MAX) } else { 0.0 };
        let (ahead, odd) = (first.ahead_twice() / 2, first.ahead_twice() % 2);
        let fraction = odd as f64 / 2.0 + mean_y - drift * mean_x;
        Some(Self { at: first.sent, ahead, fraction, drift })
    }

    /// Theirs over ours, less one: parts per million when times a million.
    pub fn drift(&self) -> f64 {
        self.drift
    }

    /// Nanoseconds by which their clock is ahead at our time `at`.
    fn ahead_at(&self, at: u64) -> (i128, f64) {
        (self.ahead, self.fraction + self.drift * (i128::from(at) - i128::from(self.at)) as f64)
    }

    /// Milliseconds the probe was under way to them. Noise can take it a little below zero.
    pub fn up_ms(&self, e: &Exchange) -> f64 {
        let (whole, rest) = self.ahead_at(e.sent);
        ((i128::from(e.received) - i128::from(e.sent) - whole) as f64 - rest) / 1e6
    }

    /// Milliseconds the answer was under way to us.
    pub fn down_ms(&self, e: &Exchange) -> f64 {
        let (whole, rest) = self.ahead_at(e.back);
        ((i128::from(e.back) - i128::from(e.answered) + whole) as f64 + rest) / 1e6
    }
}

#[cfg(test)]
#[path = "clocks_tests.rs"]
mod tests;
