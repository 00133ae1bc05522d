//! Airtime queue limits (AQL, `net/mac80211` of Linux): how much airtime may be pending in a radio's ring, below the queues
//! that a discipline controls.
//!
//! Every item gets an estimate of its airtime when it is released to the ring. The estimate is pending until the item is
//! completed: acknowledged or given up.

use wavelane_base::Span;

/// The limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AqlTerms {
    /// A queue with less pending airtime than this may release another item, whatever the others have pending.
    pub low: Span,
    /// The same while less than `threshold` is pending in all.
    pub high: Span,
    /// Total pending airtime from which only the lower limit applies.
    pub threshold: Span,
    /// Limit for pending airtime of broadcast items, which are counted separately.
    pub broadcast: Span,
}

impl Default for AqlTerms {
    /// `IEEE80211_DEFAULT_AQL_TXQ_LIMIT_L`, `IEEE80211_DEFAULT_AQL_TXQ_LIMIT_H`, `IEEE80211_AQL_THRESHOLD`,
    /// `IEEE80211_DEFAULT_AQL_TXQ_LIMIT_BC`.
    fn default() -> Self {
        let ms = Span::from_millis;
        Self { low: ms(5), high: ms(12), threshold: ms(24), broadcast: ms(50) }
    }
}

/// The account of an item's airtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Account {
    /// A queue: of one receiver and access category.
    Queue(usize),
    /// All broadcast items together.
    Everybody,
}

/// The pending airtime of one radio: of each of its queues, one for each receiver and access category.
///
/// A queue with nothing pending may always release an item, as long as the lower limit is above zero; so the pending airtime
/// stays below the limit plus one item. The same holds for broadcast items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Aql {
    terms: AqlTerms,
    pending: Vec<Span>,
    total: Span,
    everybody: Span,
}

impl Aql {
    /// An empty one for `queues` queues.
    pub fn new(terms: AqlTerms, queues: usize) -> Self {
        Self { terms, pending: vec![Span::ZERO; queues], total: Span::ZERO, everybody: Span::ZERO }
    }
    /// Whether another item may be released.
    pub fn may_release(&self, account: Account) -> bool {
        let Account::Queue(queue) = account else { return self.everybody < self.terms.broadcast };
        let limit = if self.total < self.terms.threshold { self.terms.high } else { self.terms.low };
        // The higher limit never blocks an item that the lower one permits.
        self.pending[queue] < limit.max(self.terms.low)
    }
    /// Releases an item with this airtime estimate.
    pub fn release(&mut self, account: Account, estimate: Span) {
        match account {
            Account::Queue(queue) => {
                self.pending[queue] += estimate;
                self.total += estimate;
            }
            Account::Everybody => self.everybody += estimate,
        }
    }
    /// Completes an item; `estimate` is the value at its release.
    pub fn complete(&mut self, account: Account, estimate: Span) {
        match account {
            Account::Queue(queue) => {
                self.pending[queue] = self.pending[queue].saturating_sub(estimate);
                self.total = self.total.saturating_sub(estimate);
            }
            Account::Everybody => self.everybody = self.everybody.saturating_sub(estimate),
        }
    }
    /// Airtime pending of a queue.
    pub fn pending(&self, queue: usize) -> Span {
        self.pending[queue]
    }
    /// Airtime pending of all queues.
    pub fn total(&self) -> Span {
        self.total
    }
    /// Airtime pending of broadcast items.
    pub fn everybody(&self) -> Span {
        self.everybody
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule over a plain list of what is released and not yet completed: (queue, microseconds).
    fn stated(outstanding: &[(usize, u64)], queue: usize, (low, high, threshold): (u64, u64, u64)) -> bool {
        let own: u64 = outstanding.iter().filter(|(of, _)| *of == queue).map(|(_, us)| us).sum();
        let all: u64 = outstanding.iter().map(|(_, us)| us).sum();
        own < low || all < threshold && own < high
    }

    const QUEUES: usize = 5;

    proptest! {
        #[test]
        fn releases_are_those_of_the_rule(
            steps in prop::collection::vec((0..QUEUES, 0_u64..6_000, 0_usize..64, prop::bool::weighted(0.6)), 1..400),
            terms in prop_oneof![Just((5_000_u64, 12_000_u64, 24_000_u64)), (1_u64..9_000, 0_u64..15_000, 0_u64..40_000)],
        ) {
            let us = Span::from_micros;
            let mut aql = Aql::new(
                AqlTerms { low: us(terms.0), high: us(terms.1), threshold: us(terms.2), ..AqlTerms::default() },
                QUEUES,
            );
            let mut outstanding: Vec<(usize, u64)> = Vec::new();
            for (queue, estimate, which, releases) in steps {
                if releases {
                    let may = aql.may_release(Account::Queue(queue));
                    prop_assert_eq!(may, stated(&outstanding, queue, terms));
                    if may {
                        aql.release(Account::Queue(queue), us(estimate));
                        outstanding.push((queue, estimate));
                    }
                } else if !outstanding.is_empty() {
                    let (queue, estimate) = outstanding.swap_remove(which % outstanding.len());
                    aql.complete(Account::Queue(queue), us(estimate));
                }
                for queue in 0..QUEUES {
                    let own = outstanding.iter().filter(|(of, _)| *of == queue).map(|(_, us)| us).sum();
                    prop_assert_eq!(aql.pending(queue), us(own));
                    // An item of at most 6 ms beyond the larger limit.
                    prop_assert!(own < terms.0.max(terms.1) + 6_000);
                }
                prop_assert_eq!(aql.total(), us(outstanding.iter().map(|(_, us)| us).sum()));
            }
        }
    }

    /// Linux's numbers: a single queue may reach 12 ms, and from 24 ms in total the others 5 ms; broadcast up to 50 ms,
    /// separately.
    #[test]
    fn the_usual_limits() {
        let ms = Span::from_millis(1);
        let mut aql = Aql::new(AqlTerms::default(), 4);
        let fill = |aql: &mut Aql, account| {
            (0..100).take_while(|_| aql.may_release(account).then(|| aql.release(account, ms)).is_some()).count()
        };
        assert_eq!(fill(&mut aql, Account::Everybody), 50);
        let released = [0, 1, 2, 3].map(|queue| fill(&mut aql, Account::Queue(queue)));
        assert_eq!(released, [12, 12, 5, 5]);
        assert_eq!((aql.total(), aql.everybody()), (Span::from_millis(34), Span::from_millis(50)));
        // Below the threshold the higher limit applies to every queue again.
        (0..11).for_each(|_| aql.complete(Account::Queue(0), ms));
        assert_eq!(fill(&mut aql, Account::Queue(3)), 1);
        assert!(!aql.may_release(Account::Queue(3)) && aql.may_release(Account::Queue(0)));
        aql.complete(Account::Everybody, ms);
        assert_eq!(fill(&mut aql, Account::Everybody), 1);
    }
}
