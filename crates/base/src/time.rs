//! Time as one node sees it: integer nanoseconds of that node's own clock.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point on **one node's** clock, in nanoseconds since that clock's own start.
///
/// Two nodes' instants are never comparable: clocks differ by an unknown offset and drift.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A length of time in nanoseconds. Never negative; subtraction saturates at zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Instant {
    /// The clock's start.
    pub const ZERO: Self = Self(0);
    /// Later than any deadline a machine can ask for.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `ns` nanoseconds after the clock's start.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// The instant `us` microseconds after the clock's start.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// The instant `ms` milliseconds after the clock's start.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// The instant `s` seconds after the clock's start.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// Nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds since the clock's start.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Seconds since the clock's start, for display and analysis only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Time elapsed since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// A span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// A span of `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// The span nearest to `s` seconds; negative and NaN become zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round().max(0.0) as u64)
    }
    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// This span times `n`, saturating.
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
    /// This span times `num / den`, rounded down, saturating. `den` must not be zero.
    pub const fn scale(self, num: u64, den: u64) -> Self {
        let wide = self.0 as u128 * num as u128 / den as u128;
        Self(if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 })
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}
impl AddAssign<Span> for Instant {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}
impl Sub<Span> for Instant {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}
impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", Span(self.0))
    }
}
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns % 1_000 != 0 => write!(f, "{ns} ns"),
            ns if ns % 1_000_000 != 0 => write!(f, "{} us", ns / 1_000),
            ns if ns % 1_000_000_000 != 0 => write!(f, "{} ms", ns / 1_000_000),
            ns => write!(f, "{} s", ns / 1_000_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtraction_saturates_instead_of_wrapping() {
        assert_eq!(Instant::from_millis(1).since(Instant::from_millis(2)), Span::ZERO);
        assert_eq!(Instant::from_millis(1) - Span::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::FAR_FUTURE + Span::from_secs(1), Instant::FAR_FUTURE);
    }

    #[test]
    fn scale_does_not_overflow_in_the_middle() {
        assert_eq!(Span::from_secs(1_000_000).scale(3, 2), Span::from_secs(1_500_000));
        assert_eq!(Span::MAX.scale(3, 2), Span::MAX);
    }

    #[test]
    fn spans_print_in_their_largest_whole_unit() {
        assert_eq!(Span::from_millis(250).to_string(), "250 ms");
        assert_eq!(Span::from_secs(3).to_string(), "3 s");
        assert_eq!(Span::from_nanos(1_001).to_string(), "1001 ns");
    }
}
