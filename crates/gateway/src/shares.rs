//! How peers share the gateway's resources: memory, places in the flow table, and new flows per second.
//!
//! Half of each is guaranteed, in equal parts per peer, and never lent: what a peer holds cannot be taken back when another asks
//! for it. The other half is first come, first served, until it is released.

use wavelane_base::{Instant, Span};

/// A limited resource.
#[derive(Debug, Default)]
pub(super) struct Lending {
    total: u64,
    guaranteed: u64,
    /// What each peer holds.
    held: Vec<u64>,
    /// The sum over peers of what each holds, but at least its guarantee.
    taken: u64,
}

impl Lending {
    /// `total` shared by `peers`, none of which holds anything yet.
    pub(super) fn new(total: u64, peers: usize) -> Self {
        let guaranteed = total / (2 * peers.max(1) as u64);
        Self { total, guaranteed, held: vec![0; peers], taken: guaranteed * peers as u64 }
    }
    /// `peer` holds `held` now.
    pub(super) fn hold(&mut self, peer: usize, held: u64) {
        let before = core::mem::replace(&mut self.held[peer], held);
        self.taken = self.taken - before.max(self.guaranteed) + held.max(self.guaranteed);
    }
    /// What `peer` may hold.
    pub(super) fn limit(&self, peer: usize) -> u64 {
        let others = self.taken - self.held[peer].max(self.guaranteed);
        self.total.saturating_sub(others).max(self.guaranteed)
    }
}

/// New flows per second, at most a second's worth at once.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    rate: u64,
    own_rate: u64,
    /// Flows that each peer may still open from its own rate, and that all may open from the common rate, in billionths.
    own: Vec<(Instant, u64)>,
    common: (Instant, u64),
    pub(super) refused: u64,
}

const ONE: u64 = 1_000_000_000;

impl Arrivals {
    /// `rate` flows per second, for `peers` peers.
    pub(super) fn new(now: Instant, rate: u64, peers: usize) -> Self {
        let own_rate = (rate / (2 * peers.max(1) as u64)).max(1);
        let rate = (rate / 2).max(1);
        Self { rate, own_rate, own: vec![(now, own_rate * ONE); peers], common: (now, rate * ONE), refused: 0 }
    }
    /// Whether `peer` may open one now.
    pub(super) fn admit(&mut self, now: Instant, peer: usize) -> bool {
        let admitted = take(now, &mut self.own[peer], self.own_rate) || take(now, &mut self.common, self.rate);
        self.refused += u64::from(!admitted);
        admitted
    }
}

fn take(now: Instant, (at, left): &mut (Instant, u64), rate: u64) -> bool {
    let since = now.since(*at).min(Span::from_secs(1));
    *left = (*left + rate * since.as_nanos()).min(rate * ONE);
    *at = now;
    let enough = *left >= ONE;
    *left -= if enough { ONE } else { 0 };
    enough
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The limit by its definition.
    fn limit(total: u64, held: &[u64], peer: usize) -> u64 {
        let guaranteed = total / (2 * held.len() as u64);
        let others = held.iter().enumerate().filter(|(i, _)| *i != peer);
        total.saturating_sub(others.map(|(_, held)| (*held).max(guaranteed)).sum()).max(guaranteed)
    }

    proptest! {
        /// Peers take and release arbitrarily within their limits.
        #[test]
        fn lending_never_exceeds_the_total_or_a_guarantee(
            total in 0..1_000_u64,
            peers in 1..6_usize,
            steps in proptest::collection::vec((0..6_usize, 0..1_200_u64), 1..60)
        ) {
            let mut lending = Lending::new(total, peers);
            let mut held = vec![0; peers];
            for (peer, wanted) in steps {
                let peer = peer % peers;
                prop_assert_eq!(lending.limit(peer), limit(total, &held, peer));
                prop_assert!(lending.limit(peer) >= total / (2 * peers as u64));
                held[peer] = wanted.min(lending.limit(peer));
                lending.hold(peer, held[peer]);
                prop_assert!(held.iter().sum::<u64>() <= total);
            }
        }
    }

    #[test]
    fn one_peer_may_use_all_but_the_guarantees() {
        let mut lending = Lending::new(800, 4);
        assert_eq!(lending.limit(0), 500);
        lending.hold(0, 500);
        assert_eq!([lending.limit(1), lending.limit(2)], [100, 100]);
        lending.hold(0, 150);
        assert_eq!(lending.limit(1), 450);
    }

    #[test]
    fn a_flood_of_one_peer_leaves_the_others_their_rate() {
        let mut arrivals = Arrivals::new(Instant::ZERO, 1_000, 2);
        let ms = Instant::from_millis;
        // Ten thousand per second for ten seconds: 250 of its own and 500 of all per second, and what there was at first.
        let flood = (0..100_000_u64).filter(|n| arrivals.admit(ms(n / 10), 0)).count();
        assert!((8_200..=8_250).contains(&flood), "{flood}");
        assert_eq!(arrivals.refused, 100_000 - flood as u64);
        let others = (0..1_000).filter(|n| arrivals.admit(ms(10_000 + n), 1)).count();
        assert!((500..=1_000).contains(&others), "{others}");
    }
}
