use super::*;
use crate::codec::Writer;
use proptest::prelude::*;

const WORD: Word = Word { count: 1 << 40, tag: [3; 16] };

fn round_trip(frame: &Frame<'_>) {
    let mut buf = [0; 8192];
    let mut w = Writer::new(&mut buf);
    frame.emit(&mut w).expect("the buffer is large enough");
    let len = w.len();
    let parsed: Vec<_> = Frames::new(&buf[..len]).collect();
    assert_eq!(parsed, vec![Ok(frame.clone())]);
}

fn flow_name() -> impl Strategy<Value = FlowName> {
    (any::<bool>(), 0..1u64 << 60).prop_map(|(mine, number)| FlowName { mine, number })
}

fn ranges() -> impl Strategy<Value = Ranges> {
    proptest::collection::vec((2u64..1000, 0u64..1000), 0..RANGES_MAX).prop_map(|steps| {
        let mut top = 1 << 40;
        Ranges(
            steps
                .into_iter()
                .map(|(gap, extent)| {
                    let last = top - gap;
                    top = last - extent;
                    (top, last)
                })
                .collect(),
        )
    })
}

proptest! {
    #[test]
    fn receipts_round_trip(flow in flow_name(), cumulative in 0..1u64 << 60, credit in 0..1u64 << 60, ranges in ranges()) {
        for state in ReceiptState::ALL {
            round_trip(&Frame::Receipt { flow, state, cumulative, credit, ranges: ranges.clone() });
        }
    }

    #[test]
    fn data_round_trips(flow in flow_name(), offset in 0..1u64 << 60, bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        round_trip(&Frame::Data { flow, offset, bytes: &bytes });
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_end(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        prop_assert!(Frames::new(&bytes).count() <= bytes.len());
    }
}

#[test]
fn every_other_frame_round_trips() {
    let flow = FlowName { mine: true, number: 70 };
    let v4: SocketAddr = "192.0.2.1:80".parse().expect("an address");
    let v6: SocketAddr = "[2001:db8::1]:443".parse().expect("an address");
    round_trip(&Frame::Ping);
    round_trip(&Frame::Close);
    round_trip(&Frame::Padding);
    round_trip(&Frame::Protected);
    round_trip(&Frame::Repaired { lane: 2, numbers: Ranges(vec![(7, 7), (1, 3)]) });
    for mask in [1, 0x81, 0x101, 1 | 1 << 127] {
        round_trip(&Frame::Repair(RepairFrame { lane: 0, key: 127, first: 1 << 40, mask, symbol: &[9; 30] }));
    }
    round_trip(&Frame::LaneAck(LaneAck {
        lane: 3,
        ranges: Ranges(vec![(90, 100), (5, 7)]),
        ack_delay_us: 250,
        arrival_us: 1 << 41,
        ecn: [1, 2, 3],
    }));
    round_trip(&Frame::AckWish { lane: 1, packets: 8, delay_us: 5_000, now: true });
    for passage in [None, Some(None), Some(Some(1 << 40))] {
        for (choice, attempt) in [(false, 0), (true, 0), (false, 1), (true, 1 << 40)] {
            for seal in [None, Some(Seal::Keys([5; OPEN_KEYS_LEN])), Some(Seal::Word(WORD))] {
                let of = |received| Passage { token: [7; 16], hops: 2, received, choice, attempt, seal };
                let passage = passage.map(of);
                round_trip(&Frame::Open(Open { flow, source: v6, target: v4, credit: 1 << 20, passage }));
            }
        }
    }
    for refusal in Reason::ALL.into_iter().map(Some).chain([None]) {
        round_trip(&Frame::Answer { flow, refusal, credit: 9, edge: None });
        for seal in [None, Some(Seal::Keys([5; ANSWER_KEYS_LEN])), Some(Seal::Word(WORD))] {
            let edge = Some(Answered { received: 1 << 33, seal });
            round_trip(&Frame::Answer { flow, refusal, credit: 9, edge });
        }
    }
    for bits in 0..16u64 {
        let length = (bits & 1 == 1).then_some(1 << 16);
        let (micro, vtx, parcels) = (bits & 2 != 0, bits & 4 != 0, bits & 8 != 0);
        round_trip(&Frame::Offer { flow, block: 9, start: 1 << 33, length, micro, vtx, parcels });
    }
    round_trip(&Frame::Finish { flow, length: 20_000_000 });
    for after in [None, Some(Reach { received: 1 << 33, finished: false }), Some(Reach { received: 0, finished: true })]
    {
        round_trip(&Frame::Reset { flow, reason: Reason::Restarted, after });
    }
    round_trip(&Frame::Forget { below: 12, ranges: Ranges(vec![(20, 22)]) });
    for word in [None, Some(WORD)] {
        round_trip(&Frame::Progress { flow, reach: Reach { received: 1 << 33, finished: true }, word });
    }
}

#[test]
fn unknown_frames_of_later_versions_are_skipped_by_their_length() {
    // type 0x43, length 2, body, then a ping
    let bytes = [0x40, 0x43, 2, 0xaa, 0xbb, 0x01];
    let frames: Vec<_> = Frames::new(&bytes).collect();
    assert_eq!(frames, vec![Ok(Frame::Unknown { kind: 0x43 }), Ok(Frame::Ping)]);
}

#[test]
fn a_range_list_past_its_bound_or_below_zero_is_refused() {
    // receipt, flow 1, accept, cumulative 0, credit 0, 0x4101 = 257 ranges
    let long = [0x09, 3, 0, 0, 0, 0x41, 0x01];
    assert_eq!(Frames::new(&long).next(), Some(Err(DecodeError::TooLong("range list"))));
    // one range ending at 3 with five numbers
    let negative = [0x09, 3, 0, 0, 0, 1, 3, 5];
    assert_eq!(Frames::new(&negative).next(), Some(Err(DecodeError::Invalid("range"))));
}

#[test]
fn a_full_datagram_costs_at_most_72_octets_besides_its_payload() {
    // A long-lived gateway: millions of flows, terabytes into one of them.
    let flow = FlowName { mine: true, number: 100_000_000 };
    let mut buf = [0; 1500];
    let mut w = Writer::new(&mut buf);
    let room = emit_data_to_end(&mut w, flow, 1 << 40).expect("fits");
    let header = 1500 - room;
    let fixed = crate::datagram::UDP4_OVERHEAD + crate::datagram::DATA_HEADER_LEN + crate::datagram::TAG_LEN;
    assert!(fixed + header <= 72, "{} octets", fixed + header);
}

#[test]
fn golden_frames() {
    let flow = FlowName { mine: true, number: 1 };
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf);
    Frame::Data { flow, offset: 300, bytes: b"hi" }.emit(&mut w).expect("fits");
    Frame::Receipt {
        flow: flow.from_other_side(),
        state: ReceiptState::Wait,
        cumulative: 5,
        credit: 6,
        ranges: Ranges(vec![(8, 9)]),
    }
    .emit(&mut w)
    .expect("fits");
    let len = w.len();
    assert_eq!(buf[..len], [0x07, 3, 0x41, 0x2c, 2, b'h', b'i', 0x09, 2, 1, 5, 6, 1, 9, 1]);
}

#[test]
fn golden_path_challenge_and_lane_bounds() {
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf);
    Frame::PathChallenge([1, 2, 3, 4, 5, 6, 7, 8]).emit(&mut w).expect("fits");
    Frame::PathResponse([9; 8]).emit(&mut w).expect("fits");
    let len = w.len();
    assert_eq!(buf[..len], [0x40, 0x48, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0x40, 0x49, 8, 9, 9, 9, 9, 9, 9, 9, 9]);
    let frames: Vec<_> = Frames::new(&buf[..len]).flatten().collect();
    assert_eq!(frames, [Frame::PathChallenge([1, 2, 3, 4, 5, 6, 7, 8]), Frame::PathResponse([9; 8])]);
    let mut w = Writer::new(&mut buf);
    Frame::LaneGone { lane: 3, next: 0x0102 }.emit(&mut w).expect("fits");
    Frame::Metered { lanes: 0x82, order: 7 }.emit(&mut w).expect("fits");
    let len = w.len();
    assert_eq!(buf[..len], [0x40, 0x4a, 9, 3, 0, 0, 0, 0, 0, 0, 1, 2, 0x40, 0x4b, 2, 0x82, 7]);
    let frames: Vec<_> = Frames::new(&buf[..len]).flatten().collect();
    assert_eq!(frames, [Frame::LaneGone { lane: 3, next: 0x0102 }, Frame::Metered { lanes: 0x82, order: 7 }]);
    let repair = |first: u64, mask: u8| {
        let mut bytes = vec![0x10, 0, 0];
        bytes.extend((0xc0 << 56 | first).to_be_bytes());
        bytes.extend([1, mask, 0, 0]);
        Frames::new(&bytes).next().map(|frame| frame.is_ok())
    };
    let highest = crate::datagram::NUMBER_MAX;
    assert_eq!([repair(highest, 1), repair(highest, 3), repair(highest - 1, 3)], [Some(true), Some(false), Some(true)]);
    for kind in [&[0x02, 0, 0, 0, 0, 0, 0][..], &[0x11, 0]] {
        let numbers = |last: u64| {
            let last = (0xc0 << 56 | last).to_be_bytes();
            let bytes = [kind, &[1], &last, &[0]].concat();
            Frames::new(&bytes).next().map(|frame| frame.is_ok())
        };
        assert_eq!([numbers(highest), numbers(highest + 1)], [Some(true), Some(false)]);
    }
}
