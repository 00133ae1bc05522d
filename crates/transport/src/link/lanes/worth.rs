//! Whether a lane loses so much that it is worth nothing beside a good one.

/// A lane that surely loses more than this takes no bulk while one with less than the other loss works: each octet of it is sent so often,
/// most times by the other lane, that from 85 % on the two carry no more than one (`wavelane-sim`, `lane_sets`).
const LOSS_USELESS: f64 = 0.8;
pub(super) const LOSS_GOOD: f64 = 0.5;
/// Surely: by this many standard deviations.
const SURE: f64 = 2.5;
/// Of fewer packets nothing is said; of more than twice as many as the other the older ones count half.
const FATES_MIN: u64 = 50;
const FATES_MAX: u64 = 256;
/// Losses that count for each packet that arrives. An outage is no loss of that kind: what was lost in it counts little when it is over.
const LOST_PER_ARRIVAL: u64 = 24;

/// The fates of a lane's latest packets.
#[derive(Debug, Default)]
pub(super) struct Worth {
    /// Delivered and lost so far, as the lane counts them.
    seen: [u64; 2],
    /// Lost since one arrived.
    waiting: u64,
    delivered: u64,
    lost: u64,
}

impl Worth {
    /// So many of the lane's packets were delivered and lost by now.
    pub(super) fn note(&mut self, delivered: u64, lost: u64) {
        let [before, lost_before] = core::mem::replace(&mut self.seen, [delivered, lost]);
        // The lane began anew.
        if delivered < before || lost < lost_before {
            *self = Self { seen: self.seen, ..Self::default() };
            return;
        }
        self.waiting += lost - lost_before;
        let arrived = delivered - before;
        if arrived == 0 {
            return;
        }
        self.delivered += arrived;
        self.lost += core::mem::take(&mut self.waiting).min(arrived.saturating_mul(LOST_PER_ARRIVAL));
        while self.delivered + self.lost > 2 * FATES_MAX {
            self.delivered /= 2;
            self.lost /= 2;
        }
    }

    /// Whether it surely loses more than [`LOSS_USELESS`].
    pub(super) fn is_useless(&self) -> bool {
        let all = self.delivered + self.lost;
        let loss = self.lost as f64 / all.max(1) as f64;
        all >= FATES_MIN && loss - SURE * (loss * (1.0 - loss) / all as f64).sqrt() > LOSS_USELESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_base::{Ratio, Seed};

    /// Shares of the time at which a lane with this loss, in per cent, counts as useless.
    fn useless(percent: u32) -> f64 {
        let (mut worth, mut chance) = (Worth::default(), Seed(u64::from(percent)).chance("worth"));
        let (mut fates, mut times) = ([0, 0], 0);
        for _ in 0..20_000 {
            fates[usize::from(chance.happens(Ratio::new(percent, 100).unwrap_or(Ratio::ONE)))] += 1;
            worth.note(fates[0], fates[1]);
            times += u32::from(worth.is_useless());
        }
        f64::from(times) / 20_000.0
    }

    #[test]
    fn only_a_lane_that_loses_nine_of_ten_is_useless() {
        let shares = [50, 80, 90, 95].map(useless);
        assert!(shares[0] == 0.0 && shares[1] < 0.1 && shares[2] > 0.9 && shares[3] > 0.98, "{shares:?}");
    }

    #[test]
    fn an_outage_makes_no_lane_useless_and_one_that_is_better_now_is_used_soon() {
        let mut worth = Worth::default();
        worth.note(1_000, 0);
        worth.note(1_000, 5_000);
        worth.note(1_001, 5_000);
        assert!(!worth.is_useless());
        let mut bad = Worth::default();
        (1..=100).for_each(|n| bad.note(n, n * 9));
        assert!(bad.is_useless());
        let again = (1..).find(|n| {
            bad.note(100 + n, 900);
            !bad.is_useless()
        });
        assert!(again.is_some_and(|pings| pings < 40), "{again:?}");
    }
}
