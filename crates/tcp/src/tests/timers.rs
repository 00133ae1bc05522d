//! Persist, keepalive, giving up, pacing, restart after idle.

use super::script::*;
use super::*;
use wavelane_wire::tcp::{Options, TcpHeader};

fn with_window(window: u16, ack: u32) -> TcpHeader {
    TcpHeader { window, ..header(A, 1, ack) }
}

/// RFC 9293, section 3.8.6.1: a shut window is probed, with back-off, for as long as the peer answers.
#[test]
fn a_shut_window_is_probed_until_it_opens() {
    let mut tcp = Script::established(Config { data_retries: 2, ..plain() });
    tcp.give_header(with_window(0, 1), b"");
    tcp.write(5_000);
    tcp.quiet();
    let mut last = Span::ZERO;
    for _ in 0..10 {
        let (cause, wait) = tcp.deadline();
        assert_eq!(cause, "zero-window probe");
        assert!(wait >= last, "{wait} after {last}");
        last = wait;
        let probe = tcp.one();
        assert_eq!((probe.seq, probe.flags, probe.payload.len()), (0, A, 0));
        tcp.give_header(with_window(0, 1), b"");
        tcp.quiet();
    }
    assert_eq!(tcp.state(), ConnectionState::Established, "answered probes never count as silence");
    tcp.give_header(with_window(3_000, 1), b"");
    assert_eq!(tcp.data(), [(1, 1_000), (1_001, 1_000), (2_001, 1_000)]);
}

/// RFC 9293, section 3.8.6.2.1: a window of less than a segment is left alone, but not for ever.
#[test]
fn a_small_window_is_used_after_a_while() {
    let mut tcp = Script::established(plain());
    tcp.give_header(with_window(100, 1), b"");
    tcp.write(5_000);
    tcp.quiet();
    assert_eq!(tcp.deadline().0, "zero-window probe");
    assert_eq!(tcp.data(), [(1, 100)]);
}

#[test]
fn keepalive_asks_and_gives_up() {
    let keepalive = Keepalive { idle: Span::from_secs(60), interval: Span::from_secs(5), probes: 2 };
    let mut tcp = Script::established(Config { keepalive: Some(keepalive), ..plain() });
    assert_eq!(tcp.deadline(), ("keepalive", Span::from_secs(60)));
    let probe = tcp.one();
    assert_eq!((probe.seq, probe.payload.len()), (0, 0));
    tcp.ack(1);
    assert_eq!(tcp.deadline(), ("keepalive", Span::from_secs(60)), "an answer starts anew");
    tcp.drain();
    assert_eq!(tcp.deadline().1, Span::from_secs(5));
    tcp.drain();
    assert_eq!(tcp.deadline().1, Span::from_secs(5));
    assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![TcpEvent::TimedOut]));
    assert!(tcp.one().flags.has(R));
}

#[test]
fn our_answer_to_a_keepalive() {
    let mut tcp = Script::established(plain());
    tcp.give(A, 0, 1, b"");
    assert_eq!(tcp.one().ack, 1);
}

#[test]
fn unanswered_data_is_given_up() {
    let mut tcp = Script::established(Config { data_retries: 3, rack_tlp: false, ..plain() });
    tcp.write(10);
    tcp.drain();
    for _ in 0..3 {
        tcp.deadline();
        assert_eq!(tcp.data(), [(1, 10)]);
    }
    tcp.deadline();
    assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![TcpEvent::TimedOut]));
}

/// RFC 5681, section 4.1.
#[test]
fn after_idle_the_window_starts_over() {
    let mut tcp = Script::established(plain());
    tcp.write(30_000);
    let mut ack = 1;
    for _ in 0..3 {
        let sent: u32 = tcp.data().iter().map(|(_, n)| *n as u32).sum();
        tcp.wait(100);
        ack += sent;
        tcp.ack(ack);
    }
    assert!(tcp.tcp.status().cwnd > 15_000);
    tcp.wait(5_000);
    tcp.write(30_000);
    assert_eq!(tcp.data().len(), 10);
}

#[test]
fn paced_segments_leave_in_pairs() {
    let mut tcp = Script::established(Config { pacing: true, ..plain() });
    tcp.write(10_000);
    let mut gaps = Vec::new();
    // A millisecond's worth is less than two segments, the smallest burst.
    assert_eq!(tcp.data().len(), 2);
    for _ in 1..5 {
        let (cause, wait) = tcp.deadline();
        assert_eq!(cause, "pacing");
        gaps.push(wait);
        assert_eq!(tcp.data().len(), 2);
    }
    // Ten segments per 100 ms, twice as fast in slow start, headers counted; the first burst makes up for the silence
    // before it by half of its time.
    assert!(gaps[0] >= Span::from_millis(5) && gaps[0] < Span::from_micros(5_500), "{gaps:?}");
    assert!(gaps[1..].iter().all(|gap| *gap >= Span::from_millis(10) && *gap <= Span::from_micros(10_600)), "{gaps:?}");
}

/// In real time the clock goes on while a burst is sent: it is a burst all the same, and no longer than one.
#[test]
fn a_burst_may_take_its_driver_a_while() {
    let mut tcp = Script::established(Config { pacing: true, ..plain() });
    tcp.write(10_000);
    let mut buf = vec![0; crate::PACKET_ROOM];
    for _ in 0..5 {
        let mut sent = 0;
        while tcp.tcp.poll_transmit(tcp.now, &mut buf).is_some() {
            sent += 1;
            tcp.now += Span::from_micros(100);
        }
        assert_eq!(sent, 2);
        tcp.deadline();
    }
}

/// A sender that is woken late makes up for it, by half of a burst's time at most.
#[test]
fn a_late_timer_does_not_slow_the_pace() {
    let mut tcp = Script::established(Config { pacing: true, ..plain() });
    tcp.write(10_000);
    assert_eq!(tcp.data().len(), 2);
    let due = tcp.tcp.poll_timeout().unwrap().at;
    tcp.now = due + Span::from_millis(2);
    tcp.tcp.handle_timeout(tcp.now);
    assert_eq!(tcp.data().len(), 2);
    let next = tcp.tcp.poll_timeout().unwrap().at;
    assert!(next <= due + Span::from_micros(10_600) && next >= due + Span::from_millis(10), "{due:?} {next:?}");
    tcp.now = next + Span::from_millis(9);
    tcp.tcp.handle_timeout(tcp.now);
    assert_eq!(tcp.data().len(), 2);
    let after = tcp.tcp.poll_timeout().unwrap().at;
    let late = after.since(next + Span::from_micros(10_520));
    assert!(late >= Span::from_millis(3) && late <= Span::from_millis(4), "half of 10.52 ms is made up for: {late:?}");
}

/// The timeout of the profile of 2001: 6 s at first, then whole tenths of a second, a second at least.
#[test]
fn the_clock_of_2001() {
    let mut tcp = Script::connect(Config { mss: 1_000, ..Config::tcp_2001() });
    tcp.drain();
    assert_eq!(tcp.tcp.poll_timeout().unwrap().at.since(tcp.now), Span::from_secs(6));
    tcp.wait(130);
    tcp.give_header(TcpHeader { options: syn_options(), ..header(S.with(A), 0, 1) }, b"");
    tcp.drain();
    let status = tcp.tcp.status();
    assert_eq!((status.rtt, status.rto, status.cwnd), (Some(Span::from_millis(200)), Span::from_secs(1), 2_000));
    tcp.give(A, 1, 1, b"one");
    assert_eq!(tcp.one().ack, 4, "every segment is acknowledged");
}

/// RFC 9293, section 3.8.4 (MUST-26): no keepalive while something waits for its acknowledgement or for the window; the
/// timers of those give up in their own time.
#[test]
fn keepalive_leaves_data_to_its_own_timers() {
    let keepalive = Keepalive { idle: Span::from_secs(2), interval: Span::from_millis(100), probes: 1 };
    let config = Config { keepalive: Some(keepalive), rack_tlp: false, ..plain() };
    for window in [60_000, 0] {
        let mut tcp = Script::established(config.clone());
        tcp.give_header(with_window(window, 1), b"");
        tcp.write(1_000);
        tcp.run(30_000);
        assert_eq!(tcp.state(), ConnectionState::Established, "a second of silence after 2 s is no reason to give up");
        tcp.give_header(with_window(60_000, 1_001.min(tcp.tcp.sender.next as u32)), b"");
        tcp.drain();
    }
    // FIN-WAIT-2 and CLOSE-WAIT are asked, TIME-WAIT is not.
    let mut tcp = Script::established(config.clone());
    tcp.tcp.shutdown(tcp.now);
    tcp.drain();
    tcp.ack(2);
    assert_eq!(tcp.deadline().0, "keepalive");
    assert_eq!(tcp.one().seq, 1);
    tcp.give(A.with(F), 1, 2, b"");
    tcp.give(A, 2, 2, b"");
    tcp.drain();
    assert_eq!(tcp.deadline().0, "end of TIME-WAIT");
}

/// A zero window whose probes stay unanswered ends the connection as unanswered data does.
#[test]
fn unanswered_probes_are_given_up() {
    let mut tcp = Script::established(Config { data_retries: 3, ..plain() });
    tcp.give_header(with_window(0, 1), b"");
    tcp.write(5_000);
    for answered in [true, false, false, false] {
        assert_eq!(tcp.deadline().0, "zero-window probe");
        tcp.one();
        if answered {
            tcp.give_header(with_window(0, 1), b"");
        }
    }
    assert_eq!(tcp.state(), ConnectionState::Established);
    tcp.deadline();
    assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![TcpEvent::TimedOut]));
    assert!(tcp.one().flags.has(R), "the peer may be there after all");
}

/// Probes back off, but what is sent once the window opens has the timeout of the path.
#[test]
fn probes_do_not_slow_the_timeout_down() {
    let mut tcp = Script::established(Config { rack_tlp: false, ..plain() });
    let rto = tcp.tcp.status().rto;
    tcp.give_header(with_window(0, 1), b"");
    tcp.write(5_000);
    let mut waits = Vec::new();
    for _ in 0..6 {
        waits.push(tcp.deadline().1);
        tcp.one();
        tcp.give_header(with_window(0, 1), b"");
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32].map(|n| rto.times(n)));
    tcp.give_header(with_window(3_000, 1), b"");
    assert_eq!(tcp.data().len(), 3);
    assert_eq!(tcp.deadline(), ("retransmission timeout", rto));
}

/// RFC 9293, section 3.8.6 (MUST-34, MUST-37, SHLD-17): a window that shrinks to nothing turns repeats into probes; the
/// connection stays as long as they are answered, and no longer.
#[test]
fn a_window_that_shrinks_to_nothing_is_probed_by_repeats() {
    let mut tcp = ten(Config { rack_tlp: false, data_retries: 2, ..plain() });
    for _ in 0..6 {
        tcp.give_header(with_window(0, 1), b"");
        tcp.quiet();
        assert_eq!(tcp.deadline().0, "retransmission timeout");
        assert_eq!(tcp.data(), [(1, 1_000)]);
    }
    assert_eq!(tcp.state(), ConnectionState::Established);
    tcp.deadline();
    tcp.drain();
    tcp.deadline();
    assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![TcpEvent::TimedOut]));
}

/// Karn's algorithm: an acknowledgement of what went twice measures nothing, and the timeout stays backed off until something
/// that went once is acknowledged (RFC 6298, sections 3 and 5; RFC 9293, MUST-18). Timestamps measure every time.
#[test]
fn back_off_stays_until_a_round_trip_is_measured() {
    for timestamps in [false, true] {
        let offered = Options { timestamps: stamps(1_000, 0).timestamps, ..syn_options() };
        let options = if timestamps { offered } else { syn_options() };
        let config = Config { rack_tlp: false, undo: false, timestamps, ..plain() };
        let mut tcp = Script::established_with(config, options);
        tcp.write(900);
        tcp.drain();
        let rto = tcp.tcp.status().rto;
        assert_eq!(tcp.deadline(), ("retransmission timeout", rto));
        let again = tcp.one();
        tcp.wait(100);
        let answer = |value, echo| if timestamps { stamps(value, echo) } else { Options::default() };
        let echo = again.options.timestamps.map_or(0, |stamps| stamps.value);
        tcp.give_header(TcpHeader { options: answer(1_010, echo), ..header(A, 1, 901) }, b"");
        let now = tcp.tcp.status().rto;
        assert_eq!(now == rto.times(2), !timestamps, "{now} after {rto}");
        tcp.write(900);
        let new = tcp.one();
        assert_eq!(tcp.tcp.poll_timeout().unwrap().at.since(tcp.now), now);
        tcp.wait(100);
        let echo = new.options.timestamps.map_or(0, |stamps| stamps.value);
        tcp.give_header(TcpHeader { options: answer(1_020, echo), ..header(A, 1, 1_801) }, b"");
        assert!(tcp.tcp.status().rto <= rto, "measured");
    }
}

/// As ns-3: whatever is acknowledged ends the back-off, measured or not.
#[test]
fn back_off_ends_with_anything_new_by_its_knob() {
    let quirks = Quirks { any_ack_ends_backoff: true, ..Quirks::default() };
    let config = Config { rack_tlp: false, undo: false, quirks, ..plain() };
    let mut tcp = Script::established(config);
    tcp.write(900);
    tcp.drain();
    let rto = tcp.tcp.status().rto;
    tcp.deadline();
    tcp.drain();
    assert_eq!(tcp.tcp.status().rto, rto.times(2));
    tcp.ack(901);
    assert_eq!(tcp.tcp.status().rto, rto);
}

/// RFC 5681, section 3.1, equation 4, and its last paragraph: the threshold falls with the first timeout of a segment only.
#[test]
fn the_second_timeout_of_a_segment_leaves_the_threshold() {
    let mut tcp = ten(Config { rack_tlp: false, undo: false, ..plain() });
    tcp.deadline();
    tcp.drain();
    tcp.deadline();
    tcp.drain();
    assert_eq!((tcp.counters().timeouts, tcp.tcp.status().ssthresh), (2, Some(5_000)));
    tcp.wait(100);
    tcp.ack(1_001);
    tcp.drain();
    while tcp.counters().timeouts < 3 {
        tcp.deadline();
    }
    assert!(tcp.tcp.status().ssthresh < Some(5_000), "another segment, another loss");
}

#[test]
fn an_abandoned_connection_is_reset() {
    let mut tcp = Script::established(Config { data_retries: 0, rack_tlp: false, ..plain() });
    tcp.write(10);
    tcp.drain();
    tcp.deadline();
    assert_eq!(tcp.state(), ConnectionState::Closed);
    assert!(tcp.one().flags.has(R));
    let mut tcp = Script::connect(plain());
    tcp.one();
    tcp.tcp.reset();
    tcp.quiet();
    assert!(tcp.tcp.is_done(), "nobody needs to hear of the end of a SYN (RFC 9293, section 3.10.5)");
}
