//! Delays by another machine's clock as one series, whatever that clock does.
//!
//! A delay by two clocks is off by a constant, their difference, and only changes of the delay matter here. If the other clock is
//! set, or round trips replace the delays, that constant changes without any queue. Each answer bounds how far that clock can be
//! ahead: by the delay that it shows, and by that less the round trip. Bounds that exclude each other show that the clock was set
//! in between; then the series goes on as the round trip does. A step within a round trip is known by that round trip: a queue on
//! the way there lengthens it as much, above the least that was seen, unless both ways never were empty at once. So a few answers
//! in a row have to say so.
//!
//! Each source has a shift of its own, which is kept while the other one is in use: a queue on the return path belongs to round
//! trips alone. Round trips stand for delays as if the return path were empty. A shift that is taken from a round trip, or that is
//! older than an outage, falls as soon as an answer shows it to be too high: part of that round trip was a queue on the return path,
//! or clocks drifted meanwhile.

use wavelane_base::{Instant, Span};

/// What a delay was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The reflector's timestamps.
    Stamps,
    /// The round trip alone.
    Echoes,
}

/// Stamps are whole milliseconds, and both ends round.
const SLACK_MS: f64 = 3.0;
/// The most that clocks may drift in a second: 400 parts per million.
const DRIFT_MS: f64 = 0.4;
/// What the ways there and back may trade within the least round trip, as by a radio's frames: no more than counts as a queue.
const TRADED_MS: f64 = 30.0;
/// This many answers in a row that a queue does not explain, over at least this time, are a clock that was set; fewer go by their round
/// trips and change nothing.
const DOUBTED_MAX: u32 = 3;
const DOUBTED_FOR: Span = Span::from_millis(100);
/// A clock that was set this often is unusable, ...
const SET_MAX: u32 = 3;
/// ... unless it was fine for so long.
const FINE_AFTER: Span = Span::from_secs(60);

/// The most that the time before an answer counts as fine or settled: while none comes nothing is known.
const QUIET_MAX: Span = Span::from_secs(1);

/// Timestamps' shift may fall for so long after a change: by then the return path was empty once.
const SETTLING: Span = Span::from_secs(60);

/// An answer's round trip, and the value of the series.
#[derive(Clone, Copy, Debug)]
struct Seen {
    source: Source,
    series_ms: f64,
    round_ms: f64,
}

/// The series.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Continuous {
    last: Option<Seen>,
    /// When the last answer came, and how long before that the one before.
    at: Option<Instant>,
    since: Span,
    /// What is added to delays by timestamps; none before the first.
    stamps_ms: Option<f64>,
    /// What is added to round trips: the most by which the series exceeded a round trip, that is with an empty return path.
    echoes_ms: Option<f64>,
    /// For so long `stamps_ms` may fall yet, and bounds nothing.
    settling: Span,
    /// Bounds of how far the other clock is ahead, by all answers since it was set.
    ahead_ms: Option<(f64, f64)>,
    /// The least round trip of a timestamp.
    least_ms: Option<f64>,
    /// Answers in a row that no queue explains, and when the first came.
    doubted: u32,
    doubted_at: Option<Instant>,
    /// How often it was set lately, and how many answers were fine since, over how long.
    set: u32,
    fine: u32,
    fine_for: Span,
}

impl Continuous {
    /// Takes an answer that comes `now` and returns its delay, which differs from the one before by the change of the path's delay.
    pub(super) fn add(&mut self, now: Instant, source: Source, delay_ms: f64, round_ms: f64) -> f64 {
        self.since = self.at.replace(now).map_or(Span::ZERO, |before| now.since(before));
        let series_ms = match source {
            Source::Echoes => round_ms + *self.echoes_ms.get_or_insert(0.0),
            Source::Stamps => delay_ms + self.shift_of_stamps(delay_ms, round_ms),
        };
        if source == Source::Echoes || self.doubted == 0 {
            self.last = Some(Seen { source, series_ms, round_ms });
        }
        series_ms
    }

    /// What is added to an answer's delay by timestamps.
    fn shift_of_stamps(&mut self, delay_ms: f64, round_ms: f64) -> f64 {
        let was_set = self.was_set(delay_ms, round_ms);
        if let Some(last) = self.last.filter(|_| self.doubted > 0) {
            return last.series_ms + (round_ms - last.round_ms) - delay_ms;
        }
        self.settling = match self.last {
            Some(last) if last.source == Source::Echoes => SETTLING,
            _ => self.settling.saturating_sub(self.since.min(QUIET_MAX)),
        };
        let shift_ms = match (self.stamps_ms.filter(|_| !was_set), self.last) {
            (Some(kept), _) => kept,
            (None, None) => 0.0,
            (None, Some(last)) => {
                self.settling = SETTLING;
                last.series_ms + (round_ms - last.round_ms) - delay_ms
            }
        };
        let over_ms = delay_ms - round_ms;
        let shift_ms = match self.echoes_ms {
            Some(most) if self.settling > Span::ZERO => shift_ms.min(most - over_ms),
            known => {
                let most = known.map_or(f64::NEG_INFINITY, |known| known - self.drift_ms());
                self.echoes_ms = Some(most.max(over_ms + shift_ms));
                shift_ms
            }
        };
        self.stamps_ms = Some(shift_ms);
        shift_ms
    }

    /// What clocks may have drifted since the answer before.
    fn drift_ms(&self) -> f64 {
        DRIFT_MS * self.since.as_secs_f64()
    }

    /// Whether the other clock was set before this answer.
    fn was_set(&mut self, delay_ms: f64, round_ms: f64) -> bool {
        let own = (delay_ms - round_ms - SLACK_MS, delay_ms + SLACK_MS);
        let known = self.ahead_ms.map_or(own, |known| (known.0.max(own.0), known.1.min(own.1)));
        let least_ms = self.least_ms.map_or(round_ms, |least| least.min(round_ms));
        self.least_ms = Some(least_ms);
        let doubts = known.0 + least_ms > known.1 + TRADED_MS;
        self.doubted = if doubts { self.doubted.saturating_add(1) } else { 0 };
        self.doubted_at = self.doubted_at.filter(|_| doubts).or(self.at.filter(|_| doubts));
        let for_long = self.at.zip(self.doubted_at).is_some_and(|(now, first)| now.since(first) >= DOUBTED_FOR);
        let was_set = known.0 > known.1 || self.doubted >= DOUBTED_MAX && for_long;
        if doubts && !was_set {
            return false;
        }
        self.doubted = 0;
        self.doubted_at = None;
        let drift_ms = self.drift_ms();
        self.ahead_ms = Some(if was_set { own } else { (known.0 - drift_ms, known.1 + drift_ms) });
        (self.fine, self.fine_for) = if was_set {
            (0, Span::ZERO)
        } else {
            (self.fine.saturating_add(1), self.fine_for + self.since.min(QUIET_MAX))
        };
        self.set = if self.fine_for >= FINE_AFTER { 0 } else { self.set + u32::from(was_set) };
        was_set
    }

    /// Whether the other clock is set too often to be usable.
    pub(super) fn is_odd(&self) -> bool {
        self.set >= SET_MAX
    }

    /// The other clock is tried again: it may be anything, and the series goes on as the round trip does.
    pub(super) fn forgive(&mut self) {
        self.set = 0;
        self.fine = 0;
        self.fine_for = Span::ZERO;
        self.ahead_ms = None;
        self.stamps_ms = None;
    }

    /// How many answers by the other clock came since it was last set or tried.
    pub(super) fn fine(&self) -> u32 {
        self.fine
    }
}

#[cfg(test)]
mod tests {
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
}
