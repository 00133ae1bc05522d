//! Ways back that carry a hundredth of the way out and less: what returns is acks, and these leave room for what cannot wait.

use crate::common::{Direction, Pair, direction, secs};
use wavelane_base::{Instant, Octets, Rate, Span};
use wavelane_channel::{CableConfig, DirectionConfig, QueueLimit};
use wavelane_sim::Work;

/// 2 Mbit/s out, and `bps` back before a queue of so many octets.
fn thin(bps: u64, queue: u64) -> CableConfig {
    let back = DirectionConfig {
        rate: Some(Rate::from_bps(bps)),
        delay: Span::from_millis(50),
        queue: QueueLimit::Octets(Octets::new(queue)),
        ..DirectionConfig::default()
    };
    CableConfig { forward: direction(2, 50, 50_000), reverse: back }
}

/// What an upload of 120 s gave.
struct Got {
    /// Share of what the way out carries of it.
    share: f64,
    /// The 95th percentile of its echoes' round trips from 5 s on.
    p95: Option<Span>,
    echoes: usize,
    /// Share of the return path that was taken.
    back: f64,
    /// IP bytes on the return path per megabyte delivered.
    per_megabyte: f64,
}

fn upload(seed: u64, (bps, queue): (u64, u64), every: Option<Span>) -> Got {
    let mut pair = Pair::new(seed, thin(bps, queue));
    let mut spec = pair.spec(Work::Upload(None), Instant::ZERO);
    spec.stop = Some(secs(120));
    let up = pair.engine.add_flow(spec);
    let echo =
        every.map(|every| pair.add(Work::Echo { every, random: false, size: 64, during: Some(up) }, Instant::ZERO));
    pair.engine.run_until(secs(120));
    let octets = pair.engine.log(up).octets_between(Instant::ZERO, secs(120));
    let back = pair.engine.cable(pair.air).counters(Direction::Reverse).delivered.octets;
    let questions = echo.map(|echo| pair.engine.log(echo).questions.clone()).unwrap_or_default();
    let asked = questions.iter().filter(|q| q.due >= secs(5) && q.due < secs(115));
    let mut rtts: Vec<Span> = asked.map(|q| q.answered.map_or(Span::MAX, |at| at.since(q.due))).collect();
    rtts.sort_unstable();
    // IP bytes less headers, tag and frame: 1,437 of 1,500 (docs/protocol/wire.md).
    Got {
        share: octets as f64 * 8.0 / 120.0 / (2e6 * 1_437.0 / 1_500.0),
        p95: rtts.get(rtts.len() * 95 / 100).copied(),
        echoes: rtts.len(),
        back: back as f64 * 8.0 / 120.0 / bps as f64,
        per_megabyte: back as f64 / (octets as f64 / 1e6),
    }
}

/// Round trip of 64 bytes with TCP's and IP's headers over empty queues.
fn unloaded(bps: u64) -> Span {
    let at = |bps| Rate::from_bps(bps).time_for(Octets::new(116));
    Span::from_millis(100) + at(bps) + at(2_000_000)
}

#[test]
fn acks_yield_a_thin_return_path_to_echoes() {
    for (bps, every, least, most) in [
        (33_600, Some(Span::from_millis(100)), 0.95, 1.5),
        (9_600, Some(Span::from_secs(1)), 0.95, 1.5),
        (1_200, None, 0.90, 1.0),
    ] {
        for seed in 1..=3 {
            let got = upload(seed, (bps, 16_000), every);
            let unloaded = unloaded(bps);
            let told = format!(
                "{bps} bit/s back: {:.3} of the limit, p95 of {} echoes {:?} of {unloaded:?} unloaded, {:.2} of the way back, {:.0} \
                 bytes a megabyte",
                got.share, got.echoes, got.p95, got.back, got.per_megabyte
            );
            println!("{told}");
            assert!(got.share >= least, "{told}");
            assert_eq!(got.echoes >= 100, every.is_some(), "{told}");
            assert!(got.p95.is_none_or(|p95| p95.as_secs_f64() <= most * unloaded.as_secs_f64()), "{told}");
            assert!(every.is_some() || got.per_megabyte <= 600.0, "{told}");
        }
    }
}

/// Acks and copies overflow it before any is known to queue: that is neither its base delay nor the medium's loss.
#[test]
fn a_short_queue_before_a_thin_way_back_does_not_stay_full() {
    for queue in [1_500, 3_000, 4_000, 6_000] {
        for seed in 1..=2 {
            let got = upload(seed, (33_600, queue), Some(Span::from_millis(100)));
            let (p95, most) = (got.p95.unwrap_or(Span::MAX), unloaded(33_600).scale(3, 2));
            let told = format!(
                "{queue} B, seed {seed}: {:.3} of the limit, p95 {p95} of {most}, {:.2} of the way back",
                got.share, got.back
            );
            println!("{told}");
            assert!(got.share >= 0.95 && p95 <= most && got.back < 0.6, "{told}");
        }
    }
}

/// There a few handshakes, probes or a single ack of many holes fill it for seconds.
#[test]
fn an_upload_works_with_a_1_kbit_return_path() {
    for queue in [600, 1_500, 3_000] {
        for seed in 1..=3 {
            let got = upload(seed, (1_200, queue), None);
            let told = format!(
                "{queue} B, seed {seed}: {:.3} of the limit, {:.0} bytes a megabyte",
                got.share, got.per_megabyte
            );
            println!("{told}");
            assert!(got.share >= 0.88 && got.per_megabyte <= 600.0, "{told}");
        }
    }
}

/// Losses in an outage are no sign that a slow lane sends too fast: a trial of that would slow it down for a minute.
#[test]
fn a_slow_lane_carries_its_rate_after_an_outage() {
    for (bps, ms) in [(33_600, 10_000), (33_600, 30_000), (128_000, 10_000)] {
        for seed in 1..=2 {
            let slow = DirectionConfig {
                rate: Some(Rate::from_bps(bps)),
                delay: Span::from_millis(50),
                queue: QueueLimit::Octets(Octets::new(16_000)),
                outages: vec![(secs(60), secs(60) + Span::from_millis(ms))],
                ..DirectionConfig::default()
            };
            let mut pair = Pair::new(seed, CableConfig::symmetric(slow));
            let up = pair.add(Work::Upload(None), Instant::ZERO);
            pair.engine.run_until(secs(160));
            let octets = |from, until| pair.engine.log(up).octets_between(secs(from), secs(until)) as f64;
            let rate = |from: u64, until: u64| octets(from, until) * 8.0 / (until - from) as f64;
            let after = 62 + ms / 1_000;
            let (before, after) = (rate(30, 60), rate(after, after + 45));
            let told = format!("{bps} bit/s, out for {ms} ms, seed {seed}: {before:.0} bit/s before, {after:.0} after");
            println!("{told}");
            assert!(after >= 0.95 * before, "{told}");
        }
    }
}
