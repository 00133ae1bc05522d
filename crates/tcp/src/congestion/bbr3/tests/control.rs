use super::*;

/// Section 5.6.3: a millisecond's worth, two segments at the least and 64 KiB at the most.
#[test]
fn the_quantum_is_a_millisecond_within_its_bounds() {
    let mut rig = Rig::new();
    let mut quantum = |pace: u64| {
        rig.bbr.pace = Rate::from_bps(pace);
        rig.bbr.set_quantum();
        rig.bbr.quantum
    };
    assert_eq!(quantum(8_000_000), 2 * MSS);
    assert_eq!(quantum(80_000_000), 10 * MSS);
    assert_eq!(quantum(8_000_000_000), 65_536);
}

/// Sections 5.5.8.1 and 5.6.4.2: three quanta or four segments, whatever the product, and two segments more in a probe.
#[test]
fn offload_has_its_budget() {
    let mut rig = Rig::cruise();
    rig.bbr.quantum = 30 * MSS;
    assert_eq!(rig.bbr.with_budget(1), 90 * MSS);
    assert_eq!(rig.bbr.with_budget(100 * MSS), 100 * MSS);
    rig.bbr.quantum = 1;
    assert_eq!(rig.bbr.with_budget(1), 4 * MSS);
    rig.bbr.state = State::Up;
    assert_eq!(rig.bbr.with_budget(100 * MSS), 102 * MSS);
}

/// Section 5.5.9 and 10.13: what acknowledgements bring beyond the bandwidth widens the window, for ten rounds; in Startup
/// for one.
#[test]
fn aggregated_acknowledgements_widen_the_window() {
    let mut rig = Rig::cruise();
    rig.now += Span::from_secs(1);
    rig.round();
    rig.octets = 20 * MSS;
    rig.round();
    assert_eq!(rig.bbr.model.extra(), 20 * MSS);
    rig.octets = MSS;
    rig.rounds(9);
    assert_eq!(rig.bbr.model.extra(), 20 * MSS);
    rig.acks(100);
    assert_eq!(rig.bbr.cwnd(), 2 * PRODUCT + 20 * MSS);
    rig.round();
    assert_eq!(rig.bbr.model.extra(), MSS);

    let mut startup = Rig::new();
    startup.octets = 8 * MSS;
    startup.round();
    startup.octets = MSS;
    startup.rounds(2);
    assert_eq!(startup.bbr.model.extra(), MSS);
}

/// Section 10.14: a product below a segment leaves a window of four.
#[test]
fn a_product_below_a_segment_leaves_four_segments() {
    let mut rig = Rig::new();
    rig.rate = Rate::from_bps(64_000);
    rig.rtt = Span::from_millis(10);
    rig.pipe = 4 * MSS;
    rig.octets = MSS;
    for _ in 0..200 {
        // A segment every 125 ms.
        rig.now += Span::from_millis(115);
        rig.round();
        assert!(rig.bbr.cwnd() >= 4 * MSS);
    }
    assert!(rig.state().is_probe_bandwidth());
    // Three quanta of two segments, and two more in a probe.
    assert!(rig.bbr.cwnd() <= 8 * MSS, "{}", rig.bbr.cwnd());
}

/// Section 5.6.4.4: one segment after a timeout, four with the next acknowledgement, and what was before once all is
/// repaired; the short-term bound starts from the window before the timeout.
#[test]
fn a_timeout_leaves_one_segment_until_recovery() {
    let mut rig = Rig::cruise();
    rig.acks(50);
    let before = rig.bbr.cwnd();
    (1..=50).for_each(|n| rig.lose(PRODUCT, n * MSS, false));
    rig.bbr.on_timeout(0);
    assert_eq!(rig.bbr.cwnd(), MSS);
    assert_eq!(rig.bbr.bounds.in_flight_short, before);
    rig.repairing = true;
    rig.octets = MSS;
    rig.pipe = MSS;
    rig.sent_pipe = MSS;
    rig.ack();
    assert_eq!(rig.bbr.cwnd(), 4 * MSS);
    rig.bbr.on_timeout(0);
    assert_eq!(rig.bbr.prior_cwnd, before, "a second timeout keeps it");
    rig.round();
    rig.repaired();
    assert!(rig.bbr.cwnd() >= before * 7 / 10, "{} of {before}", rig.bbr.cwnd());
}

/// Section 2.2, C.is_cwnd_limited: at some point of the last round trip no further segment fitted.
#[test]
fn the_window_was_in_use_if_it_was_once_in_the_last_round() {
    let mut rig = Rig::cruise();
    rig.pipe = 0;
    rig.rounds(3);
    assert!(!rig.bbr.is_cwnd_limited());
    rig.pipe = rig.bbr.cwnd() - rig.octets - MSS + 1;
    rig.ack();
    rig.pipe = 0;
    rig.acks(10);
    assert!(rig.bbr.is_cwnd_limited());
    rig.round();
    assert!(rig.bbr.is_cwnd_limited(), "in the round before");
    rig.round();
    assert!(!rig.bbr.is_cwnd_limited());
}
