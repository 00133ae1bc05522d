//! Round-trip time estimation (RFC 9002, section 5).

use std::collections::VecDeque;
use wavelane_base::{Instant, Span};

/// Assumed before the first sample (RFC 9002, section 6.2.2).
const INITIAL_RTT: Span = Span::from_millis(333);
/// A handshake that took at least this long is used as the estimate ...
const SUPPOSED_MIN: Span = Span::from_secs(1);
/// ... up to this: it may have been retransmitted.
const SUPPOSED_MAX: Span = Span::from_secs(2);
/// Timer granularity (RFC 9002, section 6.1.2).
pub(super) const GRANULARITY: Span = Span::from_millis(1);
/// The period over which the lowest round-trip time is taken.
const BASE_WINDOW: Span = Span::from_secs(30);
/// The base window is kept in this many buckets.
const BASE_BUCKETS: usize = 15;

/// Smoothed round-trip time, its variation and its windowed minimum.
#[derive(Debug, Default)]
pub(super) struct Rtt {
    smoothed: Option<Span>,
    /// The duration of a handshake, if long.
    supposed: Option<Span>,
    variation: Span,
    latest: Span,
    /// (start of bucket, lowest sample in it), oldest first.
    base: VecDeque<(Instant, Span)>,
}

impl Rtt {
    /// A handshake was answered after `round_trip`. Returns what is assumed from that.
    pub(super) fn suppose(&mut self, round_trip: Span) -> Option<Span> {
        self.supposed = (round_trip >= SUPPOSED_MIN).then_some(round_trip.min(SUPPOSED_MAX));
        self.supposed
    }

    /// Takes one sample; `ack_delay` is the delay reported by the peer.
    pub(super) fn sample(&mut self, now: Instant, latest: Span, ack_delay: Span) {
        self.note_base(now, latest);
        self.latest = latest;
        let lowest = self.lowest().unwrap_or(latest);
        // RFC 9002, section 5.3: never adjust below the minimum.
        let adjusted = if latest >= lowest + ack_delay { latest.saturating_sub(ack_delay) } else { latest };
        match self.smoothed {
            None => {
                self.smoothed = Some(adjusted);
                self.variation = adjusted.scale(1, 2);
            }
            Some(smoothed) => {
                let deviation = smoothed.saturating_sub(adjusted).max(adjusted.saturating_sub(smoothed));
                self.variation = self.variation.scale(3, 4) + deviation.scale(1, 4);
                self.smoothed = Some(smoothed.scale(7, 8) + adjusted.scale(1, 8));
            }
        }
    }

    fn note_base(&mut self, now: Instant, latest: Span) {
        let width = BASE_WINDOW.scale(1, BASE_BUCKETS as u64);
        match self.base.back_mut() {
            Some((start, lowest)) if now.since(*start) < width => *lowest = (*lowest).min(latest),
            _ => self.base.push_back((now, latest)),
        }
        while self.base.len() > BASE_BUCKETS + 1
            || self.base.front().is_some_and(|b| now.since(b.0) > BASE_WINDOW + width)
        {
            self.base.pop_front();
        }
    }

    /// Forgets the base: the path changed.
    pub(super) fn forget_base(&mut self) {
        self.base.clear();
    }
    /// Smoothed, once measured.
    pub(super) fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }
    /// Whether nothing is known except that a handshake took long.
    pub(super) fn is_supposed(&self) -> bool {
        self.smoothed.is_none() && self.supposed.is_some()
    }
    /// Smoothed, or the initial assumption.
    pub(super) fn smoothed_or_initial(&self) -> Span {
        self.smoothed.or(self.supposed).unwrap_or(INITIAL_RTT)
    }
    /// Variation.
    pub(super) fn variation(&self) -> Span {
        self.variation
    }
    /// Lowest of the base window.
    pub(super) fn lowest(&self) -> Option<Span> {
        self.base.iter().map(|b| b.1).min()
    }
    /// The time without an ack after which a tail probe is due (RFC 9002, section 6.2.1).
    pub(super) fn probe_timeout(&self, ack_delay_max: Span) -> Span {
        let variation = match (self.smoothed, self.supposed) {
            (Some(_), _) => self.variation,
            (None, Some(supposed)) => supposed.scale(1, 4),
            (None, None) => INITIAL_RTT.scale(1, 2),
        };
        self.smoothed_or_initial() + variation.times(4).max(GRANULARITY) + ack_delay_max
    }
    /// Age past which a packet older than an acknowledged one is lost (RFC 9002, section 6.1.2).
    pub(super) fn loss_delay(&self) -> Span {
        self.smoothed_or_initial().max(self.latest).scale(9, 8).max(GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_and_smoothing_follow_rfc_9002() {
        let mut rtt = Rtt::default();
        rtt.sample(Instant::from_millis(100), Span::from_millis(100), Span::ZERO);
        assert_eq!(rtt.smoothed(), Some(Span::from_millis(100)));
        assert_eq!(rtt.variation(), Span::from_millis(50));
        rtt.sample(Instant::from_millis(200), Span::from_millis(180), Span::ZERO);
        assert_eq!(rtt.smoothed(), Some(Span::from_millis(110)));
        assert_eq!(rtt.variation(), Span::from_micros(57_500));
        assert_eq!(rtt.probe_timeout(Span::from_millis(5)), Span::from_millis(110 + 230 + 5));
    }

    #[test]
    fn ack_delay_never_lowers_a_sample_below_the_minimum() {
        let mut rtt = Rtt::default();
        rtt.sample(Instant::from_millis(1), Span::from_millis(100), Span::ZERO);
        rtt.sample(Instant::from_millis(2), Span::from_millis(101), Span::from_millis(50));
        assert_eq!(rtt.smoothed(), Some(Span::from_micros(100_125)));
    }

    #[test]
    fn the_minimum_is_forgotten_after_the_base_window() {
        let mut rtt = Rtt::default();
        rtt.sample(Instant::from_secs(1), Span::from_millis(50), Span::ZERO);
        for s in 2..40 {
            rtt.sample(Instant::from_secs(s), Span::from_millis(80), Span::ZERO);
        }
        assert_eq!(rtt.lowest(), Some(Span::from_millis(80)));
    }
}
