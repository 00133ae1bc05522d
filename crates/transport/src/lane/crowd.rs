//! Losses in a queue that is kept full by our own copies.
//!
//! Copies hide a medium's losses from small exchanges. On a path so thin that they fill its queue they cause losses, which trigger more
//! copies. The sign is a round trip that stays far above the lowest seen although the controller would allow more. A trial decides: without
//! copies such a queue empties.

use wavelane_base::{Instant, Span};

/// A round trip is long from this multiple of the shortest, and by at least this margin.
const LONG: u64 = 2;
const LONG_MIN: Span = Span::from_millis(100);
/// The queue counts as gone at this multiple of the shortest round trip or below, or at a margin of half of `LONG_MIN`.
const SHORT: (u64, u64) = (3, 2);
/// It counts as standing if round trips were long for this many of them, and at least this time.
const STANDS_ROUNDS: u64 = 2;
const STANDS_MIN: Span = Span::from_secs(1);
/// A trial lasts this many round trips plus this time: other traffic beside the copies may take most of the path.
const TRIAL_ROUNDS: u64 = 4;
const TRIAL: Span = Span::from_secs(5);

/// The result of an ack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Nothing,
    /// The queue emptied without copies: the copies had caused the losses.
    OwnQueue,
}

#[derive(Debug)]
struct Trial {
    until: Instant,
    least: Span,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    shortest: Option<Span>,
    long_since: Option<Instant>,
    trial: Option<Trial>,
}

impl Crowd {
    /// A packet had this `rtt`. `idle`: the application had no more to send.
    pub(super) fn sample(&mut self, now: Instant, rtt: Span, idle: bool, lossy: bool) -> Found {
        let shortest = self.shortest.map_or(rtt, |shortest| shortest.min(rtt));
        self.shortest = Some(shortest);
        let Some(trial) = self.trial.as_mut().filter(|_| idle) else {
            self.trial = None;
            if !idle || rtt <= shortest.times(LONG).max(shortest + LONG_MIN) {
                self.long_since = None;
            } else {
                let since = *self.long_since.get_or_insert(now);
                if lossy && now.since(since) >= STANDS_MIN.max(rtt.times(STANDS_ROUNDS)) {
                    self.trial = Some(Trial { until: now + TRIAL + rtt.times(TRIAL_ROUNDS), least: rtt });
                }
            }
            return Found::Nothing;
        };
        trial.least = trial.least.min(rtt);
        let emptied = rtt <= shortest.scale(SHORT.0, SHORT.1).max(shortest + LONG_MIN.scale(1, 2));
        if !emptied && now < trial.until {
            return Found::Nothing;
        }
        if !emptied {
            // The path became longer, or the queue is another flow's: no reason to withhold copies.
            self.shortest = Some(trial.least);
        }
        self.trial = None;
        self.long_since = None;
        if emptied { Found::OwnQueue } else { Found::Nothing }
    }

    /// Whether copies are withheld to test the queue.
    pub(super) fn tries(&self) -> bool {
        self.trial.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of 150 ms, then ten a second that `rtt` gives by the seconds since and by whether copies leave. When
    /// copies were withheld, and whether the queue was found to be theirs.
    fn run(idle: bool, lossy: bool, rtt: impl Fn(u64, bool) -> u64) -> (Vec<bool>, bool) {
        let mut crowd = Crowd::default();
        crowd.sample(Instant::ZERO, Span::from_millis(150), idle, lossy);
        let (mut withheld, mut own) = (Vec::new(), false);
        for tenth in 0..600 {
            let now = Instant::from_millis(100 * tenth);
            own |= crowd.sample(now, Span::from_millis(rtt(tenth / 10, crowd.tries())), idle, lossy) == Found::OwnQueue;
            withheld.push(crowd.tries());
        }
        (withheld, own)
    }

    #[test]
    fn a_queue_that_empties_without_copies_was_theirs() {
        let (withheld, own) = run(true, true, |_, tries| if tries { 160 } else { 850 });
        assert!(own && withheld.contains(&true));
    }

    #[test]
    fn a_longer_path_is_tried_once() {
        let (withheld, own) = run(true, true, |_, _| 850);
        let tenths = withheld.iter().filter(|withheld| **withheld).count();
        // 5 s and four round trips.
        assert!(!own && (80..=90).contains(&tenths) && !withheld[599], "{tenths}");
    }

    #[test]
    fn repairs_are_not_withheld_without_loss() {
        for (idle, lossy) in [(true, false), (false, true)] {
            assert!(!run(idle, lossy, |_, _| 850).0.contains(&true));
        }
        assert!(!run(true, true, |second, _| if second % 2 == 0 { 850 } else { 150 }).0.contains(&true));
    }
}
