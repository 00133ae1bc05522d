//! The first window of a lane that is told no rate: short on a slow line, and no later than before on a fast one.

use crate::common::{Pair, bursts, random_loss, secs, with_loss};
use wavelane_base::{Instant, Octets, Rate, Span};
use wavelane_channel::{CableConfig, DirectionConfig, QueueLimit};
use wavelane_sim::Work;

fn cable(bps: u64, delay_ms: u64, queue: u64) -> CableConfig {
    CableConfig::symmetric(DirectionConfig {
        rate: Some(Rate::from_bps(bps)),
        delay: Span::from_millis(delay_ms),
        queue: QueueLimit::Octets(Octets::new(queue)),
        ..DirectionConfig::default()
    })
}

/// Two gateways that have a session at `after`, if that is not zero.
fn pair(seed: u64, cable: CableConfig, after: u64) -> Pair {
    let mut pair = Pair::new(seed, cable);
    if after > 0 {
        pair.add(Work::Echo { every: Span::from_secs(100), random: false, size: 64, during: None }, Instant::ZERO);
        pair.engine.run_until(secs(after));
    }
    pair
}

/// The longest RTT of an echo in the first 20 s beside bulk that begins `after` so many seconds, and the octets of a minute.
fn first_seconds(seed: u64, bps: u64, work: Work, after: u64) -> (Span, u64) {
    let mut pair = pair(seed, cable(bps, 50, 64_000), after);
    let bulk = pair.add(work, secs(after));
    let echo = Work::Echo { every: Span::from_secs(1), random: false, size: 64, during: Some(bulk) };
    let echo = pair.add(echo, secs(after));
    pair.engine.run_until(secs(after + 60));
    let asked = pair.engine.log(echo).questions.iter().filter(|q| q.due < secs(after + 20));
    let longest = asked.map(|q| q.answered.map_or(Span::MAX, |at| at.since(q.due))).max();
    (longest.expect("echoes"), pair.engine.log(bulk).octets_between(Instant::ZERO, secs(after + 60)))
}

/// 32 packets are 40, 11 and 3 s.
#[test]
fn a_slow_line_starts_without_a_queue_of_seconds() {
    for (bps, most) in [(9_600, 9_000), (33_600, 2_500), (128_000, 1_000)] {
        for after in [0, 10] {
            for work in [Work::Upload(None), Work::Download(None)] {
                let (longest, octets) = first_seconds(1, bps, work, after);
                // Of what the line carries in a minute, without headers and the echo's packets.
                let share = octets as f64 * 8.0 / 60.0 / bps as f64;
                let told =
                    format!("{bps} bit/s, {work:?} after {after} s: longest echo {longest}, {share:.3} of the line");
                println!("{told}");
                assert!(longest <= Span::from_millis(most) && share >= 0.65, "{told}");
            }
        }
    }
}

/// Padded pings are lost like all else. Three in a row are one case in a thousand; a first window of 32 packets takes most of the minute.
#[test]
fn a_slow_line_that_loses_padded_pings_starts_as_slowly() {
    let carried = |seed, work| {
        let mut pair = Pair::new(seed, with_loss(cable(7_680, 5, 64_000), &random_loss(1, 10)));
        let bulk = pair.add(work, Instant::ZERO);
        pair.engine.run_until(secs(60));
        pair.engine.log(bulk).octets_between(Instant::ZERO, secs(60))
    };
    for work in [Work::Upload(None), Work::Download(None)] {
        // Of the 57,600 octets of a minute.
        let all: Vec<u64> = (1..=20).map(|seed| carried(seed, work)).collect();
        println!("{work:?}: {all:?}");
        assert!(all.iter().filter(|octets| **octets < 22_000).count() <= 1, "{work:?}: {all:?}");
    }
}

/// The mean time of 100 kB over a link, in ms.
fn took(cable: &CableConfig, down: bool, after: u64, seeds: u64) -> f64 {
    let one = |seed| {
        let mut pair = pair(seed, cable.clone(), after);
        let flow =
            pair.add(if down { Work::Download(Some(100_000)) } else { Work::Upload(Some(100_000)) }, secs(after));
        assert!(pair.engine.run_while(secs(after + 60), Span::from_millis(1), |engine| engine.log(flow).end.is_none()));
        pair.engine.now().since(secs(after)).as_secs_f64() * 1e3
    };
    (1..=seeds).map(one).sum::<f64>() / seeds as f64
}

/// 100 kB up and down without a session, and up and down over a link that has one, beside the times with a first window of 32 packets
/// whatever the path. That is the padded ping's cost.
#[test]
fn a_fast_line_starts_no_later() {
    let jitter = |ms| {
        let mut cable = cable(20_000_000, 50, 250_000);
        cable.forward.jitter = Span::from_millis(ms);
        cable.reverse.jitter = Span::from_millis(ms);
        cable
    };
    let base = || cable(20_000_000, 50, 250_000);
    for (name, cable, seeds, before) in [
        ("20 Mbit/s, 100 ms", base(), 1, [426.0, 426.0, 325.0, 325.0]),
        ("1 %", with_loss(base(), &random_loss(1, 100)), 100, [442.6, 442.3, 337.6, 336.3]),
        ("5 %", with_loss(base(), &random_loss(5, 100)), 200, [542.8, 546.7, 335.5, 335.0]),
        ("20 %", with_loss(base(), &random_loss(20, 100)), 200, [1237.1, 1282.3, 369.6, 364.6]),
        ("bursts", with_loss(base(), &bursts()), 100, [565.6, 562.7, 361.7, 369.1]),
        ("jitter of 5 ms", jitter(5), 50, [454.5, 452.9, 346.2, 345.4]),
        ("jitter of 20 ms", jitter(20), 50, [551.5, 540.3, 415.3, 412.1]),
        ("jitter of 40 ms", jitter(40), 50, [694.3, 656.8, 542.9, 508.2]),
        ("2 Mbit/s, 100 ms", cable(2_000_000, 50, 50_000), 1, [741.0, 746.0, 630.0, 630.0]),
        ("1 Mbit/s, 100 ms", cable(1_000_000, 50, 50_000), 1, [1181.0, 1191.0, 1060.0, 1060.0]),
        ("512 kbit/s, 100 ms", cable(512_000, 50, 50_000), 1, [2000.0, 2029.0, 1864.0, 1864.0]),
        ("200 Mbit/s, 10 ms", cable(200_000_000, 5, 500_000), 1, [54.0, 51.0, 44.0, 41.0]),
        ("20 Mbit/s, 600 ms", cable(20_000_000, 300, 2_000_000), 1, [2426.0, 2426.0, 1826.0, 1826.0]),
    ] {
        let all = [(false, 0), (true, 0), (false, 5), (true, 5)].map(|(down, after)| took(&cable, down, after, seeds));
        println!("{name}: {all:.1?} ms, {before:?} before");
        for (took, before) in all.into_iter().zip(before) {
            assert!(took <= 1.05 * before, "{name}: {all:.1?} ms, {before:?} before");
        }
    }
}
