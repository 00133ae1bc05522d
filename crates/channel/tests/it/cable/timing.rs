//! Serialisation, queueing and delay are exact: no tolerance anywhere in this file.

use super::drive::{A, Arrival, cable, drive, frame, mbit, ms, ratio, steady, us};
use wavelane_base::{FrameMeta, Instant, Machine, Octets, Rate, Span};
use wavelane_channel::{Cause, Direction, DirectionConfig, LossConfig, Parameter, Policer, QueueLimit};

/// `ceil(bits * 10^9 / rate)`: the definition, computed apart from the code under test.
fn exact_end(octets: u128, bps: u128) -> Instant {
    Instant::from_nanos(u64::try_from((octets * 8_000_000_000).div_ceil(bps)).unwrap())
}

#[test]
fn the_nth_frame_ends_exactly_with_its_last_bit() {
    for bps in [7u64, 33_333, 7_000_003, 1_000_000_007, 99_999_999_977] {
        let lengths: Vec<usize> = (0..500).map(|n| 8 + n * 37 % 1_493).collect();
        let offers: Vec<_> =
            lengths.iter().enumerate().map(|(n, &len)| (Instant::ZERO, frame(n as u64, len))).collect();
        let config =
            DirectionConfig { rate: Some(Rate::from_bps(bps)), delay: Span::from_millis(3), ..Default::default() };
        let out = drive(1, config, &offers, &[]);
        let mut octets = 0;
        for (arrival, len) in out.arrivals.iter().zip(&lengths) {
            octets += *len as u128;
            assert_eq!(arrival.at, exact_end(octets, bps.into()) + Span::from_millis(3), "{bps} bit/s");
        }
        assert_eq!(out.arrivals.len(), lengths.len());
    }
}

#[test]
fn feeding_frame_by_frame_gives_the_same_rate_as_queueing() {
    // 1500 B at 7 Mbit/s take 1714285 and 5/7 ns: without the carried remainder 700 frames gain 200 ns.
    let config = DirectionConfig { rate: mbit(7), queue: QueueLimit::Packets(0), ..Default::default() };
    let mut cable = cable(1, config);
    let mut now = Instant::ZERO;
    for _ in 0..700 {
        cable.handle_frame(now, A, &mut frame(0, 1_500), FrameMeta::default());
        now = cable.poll_timeout().unwrap().at;
        cable.handle_timeout(now);
    }
    assert_eq!(now, exact_end(700 * 1_500, 7_000_000));
    assert_eq!(cable.counters(Direction::Forward).dropped_total().frames, 0);
}

#[test]
fn an_idle_link_carries_nothing_over() {
    let config = DirectionConfig { rate: mbit(7), ..Default::default() };
    let out = drive(1, config, &steady(20, 1_500, Instant::ZERO, Span::from_secs(1)), &[]);
    for (n, arrival) in out.arrivals.iter().enumerate() {
        assert_eq!(arrival.at, Instant::from_secs(n as u64) + Span::from_nanos(1_714_286));
    }
}

#[test]
fn a_full_queue_drops_the_tail() {
    let burst = steady(100, 1_000, ms(1), Span::ZERO);
    for (queue, waits) in [
        (QueueLimit::Packets(10), 10),
        (QueueLimit::Packets(0), 0),
        (QueueLimit::Octets(Octets::new(10_000)), 10),
        (QueueLimit::Octets(Octets::new(9_999)), 9),
        (QueueLimit::Octets(Octets::ZERO), 0),
        (QueueLimit::Bounded, 99),
    ] {
        let out = drive(1, DirectionConfig { rate: mbit(8), queue, ..Default::default() }, &burst, &[]);
        assert_eq!(out.numbers(), (0..=waits).collect::<Vec<_>>(), "{queue:?}: one in service, {waits} wait");
        assert_eq!(out.lost(Cause::Queue), (waits + 1..100).collect::<Vec<_>>());
        assert_eq!(out.cable.counters(Direction::Forward).queue_peak.frames, waits);
        assert_eq!(out.cable.counters(Direction::Forward).queue_peak.octets, waits * 1_000);
    }
}

#[test]
fn an_overloaded_link_drops_exactly_the_excess() {
    // 1000 B each 0.5 ms into 8 Mbit/s (1 ms each), 10 may wait: the server never idles.
    let (count, limit) = (10_000, 10);
    let config = DirectionConfig { rate: mbit(8), queue: QueueLimit::Packets(limit), ..Default::default() };
    let out = drive(1, config, &steady(count, 1_000, Instant::ZERO, Span::from_micros(500)), &[]);
    let last_offer_us = (count - 1) * 500;
    let entered_service = last_offer_us / 1_000 + 1;
    assert_eq!(out.dropped(Cause::Queue), count - entered_service - limit);
    let counters = out.cable.counters(Direction::Forward);
    assert_eq!(counters.queue_delay_max, Span::from_millis(limit), "a full queue of 10 frames of 1 ms");
    assert_eq!(counters.serialised.frames, entered_service + limit);
}

#[test]
fn a_lost_frame_used_its_airtime() {
    let config = DirectionConfig { rate: mbit(2), delay: Span::from_millis(7), ..Default::default() };
    let offers = steady(400, 500, Instant::ZERO, Span::from_millis(1));
    let clean = drive(3, config.clone(), &offers, &[]);
    let loss = LossConfig::Random { p: ratio(1, 2) };
    let lossy = drive(3, DirectionConfig { loss, ..config }, &offers, &[]);
    assert!((150..250).contains(&lossy.arrivals.len()), "{}", lossy.arrivals.len());
    let survivors: Vec<&Arrival> = clean.arrivals.iter().filter(|a| lossy.numbers().contains(&a.number())).collect();
    assert_eq!(survivors, lossy.arrivals.iter().collect::<Vec<_>>());
}

#[test]
fn an_outage_drops_frames_that_enter_service_in_it() {
    // One frame of 1 ms each 2 ms; outage from 10 to 20 ms: frames 5..=9 enter service in it.
    let outages = vec![(ms(10), ms(20)), (us(100_500), us(101_500))];
    let config = DirectionConfig { rate: mbit(8), outages, ..Default::default() };
    let out = drive(1, config, &steady(100, 1_000, Instant::ZERO, Span::from_millis(2)), &[]);
    assert_eq!(out.lost(Cause::Outage), [5, 6, 7, 8, 9], "the second outage falls between two starts of service");
    assert_eq!(out.cable.counters(Direction::Forward).serialised.frames, 100);
}

#[test]
fn a_policer_passes_its_burst_and_then_its_rate() {
    // 1000 B each ms (8 Mbit/s) against 2 Mbit/s with 20 kB: passed <= burst + rate x time, and short of it by
    // less than one frame, as the bucket never overflows after the start.
    let policer = Some(Policer { rate: Rate::from_bps(2_000_000), burst: Octets::new(20_000) });
    let out = drive(
        1,
        DirectionConfig { policer, ..Default::default() },
        &steady(4_000, 1_000, ms(0), Span::from_millis(1)),
        &[],
    );
    let allowed_octets = 20_000 + 2_000_000 / 8 * 3_999 / 1_000;
    assert_eq!(out.arrivals.len() as u64, allowed_octets / 1_000);
    assert_eq!(out.dropped(Cause::Policer), 4_000 - allowed_octets / 1_000);
    // The head passes whole: tokens last until 20 + n/4 < n + 1.
    assert_eq!(out.numbers()[..26], (0..26).collect::<Vec<_>>()[..]);
    assert_eq!(out.lost(Cause::Policer)[0], 26);
    // Idle time fills the bucket to its size and not beyond.
    let mut late = steady(1, 1_000, ms(0), Span::ZERO);
    late.extend(steady(30, 1_000, ms(60_000), Span::ZERO));
    let policer = Some(Policer { rate: Rate::from_bps(2_000_000), burst: Octets::new(20_000) });
    let idle = drive(1, DirectionConfig { policer, ..Default::default() }, &late, &[]);
    assert_eq!(idle.arrivals.len(), 1 + 20);
    // It adds no delay.
    assert!(out.arrivals.iter().all(|a| a.at == ms(a.number())));
}

#[test]
fn a_frame_longer_than_the_mtu_takes_no_airtime() {
    let config = DirectionConfig { rate: mbit(8), mtu: Some(Octets::new(1_000)), ..Default::default() };
    let offers = [1_000, 1_001, 1_000].map(|len| (ms(0), frame(len, len as usize)));
    let out = drive(1, config.clone(), &offers, &[]);
    assert_eq!((out.lost(Cause::Oversize), out.arrivals.len()), (vec![1], 2));
    assert_eq!(out.arrivals[1].at, ms(2), "behind the first alone");
    // It may change, and end.
    let changes = [(ms(5), Parameter::Mtu(Some(Octets::new(999)))), (ms(25), Parameter::Mtu(None))];
    let out = drive(1, config, &steady(4, 1_000, ms(0), Span::from_millis(10)), &changes);
    assert_eq!(out.lost(Cause::Oversize), [1, 2]);
}

#[test]
fn the_two_directions_do_not_share_anything() {
    let mut both = cable(1, DirectionConfig { rate: mbit(8), delay: Span::from_millis(5), ..Default::default() });
    both.handle_frame(ms(0), A, &mut frame(1, 1_000), FrameMeta::default());
    both.handle_frame(ms(0), super::drive::B, &mut frame(2, 1_000), FrameMeta::default());
    let mut buf = [0; 2_000];
    assert!(both.poll_transmit(ms(0), A, &mut buf, 1).is_some(), "reverse is infinitely fast here");
    assert_eq!(buf[7], 2);
    assert!(both.poll_transmit(us(5_999), super::drive::B, &mut buf, 1).is_none());
    assert!(both.poll_transmit(ms(6), super::drive::B, &mut buf, 1).is_some());
    assert_eq!(buf[7], 1);
}
