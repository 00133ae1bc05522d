//! Rates, sizes and probabilities. A bare number never stands for one of these in a public signature.

use crate::Span;
use core::fmt;

/// A data rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rate(u64);

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Octets(u64);

/// An exact fraction between 0 and 1, written `n/d`; the type of every configured probability.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ratio {
    num: u32,
    den: u32,
}

impl Rate {
    /// A rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Time to serialise `octets` at this rate, rounded up; [`Span::MAX`] at rate zero.
    pub fn time_for(self, octets: Octets) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let ns = (octets.0 as u128 * 8 * 1_000_000_000).div_ceil(self.0 as u128);
        Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
    /// Bytes carried in `span`, rounded down.
    pub fn octets_in(self, span: Span) -> Octets {
        let octets = self.0 as u128 * span.as_nanos() as u128 / 8_000_000_000;
        Octets(u64::try_from(octets).unwrap_or(u64::MAX))
    }
    /// The rate that carries `octets` in `span`; zero for an empty span.
    pub fn of(octets: Octets, span: Span) -> Self {
        if span == Span::ZERO {
            return Self(0);
        }
        let bps = octets.0 as u128 * 8_000_000_000 / span.as_nanos() as u128;
        Self(u64::try_from(bps).unwrap_or(u64::MAX))
    }
    /// This rate times `num / den`, saturating. `den` must not be zero.
    pub fn scale(self, num: u64, den: u64) -> Self {
        Self(u64::try_from(self.0 as u128 * num as u128 / den as u128).unwrap_or(u64::MAX))
    }
}

impl Octets {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// `n` bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl core::ops::Add for Octets {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Ratio {
    /// Never.
    pub const ZERO: Self = Self { num: 0, den: 1 };
    /// Always.
    pub const ONE: Self = Self { num: 1, den: 1 };

    /// `num / den`, or `None` unless `0 <= num <= den` and `den > 0`.
    pub const fn new(num: u32, den: u32) -> Option<Self> {
        if den == 0 || num > den { None } else { Some(Self { num, den }) }
    }
    /// The upper number.
    pub const fn num(self) -> u32 {
        self.num
    }
    /// The lower number.
    pub const fn den(self) -> u32 {
        self.den
    }
    /// The value, for display and analysis only.
    pub fn as_f64(self) -> f64 {
        f64::from(self.num) / f64::from(self.den)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.num, self.den) {
            (0, _) => f.write_str("0"),
            (n, d) if n == d => f.write_str("1"),
            (n, d) => write!(f, "{n}/{d}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_time_rounds_up() {
        assert_eq!(Rate::from_bps(20_000_000).time_for(Octets::new(1500)), Span::from_micros(600));
        assert_eq!(Rate::from_bps(3).time_for(Octets::new(1)), Span::from_nanos(2_666_666_667));
        assert_eq!(Rate::from_bps(0).time_for(Octets::new(1)), Span::MAX);
    }

    #[test]
    fn a_ratio_outside_zero_to_one_cannot_be_built() {
        assert!(Ratio::new(2, 1).is_none());
        assert!(Ratio::new(0, 0).is_none());
        assert_eq!(Ratio::new(1, 20).map(|r| r.to_string()).as_deref(), Some("1/20"));
    }
}
