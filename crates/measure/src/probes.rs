//! Round trips of probes, answered and lost.

use wavelane_base::{Ratio, Span};

/// A lost probe ranks as longer than this, hence above every answered one.
///
/// A probe is lost if it is unanswered this long after the end of the run.
pub const LOST_RANKS_ABOVE: Span = Span::from_secs(5);
/// The same in milliseconds.
pub const LOST_RANK_MS: f64 = LOST_RANKS_ABOVE.as_nanos() as f64 / 1e6;

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

    /// Mean delay of the answered probes; `None` if there is none. Lost ones are excluded.
    pub fn mean_answered(&self) -> Option<Span> {
        let sum: u128 = self.answered.iter().map(|delay| u128::from(delay.as_nanos())).sum();
        let mean = sum.checked_div(self.answered.len() as u128)?;
        u64::try_from(mean).ok().map(Span::from_nanos)
    }
}

/// Delays in milliseconds, ascending; each without an answer ranks behind every answered one, and as
/// [`LOST_RANKS_ABOVE`] at least.
pub fn ranked_ms(delays: impl IntoIterator<Item = Option<f64>>) -> Vec<f64> {
    let all: Vec<Option<f64>> = delays.into_iter().collect();
    let mut ranked: Vec<f64> = all.iter().flatten().copied().collect();
    ranked.sort_by(f64::total_cmp);
    let slowest = ranked.last().copied().unwrap_or(0.0).max(LOST_RANK_MS);
    ranked.resize(all.len(), slowest);
    ranked
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
        let slow = Probes::new(ms(&[8_000]), 1);
        assert_eq!(at(&slow, 1, 2), Some(8_000), "an answer after 6 s is an answer");
        assert_eq!(at(&Probes::new(vec![], 3), 1, 2), None);
        assert_eq!(at(&Probes::default(), 1, 2), None);
        assert_eq!(Probes::default().mean_answered(), None);
        assert_eq!(Probes::new(ms(&[1, 2, 6]), 9).mean_answered(), Some(Span::from_millis(3)));
    }

    #[test]
    fn an_unanswered_delay_ranks_last() {
        assert_eq!(ranked_ms([Some(9.0), None, Some(3.0)]), [3.0, 9.0, 5_000.0]);
        assert_eq!(ranked_ms([None, Some(8_000.0), Some(1.0)]), [1.0, 8_000.0, 8_000.0]);
        assert!(ranked_ms([]).is_empty());
    }
}
