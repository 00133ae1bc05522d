//! ACK aggregation, as measured by Linux's BBR: bytes acknowledged at once beyond the expected amount. On links that
//! aggregate ACKs, two bandwidth-delay products are too few to keep sending.

use super::Acked;
use wavelane_base::{Instant, Rate, Span};

/// The maximum over this many rounds is used, and over as many before.
const WINDOW_ROUNDS: u32 = 5;
/// The extra is at most the bandwidth times this.
const WORTH_MAX: Span = Span::from_millis(100);

/// While acknowledgements come faster than the bandwidth: since when, and how much they brought.
#[derive(Clone, Debug)]
pub(super) struct Episode {
    since: Instant,
    octets: u64,
}

impl Episode {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, octets: 0 }
    }
    /// What is expected counts from `now` on.
    pub(super) fn restart(&mut self, now: Instant) {
        self.since = now;
    }
    /// Bytes acknowledged beyond the bandwidth, at most the window.
    pub(super) fn extra(&mut self, acked: &Acked, bandwidth: Rate, cwnd: u64) -> u64 {
        let expected = |since: Instant| bandwidth.octets_in(acked.now.since(since)).get();
        if self.octets <= expected(self.since) {
            *self = Self::new(acked.now);
        }
        self.octets += acked.octets;
        self.octets.saturating_sub(expected(self.since)).min(cwnd)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Aggregation {
    episode: Episode,
    /// The maximum extra of the current window and of the previous one.
    most: [u64; 2],
    rounds: u32,
}

impl Aggregation {
    pub(super) fn new(now: Instant) -> Self {
        Self { episode: Episode::new(now), most: [0; 2], rounds: 0 }
    }

    pub(super) fn on_ack(&mut self, acked: &Acked, round_began: bool, bandwidth: Rate, cwnd: u64) {
        if acked.octets == 0 || acked.sample.is_none() {
            return;
        }
        self.rounds += u32::from(round_began);
        if self.rounds >= WINDOW_ROUNDS {
            self.rounds = 0;
            self.most = [0, self.most[0]];
        }
        let extra = self.episode.extra(acked, bandwidth, cwnd);
        self.most[0] = self.most[0].max(extra);
    }

    /// The maximum extra beyond `bandwidth`, in bytes.
    pub(super) fn most(&self, bandwidth: Rate) -> u64 {
        self.most[0].max(self.most[1]).min(bandwidth.octets_in(WORTH_MAX).get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::RateSample;

    const BANDWIDTH: Rate = Rate::from_bps(8_000_000);

    fn acked(now: Instant, octets: u64) -> Acked {
        Acked {
            now,
            octets,
            delivered: 0,
            lost: 0,
            rtt: None,
            smoothed: Span::ZERO,
            least: Span::ZERO,
            pipe: 0,
            next: 0,
            una: 0,
            limited: true,
            sample: Some(RateSample { rate: Some(BANDWIDTH), ..RateSample::default() }),
            repairing: false,
        }
    }

    #[test]
    fn only_bursts_of_acks_count_as_aggregation() {
        let mut even = Aggregation::new(Instant::ZERO);
        let mut lumps = even.clone();
        for ms in 1..=400u64 {
            let now = Instant::from_millis(ms);
            even.on_ack(&acked(now, 1_000), ms % 100 == 0, BANDWIDTH, 1 << 20);
            if ms % 20 == 0 {
                lumps.on_ack(&acked(now, 20_000), ms % 100 == 0, BANDWIDTH, 1 << 20);
            }
        }
        assert!(even.most(BANDWIDTH) <= 1_000, "{}", even.most(BANDWIDTH));
        assert!((18_000..=20_000).contains(&lumps.most(BANDWIDTH)), "{}", lumps.most(BANDWIDTH));
    }

    #[test]
    fn it_is_bounded_and_forgotten() {
        let mut aggregation = Aggregation::new(Instant::ZERO);
        aggregation.on_ack(&acked(Instant::from_millis(1), 10_000_000), false, BANDWIDTH, 1 << 30);
        assert_eq!(aggregation.most(BANDWIDTH), 100_000, "a tenth of a second's worth");
        for ms in 2_000..2_010u64 {
            aggregation.on_ack(&acked(Instant::from_millis(ms * 10), 1_000), true, BANDWIDTH, 1 << 30);
        }
        assert!(aggregation.most(BANDWIDTH) <= 1_000, "{}", aggregation.most(BANDWIDTH));
    }
}
