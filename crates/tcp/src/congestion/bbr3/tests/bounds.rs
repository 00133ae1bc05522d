use super::*;
use crate::congestion::bbr3::bounds::in_flight_at_loss;

/// Section 5.5.10.2: 2 % of what was in flight, and not a byte more.
#[test]
fn the_threshold_is_two_per_cent() {
    let rig = Rig::up();
    let sample = |lost, in_flight| RateSample { lost, in_flight, ..RateSample::default() };
    assert!(!rig.bbr.is_too_high(&sample(2_000, 100_000)));
    assert!(rig.bbr.is_too_high(&sample(2_001, 100_000)));
    assert!(!rig.bbr.is_too_high(&sample(0, 0)));
    let blind = Bbr3::new(Instant::ZERO, MSS, INITIAL, false, 1);
    assert!(blind.is_too_high(&sample(1, 100_000)), "any loss where only one per round is seen");
}

/// Section 5.5.10.2, InflightAtLoss: of 99 segments before it, 2 % are 1,980 bytes; 1,000 were lost, so 980 / 0.98 more
/// bring the losses to the threshold.
#[test]
fn the_point_where_losses_crossed_the_threshold() {
    let lost = |in_flight, lost| Lost {
        now: Instant::ZERO,
        start: 0,
        end: MSS,
        delivered: 0,
        in_flight,
        lost,
        app_limited: false,
    };
    assert_eq!(in_flight_at_loss(&lost(100_000, 2_000)), 99_000 + 1_000);
    assert_eq!(in_flight_at_loss(&lost(100_000, 2_500)), 99_000 + 480 * 100 / 98);
    assert_eq!(in_flight_at_loss(&lost(100_000, 50_000)), 99_000, "crossed before");
    assert_eq!(in_flight_at_loss(&lost(500, 1_000)), 0, "shorter than the segment");
}

/// Sections 5.3.3.7 and 10.6: too many losses end the probe and set the bound, once; below the threshold they do nothing.
#[test]
fn losses_in_a_probe_set_the_lasting_bound() {
    let mut rig = Rig::up();
    rig.lose(PRODUCT, MSS, true);
    rig.lose(PRODUCT, 2 * MSS, true);
    assert_eq!((rig.state(), rig.bbr.bounds.in_flight_long), (State::Up, UNBOUNDED));
    rig.lose(120 * MSS, 3 * MSS, true);
    // 119 segments before it; 2 % of them are 2,380 bytes, of which 2,000 were lost.
    assert_eq!((rig.state(), rig.bbr.bounds.in_flight_long), (State::Down, 119_000 + 380 * 100 / 98));
    assert!(rig.bbr.cycle.went_too_high);
    let bound = rig.bbr.bounds.in_flight_long;
    (4..20).for_each(|n| rig.lose(40 * MSS, n * MSS, true));
    assert_eq!(rig.bbr.bounds.in_flight_long, bound, "one reaction per probe");
}

/// Section 5.5.10.2: no less than 0.7 of the target, and what the application limited sets no bound but ends the probe.
#[test]
fn the_lasting_bound_does_not_fall_further_than_cubic_would() {
    let mut rig = Rig::up();
    rig.lose(10 * MSS, MSS, true);
    assert_eq!((rig.state(), rig.bbr.bounds.in_flight_long), (State::Down, PRODUCT * 7 / 10));

    let mut limited = Rig::up();
    limited.app_limited = true;
    limited.lose(10 * MSS, MSS, true);
    assert_eq!((limited.state(), limited.bbr.bounds.in_flight_long), (State::Down, UNBOUNDED));
}

/// Section 5.3.3.9, AdaptLongTermModel: what went well with more in flight raises the bound.
#[test]
fn lossless_delivery_raises_the_long_term_bound() {
    let mut rig = Rig::too_high();
    let bound = rig.bbr.bounds.in_flight_long;
    rig.sent_pipe = bound + 5 * MSS;
    rig.lost = 20 * MSS;
    rig.ack();
    assert_eq!(rig.bbr.bounds.in_flight_long, bound, "too lossy");
    rig.lost = 0;
    rig.ack();
    assert_eq!(rig.bbr.bounds.in_flight_long, bound + 5 * MSS);
}

/// Section 5.5.10.3: once per round trip with losses, to what was delivered, and by no more than to 0.7.
#[test]
fn losses_lower_the_short_term_bounds_once_a_round() {
    let mut rig = Rig::cruise();
    rig.round();
    let cwnd = rig.bbr.cwnd();
    rig.rate = RATE.scale(9, 10);
    rig.sent_pipe = 60 * MSS;
    rig.rounds(2);
    rig.lose_one();
    rig.acks(5);
    assert_eq!(rig.bbr.bounds.in_flight_short, UNBOUNDED, "not within the round");
    rig.round();
    assert_eq!(rig.bbr.bounds.bandwidth_short, RATE.scale(9, 10), "what was delivered");
    let first = rig.bbr.bounds.in_flight_short;
    assert!(first >= 60 * MSS && first == cwnd.max(rig.bbr.prior_cwnd) * 7 / 10, "{first} of {cwnd}");
    assert_eq!(rig.bbr.pace(), RATE.scale(9 * 99, 1_000));
    rig.rounds(3);
    assert_eq!(rig.bbr.bounds.in_flight_short, first, "no losses, no more");
    rig.rate = RATE.scale(1, 10);
    rig.rounds(2);
    rig.lose(PRODUCT, MSS, true);
    rig.round();
    assert_eq!(rig.bbr.bounds.bandwidth_short, RATE.scale(63, 100), "no further than to 0.7 of it");
    assert_eq!(rig.bbr.cwnd(), rig.bbr.bounds.in_flight_short);
}

/// Section 5.5.10.3: while it probes, losses leave the short-term bounds alone.
#[test]
fn losses_within_a_probe_leave_the_short_term_bounds() {
    for mut rig in [Rig::new(), Rig::refill(), Rig::up()] {
        rig.round();
        rig.sent_pipe = 1_000 * MSS;
        rig.lose_one();
        rig.round();
        assert_eq!(rig.bbr.bounds.in_flight_short, UNBOUNDED, "{:?}", rig.state());
    }
}

/// Sections 5.6.4.7 and 5.3.3.9: 0.85 of the lasting bound while cruising, all of it elsewhere, and four segments always.
#[test]
fn the_window_keeps_the_bounds() {
    let bound = 90 * MSS;
    let mut rig = Rig::cruise();
    rig.bbr.bounds.in_flight_long = bound;
    rig.sent_pipe = 50 * MSS;
    rig.ack();
    assert_eq!((rig.state(), rig.bbr.cwnd()), (State::Cruise, bound * 85 / 100));
    for (mut rig, state) in [(Rig::down(), State::Down), (Rig::refill(), State::Refill), (Rig::up(), State::Up)] {
        rig.bbr.bounds.in_flight_long = bound;
        rig.pipe = bound - 10 * MSS;
        rig.sent_pipe = 50 * MSS;
        rig.ack();
        assert_eq!((rig.state(), rig.bbr.cwnd()), (state, bound));
    }
    let mut tiny = Rig::cruise();
    tiny.bbr.bounds.in_flight_long = MSS;
    tiny.sent_pipe = MSS;
    tiny.ack();
    assert_eq!(tiny.bbr.cwnd(), 4 * MSS);
    assert_eq!(tiny.bbr.long_term_less_headroom(), 4 * MSS);
    // At least a segment is left to others.
    tiny.bbr.bounds.in_flight_long = 6 * MSS;
    assert_eq!(tiny.bbr.long_term_less_headroom(), 5 * MSS);
}

/// Section 3.7: a mark in a probe ends it as a loss would, and lowers the short-term bounds outside of one.
#[test]
fn marks_are_taken_for_congestion() {
    let mut probe = Rig::up();
    probe.bbr.on_congestion();
    probe.bbr.on_mark(probe.now, PRODUCT);
    assert_eq!((probe.state(), probe.bbr.bounds.in_flight_long), (State::Down, PRODUCT));

    let mut cruise = Rig::cruise();
    cruise.bbr.on_congestion();
    cruise.bbr.on_mark(cruise.now, PRODUCT);
    cruise.round();
    assert!(cruise.bbr.bounds.in_flight_short < UNBOUNDED);
    assert_eq!(cruise.bbr.bounds.in_flight_long, UNBOUNDED);
}
