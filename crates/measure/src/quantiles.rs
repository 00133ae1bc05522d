//! Quantiles of a stream in bounded memory: exact while it is short, then in bins of a fixed relative width.

/// Samples that are kept as they are.
const EXACT_MAX: usize = 4_096;
/// Bins per factor of two: a quantile is then off by less than 1/128 of itself.
const BINS_PER_OCTAVE_LOG2: u32 = 6;
const BINS: usize = ((64 - BINS_PER_OCTAVE_LOG2 as usize) + 1) << BINS_PER_OCTAVE_LOG2;

/// Quantiles of whole numbers, such as times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    exact: Vec<u64>,
    bins: Vec<u32>,
    count: u64,
}

/// The bin of a value: its leading bits, and how many follow.
fn bin(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    let shift = bits.saturating_sub(BINS_PER_OCTAVE_LOG2 + 1);
    (((shift as usize) << BINS_PER_OCTAVE_LOG2) + (value >> shift) as usize).min(BINS - 1)
}

/// The middle of a bin.
fn middle(bin: usize) -> u64 {
    let shift = (bin >> BINS_PER_OCTAVE_LOG2).saturating_sub(1) as u32;
    let leading = (bin - ((shift as usize) << BINS_PER_OCTAVE_LOG2)) as u64;
    (leading << shift) + ((1 << shift) >> 1)
}

impl Quantiles {
    /// Adds a sample.
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        if self.bins.is_empty() {
            self.exact.push(value);
            if self.exact.len() > EXACT_MAX {
                self.bins = vec![0; BINS];
                for value in core::mem::take(&mut self.exact) {
                    self.bins[bin(value)] += 1;
                }
            }
        } else {
            let count = &mut self.bins[bin(value)];
            *count = count.saturating_add(1);
        }
    }
    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// The least value that `numerator / denominator` of the samples do not exceed; `None` without samples.
    ///
    /// The nearest rank, as [`crate::Probes`] has it.
    ///
    /// # Panics
    /// If the share is not between 0 and 1.
    pub fn quantile(&self, numerator: u64, denominator: u64) -> Option<u64> {
        assert!(numerator <= denominator && denominator > 0, "{numerator}/{denominator} is no share");
        let rank = (self.count * numerator).div_ceil(denominator).max(1);
        if self.bins.is_empty() {
            let mut sorted = self.exact.clone();
            sorted.sort_unstable();
            return sorted.get(rank as usize - 1).copied();
        }
        let mut below = 0;
        let within = self.bins.iter().position(|&n| {
            below += u64::from(n);
            below >= rank
        });
        within.map(middle)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn short_streams_are_exact() {
        let mut q = Quantiles::default();
        assert_eq!(q.quantile(1, 2), None);
        for v in [5, 1, 4, 2, 3] {
            q.add(v);
        }
        assert_eq!(
            (q.quantile(0, 1), q.quantile(1, 2), q.quantile(19, 20), q.quantile(1, 1)),
            (Some(1), Some(3), Some(5), Some(5))
        );
    }

    #[test]
    fn long_streams_are_right_to_one_part_in_128() {
        let mut q = Quantiles::default();
        // Multiplication by an odd number visits every residue once.
        for i in 0..100_000_u64 {
            q.add((i * 77_777) % 100_000 * 1_000);
        }
        assert_eq!(q.count(), 100_000);
        for percent in [1, 5, 50, 95, 99, 100] {
            let truth = (percent * 1_000 - 1) * 1_000;
            let got = q.quantile(percent, 100).unwrap();
            assert!(got.abs_diff(truth) * 128 <= truth, "{percent} %: {got} for {truth}");
        }
    }

    #[test]
    fn every_value_has_a_bin_whose_middle_is_near() {
        for value in (0..64).map(|b| 1_u64 << b).flat_map(|v| [v - 1, v, v + v / 3]).chain([u64::MAX]) {
            assert!(middle(bin(value)).abs_diff(value) <= value / 128, "{value}");
        }
    }
}
