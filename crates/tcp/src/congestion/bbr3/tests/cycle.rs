use super::*;

/// Section 5.3.3.1 and 10.8: 0.9 times the bandwidth, until both headroom and no queue are there.
#[test]
fn down_ends_where_there_is_headroom_and_no_queue() {
    let mut rig = Rig::down();
    rig.pipe = PRODUCT + 1;
    rig.acks(5);
    assert_eq!((rig.state(), rig.bbr.pace()), (State::Down, RATE.scale(90 * 99, 10_000)));
    // 0.85 of the bound is less than a product.
    rig.bbr.bounds.in_flight_long = PRODUCT;
    rig.pipe = 85 * MSS + 1;
    rig.acks(5);
    assert_eq!(rig.state(), State::Down);
    rig.pipe = 85 * MSS;
    rig.ack();
    assert_eq!(rig.state(), State::Cruise);
    rig.ack();
    assert_eq!(rig.bbr.pace(), RATE.scale(99, 100));
}

/// Sections 5.3.3.8.3 and 10.9: two to three seconds, whatever is in flight, and another wait for every number rolled.
#[test]
fn a_probe_comes_after_two_to_three_seconds() {
    let mut waits = Vec::new();
    for dice in 0..40 {
        let mut rig = Rig::down();
        rig.bbr.chance = bbr3(dice).chance;
        rig.bbr.start_down(rig.now);
        rig.pipe = 2 * PRODUCT;
        let began = rig.now;
        rig.wait_for_probe();
        waits.push(rig.now.since(began).as_nanos() / 1_000_000);
    }
    assert!(waits.iter().all(|ms| (2_000..=3_010).contains(ms)), "{waits:?}");
    let early = waits.iter().filter(|ms| **ms < 2_500).count();
    assert!((10..=30).contains(&early), "{waits:?}");
}

/// Section 5.3.3.8.3: as many rounds as there are segments in flight, 62 or 63 at the most.
#[test]
fn a_probe_comes_after_reno_would_have_grown_by_the_flight() {
    let rounds_until = |rate: Rate, rtt: Span| {
        let mut rig = Rig::new();
        rig.rate = rate;
        rig.rtt = rtt;
        rig.pipe = 5 * MSS;
        rig.rounds(5);
        rig.acks(2);
        assert_eq!(rig.state(), State::Cruise);
        let from = rig.bbr.model.rounds();
        while rig.state() == State::Cruise {
            rig.round();
        }
        rig.bbr.model.rounds() - from
    };
    let few = rounds_until(RATE.scale(1, 10), RTT);
    assert!((9..=10).contains(&few), "a product of 10 segments: {few} rounds");
    let many = rounds_until(RATE.scale(100, 1), Span::from_millis(10));
    assert!((62..=63).contains(&many), "a product of 1,000 segments: {many} rounds");
}

/// Section 5.3.3.3: the short-term bounds are gone, and a round trip fills the pipe.
#[test]
fn refill_forgets_the_short_term_and_lasts_a_round() {
    let mut rig = Rig::cruise();
    rig.lose_one();
    rig.round();
    rig.repaired();
    assert!(rig.bbr.bounds.in_flight_short < UNBOUNDED && rig.bbr.bounds.bandwidth_short < UNBOUNDED_RATE);
    rig.wait_for_probe();
    assert_eq!((rig.bbr.bounds.in_flight_short, rig.bbr.bounds.bandwidth_short), (UNBOUNDED, UNBOUNDED_RATE));
    assert_eq!(rig.bbr.pace(), RATE.scale(99, 100));
    rig.acks(50);
    assert_eq!((rig.state(), rig.bbr.cycle.samples_probe), (State::Refill, false));
    rig.round();
    assert_eq!((rig.state(), rig.bbr.cycle.samples_probe), (State::Up, true));
}

/// Sections 5.3.3.5 and 5.6.4.2: 1.25 times the bandwidth, and a window of 2.25 products and two segments.
#[test]
fn up_sends_faster() {
    let mut rig = Rig::up();
    assert_eq!(rig.bbr.pace(), RATE.scale(125 * 99, 10_000));
    rig.acks(100);
    let beyond = rig.bbr.model.extra();
    assert_eq!(rig.bbr.cwnd(), PRODUCT * 225 / 100 + beyond + 2 * MSS);
}

/// Sections 5.3.3.7 and 10.5: a plateau of three rounds ends it.
#[test]
fn a_plateau_ends_up() {
    let mut rig = Rig::up();
    rig.rounds(2);
    assert_eq!(rig.state(), State::Up);
    rig.round();
    assert_eq!((rig.state(), rig.bbr.cycle.went_too_high), (State::Down, false));
    // Growth keeps it going; rounds in which the application was the limit do not count (10.7).
    let mut rig = Rig::up();
    for percent in [125, 157, 197] {
        rig.rate = RATE.scale(percent, 100);
        rig.rounds(2);
    }
    rig.app_limited = true;
    rig.rounds(20);
    assert_eq!(rig.state(), State::Up);
}

/// Section 5.3.3.7: while the bound is the limit, a plateau says nothing of the path.
#[test]
fn a_plateau_below_the_bound_does_not_end_up() {
    let mut rig = Rig::up();
    rig.bbr.bounds.in_flight_long = PRODUCT;
    rig.acks(2);
    assert_eq!(rig.bbr.cwnd(), PRODUCT);
    (0..3).for_each(|_| {
        rig.pipe = rig.bbr.cwnd() - rig.octets;
        rig.round();
    });
    assert_eq!((rig.state(), rig.bbr.full.now), (State::Up, false));
}

/// Section 5.3.3.5: 1, 2, 4, 8 segments per round in which the window was in use, evenly.
#[test]
fn the_bound_grows_twice_as_fast_each_round() {
    let mut rig = Rig::up();
    rig.bbr.bounds.in_flight_long = PRODUCT;
    rig.ack();
    let mut grown = Vec::new();
    for _ in 0..4 {
        let before = rig.bbr.bounds.in_flight_long;
        // A round's worth of acknowledgements; what was in flight is as much as the window lets through.
        for n in 0..rig.bbr.cwnd() / (2 * MSS) {
            rig.pipe = rig.bbr.cwnd() - 2 * MSS;
            rig.sent_pipe = PRODUCT;
            if n == 0 { rig.round() } else { rig.ack() }
        }
        grown.push((rig.bbr.bounds.in_flight_long - before) / MSS);
    }
    // The round in which the growth is set counts with the one before, so the first is of the slope it enters with.
    assert!(grown.windows(2).all(|pair| (2 * pair[0]).abs_diff(pair[1]) <= 1 + pair[1] / 8), "{grown:?}");
    assert!((1..=2).contains(&grown[0]), "{grown:?}");
    // Unless the window is in use, the bound stays.
    let before = rig.bbr.bounds.in_flight_long;
    rig.pipe = PRODUCT / 4;
    rig.rounds(2);
    let after_use = rig.bbr.bounds.in_flight_long;
    rig.acks(40);
    assert_eq!(rig.bbr.bounds.in_flight_long, after_use, "from {before}");
}

/// Section 5.3.3.6: after a probe that went too high, the next one stops where the bound is reached, and if that met no
/// losses, another follows at once and stays.
#[test]
fn the_probe_after_a_lossy_one_is_cautious_and_the_next_is_not() {
    let mut rig = Rig::too_high();
    let bound = rig.bbr.bounds.in_flight_long;
    rig.pipe = 50 * MSS;
    rig.sent_pipe = 50 * MSS;
    rig.round();
    rig.repaired();
    rig.wait_for_probe();
    rig.round();
    assert_eq!(rig.state(), State::Up);
    rig.acks(5);
    assert_eq!(rig.state(), State::Up, "half of the bound is in flight");
    rig.pipe = bound - rig.octets;
    rig.ack();
    assert_eq!((rig.state(), rig.bbr.cycle.went_too_high), (State::Down, false), "it reached the bound");
    rig.acks(3);
    assert_eq!(rig.state(), State::Down);
    rig.round();
    assert_eq!(rig.state(), State::Refill, "a round's answers without losses");
    rig.round();
    rig.acks(10);
    assert_eq!((rig.state(), rig.bbr.bounds.in_flight_long), (State::Up, bound), "at the bound, without caution");
}

/// Section 5.3.3.6: where the cautious probe met losses, the cycle is the usual one.
#[test]
fn a_cautious_probe_that_loses_is_not_followed_at_once() {
    let mut rig = Rig::too_high();
    rig.pipe = 50 * MSS;
    rig.round();
    rig.repaired();
    rig.wait_for_probe();
    rig.round();
    rig.pipe = rig.bbr.bounds.in_flight_long - rig.octets;
    rig.ack();
    assert_eq!(rig.state(), State::Down);
    (1..=3).for_each(|n| rig.lose(PRODUCT, n * MSS, true));
    rig.pipe = 50 * MSS;
    rig.rounds(2);
    assert_eq!((rig.state(), rig.bbr.cycle.went_too_high), (State::Cruise, true));
}

/// Sections 5.5.3 and 5.5.6: a bandwidth counts in the cycle it was measured in and in the next.
#[test]
fn a_bandwidth_is_forgotten_after_two_cycles() {
    let mut rig = Rig::cruise();
    rig.rate = RATE.scale(1, 2);
    let mut largest = Vec::new();
    for _ in 0..3 {
        rig.wait_for_probe();
        while rig.state() != State::Cruise {
            rig.round();
            rig.pipe = if rig.state() == State::Down { 10 * MSS } else { PRODUCT };
        }
        rig.rounds(2);
        largest.push(rig.bbr.model.max_bandwidth());
    }
    assert_eq!(largest, [RATE, RATE.scale(1, 2), RATE.scale(1, 2)]);
    // Section 5.5.4 and 10.22: what the application limited does not count, unless it is larger.
    rig.app_limited = true;
    rig.rate = RATE.scale(1, 10);
    rig.rounds(3);
    assert_eq!(rig.bbr.model.max_bandwidth(), RATE.scale(1, 2));
    rig.rate = RATE.scale(3, 4);
    rig.ack();
    assert_eq!(rig.bbr.model.max_bandwidth(), RATE.scale(3, 4));
}
