//! A lane that is told to start slowly: the first window is no queue of seconds, and a link that carries more is found out.

use crate::common::{Pair, direction, secs};
use wavelane_base::{Instant, Octets, Rate, Span};
use wavelane_channel::{CableConfig, DirectionConfig, QueueLimit};
use wavelane_sim::{NodeClock, Work};

fn cable(bps: u64, delay_ms: u64) -> CableConfig {
    CableConfig::symmetric(DirectionConfig {
        rate: Some(Rate::from_bps(bps)),
        delay: Span::from_millis(delay_ms),
        queue: QueueLimit::Octets(Octets::new(64_000)),
        ..DirectionConfig::default()
    })
}

fn pair(seed: u64, cable: CableConfig, start_rate: Option<Rate>) -> Pair {
    let clocks = [NodeClock::new(Span::from_secs(7), 20).unwrap(), NodeClock::new(Span::ZERO, -20).unwrap()];
    Pair::tuned(seed, cable, clocks, |config| config.peers[0].lanes[0].knobs.start_rate = start_rate)
}

/// An upload on a link that has a session: the longest RTT of an echo in its first 20 s, and octets delivered by 60 s.
fn first_seconds(seed: u64, bps: u64, start_rate: Option<Rate>) -> (Span, u64) {
    let mut pair = pair(seed, cable(bps, 50), start_rate);
    pair.engine.run_until(secs(5));
    let mut spec = pair.spec(Work::Upload(None), secs(5));
    spec.stop = Some(secs(60));
    let up = pair.engine.add_flow(spec);
    let every = Span::from_millis(1_000);
    let echo = pair.add(Work::Echo { every, random: false, size: 64, during: Some(up) }, secs(5));
    pair.engine.run_until(secs(60));
    let asked = pair.engine.log(echo).questions.clone();
    let rtts = asked.iter().filter(|q| q.due < secs(25)).map(|q| q.answered.map_or(Span::MAX, |at| at.since(q.due)));
    (rtts.max().expect("echoes"), pair.engine.log(up).octets_between(Instant::ZERO, secs(60)))
}

#[test]
fn a_modem_starts_without_a_queue_of_seconds_told_its_rate_or_not() {
    for seed in 1..=3 {
        let bps = 33_600;
        let (blind, blind_octets) = first_seconds(seed, bps, None);
        let (told, told_octets) = first_seconds(seed, bps, Some(Rate::from_bps(bps)));
        println!("seed {seed}: {blind:?} and {blind_octets} octets, told {told:?} and {told_octets}");
        assert!(told.max(blind) <= Span::from_millis(2_500), "seed {seed}: {told:?}, {blind:?} without");
        let share = told_octets as f64 / blind_octets as f64;
        assert!((0.95..1.05).contains(&share), "seed {seed}: {told_octets}, {blind_octets} without");
    }
}

/// Told far too little, a lane finds the rate as any other does: 5 MB over 20 Mbit/s take some doublings more, which is seconds for a rate 2,000 times too low.
#[test]
fn a_start_rate_that_is_far_too_low_is_found_out() {
    let took = |seed, start_rate| {
        let mut pair = pair(seed, CableConfig::symmetric(direction(20, 50, 250_000)), start_rate);
        let up = pair.add(Work::Upload(Some(5_000_000)), Instant::ZERO);
        let step = Span::from_millis(10);
        assert!(pair.engine.run_while(secs(60), step, |engine| engine.log(up).end.is_none()));
        pair.engine.now().since(Instant::ZERO)
    };
    for seed in 1..=3 {
        let (blind, told) = (took(seed, None), took(seed, Some(Rate::from_bps(9_600))));
        println!("seed {seed}: {blind:?}, told {told:?}");
        assert!(told <= blind + Span::from_secs(5), "seed {seed}: {told:?}, {blind:?} without");
    }
}

/// Small writes that come faster than a modem takes packets: what waits for the pacer travels together.
#[test]
fn small_writes_do_not_fill_the_queue_of_a_modem() {
    for (seed, start_rate) in [(1, Some(33_600)), (2, Some(33_600)), (3, None), (4, None)] {
        let mut pair = pair(seed, cable(33_600, 50), start_rate.map(Rate::from_bps));
        pair.engine.run_until(secs(5));
        // 8 bytes every 5 ms are 12.8 kbit/s, and each in a packet of its own five times what the line carries.
        let every = Span::from_millis(5);
        let echo = pair.add(Work::Echo { every, random: false, size: 8, during: None }, secs(5));
        pair.engine.run_until(secs(65));
        let asked = pair.engine.log(echo).questions.clone();
        let rtts = |from, until| {
            let due = asked.iter().filter(|q| q.due >= secs(from) && q.due < secs(until));
            let mut rtts: Vec<Span> = due.map(|q| q.answered.map_or(Span::MAX, |at| at.since(q.due))).collect();
            rtts.sort_unstable();
            (rtts[rtts.len() / 2], rtts[rtts.len() - 1])
        };
        let (first, last) = (rtts(5, 20), rtts(50, 60));
        println!("seed {seed}, told {start_rate:?}: median, longest {first:?}, from 45 s on {last:?}");
        // A window of two packets each way and one more for what is urgent are 1.1 s each.
        assert!(first.0 < Span::from_millis(2_500) && first.1 < Span::from_secs(4), "{first:?}");
        assert!(last.0 < Span::from_millis(1_500) && last.1 < Span::from_millis(2_500), "{last:?}");
    }
}

/// Beside bulk the echo of a modem waits for the target of two packets and its own turn, for minutes: acks and small packets that the pacer
/// does not hold back must not keep the queue from emptying until it passes for the path.
#[test]
fn the_queue_of_a_modem_stays_short_beside_bulk() {
    for (seed, start_rate) in [(1, Some(33_600)), (2, None)] {
        let mut pair = pair(seed, cable(33_600, 50), start_rate.map(Rate::from_bps));
        let every = Span::from_millis(100);
        let echo = pair.add(Work::Echo { every, random: false, size: 64, during: None }, secs(5));
        let up = pair.add(Work::Upload(None), secs(20));
        pair.engine.run_until(secs(150));
        let asked = pair.engine.log(echo).questions.clone();
        let due = asked.iter().filter(|q| q.due >= secs(90) && q.due < secs(140));
        let mut rtts: Vec<Span> = due.map(|q| q.answered.map_or(Span::MAX, |at| at.since(q.due))).collect();
        rtts.sort_unstable();
        let median = rtts[rtts.len() / 2];
        let rate = pair.engine.log(up).octets_between(secs(90), secs(140)) * 8 / 50;
        println!("seed {seed}, told {start_rate:?}: median {median:?}, upload {rate} bit/s");
        // Two packets of 1500 B take 714 ms. The echo's own packets and acks take some 9 kbit/s each way.
        assert!(median < Span::from_millis(1_400) && rate > 20_000, "seed {seed}: {median:?}, {rate} bit/s");
    }
}
