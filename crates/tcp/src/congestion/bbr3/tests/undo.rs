use super::*;

/// Sections 5.5.11.2 and 10.18: the bounds are back, and the probe begins again.
#[test]
fn a_probe_that_needless_losses_ended_begins_again() {
    let mut rig = Rig::up();
    rig.bbr.bounds.in_flight_long = 150 * MSS;
    rig.ack();
    let cwnd = rig.bbr.cwnd();
    (1..=4).for_each(|n| rig.lose(PRODUCT, n * MSS, true));
    rig.bbr.on_congestion();
    rig.repairing = true;
    assert_eq!(rig.state(), State::Down);
    assert!(rig.bbr.bounds.in_flight_long < 150 * MSS);
    rig.bbr.on_spurious_recovery();
    assert_eq!((rig.state(), rig.bbr.bounds.in_flight_long), (State::Refill, 150 * MSS));
    assert!(rig.bbr.cwnd() >= cwnd && !rig.bbr.bounds.loss_in_round);
    // What was taken back is not taken back again.
    let refill = rig.state();
    rig.repaired();
    rig.round();
    rig.bbr.on_spurious_recovery();
    assert_eq!((refill, rig.state()), (State::Refill, State::Up));
}

/// Section 5.5.11.2: Startup goes on.
#[test]
fn startup_ended_by_spurious_losses_continues() {
    let mut rig = Rig::new();
    rig.pipe = 2 * PRODUCT;
    rig.round();
    (1..=6).for_each(|n| rig.lose(PRODUCT, n * MSS, true));
    rig.bbr.on_congestion();
    rig.repairing = true;
    rig.lost = 6 * MSS;
    rig.round();
    assert_eq!(rig.state(), State::Drain);
    rig.bbr.on_spurious_recovery();
    assert_eq!((rig.state(), rig.bbr.full.reached, rig.bbr.bounds.in_flight_long), (State::Startup, false, UNBOUNDED));
}

/// Section 5.5.11.2: in the middle of a probe of the round trip the state stays, and Startup follows it.
#[test]
fn a_probe_of_the_round_trip_is_not_interrupted() {
    let mut rig = Rig::up();
    rig.ages = true;
    rig.rtt = RTT.times(2);
    (1..=4).for_each(|n| rig.lose(PRODUCT, n * MSS, true));
    rig.now += Span::from_secs(6);
    rig.ack();
    assert_eq!(rig.state(), State::ProbeRtt);
    rig.bbr.on_spurious_recovery();
    assert_eq!(rig.state(), State::ProbeRtt);
}

/// Section 5.5.11.2 and 10.19: the short-term bounds and the window that a needless timeout cost.
#[test]
fn a_needless_timeout_costs_no_window() {
    let mut rig = Rig::cruise();
    rig.acks(50);
    let cwnd = rig.bbr.cwnd();
    (1..=20).for_each(|n| rig.lose(PRODUCT, n * MSS, false));
    rig.bbr.on_timeout(0);
    rig.repairing = true;
    // With so small a window, the next round trip would be time to probe.
    rig.bbr.cycle.rounds_since_up = 0;
    rig.ack();
    assert!(rig.bbr.cwnd() < cwnd && rig.bbr.bounds.in_flight_short < UNBOUNDED);
    rig.bbr.on_spurious_recovery();
    assert_eq!((rig.bbr.cwnd(), rig.bbr.bounds.in_flight_short), (cwnd, UNBOUNDED));
    assert_eq!(rig.bbr.bounds.bandwidth_short, UNBOUNDED_RATE);
}

/// Section 5.5.10.2, NoteLoss: what counts as before is the state before a round's first loss.
#[test]
fn undo_restores_the_state_before_a_rounds_first_loss() {
    let mut rig = Rig::up();
    rig.bbr.bounds.in_flight_long = 150 * MSS;
    (1..=4).for_each(|n| rig.lose(PRODUCT, n * MSS, true));
    rig.bbr.on_congestion();
    rig.lose(PRODUCT, 5 * MSS, true);
    rig.bbr.on_timeout(0);
    rig.bbr.on_spurious_recovery();
    assert_eq!(rig.bbr.bounds.in_flight_long, 150 * MSS);
}
