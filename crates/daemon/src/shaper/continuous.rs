//! Delays by another machine's clock as one series, whatever that clock does.
//!
//! A delay by two clocks is right but for a constant, their difference, and whoever follows delays looks at differences alone. If
//! the other clock is set, or round trips take the delays' place, that constant changes, which is no queue. What a clock can be
//! ahead is bounded by each answer: the delay that it shows, and that less the round trip. Bounds that exclude each other are of
//! a clock that was set in between; then the series goes on as the round trip does.

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
/// So much clocks may drift from one answer to the next, some 20 a second.
const DRIFT_MS: f64 = 0.02;
/// A clock that was set so often is none, ...
const SET_MAX: u32 = 3;
/// ... unless so many answers in a row were fine.
const FINE_AFTER: u32 = 1_200;

/// An answer's delay and round trip.
#[derive(Clone, Copy, Debug)]
struct Seen {
    source: Source,
    delay_ms: f64,
    round_ms: f64,
}

/// The series.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Continuous {
    last: Option<Seen>,
    /// What is added to delays of the source in use.
    shift_ms: f64,
    /// The other clock is ahead by something between these, by all answers since it was set.
    ahead_ms: Option<(f64, f64)>,
    /// How often it was set lately, and how many answers were fine since.
    set: u32,
    fine: u32,
}

impl Continuous {
    /// Takes an answer and gives its delay, which differs from the one before by what the path's delay did.
    pub(super) fn add(&mut self, source: Source, delay_ms: f64, round_ms: f64) -> f64 {
        let was_set = source == Source::Stamps && self.was_set(delay_ms, round_ms);
        if let Some(last) = self.last.filter(|last| was_set || last.source != source) {
            self.shift_ms += last.delay_ms + (round_ms - last.round_ms) - delay_ms;
        }
        self.last = Some(Seen { source, delay_ms, round_ms });
        delay_ms + self.shift_ms
    }

    /// Whether the other clock was set before this answer.
    fn was_set(&mut self, delay_ms: f64, round_ms: f64) -> bool {
        let own = (delay_ms - round_ms - SLACK_MS, delay_ms + SLACK_MS);
        let known = self.ahead_ms.map_or(own, |known| (known.0.max(own.0), known.1.min(own.1)));
        let was_set = known.0 > known.1;
        self.ahead_ms = Some(if was_set { own } else { (known.0 - DRIFT_MS, known.1 + DRIFT_MS) });
        self.fine = if was_set { 0 } else { self.fine.saturating_add(1) };
        self.set = if self.fine >= FINE_AFTER { 0 } else { self.set + u32::from(was_set) };
        was_set
    }

    /// Whether that clock is set too often to be one.
    pub(super) fn is_odd(&self) -> bool {
        self.set >= SET_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Source::{Echoes, Stamps};

    /// Both ways take 20 ms, the first of them `queue` more; their clock is ahead by `ahead`.
    fn add(series: &mut Continuous, queue: f64, ahead: f64) -> f64 {
        series.add(Stamps, 20.0 + queue + ahead, 40.0 + queue)
    }

    #[test]
    fn a_clock_that_is_set_is_no_delay_and_a_queue_is_one() {
        for step in [-86_000.0, -500.0, 70.0, 3_000.0] {
            let mut series = Continuous::default();
            let before = (0..100).map(|_| add(&mut series, 0.0, 250.0)).fold(0.0, f64::max);
            assert_eq!(before, 270.0);
            assert_eq!(add(&mut series, 80.0, 250.0), before + 80.0);
            // Set in the middle of a queue.
            assert!((add(&mut series, 90.0, 250.0 + step) - before - 90.0).abs() < 1e-6, "{step}");
            assert!((add(&mut series, 0.0, 250.0 + step) - before).abs() < 1e-6, "{step}");
            assert!(!series.is_odd());
        }
    }

    #[test]
    fn drift_is_no_step() {
        let mut series = Continuous::default();
        // 200 parts per million, at 20 answers a second.
        let delays: Vec<f64> = (0..40_000).map(|i| add(&mut series, 0.0, f64::from(i) * 0.01)).collect();
        assert!(series.set == 0 && delays.windows(2).all(|w| (w[1] - w[0] - 0.01).abs() < 1e-6));
    }

    #[test]
    fn a_clock_that_stands_or_leaps_is_found_out() {
        let mut stands = Continuous::default();
        for i in 0..40 {
            stands.add(Stamps, -50.0 * f64::from(i), 40.0);
        }
        assert!(stands.is_odd());
        let mut leaps = Continuous::default();
        for i in 0..4 {
            add(&mut leaps, 0.0, f64::from(i * i) * 1e6);
        }
        assert!(leaps.is_odd());
    }

    #[test]
    fn round_trips_go_on_where_delays_ended() {
        let mut series = Continuous::default();
        let before = add(&mut series, 0.0, -3_000.0);
        assert!((series.add(Echoes, 40.0, 40.0) - before).abs() < 1e-6);
        assert!((series.add(Echoes, 140.0, 140.0) - before - 100.0).abs() < 1e-6);
        assert!((add(&mut series, 100.0, -3_000.0) - before - 100.0).abs() < 1e-6, "and back");
    }
}
