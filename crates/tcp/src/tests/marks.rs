//! Congestion marks: RFC 3168, section 6.1.

use super::script::*;
use super::*;
use wavelane_base::Ecn;
use wavelane_wire::tcp::{Flags, TcpHeader};

const E: Flags = Flags::ECE;
const C: Flags = Flags::CWR;

fn marking() -> Config {
    Config { ecn: true, ..plain() }
}

/// An open connection that does ECN.
fn marked(config: Config) -> Script {
    let mut tcp = Script::connect(config);
    tcp.drain();
    tcp.wait(100);
    tcp.give_header(TcpHeader { options: syn_options(), ..header(S.with(A).with(E), 0, 1) }, b"");
    assert_eq!(tcp.one().ecn, Ecn::NotEct, "no pure acknowledgement is ECN-capable (section 6.1.4)");
    tcp
}

/// Ten segments in flight, 100 ms ago, and more to come.
fn ten_marked(config: Config) -> Script {
    let mut tcp = marked(config);
    tcp.write(10_000);
    assert_eq!(tcp.drain().len(), 10);
    tcp.write(40_000);
    tcp.wait(100);
    tcp
}

/// Section 6.1.1: a SYN asks with both bits, an answer agrees with ECE alone; anything else is no agreement.
#[test]
fn only_the_right_bits_agree() {
    for (bits, agreed) in [(E, true), (E.with(C), false), (C, false), (Flags::default(), false)] {
        let mut tcp = Script::connect(marking());
        assert!(tcp.one().flags.has(E.with(C)));
        tcp.give_header(TcpHeader { options: syn_options(), ..header(S.with(A).with(bits), 0, 1) }, b"");
        tcp.drain();
        tcp.write(10);
        assert_eq!(tcp.one().ecn == Ecn::Ect0, agreed, "{bits:?}");
    }
    for (bits, agreed) in [(E.with(C), true), (E, false), (C, false)] {
        let mut tcp = Script::accept_with_bits(marking(), bits);
        let answer = tcp.one();
        assert_eq!((answer.flags.has(E), answer.flags.has(C), answer.ecn), (agreed, false, Ecn::NotEct), "{bits:?}");
    }
}

/// Sections 6.1.4 and 6.1.5: repeats, pure acknowledgements, probes and resets are not ECN-capable, new data is.
#[test]
fn only_new_data_is_capable() {
    let mut tcp = ten_marked(Config { rack_tlp: false, undo: false, ..marking() });
    tcp.give_marked(header(A, 1, 1), b"data", Ecn::Ect0);
    tcp.wait(40);
    assert_eq!(tcp.one().ecn, Ecn::NotEct);
    while tcp.deadline().0 != "retransmission timeout" {}
    let again = tcp.one();
    assert_eq!((again.seq, again.ecn), (1, Ecn::NotEct));
    tcp.give(A, 5, 10_001, b"");
    let new = tcp.drain();
    assert!(!new.is_empty() && new.iter().all(|out| out.ecn == Ecn::Ect0));
    tcp.tcp.reset();
    assert_eq!(tcp.one().ecn, Ecn::NotEct);
}

/// Section 6.1.2: whatever reduced the window, the next new data says so, once: else the peer would go on echoing an old mark.
#[test]
fn every_reduction_sets_cwr() {
    let mut tcp = ten_marked(marking());
    tcp.sack(1, &[(1_001, 4_001)]);
    let mut sent = tcp.drain();
    assert_eq!((sent[0].seq, sent[0].flags.has(C)), (1, false), "not with a repeat");
    for end in (5_001..=10_001).step_by(1_000) {
        tcp.sack(1, &[(1_001, end)]);
        sent.extend(tcp.drain());
    }
    let told: Vec<bool> = sent.iter().filter(|out| out.seq > 10_000).map(|out| out.flags.has(C)).collect();
    assert!(told.len() > 1 && told[0] && told[1..].iter().all(|told| !told), "{told:?}");

    let mut tcp = ten_marked(Config { rack_tlp: false, undo: false, ..marking() });
    while tcp.deadline().0 != "retransmission timeout" {}
    assert!(!tcp.one().flags.has(C));
    tcp.ack(10_001);
    let told: Vec<bool> = tcp.drain().iter().map(|out| out.flags.has(C)).collect();
    assert!(told[0] && told[1..].iter().all(|told| !told), "{told:?}");
}

/// A reduction that proved needless before new data went is not told.
#[test]
fn an_undone_reduction_sets_no_cwr() {
    let mut tcp = ten_marked(marking());
    tcp.sack(1, &[(1_001, 4_001)]);
    assert_eq!(tcp.data(), [(1, 1_000)]);
    tcp.wait(20);
    tcp.ack(10_001);
    tcp.sack(10_001, &[(1, 1_001)]);
    assert_eq!(tcp.counters().undone, 1);
    let new = tcp.drain();
    assert!(!new.is_empty() && new.iter().all(|out| !out.flags.has(C)));
}

/// One that a mark called for is never taken back.
#[test]
fn marks_are_never_needless() {
    let mut tcp = ten_marked(Config { prr: false, ..marking() });
    tcp.give(A.with(E), 1, 1_001, b"");
    tcp.drain();
    let halved = tcp.tcp.status().ssthresh;
    // A repeat within the same reduction, which proves needless.
    tcp.sack(1_001, &[(2_001, 10_001)]);
    assert!(tcp.data().contains(&(1_001, 1_000)));
    tcp.wait(20);
    let una = tcp.tcp.sender.next as u32;
    tcp.ack(una);
    tcp.sack(una, &[(1_001, 2_001)]);
    assert_eq!((tcp.counters().needless, tcp.counters().undone), (1, 0));
    assert_eq!(tcp.tcp.status().ssthresh, halved);
}

/// RFC 5681, section 4.2: at most one acknowledgement per segment, marked or not.
#[test]
fn a_marked_segment_is_answered_at_once_and_once() {
    let mut tcp = marked(marking());
    tcp.give_marked(header(A, 1, 1), &[7; 1_000], Ecn::Ce);
    assert!(tcp.one().flags.has(E), "a mark is not delayed");
    tcp.give(A, 1_001, 1, &[7; 1_000]);
    tcp.give_marked(header(A, 2_001, 1), &[7; 1_000], Ecn::Ce);
    assert_eq!(tcp.one().ack, 3_001);
    tcp.give_marked(header(A, 4_001, 1), &[7; 1_000], Ecn::Ce);
    assert_eq!(tcp.one().ack, 3_001, "beyond a hole: one duplicate");
}

/// Section 6.1.3: the echo ends with CWR, whatever else the segment says, and begins anew with a mark on that very segment.
#[test]
fn the_echo_ends_with_the_answer() {
    let mut tcp = marked(marking());
    tcp.write(1_000);
    tcp.drain();
    tcp.give_marked(header(A, 1, 1_001), &[7; 10], Ecn::Ce);
    assert!(tcp.one().flags.has(E));
    // The peer sent its answer before it had our data.
    tcp.give(A.with(C), 11, 1, &[7; 10]);
    tcp.give(A, 21, 1_001, &[7; 10]);
    assert!(!tcp.one().flags.has(E));
    tcp.give_marked(header(A, 31, 1_001), &[7; 10], Ecn::Ce);
    tcp.drain();
    tcp.give_marked(header(A.with(C), 41, 1_001), &[7; 10], Ecn::Ce);
    assert!(tcp.one().flags.has(E));
}

/// Marks mean nothing where ECN was not agreed.
#[test]
fn marks_without_agreement() {
    let mut tcp = Script::established(plain());
    tcp.give_marked(header(A, 1, 1), &[7; 10], Ecn::Ce);
    tcp.quiet();
    tcp.write(10_000);
    tcp.give(A.with(E), 11, 1, b"");
    tcp.drain();
    tcp.give(A.with(E), 11, 1_001, b"");
    assert_eq!(tcp.counters().marks, 0);
}
