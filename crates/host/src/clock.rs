//! A node's own clock: the machine's monotonic clock, on purpose set wrong in tests.

use crate::realtime;
use wavelane_base::{Instant, Span};

/// One node's clock. It never goes back.
#[derive(Clone, Copy, Debug)]
pub struct NodeClock {
    start: Instant,
    offset: Span,
    drift_ppm: i64,
}

const MILLION: i128 = 1_000_000;

impl NodeClock {
    /// A clock that reads `offset` now and runs `drift_ppm` parts per million fast (slow if negative).
    ///
    /// # Panics
    /// If the clock would stand still or run back.
    pub fn start(offset: Span, drift_ppm: i64) -> Self {
        assert!(i128::from(drift_ppm) > -MILLION, "a clock must run forwards");
        Self { start: realtime::now(), offset, drift_ppm }
    }
    /// The reading.
    pub fn now(&self) -> Instant {
        self.at(realtime::now())
    }
    fn at(&self, real: Instant) -> Instant {
        let elapsed = i128::from(real.since(self.start).as_nanos());
        let shown = elapsed + elapsed * i128::from(self.drift_ppm) / MILLION;
        Instant::from_nanos(u64::try_from(shown).unwrap_or(0)) + self.offset
    }
    /// How long to wait in real time until this clock reads `deadline`; never too short.
    pub fn until(&self, deadline: Instant) -> std::time::Duration {
        let left = i128::from(deadline.since(self.now()).as_nanos());
        let rate = MILLION + i128::from(self.drift_ppm);
        let real = (left * MILLION + rate - 1) / rate;
        std::time::Duration::from_nanos(u64::try_from(real).unwrap_or(u64::MAX))
    }
}

/// Nanoseconds of the time of day since 1970, for boot epochs; never for measuring.
pub fn wall_nanos() -> u64 {
    use nix::sys::time::TimeValLike;
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME)
        .expect("CLOCK_REALTIME exists on every Linux (clock_gettime(2))");
    u64::try_from(time.num_nanoseconds()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_and_drift_show_and_waiting_accounts_for_them() {
        let clock = NodeClock { start: Instant::from_secs(5), offset: Span::from_secs(1000), drift_ppm: -100 };
        let read = clock.at(Instant::from_secs(15));
        assert_eq!(read, Instant::from_secs(1000) + Span::from_nanos(9_999_000_000));
        let clock = NodeClock::start(Span::from_secs(7), 500_000);
        let wait = clock.until(clock.now() + Span::from_secs(3));
        assert!(wait.as_millis() > 1_900 && wait.as_millis() <= 2_001, "{wait:?}");
        assert!(clock.now() >= Instant::from_secs(7));
        assert_eq!(clock.until(Instant::ZERO), std::time::Duration::ZERO);
    }
}
