//! A token bucket without a queue, in exact integers.

use super::Policer;
use wavelane_base::Instant;

/// Tokens in units of 1 bit x 1 ns/s, in which a rate in bit/s times nanoseconds is whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    policer: Policer,
    tokens: u128,
    at: Instant,
}

/// Tokens per byte.
const PER_OCTET: u128 = 8 * 1_000_000_000;

impl Bucket {
    /// A full bucket.
    pub(super) fn new(policer: Policer, now: Instant) -> Self {
        Self { policer, tokens: Self::size(policer), at: now }
    }
    fn size(policer: Policer) -> u128 {
        u128::from(policer.burst.get()) * PER_OCTET
    }
    /// Takes the tokens for `octets` bytes, or none if there are too few.
    pub(super) fn passes(&mut self, now: Instant, octets: usize) -> bool {
        let gained = u128::from(self.policer.rate.as_bps()) * u128::from(now.since(self.at).as_nanos());
        self.at = now;
        self.tokens = Self::size(self.policer).min(self.tokens + gained);
        match self.tokens.checked_sub(octets as u128 * PER_OCTET) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }
}
