//! Gilbert-Elliott with continuous dwell times, as one process independent of the traffic.

use wavelane_base::{Chance, Instant, Span};

/// The alternation of a good and a bad state in time: exponential dwell times, beginning with good.
///
/// Gilbert's chain (Bell System Technical Journal 39, 1960) in continuous time. How far it has been run does not change its
/// outcome, so any traffic with the same seed sees the same bursts.
#[derive(Clone, Debug)]
pub struct GilbertElliott {
    good: Span,
    bad: Span,
    dice: Chance,
    in_bad: bool,
    /// When the current state ends.
    until: Instant,
    /// How far the process has been run; queries must not go back before it.
    at: Instant,
}

/// The time of an interval in each state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Time in the bad state.
    pub bad: Span,
    /// Length of the interval.
    pub whole: Span,
    /// Whether the interval ends in the bad state.
    pub ends_bad: bool,
}

impl GilbertElliott {
    /// A process that starts in the good state at `start`.
    pub fn new(good: Span, bad: Span, mut dice: Chance, start: Instant) -> Self {
        let until = start + dice.exponential(good);
        Self { good, bad, dice, in_bad: false, until, at: start }
    }

    /// Divides the interval from `from` to `to` between the states and drops the history before `to`.
    ///
    /// Queries must be in time order; any part before the previous query's end, or before the start of the process, is
    /// excluded.
    pub fn share(&mut self, from: Instant, to: Instant) -> Share {
        let from = from.max(self.at);
        let to = to.max(from);
        self.at = to;
        while self.until <= from {
            self.flip();
        }
        let (mut bad, mut mark) = (Span::ZERO, from);
        while self.until <= to {
            if self.in_bad {
                bad += self.until.since(mark);
            }
            mark = self.until;
            self.flip();
        }
        if self.in_bad {
            bad += to.since(mark);
        }
        Share { bad, whole: to.since(from), ends_bad: self.in_bad }
    }

    /// The mean dwell times, good and bad.
    pub fn means(&self) -> (Span, Span) {
        (self.good, self.bad)
    }

    fn flip(&mut self) {
        self.in_bad = !self.in_bad;
        let mean = if self.in_bad { self.bad } else { self.good };
        self.until += self.dice.exponential(mean);
    }
}
