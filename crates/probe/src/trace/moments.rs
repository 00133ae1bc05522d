//! Running minimum, maximum, mean and deviation of times, as tcptrace prints them.

/// Moments of times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    least: u64,
    most: u64,
    sum: f64,
    squares: f64,
}

const NS_PER_MS: f64 = 1e6;

impl Moments {
    pub(crate) fn add(&mut self, ns: u64) {
        self.least = if self.count == 0 { ns } else { self.least.min(ns) };
        self.most = self.most.max(ns);
        self.count += 1;
        let ms = ns as f64 / NS_PER_MS;
        self.sum += ms;
        self.squares += ms * ms;
    }
    /// Milliseconds; zero without samples, as tcptrace has it.
    pub(crate) fn least_ms(&self) -> f64 {
        self.least as f64 / NS_PER_MS
    }
    pub(crate) fn most_ms(&self) -> f64 {
        self.most as f64 / NS_PER_MS
    }
    pub(crate) fn mean_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
    /// Sample deviation; zero below three samples, as tcptrace has it.
    pub(crate) fn deviation_ms(&self) -> f64 {
        if self.count < 3 {
            return 0.0;
        }
        let n = self.count as f64;
        ((self.squares - self.sum * self.sum / n) / (n - 1.0)).max(0.0).sqrt()
    }
}
