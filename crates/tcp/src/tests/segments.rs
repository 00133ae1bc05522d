//! Which segments count, and what answers the others: RFC 9293, section 3.10.7.4; RFC 5961; RFC 7323, sections 4.3 and 5.

use super::script::*;
use super::*;
use wavelane_base::ReadOutcome;
use wavelane_wire::tcp::{Options, TcpHeader, TcpPacket};

fn read(tcp: &mut Script) -> usize {
    let mut buf = vec![0; 20_000];
    if let ReadOutcome::Data(n) = tcp.tcp.read(tcp.now, &mut buf) { n } else { 0 }
}

fn with_window(window: u16, seq: u32, ack: u32) -> TcpHeader {
    TcpHeader { window, ..header(A, seq, ack) }
}

/// RFC 9293, section 3.10.7.4, first step: 10,000 bytes of window from 1 on.
#[test]
fn the_four_cases_of_acceptability() {
    let mut tcp = Script::established(plain());
    // No data: in the window, or at its right edge, a segment tells what it acknowledges.
    tcp.write(1_000);
    tcp.drain();
    tcp.give(A, 10_001, 1_001, b"");
    assert_eq!(tcp.tcp.status().pipe, 0);
    tcp.quiet();
    tcp.write(1_000);
    tcp.drain();
    for seq in [0, 10_002] {
        tcp.give(A, seq, 2_001, b"");
        assert_eq!(tcp.one().ack, 1, "out of the window: answered, and nothing taken from it");
        assert_eq!(tcp.tcp.status().pipe, 1_000);
    }
    // Data: what lies in the window is taken, the rest is not.
    tcp.give(A, 10_000, 1_001, &[7; 3]);
    assert_eq!(tcp.tcp.receiver.held(), 10_000, "one byte of three");
    tcp.drain();
    tcp.give(A, 10_001, 1_001, &[7; 3]);
    assert_eq!((tcp.one().ack, tcp.tcp.receiver.held()), (1, 10_000));
    tcp.give(A, 0, 1_001, &[7; 3]);
    assert_eq!(tcp.one().ack, 3, "the first of three bytes is old");
}

/// A segment that begins before the window and ends behind it brings all of it.
#[test]
fn a_segment_over_the_whole_window() {
    let mut tcp = Script::established(Config { receive_buffer: 500, ..plain() });
    tcp.give(A, 0, 1, &[7; 600]);
    tcp.wait(40);
    assert_eq!(tcp.one().ack, 501);
    assert_eq!(read(&mut tcp), 500);
}

/// RFC 9293, section 3.10.7.4: with the window shut, acknowledgements that come with data still count.
#[test]
fn a_shut_window_does_not_deafen() {
    let mut tcp = Script::established(plain());
    for k in 0..10 {
        tcp.give(A, 1 + k * 1_000, 1, &[7; 1_000]);
    }
    assert_eq!(tcp.drain().pop().unwrap().window, 0);
    tcp.write(1_000);
    tcp.drain();
    tcp.give(A, 10_001, 1_001, &[9; 100]);
    assert_eq!((tcp.tcp.status().pipe, tcp.one().ack), (0, 10_001));
    assert_eq!(read(&mut tcp), 10_000);
}

/// RFC 9293, section 3.10.7.4, fifth step.
#[test]
fn a_segment_without_acknowledgement_is_dropped() {
    let mut tcp = Script::established(plain());
    tcp.give(P, 1, 0, b"bare");
    tcp.give(F, 1, 0, b"");
    tcp.quiet();
    assert_eq!((read(&mut tcp), tcp.state()), (0, ConnectionState::Established));
}

/// RFC 9293, section 3.10.7.4: the window comes from the newest segment (SND.WL1, SND.WL2), not from the latest.
#[test]
fn an_older_segment_does_not_set_the_window() {
    let mut tcp = Script::established(plain());
    tcp.give_header(with_window(2_000, 101, 1), &[7; 10]);
    tcp.give_header(with_window(9_000, 1, 1), &[7; 10]);
    tcp.write(9_000);
    assert_eq!(tcp.data(), [(1, 1_000), (1_001, 1_000)], "2,000 bytes and no more");
    // Of two with the same number, the one that acknowledges more is newer.
    tcp.give_header(with_window(5_000, 101, 1_001), b"");
    assert_eq!(tcp.data().len(), 4);
    tcp.give_header(with_window(9_000, 101, 1), b"");
    tcp.quiet();
}

/// RFC 9293, section 3.8.6 (MUST-34): a window that shrinks lets nothing new go, and what is lost goes again.
#[test]
fn a_window_that_shrinks() {
    let mut tcp = ten(Config { rack_tlp: false, ..plain() });
    tcp.give_header(with_window(500, 1, 4_001), b"");
    tcp.quiet();
    assert_eq!(tcp.deadline().0, "retransmission timeout");
    assert_eq!(tcp.data()[0], (4_001, 1_000));
}

/// RFC 5681, section 2: a duplicate acknowledgement carries no data and the same window.
#[test]
fn neither_data_nor_window_updates_are_duplicates() {
    let mut tcp = ten(Config { sack: false, ..plain() });
    for k in 0..4 {
        tcp.give(A, 1 + k * 10, 1, &[7; 10]);
        tcp.give_header(with_window(50_000 + k as u16, 41, 1), b"");
    }
    for k in 4..8 {
        tcp.give_header(TcpHeader { window: 50_003, ..header(A, 1 + k * 10, 1) }, &[7; 10]);
    }
    assert!(!tcp.tcp.status().repairing);
    assert!(tcp.data().iter().all(|(seq, _)| *seq > 10_000));
    assert_eq!(tcp.counters().retransmits, 0);
    tcp.wait(40);
    tcp.drain();
    for _ in 0..3 {
        tcp.give_header(with_window(50_003, 81, 1), b"");
    }
    assert!(tcp.tcp.status().repairing, "these are");
}

/// RFC 5961, section 5.2: an acknowledgement older than the largest window the peer ever had is forged, and so is the data with
/// it; a younger one is only late.
#[test]
fn acknowledgements_may_be_a_window_old() {
    let mut tcp = Script::connect(plain());
    tcp.drain();
    tcp.give_header(TcpHeader { options: syn_options(), window: 2_000, ..header(S.with(A), 0, 1) }, b"");
    tcp.drain();
    for k in 0..3 {
        tcp.write(2_000);
        tcp.drain();
        tcp.give_header(with_window(2_000, 1, 2_001 + 2_000 * k), b"");
    }
    tcp.give_header(with_window(2_000, 1, 4_000), b"forged");
    assert_eq!((tcp.counters().challenges, read(&mut tcp)), (1, 0));
    tcp.give_header(with_window(2_000, 1, 4_001), b"late");
    assert_eq!((tcp.counters().challenges, read(&mut tcp)), (1, 4));
}

/// RFC 5961, section 3.2: a reset at the window's right edge or behind it is not even challenged.
#[test]
fn a_reset_behind_the_window_is_silence() {
    let mut tcp = Script::established(plain());
    tcp.give(R, 10_001, 0, b"");
    tcp.quiet();
    tcp.give(R, 10_000, 0, b"");
    assert_eq!(tcp.one().flags, A);
}

/// RFC 9293, section 3.10.7.4, second step: while both ends are on their way, a reset is the end; it is an orderly one
/// only if all we wrote has arrived.
#[test]
fn a_reset_while_closing_is_orderly_only_if_everything_arrived() {
    for (acked, event) in [(11, TcpEvent::Closed), (5, TcpEvent::Reset)] {
        let mut tcp = Script::established(plain());
        tcp.give(A.with(F), 1, 1, b"");
        tcp.write(10);
        tcp.tcp.shutdown(tcp.now);
        tcp.drain();
        tcp.events();
        tcp.give(A, 2, acked, b"");
        assert_eq!(tcp.state(), ConnectionState::LastAck);
        tcp.give(R, 2, 0, b"");
        assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![event]));
    }
    let mut tcp = Script::established(plain());
    tcp.tcp.shutdown(tcp.now);
    tcp.drain();
    tcp.give(A.with(F), 1, 1, b"");
    tcp.events();
    tcp.give(R, 2, 0, b"");
    assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![TcpEvent::Closed]), "CLOSING");
}

/// RFC 9293, section 3.10.7.4: after the peer's end nothing more is taken, and repeats are answered.
#[test]
fn data_after_a_fin_is_acked_and_dropped() {
    let mut tcp = Script::established(plain());
    tcp.give(A.with(F), 1, 1, b"bye");
    tcp.drain();
    tcp.give(A, 5, 1, b"more");
    assert_eq!((tcp.one().ack, read(&mut tcp)), (5, 3));
}

#[test]
fn a_fin_beyond_the_window_is_ignored() {
    let mut tcp = Script::established(plain());
    tcp.give(A.with(F), 9_901, 1, &[7; 200]);
    tcp.drain();
    for k in 0..10 {
        tcp.give(A, 1 + k * 1_000, 1, &[7; 1_000]);
    }
    assert_eq!((tcp.drain().pop().unwrap().ack, tcp.state()), (10_001, ConnectionState::Established));
    assert_eq!(read(&mut tcp), 10_000);
    tcp.drain();
    tcp.give(A, 10_001, 1, &[7; 100]);
    assert_eq!((tcp.tcp.receiver.next, tcp.state()), (10_101, ConnectionState::Established), "it must come again");
}

#[test]
fn data_behind_a_fin_after_a_hole_is_dropped() {
    let mut tcp = Script::established(plain());
    tcp.give(A.with(F), 101, 1, &[2; 50]);
    tcp.give(A, 151, 1, b"ghost");
    tcp.give(A, 1, 1, &[1; 100]);
    assert_eq!((tcp.state(), tcp.drain().pop().unwrap().ack, read(&mut tcp)), (ConnectionState::CloseWait, 152, 150));
}

/// RFC 9293, section 3.10.7.4: in SYN-RECEIVED an acknowledgement of something else is dropped here (the host sends the
/// reset), and a reset leads back to LISTEN without a word to the owner.
#[test]
fn half_open_connections() {
    let mut tcp = Script::accept(plain(), syn_options());
    tcp.drain();
    tcp.give(A, 1, 77, b"");
    assert_eq!((tcp.state(), tcp.counters().challenges), (ConnectionState::SynReceived, 0));
    tcp.quiet();
    tcp.give(S, 7, 0, b"");
    assert_eq!(tcp.one().flags, A, "another SYN is challenged (RFC 5961, section 4.2)");
    tcp.give(R, 1, 0, b"");
    assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![]));
    let mut tcp = Script::connect(plain());
    tcp.drain();
    tcp.give_header(TcpHeader { options: syn_options(), ..header(S, 0, 0) }, b"");
    tcp.give(R, 1, 0, b"");
    assert_eq!(
        (tcp.state(), tcp.events()),
        (ConnectionState::Closed, vec![TcpEvent::Refused]),
        "an active open is told"
    );
}

/// Acknowledgements that lie outside the window are answered by acknowledgements: two peers who have lost each other would
/// answer each other for ever. They are answered as seldom as challenges (RFC 5961, section 7).
#[test]
fn answers_to_empty_segments_out_of_window_are_bounded() {
    let mut tcp = Script::established(plain());
    let mut answers = 0;
    for _ in 0..100 {
        tcp.give(A, 20_000, 1, b"");
        answers += tcp.drain().len();
    }
    assert_eq!(answers, 10);
}

fn stamped(value: u32, h: TcpHeader) -> TcpHeader {
    TcpHeader { options: stamps(value, 0), ..h }
}

/// An open connection whose peer's SYN carried the timestamp 1,000.
fn with_stamps() -> Script {
    let options = Options { timestamps: stamps(1_000, 0).timestamps, ..syn_options() };
    Script::established_with(Config { timestamps: true, ..plain() }, options)
}

fn echo(tcp: &mut Script) -> u32 {
    tcp.drain().pop().unwrap().options.timestamps.unwrap().echo
}

/// RFC 7323, section 4.3: TS.Recent follows the segment that covers the last acknowledgement sent: the earliest of those
/// that one acknowledgement answers, and none beyond a hole.
#[test]
fn the_echo_is_of_the_earliest_segment_unanswered() {
    let mut tcp = with_stamps();
    tcp.give_header(stamped(1_010, header(A, 1, 1)), &[1; 100]);
    tcp.quiet();
    tcp.give_header(stamped(1_020, header(A, 101, 1)), &[1; 100]);
    assert_eq!(echo(&mut tcp), 1_010, "a delayed acknowledgement echoes the first");
    tcp.give_header(stamped(1_030, header(A, 301, 1)), &[1; 100]);
    assert_eq!(echo(&mut tcp), 1_010, "not what lies beyond a hole");
    tcp.give_header(stamped(1_040, header(A, 201, 1)), &[1; 100]);
    assert_eq!(echo(&mut tcp), 1_040, "what fills it");
}

/// RFC 7323, section 5.5: what was received more than 24 days ago says nothing any more.
#[test]
fn a_stale_timestamp_does_not_shut_the_peer_out() {
    let mut tcp = with_stamps();
    tcp.now += Span::from_secs(23 * 24 * 3_600);
    tcp.give_header(stamped(900, header(A, 1, 1)), b"old");
    assert_eq!((tcp.one().ack, read(&mut tcp)), (1, 0));
    tcp.now += Span::from_secs(2 * 24 * 3_600);
    tcp.give_header(stamped(900, header(A, 1, 1)), b"new");
    assert_eq!(read(&mut tcp), 3);
}

/// RFC 7323, section 3.2: every segment carries the option, a reset should; one that comes without is no reason to abort.
/// We take it, as Linux does.
#[test]
fn timestamps_on_every_segment() {
    let mut tcp = with_stamps();
    tcp.give(A, 1, 1, b"bare");
    assert_eq!(read(&mut tcp), 4);
    tcp.write(10);
    assert!(tcp.one().options.timestamps.is_some());
    tcp.tcp.reset();
    let reset = tcp.one();
    assert!(reset.flags.has(R) && reset.options.timestamps.is_some());
}

/// An echo of two minutes ago is a mistake of the peer's, not a round trip.
#[test]
fn absurd_echoes_are_not_measured() {
    let mut tcp = with_stamps();
    tcp.write(1_000);
    tcp.drain();
    tcp.deadline();
    tcp.drain();
    let before = tcp.tcp.status().rtt;
    let long_ago = tcp.tcp.clock(tcp.now).wrapping_sub(130_000);
    tcp.give_header(TcpHeader { options: stamps(1_010, long_ago), ..header(A, 1, 1_001) }, b"");
    assert_eq!((tcp.tcp.status().rtt, tcp.tcp.status().pipe), (before, 0));
}

/// RFC 2018 and RFC 2883: reports of what was never sent are ignored; a first block inside the second is a duplicate.
#[test]
fn reports_that_lie_and_duplicates_beyond_the_acknowledgement() {
    let mut tcp = ten(plain());
    for _ in 0..4 {
        tcp.sack(1, &[(9_001, 60_001)]);
    }
    assert_eq!((tcp.tcp.sender.board.sacked_segments(), tcp.counters().retransmits), (0, 0));
    tcp.sack(1, &[(2_001, 3_001), (2_001, 4_001)]);
    assert_eq!((tcp.counters().needless, tcp.tcp.sender.board.sacked_segments()), (1, 2));
}

/// RFC 8985, section 6.2, step 3: two blocks that one acknowledgement reports for the first time, the newest first, are no
/// sign of reordering; patience with the missing ones ends at the third report.
#[test]
fn blocks_reported_at_once_did_not_arrive_out_of_order() {
    let mut tcp = ten(plain());
    tcp.sack(1, &[(8_001, 9_001), (5_001, 6_001), (2_001, 3_001)]);
    assert_eq!(tcp.data()[0], (1, 1_000), "three are reported: no more patience");
}

/// A segment of a peer over IPv6 that names no MSS: RFC 9293, section 3.7.1 (MUST-15).
#[test]
fn the_assumed_mss_is_that_of_the_version_of_ip() {
    let [ours, theirs] = ["[2001:db8::1]:40000", "[2001:db8::2]:80"].map(|address| address.parse().unwrap());
    let now = ms(1_000);
    for (options, mss) in [(Options::default(), 1_220), (Options { mss: Some(9_000), ..Options::default() }, 1_440)] {
        let syn = TcpHeader { options, ..header(S, 0, 0) };
        let packet = TcpPacket { source: theirs, target: ours, ecn: Default::default(), header: syn, payload: &[] };
        let config = Config { timestamps: false, ..Config::default() };
        let mut tcp = Connection::accept(now, &config, &packet, NUMBERS);
        assert_eq!(tcp.status().mss, mss);
        let mut buf = vec![0; PACKET_ROOM];
        let sent = tcp.poll_transmit(now, &mut buf).unwrap();
        let answer = TcpPacket::parse(&buf[..sent.len]).unwrap();
        assert_eq!(answer.header.options.mss, Some(1_440), "IPv6's header is 20 bytes longer");
    }
}

/// The clamp is an upper bound of what we send and of what we ask for (RFC 9293, section 3.7.1; RFC 6691); a peer that
/// asks for next to nothing gets 64.
#[test]
fn the_mss_clamp() {
    for (offered, used) in [(9_000, 700), (700, 700), (600, 600), (1, 64)] {
        let mut tcp = Script::connect(Config { mss: 700, ..plain() });
        assert_eq!(tcp.one().options.mss, Some(700));
        tcp.give_header(
            TcpHeader { options: Options { mss: Some(offered), ..syn_options() }, ..header(S.with(A), 0, 1) },
            b"",
        );
        tcp.drain();
        tcp.write(2_000);
        assert_eq!(tcp.data()[0], (1, used));
    }
}

/// RFC 7323, section 2.2: scaled only if both offer it, and never in a SYN.
#[test]
fn window_scale() {
    let scaling = |ours: bool| Config { window_scale: ours, receive_buffer: 300_000, ..plain() };
    let offers = Options { window_scale: Some(3), ..syn_options() };
    for ours in [true, false] {
        let mut tcp = Script::accept(scaling(ours), offers);
        let answer = tcp.one();
        assert_eq!((answer.window, answer.options.window_scale), (65_535, ours.then_some(3)));
        // The window of their SYN counts as it stands; later ones are shifted.
        assert_eq!(tcp.tcp.sender.window, 60_000);
        tcp.give_header(with_window(1_000, 1, 1), b"");
        assert_eq!(tcp.tcp.sender.window, if ours { 8_000 } else { 1_000 });
        tcp.give(A, 1, 1, &[7; 1_000]);
        tcp.give(A, 1_001, 1, &[7; 1_000]);
        let window = u64::from(tcp.drain().pop().unwrap().window);
        assert_eq!(window, if ours { 298_000 / 8 } else { 65_535 });
        assert_eq!(tcp.tcp.receiver.edge(), if ours { 2_001 + 298_000 } else { 2_001 + 65_535 });
    }
}
