//! Needless reductions: RFC 5682 (F-RTO), RFC 3522 (timestamps), RFC 3708 (duplicate reports).

use super::script::*;
use super::world::{Way, World};
use super::*;
use wavelane_wire::tcp::{Flags, Options, TcpHeader};

/// Ten segments of 1,000 bytes in flight, more waiting, and a timeout that has fired.
fn timed_out(config: Config) -> Script {
    let mut tcp = Script::established(config);
    tcp.write(10_000);
    assert_eq!(tcp.data().len(), 10);
    tcp.write(40_000);
    while tcp.counters().timeouts == 0 {
        tcp.deadline();
        if tcp.counters().timeouts == 0 {
            tcp.drain();
        }
    }
    assert_eq!(tcp.data(), [(1, 1_000)]);
    tcp
}

fn without_probes() -> Config {
    Config { rack_tlp: false, ..plain() }
}

/// RFC 5682, section 3.1: the answers to the originals arrive late. New data is sent, nothing is repeated, and the
/// window is as it was.
#[test]
fn a_timeout_that_was_only_a_delay_is_taken_back() {
    let mut tcp = timed_out(without_probes());
    assert_eq!(tcp.tcp.status().cwnd, 1_000);
    tcp.ack(1_001);
    let sent = tcp.data();
    assert!(!sent.is_empty() && sent.iter().all(|(seq, _)| *seq > 10_000), "step 2.b: {sent:?}");
    tcp.ack(2_001);
    let status = tcp.tcp.status();
    assert!(!status.repairing && status.cwnd >= 10_000, "step 3.b: {status:?}");
    assert_eq!((status.counters.undone, status.counters.spurious_timeouts), (1, 1));
    assert!(tcp.data().iter().all(|(seq, _)| *seq > 10_000), "what was in flight was never lost");
}

/// RFC 5682, section 3.1, steps 2.a and 3.a: a duplicate after the timeout means that it was right.
#[test]
fn a_real_timeout_stays() {
    let mut tcp = timed_out(without_probes());
    tcp.ack(1_001);
    let new = tcp.data();
    assert!(new.iter().all(|(seq, _)| *seq > 10_000));
    tcp.sack(1_001, &[(10_001, 11_001)]);
    let status = tcp.tcp.status();
    assert!(status.repairing && status.cwnd < 5_000);
    assert_eq!(status.counters.undone, 0);
    assert_eq!(tcp.data()[0], (1_001, 1_000), "the conventional repair goes on");
}

/// RFC 3708: every repeat of a recovery is reported as needless.
#[test]
fn a_recovery_with_only_spurious_retransmits_is_undone() {
    let mut tcp = Script::established(plain());
    tcp.write(10_000);
    tcp.data();
    tcp.wait(100);
    tcp.sack(1, &[(1_001, 4_001)]);
    assert_eq!(tcp.data(), [(1, 1_000)]);
    assert_eq!(tcp.tcp.status().ssthresh, Some(5_000));
    tcp.wait(20);
    tcp.ack(10_001);
    // The acknowledgement that ends the repair may add a segment.
    assert!(tcp.tcp.status().cwnd <= 6_000);
    tcp.wait(80);
    tcp.sack(10_001, &[(1, 1_001)]);
    let status = tcp.tcp.status();
    assert_eq!((status.cwnd, status.ssthresh), (10_000, Some(u64::MAX)));
    assert_eq!(status.counters.undone, 1);
}

/// A sender with timestamps and ten segments in flight, 100 ms ago; the bytes of a segment, and the stamp of the ten.
fn stamped(config: Config) -> (Script, u32, u32) {
    let options = Options { timestamps: stamps(7, 0).timestamps, ..syn_options() };
    let mut tcp = Script::established_with(Config { timestamps: true, ..config }, options);
    tcp.write(50_000);
    let sent = tcp.drain();
    assert_eq!(sent.len(), 10);
    tcp.wait(100);
    (tcp, sent[0].payload.len() as u32, sent[0].options.timestamps.unwrap().value)
}

fn stamped_ack(tcp: &mut Script, ack: u32, blocks: &[(u32, u32)], echo: u32) {
    let options = Options { timestamps: stamps(8, echo).timestamps, ..sacks(blocks) };
    tcp.give_header(TcpHeader { options, ..header(A, 1, ack) }, b"");
}

/// RFC 3522, section 3.2, on an acknowledgement of part of what was in flight, as Linux's `tcp_try_undo_partial`: the first
/// segment was late, not lost. What is late after it is waited for (RFC 8985, section 6.2).
#[test]
fn a_hole_that_its_original_fills_is_taken_back_at_once() {
    let (mut tcp, len, sent_at) = stamped(plain());
    stamped_ack(&mut tcp, 1, &[(1 + len, 1 + 4 * len)], sent_at);
    assert_eq!(tcp.data()[0], (1, len as usize), "three are reported: the hole goes again");
    tcp.wait(10);
    stamped_ack(&mut tcp, 1 + 4 * len, &[], sent_at);
    let status = tcp.tcp.status();
    assert!(!status.repairing && status.ssthresh == Some(u64::MAX), "{status:?}");
    assert_eq!((status.counters.recoveries, status.counters.undone), (1, 1));
    tcp.drain();
    stamped_ack(&mut tcp, 1 + 4 * len, &[(1 + 5 * len, 1 + 9 * len)], sent_at);
    assert!(tcp.data().iter().all(|(seq, _)| *seq > 10 * len), "reordering was seen: four reports alone prove no loss");
    assert_eq!(tcp.deadline().0, "reordering window");
    assert_eq!(tcp.data()[0], (1 + 4 * len, len as usize), "patience ends");
}

/// What fills the hole before any repeat has gone can only be the original (Linux's `tcp_packet_delayed`), timestamps or not.
#[test]
fn a_reduction_before_any_repeat_went_is_taken_back() {
    let mut tcp = ten(plain());
    tcp.sack(1, &[(1_001, 4_001)]);
    assert!(tcp.tcp.status().repairing);
    tcp.ack(4_001);
    let status = tcp.tcp.status();
    assert_eq!((status.repairing, status.ssthresh, status.counters.undone), (false, Some(u64::MAX), 1), "{status:?}");
    assert!(tcp.data().iter().all(|(seq, _)| *seq > 10_000));
}

/// The answer to the repeat proves nothing.
#[test]
fn a_hole_that_the_repeat_fills_stays_a_loss() {
    let (mut tcp, len, sent_at) = stamped(plain());
    stamped_ack(&mut tcp, 1, &[(1 + len, 1 + 4 * len)], sent_at);
    let repeat = tcp.drain().remove(0);
    tcp.wait(100);
    stamped_ack(&mut tcp, 1 + 4 * len, &[], repeat.options.timestamps.unwrap().value);
    let status = tcp.tcp.status();
    assert!(status.repairing, "{status:?}");
    assert_eq!(status.counters.undone, 0);
}

/// As long as another repeat is on its way, its answer could be taken for an original's (Linux's `retrans_out`).
#[test]
fn nothing_is_undone_while_a_retransmit_is_in_flight() {
    let (mut tcp, len, sent_at) = stamped(plain());
    stamped_ack(&mut tcp, 1, &[(1 + len, 1 + 2 * len), (1 + 3 * len, 1 + 9 * len)], sent_at);
    let holes = [(1, len as usize), (1 + 2 * len, len as usize)];
    assert_eq!(tcp.data()[..2], holes, "both holes go again");
    tcp.wait(10);
    stamped_ack(&mut tcp, 1 + 2 * len, &[(1 + 3 * len, 1 + 9 * len)], sent_at);
    assert!(tcp.tcp.status().repairing && tcp.counters().undone == 0);
    stamped_ack(&mut tcp, 1 + 9 * len, &[], sent_at);
    assert!(!tcp.tcp.status().repairing && tcp.counters().undone == 1, "{:?}", tcp.tcp.status());
}

/// At the end of the recovery the timestamp alone decides (Linux's `tcp_try_undo_recovery`), whatever was repeated since.
#[test]
fn a_recovery_that_originals_end_is_taken_back() {
    let (mut tcp, len, sent_at) = stamped(plain());
    stamped_ack(&mut tcp, 1, &[(1 + len, 1 + 4 * len)], sent_at);
    tcp.drain();
    tcp.wait(10);
    stamped_ack(&mut tcp, 1, &[(1 + len, 1 + 10 * len)], sent_at);
    assert!(tcp.data().len() >= 2, "new data goes as reports come");
    tcp.wait(10);
    stamped_ack(&mut tcp, 1, &[(1 + len, 1 + 10 * len), (1 + 11 * len, 1 + 12 * len)], sent_at);
    assert!(tcp.data().contains(&(1 + 10 * len, len as usize)), "sent in the recovery, and repeated in it");
    assert_eq!(tcp.counters().undone, 0);
    stamped_ack(&mut tcp, 1 + 10 * len, &[], sent_at);
    let status = tcp.tcp.status();
    assert_eq!((status.repairing, status.counters.undone), (false, 1), "{status:?}");
}

/// RFC 3168, section 6.1.2: a mark is congestion; that nothing was repeated before the next acknowledgement proves nothing.
#[test]
fn a_reduction_for_a_mark_stays() {
    let mut tcp = Script::connect(Config { ecn: true, ..plain() });
    tcp.drain();
    tcp.wait(100);
    tcp.give_header(TcpHeader { options: syn_options(), ..header(S.with(A).with(Flags::ECE), 0, 1) }, b"");
    tcp.write(50_000);
    assert_eq!(tcp.data().len(), 10);
    tcp.wait(100);
    tcp.give(A.with(Flags::ECE), 1, 1_001, b"");
    tcp.drain();
    tcp.give(A, 1, 2_001, b"");
    let status = tcp.tcp.status();
    assert!(status.ssthresh.is_some_and(|ssthresh| ssthresh < 10_000), "{status:?}");
    assert_eq!((status.counters.marks, status.counters.undone), (1, 0));
}

/// A repeat that is reported as such while something below it is missing came late, not instead (Linux's
/// `tcp_sacktag_one`): it is reordering, though nothing unrepeated has filled a hole.
#[test]
fn a_repeat_reported_above_a_hole_is_reordering() {
    for (needless, waits) in [(true, true), (false, false)] {
        let mut tcp = ten(plain());
        tcp.sack(1, &[(1_001, 2_001), (3_001, 7_001)]);
        assert_eq!(tcp.data()[..2], [(1, 1_000), (2_001, 1_000)]);
        tcp.wait(10);
        tcp.sack(1, &[(1_001, 7_001)]);
        tcp.drain();
        if needless {
            tcp.sack(1, &[(2_001, 3_001), (1_001, 7_001)]);
        }
        tcp.wait(100);
        tcp.ack(10_001);
        tcp.drain();
        let end = tcp.tcp.sender.next as u32;
        tcp.wait(100);
        tcp.ack(end);
        tcp.drain();
        tcp.wait(100);
        tcp.sack(end, &[(end + 1_000, end + 4_000)]);
        let repeated = tcp.data().iter().any(|(seq, _)| *seq == end);
        assert_eq!(repeated, !waits, "reported as needless: {needless}");
    }
}

#[test]
fn the_knob_leaves_reductions_as_they_are() {
    let mut tcp = timed_out(Config { undo: false, ..without_probes() });
    tcp.ack(1_001);
    assert_eq!(tcp.data()[0], (1_001, 1_000));
    tcp.ack(2_001);
    assert_eq!(tcp.counters().undone, 0);
}

/// One jump of the round trip by 1.5 s, past the timeout, costs a connection its window only without the rules.
#[test]
fn a_delay_spike_does_not_cost_the_window() {
    let time = |undo: bool| {
        let config = Config { undo, ..Config::linux(CongestionControl::NewReno) };
        let mut world = World::new([config.clone(), config], [Way::clean(20, 50, 400_000); 2], 1);
        let flows = world.open(ms(10_000));
        world.transfer(flows, 0, 3_000_000, Instant::from_secs(30)).unwrap();
        world.stall(Span::from_millis(1_500));
        let end = world.transfer(flows, 0, 3_000_000, Instant::from_secs(60)).unwrap();
        (end, world.hosts[0].status(flows[0]).unwrap().counters)
    };
    let ((with, counters), (without, plain)) = (time(true), time(false));
    println!("with {with:?} {counters:?}, without {without:?} {plain:?}");
    assert!(counters.timeouts > 0 && counters.spurious_timeouts > 0, "{counters:?}");
    assert!(counters.retransmits < plain.retransmits && with <= without, "{counters:?} {plain:?}");
}
