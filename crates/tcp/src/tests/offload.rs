//! Trains of segments, and what their receiver makes of them, as Linux has it.

use super::script::*;
use super::*;
use wavelane_base::ReadOutcome;
use wavelane_wire::tcp::TcpHeader;

/// Which of the segments that go now ask to be delivered at once.
fn pushed(tcp: &mut Script) -> Vec<bool> {
    tcp.drain().into_iter().filter(|out| !out.payload.is_empty()).map(|out| out.flags.has(P)).collect()
}

/// A millisecond's worth of the pace is less than two segments, the shortest train.
#[test]
fn the_end_of_a_train_carries_psh() {
    for (offload, ends) in [(true, [false, true]), (false, [false, false])] {
        let mut tcp = Script::established(Config { offload, ..plain() });
        tcp.write(40_000);
        assert_eq!(pushed(&mut tcp), ends.repeat(5));
        // The window is ten segments: what is left waits, and its last asks anyway.
        tcp.wait(100);
        tcp.ack(10_001);
        let all = pushed(&mut tcp);
        assert_eq!(all, ends.repeat(10));
    }
}

/// As many as go in 1/1024 s at the pace, at most half of the window.
#[test]
fn trains_are_as_long_as_the_pace_makes_them() {
    // Slow start's pace is twice the window per round trip: 80 kB in 2, 10 and 100 ms.
    for (millis, train) in [(2, 20), (10, 7), (100, 2)] {
        let mut tcp = Script::connect(Config { initial_window: 40, ..plain() });
        tcp.drain();
        tcp.now += Span::from_millis(millis);
        tcp.give_header(TcpHeader { options: syn_options(), ..header(S.with(A), 0, 1) }, b"");
        tcp.drain();
        tcp.write(60_000);
        let ends: Vec<usize> = (1..=40).filter(|n| n % train == 0).collect();
        let found: Vec<usize> =
            pushed(&mut tcp).into_iter().enumerate().filter(|(_, p)| *p).map(|(place, _)| place + 1).collect();
        assert_eq!(found, if millis == 10 { vec![7, 14, 21, 28, 35, 40] } else { ends }, "{millis} ms");
    }
}

/// A short round trip adds 64 KiB to a train, halved for each 512 us of it.
#[test]
fn trains_are_longer_where_round_trips_are_short() {
    for (micros, most) in [(400, 65_536), (1_000, 32_768 + 3_906), (2_000, 8_192 + 1_953), (40_000, 2_000)] {
        let mut tcp = Script::connect(Config { initial_window: 2, ..plain() });
        tcp.drain();
        tcp.now += Span::from_micros(micros);
        tcp.give_header(TcpHeader { options: syn_options(), ..header(S.with(A), 0, 1) }, b"");
        let found = tcp.tcp.sender.train_octets();
        assert!(found.abs_diff(most) <= 4, "{micros} us: {found}, not {most}");
    }
}

/// What goes again asks as it did at first.
#[test]
fn a_repeat_is_marked_like_its_original() {
    let mut tcp = ten(plain());
    tcp.sack(1, &[(4_001, 10_001)]);
    let mut again = tcp.drain();
    tcp.wait(100);
    tcp.sack(1_001, &[(4_001, 10_001)]);
    again.extend(tcp.drain());
    let flags: Vec<_> = again.iter().filter(|out| out.seq < 4_001).map(|out| (out.seq, out.flags.has(P))).collect();
    assert_eq!(&flags[..2], [(1, false), (1_001, true)], "{flags:?}");
}

/// The window lets one segment go, and an acknowledgement is due at once: the two go together after it.
#[test]
fn a_short_train_waits_for_an_acknowledgement_that_is_due() {
    let answer = |tcp: &mut Script, ack| tcp.give_header(TcpHeader { window: 10_000, ..header(A, 1, ack) }, b"");
    let mut tcp = ten(plain());
    answer(&mut tcp, 1_001);
    assert_eq!(tcp.data(), [(10_001, 1_000)], "nothing went within the last millisecond");
    tcp.now += Span::from_micros(600);
    answer(&mut tcp, 2_001);
    tcp.quiet();
    assert!(tcp.tcp.poll_timeout().is_some_and(|wakeup| wakeup.at > tcp.now), "no deadline is past meanwhile");
    tcp.now += Span::from_micros(600);
    answer(&mut tcp, 3_001);
    assert_eq!(tcp.data(), [(11_001, 1_000), (12_001, 1_000)]);
    // What is written looks again: a millisecond later it goes.
    tcp.now += Span::from_micros(100);
    answer(&mut tcp, 4_001);
    tcp.quiet();
    tcp.write(1);
    tcp.quiet();
    tcp.wait(2);
    tcp.write(1);
    assert_eq!(tcp.data(), [(13_001, 1_000)]);
    // In a recovery nothing waits.
    answer(&mut tcp, 5_001);
    tcp.quiet();
    tcp.give_header(TcpHeader { window: 10_000, options: sacks(&[(6_001, 12_001)]), ..header(A, 1, 5_001) }, b"");
    assert!(tcp.tcp.status().repairing && !tcp.data().is_empty());
}

/// Something is always in flight while a train waits, so the timers end the wait.
#[test]
fn a_train_that_waits_goes_when_a_timer_comes() {
    let mut tcp = ten(plain());
    tcp.give_header(TcpHeader { window: 10_000, ..header(A, 1, 1_001) }, b"");
    assert_eq!(tcp.data(), [(10_001, 1_000)]);
    tcp.give_header(TcpHeader { window: 10_000, ..header(A, 1, 2_001) }, b"");
    tcp.quiet();
    assert_eq!(tcp.deadline().0, "tail loss probe");
    assert_eq!(tcp.data(), [(11_001, 1_000)]);
}

/// Reads all there is.
fn read(tcp: &mut Script) {
    let mut buf = [0; 4_096];
    while let ReadOutcome::Data(_) = tcp.tcp.read(tcp.now, &mut buf) {}
}

#[test]
fn pushed_data_is_acknowledged_on_read() {
    for (ack_when_read, flags, at_once) in [(true, A.with(P), true), (true, A, false), (false, A.with(P), false)] {
        let mut tcp = Script::established(Config { ack_when_read, ..plain() });
        tcp.give(flags, 1, 1, &[b'x'; 1_000]);
        tcp.quiet();
        read(&mut tcp);
        assert_eq!(tcp.drain().len(), usize::from(at_once));
        tcp.wait(40);
        assert_eq!(tcp.drain().len(), usize::from(!at_once));
    }
    // A small segment is the end of what was written, whatever its flags.
    let mut tcp = Script::established(plain());
    tcp.give(A, 1, 1, &[b'x'; 1_000]);
    tcp.give(A, 1_001, 1, &[b'x'; 1_000]);
    assert_eq!(tcp.one().ack, 2_001);
    tcp.give(A, 2_001, 1, b"end");
    tcp.quiet();
    read(&mut tcp);
    assert_eq!(tcp.one().ack, 2_004);
    // Not all was read: the rest follows soon.
    tcp.give(A.with(P), 2_004, 1, b"more");
    let mut one = [0; 1];
    assert_eq!(tcp.tcp.read(tcp.now, &mut one), ReadOutcome::Data(1));
    tcp.quiet();
    read(&mut tcp);
    assert_eq!(tcp.one().ack, 2_008);
}

/// Answers within the delay carry acknowledgements, until one delay passes without an answer.
#[test]
fn a_response_replaces_the_ack_on_read() {
    let mut tcp = Script::established(plain());
    tcp.give(A.with(P), 1, 1, b"question");
    tcp.wait(39);
    tcp.write(6);
    assert_eq!((tcp.one().ack, tcp.counters().segments), (9, 3));
    tcp.give(A, 9, 7, b"");
    tcp.give(A.with(P), 9, 7, b"question");
    read(&mut tcp);
    tcp.quiet();
    tcp.wait(40);
    assert_eq!(tcp.one().ack, 17, "the delay is over, and there was no answer");
    tcp.give(A.with(P), 17, 7, b"question");
    read(&mut tcp);
    assert_eq!(tcp.one().ack, 25);
    // An answer that comes after the delay is none.
    tcp.wait(41);
    tcp.write(6);
    tcp.drain();
    tcp.give(A.with(P), 25, 13, b"question");
    read(&mut tcp);
    assert_eq!(tcp.one().ack, 33);
}

/// A duplicate, or a silence longer than a timeout, says that the sender waits.
#[test]
fn haste_returns_with_a_duplicate_and_after_a_silence() {
    let config = Config { quick_acks: 3, receive_buffer: 100_000, ..plain() };
    let mut tcp = Script::established(config);
    let mut next = 1;
    let mut give = |tcp: &mut Script| {
        tcp.give(A, next, 1, &[b'x'; 1_000]);
        next += 1_000;
        read(tcp);
        tcp.drain().len()
    };
    let mut six = |tcp: &mut Script| -> Vec<usize> { (0..6).map(|_| give(tcp)).collect() };
    assert_eq!(six(&mut tcp), [1, 1, 1, 0, 1, 0]);
    tcp.wait(299);
    tcp.drain();
    assert_eq!(six(&mut tcp), [0, 1, 0, 1, 0, 1], "the timeout is 300 ms");
    tcp.wait(301);
    assert_eq!(six(&mut tcp), [1, 1, 1, 0, 1, 0]);
    tcp.wait(40);
    tcp.drain();
    tcp.give(A, 1, 1, &[b'x'; 1_000]);
    assert_eq!(tcp.drain().len(), 1);
    assert_eq!(six(&mut tcp), [1, 1, 1, 0, 1, 0]);
}

/// In real time an acknowledgement may come while a train leaves: what goes after it belongs to another train, sent later
/// than the repeat that goes first.
#[test]
fn a_repeat_ends_the_train_that_it_interrupts() {
    let mut tcp = ten(Config { rack_tlp: true, ..plain() });
    // Two arrived, so four go, and the first train of two begins.
    tcp.ack(2_001);
    let mut buf = vec![0; PACKET_ROOM];
    let begun = tcp.now;
    assert!(tcp.tcp.poll_transmit(tcp.now, &mut buf).is_some());
    tcp.now += Span::from_micros(200);
    tcp.sack(2_001, &[(3_001, 10_001)]);
    let rest: Vec<u32> = tcp.drain().iter().map(|out| out.seq).collect();
    assert_eq!(rest[0], 2_001, "the hole goes first");
    assert!(rest.len() > 1, "and then what the train had begun with");
    let board = &tcp.tcp.sender.board;
    let repeat = board.front().unwrap().stamp.sent_at;
    assert!(repeat > begun);
    for sent in board.iter().filter(|sent| sent.start > 10_001) {
        assert!(sent.stamp.sent_at >= repeat, "{sent:?} left after the repeat");
    }
}

/// Segments of a whole write that fills them are not taken for parts of a longer one (Minshall's rule of the other half waits for none).
#[test]
fn what_was_pushed_has_nothing_to_follow() {
    for (flags, more) in [(A, true), (A.with(P), false)] {
        let mut tcp = Script::established(plain());
        tcp.give(flags, 1, 1, &[b'x'; MSS]);
        assert_eq!(tcp.tcp.receiver.more, more);
        // The last and shorter one ends it.
        tcp.give(A, 1 + MSS as u32, 1, b"end");
        assert!(!tcp.tcp.receiver.more);
    }
}
