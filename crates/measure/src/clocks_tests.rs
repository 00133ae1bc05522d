#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use wavelane_base::Seed;

/// What the truth is: a clock that is ahead and drifts, and what each way takes at a time, in milliseconds.
struct Truth {
    ahead_ns: i128,
    drift_ppm: i128,
    up_ms: fn(f64) -> f64,
    down_ms: fn(f64) -> f64,
    seconds: u32,
}

/// Exchanges every 10 ms with jitter below 0.2 ms, and the true delays.
fn exchanges(truth: &Truth) -> Vec<(Exchange, f64, f64)> {
    let mut chance = Seed(18).chance("jitter");
    let start = 5_000_000_000u64;
    let theirs = |ours: u64| {
        let passed = i128::from(ours - start);
        u64::try_from(i128::from(ours) + truth.ahead_ns + passed * truth.drift_ppm / 1_000_000).unwrap()
    };
    (0..u64::from(truth.seconds) * 100)
        .map(|i| {
            let mut jitter = || (chance.below(200_000)) as f64 / 1e6;
            let sent = start + i * 10_000_000;
            let s = (i as f64) / 100.0;
            let (up, down) = ((truth.up_ms)(s) + jitter(), (truth.down_ms)(s) + jitter());
            let there = sent + (up * 1e6) as u64;
            let (received, answered) = (theirs(there), theirs(there + 40_000));
            let back = there + 40_000 + (down * 1e6) as u64;
            (Exchange { sent, received, answered, back }, up, down)
        })
        .collect()
}

fn worst(truth: &Truth) -> f64 {
    let known = exchanges(truth);
    let all: Vec<Exchange> = known.iter().map(|k| k.0).collect();
    let line = ClockLine::fit(&all).unwrap();
    known.iter().map(|(e, up, down)| (line.up_ms(e) - up).abs().max((line.down_ms(e) - down).abs())).fold(0.0, f64::max)
}

#[test]
fn offset_and_drift_go_and_a_queue_in_one_direction_stays() {
    let loaded: fn(f64) -> f64 = |s| if (5.0..15.0).contains(&s) { 10.0 + 30.0 * (s - 5.0) } else { 10.0 };
    let plain: fn(f64) -> f64 = |_| 10.0;
    for (ahead_ns, drift_ppm) in [(0, 0), (7_000_000_000_000, 100), (-3_000_000_000, -100), (1, 20)] {
        for (up_ms, down_ms) in [(loaded, plain), (plain, loaded), (loaded, loaded)] {
            let truth = Truth { ahead_ns, drift_ppm, up_ms, down_ms, seconds: 20 };
            let error = worst(&truth);
            assert!(error < 0.2, "{ahead_ns} ns, {drift_ppm} ppm: {error} ms");
        }
    }
}

#[test]
fn the_drift_is_found_to_a_few_parts_per_million() {
    let plain: fn(f64) -> f64 = |_| 25.0;
    let known = exchanges(&Truth { ahead_ns: 99, drift_ppm: 60, up_ms: plain, down_ms: plain, seconds: 60 });
    let all: Vec<Exchange> = known.iter().map(|k| k.0).collect();
    let drift = ClockLine::fit(&all).unwrap().drift() * 1e6;
    assert!((drift - 60.0).abs() < 3.0, "{drift} ppm");
}

#[test]
fn extreme_values_neither_overflow_nor_count() {
    assert_eq!(ClockLine::fit(&[]), None);
    let end = u64::MAX;
    let odd = [
        Exchange { sent: 0, received: end, answered: end, back: 1_000 },
        Exchange { sent: end - 10, received: 0, answered: 0, back: end },
        // Back before it was sent, and away for longer than the round trip: nobody's probe.
        Exchange { sent: 9, received: 1, answered: 2, back: 3 },
        Exchange { sent: 9, received: 1, answered: end, back: 30 },
    ];
    let line = ClockLine::fit(&odd).unwrap();
    for e in odd {
        assert!(line.up_ms(&e).is_finite() && line.down_ms(&e).is_finite());
    }
    assert_eq!(ClockLine::fit(&odd[2..]), None);
}
