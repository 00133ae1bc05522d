//! Lateness of the host: the difference between deadlines and actual delivery times.

use wavelane_base::Span;

/// Width of a bin.
const BIN: Span = Span::from_micros(10);
/// Number of bins; anything later than 200 ms is in the last one.
const BINS: usize = 20_000;

/// A histogram of lateness with 10 us bins.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    bins: Vec<u32>,
    count: u64,
    max: Span,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { bins: vec![0; BINS], count: 0, max: Span::ZERO }
    }
}

impl Lateness {
    /// Records one delivery that was `late` after its deadline.
    pub(crate) fn note(&mut self, late: Span) {
        let bin = usize::try_from(late.as_nanos() / BIN.as_nanos()).unwrap_or(BINS).min(BINS - 1);
        self.bins[bin] = self.bins[bin].saturating_add(1);
        self.count += 1;
        self.max = self.max.max(late);
    }
    /// Adds another histogram.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.bins.iter_mut().zip(&other.bins) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }
    /// Number of recorded deliveries.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
    /// The largest lateness, exactly.
    pub(crate) fn max(&self) -> Span {
        self.max
    }
    /// Upper edge of the bin that holds the given per-mille of deliveries; zero if none were recorded.
    pub(crate) fn per_mille(&self, per_mille: u64) -> Span {
        let wanted = (self.count * per_mille).div_ceil(1000);
        if wanted == 0 {
            return Span::ZERO;
        }
        let mut seen = 0;
        for (i, n) in self.bins.iter().enumerate() {
            seen += u64::from(*n);
            if seen >= wanted {
                return BIN.times(i as u64 + 1).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_from_the_right_bins() {
        let mut l = Lateness::default();
        assert_eq!(l.per_mille(990), Span::ZERO);
        for us in 0..1000 {
            l.note(Span::from_micros(us));
        }
        assert_eq!(l.per_mille(990), Span::from_micros(990));
        assert_eq!(l.per_mille(500), Span::from_micros(500));
        let mut late = Lateness::default();
        late.note(Span::from_secs(3));
        l.merge(&late);
        assert_eq!((l.max(), l.count()), (Span::from_secs(3), 1001));
        assert_eq!(l.per_mille(1000), Span::from_secs(3).min(Span::from_millis(200)));
    }
}
