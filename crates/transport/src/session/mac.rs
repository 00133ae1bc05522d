//! Denial-of-service limits: the two macs, cookies, and the load above which cookies are required.

use super::{
    COOKIE_LIFETIME, HANDSHAKES_PER_SECOND_MAX, PROVEN_HANDSHAKES_PER_HOST_MAX, PROVEN_HANDSHAKES_PER_SECOND_MAX,
};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::{digest, hmac};
use std::collections::BTreeMap;
use wavelane_base::{Address, Entropy, Instant, PortId, Span};
use wavelane_wire::datagram::{COOKIE_NONCE_LEN, CookieReply, MAC_LEN, SEALED_COOKIE_LEN, UnknownKey};

const MAC1_LABEL: &[u8] = b"wavelane mac1 v1";
const COOKIE_LABEL: &[u8] = b"wavelane cookie v1";
const UNKNOWN_LABEL: &[u8] = b"wavelane unknown key v1";

/// A cookie: proof that its sender receives datagrams at its address.
pub(super) type Cookie = [u8; MAC_LEN];

/// The keys derived from one public key alone.
pub(super) struct MacKeys {
    mac1: hmac::Key,
    cookie: hmac::Key,
    unknown: hmac::Key,
}

fn labelled(label: &[u8], public_key: &[u8; 32]) -> hmac::Key {
    let hash = digest::digest(&digest::SHA256, &[label, public_key].concat());
    hmac::Key::new(hmac::HMAC_SHA256, hash.as_ref())
}

/// HMAC-SHA-256 cut to its first 16 bytes (RFC 2104, section 5).
fn mac(key: &hmac::Key, message: &[u8]) -> [u8; MAC_LEN] {
    let tag = hmac::sign(key, message);
    let mut out = [0; MAC_LEN];
    out.copy_from_slice(&tag.as_ref()[..MAC_LEN]);
    out
}

/// Compares in constant time.
fn same(a: &[u8; MAC_LEN], b: &[u8; MAC_LEN]) -> bool {
    core::hint::black_box(a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y))) == 0
}

/// The second mac: under a cookie.
pub(super) fn mac2(cookie: &Cookie, before_mac2: &[u8]) -> [u8; MAC_LEN] {
    mac(&hmac::Key::new(hmac::HMAC_SHA256, cookie), before_mac2)
}

impl MacKeys {
    pub(super) fn new(public_key: &[u8; 32]) -> Self {
        Self {
            mac1: labelled(MAC1_LABEL, public_key),
            cookie: labelled(COOKIE_LABEL, public_key),
            unknown: labelled(UNKNOWN_LABEL, public_key),
        }
    }
    /// The first mac of a message to the owner of the public key.
    pub(super) fn mac1(&self, before_mac1: &[u8]) -> [u8; MAC_LEN] {
        mac(&self.mac1, before_mac1)
    }
    /// Whether a message to us carries the right first mac.
    pub(super) fn mac1_is_right(&self, before_mac1: &[u8], shown: &[u8; MAC_LEN]) -> bool {
        same(&self.mac1(before_mac1), shown)
    }
    /// The key owner's reply to the message with this first mac, that its sender's key is unknown.
    pub(super) fn unknown_key(&self, receiver: u32, mac1: &[u8; MAC_LEN]) -> UnknownKey {
        UnknownKey { receiver, mac: mac(&self.unknown, &[&receiver.to_be_bytes()[..], mac1].concat()) }
    }
    /// Whether such a reply to our message with this first mac is the key owner's.
    pub(super) fn unknown_key_is_right(&self, word: &UnknownKey, mac1: &[u8; MAC_LEN]) -> bool {
        same(&self.unknown_key(word.receiver, mac1).mac, &word.mac)
    }
    /// A key for one cookie reply: the nonce is too long for the cipher, so it goes into the key.
    fn reply_key(&self, nonce: &[u8; COOKIE_NONCE_LEN]) -> LessSafeKey {
        let key = hmac::sign(&self.cookie, nonce);
        LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key.as_ref()).expect("HMAC-SHA-256 gives 32 bytes"))
    }
    /// Seals a cookie for the sender of the message with this first mac.
    fn seal_cookie(
        &self,
        receiver: u32,
        nonce: [u8; COOKIE_NONCE_LEN],
        mac1: &[u8; MAC_LEN],
        c: Cookie,
    ) -> CookieReply {
        let mut sealed = [0; SEALED_COOKIE_LEN];
        let (plain, tag_room) = sealed.split_at_mut(MAC_LEN);
        plain.copy_from_slice(&c);
        let tag = self
            .reply_key(&nonce)
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key([0; 12]), Aad::from(mac1), plain)
            .expect("a cookie is far shorter than the cipher's limit");
        tag_room.copy_from_slice(tag.as_ref());
        CookieReply { receiver, nonce, sealed }
    }
    /// The cookie in a reply by the owner of the public key to our message with this first mac.
    pub(super) fn open_cookie(&self, reply: &CookieReply, mac1: &[u8; MAC_LEN]) -> Option<Cookie> {
        let mut sealed = reply.sealed;
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let plain = self.reply_key(&reply.nonce).open_in_place(nonce, Aad::from(mac1), &mut sealed).ok()?;
        Cookie::try_from(&*plain).ok()
    }
}

/// What to do with a handshake message whose first mac is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    Admit,
    AskForCookie,
    Refuse,
}

/// Counts handshake messages and limits the costly work that they cause.
pub(super) struct Guard {
    second: Instant,
    /// Per port: a flood on one port does not put another under load, where a cookie might not reach its receiver.
    seen: BTreeMap<PortId, u32>,
    proven: u32,
    /// The proven ones per host, where a host is an octet derived from the secret.
    by_host: [u32; 256],
    secret: hmac::Key,
    secret_made: Instant,
}

fn new_secret(entropy: &mut Entropy) -> hmac::Key {
    let mut secret = [0; 32];
    entropy.fill(&mut secret);
    hmac::Key::new(hmac::HMAC_SHA256, &secret)
}

impl Guard {
    pub(super) fn new(now: Instant, entropy: &mut Entropy) -> Self {
        Self {
            second: now,
            seen: BTreeMap::new(),
            proven: 0,
            by_host: [0; 256],
            secret: new_secret(entropy),
            secret_made: now,
        }
    }
    /// The cookie of an address: no state is kept per address.
    pub(super) fn cookie(&self, port: PortId, from: Option<Address>) -> Cookie {
        let mut place = [0; 21];
        place[..2].copy_from_slice(&port.0.to_be_bytes());
        if let Some(from) = from {
            place[2..].copy_from_slice(&from.octets());
        }
        mac(&self.secret, &place)
    }
    /// An octet that few other hosts share, and different ones under the next secret.
    fn host(&self, from: Option<Address>) -> u8 {
        let (octets, owned) = from.map(Address::host).map_or(([0; 16], 0), |host| (host.octets().0, host.owned()));
        mac(&self.secret, &octets[..owned])[0]
    }
    /// Decides on a handshake message whose first mac is right.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        entropy: &mut Entropy,
        place: (PortId, Option<Address>),
        before_mac2: &[u8],
        shown: &[u8; MAC_LEN],
    ) -> Admission {
        if now.since(self.second) >= Span::from_secs(1) {
            self.second = now;
            self.proven = 0;
            self.by_host = [0; 256];
            self.seen.clear();
        }
        let seen = self.seen.entry(place.0).or_default();
        *seen = seen.saturating_add(1);
        if *seen <= HANDSHAKES_PER_SECOND_MAX {
            return Admission::Admit;
        }
        if now.since(self.secret_made) >= COOKIE_LIFETIME {
            self.secret = new_secret(entropy);
            self.secret_made = now;
        }
        if !same(&mac2(&self.cookie(place.0, place.1), before_mac2), shown) {
            return Admission::AskForCookie;
        }
        // One host has many ports, and may prove them all.
        let host = self.host(place.1);
        let of_host = &mut self.by_host[usize::from(host)];
        *of_host = of_host.saturating_add(1);
        if *of_host > PROVEN_HANDSHAKES_PER_HOST_MAX {
            return Admission::Refuse;
        }
        self.proven = self.proven.saturating_add(1);
        if self.proven <= PROVEN_HANDSHAKES_PER_SECOND_MAX { Admission::Admit } else { Admission::Refuse }
    }
    /// The reply that asks the sender of a message to prove its address. `ours` are the keys of our public key.
    pub(super) fn reply(
        &self,
        entropy: &mut Entropy,
        ours: &MacKeys,
        place: (PortId, Option<Address>),
        receiver: u32,
        mac1: &[u8; MAC_LEN],
    ) -> CookieReply {
        let mut nonce = [0; COOKIE_NONCE_LEN];
        entropy.fill(&mut nonce);
        ours.seal_cookie(receiver, nonce, mac1, self.cookie(place.0, place.1))
    }
}
