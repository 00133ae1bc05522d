//! Round trips of probes, answered and lost.

use wavelane_base::{Ratio, Span};

/// A lost probe ranks as longer than this, hence behind every answered one.
///
/// A probe is lost if it is unanswered this long after the end of the run.
pub const LOST_RANKS_ABOVE: Span = Span::from_secs(5);

/// One point of a cumulative distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CdfPoint {
    /// A delay.
    pub delay: Span,
    /// Share of all probes, lost ones included, that were answered within it.
    pub share: f64,
}

/// The delays of answered probes, and the number of lost ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Probes {
    /// In ascending order.
    answered: Vec<Span>,
    lost: u64,
}

impl Probes {
    /// Probes with these delays, in any order, and `lost` more without an answer.
    pub fn new(mut answered: Vec<Span>, lost: u64) -> Self {
        answered.sort_unstable();
        Self { answered, lost }
    }

    /// Number of probes sent.
    pub fn sent(&self) -> u64 {
        self.answered.len() as u64 + self.lost
    }

    /// Number of probes lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The percentile by nearest rank: the smallest delay that at least the share `p` of all probes did not exceed.
    ///
    /// Rank `ceil(p * n)`, and 1 for `p = 0`.
    /// `None` if that rank is a lost probe, that is longer than [`LOST_RANKS_ABOVE`], or if there is no probe.
    pub fn percentile(&self, p: Ratio) -> Option<Span> {
        let n = u128::from(self.sent());
        let rank = (n * u128::from(p.num())).div_ceil(u128::from(p.den())).max(1);
        self.answered.get(usize::try_from(rank - 1).ok()?).copied()
    }

    /// Mean delay of the answered probes; `None` if there is none. It says nothing about the lost ones.
    pub fn mean_answered(&self) -> Option<Span> {
        let sum: u128 = self.answered.iter().map(|delay| u128::from(delay.as_nanos())).sum();
        let mean = sum.checked_div(self.answered.len() as u128)?;
        u64::try_from(mean).ok().map(Span::from_nanos)
    }

    /// Share of probes lost; `None` if there is none.
    pub fn loss(&self) -> Option<f64> {
        (self.sent() > 0).then(|| self.lost as f64 / self.sent() as f64)
    }

    /// The cumulative distribution as at most `most` points that all lie on it, ascending; the last is the slowest
    /// answer. With losses it ends below 1.
    pub fn cdf(&self, most: usize) -> Vec<CdfPoint> {
        let (n, most) = (self.answered.len(), most.min(self.answered.len()));
        let mut points: Vec<CdfPoint> = Vec::with_capacity(most);
        for i in 1..=most {
            // Evenly spaced ranks that end at the last one.
            let rank = (n as u128 * i as u128).div_ceil(most as u128) as usize;
            let delay = self.answered[rank - 1];
            // Equal delays are one step of the distribution, up to the last of them.
            let reached = self.answered.partition_point(|d| *d <= delay);
            let point = CdfPoint { delay, share: reached as f64 / self.sent() as f64 };
            if points.last() != Some(&point) {
                points.push(point);
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    fn ms(delays: &[u64]) -> Vec<Span> {
        delays.iter().map(|&d| Span::from_millis(d)).collect()
    }
    fn at(probes: &Probes, num: u32, den: u32) -> Option<u64> {
        probes.percentile(Ratio::new(num, den).unwrap()).map(Span::as_millis)
    }

    #[test]
    fn nearest_rank_of_the_textbook_example() {
        // Wikipedia, "Percentile", nearest-rank method, worked example 2: 15 20 35 40 50.
        let probes = Probes::new(ms(&[50, 15, 40, 20, 35]), 0);
        for (num, den, expected) in [(5, 100, 15), (3, 10, 20), (4, 10, 20), (1, 2, 35), (1, 1, 50), (0, 1, 15)] {
            assert_eq!(at(&probes, num, den), Some(expected), "{num}/{den}");
        }
    }

    #[test]
    fn the_rank_is_exact_where_floats_are_not() {
        // 0.07 * 100 = 7.000000000000001 in floats, whose ceiling is 8.
        let probes = Probes::new((1..=100).map(Span::from_millis).collect(), 0);
        for percent in 1..=100 {
            assert_eq!(at(&probes, percent, 100), Some(u64::from(percent)));
        }
        assert_eq!(at(&probes, 999, 1_000), Some(100));
    }

    #[test]
    fn lost_probes_rank_behind_all_answered_ones() {
        let probes = Probes::new((1..=94).map(Span::from_millis).collect(), 6);
        assert_eq!(at(&probes, 94, 100), Some(94));
        assert_eq!(at(&probes, 95, 100), None, "the 95th of 100 is lost");
        assert_eq!(at(&probes, 1, 2), Some(50), "of 100, not of 94");
        assert_eq!(probes.loss(), Some(0.06));
        let slow = Probes::new(ms(&[8_000]), 1);
        assert_eq!(at(&slow, 1, 2), Some(8_000), "an answer after 6 s is an answer");
        assert_eq!(at(&Probes::new(vec![], 3), 1, 2), None);
        assert_eq!(at(&Probes::default(), 1, 2), None);
        assert_eq!((Probes::default().loss(), Probes::default().mean_answered()), (None, None));
        assert_eq!(Probes::new(ms(&[1, 2, 6]), 9).mean_answered(), Some(Span::from_millis(3)));
    }

    #[test]
    fn the_cdf_ends_below_one_with_losses() {
        let probes = Probes::new(ms(&[10, 10, 10, 20, 40]), 5);
        let points: Vec<_> = probes.cdf(100).iter().map(|p| (p.delay.as_millis(), p.share)).collect();
        assert_eq!(points, [(10, 0.3), (20, 0.4), (40, 0.5)]);
        let many = Probes::new((1..=10_000).map(Span::from_micros).collect(), 0);
        let thin = many.cdf(50);
        assert_eq!(thin.len(), 50);
        assert!(thin.iter().all(|p| (p.share - p.delay.as_micros() as f64 / 1e4).abs() < 1e-12));
        assert_eq!(thin.last().unwrap().share, 1.0);
        assert!(many.cdf(0).is_empty() && Probes::new(vec![], 4).cdf(9).is_empty());
    }
}
