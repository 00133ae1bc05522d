//! Axes: positions and labels of ticks.

/// A logarithmic axis begins at most at this share of its smallest value.
const LEAST_FROM_EDGE: f64 = 0.94;
/// Limit of an axis with negative values.
const FAR: f64 = 1e300;

/// Linear or logarithmic position of values between two limits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) log: bool,
}

impl Axis {
    /// From zero to a round number at or above `most`.
    pub(crate) fn linear(most: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = step_for(most);
        Self { low: 0.0, high: (most / step).ceil() * step, log: false }
    }
    /// From zero to a round number a little above `most`, so that its curve does not touch the edge; not beyond 1 for values up to 1,
    /// because a share has no more.
    pub(crate) fn above(most: f64) -> Self {
        let more = most * 1.04;
        Self::linear(if most <= 1.0 { more.min(1.0) } else { more })
    }
    /// From zero, or from a round number at or below `least` if that is negative, to a round number at or above `most`.
    pub(crate) fn holding(least: f64, most: f64) -> Self {
        // Limited so that their distance stays finite.
        let most = if most.is_finite() { most.clamp(0.0, FAR) } else { 0.0 };
        if !least.is_finite() || least >= 0.0 {
            return Self::linear(most);
        }
        let least = least.max(-FAR);
        let step = step_for(most - least);
        Self { low: (least / step).floor() * step, high: (most / step).ceil() * step, log: false }
    }
    /// From zero to exactly `most`.
    pub(crate) fn exact(most: f64) -> Self {
        Self { low: 0.0, high: if most > 0.0 { most } else { 1.0 }, log: false }
    }
    /// Covers `values` with 1-2-5 limits, the lower one far enough away that the smallest value is not on the axis line; values at or below
    /// zero are ignored.
    pub(crate) fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for v in values.filter(|v| v.is_finite() && *v > 0.0) {
            low = low.min(v);
            high = high.max(v);
        }
        if high == 0.0 {
            return Self { low: 1.0, high: 1_000.0, log: true };
        }
        let below = one_two_five().rev().find(|t| *t <= low * 0.999).unwrap_or(low);
        let above = one_two_five().find(|t| *t >= high * 1.001).unwrap_or(high);
        Self { low: below.min(low * LEAST_FROM_EDGE), high: above, log: true }
    }
    /// An axis that covers both; they must be of the same kind.
    pub(crate) fn cover(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high), log: self.log }
    }
    /// Position of `value` as a share of the axis, clamped to it.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }
    /// Tick values and their labels, at most about ten.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        if self.log {
            let within = |t: &f64| (self.low * 0.999..=self.high * 1.001).contains(t);
            return one_two_five().filter(within).map(|t| (t, number(t))).collect();
        }
        let step = step_for(self.high - self.low);
        let first = (self.low / step - 1e-9).ceil();
        let count = ((self.high / step + 1e-9).floor() - first).max(0.0) as u32;
        let tick = |i: u32| (first + f64::from(i)) * step;
        // Longer labels would run into the axis's own label on a narrow page.
        let (by, thousands) = match self.high.abs().max(self.low.abs()) {
            most if most >= 1e6 => (1e6, " M"),
            most if most >= 1e5 => (1e3, " k"),
            _ => (1.0, ""),
        };
        let label = |value: f64| if value == 0.0 { number(value) } else { number(value / by) + thousands };
        (0..=count).map(|i| (tick(i), label(tick(i)))).collect()
    }
}

/// 1, 2, 5 times powers of ten, from 0.001 to 5 million.
fn one_two_five() -> impl DoubleEndedIterator<Item = f64> {
    const POWERS: [f64; 10] = [1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
    POWERS.into_iter().flat_map(|p| [p, 2.0 * p, 5.0 * p])
}

/// A 1-2-5 step that divides `most` into at most ten parts.
fn step_for(most: f64) -> f64 {
    one_two_five().find(|step| most / step <= 10.0).unwrap_or(most)
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let axis = Axis::linear(19.3);
        let labels: Vec<String> = axis.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["0", "2", "4", "6", "8", "10", "12", "14", "16", "18", "20"]);
        assert_eq!((Axis::above(1.0).high, Axis::above(0.99).high), (1.0, 1.0));
        assert_eq!(Axis::above(1.01), Axis::linear(1.01 * 1.04));
        let labels = |axis: Axis| axis.ticks().into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(labels(Axis::linear(1_400_000.0))[..3], ["0", "0.2 M", "0.4 M"]);
        assert_eq!(labels(Axis::linear(100_000.0))[9..], ["90 k", "100 k"]);
        let below = Axis::holding(-2_995.0, 12.0);
        assert_eq!((below.low, below.high), (-3_000.0, 500.0));
        assert_eq!(labels(below), ["-3000", "-2500", "-2000", "-1500", "-1000", "-500", "0", "500"]);
        assert_eq!(labels(Axis::holding(-0.3, 0.0)), ["-0.3", "-0.25", "-0.2", "-0.15", "-0.1", "-0.05", "0"]);
        assert_eq!(Axis::holding(3.0, 19.3), Axis::linear(19.3));
        let axis = Axis::logarithmic([103.0, 2_400.0].into_iter());
        assert_eq!((axis.low, axis.high), (103.0 * LEAST_FROM_EDGE, 5_000.0));
        let labels: Vec<String> = axis.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["100", "200", "500", "1000", "2000", "5000"]);
    }

    #[test]
    fn shares_stay_within_the_axis_even_for_odd_values() {
        let far = [Axis::holding(-f64::MAX, f64::MAX), Axis::holding(f64::NEG_INFINITY, f64::NAN)];
        let none = [Axis::linear(f64::NAN), Axis::linear(0.0), Axis::logarithmic(std::iter::empty()), Axis::exact(0.0)];
        for axis in none.into_iter().chain(far) {
            assert!(axis.ticks().len() <= 25, "{axis:?}");
            for value in [-1.0, 0.0, 1e-9, 1.0, 1e12] {
                let share = axis.share(value);
                assert!((0.0..=1.0).contains(&share), "{axis:?} {value} {share}");
            }
        }
        assert!((Axis::logarithmic([1.0, 100.0].into_iter()).share(10.0) - 1.0 / (200.0_f64).log10()).abs() < 0.4);
    }
}
