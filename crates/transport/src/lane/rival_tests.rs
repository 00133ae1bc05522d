//! The delay controller beside TCP senders that keep a queue full, and alone.

#![allow(clippy::unwrap_used, reason = "test code")]

use super::bottleneck::{App, Bottleneck, Loss, Policer, World};
use super::rival::Kind;
use crate::Controller;
use wavelane_base::{Rate, Span};

const MBIT: f64 = 1e6;
const LINK: f64 = 20.0 * MBIT;

/// 20 Mbit/s with a queue of so many quarters of the bandwidth-delay product.
fn link(rtt_ms: u64, quarters: u64) -> Bottleneck {
    Bottleneck { queue_bytes: 2_500 * rtt_ms * quarters / 4, ..Bottleneck::new(20, rtt_ms) }
}

fn world(link: Bottleneck, lanes: usize) -> World {
    let mut w = World::new(link, 0, 1);
    for _ in 0..lanes {
        w.add_lane(Controller::Delay, App::Greedy);
    }
    w
}

fn competing(w: &World) -> usize {
    w.lanes.iter().filter(|l| l.sender.competing()).count()
}

/// What a sender of `kind` gets that joins another of its kind.
fn beside_its_own(kind: Kind, link: Bottleneck) -> f64 {
    let mut w = world(link, 0);
    w.add_rival(kind);
    w.run_until(10.0);
    w.add_rival(kind);
    w.run_until(100.0);
    w.rival_goodput(0, 40.0, 100.0)
}

/// (kind, round trip in ms, queue in quarters, our share in percent that is allowed). A queue of a quarter is so short
/// that the lane is never pushed out of it and does not compete; one of those cells is less than fair to us.
const CELLS: [(Kind, u64, u64, (u64, u64)); 12] = [
    (Kind::Cubic, 50, 1, (25, 60)),
    (Kind::Cubic, 50, 4, (25, 60)),
    (Kind::Cubic, 50, 16, (25, 60)),
    (Kind::Cubic, 100, 1, (20, 60)),
    (Kind::Cubic, 100, 4, (25, 60)),
    (Kind::Cubic, 100, 16, (25, 60)),
    (Kind::Reno, 50, 1, (25, 60)),
    (Kind::Reno, 50, 4, (25, 60)),
    (Kind::Reno, 50, 16, (25, 60)),
    (Kind::Reno, 100, 1, (25, 60)),
    (Kind::Reno, 100, 4, (25, 60)),
    (Kind::Reno, 100, 16, (25, 60)),
];

#[test]
fn a_tcp_and_a_lane_share_the_link() {
    for (kind, rtt, quarters, (least, most)) in CELLS {
        let link = link(rtt, quarters);
        let mut w = world(link, 1);
        w.run_until(10.0);
        w.add_rival(kind);
        w.run_until(70.0);
        let (us, rival) = (w.goodput(0, 20.0, 70.0), w.rival_goodput(0, 20.0, 70.0));
        let alike = rival / beside_its_own(kind, link);
        let cell =
            format!("{kind:?} {rtt} ms, queue {quarters}/4: us {us:.0}, rival {rival:.0}, x {alike:.2} of its own");
        // `--nocapture` prints the table of decision 0010.
        println!("{cell}, queue {:.0} ms", w.queue_ms(20.0, 70.0).0);
        assert!((least as f64 / 100.0..=most as f64 / 100.0).contains(&(us / LINK)), "{cell}");
        assert!(us + rival >= 0.95 * LINK, "{cell}");
        assert!(alike >= 0.6, "{cell}");
        w.rivals[0].active = false;
        w.run_until(90.0);
        assert_eq!(competing(&w), 0, "{cell}");
        assert!(w.queue_ms(80.0, 90.0).0 <= 10.0, "{cell}: {} ms", w.queue_ms(80.0, 90.0).0);
        assert!(w.goodput(0, 80.0, 90.0) >= 0.97 * LINK, "{cell}");
    }
}

#[test]
fn a_lane_that_comes_late_gets_a_share_too() {
    for (rtt, quarters) in [(50, 4), (50, 16), (100, 4), (100, 16)] {
        let mut w = world(link(rtt, quarters), 1);
        w.lanes[0].app = App::Silent;
        w.add_rival(Kind::Cubic);
        w.run_until(10.0);
        w.lanes[0].app = App::Greedy;
        w.run_until(70.0);
        let us = w.goodput(0, 20.0, 70.0) / LINK;
        assert!((0.2..=0.6).contains(&us), "{rtt} ms {quarters}/4: {us}");
    }
}

#[test]
fn among_several_no_flow_starves() {
    for (lanes, rivals) in [(1, 2), (1, 4), (2, 1), (2, 2)] {
        let mut w = world(link(100, 4), lanes);
        w.run_until(10.0);
        for _ in 0..rivals {
            w.add_rival(Kind::Cubic);
        }
        w.run_until(70.0);
        let fair = LINK / (lanes + rivals) as f64;
        for lane in 0..lanes {
            let us = w.goodput(lane, 20.0, 70.0);
            assert!((0.4 * fair..=1.7 * fair).contains(&us), "{lanes} lanes, {rivals} rivals: {us}");
        }
        for rival in 0..rivals {
            let it = w.rival_goodput(rival, 20.0, 70.0);
            assert!(it >= 0.6 * fair, "{lanes} lanes, {rivals} rivals: {it}");
        }
    }
}

/// Two lanes that compete keep each other's queue full: only together do they find that the rival has gone.
#[test]
fn lanes_do_not_mistake_each_other_for_rivals_for_long() {
    for quarters in [4, 16] {
        for lanes in [2, 3] {
            let mut w = world(link(100, quarters), lanes);
            w.run_until(10.0);
            w.add_rival(Kind::Cubic);
            let mut spells = 0;
            for t in 11..=50 {
                w.run_until(f64::from(t));
                spells += competing(&w);
            }
            assert!(spells > 0, "they should have competed");
            w.rivals[0].active = false;
            w.run_until(80.0);
            assert_eq!(competing(&w), 0, "{quarters}/4, {lanes} lanes");
            let queue = w.queue_ms(60.0, 80.0).0;
            assert!(queue <= 20.0, "{quarters}/4, {lanes} lanes: {queue} ms");
        }
    }
}

#[test]
fn competing_ends_after_a_path_change() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 4] = [
        ("a slower link", |w| w.set_rate(Rate::from_bps(5_000_000))),
        ("a faster link", |w| w.set_rate(Rate::from_bps(50_000_000))),
        ("a longer way", |w| w.link.delay += Span::from_millis(30)),
        ("an outage", |w| w.link.outage = true),
    ];
    for (name, change) in changes {
        let mut w = world(link(100, 4), 1);
        w.run_until(10.0);
        w.add_rival(Kind::Cubic);
        w.run_until(30.0);
        change(&mut w);
        w.run_until(33.0);
        w.link.outage = false;
        w.run_until(60.0);
        w.rivals[0].active = false;
        w.run_until(90.0);
        assert_eq!(competing(&w), 0, "{name}");
        let queue = w.queue_ms(75.0, 90.0).0;
        assert!(queue <= 20.0, "{name}: {queue} ms");
        let rate = w.link.rate.as_bps() as f64;
        assert!(w.goodput(0, 75.0, 90.0) >= 0.95 * rate, "{name}: {}", w.trace(0));
    }
}

/// Nothing but a competitor makes a lane compete.
#[test]
fn a_lane_alone_never_competes() {
    type Event = fn(&mut World);
    let bursts = Loss::Bursts { good: Span::from_millis(570), bad: Span::from_millis(30) };
    let jitter = |ms| Bottleneck { jitter: Span::from_millis(ms), ..Bottleneck::new(20, 100) };
    let policer = Some(Policer { rate: Rate::from_bps(20_000_000), depth: 30_000 });
    let nothing: Event = |_| {};
    let longer: Event = |w| w.link.delay += Span::from_millis(30);
    let slower: Event = |w| w.set_rate(Rate::from_bps(2_000_000));
    let cases: [(&str, Bottleneck, usize, Event); 10] = [
        ("a longer way", Bottleneck::new(20, 100), 1, longer),
        ("a longer way, with bursts", Bottleneck { loss: bursts, ..Bottleneck::new(20, 100) }, 1, longer),
        ("a slower link", Bottleneck::new(20, 100), 1, slower),
        (
            "a slower link and a deep queue",
            Bottleneck { queue_bytes: 2_000_000, ..Bottleneck::new(20, 100) },
            1,
            slower,
        ),
        ("jitter", jitter(20), 1, longer),
        ("jitter of the scheduler", Bottleneck { tick: Span::from_millis(10), ..Bottleneck::new(20, 100) }, 1, longer),
        ("loss", Bottleneck { loss: Loss::Random(0.2), ..Bottleneck::new(20, 100) }, 1, longer),
        ("a policer", Bottleneck { policer, ..Bottleneck::new(1000, 100) }, 1, longer),
        ("two lanes", Bottleneck::new(20, 100), 2, nothing),
        ("two lanes with bursts", Bottleneck { loss: bursts, ..Bottleneck::new(20, 100) }, 2, nothing),
    ];
    for (name, link, lanes, event) in cases {
        for seed in 1..=3 {
            let mut w = World::new(link, lanes, seed);
            for tenth in 1..=400 {
                w.run_until(f64::from(tenth) / 10.0);
                assert_eq!(competing(&w), 0, "{name}, seed {seed}, at {} s", w.time());
                match tenth {
                    50 if lanes == 2 => w.lanes[1].app = App::Greedy,
                    150 => event(&mut w),
                    _ => {}
                }
            }
        }
    }
}
