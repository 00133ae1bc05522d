//! Opening: RFC 9293, sections 3.5 and 3.10.7.2 to 3.10.7.4; options of RFC 7323, 2018 and 3168.

use super::script::*;
use super::*;
use wavelane_wire::tcp::{Flags, Options, TcpHeader};

#[test]
fn an_active_open_negotiates_options() {
    let config = Config { ecn: true, ..Config::default() };
    let mut tcp = Script::connect(config);
    let syn = tcp.one();
    assert_eq!((syn.seq, syn.flags), (0, S.with(Flags::ECE).with(Flags::CWR)), "RFC 3168, section 6.1.1");
    assert_eq!((syn.options.mss, syn.options.sack_permitted), (Some(1_460), true));
    assert_eq!(syn.options.window_scale, Some(7), "6 MiB need seven bits more than sixteen");
    assert!(syn.options.timestamps.is_some());
    tcp.wait(50);
    let options = Options { mss: Some(1_200), ..stamps(77, syn.options.timestamps.unwrap().value) };
    tcp.give_header(TcpHeader { options, ..header(S.with(A), 0, 1) }, b"");
    let ack = tcp.one();
    assert_eq!((ack.seq, ack.ack, ack.flags), (1, 1, A));
    assert_eq!(ack.options.timestamps.unwrap().echo, 77);
    assert_eq!(tcp.tcp.status().mss, 1_200 - 12, "timestamps take 12 of the peer's MSS");
    assert_eq!(ack.window, 65_535, "the peer does not scale, so neither do we");
    assert_eq!(tcp.tcp.status().rtt, Some(Span::from_millis(50)));
    tcp.write(5_000);
    let data = tcp.drain();
    assert!(data.iter().all(|d| d.ecn == wavelane_base::Ecn::NotEct), "the peer does not do ECN");
}

#[test]
fn a_peer_without_options_gets_the_assumed_mss() {
    let mut tcp = Script::established_with(plain(), Options::default());
    assert_eq!(tcp.tcp.status().mss, 536, "RFC 9293, section 3.7.1");
    tcp.write(600);
    assert_eq!(tcp.data(), [(1, 536), (537, 64)]);
}

#[test]
fn a_passive_open_answers_only_offered_options() {
    let mut tcp = Script::accept(Config::default(), Options { mss: Some(1_000), ..Options::default() });
    let answer = tcp.one();
    assert_eq!((answer.seq, answer.ack, answer.flags), (0, 1, S.with(A)));
    let o = answer.options;
    assert_eq!((o.mss, o.window_scale, o.sack_permitted, o.timestamps), (Some(1_460), None, false, None));
    assert_eq!(tcp.state(), ConnectionState::SynReceived);
    tcp.wait(30);
    tcp.ack(1);
    assert_eq!(tcp.state(), ConnectionState::Established);
    assert_eq!(tcp.events(), [TcpEvent::Connected]);
    assert_eq!(tcp.tcp.status().rtt, Some(Span::from_millis(30)));
}

/// RFC 9293, section 3.5, figure 7.
#[test]
fn simultaneous_open() {
    let mut tcp = Script::connect(plain());
    assert_eq!(tcp.one().flags, S);
    tcp.wait(10);
    tcp.give_header(TcpHeader { options: syn_options(), ..header(S, 0, 0) }, b"");
    assert_eq!(tcp.state(), ConnectionState::SynReceived);
    let answer = tcp.one();
    assert_eq!((answer.seq, answer.ack, answer.flags), (0, 1, S.with(A)));
    tcp.wait(10);
    tcp.give(S.with(A), 0, 1, b"");
    assert_eq!((tcp.state(), tcp.one().flags), (ConnectionState::Established, A));
    tcp.write(10);
    assert_eq!(tcp.data(), [(1, 10)]);
}

#[test]
fn a_lost_syn_is_repeated_with_back_off_and_given_up() {
    let mut tcp = Script::connect(Config { syn_retries: 3, ..plain() });
    assert_eq!(tcp.one().flags, S);
    for seconds in [1, 2, 4] {
        assert_eq!(tcp.deadline(), ("retransmission timeout", Span::from_secs(seconds)));
        let again = tcp.one();
        assert_eq!((again.seq, again.flags), (0, S));
    }
    assert_eq!(tcp.deadline().1, Span::from_secs(8));
    tcp.quiet();
    assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![TcpEvent::TimedOut]));
}

/// RFC 5681, section 3.1, and RFC 6298, section 5.7.
#[test]
fn after_a_lost_syn_the_window_is_one_segment() {
    let mut tcp = Script::connect(plain());
    tcp.drain();
    tcp.deadline();
    tcp.drain();
    tcp.wait(20);
    tcp.give_header(TcpHeader { options: syn_options(), ..header(S.with(A), 0, 1) }, b"");
    tcp.drain();
    let status = tcp.tcp.status();
    assert_eq!((status.cwnd, status.rtt, status.rto), (MSS as u64, None, Span::from_secs(3)));
}

/// RFC 5681, section 3.1: a lost SYN/ACK means one segment too, whether our timer or the peer's told of it.
#[test]
fn after_a_lost_answer_the_window_is_one_segment() {
    for ours in [true, false] {
        let mut tcp = Script::accept(plain(), syn_options());
        tcp.drain();
        if ours {
            assert_eq!(tcp.deadline(), ("retransmission timeout", Span::from_secs(1)));
        } else {
            tcp.wait(500);
            tcp.give_header(TcpHeader { options: syn_options(), ..header(S, 0, 0) }, b"");
        }
        assert_eq!(tcp.one().flags, S.with(A));
        tcp.wait(20);
        tcp.ack(1);
        let status = tcp.tcp.status();
        assert_eq!((status.cwnd, status.rtt, status.rto), (MSS as u64, None, Span::from_secs(3)));
        assert!(!status.repairing);
        tcp.write(5_000);
        assert_eq!(tcp.data(), [(1, 1_000)]);
    }
}

#[test]
fn refusals_count_only_with_our_number() {
    let mut tcp = Script::connect(plain());
    tcp.drain();
    tcp.give(R.with(A), 0, 7, b"");
    tcp.give(R, 0, 0, b"");
    tcp.give(S.with(A), 0, 9, b"");
    assert_eq!(tcp.state(), ConnectionState::SynSent, "RFC 9293, section 3.10.7.3: unacceptable acknowledgements");
    tcp.quiet();
    tcp.give(R.with(A), 0, 1, b"");
    assert_eq!((tcp.state(), tcp.events()), (ConnectionState::Closed, vec![TcpEvent::Refused]));
}

#[test]
fn data_written_before_the_syn_ack_follows_it() {
    let mut tcp = Script::connect(plain());
    tcp.write(2_500);
    tcp.tcp.shutdown(tcp.now);
    assert_eq!(tcp.one().flags, S);
    tcp.give_header(TcpHeader { options: syn_options(), ..header(S.with(A), 0, 1) }, b"");
    let out = tcp.drain();
    let sizes: Vec<usize> = out.iter().map(|o| o.payload.len()).collect();
    assert_eq!(sizes, [1_000, 1_000, 500]);
    assert_eq!(out[2].flags, A.with(P).with(F));
    assert_eq!(tcp.state(), ConnectionState::FinWait1);
}

/// A repeated SYN means that our answer was lost.
#[test]
fn a_repeated_syn_gets_the_answer_again() {
    let mut tcp = Script::accept(plain(), syn_options());
    assert_eq!(tcp.one().flags, S.with(A));
    tcp.wait(500);
    tcp.give_header(TcpHeader { options: syn_options(), ..header(S, 0, 0) }, b"");
    let again = tcp.one();
    assert_eq!((again.seq, again.ack, again.flags), (0, 1, S.with(A)));
}

#[test]
fn the_table_of_states() {
    use ConnectionState::*;
    let all = [SynSent, SynReceived, Established, FinWait1, FinWait2, CloseWait, Closing, LastAck, TimeWait, Closed];
    let ways = |from: ConnectionState| all.into_iter().filter(|to| from.may_become(*to)).collect::<Vec<_>>();
    assert_eq!(ways(SynSent), [SynReceived, Established, Closed]);
    assert_eq!(ways(SynReceived), [Established, Closed]);
    assert_eq!(ways(Established), [FinWait1, CloseWait, Closed]);
    assert_eq!(ways(FinWait1), [FinWait2, Closing, TimeWait, Closed]);
    assert_eq!(ways(FinWait2), [TimeWait, Closed]);
    assert_eq!(ways(CloseWait), [LastAck, Closed]);
    assert_eq!(ways(Closing), [TimeWait, Closed]);
    assert_eq!(ways(LastAck), [Closed]);
    assert_eq!(ways(TimeWait), [Closed]);
}
