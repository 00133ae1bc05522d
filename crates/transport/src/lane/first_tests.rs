//! A lane whose padded ping is answered late, falsely or never, as the first window's size depends on the answer.

#![allow(clippy::unwrap_used, reason = "test code")]

use super::*;
use wavelane_base::{Carrier, Class, Instant, Rate};
use wavelane_wire::frame::{LaneAck, Ranges};

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn ack(ranges: &[(u64, u64)], arrival_us: u64) -> LaneAck {
    LaneAck { lane: 0, ranges: Ranges(ranges.to_vec()), ack_delay_us: 0, arrival_us, ecn: [0; 3] }
}

fn lane() -> LaneSender<u64> {
    let config = LaneConfig {
        lane: 0,
        controller: Controller::Delay,
        start_rate: None,
        carrier: Carrier { mtu_max: 1500, ..Carrier::UDP },
        sent_max: SENT_MIN,
    };
    LaneSender::new(ms(0), config)
}

/// A small packet (0) and a padded ping (1) were sent.
fn asking() -> LaneSender<u64> {
    let mut lane = lane();
    lane.sent(ms(0), 60, true, true, 0);
    assert!(lane.wants_gauge(false));
    lane.sent_gauge(ms(0), 1172);
    lane
}

/// Sends what the window lets out, as full packets.
fn fill(lane: &mut LaneSender<u64>, now: Instant) -> u64 {
    let mut sent = 0;
    while let Room::Open { datagram_max } = lane.room(now, Class::Bulk) {
        lane.sent(now, datagram_max, true, false, 0);
        sent += 1;
    }
    sent
}

#[test]
fn a_padded_ping_that_is_never_answered_holds_up_a_round_trip() {
    let mut lane = asking();
    let mut sent = 0;
    for at in 1..300 {
        sent += fill(&mut lane, ms(at));
    }
    assert_eq!(sent, 0, "until the ping's fate is known");
    // Everything is answered but the ping, the tail probe first.
    lane.sent(ms(300), 60, true, true, 2);
    let mut at = 300;
    for _ in 0..4 {
        let newest = lane.next_number() - 1;
        lane.handle_ack(ms(at), &ack(&[(2, newest), (0, 0)], at * 1_000));
        at += 100;
        for _ in 0..100 {
            lane.handle_timeout(ms(at));
            while lane.poll_outcome().is_some() {}
            sent += fill(&mut lane, ms(at));
            at += 1;
        }
    }
    assert!(sent >= 32, "{sent} packets, {:?}", lane.path(ms(at)));
    assert!(!lane.wants_gauge(false));
}

/// Such a peer is sent little at worst, and a sum of its times overflows nothing.
#[test]
fn an_arrival_that_cannot_be_true_stops_no_lane() {
    let ends = [0, 1, 1_000, 1 << 40, 1 << 62, u64::MAX / 1_000, u64::MAX - 1, u64::MAX];
    for small in ends {
        for large in ends {
            for later in ends {
                let mut lane = asking();
                lane.handle_ack(ms(50), &ack(&[(0, 0)], small));
                lane.handle_ack(ms(51), &ack(&[(0, 1)], large));
                let told = format!("{small}, {large}, {later}");
                let path = lane.path(ms(51));
                assert!(path.window >= 2 * 1_200 && path.rate >= Rate::from_bps(8_000), "{told}: {path:?}");
                let (mut at, mut sent) = (52, 0);
                for round in 0..200 {
                    sent += fill(&mut lane, ms(at));
                    at += 50;
                    let newest = lane.next_number() - 1;
                    let arrival = if round % 2 == 0 { later } else { at * 1_000 };
                    lane.handle_ack(ms(at), &ack(&[(0, newest)], arrival));
                    while lane.poll_outcome().is_some() {}
                }
                assert!(sent >= 15, "{told}: {sent} packets in {at} ms, {:?}", lane.path(ms(at)));
            }
        }
    }
}

#[test]
fn a_lane_that_moves_forgets_the_padded_ping_on_its_way() {
    let mut lane = asking();
    lane.handle_ack(ms(50), &ack(&[(0, 0)], 1));
    lane.address_changed(ms(60));
    assert!((1..100).map(|at| fill(&mut lane, ms(60 + at))).sum::<u64>() >= 20, "the window is whole");
    // Its answer comes by the old path, seconds later.
    lane.handle_ack(ms(3_000), &ack(&[(0, 1)], 2_900_000));
    assert!(lane.path(ms(3_000)).window > 6 * 1_460, "{:?}", lane.path(ms(3_000)));
}

#[test]
fn a_padded_ping_that_is_late_is_outweighed_by_one_packet() {
    let mut lane = asking();
    lane.handle_ack(ms(50), &ack(&[(0, 0)], 1_000));
    // 20 s later, by both clocks; then everything is quick.
    lane.handle_ack(ms(20_050), &ack(&[(0, 1)], 20_001_000));
    assert!(lane.path(ms(20_050)).window <= 3_000, "{:?}", lane.path(ms(20_050)));
    let mut at = 20_051;
    assert!(fill(&mut lane, ms(at)) >= 1);
    at += 50;
    let newest = lane.next_number() - 1;
    lane.handle_ack(ms(at), &ack(&[(0, newest)], (at - 49) * 1_000));
    assert!(lane.path(ms(at)).window >= 32 * 1_460, "one quick packet is enough: {:?}", lane.path(ms(at)));
}
