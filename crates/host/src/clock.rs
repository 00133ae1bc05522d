//! The machine's steady clock, which continues during suspend, and the time of day.

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use wavelane_base::Instant;

/// A node's own clock. It is monotonic.
#[derive(Clone, Copy, Debug)]
pub struct NodeClock;

impl NodeClock {
    /// The current reading.
    pub fn now(self) -> Instant {
        since_boot()
    }
    /// Time to wait until `deadline`.
    pub fn until(self, deadline: Instant) -> std::time::Duration {
        std::time::Duration::from_nanos(deadline.since(self.now()).as_nanos())
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
    use wavelane_base::Span;

    /// In a time namespace the two steady clocks can differ without any suspend (time_namespaces(7)).
    #[test]
    fn the_clock_counts_the_time_asleep() {
        const ASLEEP: &str = "WAVELANE_TEST_ASLEEP_SECONDS";
        const NAME: &str = "clock::tests::the_clock_counts_the_time_asleep";
        if let Ok(seconds) = std::env::var(ASLEEP) {
            let steady = crate::realtime::now();
            let asleep = since_boot().since(steady);
            assert!(asleep >= Span::from_secs(seconds.parse().expect("a number")), "{asleep}");
            assert!(NodeClock.now() >= since_boot() - Span::from_secs(1), "the clock runs by the time since boot");
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
