//! The disciplines against small reference models and RFC 8289's own behaviour.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    flow: u64,
    serial: u64,
    octets: usize,
    ect: bool,
    marked: bool,
    heeds: bool,
}

impl Queued for Item {
    fn octets(&self) -> usize {
        self.octets
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    fn heeds_drops(&self) -> bool {
        self.heeds
    }
    fn mark(&mut self) -> bool {
        self.marked |= self.ect;
        self.ect
    }
}

fn item(flow: u64, serial: u64, octets: usize) -> Item {
    Item { flow, serial, octets, ect: false, marked: false, heeds: false }
}

const ROOMY: Limits = Limits { items: 10_000, octets: 10_000_000 };

/// A source of `flows` flows at `load` times the rate of a server that takes one item per millisecond, for ten
/// seconds. Gives the queue and per flow (items served, longest sojourn in the second half).
fn serve(discipline: Discipline, loads: &[u64], ect: bool) -> (Queue<Item>, BTreeMap<u64, (u64, Span)>) {
    let mut queue = Queue::new(discipline, ROOMY);
    let mut served: BTreeMap<u64, (u64, Span)> = BTreeMap::new();
    for ms in 0..10_000u64 {
        let now = Instant::from_millis(ms);
        for (flow, load) in loads.iter().enumerate() {
            // Loads are per mille of the server's rate; arrivals are spread evenly.
            let (before, after) = (ms * load / 1_000, (ms + 1) * load / 1_000);
            (before..after).for_each(|n| queue.push(now, Item { ect, ..item(flow as u64, n, 1_000) }));
        }
        if let Some(popped) = queue.pop(now) {
            let entry = served.entry(popped.item.flow).or_default();
            entry.0 += 1;
            if ms >= 5_000 {
                entry.1 = entry.1.max(popped.sojourn);
            }
        }
    }
    (queue, served)
}

#[test]
fn fifo_lets_the_queue_grow_and_codel_does_not() {
    let (fifo, waits) = serve(Discipline::Fifo, &[1_100], false);
    assert!(waits[&0].1 > Span::from_millis(800), "{:?}", waits[&0]);
    assert_eq!(fifo.counters().dropped_delay, 0);
    // CoDel needs the drops to slow the source; a deaf one is met by ever more drops (RFC 8289, section 3.3).
    let (codel, waits) = serve(Discipline::CoDel, &[1_100], false);
    assert!(waits[&0].1 < Span::from_millis(200), "{:?}", waits[&0]);
    assert!(codel.counters().dropped_delay > 300, "{:?}", codel.counters());
}

#[test]
fn a_load_below_the_rate_is_never_touched() {
    for discipline in [Discipline::Fifo, Discipline::CoDel, Discipline::FqCoDel] {
        let (queue, _) = serve(discipline, &[400, 500], true);
        let counters = queue.counters();
        assert_eq!((counters.dropped_delay, counters.dropped_full, counters.marked), (0, 0, 0), "{discipline:?}");
    }
}

#[test]
fn ecn_capable_packets_are_marked_instead_of_dropped() {
    let (queue, _) = serve(Discipline::CoDel, &[1_050], true);
    let counters = queue.counters();
    assert!(counters.marked > 50 && counters.dropped_delay == 0, "{counters:?}");
}

#[test]
fn the_first_drop_comes_one_interval_above_target() {
    let mut queue = Queue::new(Discipline::CoDel, ROOMY);
    (0..1_000).for_each(|n| queue.push(Instant::ZERO, item(0, n, 1_000)));
    let mut drops = Vec::new();
    for ms in 0..500 {
        let before = queue.counters().dropped_delay;
        queue.pop(Instant::from_millis(ms));
        if queue.counters().dropped_delay > before {
            drops.push(ms);
        }
    }
    // Above target from 5 ms on; then intervals of 100 ms over the square root of 1, 2, 3, 4, ...
    assert_eq!(drops[..5], [105, 205, 276, 334, 384], "{drops:?}");
}

#[test]
fn take_all_bypasses_codel() {
    for discipline in [Discipline::Fifo, Discipline::CoDel, Discipline::FqCoDel] {
        let standing = || {
            let mut queue = Queue::new(discipline, ROOMY);
            (0..1_000).for_each(|n| queue.push(Instant::ZERO, item(n % 2, n, 1_000)));
            assert!((0..100).all(|ms| queue.pop(Instant::from_millis(ms)).is_some()));
            queue
        };
        let (mut queue, had) = (standing(), standing().len());
        let taken = queue.take_all();
        assert_eq!((taken.len(), queue.len(), queue.octets()), (had, 0, 0), "{discipline:?}");
        assert!([0, 1].iter().all(|flow| {
            let of_flow = taken.iter().filter(|item| item.flow == *flow);
            of_flow.is_sorted_by_key(|item| item.serial)
        }));
        // It goes on like a new one.
        queue.push(Instant::from_secs(4), item(0, 1_000, 1_000));
        assert_eq!(queue.pop(Instant::from_secs(4)).map(|popped| popped.item.serial), Some(1_000));
        let c = queue.counters();
        assert_eq!(c.pushed, c.popped + c.dropped_full + c.dropped_delay + c.dropped_age);
        // Taken one by one after a pause, most would be dropped where there is a law.
        let mut queue = standing();
        let popped = core::iter::from_fn(|| queue.pop(Instant::from_secs(4))).count();
        assert_eq!(popped < had, discipline != Discipline::Fifo, "{discipline:?}: {popped} of {had}");
    }
}

#[test]
fn a_sparse_flow_passes_a_fat_one_and_fat_ones_share() {
    let (_, waits) = serve(Discipline::FqCoDel, &[2_000, 2_000, 20], false);
    assert!(waits[&2].1 <= Span::from_millis(2), "{:?}", waits[&2]);
    assert_eq!(waits[&2].0, 200);
    assert!(waits[&0].0.abs_diff(waits[&1].0) <= 4, "{waits:?}");
}

#[test]
fn overflow_takes_from_the_fattest() {
    for limits in [Limits { items: 100, octets: usize::MAX }, Limits { items: usize::MAX, octets: 100_000 }] {
        let mut queue = Queue::new(Discipline::FqCoDel, limits);
        (0..5).for_each(|n| queue.push(Instant::ZERO, item(1, n, 1_000)));
        (0..1_000).for_each(|n| queue.push(Instant::ZERO, item(2, n, 1_000)));
        assert!(queue.len() <= 100 && queue.octets() <= 100_000);
        let thin: Vec<_> = core::iter::from_fn(|| queue.pop(Instant::ZERO))
            .filter(|p| p.item.flow == 1)
            .map(|p| p.item.serial)
            .collect();
        assert_eq!(thin, [0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_hog_of_one_packet_flows_cannot_starve_an_old_one() {
    let mut queue = Queue::new(Discipline::FqCoDel, ROOMY);
    (0..100).for_each(|n| queue.push(Instant::ZERO, item(0, n, 1_000)));
    let (mut old, mut serial) = (0, 0);
    for ms in 0..100 {
        // Every pop finds a fresh packet of a flow that was empty a moment ago.
        queue.push(Instant::from_millis(ms), item(1, serial, 1_000));
        serial += 1;
        old += u64::from(queue.pop(Instant::from_millis(ms)).is_some_and(|p| p.item.flow == 0));
    }
    assert!(old >= 45, "{old}");
}

/// Serves an item per millisecond to a flow of `load` per mille of that which never slows down, and gives the longest
/// waits of its items in the first two seconds and after them.
fn deaf(load: u64, terms: Terms) -> (Span, Span) {
    serve_deaf(load, terms, false)
}

/// The same, with what is thought of the flow beforehand.
fn serve_deaf(load: u64, terms: Terms, heeds: bool) -> (Span, Span) {
    let mut queue = Queue::new(Discipline::FqCoDel, ROOMY);
    queue.set_terms(terms);
    let mut waits = (Span::ZERO, Span::ZERO);
    for ms in 0..6_000u64 {
        let now = Instant::from_millis(ms);
        (ms * load / 1_000..(ms + 1) * load / 1_000).for_each(|n| queue.push(now, Item { heeds, ..item(0, n, 1_000) }));
        let Some(popped) = queue.pop(now) else { continue };
        let longest = if ms < 2_000 { &mut waits.0 } else { &mut waits.1 };
        *longest = popped.sojourn.max(*longest);
    }
    waits
}

#[test]
fn a_flow_that_never_slows_down_waits_no_longer_than_the_age() {
    for load in [1_200, 1_500, 3_000, 20_000] {
        let (first, after) = deaf(load, Terms::default());
        assert!(first <= AGE_MAX && after <= AGE_MAX, "{load}: {first}, {after}");
    }
    // One that is taken to heed drops has eight intervals to show it.
    let (first, after) = serve_deaf(1_500, Terms::default(), true);
    assert!(first > AGE_MAX && after <= AGE_MAX, "{first}, {after}");
    // On a long path a flow may first answer drops, which takes a round trip; after eight it is known that it does not.
    let interval = Span::from_millis(200);
    let long = Terms { target: interval.scale(1, 20), interval, age: Span::from_millis(160), ..Terms::default() };
    let (first, after) = deaf(3_000, long);
    assert!(first > AGE_MAX && first <= long.age && after <= AGE_MAX, "{first}, {after}");
}

#[test]
fn waiting_for_a_paused_lane_is_not_age() {
    let mut queue = Queue::new(Discipline::FqCoDel, ROOMY);
    (0..50).for_each(|n| queue.push(Instant::ZERO, item(0, n, 1_000)));
    // Nothing is served for half a second; then the burst leaves within the age.
    let popped = (500..600).filter(|ms| queue.pop(Instant::from_millis(*ms)).is_some()).count();
    assert_eq!((popped, queue.counters().dropped_age), (50, 0));
    // Sparse flows that are served meanwhile are no service of this one.
    (0..50).for_each(|n| queue.push(Instant::from_millis(1_000), item(0, n, 1_000)));
    queue.pop(Instant::from_millis(1_000));
    queue.pop(Instant::from_millis(1_001));
    for n in 0..30 {
        queue.push(Instant::from_millis(1_010 + n * 10), item(1 + n, 0, 64));
        assert_eq!(queue.pop(Instant::from_millis(1_010 + n * 10)).map(|p| p.item.octets), Some(64));
    }
    let popped = (1_400..1_500).filter(|ms| queue.pop(Instant::from_millis(*ms)).is_some()).count();
    assert!(popped > 0);
    assert_eq!(queue.counters().dropped_age, 0);
}

#[test]
fn a_flow_keeps_four_packets_however_long_they_wait() {
    let mut queue = Queue::new(Discipline::FqCoDel, ROOMY);
    // A modem's rate: a packet of 1,500 octets takes 360 ms.
    queue.set_terms(Terms { pause: Span::from_secs(6), ..Terms::default() });
    (0..5).for_each(|n| queue.push(Instant::ZERO, item(0, n, 1_500)));
    let popped = (0..10).filter(|n| queue.pop(Instant::from_millis(n * 360)).is_some()).count();
    // The law of delay took one.
    assert_eq!((popped, queue.counters().dropped_age), (4, 0));
}

fn limits() -> impl Strategy<Value = Limits> {
    (1usize..40, 1_500usize..30_000).prop_map(|(items, octets)| Limits { items, octets })
}

proptest! {
    /// FIFO is exactly a bounded list.
    #[test]
    fn fifo_is_a_list(limits in limits(), steps in proptest::collection::vec((any::<bool>(), 1usize..1500), 0..300)) {
        let (mut queue, mut model) = (Queue::new(Discipline::Fifo, limits), VecDeque::new());
        for (serial, (push, octets)) in steps.into_iter().enumerate() {
            if push {
                let next = item(0, serial as u64, octets);
                let held: usize = model.iter().map(|i: &Item| i.octets).sum();
                if model.len() < limits.items && held + octets <= limits.octets {
                    model.push_back(next);
                }
                queue.push(Instant::ZERO, next);
            } else {
                prop_assert_eq!(queue.pop(Instant::ZERO).map(|p| p.item), model.pop_front());
            }
            prop_assert_eq!(queue.len(), model.len());
        }
    }

    /// Whatever the discipline: bounds hold, nothing is made or lost unaccounted, flows keep their order, and a queue
    /// with something in it gives something.
    #[test]
    fn every_discipline_accounts_for_every_item(
        which in 0usize..3,
        limits in limits(),
        steps in proptest::collection::vec((0u64..30, 0u64..4, 1usize..1500, any::<bool>()), 0..400),
    ) {
        let discipline = [Discipline::Fifo, Discipline::CoDel, Discipline::FqCoDel][which];
        let mut queue = Queue::new(discipline, limits);
        let (mut now, mut newest) = (Instant::ZERO, BTreeMap::new());
        for (serial, (wait, flow, octets, pop)) in steps.into_iter().enumerate() {
            now += Span::from_millis(wait);
            queue.push(now, item(flow, serial as u64, octets));
            if pop {
                let had = queue.len();
                let popped = queue.pop(now);
                prop_assert_eq!(popped.is_some(), had > 0);
                if let Some(popped) = popped {
                    let last = newest.insert(popped.item.flow, popped.item.serial);
                    prop_assert!(last.is_none_or(|last| last < popped.item.serial));
                }
            }
            let c = queue.counters();
            prop_assert_eq!(c.pushed, c.popped + c.dropped_full + c.dropped_delay + c.dropped_age + queue.len() as u64);
            prop_assert!(queue.len() <= limits.items && queue.octets() <= limits.octets);
        }
        while queue.pop(now).is_some() {}
        prop_assert_eq!((queue.len(), queue.octets()), (0, 0));
    }

    /// While all of them have something waiting, no flow is ahead of another by more than a quantum and an item.
    #[test]
    fn backlogged_flows_get_equal_octets(sizes in proptest::collection::vec(64usize..1500, 2..8)) {
        let mut queue = Queue::new(Discipline::FqCoDel, ROOMY);
        for (flow, octets) in sizes.iter().enumerate() {
            (0..400).for_each(|n| queue.push(Instant::ZERO, item(flow as u64, n, *octets)));
        }
        let mut got = vec![0i64; sizes.len()];
        // Fewer octets than the flow with the smallest items has.
        let total: usize = 400 * 64 / 2 * sizes.len();
        while got.iter().sum::<i64>() < total as i64 {
            let popped = queue.pop(Instant::ZERO).expect("plenty");
            got[popped.item.flow as usize] += popped.item.octets as i64;
        }
        let spread = got.iter().max().zip(got.iter().min()).map_or(0, |(most, least)| most - least);
        prop_assert!(spread <= 2 * 1_514 + 1_500, "{:?}", got);
    }
}
