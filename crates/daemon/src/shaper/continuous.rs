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
#[path = "continuous_tests.rs"]
mod tests;
