//! Forward one-way delay: queue and jitter from arrival times on a clock of unknown offset.
//!
//! Only differences of delays are used, and only within [`BASE_WINDOW`]: a drift of 100 ppm moves them by at most 1 ms in that time, and
//! less where the base is seen again sooner. Where a round trip takes seconds the window is longer, and so is every queue that matters.

use std::collections::VecDeque;
use wavelane_base::{Instant, Span};

/// The base is the lowest delay of this window.
const BASE_WINDOW: Span = Span::from_secs(10);
/// Or of this many round trips, if that is longer: a queue of seconds shows in acks only after as long, and takes some times that to empty.
const BASE_RTTS: u64 = 8;
const BASE_WINDOW_MAX: Span = Span::from_secs(60);
/// The window is kept in buckets of this length.
const BASE_BUCKET: Span = Span::from_millis(500);
/// A sample this close to the base counts as seeing the base.
const BASE_NEAR_NS: i64 = 1_000_000;
/// Most samples of the short window.
const RECENT_MAX: usize = 512;
/// The queue is the lowest of at least this many samples, or of [`QUIET_MIN`] while jitter is below [`QUIET`].
const RECENT_MIN: usize = 4;
const QUIET_MIN: usize = 2;
const QUIET: Span = Span::from_millis(1);
/// The short window over which jitter is measured and the queue is the lowest delay.
pub(super) const JITTER_WINDOW: Span = Span::from_millis(50);
/// By this many samples at least; where they are not within it, longer.
pub(super) const JITTER_MIN: usize = 2 * RECENT_MIN;
/// If acks are rare, the samples needed for jitter may come from this long, if each stands for this many packets.
const JITTER_RARE: Span = Span::from_secs(1);
const RARE_PACKETS: u64 = 3;
/// On a return path so thin that even these take longer, the newest samples may be as old as this.
const JITTER_THIN: Span = Span::from_secs(10);
/// There the queue may empty or grow before the next sample: samples further apart than this, with this many packets between them, are each
/// evaluated alone.
const THIN_APART: Span = Span::from_millis(80);
const THIN_PACKETS: u64 = 8;
/// The queue is the lowest delay of at least this long.
const QUEUE_WINDOW_MIN: Span = Span::from_millis(4);

/// One delay, and when its packet was acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    delay: i64,
    number: u64,
}

/// Why there are few samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rare {
    /// Each sample stands for several packets.
    Acks,
    /// The queue changes between any two samples, which is not jitter. But jitter cannot exceed that change either, and a value measured
    /// while a queue emptied would otherwise persist.
    Packets,
}

/// Estimates queueing delay and jitter.
#[derive(Debug, Default)]
pub(super) struct Forward {
    /// (start, lowest delay), oldest first.
    base: VecDeque<(Instant, i64)>,
    /// Oldest first.
    recent: VecDeque<Sample>,
    jitter: Span,
    jitter_at: Instant,
    base_seen: Instant,
}

impl Forward {
    /// Packet `number`, sent at `sent_at`, arrived at `arrival_ns` of the receiver's clock and is acknowledged now.
    pub(super) fn sample(&mut self, now: Instant, number: u64, sent_at: Instant, arrival_ns: u64) {
        let delay = (arrival_ns as i64).wrapping_sub(sent_at.as_nanos() as i64);
        match self.base.back_mut() {
            Some((start, lowest)) if now.since(*start) < BASE_BUCKET => *lowest = (*lowest).min(delay),
            _ => self.base.push_back((now, delay)),
        }
        // The last bucket is kept at any age: after a silence it is the only one.
        let window = BASE_WINDOW.max(now.since(sent_at).times(BASE_RTTS).min(BASE_WINDOW_MAX));
        while self.base.len() > 1 && self.base.front().is_some_and(|b| now.since(b.0) > window) {
            self.base.pop_front();
        }
        if self.base().is_some_and(|b| delay <= b + BASE_NEAR_NS) {
            self.base_seen = now;
        }
        self.recent.push_back(Sample { at: now, delay, number });
        while self.recent.len() > RECENT_MAX
            || self.recent.len() > JITTER_MIN
                && self.recent.front().is_some_and(|r| now.since(r.at) > JITTER_WINDOW.times(2))
        {
            self.recent.pop_front();
        }
        if now.since(self.jitter_at) >= JITTER_WINDOW {
            self.measure_jitter(now);
        }
    }

    /// Jitter is the smoothed range of delays in one short window, less any trend.
    fn measure_jitter(&mut self, now: Instant) {
        self.jitter_at = now;
        let mut n = self.recent.iter().rev().take_while(|r| now.since(r.at) <= JITTER_WINDOW).count();
        let mut apart = false;
        if n < JITTER_MIN {
            let Some(rare) = self.rare(now, JITTER_MIN) else { return };
            n = JITTER_MIN;
            apart = rare == Rare::Packets;
        }
        let window = || self.recent.iter().skip(self.recent.len() - n).map(|r| r.delay);
        let (low, high) = window().fold((i64::MAX, i64::MIN), |(l, h), d| (l.min(d), h.max(d)));
        let sample = if apart {
            Span::from_nanos((high - low).max(0) as u64).min(self.jitter)
        } else {
            let n = n as i64;
            let half = n / 2;
            let early = window().take(half as usize).sum::<i64>() / half;
            let late = window().skip(half as usize).sum::<i64>() / (n - half);
            // For a straight trend, the half means differ by half of the trend's range over the window.
            let unexplained = (high - low) - 2 * (late - early).abs();
            Span::from_nanos(unexplained.max(0) as u64)
        };
        self.jitter = self.jitter.scale(7, 8) + sample.scale(1, 8);
    }

    /// Why the newest `n` samples are few, if they are recent enough to say anything about jitter.
    fn rare(&self, now: Instant, n: usize) -> Option<Rare> {
        let newest = self.recent.back()?;
        let oldest = self.recent[self.recent.len().checked_sub(n)?];
        let packets = newest.number.saturating_sub(oldest.number);
        let many = packets >= RARE_PACKETS * (n as u64 - 1);
        match (now.since(oldest.at), many) {
            (age, true) if age <= JITTER_RARE => Some(Rare::Acks),
            (age, false) if age <= JITTER_RARE => Some(Rare::Packets),
            (age, true) if age <= JITTER_THIN => Some(Rare::Packets),
            _ => None,
        }
    }

    /// The lowest delay of the base window, relative to an unknown origin.
    pub(super) fn base(&self) -> Option<i64> {
        self.base.iter().map(|b| b.1).min()
    }
    /// The current queueing delay: the lowest recent delay minus the base.
    pub(super) fn queue(&self, now: Instant) -> Option<Span> {
        Some(Span::from_nanos((self.lowest(now)? - self.base()?).max(0) as u64))
    }
    /// The lowest recent delay, relative to an unknown origin.
    pub(super) fn lowest(&self, now: Instant) -> Option<i64> {
        let window = self.jitter.times(2).clamp(QUEUE_WINDOW_MIN, JITTER_WINDOW);
        let samples = if self.jitter < QUIET { QUIET_MIN } else { RECENT_MIN };
        let mut newer = *self.recent.back()?;
        let near = |r: &&Sample| {
            let apart = newer.at.since(r.at) > THIN_APART && newer.number >= r.number + THIN_PACKETS;
            newer = **r;
            !apart
        };
        let recent = self.recent.iter().rev().take_while(near).enumerate();
        recent.take_while(|(i, r)| *i < samples || now.since(r.at) <= window).map(|(_, r)| r.delay).min()
    }
    /// Forward jitter.
    pub(super) fn jitter(&self) -> Span {
        self.jitter
    }
    /// When the base was last seen.
    pub(super) fn base_seen(&self) -> Instant {
        self.base_seen
    }
    /// The newest delay, relative to an unknown origin.
    pub(super) fn newest(&self) -> Option<i64> {
        self.recent.back().map(|r| r.delay)
    }
    /// Makes the lowest delay acknowledged since `since` the base, even if it was lower before.
    pub(super) fn rebase(&mut self, now: Instant, since: Instant) {
        let lowest = self.recent.iter().filter(|r| r.at >= since).map(|r| r.delay).min();
        if let Some(lowest) = lowest {
            self.base.clear();
            self.base.push_back((now, lowest));
            self.base_seen = now;
        }
    }
    /// The path changed: the old samples are void.
    pub(super) fn forget(&mut self) {
        self.base.clear();
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten minutes at `ppm` drift without any queue.
    fn largest_phantom_queue(ppm: i64) -> Span {
        let mut forward = Forward::default();
        let mut worst = Span::ZERO;
        for ms in (0..600_000u64).step_by(5) {
            let sent = Instant::from_millis(ms);
            let true_arrival = sent.as_nanos() as i64 + 50_000_000;
            let arrival = true_arrival + true_arrival / 1_000_000 * ppm + 77_000_000_000;
            forward.sample(sent + Span::from_millis(100), ms, sent, arrival as u64);
            worst = worst.max(forward.queue(sent + Span::from_millis(100)).expect("samples exist"));
        }
        worst
    }

    #[test]
    fn drift_of_100_ppm_over_ten_minutes_is_no_queue() {
        assert_eq!(largest_phantom_queue(0), Span::ZERO);
        // A slow receiver clock only lowers the base; a fast one shows as at most drift x window.
        assert!(largest_phantom_queue(-100) <= Span::from_micros(10));
        assert!(largest_phantom_queue(50) <= Span::from_micros(550));
        assert!(largest_phantom_queue(100) <= Span::from_micros(1_100));
    }

    #[test]
    fn a_trend_is_not_jitter_but_noise_is() {
        let mut trend = Forward::default();
        let mut noise = Forward::default();
        for i in 0..2_000u64 {
            let sent = Instant::from_millis(i);
            trend.sample(sent, i, sent, sent.as_nanos() + i * 100_000);
            noise.sample(sent, i, sent, sent.as_nanos() + (i * 7_919 % 20) * 1_000_000);
        }
        assert!(trend.jitter() < Span::from_millis(1), "{}", trend.jitter());
        assert!(noise.jitter() > Span::from_millis(12), "{}", noise.jitter());
    }
}
