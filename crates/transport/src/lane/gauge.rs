//! How much longer a large packet takes than a small one: an upper bound of a lane's rate before any bulk was sent.

use wavelane_base::{Octets, Rate, Span};

/// Octets on the medium up to which a packet is small ...
pub(crate) const SMALL_MAX: u32 = 250;
/// ... and from which it is large, unless the carrier takes none as long. Below the smallest path MTU of IP (RFC 1122, section 3.3.3: 576).
pub(crate) const LARGE_MIN: u32 = 500;
/// Where the carrier takes none as long, a packet is large from this part of what it takes, and small up to half of that.
const LARGE_PART: (u32, u32) = (7, 8);
/// The size assumed for a small packet.
const SMALL: u32 = 100;
/// Once this many octets were delivered with more to send, the controller's rate is measured, not assumed.
const SHOWN_MIN: u64 = 64_000;
/// The first window is short only where a large packet takes longer by at least this: less is jitter on many paths.
pub(crate) const FIRST_BOUND_MIN: Span = Span::from_millis(60);

/// The shortest times of small and of large packets, in ns from any origin.
#[derive(Debug, Default)]
struct Shortest {
    small: Option<i64>,
    large: Option<(i64, u32)>,
}

impl Shortest {
    fn sample(&mut self, bytes: u32, large_min: u32, took: i64) {
        if bytes <= SMALL_MAX.min(large_min / 2) {
            self.small = Some(self.small.map_or(took, |small| small.min(took)));
        } else if bytes >= large_min && self.large.is_none_or(|(large, _)| took < large) {
            self.large = Some((took, bytes));
        }
    }

    /// By how much the large one took longer, and the rate at which its octets take that long. `None` if it did not.
    fn difference(&self) -> Option<(Span, Rate)> {
        let (small, (large, bytes)) = (self.small?, self.large?);
        let longer = Span::from_nanos(large.saturating_sub(small).max(0) as u64);
        (longer > Span::ZERO).then(|| (longer, Rate::of(Octets::new(u64::from(bytes - SMALL.min(bytes / 2))), longer)))
    }
}

/// Round trips, which lanes of one link are compared by, and the way out alone: a busy way back delays acks, and says nothing of the lane.
#[derive(Debug)]
pub(super) struct Gauge {
    round: Shortest,
    out: Shortest,
    shown: u64,
    large_min: u32,
}

impl Gauge {
    /// Of a carrier that takes packets of up to `longest` octets.
    pub(super) fn new(longest: usize) -> Self {
        let longest = u32::try_from(longest).unwrap_or(u32::MAX);
        let part = u64::from(longest) * u64::from(LARGE_PART.0) / u64::from(LARGE_PART.1);
        Self::from_large(LARGE_MIN.min(part as u32))
    }

    fn from_large(large_min: u32) -> Self {
        Self { round: Shortest::default(), out: Shortest::default(), shown: 0, large_min }
    }

    /// After the path came to drop packets larger than `size`: nothing is known until one of that size was acknowledged, because shorter ones
    /// may pass where that does not.
    pub(super) fn after_fall(size: usize) -> Self {
        Self::from_large(size as u32)
    }

    /// A packet of `bytes` was acknowledged after `rtt`; it arrived after `way_ns` on a clock of unknown offset. Returns whether that may have
    /// changed [`Self::first_bound`].
    pub(super) fn sample(&mut self, bytes: u32, rtt: Span, way_ns: i64) -> bool {
        self.round.sample(bytes, self.large_min, rtt.as_nanos() as i64);
        // Small packets that come hours after the large one would show the drift of two clocks.
        let counts = bytes >= self.large_min || self.out.large.is_none();
        if counts {
            self.out.sample(bytes, self.large_min, way_ns);
        }
        counts
    }

    /// `bytes` were delivered while more was to be sent.
    pub(super) fn shown(&mut self, bytes: u32) {
        self.shown += u64::from(bytes);
    }

    /// Whether a large packet was acknowledged.
    pub(super) fn is_known(&self) -> bool {
        self.round.large.is_some()
    }

    /// Upper bound of the lane's rate; `None` if the controller's estimate is better. If no small packet was acked by itself, the large one
    /// was delayed no longer than an ack waits for the next packet.
    pub(super) fn bound(&self) -> Option<Rate> {
        self.round.difference().filter(|_| self.shown < SHOWN_MIN).map(|(_, rate)| rate)
    }

    /// Upper bound of the rate, if it is so low that the first window follows it.
    pub(super) fn first_bound(&self) -> Option<Rate> {
        self.out.difference().filter(|(longer, _)| *longer >= FIRST_BOUND_MIN).map(|(_, rate)| rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of `bytes` took `ms`, to a receiver whose clock is 5 s behind, and its ack 10 ms.
    fn took(gauge: &mut Gauge, bytes: u32, ms: u64) {
        gauge.sample(bytes, Span::from_millis(ms + 10), ms as i64 * 1_000_000 - 5_000_000_000);
    }

    #[test]
    fn two_sizes_give_the_rate_until_bulk_shows_it() {
        let mut gauge = Gauge::new(1_500);
        assert!(!gauge.is_known() && gauge.bound().is_none());
        // 20 kbit/s and 10 ms: 100 octets take 40 ms, 1,200 take 480 ms.
        took(&mut gauge, 100, 50);
        took(&mut gauge, 1_200, 490);
        assert!(gauge.is_known());
        assert_eq!(gauge.bound(), Some(Rate::from_bps(20_000)));
        assert_eq!(gauge.first_bound(), gauge.bound());
        // What was late says less than what was not.
        took(&mut gauge, 100, 70);
        took(&mut gauge, 1_200, 900);
        assert_eq!(gauge.bound(), Some(Rate::from_bps(20_000)));
        gauge.shown(64_000);
        assert_eq!(gauge.bound(), None);
    }

    #[test]
    fn where_packets_are_short_the_longest_of_them_count() {
        let mut gauge = Gauge::new(256);
        took(&mut gauge, 200, 60);
        assert!(!gauge.is_known());
        took(&mut gauge, 224, 60);
        took(&mut gauge, 100, 10);
        // 124 octets take 50 ms.
        assert_eq!(gauge.bound(), Some(Rate::from_bps(19_840)));
        let mut gauge = Gauge::after_fall(64);
        took(&mut gauge, 64, 60);
        assert!(gauge.is_known());
    }

    #[test]
    fn a_large_packet_that_is_no_later_bounds_nothing() {
        let mut gauge = Gauge::new(1_500);
        took(&mut gauge, 1_500, 20);
        assert!(gauge.is_known() && gauge.bound().is_none());
        took(&mut gauge, 60, 20);
        assert_eq!(gauge.bound(), None);
    }

    #[test]
    fn a_busy_way_back_does_not_shorten_the_first_window() {
        let mut gauge = Gauge::new(1_500);
        gauge.sample(60, Span::from_millis(40), -1_000);
        gauge.sample(1_200, Span::from_millis(400), 4_000_000);
        assert!(gauge.bound().is_some() && gauge.first_bound().is_none());
    }

    /// 100 ppm are 60 ms after ten minutes.
    #[test]
    fn a_clock_that_drifts_does_not_shorten_the_first_window() {
        let mut gauge = Gauge::new(1_500);
        took(&mut gauge, 60, 20);
        took(&mut gauge, 1_200, 25);
        for second in 0..3_600 {
            assert!(!gauge.sample(60, Span::from_millis(30), 20_000_000 - second * 100_000));
        }
        assert_eq!(gauge.first_bound(), None);
    }

    #[test]
    fn a_little_later_does_not_shorten_the_first_window() {
        let mut gauge = Gauge::new(1_500);
        took(&mut gauge, 60, 20);
        took(&mut gauge, 1_200, 79);
        assert!(gauge.bound().is_some() && gauge.first_bound().is_none());
    }
}
