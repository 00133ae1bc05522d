//! Arrival times on the neighbour's clock. The neighbour may report any value, so they are brought near our own clock before any
//! computation: every difference between two of them, and every sum of a few hundred, fits.

use wavelane_base::Instant;

/// Values further than this (13 days) from the first arrival are clamped: no clock drifts so far.
const APART_MAX: i128 = 1 << 50;

/// The constant offset between the two clocks, taken from the first arrival.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    origin: Option<i128>,
}

impl Arrivals {
    /// When a packet sent at `sent_at` arrived, in nanoseconds, shifted by an unknown constant.
    pub(super) fn place(&mut self, sent_at: Instant, arrival_us: u64) -> u64 {
        let delay = i128::from(arrival_us) * 1_000 - i128::from(sent_at.as_nanos());
        let origin = *self.origin.get_or_insert(delay);
        let apart = (delay - origin).clamp(-APART_MAX, APART_MAX);
        sent_at.as_nanos().saturating_add((APART_MAX + apart) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_stay_and_nonsense_is_bounded() {
        let mut arrivals = Arrivals::default();
        let first = arrivals.place(Instant::from_millis(10), 5_000_000_000);
        let second = arrivals.place(Instant::from_millis(12), 5_000_003_000);
        assert_eq!(second - first, 3_000_000);
        for nonsense in [0, u64::MAX, u64::MAX / 1_000, (1 << 62) - 1] {
            let placed = arrivals.place(Instant::from_millis(14), nonsense);
            assert!(placed.abs_diff(first) <= 1 << 51, "{placed}");
        }
        let mut arrivals = Arrivals::default();
        assert!(arrivals.place(Instant::FAR_FUTURE, 0) > 0);
        assert!(arrivals.place(Instant::ZERO, u64::MAX) < 1 << 52);
    }
}
