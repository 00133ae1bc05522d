//! The estimator's rules one by one, and on a fluid: a greedy sender behind the shaper, a link of moving rate with a deep
//! queue behind that. The study `latency` has the same with TCP and packets.

use super::*;

const MBIT: f64 = 1e6;

fn mbit(rate: f64) -> Rate {
    Rate::from_bps((rate * MBIT) as u64)
}

fn terms(least: f64, middle: f64, most: f64) -> AutorateTerms {
    AutorateTerms { least: mbit(least), middle: mbit(middle), most: mbit(most), rise: RISE_DEFAULT }
}

/// Feeds `n` samples of `delay_ms`, 50 ms apart, at `share` of the rate carried.
fn feed(estimator: &mut Autorate, from_ms: u64, n: u64, delay_ms: f64, share: f64) -> f64 {
    for i in 0..n {
        let carried = estimator.rate().scale((share * 1000.0) as u64, 1000);
        estimator.sample(Instant::from_millis(from_ms + i * 50), delay_ms, carried);
    }
    estimator.rate().as_bps() as f64 / MBIT
}

#[test]
fn load_without_delay_grows_up_to_the_bound() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 5.0, 20.0));
    let after_one = feed(&mut estimator, 0, 1, 20.0, 1.0);
    assert!((after_one - 5.2).abs() < 1e-3, "{after_one}");
    // 1.04^36 is 4.1: from 5 to 20 Mbit/s within 1.8 s.
    let grown = feed(&mut estimator, 50, 36, 20.0, 1.0);
    assert_eq!(grown, 20.0);
}

#[test]
fn a_queue_cuts_once_per_pause_and_never_below_the_least() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(2.0, 10.0, 20.0));
    feed(&mut estimator, 0, 1, 20.0, 0.0);
    // Two samples above the threshold are chance; the third is a queue.
    assert_eq!(feed(&mut estimator, 50, 2, 120.0, 0.0), 10.0);
    let cut = feed(&mut estimator, 150, 1, 120.0, 1.0);
    // The four rises are 0 and thrice 100 ms, so 75 on average: three quarters of the way from 0.99 to 0.75.
    assert!((cut - 8.1).abs() < 0.01, "{cut}");
    // What was under way changes nothing.
    assert_eq!(feed(&mut estimator, 200, 5, 120.0, 1.0), cut);
    assert_eq!(feed(&mut estimator, 450, 200, 120.0, 1.0), 2.0);
}

#[test]
fn a_cut_goes_below_the_carried_rate() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 10.0, 20.0));
    feed(&mut estimator, 0, 1, 20.0, 0.0);
    // Just above the threshold, nine tenths carried: nine tenths of these.
    let before = feed(&mut estimator, 50, 2, 51.0, 0.9);
    let cut = feed(&mut estimator, 150, 1, 51.0, 0.9);
    assert!((cut - 0.81 * before).abs() < 0.02, "{cut} of {before}");
}

#[test]
fn idle_it_returns_to_the_middle_from_both_sides() {
    for (begin_ms, delay) in [(50, 20.0), (50, 200.0)] {
        let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 10.0, 20.0));
        feed(&mut estimator, 0, 1, 20.0, 0.0);
        let moved = feed(&mut estimator, begin_ms, 100, delay, 1.0);
        assert!(moved == 20.0 || moved == 1.0, "{moved}");
        // One per cent a second: ln(2) and ln(10) of them.
        let back = feed(&mut estimator, 6_000, 20 * 240, 20.0, 0.0);
        assert_eq!(back, 10.0);
    }
}

#[test]
fn a_clock_that_is_off_and_drifts_is_no_queue() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 10.0, 10.0));
    // An offset of minus an hour, and a millisecond more per minute, for ten minutes of load.
    for i in 0..12_000u64 {
        let delay = -3_600_000.0 + i as f64 / 1_200.0;
        estimator.sample(Instant::from_millis(i * 50), delay, mbit(10.0));
    }
    assert_eq!(estimator.rate(), mbit(10.0));
}

#[test]
fn a_path_that_became_longer_is_learned_as_the_baseline() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 10.0, 10.0));
    feed(&mut estimator, 0, 20, 20.0, 1.0);
    // A longer way, by 40 ms: cut at first, and after two minutes at the most grown again.
    assert_eq!(feed(&mut estimator, 1_000, 200, 60.0, 1.0), 1.0);
    assert_eq!(feed(&mut estimator, 11_000, 2_400, 60.0, 1.0), 10.0);
}

#[test]
fn without_an_answer_the_middle_holds_and_nonsense_is_ignored() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 10.0, 20.0));
    feed(&mut estimator, 0, 100, 20.0, 1.0);
    assert_eq!(estimator.silent(Instant::from_millis(6_000)), mbit(20.0));
    assert_eq!(estimator.silent(Instant::from_millis(10_100)), mbit(10.0));
    for nonsense in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(estimator.sample(Instant::from_secs(11), nonsense, mbit(10.0)), mbit(10.0));
    }
    let upside_down = Autorate::new(Instant::ZERO, terms(5.0, 1.0, 2.0));
    assert_eq!(upside_down.rate(), mbit(5.0));
}

/// Mbit/s at a tenth of a second of a link that swings within seconds, as LTE in a moving car does.
fn swinging(tenth: usize) -> f64 {
    let t = tenth as f64 / 10.0;
    // A parabola's arches in place of sines: -1 to 1 and back, smoothly, with the given period.
    let wave = |period: f64| {
        let phase = (t / period).fract() * 2.0;
        let x = phase.fract();
        (4.0 * x * (1.0 - x)) * if phase < 1.0 { 1.0 } else { -1.0 }
    };
    11.0 + 6.0 * wave(17.0) + 3.0 * wave(5.3) + 1.0 * wave(1.9)
}

/// The same of one that is assigned anew every 15 s, as Starlink's is.
fn stepping(tenth: usize) -> f64 {
    const LEVELS: [f64; 8] = [12.0, 20.0, 7.0, 15.0, 24.0, 9.0, 18.0, 5.0];
    LEVELS[tenth / 150 % LEVELS.len()]
}

/// Goodput in Mbit/s and 95th percentile of the delay in ms under a greedy sender, two minutes. `fixed` is the shaper's
/// rate; without it the estimator sets it.
fn fluid(link: fn(usize) -> f64, fixed: Option<f64>) -> (f64, f64) {
    const BUFFER_MBIT: f64 = 12.0;
    const TICK_S: f64 = 0.01;
    let mut estimator = Autorate::new(Instant::ZERO, terms(2.0, 10.0, 40.0));
    let (mut queue, mut carried, mut shaped) = (0.0_f64, 0.0, fixed.unwrap_or(10.0));
    let (mut delays, mut under_way) = (Vec::new(), VecDeque::new());
    for tick in 0..12_000usize {
        let rate = link(tick / 10);
        queue = (queue + shaped * TICK_S).min(BUFFER_MBIT);
        let sent = queue.min(rate * TICK_S);
        (queue, carried) = (queue - sent, carried + sent);
        if tick % 5 == 0 {
            let delay = 20.0 + queue / rate * 1e3;
            delays.push(delay);
            // It is known when the probe's answer is here.
            under_way.push_back((tick + (delay / 10.0) as usize + 2, delay));
        }
        while under_way.front().is_some_and(|(at, _)| *at <= tick) {
            let (_, delay) = under_way.pop_front().expect("there");
            let new = estimator.sample(Instant::from_millis(tick as u64 * 10), delay, mbit(shaped));
            shaped = fixed.unwrap_or(new.as_bps() as f64 / MBIT);
        }
    }
    delays.sort_by(f64::total_cmp);
    (carried / 120.0, delays[delays.len() * 95 / 100])
}

#[test]
fn no_fixed_rate_has_both_more_goodput_and_less_delay() {
    for link in [swinging as fn(usize) -> f64, stepping] {
        let (goodput, p95) = fluid(link, None);
        let mean = (0..1_200).map(link).sum::<f64>() / 1_200.0;
        assert!(goodput > 0.6 * mean, "{goodput} of {mean} Mbit/s, {p95} ms");
        for tenth in 10..=300 {
            let fixed = f64::from(tenth) / 10.0;
            let (more, less) = fluid(link, Some(fixed));
            assert!(more <= goodput || less >= p95, "{fixed}: {more} {less} against {goodput} {p95}");
        }
    }
}
