//! Startup of a lane: on an unknown path, and on one that was known before an idle time or an outage.

#![allow(clippy::unwrap_used, reason = "test code")]

use super::bottleneck::{App, Bottleneck, Policer, World};
use wavelane_base::{Rate, Span};

const MBIT: f64 = 1e6;

/// The first train lets a fast link start at the train's rate, where doubling from 4 Mbit/s takes four round trips more.
/// Bound: the train, a round trip at one and a half of its rate, then doubling.
#[test]
fn a_fast_and_long_link_is_full_within_seven_round_trips() {
    let link =
        Bottleneck { queue_bytes: 19_000_000, reverse_rate: Rate::from_bps(3_000_000), ..Bottleneck::new(250, 600) };
    let mut w = World::new(link, 1, 1);
    w.run_until(6.0);
    let full = w.goodput(0, 7.0 * 0.6, 6.0);
    assert!((0.9 * 250.0 * MBIT..=1.002 * 250.0 * MBIT).contains(&full), "{}", w.trace(0));
}

/// A token bucket lets a train through that its rate does not: that is found out before the rate is doubled, and costs what one
/// and a half of the train's rate bring in two round trips at most.
#[test]
fn a_token_bucket_is_not_taken_for_a_fast_link() {
    for depth in [60_000, 100_000, 200_000] {
        for mbit in [2, 5, 20] {
            let policer = Some(Policer { rate: Rate::from_bps(mbit * 1_000_000), depth });
            let mut w = World::new(Bottleneck { policer, ..Bottleneck::new(1000, 600) }, 1, 1);
            w.run_until(10.0);
            let sent = w.lanes[0].offered_packets as f64 * 1_500.0;
            let passed = mbit as f64 * MBIT / 8.0 * 10.0 + depth as f64;
            let cost = 1.5 * 40.0 * MBIT / 8.0 * 1.2;
            assert!(sent <= passed + 1.1 * cost, "{mbit} Mbit/s, {depth}: {sent} bytes for {passed}: {}", w.trace(0));
            let got = w.goodput(0, 5.0, 10.0);
            assert!(got >= 0.9 * mbit as f64 * MBIT, "{mbit} Mbit/s, {depth}: {got}: {}", w.trace(0));
        }
    }
}

/// Silence says nothing of the path: after it the lane sends at what it knew, paced, after an outage at no less than half of
/// that. A path that became slower meanwhile shows that at once.
#[test]
fn a_known_path_starts_at_its_last_rate() {
    for (outage, seconds, rates) in [(false, 20.0, &[20, 10, 5][..]), (true, 5.0, &[20, 10, 5])] {
        for &mbit in rates {
            let mut w = World::new(Bottleneck::new(20, 100), 1, 1);
            w.run_until(10.0);
            if outage {
                w.link.outage = true;
            } else {
                w.lanes[0].app = App::Silent;
            }
            w.run_until(10.0 + seconds);
            w.link.outage = false;
            w.lanes[0].app = App::Greedy;
            w.set_rate(Rate::from_bps(mbit * 1_000_000));
            // The first probe after the outage leaves within 250 ms; a round trip later its ack is here.
            let again = w.time() + if outage { 0.4 } else { 0.0 };
            w.run_until(again + 0.15);
            let name = format!("outage {outage}, then {mbit} Mbit/s");
            let sent = w.lanes[0].offered_packets;
            w.run_until(again + 0.3);
            let pace = (w.lanes[0].offered_packets - sent) as f64 * 1_500.0 * 8.0 / 0.15;
            w.run_until(again + 8.0);
            let (_, most) = w.queue_ms(again + 1.0, again + 8.0);
            assert!(most <= 100.0, "{name}: {most:.0} ms of queue: {}", w.trace(0));
            let got = w.goodput(0, again + 0.1, again + 1.1);
            assert!(
                got >= 0.45 * (mbit as f64).min(10.0) * MBIT,
                "{name}: {got:.0} in the first second: {}",
                w.trace(0)
            );
            if mbit == 20 {
                assert!((0.45 * 20.0 * MBIT..1.2 * 20.0 * MBIT).contains(&pace), "{name}: {pace:.0}: {}", w.trace(0));
            }
        }
    }
}

/// A bulk start after a sparse exchange (ssh, ping) is a start like any other: its first window leaves as a train and tells the
/// rate. Bounds: that window's queue; then the target of 18 ms, or two packets, and what the loop swings.
#[test]
fn a_start_after_sparse_traffic_leaves_no_standing_queue() {
    for kbit in [500, 1_000, 2_000, 5_000] {
        let packet = 12_000.0 / kbit as f64;
        for (rtt, bytes) in [(20, 100), (100, 120), (200, 200)] {
            for packets in [30, 100, 200] {
                let mut w = World::new(Bottleneck { queue_bytes: packets * 1_500, ..Bottleneck::new(1, rtt) }, 1, 1);
                w.set_rate(Rate::from_bps(kbit * 1_000));
                w.lanes[0].app = App::Chunks { bytes, every: Span::from_millis(100) };
                w.run_until(5.0);
                w.lanes[0].app = App::Greedy;
                w.run_until(35.0);
                let name = format!("{kbit} kbit/s, {rtt} ms, {packets} packets");
                let (_, most) = w.queue_ms(5.0, 7.0);
                assert!(most <= 34.0 * packet, "{name}: {most:.0} ms at the start, a packet takes {packet:.0}");
                let (mean, _) = w.queue_ms(10.0, 35.0);
                assert!(mean <= (3.2 * packet).max(24.0), "{name}: {mean:.0} ms stand, a packet takes {packet:.0}");
                let got = w.goodput(0, 10.0, 35.0) / (kbit as f64 * 1e3);
                assert!((0.95..=1.01).contains(&got), "{name}: {got:.3}");
            }
        }
    }
}

/// Small writes that come faster than a slow link carries packets, each at once: none shows the link's rate until the queue does. Bounds:
/// what is sent until then, most of the first window at worst; later two packets, and as much for the loop's swing.
#[test]
fn small_writes_that_overload_a_slow_link_end_startup() {
    for (kbit, bytes, every) in [(10, 60, 20), (34, 60, 5), (34, 200, 20), (64, 100, 5), (128, 60, 2)] {
        let mut w = World::new(Bottleneck { queue_bytes: 64_000, ..Bottleneck::new(1, 100) }, 1, 1);
        w.set_rate(Rate::from_bps(kbit * 1_000));
        w.lanes[0].app = App::Chunks { bytes, every: Span::from_millis(every) };
        w.run_until(60.0);
        let name = format!("{kbit} kbit/s, {bytes} bytes every {every} ms");
        let first = 32.0 * 12_000.0 / kbit as f64;
        let (_, most) = w.queue_ms(0.0, 60.0);
        assert!(most <= 0.9 * first, "{name}: {most:.0} ms at the start, the first window takes {first:.0}");
        let (mean, _) = w.queue_ms(45.0, 60.0);
        assert!(mean <= 4.0 * 12_000.0 / kbit as f64, "{name}: {mean:.0} ms stand");
        w.lanes[0].app = App::Greedy;
        w.run_until(90.0);
        let got = w.goodput(0, 65.0, 90.0) / (kbit as f64 * 1e3);
        assert!((0.93..=1.01).contains(&got), "{name}: then bulk at {got:.3}");
    }
}

/// Within one host or one switch the round trip is shorter than a timer is exact: the pauses between the pacer's bursts are no
/// silence, or no rate would ever be measured and the lane would stay at the train's.
#[test]
fn late_timers_do_not_hold_a_short_path_to_the_first_rate() {
    for timer in [100, 500, 1_000, 2_000].map(Span::from_micros) {
        let delay = Span::from_micros(15);
        let mut w = World::new(Bottleneck { timer, delay, queue_bytes: 4_000_000, ..Bottleneck::new(2_000, 1) }, 1, 1);
        w.run_until(1.0);
        let got = w.goodput(0, 0.5, 1.0);
        assert!(got >= 0.9 * 2_000.0 * MBIT, "{timer} timers: {got:.0} bit/s: {}", w.trace(0));
    }
}
