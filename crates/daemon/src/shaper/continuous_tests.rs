use super::*;
use Source::{Echoes, Stamps};
use wavelane_base::Rate;
use wavelane_measure::{Autorate, AutorateTerms, RISE_DEFAULT};

/// Answers that come so often.
struct Series {
    of: Continuous,
    now: Instant,
    every: Span,
}

impl Series {
    fn every(ms: u64) -> Self {
        Self { of: Continuous::default(), now: Instant::from_secs(1), every: Span::from_millis(ms) }
    }
    fn add(&mut self, source: Source, delay_ms: f64, round_ms: f64) -> f64 {
        self.now += self.every;
        self.of.add(self.now, source, delay_ms, round_ms)
    }
}

/// Both ways take 20 ms, the first of them `queue` more; their clock is ahead by `ahead`.
fn add(series: &mut Series, queue: f64, ahead: f64) -> f64 {
    series.add(Stamps, 20.0 + queue + ahead, 40.0 + queue)
}

#[test]
fn a_clock_that_is_set_is_no_delay_and_a_queue_is_one() {
    for step in [-86_000.0, -500.0, 70.0, 3_000.0] {
        let mut series = Series::every(50);
        let before = (0..100).map(|_| add(&mut series, 0.0, 250.0)).fold(0.0, f64::max);
        assert_eq!(before, 270.0);
        assert_eq!(add(&mut series, 80.0, 250.0), before + 80.0);
        // Set in the middle of a queue.
        assert!((add(&mut series, 90.0, 250.0 + step) - before - 90.0).abs() < 1e-6, "{step}");
        assert!((add(&mut series, 0.0, 250.0 + step) - before).abs() < 1e-6, "{step}");
        assert!(!series.of.is_odd());
    }
}

#[test]
fn a_step_within_a_round_trip_is_no_delay_and_a_queue_is_one() {
    let (now, rate) = (Instant::from_secs(1), Rate::from_bps);
    let [least, most] = [1, 9].map(|mbit| rate(mbit * 1_000_000));
    let terms = AutorateTerms { least, middle: most, most, rise: RISE_DEFAULT };
    for step in [-200.0, 45.0, 200.0, 550.0] {
        let mut both = (Series::every(50), Autorate::new(now, terms), now);
        let feed = |both: &mut (Series, Autorate, Instant), there: f64, back: f64, step: f64, times: u32| {
            let delays = (0..times).map(|_| both.0.add(Stamps, there + 7.0 + step, there + back));
            delays.fold(0.0, |_, delay| {
                both.2 += Span::from_millis(50);
                both.1.sample(both.2, both.2, delay, rate(8_000_000));
                delay
            })
        };
        let before = feed(&mut both, 300.0, 300.0, 0.0, 100);
        for (there, back, step, times, rise) in [
            (300.0, 300.0, step, 2, 0.0),
            (300.0, 300.0, 0.0, 10, 0.0),
            (300.0, 300.0, step, 40, 0.0),
            (300.0, 500.0, step, 10, 0.0),
            (500.0, 300.0, step, 10, 200.0),
        ] {
            assert_eq!((both.1.rate(), both.0.of.set), (terms.most, u32::from(back > 300.0 || there > 300.0)));
            let delay = feed(&mut both, there, back, step, times);
            assert!((delay - before - rise).abs() < 1e-6, "{step}: {delay}");
        }
        assert!(both.1.rate() < terms.most && both.0.of.set == 1, "a queue");
    }
}

#[test]
fn an_outage_is_no_time_in_which_a_clock_was_fine() {
    let mut series = Series::every(50);
    for ahead in [0.0, 1_000.0, 2_000.0] {
        (0..10).for_each(|_| _ = add(&mut series, 0.0, ahead));
    }
    series.now += Span::from_secs(120);
    for ahead in [2_000.0, 5_000.0] {
        (0..10).for_each(|_| _ = add(&mut series, 0.0, ahead));
    }
    assert!(series.of.is_odd());
}

#[test]
fn drift_is_no_step() {
    let mut series = Series::every(50);
    // 200 parts per million, at 20 answers a second.
    let delays: Vec<f64> = (0..40_000).map(|i| add(&mut series, 0.0, f64::from(i) * 0.01)).collect();
    assert!(series.of.set == 0 && delays.windows(2).all(|w| (w[1] - w[0] - 0.01).abs() < 1e-6));
}

#[test]
fn a_clock_that_stands_or_leaps_is_found_out() {
    let mut stands = Series::every(50);
    for i in 0..40 {
        stands.add(Stamps, -50.0 * f64::from(i), 40.0);
    }
    assert!(stands.of.is_odd());
    let mut leaps = Series::every(50);
    for i in 0..4 {
        add(&mut leaps, 0.0, f64::from(i * i) * 1e6);
    }
    assert!(leaps.of.is_odd());
    // Tried again, whatever it shows meanwhile.
    let before = leaps.add(Echoes, 40.0, 40.0);
    leaps.of.forgive();
    assert!(!leaps.of.is_odd() && (add(&mut leaps, 0.0, -7e6) - before).abs() < 1e-6);
    assert!((add(&mut leaps, 60.0, -7e6) - before - 60.0).abs() < 1e-6 && leaps.of.fine() == 2);
}

#[test]
fn round_trips_go_on_where_delays_ended() {
    let mut series = Series::every(50);
    let before = add(&mut series, 0.0, -3_000.0);
    assert!((series.add(Echoes, 40.0, 40.0) - before).abs() < 1e-6);
    assert!((series.add(Echoes, 140.0, 140.0) - before - 100.0).abs() < 1e-6);
    assert!((add(&mut series, 100.0, -3_000.0) - before - 100.0).abs() < 1e-6, "and back");
}

#[test]
fn a_queue_on_the_way_back_is_none_of_the_way_there() {
    for step in [0.0, 500.0, -500.0] {
        // The link returns with its download queue full, after which their clock may be another.
        let mut series = Series::every(50);
        (0..10).for_each(|_| assert_eq!(series.add(Stamps, 20.0, 40.0), 20.0));
        assert_eq!(series.add(Echoes, 340.0, 340.0), 320.0, "which way is not to be seen");
        let full = series.add(Stamps, 20.0 + step, 340.0);
        assert!(step != 0.0 || full == 20.0, "{full}");
        for _ in 0..3 {
            let delay = series.add(Stamps, 20.0 + step, 40.0);
            assert!((delay - 20.0).abs() < 1e-6, "{step}: {delay}");
        }
        assert!((series.add(Stamps, 100.0 + step, 120.0) - 100.0).abs() < 1e-6, "a queue on the way there is seen");
    }
}

#[test]
fn drift_during_an_outage_is_no_delay() {
    let mut series = Series::every(50);
    (0..10).for_each(|_| assert_eq!(series.add(Stamps, 20.0, 40.0), 20.0));
    series.add(Echoes, 40.0, 40.0);
    // A quarter of an hour at 33 parts per million.
    assert!((series.add(Stamps, 50.0, 40.0) - 20.0).abs() < 1e-6);
    assert!((series.add(Stamps, 110.0, 100.0) - 80.0).abs() < 1e-6, "a queue is seen");
    // Nor does the series move once the shift is settled.
    let after = (0..3_600).map(|_| series.add(Stamps, 50.0, 40.0)).fold(0.0, f64::max);
    assert!((after - 20.0).abs() < 1e-6 && series.of.settling == Span::ZERO);
}

#[test]
fn round_trips_after_a_queue_on_the_way_back_fall_no_lower_than_delays() {
    let mut series = Series::every(50);
    series.add(Stamps, 20.0, 40.0);
    assert_eq!(series.add(Stamps, 20.0, 340.0), 20.0);
    assert!((series.add(Echoes, 40.0, 40.0) - 20.0).abs() < 0.1);
}

#[test]
fn a_queue_on_the_way_back_before_the_first_timestamp_passes() {
    let mut series = Series::every(50);
    assert_eq!(series.add(Echoes, 40.0, 40.0), 40.0);
    assert_eq!(series.add(Echoes, 340.0, 340.0), 340.0);
    assert_eq!(series.add(Stamps, 7_020.0, 340.0), 340.0);
    assert_eq!(series.add(Stamps, 7_020.0, 40.0), 40.0);
    assert_eq!(series.add(Stamps, 7_080.0, 100.0), 100.0);
}

/// Every 10 ms, as a probe server is asked on a fast link.
#[test]
fn however_often_it_is_asked_clocks_drift_and_settle_by_time() {
    for ms in [10, 50, 200] {
        // 1000 parts per million is no drift of a clock that can be used.
        let mut fast = Series::every(ms);
        let step = |i: u64| (i * ms) as f64 / 1e3;
        let was_set = (0..300_000 / ms).fold(false, |was_set, i| {
            add(&mut fast, 0.0, step(i));
            was_set || fast.of.set > 0
        });
        assert!(was_set, "{ms}");
        // Three answers that a moment of both ways' traffic explains are no step of the clock, if they come within that moment.
        let mut series = Series::every(ms);
        (0..100).for_each(|_| {
            series.add(Stamps, 300.0, 600.0);
        });
        let before = series.add(Stamps, 300.0, 600.0);
        let odd = (0..3).map(|_| series.add(Stamps, 100.0, 600.0)).fold(0.0, f64::max);
        assert_eq!(series.of.set, u32::from(2 * ms >= 100), "{ms}");
        assert!((odd - before).abs() < 1e-6);
        // A minute after a change the shift has settled, and not before.
        let mut series = Series::every(ms);
        (0..10).for_each(|_| {
            series.add(Stamps, 20.0, 40.0);
        });
        series.add(Echoes, 40.0, 40.0);
        (0..55_000 / ms).for_each(|_| {
            series.add(Stamps, 20.0, 40.0);
        });
        assert!(series.of.settling > Span::ZERO, "{ms}");
        (0..10_000 / ms).for_each(|_| {
            series.add(Stamps, 20.0, 40.0);
        });
        assert_eq!(series.of.settling, Span::ZERO, "{ms}");
    }
}
