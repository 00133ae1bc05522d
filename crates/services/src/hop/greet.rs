//! Opens, Answers and Forgets share one account, so that a flood of new flows (spoofed SYNs at the door, a hostile peer)
//! does not take the lane from flows with data.

use wavelane_base::{Instant, Octets, Rate};
use wavelane_transport::PathView;

/// Opens, Answers and Forgets take this share of the lane at the most ...
const SHARE: (u64, u64) = (1, 8);
/// ... after this many octets at once: more than a browser requests in one go.
const BURST: u64 = 8 << 10;
/// Charged per frame in addition to its octets: its part of a datagram's headers and of the ack.
const OVERHEAD: u64 = 24;

/// An account that fills with time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Greetings {
    /// When the spent octets will be paid off.
    paid_at: Instant,
    /// Nothing may be spent before this time.
    closed_until: Option<Instant>,
}

impl Greetings {
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.closed_until.is_none_or(|at| at <= now)
    }
    /// When the account opens again, if it is closed.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.closed_until
    }
    pub(super) fn tick(&mut self, now: Instant) {
        self.closed_until = self.closed_until.filter(|at| *at > now);
    }
    /// A frame was written.
    pub(super) fn spend(&mut self, now: Instant, path: &PathView, octets: u64) {
        let rate: Rate = path.rate.scale(SHARE.0, SHARE.1);
        self.paid_at = self.paid_at.max(now) + rate.time_for(Octets::new(octets + OVERHEAD));
        let ahead = rate.time_for(Octets::new(BURST));
        let opens = Instant::from_nanos(self.paid_at.as_nanos().saturating_sub(ahead.as_nanos()));
        self.closed_until = (opens > now).then_some(opens);
    }
}
