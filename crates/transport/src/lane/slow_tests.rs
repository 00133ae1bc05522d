//! Where packets or acks are rare: slow lanes, fast lanes with a slow return path, acks that wait for data.

#![allow(clippy::unwrap_used, reason = "test code")]

use super::LaneReceiver;
use super::bottleneck::{Bottleneck, World};
use super::forward::Forward;
use wavelane_base::{Ecn, Instant, Rate, Span};

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// Two packets are the shortest queue that stands steadily: 180 ms at 130 kbit/s. A drain that is too short for it never shows
/// the base, and the queue is taken for the base again and again. Bound: two packets, and as much for the loop's swing.
#[test]
fn the_queue_of_a_slow_link_does_not_walk_up() {
    for kbit in [64, 130, 500] {
        let mut w = World::new(Bottleneck { queue_bytes: 60_000, ..Bottleneck::new(1, 90) }, 1, 1);
        w.set_rate(Rate::from_bps(kbit * 1_000));
        w.run_until(150.0);
        let packet = 12_000.0 / kbit as f64;
        let (mean, _) = w.queue_ms(60.0, 150.0);
        assert!(mean <= 4.0 * packet, "{kbit} kbit/s: {mean:.0} ms, a packet takes {packet:.0}");
        let got = w.goodput(0, 60.0, 150.0) / (kbit as f64 * 1e3);
        assert!((0.97..=1.01).contains(&got), "{kbit} kbit/s: {got:.3}");
    }
}

/// One packet a millisecond, of which every tenth is lost.
fn lossy() -> LaneReceiver {
    let mut rx = LaneReceiver::new(0);
    for n in (0..3_000).filter(|n| n % 10 != 5) {
        rx.received(ms(n), ms(n), n, Ecn::NotEct, true, false);
        rx.take_ack(ms(n), 64);
    }
    rx
}

#[test]
fn an_ack_repeats_arrivals_of_the_last_200_ms() {
    let mut rx = lossy();
    rx.received(ms(3_000), ms(3_000), 3_000, Ecn::NotEct, true, false);
    let ranges = rx.take_ack(ms(3_000), 64).unwrap().ranges.0;
    // Twenty holes, and twice the precision of 25 ms.
    assert!((20..=26).contains(&ranges.len()), "{}", ranges.len());
    assert!(ranges.last().unwrap().0 <= 2_800);
    // After a fade that took every ack the first one tells of all since.
    for n in (3_001..3_100).filter(|n| n % 10 != 5) {
        rx.received(ms(n), ms(n), n, Ecn::NotEct, true, false);
    }
    let ranges = rx.take_ack(ms(3_100), 64).unwrap().ranges.0;
    assert!(ranges.last().unwrap().0 <= 2_900, "{ranges:?}");
}

#[test]
fn an_ack_reports_late_arrivals_of_any_age() {
    let mut rx = lossy();
    rx.received(ms(3_000), ms(3_000), 2_005, Ecn::NotEct, true, false);
    for again in 0..2 {
        let ranges = rx.take_ack(ms(3_000 + again), 256).unwrap().ranges.0;
        assert!(ranges.iter().any(|r| (r.0..=r.1).contains(&2_005)), "ack {again}");
        rx.received(ms(3_001 + again), ms(3_001 + again), 3_001 + again, Ecn::NotEct, true, false);
    }
    let later = rx.take_ack(ms(3_003), 256).unwrap().ranges.0;
    assert!(later.iter().all(|r| r.0 > 2_005), "told twice, that is enough: {later:?}");
}

#[test]
fn holes_are_acked_at_once_and_counts_after_an_eighth_rtt() {
    let (longest, rtt) = (Span::from_millis(100), Span::from_millis(80));
    let mut rx = LaneReceiver::new(0);
    let arrive = |rx: &mut LaneReceiver, n: u64| rx.received(ms(n), ms(n), n, Ecn::NotEct, true, false);
    arrive(&mut rx, 0);
    rx.take_ack(ms(0), 64);
    arrive(&mut rx, 1);
    assert_eq!(rx.ack_patience(longest, rtt), longest);
    arrive(&mut rx, 2);
    assert!(rx.ack_due(ms(2)));
    assert_eq!(rx.ack_patience(longest, rtt), rtt.scale(1, 8));
    arrive(&mut rx, 4);
    assert_eq!(rx.ack_patience(longest, rtt), rtt.scale(1, 8), "the count comes first");
    rx.take_ack(ms(4), 64);
    arrive(&mut rx, 7);
    assert_eq!(rx.ack_patience(longest, rtt), Span::ZERO);
}

/// Delays between 0 and 40 ms, of which an ack each 50 ms tells one.
#[test]
fn rare_acks_show_jitter_but_no_queue_on_a_slow_lane() {
    let feed = |packets: u64| {
        let mut forward = Forward::default();
        for i in 0..200u64 {
            let sent = ms(50 * i);
            let delay = Span::from_millis(i * 7_919 % 41);
            forward.sample(sent + Span::from_millis(60), i * packets, sent, (sent + delay).as_nanos());
        }
        forward.jitter()
    };
    assert!(feed(20) > Span::from_millis(10), "{}", feed(20));
    assert_eq!(feed(1), Span::ZERO);
}

/// Eight seconds of queue stand for half a minute: they stay a queue, for a round trip takes as long, and are the base after a minute.
#[test]
fn a_queue_of_seconds_is_not_forgotten_in_ten() {
    let mut forward = Forward::default();
    let mut feed = |at: u64, queue: u64| {
        let (sent, took) = (ms(at), Span::from_millis(50 + queue));
        forward.sample(sent + took, at, sent, (sent + took).as_nanos());
        forward.queue(sent + took).unwrap()
    };
    feed(0, 0);
    for at in 1..600 {
        let queue = feed(at * 100, 8_000);
        if at < 300 && at > 4 {
            assert_eq!(queue, Span::from_millis(8_000), "{at}");
        }
    }
    assert_eq!(feed(61_000, 8_000), Span::ZERO);
    // On a path without such queues ten seconds are enough.
    for at in 0..400 {
        feed(70_000 + at * 100, 0);
    }
    assert_eq!((0..150).map(|at| feed(110_000 + at * 100, 300)).last().unwrap(), Span::ZERO);
}

/// A queue that empties fast looks like jitter, and on a lane that became slow no sample would take that back: a probe for room
/// under it sends faster, the window holds it up, and a queue that stays is no sign of room. Nor does real jitter of before stay.
/// Bound: two packets or the target of 18 ms, and the loop's swing.
#[test]
fn a_link_that_became_slow_has_no_jitter_of_before() {
    for kbit in [1_000, 2_000] {
        for rtt in [50, 200] {
            for jitter in [0, 60] {
                let link =
                    Bottleneck { queue_bytes: 150_000, jitter: Span::from_millis(jitter), ..Bottleneck::new(10, rtt) };
                let mut w = World::new(link, 1, 1);
                w.run_until(10.0);
                w.link.jitter = Span::ZERO;
                w.set_rate(Rate::from_bps(kbit * 1_000));
                w.run_until(50.0);
                let name = format!("{kbit} kbit/s, {rtt} ms, jitter {jitter} ms");
                let (mean, _) = w.queue_ms(30.0, 50.0);
                assert!(mean <= (3.2 * 12_000.0 / kbit as f64).max(24.0), "{name}: {mean:.0} ms stand");
                let got = w.goodput(0, 30.0, 50.0) / (kbit as f64 * 1e3);
                assert!((0.97..=1.01).contains(&got), "{name}: {got:.3}");
            }
        }
    }
}

/// The return path was thin for a while, and acks stay as rare as it made them. What arrives between two of them is in flight.
#[test]
fn rare_acks_leave_no_hole_in_the_window() {
    let mut w = World::new(Bottleneck::new(5, 50), 1, 1);
    w.run_until(10.0);
    w.link.reverse_rate = Rate::from_bps(30_000);
    w.run_until(20.0);
    w.link.reverse_rate = Rate::from_bps(1_000_000_000);
    w.run_until(60.0);
    // Five acks' time of 30 kbit/s.
    let delay = w.lanes[0].sender.ack_delay();
    assert!(delay >= Span::from_millis(120) && delay <= Span::from_millis(180), "{delay}");
    let got = w.goodput(0, 30.0, 60.0);
    assert!(got >= 0.97 * 5e6, "{got}: {}", w.trace(0));
    let (mean, _) = w.queue_ms(30.0, 60.0);
    assert!(mean <= 20.0, "{mean}");
    // Elsewhere the return path is another one.
    let now = w.now;
    w.lanes[0].sender.address_changed(now);
    assert_eq!(w.lanes[0].sender.ack_wish(), Some((2, Span::from_millis(5))));
}
