//! The controller against a model bottleneck. Every figure stands beside what physics allows.

#![allow(clippy::unwrap_used, reason = "test code")]

use super::bottleneck::{App, Link, Loss, Policer, World};
use wavelane_base::{Instant, Rate, Span};

const MBIT: f64 = 1e6;

fn explore(name: &str, link: Link, seconds: f64) -> World {
    let mut w = World::new(link, 1, 7);
    w.run_until(seconds);
    println!(
        "{name}: goodput {:.2} Mbit/s queue {:?} drops {:.4}",
        w.goodput(0, 3.0, seconds) / MBIT,
        w.queue_ms(3.0, seconds),
        w.drop_share()
    );
    w
}

const LOUD: bool = false;
#[test]
fn explore_all() {
    let w = explore("clean", Link::new(20, 100), 20.0);
    if LOUD {
        println!("{}", w.trace(0));
    }
    for p in [0.01, 0.05, 0.1, 0.2] {
        let w = explore(&format!("iid {p}"), Link { loss: Loss::Random(p), ..Link::new(20, 100) }, 20.0);
        if w.goodput(0, 3.0, 20.0) < 0.93 * (1.0 - p) * 20e6 {
            if LOUD {
                println!("{}", w.trace(0));
            }
        }
    }
    for (good, bad) in [(570, 30), (380, 20)] {
        let loss = Loss::Bursts { good: Span::from_millis(good), bad: Span::from_millis(bad) };
        let w = explore(&format!("ge {good}/{bad}"), Link { loss, ..Link::new(20, 100) }, 20.0);
        if LOUD {
            println!("{}", w.trace(0));
        }
    }
    let mut w = World::new(Link::new(20, 100), 1, 7);
    w.run_until(10.0);
    w.set_rate(Rate::from_bps(2_000_000));
    w.run_until(20.0);
    w.set_rate(Rate::from_bps(20_000_000));
    w.run_until(30.0);
    println!(
        "step: queue {:?} {:?} low {:.2} high {:.2}\n{}",
        w.queue_ms(10.0, 11.0),
        w.queue_ms(11.0, 20.0),
        w.goodput(0, 11.0, 20.0) / MBIT,
        w.goodput(0, 23.0, 30.0) / MBIT,
        w.trace(0)
    );
    let mut w = World::new(Link::new(20, 100), 1, 7);
    w.run_until(10.0);
    w.link.delay = w.link.delay + Span::from_millis(30);
    w.run_until(20.0);
    println!("base step: {:.2} {:?}\n{}", w.goodput(0, 10.0, 20.0) / MBIT, w.queue_ms(10.0, 20.0), w.trace(0));
    let w = explore("jitter 20", Link { jitter: Span::from_millis(20), ..Link::new(20, 100) }, 20.0);
    if LOUD {
        println!("{}", w.trace(0));
    }
    let w = explore("10 ms queue", Link { queue_bytes: 25_000, ..Link::new(20, 100) }, 20.0);
    if LOUD {
        println!("{}", w.trace(0));
    }
    let policer = Some(Policer { rate: Rate::from_bps(20_000_000), depth: 30_000 });
    let w = explore("policer", Link { policer, ..Link::new(1000, 100) }, 30.0);
    if LOUD {
        println!("{}", w.trace(0));
    }
    println!("BEGIN");
    for (m, rtt) in [(20, 600), (20, 5), (1, 100), (200, 20)] {
        let w = explore(
            &format!("{m} Mbit/s {rtt} ms"),
            Link { queue_bytes: 250_000.max(m * 12_500), ..Link::new(m, rtt) },
            15.0,
        );
        if m < 100 {
            if LOUD {
                println!("{}", w.trace(0));
            }
        }
    }
    for lanes in [2, 3] {
        let mut w = World::new(Link::new(20, 100), lanes, 7);
        for i in 1..lanes {
            w.run_until(5.0 * i as f64);
            w.lanes[i].app = App::Greedy;
        }
        w.run_until(70.0);
        let from = 5.0 * (lanes - 1) as f64;
        let g: Vec<f64> = (0..lanes).map(|i| w.goodput(i, from, 70.0) / MBIT).collect();
        println!("fair {lanes}: {g:?} jain {:.3} {:?}", jain(&g), w.queue_ms(from, 70.0));
    }
}

fn jain(x: &[f64]) -> f64 {
    let sum: f64 = x.iter().sum();
    sum * sum / (x.len() as f64 * x.iter().map(|v| v * v).sum::<f64>())
}
#[test]
fn explore_step() {
    let mut w = World::new(Link::new(20, 100), 1, 7);
    w.run_until(10.0);
    println!("{:?}", w.lanes[0].sender.path(w.now));
    w.set_rate(Rate::from_bps(2_000_000));
    for i in 0..30 {
        w.run_until(10.0 + 0.05 * f64::from(i));
        let p = w.lanes[0].sender.path(w.now);
        println!(
            "{:.2} q {:?} in_flight {} win {} rate {:?}",
            w.time(),
            w.queue.last().unwrap().1,
            p.in_flight,
            p.window,
            p.rate
        );
    }
}
