//! Sending and receiving: windows, delayed acknowledgements, reports, small segments.

use super::script::*;
use super::*;
use wavelane_base::ReadOutcome;
use wavelane_wire::tcp::{Options, TcpHeader};

#[test]
fn the_initial_window_is_ten_segments_and_slow_start_doubles_it() {
    let mut tcp = Script::established(plain());
    tcp.write(60_000);
    assert_eq!(tcp.data().len(), 10, "RFC 6928");
    tcp.wait(100);
    let mut sent = 0;
    for ack in (2_001..=10_001).step_by(2_000) {
        tcp.ack(ack);
        sent += tcp.data().len();
    }
    assert_eq!(sent, 20);
    assert_eq!(tcp.tcp.status().cwnd, 20_000);
}

/// RFC 5681, section 3.1: at least every second segment at once, a single one after the timer.
#[test]
fn acknowledgements_are_delayed() {
    let mut tcp = Script::established(plain());
    tcp.give(A, 1, 1, &[1; 1_000]);
    tcp.quiet();
    assert_eq!(tcp.deadline(), ("delayed acknowledgement", Span::from_millis(40)));
    assert_eq!(tcp.one().ack, 1_001);
    tcp.give(A, 1_001, 1, &[1; 1_000]);
    tcp.give(A, 2_001, 1, &[1; 1_000]);
    assert_eq!(tcp.one().ack, 3_001);
    // Data of our own carries it.
    tcp.give(A, 3_001, 1, &[1; 1_000]);
    tcp.write(10);
    assert_eq!(tcp.one().ack, 4_001);
    assert!(tcp.tcp.poll_timeout().is_some_and(|w| w.cause != "delayed acknowledgement"));
}

#[test]
fn the_first_segments_are_acknowledged_at_once() {
    let mut tcp = Script::established(Config { quick_acks: 2, ..plain() });
    for seq in [1, 101] {
        tcp.give(A, seq, 1, &[1; 100]);
        assert_eq!(tcp.one().ack, seq + 100);
    }
    tcp.give(A, 201, 1, &[1; 100]);
    tcp.quiet();
}

/// RFC 2018, section 4: the block with the newest segment comes first; RFC 2883: a duplicate before it, once.
#[test]
fn sack_blocks_list_data_beyond_a_hole() {
    let relative = |out: &Out| -> Vec<(u32, u32)> {
        let blocks = out.options.sack.as_slice().iter();
        blocks.map(|(l, r)| (l.wrapping_sub(PEER), r.wrapping_sub(PEER))).collect()
    };
    let mut tcp = Script::established(plain());
    tcp.give(A, 1_001, 1, &[2; 500]);
    let out = tcp.one();
    assert_eq!((out.ack, relative(&out)), (1, vec![(1_001, 1_501)]));
    tcp.give(A, 3_001, 1, &[4; 500]);
    assert_eq!(relative(&tcp.one()), [(3_001, 3_501), (1_001, 1_501)]);
    tcp.give(A, 1_501, 1, &[3; 500]);
    assert_eq!(relative(&tcp.one()), [(1_001, 2_001), (3_001, 3_501)]);
    tcp.give(A, 3_001, 1, &[4; 500]);
    assert_eq!(relative(&tcp.one()), [(3_001, 3_501), (3_001, 3_501), (1_001, 2_001)], "a duplicate");
    tcp.give(A, 1, 1, &[1; 1_000]);
    let out = tcp.one();
    assert_eq!((out.ack, relative(&out)), (2_001, vec![(3_001, 3_501)]));
    tcp.give(A, 1, 1, &[1; 1_000]);
    assert_eq!(relative(&tcp.one()), [(1, 1_001), (3_001, 3_501)], "an old duplicate");
    let mut buf = [0; 4_000];
    assert_eq!(tcp.tcp.read(tcp.now, &mut buf), ReadOutcome::Data(2_000));
    assert_eq!(buf[..2_000], [vec![1; 1_000], vec![2; 500], vec![3; 500]].concat()[..]);
}

#[test]
fn every_segment_beyond_a_hole_is_acknowledged() {
    let mut tcp = Script::established(Config { sack: false, ..plain() });
    for seq in [1_001, 2_001, 3_001] {
        tcp.give(A, seq, 1, &[1; 1_000]);
    }
    let out = tcp.drain();
    assert_eq!(out.iter().map(|o| o.ack).collect::<Vec<_>>(), [1, 1, 1], "three duplicates for the peer to count");
}

/// RFC 9293, section 3.8.6.2.2: the window shuts as bytes wait, opens by whole steps, and never goes back.
#[test]
fn the_receive_window() {
    let mut tcp = Script::established(plain());
    for k in 0..10 {
        tcp.give(A, 1 + k * 1_000, 1, &[7; 1_000]);
    }
    let last = tcp.drain().pop().unwrap();
    assert_eq!((last.ack, last.window), (10_001, 0));
    tcp.give(A, 10_001, 1, &[9; 100]);
    assert_eq!(tcp.one().ack, 10_001, "what does not fit is not taken");
    let mut buf = [0; 10_000];
    assert_eq!(tcp.tcp.read(tcp.now, &mut buf[..500]), ReadOutcome::Data(500));
    tcp.quiet();
    assert_eq!(tcp.tcp.read(tcp.now, &mut buf[..3_500]), ReadOutcome::Data(3_500));
    assert_eq!((tcp.one().window, tcp.events().contains(&TcpEvent::Readable)), (4_000, true));
}

#[test]
fn the_window_grows_with_a_reader_that_keeps_up() {
    let config = Config { receive_window_initial: Some(4_000), receive_buffer: 16_000, ..plain() };
    let mut tcp = Script::established(config);
    let mut buf = [0; 20_000];
    let (mut seq, mut widest) = (1, 0);
    for _ in 0..40 {
        tcp.give(A, seq, 1, &[7; 1_000]);
        seq += 1_000;
        tcp.tcp.read(tcp.now, &mut buf);
        tcp.wait(25);
        widest = tcp.drain().iter().map(|o| o.window).max().unwrap_or(0).max(widest);
    }
    assert!((14_000..=16_000).contains(&widest), "{widest}");
}

#[test]
fn out_of_order_data_does_not_close_the_window() {
    let config = Config { receive_window_initial: Some(20_000), receive_buffer: 60_000, ..plain() };
    let mut tcp = Script::established(config);
    let mut edges = Vec::new();
    for k in 1..40 {
        tcp.give(A, 1 + k * 1_000, 1, &[7; 1_000]);
        tcp.wait(1);
        edges.extend(tcp.drain().iter().map(|o| u64::from(o.ack) + u64::from(o.window)));
    }
    assert!(edges.is_sorted(), "{edges:?}");
    // Ten segments are taken for a round trip's: twice that lies ahead of the newest, up to the buffer.
    assert!((58_000..=60_001).contains(edges.last().unwrap()), "{edges:?}");
    tcp.give(A, 60_500, 1, &[7; 1_000]);
    tcp.give(A, 1, 1, &[7; 1_000]);
    let last = tcp.drain().pop().unwrap();
    assert_eq!(last.ack, 40_001, "and no more than the buffer is ever taken");
    assert_eq!(u64::from(last.ack) + u64::from(last.window), 60_001);
}

/// A pure receiver learns from its timestamps' echoes that the round trip has grown since the handshake.
#[test]
fn the_window_grows_by_the_round_trip_that_echoes_show() {
    let windows = |echo_age: u64| -> Vec<u16> {
        let config =
            Config { timestamps: true, receive_window_initial: Some(20_000), receive_buffer: 60_000, ..plain() };
        let options = |value: u32, echo: u32| Options { timestamps: stamps(value, echo).timestamps, ..syn_options() };
        let mut tcp = Script::established_with(config, options(1, 0));
        let mut buf = [0; 9_000];
        let mut seen = Vec::new();
        for round in 0..12u32 {
            tcp.wait(100);
            let echo = tcp.tcp.clock(tcp.now).wrapping_sub(echo_age as u32);
            for k in 4 * round..4 * round + 4 {
                tcp.give_header(TcpHeader { options: stamps(2, echo), ..header(A, 1 + 1_000 * k, 1) }, &[7; 1_000]);
            }
            assert_eq!(tcp.tcp.read(tcp.now, &mut buf), ReadOutcome::Data(4_000));
            seen.extend(tcp.drain().last().map(|out| out.window));
        }
        seen
    };
    // 4,000 bytes per 100 ms: half of the window are read in 300 ms, and not in 100 ms.
    assert!(windows(100).iter().all(|window| *window <= 20_000), "{:?}", windows(100));
    assert_eq!(windows(300).last(), Some(&40_000), "{:?}", windows(300));
    // Less than a unit of the clock is one unit.
    assert!(windows(0).iter().all(|window| *window <= 20_000), "{:?}", windows(0));
}

/// RFC 896 with RFC 9293, section 3.7.4.
#[test]
fn nagle() {
    let mut tcp = Script::established(Config { nagle: true, ..plain() });
    tcp.write(10);
    assert_eq!(tcp.data(), [(1, 10)]);
    tcp.write(10);
    tcp.write(10);
    tcp.quiet();
    tcp.write(1_000);
    assert_eq!(tcp.data(), [(11, 1_000)], "a full segment goes");
    tcp.ack(1_011);
    assert_eq!(tcp.data(), [(1_011, 20)]);
    let mut tcp = Script::established(plain());
    tcp.write(10);
    tcp.drain();
    tcp.write(10);
    assert_eq!(tcp.data(), [(11, 10)], "switched off");
}

#[test]
fn buffers_are_bounded_and_the_writer_is_woken() {
    let config = Config { send_buffer: 4_000, unsent_low_water: Some(2_000), ..plain() };
    let mut tcp = Script::established(config);
    assert_eq!(tcp.tcp.write(tcp.now, &[1; 9_000]), 2_000, "the low water mark of what is unsent");
    tcp.drain();
    assert_eq!(tcp.tcp.write(tcp.now, &[1; 9_000]), 2_000);
    tcp.drain();
    assert_eq!(tcp.tcp.write(tcp.now, &[1; 9_000]), 0, "the buffer itself");
    assert_eq!(tcp.events(), []);
    tcp.ack(2_001);
    assert_eq!(tcp.events(), [TcpEvent::Writable]);
    assert_eq!(tcp.tcp.write(tcp.now, &[1; 9_000]), 2_000);
}

/// Sequence numbers wrap after 256 bytes of ours here, and positions never do.
#[test]
fn sequence_numbers_wrap() {
    let mut tcp = Script::established(plain());
    tcp.write(3_000);
    assert_eq!(tcp.data(), [(1, 1_000), (1_001, 1_000), (2_001, 1_000)]);
    tcp.ack(3_001);
    assert_eq!(tcp.tcp.status().pipe, 0);
    for k in 0..5 {
        tcp.give(A, 1 + 1_000 * k, 3_001, &[k as u8; 1_000]);
    }
    let mut buf = [0; 9_000];
    assert_eq!(tcp.tcp.read(tcp.now, &mut buf), ReadOutcome::Data(5_000));
}

/// RFC 2018, section 8: what would make too many stretches is dropped, and the first hole can always be filled.
#[test]
fn stretches_are_bounded() {
    let mut tcp = Script::established(Config { receive_buffer: 20_000, ..plain() });
    for k in 0..5_000 {
        tcp.give(A, 2 + 2 * k, 1, &[7; 1]);
        tcp.drain();
    }
    assert_eq!(tcp.tcp.receiver.held(), 2 * 4_096, "4,096 stretches of one byte, and the holes before them");
    tcp.give(A, 1, 1, &[7; 1]);
    assert_eq!(tcp.one().ack, 3);
}

/// A peer that sends faster than we are drained gets no more than 64 acknowledgements.
#[test]
fn acknowledgements_owed_are_bounded() {
    let mut tcp = Script::established(plain());
    for _ in 0..200 {
        tcp.give(A, 1_001, 1, &[7; 10]);
    }
    assert_eq!(tcp.drain().len(), 64);
}

/// RFC 9293, section 3.8.6.2.2: a reader that takes little sends no updates of little, and none while the window is wide.
#[test]
fn window_updates_are_seldom() {
    let mut tcp = Script::established(plain());
    let mut buf = [0; 20_000];
    for k in 0..4 {
        tcp.give(A, 1 + k * 1_000, 1, &[7; 1_000]);
    }
    tcp.drain();
    tcp.tcp.read(tcp.now, &mut buf);
    tcp.quiet();
    for (segments, window) in [(4..10, 4_000), (10..14, 0)] {
        segments.for_each(|k| tcp.give(A, 1 + k * 1_000, 1, &[7; 1_000]));
        assert_eq!(tcp.drain().pop().unwrap().window, window);
    }
    for _ in 0..19 {
        tcp.tcp.read(tcp.now, &mut buf[..100]);
        tcp.quiet();
    }
    tcp.tcp.read(tcp.now, &mut buf[..100]);
    assert_eq!(tcp.one().window, 2_000);
}

/// Less than half a segment measures no round trip for the window: it may be an answer of its own.
#[test]
fn small_segments_do_not_measure_the_readers_round_trip() {
    let config = Config { timestamps: true, ..plain() };
    let options = Options { timestamps: stamps(1, 0).timestamps, ..syn_options() };
    let mut tcp = Script::established_with(config, options);
    let echo = |tcp: &Script, ago: u32| stamps(2, tcp.tcp.clock(tcp.now).wrapping_sub(ago));
    tcp.wait(500);
    let (small, full) = (echo(&tcp, 400), echo(&tcp, 300));
    tcp.give_header(TcpHeader { options: small, ..header(A, 1, 1) }, &[7; 100]);
    assert_eq!(tcp.tcp.receiver.round_trip().0, None);
    tcp.give_header(TcpHeader { options: full, ..header(A, 101, 1) }, &[7; 900]);
    assert_eq!(tcp.tcp.receiver.round_trip().0, Some(Span::from_millis(300)));
}

/// Holes are told of in acknowledgements of their own before data goes, since data carries no blocks.
#[test]
fn reports_go_before_data() {
    let mut tcp = Script::established(plain());
    tcp.write(2_000);
    tcp.give(A, 1_001, 1, &[7; 10]);
    let out = tcp.drain();
    assert_eq!((out[0].payload.len(), out[0].options.sack.as_slice().len()), (0, 1));
    assert_eq!((out.len(), out[1].payload.len()), (3, 1_000));
}

/// RFC 9293, section 3.9.1: after our end nothing can be written, and room is not reported.
#[test]
fn nothing_is_written_after_the_end() {
    let mut tcp = Script::established(Config { send_buffer: 1_000, ..plain() });
    assert_eq!(tcp.tcp.write(tcp.now, &[1; 2_000]), 1_000);
    tcp.drain();
    tcp.tcp.shutdown(tcp.now);
    assert_eq!(tcp.tcp.write(tcp.now, b"x"), 0);
    let mut tcp = Script::established(Config { send_buffer: 1_000, ..plain() });
    assert_eq!(tcp.tcp.write(tcp.now, &[1; 2_000]), 1_000);
    tcp.drain();
    tcp.ack(1_001);
    tcp.give(R, 1, 0, b"");
    assert_eq!(tcp.events(), [TcpEvent::Reset], "room in a connection that is gone is of no use");
    assert_eq!(tcp.tcp.write(tcp.now, b"x"), 0);
}

/// RFC 2883, section 4, and RFC 7323, section 5.3: an original that comes after its repeat and after newer segments is too
/// old to be taken, and is reported as a duplicate all the same, as Linux's `tcp_send_dupack` does.
#[test]
fn a_duplicate_too_old_to_be_taken_is_reported() {
    let options = Options { timestamps: stamps(1_000, 0).timestamps, ..syn_options() };
    let mut tcp = Script::established_with(Config { timestamps: true, ..plain() }, options);
    let mut give = |seq, at, payload: &[u8]| {
        tcp.give_header(TcpHeader { options: stamps(at, 0), ..header(A, seq, 1) }, payload);
        tcp.run(50);
        tcp.drain()
    };
    give(1, 1_010, b"first");
    give(6, 1_020, b"second");
    let answer = give(1, 1_005, b"first");
    assert_eq!(answer.len(), 1);
    let blocks = answer[0].options.sack;
    let reported: Vec<_> =
        blocks.as_slice().iter().map(|(l, r)| (l.wrapping_sub(PEER), r.wrapping_sub(PEER))).collect();
    assert_eq!((answer[0].ack, reported), (12, vec![(1, 6)]));
}

/// Several acknowledgements that come before anything can be sent in answer find ever less in flight; the window was used
/// all the same, and grows by each (Linux's `tcp_cwnd_validate`). One that was not used does not.
#[test]
fn acknowledgements_that_come_at_once_all_let_the_window_grow() {
    for (limited_for_a_round, grown) in [(true, 15_000), (false, 14_000)] {
        let mut tcp = ten(Config { limited_for_a_round, ..plain() });
        for ack in [1_001, 2_001, 3_001, 4_001, 5_001] {
            tcp.ack(ack);
        }
        // Below half of it in flight, a slow start without memory stops.
        let cwnd = tcp.tcp.status().cwnd;
        assert_eq!(cwnd, grown, "{limited_for_a_round}");
    }
    let mut tcp = Script::established(plain());
    tcp.write(3_000);
    assert_eq!(tcp.data().len(), 3);
    tcp.wait(100);
    tcp.ack(3_001);
    assert_eq!(tcp.tcp.status().cwnd, 10_000, "three of ten were used");
}

/// While what is written may go on, one small segment at a time is on its way; what waits goes with the rest, with an acknowledgement, or
/// when it is known to be all.
#[test]
fn small_segments_wait_for_more_while_there_may_be_more() {
    for more in [true, false] {
        let mut tcp = Script::established(Config { nagle: false, offload: false, ..plain() });
        tcp.tcp.sender.more = more;
        let mut sent = Vec::new();
        for _ in 0..2 {
            tcp.write(1_100);
            sent.extend(tcp.data().into_iter().map(|(_, len)| len));
        }
        if !more {
            assert_eq!(sent, [1_000, 100, 1_000, 100]);
            continue;
        }
        assert_eq!(sent, [1_000, 100, 1_000]);
        tcp.write(900);
        assert_eq!(tcp.data().into_iter().map(|(_, len)| len).collect::<Vec<_>>(), [1_000], "a full one does not wait");
        tcp.write(50);
        tcp.quiet();
        tcp.ack(1_101);
        assert_eq!(tcp.data().into_iter().map(|(_, len)| len).collect::<Vec<_>>(), [50], "the small one arrived");
        tcp.write(60);
        tcp.quiet();
        tcp.tcp.sender.more = false;
        tcp.write(5);
        assert_eq!(tcp.data().into_iter().map(|(_, len)| len).collect::<Vec<_>>(), [65], "that was all");
    }
}
