//! Needless reductions: RFC 5682 (F-RTO), RFC 3522 (timestamps), RFC 3708 (duplicate reports).

use super::script::*;
use super::world::{Way, World};
use super::*;

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
fn a_recovery_whose_repeats_were_all_needless_is_taken_back() {
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
