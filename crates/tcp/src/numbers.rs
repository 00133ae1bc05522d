//! What a connection begins counting from (RFC 9293, section 3.4.1; RFC 6528; RFC 7323, section 5.4).

use ring::hmac;
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{Entropy, Instant};

/// Nanoseconds of the clock M of RFC 6528, section 3.
const CLOCK_NANOS: u64 = 4_000;

/// What a connection begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// The initial sequence number.
    pub iss: u32,
    /// What our timestamp clock is ahead of the time, in milliseconds.
    pub stamps: u32,
    /// Chance for the congestion control.
    pub dice: u32,
}

/// A host's secret, from which the numbers of all of its connections follow.
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

    /// A connection between the same two addresses begins above what an earlier one used, in sequence numbers and in
    /// timestamps, so that a peer in TIME-WAIT can tell the two apart (RFC 6191); others cannot guess either.
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
