//! One session's data keys, used in place.

use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use wavelane_base::{Instant, Span};
use wavelane_wire::datagram::{
    DATA_HEADER_LEN, DIGEST_LEN, DataHeader, OPEN_LEN_LEN, Suite, TAG_LEN, kind, open_octets,
};

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
    /// Whether both sides take partly open datagrams.
    pub(super) overhears: bool,
    /// Whether both sides take packets that are told by an earlier one's headers.
    pub(super) compresses: bool,
}

/// The names of octets that anyone can read: those of a partly open datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOctets {
    /// How many; the last of the payload.
    pub len: usize,
    /// Their digest.
    pub digest: [u8; DIGEST_LEN],
}

/// The SHA-256 of open octets.
fn whole_digest(octets: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, octets).as_ref());
    out
}

/// The digest by which neighbours name open octets: the first octets of their SHA-256.
pub fn digest_of(octets: &[u8]) -> [u8; DIGEST_LEN] {
    cut(&whole_digest(octets))
}

fn cut(whole: &[u8; 32]) -> [u8; DIGEST_LEN] {
    let mut out = [0; DIGEST_LEN];
    out.copy_from_slice(&whole[..DIGEST_LEN]);
    out
}

/// Octets of a partly open datagram's additional data.
const AROUND_LEN: usize = DATA_HEADER_LEN + OPEN_LEN_LEN + 32;

/// The additional data of a partly open datagram: the header, the length of the open octets, and their SHA-256.
fn around(header: &[u8], len: &[u8], whole: &[u8; 32]) -> [u8; AROUND_LEN] {
    let mut out = [0; AROUND_LEN];
    let (head, rest) = out.split_at_mut(DATA_HEADER_LEN);
    head.copy_from_slice(header);
    let (length, digest) = rest.split_at_mut(OPEN_LEN_LEN);
    length.copy_from_slice(len);
    digest.copy_from_slice(whole);
    out
}

/// The result of a finished handshake, without times.
pub(super) struct Outcome {
    pub(super) index: u32,
    pub(super) peer_index: u32,
    pub(super) initiator: bool,
    pub(super) epoch: u64,
    pub(super) suite: Suite,
    pub(super) overhears: bool,
    pub(super) compresses: bool,
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
            overhears: outcome.overhears,
            compresses: outcome.compresses,
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
    /// The same of a plaintext whose last `open` octets are left open, which are followed by room for their length. If the peer does not
    /// take such datagrams, they are sealed like the others.
    pub(super) fn seal_partly(
        &mut self,
        lane: u8,
        number: u64,
        buf: &mut [u8],
        (plain_len, open): (usize, usize),
    ) -> usize {
        if !self.overhears || open == 0 {
            return self.seal(lane, number, buf, plain_len);
        }
        let header = DataHeader { lane, receiver: self.peer_index, number };
        let clear_bytes = header.to_bytes_of(kind::DATA_OPEN);
        buf[..DATA_HEADER_LEN].copy_from_slice(&clear_bytes);
        let (start, end) = (DATA_HEADER_LEN + plain_len - open, DATA_HEADER_LEN + plain_len);
        let len = (open as u16).to_be_bytes();
        buf[end..end + OPEN_LEN_LEN].copy_from_slice(&len);
        let additional = Aad::from(around(&clear_bytes, &len, &whole_digest(&buf[start..end])));
        let nonce = Nonce::assume_unique_for_key(header.nonce());
        let tag = self
            .sealing
            .seal_in_place_separate_tag(nonce, additional, &mut buf[DATA_HEADER_LEN..start])
            .expect("a datagram is far shorter than the cipher's limit");
        let end = end + OPEN_LEN_LEN;
        buf[end..end + TAG_LEN].copy_from_slice(tag.as_ref());
        self.sealed += 1;
        end + TAG_LEN
    }
    /// Opens a partly open datagram in place: the plaintext's length, and what of it was open. `None` if it was not sealed by the peer, or
    /// if such datagrams were not agreed on.
    pub(super) fn open_partly(&self, header: DataHeader, datagram: &mut [u8]) -> Option<(usize, OpenOctets)> {
        let open = open_octets(datagram).ok().filter(|_| self.overhears)?;
        let whole = whole_digest(&datagram[open.clone()]);
        let tag = Tag::from(*datagram.last_chunk::<TAG_LEN>()?);
        let additional = around(&datagram[..DATA_HEADER_LEN], &datagram[open.end..open.end + OPEN_LEN_LEN], &whole);
        let nonce = Nonce::assume_unique_for_key(header.nonce());
        let sealed = &mut datagram[DATA_HEADER_LEN..open.start];
        self.opening.open_in_place_separate_tag(nonce, Aad::from(additional), tag, sealed, 0..).ok()?;
        Some((open.end - DATA_HEADER_LEN, OpenOctets { len: open.len(), digest: cut(&whole) }))
    }
    /// Opens a datagram in place and returns the plaintext's length, or `None` if it was not sealed by the peer.
    pub(super) fn open(&self, header: DataHeader, datagram: &mut [u8]) -> Option<usize> {
        let (clear, sealed) = datagram.split_first_chunk_mut::<DATA_HEADER_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(header.nonce());
        let plain = self.opening.open_in_place(nonce, Aad::from(*clear), sealed).ok()?;
        Some(plain.len())
    }
}
