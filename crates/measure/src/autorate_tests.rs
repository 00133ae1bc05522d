//! The estimator's rules one by one, and on a fluid: a greedy sender behind the shaper, a link of moving rate with a deep
//! queue behind that. The study `latency` has the same with TCP and packets.

use super::*;
use std::collections::VecDeque;

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
        let at = Instant::from_millis(from_ms + i * 50);
        estimator.sample(at, at, delay_ms, carried);
    }
    estimator.rate().as_bps() as f64 / MBIT
}

#[test]
fn load_without_delay_grows_up_to_the_bound() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 5.0, 20.0));
    // The first one is the baseline; 50 ms later the rate has grown by a tenth, as twice a second does.
    let after_two = feed(&mut estimator, 0, 2, 20.0, 1.0);
    assert!((after_two - 5.0 * exponential(0.1)).abs() < 1e-3, "{after_two}");
    // ln(4) / 2 is 0.69 s.
    let grown = feed(&mut estimator, 100, 13, 20.0, 1.0);
    assert_eq!(grown, 20.0);
}

/// The same while the delay grows by 10 ms from one to the next.
fn fill(estimator: &mut Autorate, from_ms: u64, n: u64) -> f64 {
    for i in 0..n {
        feed(estimator, from_ms + i * 50, 1, 50.0 + 10.0 * i as f64, 1.0);
    }
    estimator.rate().as_bps() as f64 / MBIT
}

#[test]
fn a_queue_cuts_in_proportion_and_never_below_the_least() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(2.0, 10.0, 20.0));
    feed(&mut estimator, 0, 1, 20.0, 1.0);
    // The goal is 5 ms, a tenth of the 50 between samples and a packet's time; 0.014 for each millisecond of change.
    let by_level = |mbit_s: f64| exponential(-0.05 * GAIN * (30.0 / (10.0 + 12.0 / mbit_s) - 1.0));
    let cut = feed(&mut estimator, 50, 1, 50.0, 1.0);
    assert!((cut / (10.0 * by_level(10.0) * exponential(-0.42)) - 1.0).abs() < 0.02, "{cut}");
    // What does not change counts by its length alone, and without load of ours the change is not ours.
    let longer = feed(&mut estimator, 100, 1, 50.0, 1.0);
    assert!((longer / cut / by_level(cut) - 1.0).abs() < 0.02, "{longer}");
    let idle = feed(&mut estimator, 150, 1, 60.0, 0.0);
    assert!(idle > longer * exponential(-0.05 * FALL) - 1e-6, "{idle}");
    assert_eq!(fill(&mut estimator, 200, 200), 2.0);
}

#[test]
fn a_delay_that_goes_to_and_fro_is_no_queue() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 5.0, 10.0));
    // 0 to 30 ms above 20, evenly, without order.
    for i in 0..2_400 {
        feed(&mut estimator, i * 50, 1, 20.0 + (i * 7_919 % 31) as f64, 1.0);
        assert!(i < 100 || estimator.rate() > mbit(8.0), "{i}: {:?}", estimator.rate());
    }
}

#[test]
fn an_answer_that_came_late_or_twice_says_nothing_of_the_change() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 10.0, 20.0));
    feed(&mut estimator, 0, 2, 32.0, 1.0);
    let before = estimator.rate();
    let now = Instant::from_secs(9);
    for asked in [Instant::from_millis(50), Instant::ZERO] {
        assert_eq!(estimator.sample(now, asked, 500.0, before), before, "{asked:?}");
    }
}

#[test]
fn questions_take_a_hundredth_of_the_rate() {
    let every = |mbit_s: f64| Autorate::new(Instant::ZERO, terms(mbit_s, mbit_s, mbit_s)).ask_every(100);
    assert_eq!([0.1, 4.0, 100.0].map(every), [RARELY, Span::from_millis(20), OFTEN]);
}

#[test]
fn idle_it_returns_to_the_middle_from_both_sides() {
    for (begin_ms, delay) in [(50, 20.0), (50, 200.0)] {
        let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 10.0, 20.0));
        feed(&mut estimator, 0, 1, 20.0, 0.0);
        let moved = match delay {
            20.0 => feed(&mut estimator, begin_ms, 100, delay, 1.0),
            _ => fill(&mut estimator, begin_ms, 100),
        };
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
        let at = Instant::from_millis(i * 50);
        estimator.sample(at, at, delay, mbit(10.0));
    }
    assert_eq!(estimator.rate(), mbit(10.0));
}

#[test]
fn a_path_that_became_longer_is_learned_as_the_baseline() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 10.0, 10.0));
    feed(&mut estimator, 0, 20, 20.0, 1.0);
    // A longer way, by 40 ms: cut at first, and grown again once the delay has stood for a second.
    assert!(feed(&mut estimator, 1_000, 10, 60.0, 1.0) < 5.0);
    assert_eq!(feed(&mut estimator, 1_500, 50, 60.0, 1.0), 10.0);
    // A shorter one is known at once.
    assert_eq!(feed(&mut estimator, 4_000, 100, 15.0, 1.0), 10.0);
}

#[test]
fn without_an_answer_the_middle_holds_and_nonsense_is_ignored() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 10.0, 20.0));
    feed(&mut estimator, 0, 100, 20.0, 1.0);
    assert_eq!(estimator.silent(Instant::from_millis(6_000)), mbit(20.0));
    assert_eq!(estimator.silent(Instant::from_millis(10_100)), mbit(10.0));
    for nonsense in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let at = Instant::from_secs(11);
        assert_eq!(estimator.sample(at, at, nonsense, mbit(10.0)), mbit(10.0));
    }
    let upside_down = Autorate::new(Instant::ZERO, terms(5.0, 1.0, 2.0));
    assert_eq!(upside_down.rate(), mbit(5.0));
}

#[test]
fn answers_far_apart_steer_by_the_level() {
    for gap_ms in [201, 250, 1_000] {
        let mut estimator = Autorate::new(Instant::ZERO, terms(1.0, 10.0, 20.0));
        let mut apart = |from: u64, to: u64, delay: fn(u64) -> f64| {
            for i in from..to {
                feed(&mut estimator, i * gap_ms, 1, delay(i), 1.0);
            }
            estimator.rate()
        };
        assert_eq!(apart(0, 20, |_| 20.0), mbit(20.0), "{gap_ms}");
        assert_eq!(apart(20, 40, |i| 20.0 * i as f64), mbit(1.0), "{gap_ms}");
    }
}

#[test]
fn a_full_queue_is_not_taken_for_the_path() {
    // The least is 2 Mbit/s, and the link 1: it loses half of all.
    let mut estimator = Autorate::new(Instant::ZERO, terms(2.0, 10.0, 40.0));
    feed(&mut estimator, 0, 40, 20.0, 1.0);
    let mut dice = 1u64;
    for i in 0..400 {
        let rate = estimator.rate().as_bps() as f64 / MBIT;
        dice = dice * 48_271 % 2_147_483_647;
        if (dice as f64) < 2_147_483_647.0 / rate {
            feed(&mut estimator, 2_000 + i * 50, 1, (20.0 + 100.0 * i as f64).min(1_020.0), 1.0);
        }
        assert!(i < 200 || rate <= 2.0, "{i}: {rate}");
    }
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
fn fluid(link: fn(usize) -> f64, path: fn(usize) -> f64, fixed: Option<f64>) -> (f64, f64) {
    fluid_and_back(link, path, 2, fixed)
}

/// The same where the way back takes so many hundredths of a second.
fn fluid_and_back(link: fn(usize) -> f64, path: fn(usize) -> f64, back: usize, fixed: Option<f64>) -> (f64, f64) {
    const BUFFER_MBIT: f64 = 12.0;
    const TICK_S: f64 = 0.01;
    let mut estimator = Autorate::new(Instant::ZERO, terms(2.0, 10.0, 40.0));
    let (mut queue, mut carried, mut shaped) = (0.0_f64, 0.0, fixed.unwrap_or(10.0));
    let (mut delays, mut under_way) = (Vec::new(), VecDeque::new());
    for tick in 0..12_000usize {
        let rate = link(tick / 10);
        queue = (queue + shaped * TICK_S).min(BUFFER_MBIT);
        let sent = queue.min(rate * TICK_S);
        queue -= sent;
        carried += sent;
        if tick % 5 == 0 {
            let delay = path(tick / 10) + queue / rate * 1e3;
            delays.push(delay);
            // It is known when the probe's answer is here.
            under_way.push_back((tick + (delay / 10.0) as usize + back, tick, delay));
        }
        while under_way.front().is_some_and(|(at, ..)| *at <= tick) {
            let (_, asked, delay) = under_way.pop_front().expect("there");
            let [now, asked] = [tick, asked].map(|tick| Instant::from_millis(tick as u64 * 10));
            let new = estimator.sample(now, asked, delay, mbit(shaped));
            shaped = fixed.unwrap_or(new.as_bps() as f64 / MBIT);
        }
    }
    delays.sort_by(f64::total_cmp);
    (carried / 120.0, delays[delays.len() * 95 / 100])
}

#[test]
fn no_fixed_rate_has_both_more_goodput_and_less_delay() {
    for link in [swinging as fn(usize) -> f64, stepping] {
        let (goodput, p95) = fluid(link, |_| 20.0, None);
        let mean = (0..1_200).map(link).sum::<f64>() / 1_200.0;
        assert!(goodput > 0.85 * mean && p95 < 100.0, "{goodput} of {mean} Mbit/s, {p95} ms");
        for tenth in 10..=300 {
            let fixed = f64::from(tenth) / 10.0;
            let (more, less) = fluid(link, |_| 20.0, Some(fixed));
            assert!(more <= goodput || less >= p95, "{fixed}: {more} {less} against {goodput} {p95}");
        }
    }
}

/// Steps of the path of 15 to 60 ms up and down, every 15 s.
#[test]
fn a_path_that_steps_costs_seconds() {
    const STEPS: [f64; 8] = [0.0, 15.0, 0.0, 25.0, 0.0, 40.0, 0.0, 60.0];
    let stepped = |tenth: usize| 20.0 + STEPS[tenth / 150 % STEPS.len()];
    let (steady, p95) = fluid(|_| 20.0, |_| 20.0, None);
    let (goodput, _) = fluid(|_| 20.0, stepped, None);
    assert!(p95 < 50.0 && goodput > 0.88 * steady, "{goodput} of {steady}, {p95} ms");
}

#[test]
fn a_long_round_trip_makes_no_swings() {
    let (near, _) = fluid(|_| 20.0, |_| 20.0, None);
    for (path, back) in [(|_| 50.0) as fn(usize) -> f64, |_| 100.0, |_| 150.0].into_iter().zip([5, 10, 15]) {
        let (goodput, p95) = fluid_and_back(|_| 20.0, path, back, None);
        assert!(goodput > 0.7 * near && p95 < 19.0 * back as f64, "{back}: {goodput} of {near}, {p95} ms");
    }
}

#[test]
fn the_cause_of_a_change_is_known() {
    let mut estimator = Autorate::new(Instant::ZERO, terms(2.0, 10.0, 40.0));
    let mut tick = 0;
    let mut cause = |delay_ms: Option<f64>, carried: f64, for_ms: u64| {
        let until = tick + for_ms;
        while tick < until {
            tick += 50;
            let now = Instant::from_millis(tick);
            match delay_ms {
                Some(delay) => estimator.sample(now, Instant::from_millis(tick - 20), delay, mbit(carried)),
                None => estimator.silent(now),
            };
        }
        estimator.cause()
    };
    assert_eq!(cause(Some(20.0), 40.0, 500), (AutorateCause::Room, 0.0));
    let (why, rise_ms) = cause(Some(120.0), 40.0, 500);
    assert!(why == AutorateCause::Queue && rise_ms > 50.0, "{why:?} {rise_ms}");
    assert_eq!(cause(Some(20.0), 0.0, 5_000).0, AutorateCause::Idle);
    assert_eq!(cause(None, 0.0, 6_000).0, AutorateCause::Silence);
}
