//! Encryption between the two edges of a flow: keys from a separate handshake, under which relays carry bytes that they can neither read
//! nor change unnoticed. `docs/protocol/parcels.md` describes it in prose.
//!
//! The handshake is that of sessions; its two messages travel in the flow's Open and Answer. The bytes of each direction are sealed in
//! parcels, with the offset as nonce: anything dropped, duplicated, moved or changed does not open. The edges' words to each other (the
//! progress of the applications) are authenticated under the same keys.

use crate::session::{NO_PRESHARED_KEY, Statics, noise};
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use snow::HandshakeState;
use std::sync::Arc;
use wavelane_base::Entropy;
use wavelane_wire::codec::DecodeError;
use wavelane_wire::datagram::{Suite, TAG_LEN, WIRE_VERSION, capability};
use wavelane_wire::frame::{ANSWER_KEYS_LEN, OPEN_KEYS_LEN, Reach, Word};
use wavelane_wire::parcel::{
    PARCEL_HEADER_LEN, PARCEL_OVERHEAD, PARCEL_PLAIN_MAX, WordIn, parcel_header, parcel_nonce, word_about, word_nonce,
};

/// The payload of the opening edge's message: version, capabilities.
const INIT_LEN: usize = 5;
/// The payload of the answering edge's message: suite.
const ANSWER_LEN: usize = 1;
/// Noise's IK: an ephemeral key; the static key, sealed; the payload, sealed.
const _: () = assert!(OPEN_KEYS_LEN == 32 + 32 + TAG_LEN + INIT_LEN + TAG_LEN);
const _: () = assert!(ANSWER_KEYS_LEN == 32 + ANSWER_LEN + TAG_LEN);

/// The opening edge while it waits for the answer.
pub struct Asking {
    noise: HandshakeState,
    message: [u8; OPEN_KEYS_LEN],
    aes: bool,
}

/// The request of an opening edge, decoded.
pub struct Asked {
    noise: HandshakeState,
    caller: [u8; 32],
    both_aes: bool,
}

/// Both directions' keys and positions.
pub struct FlowKeys {
    sealing: LessSafeKey,
    opening: LessSafeKey,
    /// Octets of the flow sealed and opened so far.
    sealed: u64,
    opened: u64,
    /// The other edge's direction has ended.
    ended: bool,
    /// Words sent, and the lowest count accepted as new.
    said: u64,
    heard: u64,
}

/// The kind of the next octets in the other edge's direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    /// Not a whole parcel yet.
    Part,
    /// A parcel of this many octets in the flow.
    Bytes(usize),
    /// The last parcel, of this many octets in the flow.
    End(usize),
    /// Not what the other edge sealed at this position.
    Foreign,
}

/// The result of checking a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It is the other edge's, and the newest.
    News,
    /// A later one was received before.
    Old,
    /// It is not the other edge's.
    Forged,
}

impl Asking {
    /// Begins a handshake with the owner of the key `egress`. `prologue` identifies the subject.
    pub fn new(dice: &mut Entropy, own: &Arc<Statics>, egress: &[u8; 32], prologue: &[u8], aes: bool) -> Self {
        let mut noise = noise::initiator(dice, own, egress, &NO_PRESHARED_KEY, prologue);
        let capabilities = if aes { capability::AES } else { 0 };
        let mut payload = [WIRE_VERSION; INIT_LEN];
        payload[1..].copy_from_slice(&capabilities.to_be_bytes());
        let mut message = [0; OPEN_KEYS_LEN];
        noise.write_message(&payload, &mut message).expect("the message has this length");
        Self { noise, message, aes }
    }
    /// The content of the Open.
    pub fn message(&self) -> [u8; OPEN_KEYS_LEN] {
        self.message
    }
    /// The keys, if the answer is the egress's. If it is not, another answer may follow.
    pub fn agree(&mut self, answer: &[u8; ANSWER_KEYS_LEN]) -> Option<FlowKeys> {
        let mut payload = [0; ANSWER_KEYS_LEN];
        let len = self.noise.read_message(answer, &mut payload).ok()?;
        let suite = match payload[..len] {
            [0] => Suite::ChaCha20Poly1305,
            [1] if self.aes => Suite::Aes256Gcm,
            _ => return None,
        };
        Some(FlowKeys::new(suite, self.noise.dangerously_get_raw_split(), true))
    }
}

impl Asked {
    /// Reads the content of an Open. An error if it was not made for us and for this flow.
    pub fn read(
        dice: &mut Entropy,
        own: &Arc<Statics>,
        prologue: &[u8],
        aes: bool,
        message: &[u8; OPEN_KEYS_LEN],
    ) -> Result<Self, DecodeError> {
        let forged = DecodeError::Invalid("keys of a flow");
        let mut noise = noise::responder(dice, own, prologue);
        let mut payload = [0; OPEN_KEYS_LEN];
        let len = noise.read_message(message, &mut payload).map_err(|_| forged)?;
        let caller = noise.get_remote_static().and_then(|key| key.try_into().ok()).ok_or(forged)?;
        let [WIRE_VERSION, capabilities @ ..] = &payload[..len] else { return Err(forged) };
        let capabilities = u32::from_be_bytes(capabilities.try_into().map_err(|_| forged)?);
        Ok(Self { noise, caller, both_aes: aes && capabilities & capability::AES != 0 })
    }
    /// The caller's key; its possession is proven.
    pub fn caller(&self) -> [u8; 32] {
        self.caller
    }
    /// The content of the Answer, and the keys.
    pub fn agree(mut self) -> ([u8; ANSWER_KEYS_LEN], FlowKeys) {
        self.noise.set_psk(2, &NO_PRESHARED_KEY).expect("the pattern has a pre-shared key at 2");
        let suite = if self.both_aes { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 };
        let mut message = [0; ANSWER_KEYS_LEN];
        self.noise.write_message(&[u8::from(self.both_aes)], &mut message).expect("the message has this length");
        (message, FlowKeys::new(suite, self.noise.dangerously_get_raw_split(), false))
    }
}

impl FlowKeys {
    fn new(suite: Suite, split: ([u8; 32], [u8; 32]), opener: bool) -> Self {
        let algorithm = match suite {
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Suite::Aes256Gcm => &AES_256_GCM,
        };
        let key = |bytes: &[u8; 32]| {
            LessSafeKey::new(UnboundKey::new(algorithm, bytes).expect("both ciphers take 32-byte keys"))
        };
        let (first, second) = (key(&split.0), key(&split.1));
        let (sealing, opening) = if opener { (first, second) } else { (second, first) };
        Self { sealing, opening, sealed: 0, opened: 0, ended: false, said: 0, heard: 0 }
    }

    /// Appends the next parcel to `out`: with the first octets of `plain`, whose count is returned, or, if `plain` is empty, the one that
    /// ends the direction.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> usize {
        let plain = &plain[..plain.len().min(PARCEL_PLAIN_MAX)];
        let header = parcel_header(plain.len()).expect("it was cut to the longest");
        let from = out.len();
        out.extend(header);
        out.extend(plain);
        let nonce = Nonce::assume_unique_for_key(parcel_nonce(self.sealed));
        let tag = self
            .sealing
            .seal_in_place_separate_tag(nonce, Aad::from(header), &mut out[from + PARCEL_HEADER_LEN..])
            .expect("a parcel is far shorter than the cipher's limit");
        out.extend(tag.as_ref());
        self.sealed += (out.len() - from) as u64;
        plain.len()
    }

    /// Opens the parcel at the start of the other edge's next octets, given in two parts; its content is appended to `plain`.
    pub fn open(&mut self, (front, back): (&[u8], &[u8]), plain: &mut Vec<u8>) -> Opened {
        let Some(head) = header((front, back)) else { return Opened::Part };
        let whole = whole_len(head);
        if self.ended || whole > PARCEL_PLAIN_MAX + PARCEL_OVERHEAD {
            return Opened::Foreign;
        }
        if front.len() + back.len() < whole {
            return Opened::Part;
        }
        let from = plain.len();
        plain.extend(&front[PARCEL_HEADER_LEN.min(front.len())..front.len().min(whole)]);
        plain.extend(&back[PARCEL_HEADER_LEN.saturating_sub(front.len())..whole - front.len().min(whole)]);
        let nonce = Nonce::assume_unique_for_key(parcel_nonce(self.opened));
        let opened = self.opening.open_in_place(nonce, Aad::from(head), &mut plain[from..]).map(|plain| plain.len());
        plain.truncate(from + opened.unwrap_or(0));
        if opened.is_err() {
            return Opened::Foreign;
        }
        self.opened += whole as u64;
        self.ended = plain.len() == from;
        if self.ended { Opened::End(whole) } else { Opened::Bytes(whole) }
    }

    /// Whether the other edge's direction has ended here.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Authenticates one of our words, once.
    pub fn word(&mut self, place: WordIn, reach: Reach) -> Word {
        let count = self.said;
        self.said += 1;
        let nonce = Nonce::assume_unique_for_key(word_nonce(count));
        let about = Aad::from(word_about(place, reach));
        let tag = self
            .sealing
            .seal_in_place_separate_tag(nonce, about, &mut [])
            .expect("nothing is no longer than the limit");
        let mut word = Word { count, tag: [0; TAG_LEN] };
        word.tag.copy_from_slice(tag.as_ref());
        word
    }

    /// Checks whether a word is the other edge's.
    pub fn hear(&mut self, place: WordIn, reach: Reach, word: Word) -> Heard {
        let nonce = Nonce::assume_unique_for_key(word_nonce(word.count));
        let mut tag = word.tag;
        if self.opening.open_in_place(nonce, Aad::from(word_about(place, reach)), &mut tag).is_err() {
            return Heard::Forged;
        }
        if word.count < self.heard {
            return Heard::Old;
        }
        self.heard = word.count + 1;
        Heard::News
    }
}

/// Whether the other edge's next octets hold a whole parcel.
pub fn has_whole((front, back): (&[u8], &[u8])) -> bool {
    header((front, back)).is_some_and(|head| front.len() + back.len() >= whole_len(head))
}

fn header((front, back): (&[u8], &[u8])) -> Option<[u8; PARCEL_HEADER_LEN]> {
    let mut octets = front.iter().chain(back).copied();
    Some([octets.next()?, octets.next()?])
}

fn whole_len(head: [u8; PARCEL_HEADER_LEN]) -> usize {
    usize::from(u16::from_be_bytes(head)) + PARCEL_OVERHEAD
}

impl core::fmt::Debug for FlowKeys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FlowKeys").field("sealed", &self.sealed).field("opened", &self.opened).finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Asking {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;
