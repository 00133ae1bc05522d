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
    /// How many share.
    pub(super) fn peers(&self) -> usize {
        self.held.len()
    }
    /// What `peer` holds now.
    pub(super) fn held(&self, peer: usize) -> u64 {
        self.held[peer]
    }
    /// What `peer` may hold beside that.
    pub(super) fn free(&self, peer: usize) -> u64 {
        self.limit(peer).saturating_sub(self.held[peer])
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

fn take(now: Instant, bucket: &mut (Instant, u64), rate: u64) -> bool {
    take_of(now, bucket, (rate, rate * ONE), ONE)
}

/// Takes `cost` billionths from a bucket that gains `rate` ones a second and holds `depth` billionths.
fn take_of(now: Instant, (at, left): &mut (Instant, u64), (rate, depth): (u64, u64), cost: u64) -> bool {
    let since = now.since(*at).min(Span::from_secs(1));
    *left = (*left + rate * since.as_nanos()).min(depth);
    *at = now;
    let enough = *left >= cost;
    *left -= if enough { cost } else { 0 };
    enough
}

/// What agreeing on the keys of a sealed flow is counted as: the public-key operations take 133 us of one core.
const AGREEMENT: u64 = 150_000;
/// An agreement counts once more for each such time that its request waited: the packet thread lacks a processor, or has a slow one, and what it
/// takes there cannot be known.
const LATE: Span = Span::from_millis(20);
/// At most this often: some requests pass on the slowest machine.
const LATE_COST_MAX: u64 = 16;
/// Time per second that may go into them at the request of all neighbours: half of it in equal parts, half to whoever asks.
const LABOUR: u64 = 600_000_000;
/// Agreements that one neighbour may cause at once, although the time for them is earned later.
const AT_ONCE: u64 = 128;

/// Time on the packet thread that neighbours' requests cost, other than by the bytes they carry: a bucket for each, and one for all.
#[derive(Debug, Default)]
pub(super) struct Labour {
    own_rate: u64,
    own: Vec<(Instant, u64)>,
    common: (Instant, u64),
    pub(super) refused: u64,
}

impl Labour {
    const COMMON: (u64, u64) = (LABOUR / 2, AT_ONCE * AGREEMENT * ONE);

    pub(super) fn new(now: Instant, peers: usize) -> Self {
        let own_rate = LABOUR / (2 * peers.max(1) as u64);
        Self { own_rate, own: vec![(now, Self::COMMON.1); peers], common: (now, Self::COMMON.1), refused: 0 }
    }
    /// Whether keys may be agreed on now at the request of `peer`, which waited for `late`; if so, it has paid for it.
    pub(super) fn agree(&mut self, now: Instant, peer: usize, late: Span) -> bool {
        let own = (self.own_rate, Self::COMMON.1);
        let cost = AGREEMENT * (1 + late.as_nanos() / LATE.as_nanos()).min(LATE_COST_MAX) * ONE;
        let admitted =
            take_of(now, &mut self.own[peer], own, cost) || take_of(now, &mut self.common, Self::COMMON, cost);
        self.refused += u64::from(!admitted);
        admitted
    }
}

/// For this long after a neighbour refused a request for want of room, each of those whose requests we pass on to it has its own part only.
const PRESSED_FOR: Span = Span::from_secs(10);

/// Requests for keys that we pass on. The next gateway counts them as ours, so those of one neighbour must not use up what it allows us.
///
/// It allows one of its neighbours a part of [`LABOUR`]; each of ours is sure of an equal part of what that is where it has as many
/// neighbours as we have. More is passed on as long as it refuses nothing.
#[derive(Debug, Default)]
pub(super) struct Passing {
    rate: u64,
    depth: u64,
    own: Vec<(Instant, u64)>,
    /// Until when each neighbour is taken to be short of room.
    pressed: Vec<Instant>,
    pub(super) refused: u64,
}

impl Passing {
    pub(super) fn new(now: Instant, peers: usize) -> Self {
        let (all, others) = (peers.max(1) as u64, peers.saturating_sub(1).max(1) as u64);
        let depth = (AT_ONCE / others).max(1) * AGREEMENT * ONE;
        let rate = LABOUR / (2 * all * others);
        Self { rate, depth, own: vec![(now, depth); peers], pressed: vec![now; peers], refused: 0 }
    }
    /// Whether a request of `up` may be passed on to `down` now.
    pub(super) fn admit(&mut self, now: Instant, up: usize, down: usize) -> bool {
        let own = take_of(now, &mut self.own[up], (self.rate, self.depth), AGREEMENT * ONE);
        let admitted = own || now >= self.pressed[down];
        self.refused += u64::from(!admitted);
        admitted
    }
    /// `down` has refused one for want of room.
    pub(super) fn note_refusal(&mut self, now: Instant, down: usize) {
        self.pressed[down] = now + PRESSED_FOR;
    }
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
    fn key_agreements_of_one_peer_take_a_bounded_share_of_the_time() {
        for peers in [1, 2, 20] {
            let mut labour = Labour::new(Instant::ZERO, peers);
            // Ten thousand a second for ten seconds.
            let us = |n: u64| Instant::from_nanos(n * 1_000);
            let times: Vec<u64> = (0..100_000).filter(|n| labour.agree(us(n * 100), 0, Span::ZERO)).collect();
            let most_at_once =
                (0..100).map(|tenth| times.iter().filter(|n| *n / 1_000 == tenth).count()).max().unwrap_or(0);
            assert!((20_000..=40_500).contains(&times.len()), "2,000 a second are promised: {}", times.len());
            assert!(most_at_once <= 2 * AT_ONCE as usize + 405, "{most_at_once}");
            assert_eq!(labour.refused, 100_000 - times.len() as u64);
            let other = (1..peers)
                .last()
                .map(|peer| (0..AT_ONCE).filter(|_| labour.agree(us(10_000_000), peer, Span::ZERO)).count());
            assert_eq!(other, (peers > 1).then_some(AT_ONCE as usize), "another one has its own allowance");
        }
    }

    #[test]
    fn a_gateway_that_is_late_agrees_on_fewer_keys() {
        let admitted = |late: Span| {
            let mut labour = Labour::new(Instant::ZERO, 1);
            let at = |n: u64| Instant::from_nanos(n * 100_000);
            (0..100_000).filter(|n| labour.agree(at(*n), 0, late)).count()
        };
        let [never, little, much, hours] = [0, 30, 60, 10_000_000].map(|ms| admitted(Span::from_millis(ms)));
        assert!(little < never * 51 / 100 && much < never * 26 / 100, "{never} {little} {much}");
        assert!((never / 17..=never / 15).contains(&hours), "{never} {hours}");
    }

    /// One of a relay's two neighbours asks for 5,000 keys a second, the other for 20; the egress, with three neighbours, answers after
    /// 20 ms.
    #[test]
    fn a_flood_of_requests_that_are_passed_on_leaves_the_other_neighbours_theirs() {
        let granted = |rationed: bool| {
            let (mut passing, mut egress) = (Passing::new(Instant::ZERO, 3), Labour::new(Instant::ZERO, 3));
            let mut refusals = std::collections::VecDeque::new();
            let (mut asked, mut granted, mut of_flood) = (0, 0, 0);
            for n in 0..150_000_u64 {
                let now = Instant::from_nanos(n * 200_000);
                while refusals.pop_front_if(|at: &mut Instant| *at <= now).is_some() {
                    passing.note_refusal(now, 2);
                }
                for up in [0, 1].into_iter().filter(|up| *up == 0 || n.is_multiple_of(250)) {
                    let passed = passing.admit(now, up, 2) || !rationed;
                    let got = passed && egress.agree(now, 0, Span::ZERO);
                    if passed && !got {
                        refusals.push_back(now + Span::from_millis(20));
                    }
                    asked += u64::from(up == 1);
                    granted += u64::from(up == 1 && got);
                    of_flood += u64::from(up == 0 && got);
                }
            }
            (granted as f64 / asked as f64, of_flood)
        };
        let (share, of_flood) = granted(true);
        assert!(share >= 0.99, "{share}");
        assert!(of_flood > 10_000, "what is left is not held back: {of_flood}");
        assert!(granted(false).0 < 0.9, "the same without a ration");
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
