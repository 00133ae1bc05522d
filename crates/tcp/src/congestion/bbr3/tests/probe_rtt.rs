use super::*;

/// A cruise in which every round trip is longer than the first ones were.
fn aged() -> Rig {
    let mut rig = Rig::cruise();
    rig.ages = true;
    rig.rtt = RTT.times(2);
    rig
}
fn until_probe(rig: &mut Rig) {
    while rig.state() != State::ProbeRtt {
        rig.pipe = PRODUCT;
        rig.round();
        assert!(rig.now < Instant::from_secs(20), "{:?}", rig.state());
    }
}

/// Sections 5.3.4.1 and 10.10: after 5 s without a shorter round trip, half a product for 200 ms and a round trip.
#[test]
fn the_round_trip_is_probed_every_five_seconds() {
    let mut rig = aged();
    let confirmed = rig.bbr.model.probe_rtt_least_at;
    until_probe(&mut rig);
    let waited = rig.now.since(confirmed);
    assert!(waited > Span::from_secs(5) && waited <= Span::from_secs(5) + rig.rtt, "{waited}");
    assert!(rig.bbr.is_probing_rtt());
    assert_eq!(rig.bbr.cwnd(), PRODUCT / 2);
    assert_eq!(rig.bbr.pace(), RATE.scale(99, 100));
    // Not until that little is in flight does the time run.
    rig.pipe = PRODUCT / 2 + 1;
    rig.now += Span::from_millis(500);
    rig.rounds(2);
    assert_eq!(rig.state(), State::ProbeRtt);
    rig.pipe = PRODUCT / 2;
    rig.ack();
    rig.now += Span::from_millis(199);
    rig.ack();
    assert_eq!(rig.state(), State::ProbeRtt, "200 ms are not over");
    rig.now += Span::from_millis(10);
    rig.ack();
    assert_eq!(rig.state(), State::ProbeRtt, "no round trip is over");
    rig.round();
    assert_eq!(rig.state(), State::Cruise, "section 5.3.4.4: down and cruise at once");
    assert!(rig.bbr.cwnd() > PRODUCT, "the window is back: {}", rig.bbr.cwnd());
    let probed = rig.now;
    until_probe(&mut rig);
    assert!(rig.now.since(probed) > Span::from_secs(5));
}

/// Sections 2.16.1 and 5.3.4.3: the least of 10 s counts, so it outlives one probe and falls at once.
#[test]
fn the_least_round_trip_counts_for_ten_seconds() {
    let mut rig = aged();
    let (taken, mut expired) = (rig.bbr.model.probe_rtt_least_at, None);
    while rig.now.since(taken) < Span::from_secs(11) {
        rig.pipe = if rig.state() == State::ProbeRtt { 10 * MSS } else { PRODUCT };
        rig.round();
        if rig.bbr.model.min_rtt != Some(RTT) && expired.is_none() {
            expired = Some(rig.now.since(taken));
        }
    }
    let expired = expired.expect("it was forgotten");
    assert!(expired > Span::from_secs(9) && expired <= Span::from_secs(11), "{expired}");
    rig.rtt = RTT.scale(1, 2);
    rig.ack();
    assert_eq!(rig.bbr.model.min_rtt, Some(rig.rtt));
}

/// Sections 5.4.1 and 10.11: after a pause, an old round trip is measured by what goes next; nothing is held back.
#[test]
fn a_pause_takes_the_place_of_a_probe() {
    let mut rig = Rig::cruise();
    rig.ages = true;
    rig.now += Span::from_secs(6);
    rig.bbr.on_restart(rig.now);
    assert_eq!(rig.bbr.pace(), RATE.scale(99, 100), "exactly the bandwidth");
    rig.pipe = 10 * MSS;
    rig.rtt = RTT.scale(11, 10);
    rig.round();
    assert_ne!(rig.state(), State::ProbeRtt);
    assert_eq!(rig.bbr.model.probe_rtt_least_at, rig.now);
    rig.rounds(2);
    assert_ne!(rig.state(), State::ProbeRtt);
}

/// Section 5.4.1: a pause within a probe may end it, before anything is sent.
#[test]
fn a_pause_within_a_probe_ends_it() {
    let mut rig = aged();
    until_probe(&mut rig);
    rig.pipe = 0;
    rig.ack();
    rig.bbr.on_restart(rig.now);
    assert_eq!(rig.state(), State::ProbeRtt, "200 ms are not over");
    rig.now += Span::from_secs(1);
    rig.bbr.on_restart(rig.now);
    assert_eq!(rig.state(), State::Cruise);
    assert!(rig.bbr.cwnd() > PRODUCT);
}

/// Sections 5.3.4.4 and 10.20: before the pipe was full, a probe leads back to Startup.
#[test]
fn a_probe_in_startup_leads_back_to_startup() {
    let mut rig = Rig::new();
    rig.ages = true;
    rig.app_limited = true;
    rig.ack();
    rig.rtt = RTT.times(2);
    rig.pipe = 2 * MSS;
    until_probe(&mut rig);
    rig.pipe = 2 * MSS;
    rig.ack();
    rig.rounds(3);
    assert_eq!(rig.state(), State::Startup);
}

/// Section 5.6.4.5: four segments at the least.
#[test]
fn a_small_product_leaves_four_segments() {
    let mut rig = Rig::cruise();
    rig.bbr.model.bandwidth = RATE.scale(1, 100);
    assert_eq!(rig.bbr.probe_rtt_cwnd(), 4 * MSS);
    rig.bbr.model.bandwidth = RATE.scale(10, 100);
    assert_eq!(rig.bbr.probe_rtt_cwnd(), 5 * MSS);
}
