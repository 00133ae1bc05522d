//! A node's own clock, as the simulator sets it.

use thiserror::Error;
use wavelane_base::{Instant, Span};

/// Parts in a million.
const MILLION: u64 = 1_000_000;
/// Largest drift either way. Crystal oscillators stay within 100 ppm; this is far beyond and keeps clocks rising.
pub const DRIFT_MAX_PPM: u32 = 100_000;

/// How one node's clock reads: `offset + elapsed x (1 + drift)`, rounded down to the nanosecond.
///
/// Both conversions are exact in integers. [`NodeClock::global`] is the *earliest* moment at which the clock shows at
/// least the wanted reading, so a node woken there never finds its deadline still ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeClock {
    offset: Span,
    /// Clock nanoseconds per million nanoseconds of true time.
    pace: u64,
}

/// A clock that cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("a drift of {0} ppm is beyond {DRIFT_MAX_PPM} ppm either way: choose a smaller one")]
pub struct DriftTooLarge(pub i32);

impl Default for NodeClock {
    fn default() -> Self {
        Self { offset: Span::ZERO, pace: MILLION }
    }
}

impl NodeClock {
    /// A clock that shows `offset` when the run starts and gains `drift_ppm` millionths (loses, if negative).
    pub fn new(offset: Span, drift_ppm: i32) -> Result<Self, DriftTooLarge> {
        if drift_ppm.unsigned_abs() > DRIFT_MAX_PPM {
            return Err(DriftTooLarge(drift_ppm));
        }
        Ok(Self { offset, pace: MILLION.saturating_add_signed(i64::from(drift_ppm)) })
    }

    /// What the clock shows at the true time `global`; saturates at the end of time.
    pub fn local(&self, global: Instant) -> Instant {
        let elapsed = u128::from(global.as_nanos()) * u128::from(self.pace) / u128::from(MILLION);
        Instant::from_nanos(saturate(elapsed + u128::from(self.offset.as_nanos())))
    }

    /// The earliest true time at which the clock shows `local` or later; saturates at the end of time.
    pub fn global(&self, local: Instant) -> Instant {
        let elapsed = local.as_nanos().saturating_sub(self.offset.as_nanos());
        Instant::from_nanos(saturate((u128::from(elapsed) * u128::from(MILLION)).div_ceil(u128::from(self.pace))))
    }
}

fn saturate(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fifty_ppm_gain_thirty_milliseconds_in_ten_minutes() {
        let fast = NodeClock::new(Span::from_secs(5), 50).unwrap();
        let slow = NodeClock::new(Span::ZERO, -50).unwrap();
        assert_eq!(fast.local(Instant::from_secs(600)), Instant::from_millis(605_030));
        assert_eq!(slow.local(Instant::from_secs(600)), Instant::from_millis(599_970));
        assert_eq!(fast.global(Instant::from_millis(605_030)), Instant::from_secs(600));
        assert_eq!(fast.global(Instant::from_secs(4)), Instant::ZERO, "before its start a clock shows its offset");
    }

    #[test]
    fn the_end_of_time_does_not_overflow() {
        let fast = NodeClock::new(Span::from_secs(5), 100_000).unwrap();
        assert_eq!(fast.local(Instant::FAR_FUTURE), Instant::FAR_FUTURE);
        let slow = NodeClock::new(Span::ZERO, -100_000).unwrap();
        assert_eq!(slow.global(Instant::FAR_FUTURE), Instant::FAR_FUTURE);
        assert!(NodeClock::new(Span::ZERO, 100_001).is_err());
    }

    proptest! {
        #[test]
        fn a_reading_converts_to_the_first_moment_it_shows(
            ppm in -100_000i32..=100_000, offset in 0u64..1 << 50, at in 0u64..1 << 60,
        ) {
            let clock = NodeClock::new(Span::from_nanos(offset), ppm).unwrap();
            let shown = clock.local(Instant::from_nanos(at));
            let first = clock.global(shown);
            prop_assert!(first.as_nanos() <= at);
            prop_assert_eq!(clock.local(first), shown);
            if first > Instant::ZERO {
                prop_assert!(clock.local(first - Span::from_nanos(1)) < shown);
            }
        }

        #[test]
        fn a_wanted_reading_is_reached_and_not_before(
            ppm in -100_000i32..=100_000, offset in 0u64..1 << 50, wanted in 0u64..1 << 60,
        ) {
            let clock = NodeClock::new(Span::from_nanos(offset), ppm).unwrap();
            let wanted = Instant::from_nanos(wanted);
            let first = clock.global(wanted);
            prop_assert!(clock.local(first) >= wanted);
            if first > Instant::ZERO {
                prop_assert!(clock.local(first - Span::from_nanos(1)) < wanted);
            }
        }

        #[test]
        fn both_conversions_are_monotonic(
            ppm in -100_000i32..=100_000, offset in 0u64..1 << 50, a in 0u64..1 << 60, step in 0u64..1 << 40,
        ) {
            let clock = NodeClock::new(Span::from_nanos(offset), ppm).unwrap();
            let (a, b) = (Instant::from_nanos(a), Instant::from_nanos(a + step));
            prop_assert!(clock.local(a) <= clock.local(b));
            prop_assert!(clock.global(a) <= clock.global(b));
        }
    }
}
