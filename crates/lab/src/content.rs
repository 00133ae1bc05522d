//! Payload of the bulk flows: bytes derived from the seed and the flow's name, and what their receiver saw.
//!
//! In a stamped body every [`AGE_OCTETS`] bytes begin with the time at which the sender generated them for immediate writing. Sender and
//! receiver share this machine's clock, so the receiver knows each stamp's age exactly.

use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use wavelane_base::{Chance, Instant, Seed};
use wavelane_host::realtime;
use wavelane_run::{AGE_OCTETS, AGES_MAX, ARRIVAL_BIN};

/// Bytes of a time stamp: nanoseconds of the machine's monotonic clock, big-endian.
const STAMP: usize = 8;

/// A body of pseudo-random bytes, hashed while it is read.
pub(crate) struct Content {
    /// Bytes read so far.
    position: u64,
    /// The stamp of the current stretch, if the body is stamped.
    stamp: Option<[u8; STAMP]>,
    chance: Chance,
    left: u64,
    spare: [u8; 8],
    spare_left: usize,
    hash: Sha256,
    digest: Digested,
}

/// Receives the hash of a body once all of it was read.
pub(crate) type Digested = Arc<Mutex<Option<[u8; 32]>>>;

impl Content {
    /// The body of `flow` in the run `seed`, `octets` long.
    pub(crate) fn new(seed: Seed, flow: &str, octets: u64) -> Self {
        let chance = seed.chance(&format!("flow {flow} / content"));
        let (hash, digest) = (Sha256::new(), Digested::default());
        Self { position: 0, stamp: None, chance, left: octets, spare: [0; 8], spare_left: 0, hash, digest }
    }
    /// The same body with time stamps.
    pub(crate) fn stamped(self) -> Self {
        Self { stamp: Some([0; STAMP]), ..self }
    }
    /// Writes the stamps that fall into `out`, which holds the bytes from the current position on.
    fn imprint(&mut self, out: &mut [u8]) {
        let Some(stamp) = &mut self.stamp else { return };
        for (at, byte) in (self.position..).zip(out) {
            match usize::try_from(at % AGE_OCTETS).expect("it is below AGE_OCTETS") {
                0 => {
                    *stamp = realtime::now().as_nanos().to_be_bytes();
                    *byte = stamp[0];
                }
                place @ 1..STAMP => *byte = stamp[place],
                _ => {}
            }
        }
    }
    /// Generates the next bytes without stamps: the rest of the last number, whole numbers, and the beginning of one more.
    fn make(&mut self, out: &mut [u8]) {
        let left = self.spare_left.min(out.len());
        let (first, rest) = out.split_at_mut(left);
        first.copy_from_slice(&self.spare[self.spare.len() - self.spare_left..][..left]);
        self.spare_left -= left;
        let mut numbers = rest.chunks_exact_mut(self.spare.len());
        for number in &mut numbers {
            number.copy_from_slice(&self.chance.next_u64().to_le_bytes());
        }
        let last = numbers.into_remainder();
        if !last.is_empty() {
            self.spare = self.chance.next_u64().to_le_bytes();
            last.copy_from_slice(&self.spare[..last.len()]);
            self.spare_left = self.spare.len() - last.len();
        }
    }
    /// Where the hash will be stored.
    pub(crate) fn digest(&self) -> Digested {
        Arc::clone(&self.digest)
    }
}

impl Read for Content {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        self.make(&mut out[..len]);
        self.imprint(&mut out[..len]);
        self.hash.update(&out[..len]);
        self.position += len as u64;
        self.left -= len as u64;
        if self.left == 0 {
            let mut slot = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
            slot.get_or_insert_with(|| self.hash.clone().finalize().into());
        }
        Ok(len)
    }
}

/// Records `octets` read at `at`, in order: one entry per [`ARRIVAL_BIN`], stamped with the time of its latest byte.
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
    /// Time of the first and the latest byte read, since the run's start.
    pub(crate) first_ns: Option<u64>,
    /// See `first_ns`.
    pub(crate) last_ns: Option<u64>,
    /// Bytes per bin of [`ARRIVAL_BIN`], in order.
    pub(crate) arrivals: Vec<(u64, u64)>,
    /// (time of reading, age) of each stretch of a stamped body.
    pub(crate) ages: Vec<(u64, u64)>,
    /// The stamp being read, if the body is stamped.
    stamp: Option<[u8; STAMP]>,
    hash: Sha256,
}

impl Received {
    /// For a body with stamps.
    pub(crate) fn of_stamped() -> Self {
        Self { stamp: Some([0; STAMP]), ..Self::default() }
    }
    /// Reads the stamps in `bytes`, which arrived at `now` and follow the bytes recorded before.
    fn read_stamps(&mut self, start: Instant, now: Instant, bytes: &[u8]) {
        let Some(stamp) = &mut self.stamp else { return };
        for (at, byte) in (self.octets..).zip(bytes) {
            let place = usize::try_from(at % AGE_OCTETS).expect("it is below AGE_OCTETS");
            if place < STAMP {
                stamp[place] = *byte;
            }
            if place == STAMP - 1 && self.ages.len() < AGES_MAX {
                let written = Instant::from_nanos(u64::from_be_bytes(*stamp));
                self.ages.push((now.since(start).as_nanos(), now.since(written).as_nanos()));
            }
        }
    }
    /// Records bytes read at `now`; the run began at `start`.
    pub(crate) fn note(&mut self, start: Instant, now: Instant, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = now.since(start).as_nanos();
        self.read_stamps(start, now, bytes);
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
        assert!(received.ages.is_empty());
        let mut other = Vec::new();
        Content::new(Seed(8), "page", 1001).read_to_end(&mut other).unwrap();
        assert_ne!(other, whole);
    }

    #[test]
    fn stamps_say_how_old_bytes_are_however_they_are_cut() {
        let start = realtime::now();
        let mut body = Content::new(Seed(1), "page", 4 * AGE_OCTETS + 5).stamped();
        let (mut bytes, mut piece) = (Vec::new(), [0; 1000]);
        while let Ok(len @ 1..) = body.read(&mut piece) {
            bytes.extend_from_slice(&piece[..len]);
        }
        let written = realtime::now();
        let mut received = Received::of_stamped();
        let read = written + wavelane_base::Span::from_millis(30);
        for cut in bytes.chunks(7) {
            received.note(start, read, cut);
        }
        // The fifth stretch's stamp is truncated.
        assert_eq!(received.ages.len(), 4);
        for (at, age) in &received.ages {
            assert_eq!(*at, read.since(start).as_nanos());
            assert!((30_000_000..=read.since(start).as_nanos()).contains(age), "{age}");
        }
        assert_eq!(Some(received.hash()), *body.digest().lock().unwrap());
    }
}
