//! Loss detection and repair: RFC 5681, 6582, 6675, 6937, 9937, 8985, 2883, 3168.

use super::script::*;
use super::*;
use wavelane_wire::tcp::{Flags, Options, TcpHeader};

/// RFC 5681, section 3.2: two duplicates let new data go (RFC 3042), the third repeats the hole and halves the window.
#[test]
fn three_duplicates_without_sack() {
    let mut tcp = ten(Config { sack: false, offload: false, ..plain() });
    tcp.ack(1);
    assert_eq!(tcp.data(), [(10_001, 1_000)]);
    tcp.ack(1);
    assert_eq!(tcp.data(), [(11_001, 1_000)]);
    tcp.ack(1);
    assert_eq!(tcp.data(), [(1, 1_000)]);
    let status = tcp.tcp.status();
    assert!(status.repairing);
    // Half of the ten in flight: the two that limited transmit sent do not count (section 3.2, step 2).
    assert_eq!(status.ssthresh, Some(5_000));
    assert_eq!(tcp.counters().recoveries, 1);
}

/// RFC 6582, section 3.2: a partial acknowledgement repeats the next hole, a full one ends it.
#[test]
fn newreno_mends_hole_by_hole_and_classic_reno_stops() {
    for (congestion, mended) in [(CongestionControl::NewReno, vec![(4_001, 1_000)]), (CongestionControl::Reno, vec![])]
    {
        let mut tcp = ten(Config { sack: false, offload: false, congestion, ..plain() });
        for _ in 0..3 {
            tcp.ack(1);
            tcp.drain();
        }
        tcp.wait(100);
        tcp.ack(4_001);
        let repeats: Vec<_> = tcp.data().into_iter().filter(|(seq, _)| *seq < 10_001).collect();
        assert_eq!(repeats, mended, "{congestion:?}");
        tcp.wait(100);
        tcp.ack(12_001);
        assert!(!tcp.tcp.status().repairing);
    }
}

/// RFC 6675, section 4: a hole below three reported segments is lost; RACK is off.
#[test]
fn reports_without_rack() {
    let mut tcp = ten(Config { rack_tlp: false, prr: false, ..plain() });
    tcp.sack(1, &[(2_001, 3_001)]);
    tcp.sack(1, &[(2_001, 4_001)]);
    let before = tcp.data();
    assert!(before.iter().all(|(seq, _)| *seq > 10_000), "{before:?}");
    tcp.sack(1, &[(2_001, 5_001)]);
    assert_eq!(tcp.data(), [(1, 1_000)], "the first goes whatever the window");
    assert_eq!(tcp.tcp.sender.board.lost(), 1_000, "and so is the other segment of the hole");
}

/// RFC 8985, section 6.2: three reported segments end all patience, and everything sent before them is lost.
#[test]
fn rack_repairs_every_hole_at_once() {
    let mut tcp = ten(plain());
    tcp.sack(1, &[(1_001, 2_001)]);
    tcp.sack(1, &[(1_001, 2_001), (3_001, 4_001)]);
    tcp.drain();
    tcp.sack(1, &[(1_001, 2_001), (3_001, 4_001), (9_001, 10_001)]);
    assert_eq!(tcp.data(), [(1, 1_000)], "the lowest first; one segment has arrived, so one goes (RFC 9937)");
    // 2,001 to 3,001 and 4,001 to 9,001 wait for the window.
    assert_eq!(tcp.tcp.sender.board.lost(), 6_000);
    assert_eq!(tcp.counters().recoveries, 1);
    tcp.wait(50);
    tcp.sack(1, &[(1_001, 2_001), (3_001, 9_001), (9_001, 10_001)]);
    assert_eq!(tcp.tcp.sender.board.lost(), 1_000, "five of the six were only late");
    assert_eq!(tcp.data()[0], (2_001, 1_000));
}

/// RFC 8985, section 6.2: a quarter of the round trip of patience where few are reported, then the timer tells.
#[test]
fn rack_waits_a_quarter_of_the_round_trip_for_the_late() {
    let mut tcp = ten(plain());
    tcp.sack(1, &[(1_001, 2_001)]);
    let new = tcp.data();
    assert!(new.iter().all(|(seq, _)| *seq > 10_000), "nothing is repeated yet: {new:?}");
    let (cause, wait) = tcp.deadline();
    assert_eq!((cause, wait), ("reordering window", Span::from_millis(25)));
    assert_eq!(tcp.data()[0], (1, 1_000));
}

#[test]
fn late_segments_are_not_retransmitted() {
    let mut tcp = ten(plain());
    tcp.sack(1, &[(1_001, 2_001)]);
    tcp.drain();
    tcp.wait(10);
    tcp.ack(2_001);
    tcp.run(30);
    assert_eq!(tcp.counters().retransmits, 0);
}

/// RFC 6937: while more is in flight than the threshold, what is sent is in proportion to what arrives.
#[test]
fn prr_halves_smoothly() {
    let mut tcp = ten(plain());
    tcp.sack(1, &[(1_001, 4_001)]);
    assert_eq!(tcp.data(), [(1, 1_000)], "the repeat goes at once");
    assert_eq!(tcp.tcp.status().ssthresh, Some(5_000), "half of the ten in flight");
    let mut sent = 0;
    for end in (5_001..=10_001).step_by(1_000) {
        tcp.sack(1, &[(1_001, end)]);
        sent += tcp.data().len();
        assert!(tcp.tcp.status().pipe <= 7_000);
    }
    // ceil(9,000 x 5,000 / 10,000) less the repeat: 3,500 bytes; the last partial segment may go as a whole.
    assert!((3..=4).contains(&sent), "{sent} for six that arrived");
    tcp.wait(100);
    tcp.ack(10_001);
    let status = tcp.tcp.status();
    assert!(!status.repairing);
    assert_eq!(status.cwnd, 5_000);
}

/// RFC 6298, section 5, and RFC 5681, equation 5: everything again from the first hole, one segment, slow start.
#[test]
fn a_timeout_starts_from_one_segment() {
    let mut tcp = ten(Config { rack_tlp: false, undo: false, ..plain() });
    let (cause, wait) = tcp.deadline();
    // SRTT 100 ms, RTTVAR 50 ms: 100 + max(200, 4 x 50) = 300 ms after the first of the ten, 100 of which are over.
    assert_eq!((cause, wait), ("retransmission timeout", Span::from_millis(200)));
    assert_eq!(tcp.data(), [(1, 1_000)]);
    let status = tcp.tcp.status();
    assert_eq!((status.cwnd, status.ssthresh), (1_000, Some(5_000)));
    assert_eq!(status.rto, Span::from_millis(600), "section 5.5");
    tcp.wait(100);
    tcp.ack(1_001);
    assert_eq!(tcp.data(), [(1_001, 1_000), (2_001, 1_000)]);
    assert_eq!(tcp.counters().timeouts, 1);
}

/// RFC 2018, section 8: a receiver may drop what it reported; after a timeout with the first hole reported, all goes again.
#[test]
fn a_receiver_that_takes_back_its_reports() {
    let mut tcp = ten(plain());
    tcp.sack(1, &[(1_001, 10_001)]);
    tcp.drain();
    tcp.wait(100);
    tcp.ack(1_001);
    tcp.drain();
    for _ in 0..10 {
        let (cause, _) = tcp.deadline();
        let sent = tcp.data();
        if cause == "retransmission timeout" {
            assert_eq!(sent[0], (1_001, 1_000), "reported, and sent again all the same");
            return;
        }
    }
    panic!("no timeout came");
}

/// RFC 8985, section 7: two round trips of silence send the last segment again, or new data if there is some.
#[test]
fn tail_loss_probe() {
    let mut tcp = Script::established(plain());
    tcp.write(3_000);
    assert_eq!(tcp.data().len(), 3);
    let (cause, wait) = tcp.deadline();
    assert_eq!((cause, wait), ("tail loss probe", Span::from_millis(200)));
    assert_eq!(tcp.data(), [(2_001, 1_000)]);
    assert_eq!(tcp.tcp.status().cwnd, 10_000, "a probe is no sign of congestion");
    // The probe's report shows the holes below it.
    tcp.wait(100);
    tcp.sack(1, &[(2_001, 3_001)]);
    let mut repeats = tcp.data();
    if repeats.is_empty() {
        assert_eq!(tcp.deadline().0, "reordering window");
        repeats = tcp.data();
    }
    assert_eq!(repeats, [(1, 1_000)], "as much as has arrived (RFC 9937)");
    tcp.wait(100);
    tcp.sack(1_001, &[(2_001, 3_001)]);
    assert_eq!(tcp.data(), [(1_001, 1_000)]);
    assert_eq!((tcp.counters().timeouts, tcp.counters().tail_probes), (0, 1));
}

/// RFC 8985, section 7.4.2: a probe that repaired a loss not detected otherwise still is congestion.
#[test]
fn a_loss_that_the_probe_mended_counts() {
    let mut tcp = Script::established(plain());
    tcp.write(3_000);
    tcp.data();
    tcp.deadline();
    assert_eq!(tcp.data(), [(2_001, 1_000)]);
    tcp.write(1_000);
    tcp.data();
    tcp.wait(100);
    tcp.ack(4_001);
    assert!(tcp.tcp.status().ssthresh.is_some_and(|ssthresh| ssthresh < 10_000));
}

/// RFC 2883 and RFC 8985, section 6.2: a needless repeat is counted, and widens the patience.
#[test]
fn needless_repeats_are_noticed() {
    let mut tcp = ten(plain());
    tcp.sack(1, &[(1_001, 2_001)]);
    tcp.drain();
    tcp.deadline();
    assert_eq!(tcp.data()[0].0, 1);
    tcp.ack(2_001);
    tcp.sack(2_001, &[(1, 1_001)]);
    assert_eq!(tcp.counters().needless, 1);
}

/// RFC 3168, section 6.1.2: one reduction per round trip, told by CWR, and nothing is repeated.
#[test]
fn a_mark_reduces_once_and_sets_cwr() {
    let options = wavelane_wire::tcp::Options { ..syn_options() };
    let mut tcp = Script::connect(Config { ecn: true, prr: false, ..plain() });
    tcp.drain();
    tcp.wait(100);
    tcp.give_header(TcpHeader { options, ..header(S.with(A).with(Flags::ECE), 0, 1) }, b"");
    tcp.drain();
    tcp.write(10_000);
    let sent = tcp.drain();
    assert!(sent.iter().all(|o| o.ecn == wavelane_base::Ecn::Ect0));
    tcp.write(40_000);
    tcp.wait(100);
    tcp.give(A.with(Flags::ECE), 1, 1_001, b"");
    tcp.give(A.with(Flags::ECE), 1, 2_001, b"");
    assert_eq!((tcp.counters().marks, tcp.counters().retransmits), (1, 0));
    assert!(tcp.tcp.status().cwnd <= 5_000);
    tcp.give(A, 1, 9_001, b"");
    let next = tcp.drain();
    assert!(next[0].flags.has(Flags::CWR) && !next[1].flags.has(Flags::CWR));
}

/// The receiver echoes a mark until it hears of the reduction.
#[test]
fn a_mark_is_echoed_until_answered() {
    let mut tcp = Script::accept(Config { ecn: true, ..plain() }, syn_options());
    // A SYN without the ECN bits: no ECN.
    assert_eq!(tcp.one().flags, S.with(A));
    let mut tcp = Script::connect(Config { ecn: true, ..plain() });
    tcp.drain();
    tcp.give_header(TcpHeader { options: syn_options(), ..header(S.with(A).with(Flags::ECE), 0, 1) }, b"");
    tcp.drain();
    tcp.give_marked(header(A, 1, 1), b"one", wavelane_base::Ecn::Ce);
    assert!(tcp.one().flags.has(Flags::ECE));
    tcp.give(A, 4, 1, b"two");
    tcp.give(A, 7, 1, b"two");
    assert!(tcp.one().flags.has(Flags::ECE), "still");
    tcp.give(A.with(Flags::CWR), 10, 1, b"three");
    tcp.give(A, 15, 1, b"four");
    assert!(!tcp.one().flags.has(Flags::ECE));
}

/// RFC 8985, section 7.2, TLP_calc_PTO: where the timeout would come first, the probe goes at that time in its place.
#[test]
fn a_tail_probe_replaces_an_earlier_rto() {
    let mut tcp = Script::established(plain());
    tcp.write(1_000);
    tcp.data();
    assert_eq!(tcp.deadline(), ("tail loss probe", Span::from_millis(300)));
    assert_eq!(tcp.data(), [(1, 1_000)]);
    assert_eq!((tcp.counters().timeouts, tcp.tcp.status().cwnd), (0, 10_000));
}

/// RFC 8985, section 6.2, step 2: an acknowledgement whose echo is older than the repeat tells of the original.
#[test]
fn an_ack_of_the_original_does_not_time_the_retransmit() {
    let options = Options { timestamps: stamps(1_000, 0).timestamps, ..syn_options() };
    let mut tcp = Script::established_with(Config { timestamps: true, undo: false, mss: 1_012, ..plain() }, options);
    tcp.write(9_880);
    let sent = tcp.drain();
    assert_eq!(sent.len(), 10);
    let size = sent[0].payload.len() as u32;
    let original = sent[0].options.timestamps.unwrap().value;
    tcp.write(20_000);
    tcp.wait(100);
    let block = |from: u32, to: u32| Options {
        timestamps: stamps(1_010, original).timestamps,
        ..sacks(&[(1 + from * size, 1 + to * size)])
    };
    tcp.give_header(TcpHeader { options: block(1, 4), ..header(A, 1, 1) }, b"");
    assert_eq!(tcp.data()[0].0, 1);
    tcp.wait(110);
    let late = Options { timestamps: stamps(1_020, original).timestamps, ..Options::default() };
    tcp.give_header(TcpHeader { options: late, ..header(A, 1, 1 + 4 * size) }, b"");
    assert_eq!(tcp.tcp.sender.board.lost(), 0, "{:?}", tcp.counters());
}

/// `quirks.unmeasured_after_timeout` (docs/models/tcp.md): what was in flight at a timeout is never measured, with SACK either.
#[test]
fn sacks_after_a_timeout_are_not_rtt_samples() {
    let mut tcp = ten(Config {
        quirks: Quirks { unmeasured_after_timeout: true, ..Quirks::default() },
        rack_tlp: false,
        undo: false,
        ..plain()
    });
    tcp.deadline();
    tcp.data();
    let before = tcp.tcp.status().rtt;
    tcp.sack(1, &[(1_001, 2_001)]);
    assert_eq!(tcp.tcp.status().rtt, before);
}

/// A timeout in a recovery: Linux's threshold is the recovery's, RFC 5681, section 4.3, lowers it again.
#[test]
fn a_timeout_in_a_recovery_reduces_once_or_twice() {
    for (reduce_again, threshold) in [(false, 5_000), (true, 2_000)] {
        let mut tcp = ten(Config { reduce_again, ..plain() });
        tcp.sack(1, &[(7_001, 10_001)]);
        tcp.drain();
        assert_eq!((tcp.counters().recoveries, tcp.tcp.status().ssthresh), (1, Some(5_000)));
        tcp.wait(100);
        tcp.sack(4_001, &[(7_001, 10_001)]);
        tcp.drain();
        while tcp.counters().timeouts == 0 {
            tcp.deadline();
        }
        let reduced = tcp.tcp.status().ssthresh;
        assert!(if reduce_again { reduced < Some(5_000) } else { reduced == Some(threshold) }, "{reduced:?}");
        // The next one, without progress, never does.
        tcp.drain();
        assert_eq!(tcp.deadline().0, "retransmission timeout");
        assert_eq!((tcp.counters().timeouts, tcp.tcp.status().ssthresh), (2, reduced));
    }
}

/// The repeat of what is missing first starts the timer anew; one of something else does not.
#[test]
fn the_timeout_counts_from_the_repeat_of_the_first_hole() {
    for timer_from_repeat in [true, false] {
        let mut tcp = ten(Config { timer_from_repeat, ..plain() });
        tcp.ack(1_001);
        tcp.drain();
        let before = tcp.tcp.status().rto;
        tcp.now += Span::from_millis(100);
        tcp.sack(1_001, &[(2_001, 5_001)]);
        let again = tcp.data();
        assert_eq!(again[0], (1_001, 1_000), "{again:?}");
        let rto = if timer_from_repeat { tcp.tcp.status().rto } else { before.saturating_sub(Span::from_millis(100)) };
        assert_eq!(tcp.deadline(), ("retransmission timeout", rto));
    }
}
