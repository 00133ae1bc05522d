use super::*;

/// Sections 5.3.1.1 and 5.6.2: 2.77 times the bandwidth, less a hundredth, and a window of two products.
#[test]
fn startup_doubles_by_its_gains() {
    let mut rig = Rig::new();
    // 10 segments in an assumed millisecond, then in the round trip that was measured.
    assert_eq!(rig.bbr.pace(), Rate::from_bps(80_000_000).scale(277, 100));
    rig.rate = Rate::from_bps(1_000);
    rig.ack();
    assert_eq!(rig.bbr.pace(), Rate::from_bps(800_000).scale(277, 100));
    rig.rate = RATE;
    rig.ack();
    assert_eq!(rig.bbr.pace(), Rate::from_bps(8_000_000 * 277 / 100 * 99 / 100));
    rig.acks(200);
    // The window stops where it holds two products; a few segments of acknowledgements before the bandwidth was known
    // count as aggregated.
    assert!((2 * PRODUCT..=2 * PRODUCT + 8 * MSS).contains(&rig.bbr.cwnd()), "{}", rig.bbr.cwnd());
    // A pace never falls before the pipe was full.
    rig.rate = RATE.scale(1, 2);
    let pace = rig.bbr.pace();
    rig.rounds(2);
    assert_eq!((rig.bbr.pace(), rig.state()), (pace, State::Startup));
}

/// Section 5.3.1.2 and 10.1: three rounds in which the rate grows by less than a quarter.
#[test]
fn a_plateau_of_three_rounds_ends_startup() {
    let mut rig = Rig::new();
    rig.pipe = 4 * PRODUCT;
    for percent in [100, 125, 157, 197] {
        rig.rate = RATE.scale(percent, 100);
        rig.round();
        assert_eq!(rig.state(), State::Startup);
    }
    rig.rate = rig.rate.scale(124, 100);
    rig.rounds(2);
    // Growth begins the count anew.
    rig.rate = rig.rate.scale(125, 100);
    rig.rounds(3);
    rig.acks(50);
    assert_eq!((rig.state(), rig.bbr.full.reached), (State::Startup, false));
    rig.round();
    assert_eq!((rig.state(), rig.bbr.full.reached, rig.bbr.full.now), (State::Drain, true, true));
}

/// Section 10.7: rounds in which the application was the limit do not count, however many.
#[test]
fn an_application_that_is_the_limit_keeps_startup() {
    let mut rig = Rig::new();
    rig.app_limited = true;
    rig.rounds(30);
    assert_eq!((rig.state(), rig.bbr.full.reached), (State::Startup, false));
}

/// Six stretches lost within a round, each of one segment, from a flight of 100: 6 %.
fn lossy(rig: &mut Rig, ranges: u64, share_of: u64) {
    rig.pipe = 2 * PRODUCT;
    rig.round();
    for n in 1..=ranges {
        rig.lose(share_of, n * MSS, true);
    }
    rig.bbr.on_congestion();
    rig.repairing = true;
    rig.lost = ranges * MSS;
    rig.sent_pipe = share_of;
    rig.ack();
    assert_eq!(rig.state(), State::Startup, "not before the round is over");
    rig.round();
}

/// Section 5.3.1.3 and 10.2: all three conditions, and that the application was the limit does not matter.
#[test]
fn losses_end_startup() {
    for app_limited in [false, true] {
        let mut rig = Rig::new();
        rig.app_limited = app_limited;
        lossy(&mut rig, 6, PRODUCT);
        assert_eq!((rig.state(), rig.bbr.full.reached, rig.bbr.full.now), (State::Drain, true, true));
        assert_eq!(rig.bbr.saved.state, Some(State::Startup));
        assert_eq!(
            rig.bbr.bounds.in_flight_long, PRODUCT,
            "the larger of the product and what was delivered in a round"
        );
    }
}

#[test]
fn losses_do_not_end_startup_unless_all_three_conditions_hold() {
    let mut few = Rig::new();
    lossy(&mut few, 5, PRODUCT);
    assert_eq!(few.state(), State::Startup, "five stretches");
    let mut sparse = Rig::new();
    lossy(&mut sparse, 6, 300 * MSS);
    assert_eq!(sparse.state(), State::Startup, "exactly 2 %");
    let mut contiguous = Rig::new();
    contiguous.round();
    (1..=12).for_each(|n| contiguous.lose(PRODUCT, n * MSS, false));
    contiguous.bbr.on_congestion();
    contiguous.repairing = true;
    contiguous.lost = 12 * MSS;
    contiguous.rounds(2);
    assert_eq!(contiguous.state(), State::Startup, "one stretch");
    let mut timeout = Rig::new();
    timeout.round();
    (1..=12).for_each(|n| timeout.lose(PRODUCT, n * MSS, true));
    timeout.lost = 12 * MSS;
    timeout.round();
    assert_eq!(timeout.state(), State::Startup, "no fast recovery");
}

/// Section 5.3.1.3: a connection that sees one loss per round takes any for the sign; so are marks taken (section 3.7).
#[test]
fn without_selective_acknowledgements_any_loss_ends_startup() {
    let mut rig = Rig::of(Bbr3::new(Instant::ZERO, MSS, INITIAL, false, 1));
    rig.pipe = 2 * PRODUCT;
    rig.round();
    rig.lose_one();
    rig.ack();
    assert_eq!(rig.state(), State::Drain);

    let mut marked = Rig::new();
    marked.pipe = 2 * PRODUCT;
    marked.round();
    marked.bbr.on_congestion();
    marked.bbr.on_mark(marked.now, PRODUCT);
    marked.ack();
    assert_eq!(marked.state(), State::Drain);
}

/// Section 5.3.2 and 10.3: half the bandwidth until no more than a product is in flight.
#[test]
fn drain_ends_with_the_queue() {
    let mut rig = Rig::drain();
    assert_eq!(rig.bbr.pace(), RATE.scale(50 * 99, 10_000));
    rig.pipe = PRODUCT + 1;
    rig.acks(20);
    assert_eq!(rig.state(), State::Drain);
    rig.pipe = PRODUCT;
    rig.ack();
    assert_eq!(rig.state(), State::Cruise, "down, and on, since there is no queue");
}

/// Section 5.3.2 and 10.4.
#[test]
fn drain_ends_after_three_rounds_though_the_queue_has_not() {
    let mut rig = Rig::drain();
    rig.rounds(3);
    assert_eq!(rig.state(), State::Drain);
    rig.round();
    assert_eq!(rig.state(), State::Down);
}
