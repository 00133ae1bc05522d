#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn sent(first: u64, end: u64, sent_ns: u64) -> Sent {
    Sent { first, end, sent_ns, again: 0, tsval: 0, ip_id: 0, sacked: false }
}

#[test]
fn an_acknowledgement_samples_the_segment_it_ends_at() {
    let mut l = Ledger::default();
    l.add(sent(0, 10, 100), 100);
    l.add(sent(10, 20, 200), 100);
    l.add(sent(20, 30, 300), 100);
    let acked = l.ack(20, 1_000);
    assert_eq!((acked.segments, acked.cumulatively), (2, 1));
    assert_eq!(acked.sample, Some(Sample::Rtt { ns: 800, octets: 10 }));
    assert!(l.acked_to(20) && !l.acked_to(10) && l.acked_before(1));
    assert_eq!(l.ack(20, 2_000), Acked::default());
}

#[test]
fn retransmitted_segments_give_no_rtt_sample() {
    let mut l = Ledger::default();
    l.add(sent(0, 10, 100), 100);
    l.add(sent(10, 20, 200), 100);
    let again = l.add(sent(0, 10, 500), 100);
    assert_eq!(again.again_octets, 10);
    assert_eq!(again.repeats.unwrap().segment.sent_ns, 100);
    assert_eq!((l.retries.most, l.retries.times.count), (1, 1));
    assert_eq!(l.clone().ack(10, 900).sample, Some(Sample::Ambiguous { ns: 400 }));
    assert_eq!(l.ack(20, 900).sample, Some(Sample::AfterLoss));
}

#[test]
fn a_gap_filled_is_out_of_order_and_a_gap_covered_is_split() {
    let mut l = Ledger::default();
    l.add(sent(0, 10, 1), 100);
    l.add(sent(20, 30, 2), 100);
    let filled = l.add(sent(10, 20, 3), 100);
    assert!(filled.out_of_order && filled.again_octets == 0 && filled.repeats.is_none());
    assert_eq!(filled.above.unwrap().segment.first, 20);
    l.add(sent(40, 50, 4), 100);
    let covers = l.add(sent(25, 60, 5), 100);
    assert_eq!(covers.again_octets, 5 + 10);
    assert_eq!(l.highest(), Some(60));
}

#[test]
fn sack_blocks_are_marked_once_however_they_grow() {
    let mut l = Ledger::default();
    for i in 0..10 {
        l.add(sent(i * 10, i * 10 + 10, i), 100);
    }
    assert_eq!(l.sack(20, 40), Some(3));
    assert_eq!(l.sack(20, 60), Some(5));
    assert_eq!(l.sack(20, 60), None);
    assert!(!l.head().unwrap().sacked);
}

#[test]
fn without_acknowledgements_memory_stays_bounded() {
    let mut l = Ledger::default();
    for i in 0..10_000 {
        l.add(sent(i * 10, i * 10 + 10, i), 64);
    }
    assert_eq!(l.in_flight(), 64);
    let mut large = Ledger::default();
    for i in 0..10_000 {
        large.add(sent(i * 10, i * 10 + 10, i), FLIGHT_MAX);
    }
    for i in 0..10_001 {
        large.ack(i * 10, i);
    }
    assert!(large.flight.is_empty() && large.flight.capacity() <= 4 * ROOM_KEPT, "{}", large.flight.capacity());
    // Every other segment missing: gaps below the edge are forgotten from the lowest.
    let mut gaps = Ledger::default();
    for i in 0..10_000 {
        gaps.add(sent(i * 20, i * 20 + 10, i), 64);
    }
    assert!(gaps.acked.len() <= ACKED_RANGES_MAX);
    assert_eq!(gaps.highest(), Some(9_999 * 20 + 10));
}

proptest! {
    /// Against the obvious model: the set of octets seen.
    #[test]
    fn repeated_octets_are_those_already_seen(
        steps in prop::collection::vec((0_u64..300, 1_u64..40, prop::option::of(0_u64..300)), 1..60)
    ) {
        let mut l = Ledger::default();
        let mut seen = BTreeSet::new();
        for (now, (first, length, ack)) in steps.into_iter().enumerate() {
            let octets = first..first + length;
            let again = octets.clone().filter(|o| seen.contains(o)).count() as u64;
            seen.extend(octets);
            let added = l.add(sent(first, first + length, now as u64), 1 << 10);
            prop_assert_eq!(added.again_octets, again);
            prop_assert_eq!(l.highest(), seen.last().map(|o| o + 1));
            if let Some(ack) = ack {
                l.ack(ack, now as u64);
            }
            prop_assert!(l.flight.iter().zip(l.flight.iter().skip(1)).all(|(a, b)| a.end <= b.first));
            prop_assert!(l.acked.iter().zip(l.acked.iter().skip(1)).all(|(a, b)| a.1 <= b.0));
        }
    }
}
