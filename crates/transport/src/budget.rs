//! What repair may cost in one direction of a link: retransmits, copies and repair symbols share one budget.
//!
//! First transmissions pay in, by a share that follows the measured loss; without loss nothing is paid in for bulk, and nothing optional is
//! spent. Retransmits of lost data are mandatory and are charged first, into debt if necessary; copies and repair symbols are sent only
//! while the balance is positive.

use wavelane_base::{Instant, Octets, Rate, Span};

/// Path loss from which anything is spent before a loss is known.
pub const LOSSY: f64 = 0.003;
/// A byte of bulk pays in twice the loss: retransmits take about once the loss, symbols and copies the rest.
const SHARE_PER_LOSS: f64 = 2.0;
/// In addition to this share.
const SHARE_BASE: f64 = 0.02;
/// At any loss, repair is no more than this share of first transmissions of bulk in the long run.
const SHARE_MAX: f64 = 0.5;
/// Micro traffic pays in this share instead if it is higher.
const SHARE_MICRO: f64 = 0.25;
/// Media pay in this many times the loss, up to [`SHARE_MAX`]: to restore losses within a few packets' time takes one symbol for every few
/// packets.
const MEDIA_SHARE_PER_LOSS: f64 = 8.0;
/// Octets per second that may always be spent if packets are lost: both copies of a single echo ...
const FLOOR: Rate = Rate::from_bps(8 * 4096);
/// ... but no more than this part of the lane's rate.
const FLOOR_PART: u64 = 32;
/// The part of the floor that is reserved for copies even while retransmits of bulk are due: a burst that follows another also hits small
/// exchanges.
const KEPT_MAX: i64 = 4 << 10;
/// Limit of the debt, and of savings at first and on paths with short windows.
const SAVED_MAX: i64 = 48 << 10;
/// Otherwise the amount that this many round trips of bulk pay in may be saved. When bulk ends, the retransmits of its last round trip are
/// charged and nothing more is paid in: with less, no symbols would be left for these very retransmits.
const SAVED_ROUNDS: f64 = 2.0;
/// The upper limit.
const SAVED_BOUND: i64 = 4 << 20;

/// The budget of one direction.
#[derive(Debug)]
pub struct RepairBudget {
    saved: i64,
    /// Reserved for copies.
    kept: i64,
    /// Until when the floor was paid in.
    at: Instant,
    /// Millionths of an octet paid in and not yet counted.
    rest: u64,
    loss: f64,
    floor: Rate,
    /// Most octets saved up.
    saved_max: i64,
}

impl Default for RepairBudget {
    fn default() -> Self {
        Self { saved: SAVED_MAX, kept: 0, at: Instant::ZERO, rest: 0, loss: 0.0, floor: FLOOR, saved_max: SAVED_MAX }
    }
}

impl RepairBudget {
    /// The lane has this rate, learns of losses after `rtt`, and loses the share `loss`.
    pub fn set_path(&mut self, rate: Rate, rtt: Span, loss: f64) {
        self.loss = loss;
        let rounds = rate.octets_in(rtt).get() as f64 * SAVED_ROUNDS;
        self.saved_max = ((rounds * self.share()) as i64).clamp(SAVED_MAX, SAVED_BOUND);
        self.floor = FLOOR.min(rate.scale(1, FLOOR_PART)).max(Rate::from_bps(1));
    }

    /// Whether packets are lost at all.
    pub fn is_lossy(&self) -> bool {
        self.loss > LOSSY
    }

    /// Share of first transmissions of bulk that is paid in.
    fn share(&self) -> f64 {
        if self.is_lossy() { (self.loss * SHARE_PER_LOSS + SHARE_BASE).min(SHARE_MAX) } else { 0.0 }
    }

    /// `octets` were sent for the first time.
    pub fn earn(&mut self, octets: u64, micro: bool) {
        self.pay_in(octets, if micro { self.share().max(SHARE_MICRO) } else { self.share() });
    }

    /// `octets` that cannot wait for a retransmit were sent for the first time.
    pub fn earn_media(&mut self, octets: u64) {
        let share = (self.loss * MEDIA_SHARE_PER_LOSS).min(SHARE_MAX);
        self.pay_in(octets, if self.is_lossy() { share.max(self.share()) } else { 0.0 });
    }

    fn pay_in(&mut self, octets: u64, share: f64) {
        self.rest += octets * (share * 1e6) as u64;
        self.saved = (self.saved + (self.rest / 1_000_000) as i64).min(self.saved_max);
        self.rest %= 1_000_000;
    }

    /// `octets` that were lost were retransmitted.
    pub fn charge(&mut self, octets: u64) {
        self.saved = (self.saved - octets as i64).max(-SAVED_MAX);
    }

    /// Pays in the floor, first what is reserved for copies.
    fn pay_floor(&mut self, now: Instant) {
        let due = self.floor.octets_in(now.since(self.at)).get();
        if due == 0 {
            return;
        }
        let paid = due.min(1 << 40) as i64;
        let kept = paid.min(KEPT_MAX - self.kept);
        self.kept += kept;
        self.saved = self.saved.saturating_add(paid - kept).min(self.saved_max);
        self.at = (self.at + self.floor.time_for(Octets::new(due))).min(now);
    }

    /// Whether the balance allows `octets`.
    pub fn affords(&mut self, now: Instant, octets: u64) -> bool {
        self.pay_floor(now);
        self.is_lossy() && self.saved >= octets as i64
    }

    /// Spends `octets`, if the balance allows it.
    pub fn spend(&mut self, now: Instant, octets: u64) -> bool {
        let affordable = self.affords(now, octets);
        if affordable {
            self.saved -= octets as i64;
        }
        affordable
    }

    /// The same for a copy of a small exchange.
    pub fn spend_copy(&mut self, now: Instant, octets: u64) -> bool {
        if self.spend(now, octets) {
            return true;
        }
        let affordable = self.is_lossy() && self.kept >= octets as i64;
        if affordable {
            self.kept -= octets as i64;
        }
        affordable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(loss: f64) -> RepairBudget {
        let mut budget = RepairBudget::default();
        budget.set_path(Rate::from_bps(20_000_000), Span::from_millis(100), loss);
        budget
    }

    /// Spends all that can be had in packets of 1,000 octets while `packets` of bulk leave in ten seconds.
    fn spent(loss: f64, packets: u64, repeats_per_mille: u64) -> u64 {
        let mut budget = budget(loss);
        let mut spent = 0;
        for n in 0..packets {
            let now = Instant::ZERO + Span::from_secs(10).scale(n, packets);
            budget.earn(1_000, false);
            if n % 1_000 < repeats_per_mille {
                budget.charge(1_000);
            }
            spent += u64::from(budget.spend(now, 1_000)) * 1_000;
        }
        spent
    }

    #[test]
    fn nothing_is_spent_where_nothing_is_lost() {
        assert_eq!(spent(0.0, 10_000, 0), 0);
        assert_eq!(spent(0.003, 10_000, 0), 0);
    }

    #[test]
    fn repeats_draw_on_the_same_account() {
        // 12 % of ten million octets, what was saved up, and the floor of ten seconds but for what is kept for copies.
        let all = 1_200_000 + 48 * 1_024 + 40 * 1_024 - KEPT_MAX as u64;
        let without = spent(0.05, 10_000, 0);
        assert!((all - 2_000..=all).contains(&without), "{without}");
        let with = spent(0.05, 10_000, 50);
        assert!((without - 500_000 - 2_000..=without - 500_000 + 2_000).contains(&with), "{with}");
    }

    #[test]
    fn the_repeats_of_a_last_window_leave_as_much_for_symbols() {
        let mut budget = budget(0.2);
        for _ in 0..1_000 {
            budget.earn(1_000, false);
        }
        // A fifth of 20 Mbit/s x 100 ms is lost, and nothing is paid in any more.
        budget.charge(50_000);
        assert!((0..50).all(|_| budget.spend(Instant::ZERO, 1_000)));
        // What is saved up is bounded however long the way is.
        budget.set_path(Rate::from_bps(10_000_000_000), Span::from_secs(10), 0.2);
        for _ in 0..100_000 {
            budget.earn(1_000, false);
        }
        assert!(!budget.spend(Instant::ZERO, SAVED_BOUND as u64 + 1));
    }

    #[test]
    fn copies_have_a_reserve_while_bulk_is_in_debt() {
        let mut budget = budget(0.05);
        budget.charge(200_000);
        let mut spent = 0;
        for ms in 0..10_000 {
            let now = Instant::from_millis(ms);
            assert!(!budget.spend(now, 1_000) || ms > 9_000, "bulk owes 48 KiB");
            spent += u64::from(budget.spend_copy(now, 100)) * 100;
            budget.charge(10);
        }
        assert!((35_000..=40_960).contains(&spent), "{spent}");
    }

    #[test]
    fn debt_is_bounded_and_paid_back() {
        let mut budget = budget(0.2);
        budget.charge(1 << 40);
        assert!(!budget.spend(Instant::ZERO, 1));
        for _ in 0..300 {
            budget.earn(1_000, false);
        }
        assert!(budget.spend(Instant::ZERO, 40_000), "300,000 x 42 % were paid in");
    }
}
