#![allow(clippy::unwrap_used, reason = "tests may fail")]

use super::*;
use wavelane_base::Carrier;

const MIN_MTU: usize = Carrier::UDP.mtu_floor;
use proptest::prelude::*;

/// Searches a path that carries `limit`, every `nth` probe being lost besides.
fn search(limit: usize, nth: u32) -> (usize, u32) {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
    let (mut now, mut probes) = (Instant::ZERO, 0);
    while probes < 100 && now < Instant::from_secs(60) {
        if let Some(size) = mtu.poll(now) {
            probes += 1;
            mtu.probed(now, size, size > limit || nth > 0 && probes % nth == 0);
        }
        now += Span::from_millis(50);
    }
    (mtu.confirmed(), probes)
}

#[test]
fn finds_the_path_mtu_within_sixteen_bytes() {
    assert_eq!(search(1500, 0), (1500, 1));
    for limit in [1200, 1280, 1400, 1420, 1492, 1499] {
        let (found, probes) = search(limit, 0);
        assert!(found <= limit && found + PRECISION >= limit, "{limit}: {found}");
        assert!(probes <= 24, "{limit}: {probes}");
        let (found, _) = search(limit, 2);
        assert!(found <= limit && found + PRECISION >= limit, "{limit} with losses: {found}");
    }
}

/// Data as large as may be, and one small packet in five, on a path that carries `limit` and loses `loss` per mille
/// of all besides, one packet per millisecond over a round trip of 50 ms. Probes are answered. Gives the size used
/// at the end and how often the path was found to swallow packets.
fn carry(limit: usize, loss: u64, seconds: u64, seed: u64) -> (usize, u32) {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
    let (mut chance, mut falls) = (wavelane_base::Seed(seed).chance("path"), 0);
    for ms in 0..seconds * 1_000 {
        let now = Instant::from_millis(ms);
        if let Some(size) = mtu.poll(now) {
            mtu.probed(now, size, size > limit || chance.below(1_000) < loss);
        }
        let size = if ms % 5 == 0 { 100 } else { mtu.confirmed() };
        let lost = size > limit || chance.below(1_000) < loss;
        falls += u32::from(mtu.resolved(now, Span::from_millis(50), size, lost));
    }
    (mtu.confirmed(), falls)
}

#[test]
fn a_path_below_the_base_is_found_and_used() {
    for limit in [576, 600, 800, 1_000, 1_100, 1_199] {
        for loss in [0, 200] {
            let (found, falls) = carry(limit, loss, 30, limit as u64);
            // A size that passes is taken for refused if three probes in a row are lost.
            let least = if loss == 0 { (limit - PRECISION).max(MIN_MTU) } else { MIN_MTU };
            assert!((least..=limit).contains(&found), "{limit}, {loss}: {found}");
            assert_eq!(falls, 1, "{limit}, {loss}");
        }
    }
}

#[test]
fn loss_of_a_fifth_or_a_half_is_no_black_hole() {
    for seed in 0..5 {
        assert_eq!(carry(1_500, 200, 600, seed).1, 0);
        assert_eq!(carry(1_500, 500, 60, seed).1, 0);
    }
    // One large and one small packet per round trip.
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
    let mut chance = wavelane_base::Seed(9).chance("path");
    for n in 0..100_000u64 {
        let (now, rtt) = (Instant::from_millis(n * 50), Span::from_millis(50));
        for size in [1_200, 100] {
            assert!(!mtu.resolved(now, rtt, size, chance.below(5) == 0), "{n}");
        }
    }
}

#[test]
fn an_outage_is_no_black_hole() {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
    for n in 0..10_000u64 {
        let size = if n % 2 == 0 { 1_200 } else { 100 };
        assert!(!mtu.resolved(Instant::from_millis(n), Span::from_millis(50), size, true));
    }
    assert!(!mtu.resolved(Instant::from_secs(11), Span::from_millis(50), 1_200, false));
}

#[test]
fn a_path_that_shrinks_falls_to_the_floor_and_tries_the_base_first() {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
    assert_eq!(mtu.poll(Instant::ZERO), Some(1500));
    mtu.probed(Instant::ZERO, 1500, false);
    let fell = (0..40).position(|i| {
        let now = Instant::from_millis(100 + i * 10);
        mtu.resolved(now, Span::from_millis(100), 200, false);
        mtu.resolved(now, Span::from_millis(100), 1_500, true)
    });
    assert_eq!(fell, Some(20), "two round trips after the first loss");
    assert_eq!((mtu.confirmed(), mtu.is_below_base()), (MIN_MTU, false));
    let mut now = Instant::from_millis(100 + 20 * 10) + PROBE_GAP;
    assert_eq!(mtu.poll(now), Some(BASE_MTU));
    mtu.probed(now, BASE_MTU, false);
    assert_eq!((mtu.confirmed(), mtu.is_below_base()), (BASE_MTU, false));
    // The size that was lost is not tried again soon.
    for _ in 0..100 {
        now += PROBE_GAP;
        if let Some(size) = mtu.poll(now) {
            mtu.probed(now, size, size > 1_400);
        }
    }
    assert!((1_400 - PRECISION..=1_400).contains(&mtu.confirmed()), "{}", mtu.confirmed());
}

#[test]
fn no_path_is_used_with_less_than_the_floor() {
    // IPv6: the base lies below what every path carries.
    let mut mtu = MtuSearch::new(Instant::ZERO, BASE_MTU, 1500);
    for n in 0..1_000u64 {
        mtu.resolved(Instant::from_millis(n * 10), Span::from_millis(50), 100, false);
        mtu.resolved(Instant::from_millis(n * 10), Span::from_millis(50), 1_200, true);
    }
    assert_eq!((mtu.confirmed(), mtu.floor()), (BASE_MTU, BASE_MTU));
}

/// A size above the base was in use, and what was lost of it was smaller.
#[test]
fn a_path_that_shrinks_below_the_base_is_known_to_be_below_it() {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1280);
    assert_eq!(mtu.poll(Instant::ZERO), Some(1280));
    mtu.probed(Instant::ZERO, 1280, false);
    let fell = (0..100u64).any(|n| {
        let (now, rtt) = (Instant::from_millis(100 + n * 10), Span::from_millis(50));
        mtu.resolved(now, rtt, 100, false) | mtu.resolved(now, rtt, 1_125, true)
    });
    assert!(fell && mtu.is_below_base(), "{mtu:?}");
}

/// What is refused is tried again after the raise timer, once, whether probes or lost packets showed it.
#[test]
fn a_larger_size_is_tried_again_after_ten_minutes() {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
    let probes_in = |mtu: &mut MtuSearch, seconds: core::ops::Range<u64>, limit| {
        let mut probes = Vec::new();
        for ms in (seconds.start * 1_000..seconds.end * 1_000).step_by(100) {
            let (now, waits) = (Instant::from_millis(ms), mtu.waits(Instant::from_millis(ms)));
            let size = mtu.poll(now);
            assert_eq!(waits, size.is_some(), "{mtu:?}");
            if let Some(size) = size {
                probes.push(size);
                mtu.probed(now, size, size > limit);
            }
        }
        probes
    };
    assert!(probes_in(&mut mtu, 0..20, 1_400).len() > 3 && mtu.confirmed() > 1_400 - PRECISION);
    assert_eq!(probes_in(&mut mtu, 20..600, 1_500), []);
    assert_eq!(probes_in(&mut mtu, 600..621, 1_500), [1_500]);
    assert_eq!((mtu.confirmed(), probes_in(&mut mtu, 621..2_000, 1_500)), (1_500, Vec::new()));
    // Nothing lies between the floor and what was lost; below the base a minute is enough.
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 600);
    for n in 0..40 {
        let (now, rtt) = (Instant::from_millis(10 * n), Span::from_millis(100));
        mtu.resolved(now, rtt, 200, false);
        mtu.resolved(now, rtt, 590, true);
    }
    assert_eq!((mtu.confirmed(), mtu.is_below_base()), (MIN_MTU, true));
    assert_eq!(probes_in(&mut mtu, 1..60, 600), []);
    assert_eq!((probes_in(&mut mtu, 60..70, 600), mtu.confirmed()), (vec![600], 600));
}

/// An application that fills no datagram: telephony with pictures, or packets of 1,400 bytes on a path of 9,000.
#[test]
fn a_path_that_swallows_packets_which_do_not_fill_it_is_found() {
    for (max, size, limit, loss) in [(1_500, 1_290, 1_280, 0), (9_000, 1_460, 1_400, 0), (1_500, 700, 600, 20)] {
        let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, max);
        let mut chance = wavelane_base::Seed(1).chance("path");
        let mut last_ms = 0;
        for ms in 0..40_000 {
            let now = Instant::from_millis(ms);
            let carries = if ms < 10_000 { max } else { limit };
            if let Some(size) = mtu.poll(now) {
                mtu.probed(now, size, size > carries);
            }
            assert!(ms != 9_999 || mtu.confirmed() == max);
            // One in four is small.
            let size = if ms % 4 == 0 { 100 } else { size.min(mtu.confirmed()) };
            let lost = size > carries;
            last_ms = if lost { ms } else { last_ms };
            mtu.resolved(now, Span::from_millis(50), size, lost || chance.below(1_000) < loss);
        }
        assert!(last_ms < 11_000, "{size} of {max}: lost for {last_ms} ms, {mtu:?}");
    }
}

/// Chance losses of packets that are not large are taken for a black hole once in a while. The base is proven at once.
#[test]
fn the_base_is_tried_where_only_shorter_packets_were_lost() {
    for (limit, below_base) in [(1_500, false), (700, true)] {
        let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1_500);
        assert_eq!(mtu.poll(Instant::ZERO), Some(1_500));
        mtu.probed(Instant::ZERO, 1_500, false);
        for ms in 1..3_000 {
            let (now, rtt) = (Instant::from_millis(ms), Span::from_millis(20));
            if let Some(size) = mtu.poll(now) {
                mtu.probed(now, size, size > limit);
            }
            mtu.resolved(now, rtt, 100, false);
            mtu.resolved(now, rtt, 800.min(mtu.confirmed()), ms < 100 && mtu.confirmed() == 1_500);
            assert!(ms != 100 || mtu.confirmed() == MIN_MTU);
        }
        assert_eq!(mtu.is_below_base(), below_base);
        let least = if below_base { limit } else { 1_490 };
        assert!((least - PRECISION..=limit).contains(&mtu.confirmed()), "{mtu:?}");
    }
}

/// What is large is rare, and the medium loses many of the others.
#[test]
fn rare_large_packets_that_are_swallowed_are_found() {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1_500);
    assert_eq!(mtu.poll(Instant::ZERO), Some(1_500));
    mtu.probed(Instant::ZERO, 1_500, false);
    let mut chance = wavelane_base::Seed(1).chance("path");
    let fell = (1..100_000).position(|ms| {
        let size = if ms % 100 == 0 { 1_500 } else { 600 + chance.below(700) as usize };
        mtu.resolved(Instant::from_millis(ms), Span::from_millis(50), size, size > 1_400 || chance.below(5) == 0)
    });
    assert!(fell.is_some_and(|ms| ms < 2_000), "{fell:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A path whose limit changes again and again, at any pace, then stays. The lane carries bulk, or packets of any sizes.
    #[test]
    fn a_path_that_changes_is_used_as_far_as_it_carries(
        max in prop_oneof![Just(1_500_usize), Just(9_000), 1_200..2_000_usize],
        limits in prop::collection::vec((570..1_600_usize, 1..20_000_u64), 0..12),
        end in 576..1_600_usize,
        (loss, seed, bulk) in (prop_oneof![Just(0_u64), Just(10), Just(50)], any::<u64>(), any::<bool>()),
    ) {
        const LAST_MS: u64 = 700_000;
        let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, max);
        let mut chance = wavelane_base::Seed(seed).chance("path");
        let (mut probes, mut falls, mut late, mut ms) = (0_u64, 0_u64, 0_u64, 0_u64);
        for (limit, until) in limits.into_iter().chain([(end, LAST_MS)]) {
            let until = ms + until;
            let settled = until.saturating_sub(LAST_MS - 400_000);
            while ms < until {
                let now = Instant::from_millis(ms);
                let waits = mtu.waits(now);
                let size = mtu.poll(now);
                prop_assert_eq!(waits, size.is_some());
                if let Some(size) = size {
                    probes += 1;
                    mtu.probed(now, size, size > limit || chance.below(1_000) < loss);
                }
                let size = if ms % 40 == 0 { 100 } else if bulk { mtu.confirmed() } else { 50 + chance.below(mtu.confirmed() as u64 - 49) as usize };
                let lost = size > limit || chance.below(1_000) < loss;
                let fell = mtu.confirmed() > mtu.floor() && mtu.resolved(now, Span::from_millis(50), size, lost);
                falls += u64::from(fell);
                late += u64::from(size > limit && limit == end && ms > settled && until > LAST_MS - 1);
                prop_assert!((MIN_MTU..=max).contains(&mtu.confirmed()));
                ms += 10;
            }
        }
        let found = mtu.confirmed();
        // A medium that loses some hides that it swallows one in a hundred.
        prop_assert!(loss > 0 && !bulk || late == 0 && found <= end, "{late} swallowed after it was found");
        prop_assert!(found + PRECISION >= end.min(max), "{} of {}", found, end.min(max));
        // Every search ends: ten sizes at most, each three times.
        let searches = 1 + falls + ms / RAISE_AFTER_BELOW_BASE.as_millis();
        prop_assert!(probes <= 36 * searches, "{} probes, {} falls in {} ms", probes, falls, ms);
    }
}

/// A packet shorter than the floor was lost where the floor was in use. Then a probe showed that the base passes, but no data arrives.
#[test]
fn what_was_lost_before_a_probe_arrived_is_not_counted_after_it() {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
    let rtt = Span::from_millis(50);
    let mut now = Instant::ZERO;
    let mut swallows = |mtu: &mut MtuSearch, size, times| {
        for _ in 0..times {
            now += Span::from_millis(50);
            mtu.resolved(now, rtt, 100, false);
            mtu.resolved(now, rtt, size, true);
        }
        now + PROBE_GAP
    };
    let now = swallows(&mut mtu, 1_200, 10);
    assert_eq!(mtu.confirmed(), MIN_MTU);
    swallows(&mut mtu, 540, 1);
    // What was lost is not tried again, but what is shorter.
    let size = mtu.poll(now).unwrap();
    mtu.probed(now, size, false);
    assert!(size > MIN_MTU && mtu.confirmed() == size);
    let mut now = swallows(&mut mtu, size, 9);
    assert_eq!(mtu.confirmed(), size, "nine were lost since");
    now = now.max(swallows(&mut mtu, size, 2));
    assert_eq!(mtu.confirmed(), MIN_MTU);
    let mut probes = 0;
    for _ in 0..500 {
        now += PROBE_GAP;
        if let Some(size) = mtu.poll(now) {
            assert!(size > MIN_MTU, "{size}");
            probes += 1;
            mtu.probed(now, size, false);
        }
    }
    assert!(probes < 10 && mtu.confirmed() + PRECISION >= size, "{probes} probes, {mtu:?}");
}

/// There is nothing smaller to use, but it is known.
#[test]
fn a_path_below_the_floor_is_found_again_and_again_until_a_large_packet_arrives() {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
    let mut found = |from: u64, lost| {
        let found = (from..from + 200).filter(|n| {
            let (now, rtt) = (Instant::from_millis(n * 10), Span::from_millis(50));
            mtu.resolved(now, rtt, 100, false);
            mtu.resolved(now, rtt, mtu.confirmed(), lost)
        });
        found.count()
    };
    // Each takes three losses a round trip apart.
    let often = found(0, true);
    assert!((10..=20).contains(&often), "{often}");
    assert_eq!(found(200, false), 0);
}

/// Data leaves in batches of four that a card drops whole, but for every third packet, which leaves alone.
#[test]
fn where_batches_are_lost_packets_leave_one_by_one_and_batches_are_tried_again() {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
    let (mut arrived, mut found) = ([0; 2], 0);
    for ms in 0..1_200_000 {
        let now = Instant::from_millis(ms);
        if let Some(size) = mtu.poll(now) {
            mtu.probed(now, size, false);
        }
        let (rtt, size) = (Span::from_millis(5), mtu.confirmed());
        for _ in 0..if ms % 3 == 0 { 1 } else { 4 } {
            let together = ms % 3 != 0 && !mtu.is_single(now);
            arrived[usize::from(ms > 2_000)] += u64::from(!together);
            mtu.resolved(now, rtt, size, together);
            found += u32::from(mtu.left(now, rtt, size, together, together));
        }
    }
    // All but what shows it, and after ten minutes that nothing has changed.
    assert!(found == 2 && arrived[0] > 5_800 && arrived[1] > 3_590_000, "{found}, {arrived:?}");
    assert!(mtu.confirmed() > 1_400, "{}", mtu.confirmed());
}

/// A path that loses nine of ten packets in bursts as long as a batch, but never all that left together.
#[test]
fn bursts_of_loss_are_no_lost_batches() {
    let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
    for ms in 0..600_000_u64 {
        let now = Instant::from_millis(ms);
        for packet in 0..16 {
            let lost = packet > 0 || ms % 2 == 0;
            assert!(!mtu.left(now, Span::from_millis(5), 1_200, ms % 5 != 0, lost), "{ms} ms");
        }
    }
}

/// Bulk in batches of sixteen, and shorter packets alone, on a path that shrinks: their size is the cause.
#[test]
fn a_path_that_shrinks_loses_no_batches() {
    for (alone, rtt) in [(600, 20), (600, 50), (800, 100), (1_200, 200)] {
        let mut mtu = MtuSearch::new(Instant::ZERO, MIN_MTU, 1500);
        let mut under_way = std::collections::VecDeque::new();
        let mut fell = None;
        for ms in 0..20_000_u64 {
            let (now, limit) = (Instant::from_millis(ms), if ms < 5_000 { 1_500 } else { 1_300 });
            if let Some(size) = mtu.poll(now) {
                mtu.probed(now, size, size > limit);
            }
            let size = mtu.confirmed();
            let batch = if ms % 4 == 0 { 16 } else { 0 };
            under_way.extend((0..batch).map(|_| (ms + rtt, size, true, size > limit)));
            under_way.extend((ms % 20 == 1).then_some((ms + rtt, alone, false, alone > limit)));
            while let Some((_, size, together, lost)) = under_way.pop_front_if(|packet| packet.0 <= ms) {
                let rtt = Span::from_millis(rtt);
                fell = fell.or(mtu.resolved(now, rtt, size, lost).then_some(ms));
                assert!(!mtu.left(now, rtt, size, together, lost), "{alone}, {rtt}: at {ms} ms");
            }
        }
        assert!(
            fell.is_some_and(|ms| ms < 5_000 + 5 * rtt) && mtu.confirmed() > 1_280,
            "{fell:?}, {}",
            mtu.confirmed()
        );
    }
}
