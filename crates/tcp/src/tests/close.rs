//! Ending: RFC 9293, sections 3.6 and 3.10.7.4; resets and challenges of RFC 5961.

use super::script::*;
use super::*;
use wavelane_base::ReadOutcome;

fn read(tcp: &mut Script, n: usize) -> ReadOutcome {
    let mut buf = vec![0; n];
    tcp.tcp.read(tcp.now, &mut buf)
}

/// RFC 9293, section 3.6, figure 12, from the side that ends first; the other direction stays open.
#[test]
fn half_close_then_time_wait() {
    let mut tcp = Script::established(plain());
    tcp.write(10);
    tcp.tcp.shutdown(tcp.now);
    let last = tcp.one();
    assert_eq!((last.seq, last.flags, last.payload.len()), (1, A.with(P).with(F), 10));
    tcp.give(A, 1, 12, b"");
    assert_eq!(tcp.state(), ConnectionState::FinWait2);
    assert_eq!(tcp.tcp.write(tcp.now, b"more"), 0, "our direction is over");
    tcp.give(A, 1, 12, b"still here");
    assert_eq!(read(&mut tcp, 100), ReadOutcome::Data(10));
    tcp.give(A.with(F), 11, 12, b"");
    assert_eq!(tcp.state(), ConnectionState::TimeWait);
    assert_eq!(tcp.one().ack, 12);
    assert_eq!(read(&mut tcp, 100), ReadOutcome::End);
    // A repeated FIN is answered, and the wait starts anew.
    tcp.wait(30_000);
    tcp.give(A.with(F), 11, 12, b"");
    assert_eq!(tcp.one().ack, 12);
    tcp.events();
    assert_eq!(tcp.deadline(), ("end of TIME-WAIT", Span::from_secs(60)));
    assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![TcpEvent::Closed]));
    assert!(tcp.tcp.is_done());
}

#[test]
fn the_side_that_ends_last_needs_no_wait() {
    let mut tcp = Script::established(plain());
    tcp.give(A.with(F), 1, 1, b"bye");
    assert_eq!((tcp.state(), tcp.one().ack), (ConnectionState::CloseWait, 5), "a FIN is acknowledged at once");
    tcp.write(5);
    assert_eq!(tcp.data(), [(1, 5)]);
    tcp.tcp.shutdown(tcp.now);
    assert_eq!((tcp.state(), tcp.one().flags), (ConnectionState::LastAck, A.with(P).with(F)));
    tcp.give(A, 5, 7, b"");
    assert_eq!(tcp.state(), ConnectionState::Closed);
    assert!(!tcp.tcp.is_done(), "three bytes wait for their reader");
    assert_eq!(read(&mut tcp, 10), ReadOutcome::Data(3));
    assert_eq!(read(&mut tcp, 10), ReadOutcome::End);
    assert_eq!(tcp.events(), [TcpEvent::Readable, TcpEvent::Closed]);
    assert!(tcp.tcp.is_done());
}

/// RFC 9293, section 3.6, figure 13.
#[test]
fn both_end_at_once() {
    let mut tcp = Script::established(plain());
    tcp.tcp.shutdown(tcp.now);
    assert!(tcp.one().flags.has(F));
    tcp.give(A.with(F), 1, 1, b"");
    assert_eq!((tcp.state(), tcp.one().ack), (ConnectionState::Closing, 2));
    tcp.give(A, 2, 2, b"");
    assert_eq!(tcp.state(), ConnectionState::TimeWait);
}

#[test]
fn a_fin_that_acknowledges_ours_leads_straight_to_time_wait() {
    let mut tcp = Script::established(plain());
    tcp.tcp.shutdown(tcp.now);
    tcp.drain();
    tcp.give(A.with(F), 1, 2, b"");
    assert_eq!(tcp.state(), ConnectionState::TimeWait);
}

#[test]
fn a_fin_ahead_of_a_hole_waits_for_it() {
    let mut tcp = Script::established(plain());
    tcp.give(A.with(F), 101, 1, &[2; 50]);
    assert_eq!((tcp.state(), tcp.one().ack), (ConnectionState::Established, 1));
    tcp.give(A, 1, 1, &[1; 100]);
    assert_eq!((tcp.state(), tcp.one().ack), (ConnectionState::CloseWait, 152));
    assert_eq!(read(&mut tcp, 1_000), ReadOutcome::Data(150));
    assert_eq!(read(&mut tcp, 1_000), ReadOutcome::End);
    // What claims to lie behind the end is not delivered.
    tcp.give(A, 152, 1, b"ghost");
    assert_eq!(read(&mut tcp, 1_000), ReadOutcome::End);
}

#[test]
fn a_lost_fin_is_repeated() {
    let mut tcp = Script::established(Config { rack_tlp: false, ..plain() });
    tcp.tcp.shutdown(tcp.now);
    tcp.drain();
    assert_eq!(tcp.deadline().0, "retransmission timeout");
    let again = tcp.one();
    assert_eq!((again.seq, again.flags), (1, A.with(P).with(F)));
}

/// RFC 5961, section 3.2: only the exact number resets; inside the window it is challenged; outside it is dropped.
#[test]
fn resets() {
    let mut tcp = Script::established(plain());
    tcp.give(R, 20_000, 0, b"");
    tcp.give(R, 0, 0, b"");
    tcp.quiet();
    tcp.give(R, 500, 0, b"");
    let challenge = tcp.one();
    assert_eq!((challenge.seq, challenge.ack, challenge.flags), (1, 1, A));
    assert_eq!(tcp.state(), ConnectionState::Established);
    tcp.give(R, 1, 0, b"");
    assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![TcpEvent::Reset]));
    assert_eq!(read(&mut tcp, 10), ReadOutcome::Reset);
    tcp.quiet();
    assert_eq!(tcp.tcp.poll_timeout(), None);
}

/// RFC 5961, sections 4.2, 5.2 and 7.
#[test]
fn forged_syns_and_acknowledgements_are_challenged_seldom() {
    let mut tcp = Script::established(plain());
    tcp.write(10);
    tcp.drain();
    tcp.give(S, 77, 0, b"");
    assert_eq!(tcp.one().flags, A, "a SYN");
    tcp.give(A, 1, 5_000, b"");
    assert_eq!(tcp.one().flags, A, "an acknowledgement of what was never sent");
    tcp.give(A, 1, 0u32.wrapping_sub(100_000), b"");
    assert_eq!(tcp.one().flags, A, "an acknowledgement that is too old");
    assert_eq!(tcp.state(), ConnectionState::Established);
    for _ in 0..100 {
        tcp.give(S, 77, 0, b"");
        tcp.drain();
    }
    assert_eq!(tcp.counters().challenges, 10, "ten in five seconds");
    tcp.now += Span::from_secs(5);
    tcp.give(S, 77, 0, b"");
    assert_eq!(tcp.counters().challenges, 11);
}

#[test]
fn our_own_reset_is_reported_once() {
    let mut tcp = Script::established(plain());
    tcp.write(100);
    tcp.tcp.reset();
    let reset = tcp.one();
    assert_eq!((reset.seq, reset.flags), (1, R.with(A)));
    assert!(tcp.tcp.is_done());
    tcp.quiet();
}

/// RFC 7323, section 5.3; a reset is exempt (section 5.3, R1).
#[test]
fn old_timestamps_are_answered_and_dropped() {
    let config = Config { timestamps: true, ..plain() };
    let options = wavelane_wire::tcp::Options { timestamps: stamps(1_000, 0).timestamps, ..syn_options() };
    let mut tcp = Script::established_with(config, options);
    let with = |value, h| wavelane_wire::tcp::TcpHeader { options: stamps(value, 0), ..h };
    tcp.give_header(with(1_010, header(A, 1, 1)), b"new");
    tcp.drain();
    tcp.give_header(with(900, header(A, 4, 1)), b"old");
    assert_eq!(tcp.one().ack, 4);
    tcp.give_header(with(1_010, header(A, 4, 1)), b"now");
    assert_eq!(read(&mut tcp, 100), ReadOutcome::Data(6));
    tcp.give_header(with(900, header(R, 7, 0)), b"");
    assert_eq!(tcp.state(), ConnectionState::Closed);
}
