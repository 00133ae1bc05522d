//! Loss, corruption, duplication, jitter and reordering: shares against theory, and independence of each other.

use super::drive::{Outcome, drive, mbit, ms, ratio, steady};
use std::collections::BTreeSet;
use wavelane_base::Span;
use wavelane_channel::{Cause, DirectionConfig, LossConfig, LossTrace, Reorder};

const FRAMES: u64 = 40_000;

fn run(config: DirectionConfig) -> Outcome {
    drive(11, config, &steady(FRAMES, 100, ms(0), Span::from_millis(1)), &[])
}

fn random(num: u32, den: u32) -> LossConfig {
    LossConfig::Random { p: ratio(num, den) }
}

/// Asserts that `hits` of `n` independent trials with probability `p` lie within four standard deviations.
fn assert_binomial(hits: u64, n: u64, p: f64, what: &str) {
    let (mean, deviation) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
    println!("{what}: {hits} of {n}, theory {mean:.1} +- {deviation:.1}");
    assert!((hits as f64 - mean).abs() < 4.0 * deviation, "{what}: {hits} of {n}, expected {mean} +- {deviation}");
}

#[test]
fn random_loss_has_its_share_and_no_memory() {
    let lost = run(DirectionConfig { loss: random(1, 20), ..Default::default() }).lost(Cause::Loss);
    assert_binomial(lost.len() as u64, FRAMES, 0.05, "lost");
    let pairs = lost.windows(2).filter(|w| w[1] == w[0] + 1).count() as u64;
    assert_binomial(pairs, FRAMES, 0.05 * 0.05, "lost right after a lost one");
    assert!(run(DirectionConfig { loss: random(0, 1), ..Default::default() }).drops.is_empty());
    assert_eq!(run(DirectionConfig { loss: random(1, 1), ..Default::default() }).drops.len() as u64, FRAMES);
}

#[test]
fn a_higher_probability_loses_a_superset() {
    let at = |num| {
        BTreeSet::from_iter(run(DirectionConfig { loss: random(num, 1_000), ..Default::default() }).lost(Cause::Loss))
    };
    let (low, high) = (at(20), at(21));
    assert!(low.is_subset(&high) && low.len() < high.len());
}

#[test]
fn impairments_have_independent_draws() {
    let base = DirectionConfig { rate: mbit(2), jitter: Span::from_millis(3), keep_order: false, ..Default::default() };
    let jitter_only = run(base.clone());
    let loss_only = run(DirectionConfig { loss: random(1, 10), ..Default::default() });
    let all = run(DirectionConfig {
        loss: random(1, 10),
        corrupt: ratio(1, 10),
        duplicate: ratio(1, 10),
        reorder: Reorder { p: ratio(1, 10), extra: Span::from_millis(5) },
        ..base.clone()
    });
    assert_eq!(all.lost(Cause::Loss), loss_only.lost(Cause::Loss));
    // Frames that met nothing but jitter come at the same instant as without the rest.
    let calm: BTreeSet<_> = jitter_only.arrivals.iter().map(|a| (a.bytes.clone(), a.at)).collect();
    let same = all.arrivals.iter().filter(|a| calm.contains(&(a.bytes.clone(), a.at))).count() as u64;
    assert_binomial(same, FRAMES, 0.9 * 0.9 * 0.9, "neither lost, corrupted nor reordered");
    let corrupt_only = run(DirectionConfig { corrupt: ratio(1, 10), ..base });
    let bad_alone: BTreeSet<_> = corrupt_only
        .arrivals
        .iter()
        .filter(|a| a.bytes[8..].iter().any(|b| *b != 0))
        .map(|a| a.bytes.clone())
        .collect();
    let bad_among: BTreeSet<_> =
        all.arrivals.iter().filter(|a| a.bytes[8..].iter().any(|b| *b != 0)).map(|a| a.bytes.clone()).collect();
    assert!(bad_among.is_subset(&bad_alone));
    assert_binomial(bad_among.len() as u64, bad_alone.len() as u64, 0.9, "corrupted frames that were not lost as well");
}

#[test]
fn a_full_queue_moves_no_fate_either() {
    let offers = steady(4_000, 1_000, ms(0), Span::from_micros(700));
    let lossy = |queue| DirectionConfig { rate: mbit(8), loss: random(1, 10), queue, ..Default::default() };
    let deep = drive(2, lossy(wavelane_channel::QueueLimit::Bounded), &offers, &[]);
    let tight = drive(2, lossy(wavelane_channel::QueueLimit::Packets(3)), &offers, &[]);
    let cut: BTreeSet<u64> = tight.lost(Cause::Queue).into_iter().collect();
    assert!(cut.len() > 1_000);
    let expected: Vec<u64> = deep.lost(Cause::Loss).into_iter().filter(|n| !cut.contains(n)).collect();
    assert_eq!(tight.lost(Cause::Loss), expected);
}

#[test]
fn corruption_flips_exactly_one_bit_anywhere() {
    let out = run(DirectionConfig { corrupt: ratio(1, 4), ..Default::default() });
    let mut per_octet = [0u64; 100];
    for (n, arrival) in out.arrivals.iter().enumerate() {
        let sent = super::drive::frame(n as u64, 100);
        let flipped: u32 = sent.iter().zip(&arrival.bytes).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!(flipped <= 1);
        if let Some(place) = sent.iter().zip(&arrival.bytes).position(|(a, b)| a != b) {
            per_octet[place] += 1;
        }
    }
    let corrupted: u64 = per_octet.iter().sum();
    assert_binomial(corrupted, FRAMES, 0.25, "corrupted");
    assert_eq!(corrupted, out.cable.counters(wavelane_channel::Direction::Forward).corrupted.frames);
    // Chi-square of 100 equal cells; 99 degrees of freedom; 0.001 point 148.2 (NIST handbook 1.3.6.7.4).
    let mean = corrupted as f64 / 100.0;
    let chi2: f64 = per_octet.iter().map(|&n| (n as f64 - mean).powi(2) / mean).sum();
    println!("place of the flipped bit: chi-square {chi2:.1} with 99 degrees of freedom, limit 148.2");
    assert!(chi2 < 148.2, "{chi2}");
}

#[test]
fn a_duplicate_comes_right_behind_its_original() {
    let out = run(DirectionConfig { duplicate: ratio(1, 10), delay: Span::from_millis(5), ..Default::default() });
    let numbers = out.numbers();
    let copies = numbers.windows(2).filter(|w| w[0] == w[1]).count() as u64;
    assert_binomial(copies, FRAMES, 0.1, "copies");
    assert_eq!(numbers.len() as u64, FRAMES + copies);
    assert!(numbers.is_sorted());
}

#[test]
fn jitter_is_uniform_and_keeps_order_by_default() {
    let jitter = Span::from_millis(20);
    let free = run(DirectionConfig { jitter, keep_order: false, ..Default::default() });
    let mut extra: Vec<u64> = free.arrivals.iter().map(|a| a.at.since(ms(a.number())).as_nanos()).collect();
    extra.sort_unstable();
    // Kolmogorov-Smirnov against the uniform distribution; 1.95 / sqrt(n) is its 0.001 point.
    let n = extra.len() as f64;
    let worst = extra.iter().enumerate().map(|(i, &x)| (x as f64 / 20e6 - i as f64 / n).abs()).fold(0.0, f64::max);
    println!("jitter: Kolmogorov distance x sqrt(n) {:.2}, limit 1.95", worst * n.sqrt());
    assert!(worst < 1.95 / n.sqrt(), "{worst}");
    assert!(*extra.last().unwrap() < jitter.as_nanos());
    assert!(!free.numbers().is_sorted());

    let kept = run(DirectionConfig { jitter, ..Default::default() });
    assert!(kept.numbers().is_sorted());
    // In order means: due is the running maximum of the free due times, nothing more.
    let mut due = free.arrivals.clone();
    due.sort_by_key(|a| a.number());
    let mut floor = ms(0);
    for (free, kept) in due.iter().zip(&kept.arrivals) {
        floor = floor.max(free.at);
        assert_eq!(kept.at, floor);
    }
}

#[test]
fn a_reordered_frame_is_overtaken_and_delays_no_other() {
    let reorder = Reorder { p: ratio(1, 50), extra: Span::from_micros(3_500) };
    let out = run(DirectionConfig { reorder, delay: Span::from_millis(10), ..Default::default() });
    let mut late = 0;
    for arrival in &out.arrivals {
        let took = arrival.at.since(ms(arrival.number()));
        assert!(took == Span::from_millis(10) || took == Span::from_micros(13_500), "{took}");
        late += u64::from(took > Span::from_millis(10));
    }
    assert_binomial(late, FRAMES, 0.02, "held back");
    let first = out.arrivals.iter().find(|a| a.at.since(ms(a.number())) > Span::from_millis(10)).unwrap().number();
    let place = out.numbers().iter().position(|&n| n == first).unwrap() as u64;
    assert_eq!(place, first + 3, "three frames, 1 ms apart, pass within 3.5 ms");
}

#[test]
fn a_loss_trace_drops_its_frames_and_intervals() {
    let frames = LossConfig::Trace(LossTrace::Frames(vec![0, 7, 8, 39_999]));
    assert_eq!(run(DirectionConfig { loss: frames, ..Default::default() }).lost(Cause::Loss), [0, 7, 8, 39_999]);
    let windows = LossConfig::Trace(LossTrace::Intervals(vec![(ms(3), ms(5)), (ms(10), ms(11))]));
    let out = run(DirectionConfig { loss: windows, ..Default::default() });
    assert_eq!(out.lost(Cause::Loss), [3, 4, 10], "half-open: a frame sent at the stop is not lost");
    for bad in [vec![3, 3], vec![4, 3]] {
        let message = LossConfig::Trace(LossTrace::Frames(bad)).check().unwrap_err().to_string();
        assert!(message.contains("sort the list"), "{message}");
    }
}
