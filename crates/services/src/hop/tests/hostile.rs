//! An authenticated but misbehaving peer: no panic, no growth past a bound, everything is counted.
use super::super::shares::FLOOR;
use super::*;
use proptest::prelude::*;
use wavelane_wire::frame::{Answered, Open, Passage, Ranges, Reach, ReceiptState, Word};

fn theirs(number: u64) -> FlowName {
    // As the peer writes it on the wire.
    FlowName { mine: true, number }
}
fn ours(number: u64) -> FlowName {
    theirs(number).from_other_side()
}
fn open(number: u64) -> Frame<'static> {
    Frame::Open(Open { flow: theirs(number), source: source(), target: target(), credit: 1 << 20, passage: None })
}
fn drain(hop: &mut Lone, now: Instant) -> Vec<Carried> {
    let mut carried = Vec::new();
    while hop.wants(now).is_some() {
        hop.fill(now, Class::Bulk, &mut Writer::new(&mut [0; MTU_PAYLOAD]), &mut carried);
    }
    carried
}
fn accepted() -> Lone {
    let mut hop = Lone::new(HopConfig::default());
    hop.handle_frame(ms(1), &open(0));
    hop.accept(ms(1), ours(0), None);
    drain(&mut hop, ms(1));
    hop
}

#[test]
fn a_thousand_half_open_flows_stay_within_the_table() {
    let mut hop = Lone::new(HopConfig { flows_max: 100, pool: Octets::new(1 << 20), ..HopConfig::default() });
    let mut carried = Vec::new();
    for n in 0..1_000 {
        hop.handle_frame(ms(n), &open(n));
        carried.extend(drain(&mut hop, ms(n)));
    }
    assert_eq!((hop.status().flows, hop.counters().refused_table_full), (100, 900));
    assert!(hop.status().closing <= 100 && hop.flows.len() <= 200 && hop.events.len() == 100);
    let own = hop.open(ms(1_000), source(), target(), None);
    assert_eq!(own, Err(HopOpenError::TableFull(100)));
    // Refusals beyond their share of the lane waited, the newest hundred of them.
    (1_000..2_000).for_each(|n| carried.extend(drain(&mut hop, ms(n))));
    assert!(carried.len() < 900, "{}", carried.len());
    carried.into_iter().for_each(|c| hop.delivered(ms(2_001), c));
    assert_eq!(hop.status().closing, 0, "refusals that arrived are forgotten");
}

#[test]
fn bytes_beyond_the_credit_are_dropped_and_counted() {
    let mut hop = accepted();
    let far = [1_u64 << 20, 1 << 40, (1 << 62) - 1];
    for offset in far {
        hop.handle_frame(ms(2), &Frame::Data { flow: theirs(0), offset, bytes: &[9; 1_000] });
    }
    assert_eq!((hop.counters().dropped_beyond_credit, hop.status().unread), (3_000, 0));
}

#[test]
fn overlapping_bytes_that_differ_change_nothing_that_is_held() {
    let mut hop = accepted();
    hop.handle_frame(ms(2), &Frame::Data { flow: theirs(0), offset: 4, bytes: b"ABCD" });
    hop.handle_frame(ms(2), &Frame::Data { flow: theirs(0), offset: 0, bytes: b"xxxxxxxxxx" });
    let mut buf = [0; 32];
    assert_eq!(hop.read(ms(2), ours(0), &mut buf), ReadOutcome::Data(10));
    assert_eq!(&buf[..10], b"xxxxABCDxx");
    assert_eq!(hop.counters().duplicate_octets, 4);
    hop.handle_frame(ms(2), &Frame::Data { flow: theirs(0), offset: 0, bytes: b"yyyyyyyyyy" });
    assert_eq!(hop.read(ms(2), ours(0), &mut buf), ReadOutcome::Blocked);
}

#[test]
fn a_finish_that_contradicts_is_refused() {
    let mut hop = accepted();
    hop.handle_frame(ms(2), &Frame::Data { flow: theirs(0), offset: 0, bytes: b"0123456789" });
    for length in [3, 20, 30] {
        hop.handle_frame(ms(2), &Frame::Finish { flow: theirs(0), length });
    }
    assert_eq!(hop.counters().protocol_errors, 2, "3 is below what is held, 30 is not 20");
    hop.handle_frame(ms(2), &Frame::Data { flow: theirs(0), offset: 15, bytes: b"0123456789" });
    assert_eq!(hop.counters().protocol_errors, 3, "bytes past the end");
    let mut buf = [0; 64];
    assert_eq!(hop.read(ms(2), ours(0), &mut buf), ReadOutcome::Data(10));
    assert_eq!(hop.read(ms(2), ours(0), &mut buf), ReadOutcome::Blocked, "10 of 20: no end yet");
}

#[test]
fn receipts_for_bytes_never_sent_are_ignored() {
    let mut hop = accepted();
    hop.write(ms(2), ours(0), &[0; 500]);
    drain(&mut hop, ms(2));
    let receipt = |state, cumulative, ranges| Frame::Receipt { flow: theirs(0), state, cumulative, credit: 0, ranges };
    hop.handle_frame(ms(3), &receipt(ReceiptState::Accept, 501, Ranges::default()));
    hop.handle_frame(ms(3), &receipt(ReceiptState::Accept, 0, Ranges(vec![(500, 900)])));
    hop.handle_frame(ms(3), &receipt(ReceiptState::Complete, 500, Ranges::default()));
    assert_eq!(hop.counters().protocol_errors, 3, "beyond, beyond, complete without an end");
    assert_eq!(hop.status().to_send, 0, "the last one's cumulative number was sound");
    assert_eq!(hop.status().flows, 1);
}

#[test]
fn forgetting_a_live_flow_resets_it_for_good() {
    let mut hop = accepted();
    while hop.poll_event().is_some() {}
    hop.handle_frame(ms(2), &Frame::Forget { below: 5, ranges: Ranges(vec![(9, 12)]) });
    assert_eq!(hop.poll_event(), Some(HopEvent::Reset(ours(0), Reason::Aborted)));
    for n in [0, 4, 9, 12] {
        hop.handle_frame(ms(3), &open(n));
    }
    assert_eq!((hop.poll_event(), hop.counters().protocol_errors), (None, 1));
    hop.handle_frame(ms(3), &open(5));
    assert!(matches!(hop.poll_event(), Some(HopEvent::Incoming { .. })));
}

#[test]
fn a_reset_that_overtakes_its_open_wins() {
    let mut hop = Lone::new(HopConfig::default());
    hop.handle_frame(ms(1), &Frame::Reset { flow: theirs(0), reason: Reason::Aborted, after: None });
    hop.handle_frame(ms(2), &open(0));
    assert_eq!((hop.poll_event(), hop.status().flows), (None, 0));
}

#[test]
fn the_peer_cannot_open_in_our_name_or_answer_its_own_flow() {
    let mut hop = accepted();
    let in_our_name = Open { flow: ours(3), source: source(), target: target(), credit: 0, passage: None };
    hop.handle_frame(ms(2), &Frame::Open(in_our_name));
    hop.handle_frame(ms(2), &Frame::Answer { flow: theirs(0), refusal: Some(Reason::Refused), credit: 0, edge: None });
    assert_eq!((hop.counters().protocol_errors, hop.counters().dropped_unknown_flow), (1, 1));
    assert_eq!(hop.status().flows, 1);
}

/// Range bookkeeping counts in the pool: isolated bytes fill it long before they are many, in one flow or in all.
#[test]
fn ranges_of_scattered_bytes_count_in_the_pool() {
    const POOL: u64 = 1 << 20;
    for flows in [1, 4, 100] {
        let mut hop = Lone::new(HopConfig { flows_max: 100, pool: Octets::new(POOL), ..HopConfig::default() });
        for flow in 0..flows {
            hop.handle_frame(ms(1), &open(flow));
            hop.accept(ms(1), ours(flow), None);
        }
        drain(&mut hop, ms(1));
        // As far as the credit goes, every third byte.
        for n in 0..80_000_u64 {
            for flow in 0..flows {
                hop.handle_frame(ms(2), &Frame::Data { flow: theirs(flow), offset: 10 + n * 3, bytes: &[1] });
            }
        }
        let (unread, counters) = (hop.status().unread, hop.counters());
        assert!(unread <= POOL / 2 + flows * FLOOR, "{flows} flows: {unread} bytes counted");
        assert!(counters.dropped_pool_full > 0, "{flows} flows did not fill the pool");
        let ranges: usize = hop.flows.values().map(|flow| flow.inc.held().count()).sum();
        let free = flows as usize * incoming::HELD_RANGES_FREE;
        let paid = (POOL / 2 / incoming::HELD_RANGE_OCTETS) as usize;
        assert!(ranges <= free + paid, "{flows} flows: {ranges} ranges");
        // Bytes that fill the first hole are always taken.
        hop.handle_frame(ms(2), &Frame::Data { flow: theirs(0), offset: 0, bytes: &[1; 10] });
        assert_eq!(hop.read(ms(2), ours(0), &mut [0; 64]), ReadOutcome::Data(11));
    }
}

/// Every other packet of a long path is lost at once: everything that arrived is kept, however many holes there are.
#[test]
fn thousands_of_holes_are_kept_while_the_pool_has_room() {
    let mut hop = Lone::new(HopConfig { flows_max: 4, pool: Octets::new(64 << 20), ..HopConfig::default() });
    hop.set_path(PathView { rtt: Span::from_millis(600), ..PathView::default() });
    hop.handle_frame(ms(1), &open(0));
    hop.accept(ms(1), ours(0), None);
    drain(&mut hop, ms(1));
    for n in 0..1_300 {
        hop.handle_frame(ms(2), &Frame::Data { flow: theirs(0), offset: 600 + n * 1_200, bytes: &[1; 600] });
    }
    assert_eq!(hop.flows[&ours(0)].inc.held().count(), 1_300);
    assert_eq!(hop.counters().received_octets, 1_300 * 600);
}

/// A receipt of every other byte splits ranges that were sent as one.
#[test]
fn single_byte_receipts_do_not_split_ranges_without_bound() {
    let (mut hop, flow) = (accepted(), theirs(0));
    hop.handle_frame(
        ms(2),
        &Frame::Receipt {
            flow,
            state: ReceiptState::Accept,
            cumulative: 0,
            credit: 1 << 40,
            ranges: Ranges::default(),
        },
    );
    let (mut buf, mut carried, mut sent) = (vec![0; 9_000], Vec::new(), 0);
    while sent < 120_000 {
        assert!(hop.write(ms(2), ours(0), &[7; 8_192]) > 0);
        while hop.fill(ms(2), Class::Bulk, &mut Writer::new(&mut buf), &mut carried) {}
        sent = hop.counters().first_octets;
    }
    for at in (0..100_000).step_by(512) {
        let ranges = (0..256).map(|n| (at + 2 * (256 - n), at + 2 * (256 - n))).collect();
        let (state, ranges) = (ReceiptState::Accept, Ranges(ranges));
        hop.handle_frame(ms(2), &Frame::Receipt { flow, state, cumulative: 0, credit: 1 << 40, ranges });
    }
    let stretches = hop.flows[&ours(0)].out.stretches();
    assert!((1_000..4_096).contains(&stretches), "{stretches} stretches");
}

fn frame() -> impl Strategy<Value = Frame<'static>> {
    let flow = || (any::<bool>(), 0..6_u64).prop_map(|(mine, number)| FlowName { mine, number });
    let number = || prop_oneof![0..3_000_u64, Just(1 << 20), Just((1 << 62) - 1)];
    let ranges = || {
        proptest::collection::vec((2..500_u64, 0..400_u64), 0..5).prop_map(|steps| {
            let mut floor = 6_000;
            let step = |(gap, extent): (u64, u64)| {
                let last = floor - gap;
                floor = last - extent.min(last);
                (floor, last)
            };
            Ranges(steps.into_iter().map(step).collect())
        })
    };
    let state = prop_oneof![
        Just(ReceiptState::Accept),
        Just(ReceiptState::Wait),
        Just(ReceiptState::Complete),
        Just(ReceiptState::AlreadyHave),
        Just(ReceiptState::Unknown),
        Just(ReceiptState::Refuse)
    ];
    let refusal = prop_oneof![Just(None), Just(Some(Reason::TimedOut))];
    let passage = proptest::option::of((proptest::option::of(number()), 0..3_u8))
        .prop_map(|some| some.map(|(received, hops)| Passage { token: [3; 16], hops, received, ..Passage::default() }));
    prop_oneof![
        (flow(), number(), passage).prop_map(|(flow, credit, passage)| {
            Frame::Open(Open { flow, source: source(), target: target(), credit, passage })
        }),
        (flow(), refusal, number(), proptest::option::of(number())).prop_map(|(flow, refusal, credit, received)| {
            let edge = received.map(|received| Answered { received, seal: None });
            Frame::Answer { flow, refusal, credit, edge }
        }),
        (flow(), number(), any::<bool>(), proptest::option::of(number())).prop_map(
            |(flow, received, finished, count)| {
                let word = count.map(|count| Word { count, tag: [1; 16] });
                Frame::Progress { flow, reach: Reach { received, finished }, word }
            }
        ),
        (flow(), number(), number(), proptest::option::of(number()), any::<bool>()).prop_map(
            |(flow, block, start, length, micro)| {
                Frame::Offer { flow, block, start, length, micro, vtx: false, parcels: false }
            }
        ),
        (flow(), number(), 0..1_200_usize).prop_map(|(flow, offset, len)| Frame::Data {
            flow,
            offset,
            bytes: &[5; 1_200][..len]
        }),
        (flow(), state, number(), number(), ranges()).prop_map(|(flow, state, cumulative, credit, ranges)| {
            Frame::Receipt { flow, state, cumulative, credit, ranges }
        }),
        (flow(), number()).prop_map(|(flow, length)| Frame::Finish { flow, length }),
        (flow(), proptest::option::of(number()), any::<bool>()).prop_map(|(flow, received, finished)| {
            let after = received.map(|received| Reach { received, finished });
            Frame::Reset { flow, reason: Reason::Aborted, after }
        }),
        (0..4_u64, ranges()).prop_map(|(below, ranges)| Frame::Forget { below, ranges }),
    ]
}

proptest! {
    #[test]
    fn any_frames_and_fates_leave_it_sound(
        frames in proptest::collection::vec((frame(), 0..40_u64, 0..8_u8), 1..150)
    ) {
        let mut hop = Lone::new(HopConfig { flows_max: 4, pool: Octets::new(1 << 20), ..HopConfig::default() });
        hop.set_path(PathView { loss: 0.1, ..PathView::default() });
        let (mut now, mut flying) = (ms(1), Vec::new());
        for (frame, wait, dice) in frames {
            now += Span::from_millis(wait);
            hop.handle_timeout(now);
            match dice {
                0 => drop(hop.open(now, source(), target(), None)),
                1 => flying.drain(..).for_each(|c| hop.lost(now, c)),
                2 => flying.drain(..).for_each(|c| hop.delivered(now, c)),
                _ => {}
            }
            hop.handle_frame(now, &frame);
            while let Some(event) = hop.poll_event() {
                match event {
                    HopEvent::Incoming { flow, .. } => hop.accept(now, flow, None),
                    HopEvent::Readable(flow) if dice > 4 => {
                        hop.read(now, flow, &mut [0; 500]);
                    }
                    HopEvent::Accepted(flow, _) => {
                        hop.write(now, flow, &[3; 2_000]);
                    }
                    _ => {}
                }
            }
            if let (Some(&flow), 3) = (hop.flows.keys().next(), dice) {
                hop.write(now, flow, &[4; 700]);
                hop.shutdown(now, flow);
            }
            if let (Some(&flow), 7) = (hop.flows.keys().next_back(), dice) {
                hop.end(now, flow, Reason::Aborted);
            }
            flying.extend(drain(&mut hop, now));
            prop_assert!(hop.poll_timeout().is_none_or(|w| w.at > now));
            prop_assert!(hop.live <= 4 && hop.flows.len() <= 9 && hop.timers.len() <= hop.flows.len());
            prop_assert!(hop.status().unread <= (512 << 10) + 4 * FLOOR);
            prop_assert_eq!(hop.live, hop.flows.values().filter(|f| f.state != State::Done).count());
            prop_assert_eq!(hop.held.to_send, hop.flows.values().map(|f| f.out.buffered()).sum::<u64>());
            let waits = hop.flows.iter().filter(|(_, f)| f.inc.receipt_at.is_some()).map(|(name, _)| *name);
            prop_assert_eq!(&hop.receipts, &waits.collect());
            if dice == 6 {
                hop.hasten_receipts();
            }
            prop_assert_eq!(hop.held.unread, hop.flows.values().map(|f| f.inc.buffered()).sum::<u64>());
        }
    }
}
