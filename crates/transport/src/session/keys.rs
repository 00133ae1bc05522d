//! One session's data keys, used in place.

use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use wavelane_base::{Instant, Span};
use wavelane_wire::datagram::{DATA_HEADER_LEN, DataHeader, Suite, TAG_LEN};

/// The keys of one completed handshake.
pub(super) struct Session {
    /// Our index, which the peer puts into its datagrams.
    pub(super) index: u32,
    /// The peer's index, which we put into ours.
    pub(super) peer_index: u32,
    /// The cipher.
    #[cfg(test)]
    pub(super) suite: Suite,
    sealing: LessSafeKey,
    opening: LessSafeKey,
    /// When it was established, on our clock.
    pub(super) established: Instant,
    /// Whether we initiated it.
    pub(super) initiator: bool,
    /// The peer's boot epoch.
    pub(super) epoch: u64,
    /// Datagrams sealed so far.
    pub(super) sealed: u64,
}

/// The result of a finished handshake, without times.
pub(super) struct Outcome {
    pub(super) index: u32,
    pub(super) peer_index: u32,
    pub(super) initiator: bool,
    pub(super) epoch: u64,
    pub(super) suite: Suite,
    /// The two keys of Noise's Split(): the initiator seals with the first.
    pub(super) split: ([u8; 32], [u8; 32]),
}

impl Session {
    pub(super) fn new(now: Instant, outcome: Outcome) -> Self {
        let algorithm = match outcome.suite {
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Suite::Aes256Gcm => &AES_256_GCM,
        };
        let key = |bytes: &[u8; 32]| {
            LessSafeKey::new(UnboundKey::new(algorithm, bytes).expect("both ciphers take 32-byte keys"))
        };
        let (first, second) = (key(&outcome.split.0), key(&outcome.split.1));
        let (sealing, opening) = if outcome.initiator { (first, second) } else { (second, first) };
        Self {
            index: outcome.index,
            peer_index: outcome.peer_index,
            #[cfg(test)]
            suite: outcome.suite,
            sealing,
            opening,
            established: now,
            initiator: outcome.initiator,
            epoch: outcome.epoch,
            sealed: 0,
        }
    }
    /// The age of its keys.
    pub(super) fn age(&self, now: Instant) -> Span {
        now.since(self.established)
    }
    /// Seals the plaintext behind the space for the header. Returns the datagram's length.
    pub(super) fn seal(&mut self, lane: u8, number: u64, buf: &mut [u8], plain_len: usize) -> usize {
        let header = DataHeader { lane, receiver: self.peer_index, number };
        let (clear, rest) = buf.split_at_mut(DATA_HEADER_LEN);
        let clear_bytes = header.to_bytes();
        clear.copy_from_slice(&clear_bytes);
        let (plain, rest) = rest.split_at_mut(plain_len);
        let nonce = Nonce::assume_unique_for_key(header.nonce());
        let tag = self
            .sealing
            .seal_in_place_separate_tag(nonce, Aad::from(clear_bytes), plain)
            .expect("a datagram is far shorter than the cipher's limit");
        rest[..TAG_LEN].copy_from_slice(tag.as_ref());
        self.sealed += 1;
        DATA_HEADER_LEN + plain_len + TAG_LEN
    }
    /// Opens a datagram in place and returns the plaintext's length, or `None` if it was not sealed by the peer.
    pub(super) fn open(&self, header: DataHeader, datagram: &mut [u8]) -> Option<usize> {
        let (clear, sealed) = datagram.split_first_chunk_mut::<DATA_HEADER_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(header.nonce());
        let plain = self.opening.open_in_place(nonce, Aad::from(*clear), sealed).ok()?;
        Some(plain.len())
    }
}
