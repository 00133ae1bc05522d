//! A node's own clock: the machine's steady clock, which continues during suspend; deliberately wrong in tests.

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use wavelane_base::{Instant, Span};

/// One node's clock. It is monotonic.
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
    /// If the clock would stand still or run backwards.
    pub fn start(offset: Span, drift_ppm: i64) -> Self {
        assert!(i128::from(drift_ppm) > -MILLION, "a clock must run forwards");
        Self { start: since_boot(), offset, drift_ppm }
    }
    /// The current reading.
    pub fn now(&self) -> Instant {
        self.at(since_boot())
    }
    fn at(&self, real: Instant) -> Instant {
        let elapsed = i128::from(real.since(self.start).as_nanos());
        let shown = elapsed + elapsed * i128::from(self.drift_ppm) / MILLION;
        Instant::from_nanos(u64::try_from(shown).unwrap_or(0)) + self.offset
    }
    /// Real time to wait until this clock reads `deadline`; never too short.
    pub fn until(&self, deadline: Instant) -> std::time::Duration {
        let left = i128::from(deadline.since(self.now()).as_nanos());
        let rate = MILLION + i128::from(self.drift_ppm);
        let real = (left * MILLION + rate - 1) / rate;
        std::time::Duration::from_nanos(u64::try_from(real).unwrap_or(u64::MAX))
    }
}

/// Nanoseconds of CLOCK_BOOTTIME: unlike CLOCK_MONOTONIC it counts the time that the machine was suspended, so the ages of keys, leases and
/// estimates remain correct after a suspend.
pub fn since_boot() -> Instant {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("CLOCK_BOOTTIME exists on every Linux since 2.6.39");
    Instant::from_nanos(u64::try_from(time.num_nanoseconds()).unwrap_or(0))
}

/// Nanoseconds of the time of day since 1970, for boot epochs and for interpreting the kernel's time stamps; never for measuring.
pub fn wall_nanos() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_REALTIME).expect("CLOCK_REALTIME exists on every Linux (clock_gettime(2))");
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

    /// In a time namespace the two steady clocks can differ without any suspend (time_namespaces(7)).
    #[test]
    fn the_clock_counts_the_time_asleep() {
        const ASLEEP: &str = "WAVELANE_TEST_ASLEEP_SECONDS";
        const NAME: &str = "clock::tests::the_clock_counts_the_time_asleep";
        if let Ok(seconds) = std::env::var(ASLEEP) {
            let steady = crate::realtime::now();
            let asleep = since_boot().since(steady);
            assert!(asleep >= Span::from_secs(seconds.parse().expect("a number")), "{asleep}");
            let clock = NodeClock::start(Span::ZERO, 0);
            assert!(clock.start >= since_boot() - Span::from_secs(1), "the clock runs by the time since boot");
            return;
        }
        let test = std::env::current_exe().expect("this test's program");
        let run = std::process::Command::new("unshare")
            .args(["--time", "--fork", "--boottime", "86400", "--monotonic", "0"])
            .arg(test)
            .args(["--exact", NAME, "--nocapture"])
            .env(ASLEEP, "86400")
            .output();
        match run {
            Ok(out) if out.status.success() => {}
            Ok(out) if String::from_utf8_lossy(&out.stderr).contains("Operation not permitted") => {
                eprintln!("SKIPPED (1 test): {NAME} needs root to make a time namespace");
            }
            Ok(out) => panic!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)),
            Err(e) => eprintln!("SKIPPED (1 test): {NAME} needs unshare(1): {e}"),
        }
    }
}
