//! Initial sequence numbers and timestamp offsets (RFC 9293, section 3.4.1; RFC 6528; RFC 7323, section 5.4).

use ring::hmac;
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{Entropy, Instant};

/// Nanoseconds of the clock M of RFC 6528, section 3.
const CLOCK_NANOS: u64 = 4_000;

/// A connection's initial values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// The initial sequence number.
    pub iss: u32,
    /// Offset of our timestamp clock from the time, in milliseconds.
    pub stamps: u32,
    /// Random number for the congestion control.
    pub dice: u32,
}

/// A host's secret, from which the numbers of all its connections are derived.
pub(super) struct Numbering {
    key: hmac::Key,
    dice: Entropy,
}

impl Numbering {
    pub(super) fn new(entropy: Entropy) -> Self {
        let mut key = [0; 32];
        entropy.aside().fill(&mut key);
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key), dice: entropy }
    }

    /// A connection between the same two addresses starts above an earlier one's sequence numbers and timestamps, so that a
    /// peer in TIME-WAIT can distinguish them (RFC 6191); third parties can guess neither.
    pub(super) fn of(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Numbers {
        let mut hash = hmac::Context::with_key(&self.key);
        for address in [local, remote] {
            match address.ip() {
                IpAddr::V4(ip) => hash.update(&ip.octets()),
                IpAddr::V6(ip) => hash.update(&ip.octets()),
            }
            hash.update(&address.port().to_be_bytes());
        }
        let tag = hash.sign();
        let word = |at: usize| tag.as_ref()[at..at + 4].iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let clock = (now.as_nanos() / CLOCK_NANOS) as u32;
        Numbers { iss: clock.wrapping_add(word(0)), stamps: word(4), dice: self.dice.next_u64() as u32 }
    }
}
