//! One frame at a time at a given rate, in exact integers.

use super::config::DirectionConfig;
use wavelane_base::{Instant, Span};

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
    pub(super) fn start(&mut self, now: Instant, octets: usize, config: &DirectionConfig) -> Instant {
        let spare = if now == self.end { self.spare } else { 0 };
        let work = config.rate_trace.as_ref().map_or(octets as u128 * PER_OCTET, |trace| trace.work(octets));
        self.left = work.saturating_sub(spare);
        self.spare = spare.saturating_sub(work);
        self.mark = now;
        self.schedule(config)
    }

    /// The rate changes at `now`, during the frame in service; returns its new end.
    pub(super) fn change(&mut self, now: Instant, old: &DirectionConfig, new: &DirectionConfig) -> Instant {
        let done = match (&old.rate_trace, old.rate) {
            (Some(trace), _) => trace.supplied(now) - trace.supplied(self.mark),
            (None, Some(rate)) => u128::from(rate.as_bps()) * u128::from(now.since(self.mark).as_nanos()),
            (None, None) => self.left,
        };
        self.left = self.left.saturating_sub(done);
        self.mark = now;
        self.schedule(new)
    }

    /// Discards the carry: the rate changed while idle, or a recorded opportunity found nothing that waited.
    pub(super) fn forget_spare(&mut self) {
        self.spare = 0;
    }

    fn schedule(&mut self, config: &DirectionConfig) -> Instant {
        if let Some(trace) = &config.rate_trace {
            self.end = self.mark;
            if self.left > 0 {
                // Every opportunity up to `mark` has lapsed or stands in the spare work, which `left` has had.
                let until = trace.supplied(self.mark) + self.left;
                self.end = trace.when(until);
                self.spare = trace.supplied(self.end).saturating_sub(until);
            }
            return self.end;
        }
        let Some(rate) = config.rate else {
            self.end = self.mark;
            self.spare = 0;
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
