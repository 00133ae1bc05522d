//! How much longer a large packet takes than a small one: an upper bound of a lane's rate before any bulk was sent.

use wavelane_base::{Octets, Rate, Span};

/// Octets on the medium up to which a packet is small ...
const SMALL_MAX: u32 = 250;
/// ... and from which it is large.
const LARGE_MIN: u32 = 500;
/// The size assumed for a small packet.
const SMALL: u32 = 100;
/// Once this many octets were delivered with more to send, the controller's rate is measured, not assumed.
const SHOWN_MIN: u64 = 64_000;

/// The shortest round trips of small and of large packets.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    small: Option<Span>,
    large: Option<(Span, u32)>,
    shown: u64,
}

impl Gauge {
    /// A packet of `bytes` was acknowledged after `rtt`.
    pub(super) fn sample(&mut self, bytes: u32, rtt: Span) {
        if bytes <= SMALL_MAX {
            self.small = Some(self.small.map_or(rtt, |small| small.min(rtt)));
        } else if bytes >= LARGE_MIN && self.large.is_none_or(|(large, _)| rtt < large) {
            self.large = Some((rtt, bytes));
        }
    }

    /// `bytes` were delivered while more was to be sent.
    pub(super) fn shown(&mut self, bytes: u32) {
        self.shown += u64::from(bytes);
    }

    /// Whether a large packet was acknowledged.
    pub(super) fn is_known(&self) -> bool {
        self.large.is_some()
    }

    /// Upper bound of the lane's rate; `None` if the controller's estimate is better. If no small packet was acked by itself, the large one
    /// was delayed no longer than an ack waits for the next packet.
    pub(super) fn bound(&self) -> Option<Rate> {
        let (Some(small), Some((large, bytes))) = (self.small, self.large) else { return None };
        let took = large.saturating_sub(small);
        (self.shown < SHOWN_MIN && took > Span::ZERO).then(|| Rate::of(Octets::new(u64::from(bytes - SMALL)), took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sizes_give_the_rate_until_bulk_shows_it() {
        let mut gauge = Gauge::default();
        assert!(!gauge.is_known() && gauge.bound().is_none());
        // 20 kbit/s and 10 ms: 100 octets take 40 ms, 1,200 take 480 ms.
        gauge.sample(100, Span::from_millis(50));
        gauge.sample(1_200, Span::from_millis(490));
        assert!(gauge.is_known());
        assert_eq!(gauge.bound(), Some(Rate::from_bps(20_000)));
        // What was late says less than what was not.
        gauge.sample(100, Span::from_millis(70));
        gauge.sample(1_200, Span::from_millis(900));
        assert_eq!(gauge.bound(), Some(Rate::from_bps(20_000)));
        gauge.shown(64_000);
        assert_eq!(gauge.bound(), None);
    }

    #[test]
    fn a_large_packet_that_is_no_later_bounds_nothing() {
        let mut gauge = Gauge::default();
        gauge.sample(1_500, Span::from_millis(20));
        assert!(gauge.is_known() && gauge.bound().is_none());
        gauge.sample(60, Span::from_millis(20));
        assert_eq!(gauge.bound(), None);
    }
}
