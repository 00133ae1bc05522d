//! Persist, keepalive, giving up, pacing, restart after idle.

use super::script::*;
use super::*;
use wavelane_wire::tcp::TcpHeader;

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
    assert_eq!(tcp.state(), State::Established, "answered probes never count as silence");
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
    assert_eq!((tcp.state(), tcp.events()), (State::Closed, vec![Event::TimedOut]));
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
    assert_eq!((tcp.state(), tcp.events()), (State::Closed, vec![Event::TimedOut]));
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
    let mut buf = vec![0; crate::tcp::PACKET_ROOM];
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
