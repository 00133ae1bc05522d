//! Gilbert-Elliott against its closed forms, and its independence of the traffic.

use super::drive::{Outcome, drive, mbit, ratio, steady, us};
use std::collections::BTreeMap;
use wavelane_base::{Instant, Ratio, Seed, Span};
use wavelane_channel::loss::GilbertElliott;
use wavelane_channel::{Cause, DirectionConfig, LossConfig, PerUnit};

/// The demo's process: means of 570 and 30 ms.
const GOOD_MS: u64 = 570;
const BAD_MS: u64 = 30;

fn model(in_good: Ratio, in_bad: Ratio, per: PerUnit) -> LossConfig {
    LossConfig::GilbertElliott {
        good: Span::from_millis(GOOD_MS),
        bad: Span::from_millis(BAD_MS),
        in_good,
        in_bad,
        per,
    }
}

fn all_or_nothing() -> DirectionConfig {
    DirectionConfig { loss: model(Ratio::ZERO, Ratio::ONE, PerUnit::Packet), ..Default::default() }
}

fn process(seed: u64) -> GilbertElliott {
    // The cable's own substream, so that the process alone tells the truth about the cable.
    let dice = Seed(seed).chance("x forward / dwell 0");
    GilbertElliott::new(Span::from_millis(GOOD_MS), Span::from_millis(BAD_MS), dice, Instant::ZERO)
}

/// Dwell times in (good, bad), nanoseconds, found by asking every 0.1 ms for `seconds`.
fn dwells(seed: u64, seconds: u64) -> (Vec<u64>, Vec<u64>) {
    let (mut good, mut bad) = (vec![0], vec![0]);
    let mut p = process(seed);
    let mut was_bad = false;
    for step in 1..=seconds * 10_000 {
        let share = p.share(us((step - 1) * 100), us(step * 100));
        if share.ends_bad && !was_bad {
            bad.push(0);
        }
        if !share.ends_bad && was_bad {
            good.push(0);
        }
        *bad.last_mut().unwrap() += share.bad.as_nanos();
        *good.last_mut().unwrap() += share.whole.as_nanos() - share.bad.as_nanos();
        was_bad = share.ends_bad;
    }
    good.pop();
    bad.pop();
    bad.retain(|&ns| ns > 0);
    (good, bad)
}

/// The largest distance between the samples' distribution and an exponential one with this mean, times sqrt(n).
fn kolmogorov(mut samples: Vec<u64>, mean_ms: u64) -> f64 {
    samples.sort_unstable();
    let n = samples.len() as f64;
    let distance = |(i, &x): (usize, &u64)| {
        let cdf = 1.0 - (-(x as f64) / (mean_ms as f64 * 1e6)).exp();
        (cdf - i as f64 / n).abs().max((cdf - (i + 1) as f64 / n).abs())
    };
    samples.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
}

#[test]
fn dwell_times_are_exponential_with_their_means() {
    // 1.95 is the 0.001 point of the Kolmogorov distribution. Dwells below the 0.1 ms of the questions may join
    // their neighbours: 0.3 % of the bad ones, far inside the point at n = 3300.
    let (good, bad) = dwells(1, 2_000);
    assert!(good.len() > 3_000 && bad.len() > 3_000);
    let (n_good, n_bad) = (good.len(), bad.len());
    let (good, bad) = (kolmogorov(good, GOOD_MS), kolmogorov(bad, BAD_MS));
    println!("Kolmogorov distance x sqrt(n): good {good:.2} (n = {n_good}), bad {bad:.2} (n = {n_bad}), limit 1.95");
    assert!(good < 1.95);
    assert!(bad < 1.95);
}

#[test]
fn the_share_of_lost_time_is_bad_over_good_plus_bad() {
    // Variance of the share of an alternating exponential process over T: 2 g^2 b^2 / ((g + b)^3 T).
    let (g, b, seconds) = (GOOD_MS as f64 / 1e3, BAD_MS as f64 / 1e3, 20_000);
    let deviation = (2.0 * g * g * b * b / ((g + b).powi(3) * f64::from(seconds))).sqrt();
    for seed in 1..=5 {
        let share = process(seed).share(Instant::ZERO, Instant::from_secs(u64::from(seconds as u32)));
        let got = share.bad.as_secs_f64() / share.whole.as_secs_f64();
        println!("seed {seed}: lost share of time {got:.5}, theory 0.05000 +- {deviation:.5}");
        assert!((got - 0.05).abs() < 4.0 * deviation, "seed {seed}: {got}, expected 0.05 +- {deviation}");
    }
}

#[test]
fn times_before_the_process_are_left_out() {
    let mut late =
        GilbertElliott::new(Span::from_secs(1), Span::from_secs(1), Seed(1).chance("late"), Instant::from_secs(10));
    assert_eq!(late.share(Instant::from_secs(8), Instant::from_secs(12)).whole, Span::from_secs(2));
    assert_eq!(late.share(Instant::from_secs(8), Instant::from_secs(13)).whole, Span::from_secs(1));
}

#[test]
fn periodic_frames_see_geometric_bursts() {
    // Sampled each d, the process is a Markov chain with P(bad | bad) = b' + g' exp(-(1/g + 1/b) d), where g' and
    // b' are the shares of time; so bursts are geometric with mean 1 / (1 - P(bad | bad)).
    let offers = steady(2_000_000, 8, us(500), Span::from_millis(1));
    let lost = drive(3, all_or_nothing(), &offers, &[]).lost(Cause::Loss);
    let mut lengths = BTreeMap::<u64, u64>::new();
    let mut length = 1;
    for pair in lost.windows(2) {
        if pair[1] == pair[0] + 1 {
            length += 1;
        } else {
            *lengths.entry(length).or_default() += 1;
            length = 1;
        }
    }
    let bursts: u64 = lengths.values().sum();
    let (g, b) = (GOOD_MS as f64, BAD_MS as f64);
    let stays = b / (g + b) + g / (g + b) * (-(1.0 / g + 1.0 / b)).exp();
    let mean = lengths.iter().map(|(len, n)| len * n).sum::<u64>() as f64 / bursts as f64;
    let expected = 1.0 / (1.0 - stays);
    let deviation = stays.sqrt() / (1.0 - stays) / (bursts as f64).sqrt();
    println!("{bursts} bursts of {mean:.3} frames, theory {expected:.3} +- {deviation:.3}");
    assert!((mean - expected).abs() < 4.0 * deviation, "{mean} frames a burst, expected {expected} +- {deviation}");
    for least in [10, 30, 60, 100] {
        let long: u64 = lengths.range(least..).map(|(_, n)| n).sum();
        let p = stays.powi(least as i32 - 1);
        let deviation = (bursts as f64 * p * (1.0 - p)).sqrt();
        println!("bursts of {least} frames or more: {long}, theory {:.1} +- {deviation:.1}", bursts as f64 * p);
        assert!((long as f64 - bursts as f64 * p).abs() < 4.0 * deviation, "{long} of {bursts} last {least} frames");
    }
}

/// Fates of a run by the instant at which the frame's last bit was sent.
fn fates(out: &Outcome, offers: &[(Instant, Vec<u8>)]) -> Vec<(Instant, bool)> {
    let lost = out.lost(Cause::Loss);
    offers.iter().enumerate().map(|(n, (at, _))| (*at, lost.binary_search(&(n as u64)).is_ok())).collect()
}

#[test]
fn every_traffic_meets_the_same_bursts() {
    let dense = steady(300_000, 40, us(0), Span::from_micros(100));
    let sparse = steady(1_500, 1_400, us(7_300), Span::from_micros(19_700));
    let truth: BTreeMap<Instant, bool> = fates(&drive(8, all_or_nothing(), &dense, &[]), &dense).into_iter().collect();
    let mut lost = 0;
    for (at, fate) in fates(&drive(8, all_or_nothing(), &sparse, &[]), &sparse) {
        assert_eq!(truth.get(&at), Some(&fate), "{at:?}");
        lost += u32::from(fate);
    }
    assert!(lost > 20, "a comparison with losses in it: {lost}");
    // And the cable's process is the one that nobody asked in between.
    let mut alone = process(8);
    for (at, fate) in truth {
        assert_eq!(alone.share(at, at).ends_bad, fate, "{at:?}");
    }
}

#[test]
fn independent_bit_errors_lose_a_frame_with_one_minus_survival() {
    let p = ratio(1, 10_000);
    for (octets, seed) in [(40, 1), (500, 2), (1_500, 3)] {
        let config = DirectionConfig { loss: model(p, p, PerUnit::Bit), ..Default::default() };
        let offers = steady(30_000, octets, us(0), Span::from_micros(50));
        let lost = drive(seed, config, &offers, &[]).lost(Cause::Loss).len() as f64;
        let expected = 1.0 - (1.0f64 - 1e-4).powi(octets as i32 * 8);
        let deviation = (30_000.0 * expected * (1.0 - expected)).sqrt();
        println!("{octets} B at 1e-4 per bit: {} lost, theory {expected:.4} +- {:.4}", lost / 3e4, deviation / 3e4);
        assert!((lost - 30_000.0 * expected).abs() < 4.0 * deviation, "{octets} B: {lost}, expected {expected} each");
    }
}

#[test]
fn bits_count_with_the_state_in_which_they_are_sent() {
    // 12 ms a frame: many straddle a change of state. A bad bit is hit with certainty, a good one never; so a
    // frame is lost exactly if at least one of its bits is sent in the bad state.
    let config =
        DirectionConfig { rate: mbit(1), loss: model(Ratio::ZERO, Ratio::ONE, PerUnit::Bit), ..Default::default() };
    let offers = steady(4_000, 1_500, us(0), Span::from_millis(12));
    let lost = drive(6, config, &offers, &[]).lost(Cause::Loss);
    let mut alone = process(6);
    let mut partly = 0;
    for n in 0..4_000u64 {
        let share = alone.share(us(n * 12_000), us((n + 1) * 12_000));
        let bits_bad = share.bad.as_nanos() * 12_000 / share.whole.as_nanos();
        assert_eq!(lost.binary_search(&n).is_ok(), bits_bad > 0, "frame {n}");
        partly += u32::from(bits_bad > 0 && bits_bad < 12_000);
    }
    assert!(partly > 100, "{partly} frames straddle a change");
}
