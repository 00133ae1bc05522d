//! One frame at a time at a given rate, in exact integers.

use wavelane_base::{Instant, Rate, Span};

/// Work in units of 1 bit x 1 ns/s: a frame of `n` bits is `n * 10^9`, and a rate in bit/s does `rate` per nanosecond.
const PER_OCTET: u128 = 8 * 1_000_000_000;

/// The timing of a serialiser: when the frame in service ends.
///
/// Ends are rounded up to whole nanoseconds, and the unused part of the last nanosecond is carried to a successor that
/// starts at that end. So the `n`-th end of a busy period is exactly `ceil(total bits / rate)` after its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Serialiser {
    /// Work left at `mark`.
    left: u128,
    mark: Instant,
    end: Instant,
    /// Unused work of the last nanosecond, for a frame that starts exactly at `end`.
    spare: u128,
}

impl Serialiser {
    /// Starts a frame of `octets` bytes at `now` and returns when it is done.
    pub(super) fn start(&mut self, now: Instant, octets: usize, rate: Option<Rate>) -> Instant {
        let spare = if now == self.end { self.spare } else { 0 };
        let work = octets as u128 * PER_OCTET;
        (self.left, self.spare) = (work.saturating_sub(spare), spare.saturating_sub(work));
        self.mark = now;
        self.schedule(rate)
    }

    /// The rate changes at `now`, during the frame in service; returns its new end.
    pub(super) fn change(&mut self, now: Instant, old: Option<Rate>, new: Option<Rate>) -> Instant {
        let done =
            old.map_or(self.left, |rate| u128::from(rate.as_bps()) * u128::from(now.since(self.mark).as_nanos()));
        self.left = self.left.saturating_sub(done);
        self.mark = now;
        self.schedule(new)
    }

    /// Discards the carry, because the rate changed while idle.
    pub(super) fn forget_spare(&mut self) {
        self.spare = 0;
    }

    fn schedule(&mut self, rate: Option<Rate>) -> Instant {
        let Some(rate) = rate else {
            (self.end, self.spare) = (self.mark, 0);
            return self.end;
        };
        self.end = self.mark;
        if self.left > 0 {
            // A valid configuration has no rate of zero; it is treated as one bit per second.
            let bps = u128::from(rate.as_bps().max(1));
            let ns = self.left.div_ceil(bps);
            self.end += Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
            self.spare = ns * bps - self.left;
        }
        self.end
    }
}
