//! How many CUBIC flows a competing lane emulates.

use super::stepped;
use crate::lane::control::AckSample;
use wavelane_base::{Instant, Octets, Rate, Span};

/// One flow may be too few: beside a sender that ignores moderate loss (BBR) a CUBIC flow gets a tenth of the link. A service rate below
/// [`TOO_LITTLE`] of the best for [`WEIGH_EVERY`] (or [`WEIGH_RTTS`]) doubles the number of flows, one above [`ENOUGH`] reduces it by one.
/// The maximum is what a browser opens to one server: each still reacts to loss, so several such lanes share the link as many flows do.
pub(super) const WEIGHT_MAX: u32 = 6;
const TOO_LITTLE: (u64, u64) = (1, 4);
const ENOUGH: (u64, u64) = (2, 5);
const WEIGH_EVERY: Span = Span::from_secs(1);
const WEIGH_RTTS: u64 = 8;

/// As how many flows we compete.
#[derive(Debug)]
pub(super) struct Weight {
    flows: u32,
    since: Instant,
    delivered: u64,
}

impl Weight {
    pub(super) fn new(now: Instant) -> Self {
        Self { flows: 1, since: now, delivered: 0 }
    }

    pub(super) fn on_ack(&mut self, sample: &AckSample, best: Rate, testing: bool) -> u32 {
        self.delivered += sample.delivered;
        let span = sample.now.since(self.since);
        // The service rate during a test is not evaluated: we caused it.
        if testing {
            self.since = sample.now;
            self.delivered = 0;
        } else if span >= stepped(WEIGH_EVERY, sample.rtt, WEIGH_RTTS) {
            let served = Rate::of(Octets::new(self.delivered), span);
            if served < best.scale(TOO_LITTLE.0, TOO_LITTLE.1) {
                self.flows = (self.flows * 2).min(WEIGHT_MAX);
            } else if served > best.scale(ENOUGH.0, ENOUGH.1) {
                self.flows = (self.flows - 1).max(1);
            }
            self.since = sample.now;
            self.delivered = 0;
        }
        self.flows
    }
}
