//! Which acknowledgements of segments beyond a hole are left out, and when they are made up for (Linux's rules). The round
//! trip is 100 ms, so they wait for the most there is, 1 ms.

use super::script::*;
use super::*;

/// A segment of 1,000 bytes, the `n`th, comes. What is sent: per acknowledgement its blocks, in segments.
fn give(tcp: &mut Script, n: u32) -> Vec<Vec<(u32, u32)>> {
    tcp.give(A, 1 + n * 1_000, 1, &[7; 1_000]);
    sent(tcp)
}
fn sent(tcp: &mut Script) -> Vec<Vec<(u32, u32)>> {
    let place = |seq: u32| (seq.wrapping_sub(PEER) - 1) / 1_000;
    tcp.drain()
        .iter()
        .map(|out| out.options.sack.as_slice().iter().map(|(l, r)| (place(*l), place(*r))).collect())
        .collect()
}
fn receiver(config: Config) -> Script {
    Script::established(Config { receive_buffer: 200_000, window_scale: true, ..config })
}

#[test]
fn after_three_they_wait_for_a_millisecond() {
    let mut tcp = receiver(plain());
    for n in 1..=3 {
        assert_eq!(give(&mut tcp, n), [[(1, n + 1)]]);
    }
    for n in 4..=9 {
        assert_eq!(give(&mut tcp, n), [[(0, 0); 0]; 0], "{n}");
    }
    assert_eq!(tcp.tcp.poll_timeout().map(|wakeup| wakeup.at), Some(tcp.now + Span::from_millis(1)));
    tcp.wait(1);
    assert_eq!(sent(&mut tcp), [[(1, 10)]], "one tells of all");
    assert!(give(&mut tcp, 10).is_empty(), "and the next waits again");
}

#[test]
fn forty_four_are_left_out_in_a_row() {
    for (most, wanted) in [(44, vec![48]), (7, vec![11, 19, 27, 35, 43, 51, 59])] {
        let mut tcp = receiver(Config { compressed_acks: most, ..plain() });
        let told: Vec<u32> = (1..=60).filter(|n| !give(&mut tcp, *n).is_empty()).collect();
        assert_eq!(told, [vec![1, 2, 3], wanted].concat());
    }
}

/// A twentieth of the round trip, where that is less.
#[test]
fn a_short_round_trip_shortens_the_wait() {
    let mut tcp = Script::connect(Config { receive_buffer: 200_000, ..plain() });
    tcp.drain();
    tcp.now += Span::from_millis(2);
    tcp.give_header(wavelane_wire::tcp::TcpHeader { options: syn_options(), ..header(S.with(A), 0, 1) }, b"");
    tcp.drain();
    (1..=3).for_each(|n| assert_eq!(give(&mut tcp, n).len(), 1));
    assert!(give(&mut tcp, 4).is_empty());
    assert_eq!(tcp.tcp.poll_timeout().map(|wakeup| wakeup.at), Some(tcp.now + Span::from_micros(100)));
}

/// A wait of no time would be over already when it is set.
#[test]
fn without_a_measurable_round_trip_nothing_waits() {
    let mut tcp = Script::connect(Config { receive_buffer: 200_000, ..plain() });
    tcp.drain();
    tcp.give_header(wavelane_wire::tcp::TcpHeader { options: syn_options(), ..header(S.with(A), 0, 1) }, b"");
    tcp.drain();
    (1..=9).for_each(|n| assert_eq!(give(&mut tcp, n).len(), 1, "{n}"));
}

/// An acknowledgement may get lost, so what changed must be within the first two blocks.
#[test]
fn changes_deep_in_the_sack_list_are_acknowledged_at_once() {
    let mut tcp = receiver(plain());
    for n in [1, 11, 21] {
        assert_eq!(give(&mut tcp, n).len(), 1);
    }
    // Nothing was left out before: this may wait.
    assert!(give(&mut tcp, 2).is_empty(), "it was third");
    assert!(give(&mut tcp, 3).is_empty(), "it is first now");
    assert!(give(&mut tcp, 22).is_empty(), "it was second");
    assert_eq!(give(&mut tcp, 12), [[(11, 13), (21, 23), (1, 4)]], "it was third");
    assert!(give(&mut tcp, 13).is_empty());
    assert_eq!(give(&mut tcp, 31), [[(31, 32), (11, 14), (21, 23), (1, 4)]], "it is new");
}

#[test]
fn filled_holes_and_duplicates_are_acknowledged_at_once() {
    let mut tcp = receiver(plain());
    (1..=3).for_each(|n| assert_eq!(give(&mut tcp, n).len(), 1));
    assert!(give(&mut tcp, 4).is_empty());
    assert_eq!(give(&mut tcp, 4), [[(4, 5), (1, 5)]], "twice (RFC 2883)");
    assert!(give(&mut tcp, 6).is_empty());
    // The hole is filled, and another begins at 5.
    assert_eq!(give(&mut tcp, 0), [[(6, 7)]]);
    assert_eq!(tcp.tcp.receiver.compression.at, None);
    // Again the first three go at once.
    (7..=9).for_each(|n| assert_eq!(give(&mut tcp, n), [[(6, n + 1)]]));
    assert!(give(&mut tcp, 10).is_empty());
    assert_eq!(give(&mut tcp, 5), [[(0, 0); 0]]);
}

/// Segments with data have no room for reports: one that goes meanwhile changes nothing.
#[test]
fn data_segments_carry_no_sack_blocks() {
    let mut tcp = receiver(plain());
    (1..=3).for_each(|n| assert_eq!(give(&mut tcp, n).len(), 1));
    assert!(give(&mut tcp, 4).is_empty());
    tcp.write(10);
    assert_eq!(sent(&mut tcp), [[(0, 0); 0]]);
    tcp.wait(1);
    assert_eq!(sent(&mut tcp), [[(1, 5)]]);
}

#[test]
fn without_the_knob_without_sack_and_in_haste_each_is_answered() {
    for config in [
        Config { compressed_acks: 0, ..plain() },
        Config { sack: false, ..plain() },
        Config { quick_acks: 40, ..plain() },
    ] {
        let mut tcp = receiver(config);
        (1..=20).for_each(|n| assert_eq!(give(&mut tcp, n).len(), 1, "{n}"));
    }
}
