//! What repair costs and what it buys: goodput, delay, the age of bytes and short transfers by loss.

use crate::common::{Pair, bursts, clean_demo, millis, random_loss, secs, with_loss};
use wavelane_base::{Instant, Span};
use wavelane_channel::LossConfig;
use wavelane_sim::{FlowIndex, Work};

/// (name, loss, its mean).
fn losses() -> [(&'static str, LossConfig, f64); 6] {
    [
        ("0 %", random_loss(0, 1), 0.0),
        ("1 %", random_loss(1, 100), 0.01),
        ("5 %", random_loss(5, 100), 0.05),
        ("10 %", random_loss(10, 100), 0.10),
        ("20 %", random_loss(20, 100), 0.20),
        ("bursts", bursts(), 0.05),
    ]
}

fn counter(pair: &Pair, name: &str) -> u64 {
    let both = [pair.a, pair.b].map(|node| pair.engine.status(node).counters);
    both.iter().flatten().filter(|(n, _)| *n == name).map(|(_, value)| value).sum()
}

/// Milliseconds at `percent` of a sorted list.
fn at(sorted: &[f64], percent: usize) -> f64 {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::INFINITY)
}

fn echo_times(pair: &Pair, echo: FlowIndex) -> Vec<f64> {
    let times = pair.engine.log(echo).questions.iter();
    let mut times: Vec<f64> =
        times.map(|q| q.answered.map_or(5_000.0, |at| at.since(q.due).as_secs_f64() * 1e3)).collect();
    times.sort_by(f64::total_cmp);
    times
}

#[test]
fn bulk_and_echo_by_loss() {
    for (name, loss, p) in losses() {
        let (mut whole, mut steady, mut echoes, mut ages) = (0.0, 0.0, Vec::new(), [0.0; 2]);
        let seeds = std::env::var("WL_SEEDS").map_or(4, |text| text.parse::<u64>().unwrap());
        let (mut first, mut repair) = (0, 0);
        for seed in 31..31 + seeds {
            let mut pair = Pair::new(seed, with_loss(clean_demo(), &loss));
            let down = pair.download(20_000_000);
            let echo = pair.echo(down);
            pair.finish(secs(60));
            pair.assert_complete(down);
            let log = pair.engine.log(down);
            let last = log.last_byte.unwrap();
            whole += log.goodput().as_bps() as f64 / 1e6 / seeds as f64;
            steady += pair.mbit(down, secs(2), last - Span::from_millis(200)) / seeds as f64;
            ages[0] += log.age(50).as_secs_f64() * 1e3 / seeds as f64;
            ages[1] += log.age(95).as_secs_f64() * 1e3 / seeds as f64;
            echoes.extend(echo_times(&pair, echo));
            first += counter(&pair, "hop_first_octets");
            repair += counter(&pair, "hop_repair_octets")
                + counter(&pair, "hop_copy_octets")
                + counter(&pair, "fec_symbol_octets");
            let own = echo_times(&pair, echo);
            println!("  seed {seed}: {:.2} p95 {:.0} n {} prot {} sym {} repd {} unrep {}", log.goodput().as_bps() as f64/1e6, at(&own, 95), own.len(), counter(&pair,"fec_protected"), counter(&pair,"fec_symbols"), counter(&pair,"fec_repaired"), counter(&pair,"fec_unrepaired"));
        }
        echoes.sort_by(f64::total_cmp);
        let limit = 20.0 * (1.0 - p);
        let share = |goodput: f64| goodput / limit;
        println!(
            "loss {name:6}: whole {whole:.2} ({:.3}) steady {steady:.2} ({:.3}) echo p50 {:.0} p95 {:.0} p99 {:.0} age p50 {:.0} p95 {:.0} repair {:.3}",
            share(whole), share(steady), at(&echoes, 50), at(&echoes, 95), at(&echoes, 99), ages[0], ages[1],
            repair as f64 / first as f64
        );
    }
}

#[test]
fn short_transfers_by_loss() {
    const COUNT: u64 = 60;
    for (name, loss, _) in losses() {
        let mut line = String::new();
        for size in [1_000, 10_000, 100_000] {
            let mut times = Vec::new();
            let (mut first, mut repair, mut wire) = (0, 0, 0);
            for seed in 71..75 {
                let mut pair = Pair::new(seed, with_loss(clean_demo(), &loss));
                let flows: Vec<FlowIndex> = (0..COUNT)
                    .map(|n| pair.add(Work::Download(Some(size)), Instant::ZERO + Span::from_millis(3_000).times(n)))
                    .collect();
                pair.finish(secs(60 * 4));
                for flow in flows {
                    pair.assert_complete(flow);
                    let log = pair.engine.log(flow);
                    let took = log.last_byte.unwrap().since(log.connected.unwrap());
                    times.push(took.as_secs_f64() * 1e3);
                }
                first += counter(&pair, "hop_first_octets");
                repair += counter(&pair, "hop_repair_octets")
                    + counter(&pair, "hop_copy_octets")
                    + counter(&pair, "fec_symbol_octets");
                for direction in crate::common::Direction::BOTH {
                    wire += pair.engine.cable(pair.air).counters(direction).offered.octets;
                }
            }
            times.sort_by(f64::total_cmp);
            line += &format!(
                " | {:3} kB: mean {:.0} p50 {:.0} p95 {:.0} max {:.0} repair {:.2} wire {:.2}",
                size / 1000, times.iter().sum::<f64>() / times.len() as f64, at(&times, 50), at(&times, 95),
                at(&times, 100), repair as f64 / first as f64, wire as f64 / (times.len() as u64 * size) as f64,
            );
        }
        println!("loss {name:6}{line}");
    }
}

#[test]
fn echo_alone_by_loss() {
    for (name, loss, _) in losses() {
        let mut pair = Pair::new(91, with_loss(clean_demo(), &loss));
        let spec = pair.spec(Work::Echo { every: Span::from_millis(100), size: 64, during: None }, Instant::ZERO);
        let echo = pair.engine.add_flow(wavelane_sim::FlowSpec { stop: Some(secs(120)), ..spec });
        pair.finish(secs(200));
        let times = echo_times(&pair, echo);
        let wire: u64 = crate::common::Direction::BOTH
            .map(|d| pair.engine.cable(pair.air).counters(d).offered.octets)
            .iter()
            .sum();
        println!(
            "echo alone, loss {name:6}: p50 {:.0} p95 {:.0} p99 {:.0} wire per question {:.0}",
            at(&times, 50), at(&times, 95), at(&times, 99), wire as f64 / times.len() as f64
        );
    }
    let _ = millis;
}
