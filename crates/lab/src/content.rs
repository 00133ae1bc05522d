//! What the bulk flows carry: bytes that follow from the seed and the flow's name, and what their receiver saw.

use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use wavelane_base::{Chance, Instant, Seed};
use wavelane_scenario::ARRIVAL_BIN;

/// A body of pseudo-random bytes, hashed while it is read.
pub(crate) struct Content {
    chance: Chance,
    left: u64,
    spare: [u8; 8],
    spare_left: usize,
    hash: Sha256,
    digest: Digested,
}

/// Where the hash of a body appears once all of it was read.
pub(crate) type Digested = Arc<Mutex<Option<[u8; 32]>>>;

impl Content {
    /// The body of `flow` in the run `seed`, `octets` long.
    pub(crate) fn new(seed: Seed, flow: &str, octets: u64) -> Self {
        let chance = seed.chance(&format!("flow {flow} / content"));
        let (hash, digest) = (Sha256::new(), Digested::default());
        Self { chance, left: octets, spare: [0; 8], spare_left: 0, hash, digest }
    }
    /// Where the hash will appear.
    pub(crate) fn digest(&self) -> Digested {
        Arc::clone(&self.digest)
    }
}

impl Read for Content {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        for byte in &mut out[..len] {
            if self.spare_left == 0 {
                self.spare = self.chance.next_u64().to_le_bytes();
                self.spare_left = self.spare.len();
            }
            *byte = self.spare[self.spare.len() - self.spare_left];
            self.spare_left -= 1;
        }
        self.hash.update(&out[..len]);
        self.left -= len as u64;
        if self.left == 0 {
            let mut slot = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
            slot.get_or_insert_with(|| self.hash.clone().finalize().into());
        }
        Ok(len)
    }
}

/// Notes `octets` read at `at`, in order: one entry per [`ARRIVAL_BIN`], stamped with its latest byte.
pub(crate) fn note_arrival(arrivals: &mut Vec<(u64, u64)>, at: u64, octets: u64) {
    let bin = ARRIVAL_BIN.as_nanos();
    match arrivals.last_mut() {
        Some((t, n)) if *t / bin == at / bin => {
            *t = at;
            *n += octets;
        }
        _ => arrivals.push((at, octets)),
    }
}

/// What the receiver of a body has read so far.
#[derive(Default)]
pub(crate) struct Received {
    /// Bytes.
    pub(crate) octets: u64,
    /// When the first and the latest byte were read, since the run's start.
    pub(crate) first_ns: Option<u64>,
    /// See `first_ns`.
    pub(crate) last_ns: Option<u64>,
    /// Bytes per bin of [`ARRIVAL_BIN`], in order.
    pub(crate) arrivals: Vec<(u64, u64)>,
    hash: Sha256,
}

impl Received {
    /// Notes bytes read at `now`; the run began at `start`.
    pub(crate) fn note(&mut self, start: Instant, now: Instant, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = now.since(start).as_nanos();
        self.octets += bytes.len() as u64;
        self.first_ns.get_or_insert(at);
        self.last_ns = Some(at);
        self.hash.update(bytes);
        note_arrival(&mut self.arrivals, at, bytes.len() as u64);
    }
    /// The hash of everything read.
    pub(crate) fn hash(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_body_follows_from_seed_and_name_whatever_the_size_of_reads() {
        let mut whole = Vec::new();
        Content::new(Seed(7), "page", 1001).read_to_end(&mut whole).unwrap();
        assert_eq!(whole.len(), 1001);
        let mut content = Content::new(Seed(7), "page", 1001);
        let digest = content.digest();
        let (mut pieces, mut buf) = (Vec::new(), [0; 13]);
        loop {
            let n = content.read(&mut buf).unwrap();
            pieces.extend_from_slice(&buf[..n]);
            if n == 0 {
                break;
            }
        }
        assert_eq!(pieces, whole);
        let mut received = Received::default();
        received.note(Instant::ZERO, Instant::from_millis(5), &whole[..500]);
        assert_ne!(Some(received.hash()), *digest.lock().unwrap());
        received.note(Instant::ZERO, Instant::from_micros(5_900), &whole[500..600]);
        received.note(Instant::ZERO, Instant::from_millis(6), &whole[600..]);
        assert_eq!(Some(received.hash()), *digest.lock().unwrap());
        assert_eq!(received.arrivals, [(5_900_000, 600), (6_000_000, 401)]);
        let mut other = Vec::new();
        Content::new(Seed(8), "page", 1001).read_to_end(&mut other).unwrap();
        assert_ne!(other, whole);
    }
}
