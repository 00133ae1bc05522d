//! The Noise handshake (Noise Protocol Framework, revision 34) through `snow`, with our own random generator.

use curve25519_dalek::MontgomeryPoint;
use curve25519_dalek::edwards::EdwardsBasepointTable;
use curve25519_dalek::traits::BasepointTable;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use wavelane_base::Entropy;
use wavelane_wire::datagram::WIRE_VERSION;

/// The handshake: after one round trip both sides know each other's static key, and a pre-shared key may protect it against a future break
/// of X25519.
const PATTERN: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// The start of the prologue; the wire version and the initiator's index follow.
const PROLOGUE: &[u8] = b"wavelane session";

/// For so many of the known keys multiples are kept, which take 30 kB of memory each.
const MULTIPLES_MAX: usize = 64;

/// Our static key, and what repeats in every handshake with the owner of a key that is known beforehand: of six multiplications on the
/// curve two have the same result each time, and two the same point. Worked out when it is first needed.
pub struct Statics {
    private: [u8; 32],
    public: [u8; 32],
    known: BTreeMap<[u8; 32], OnceLock<Known>>,
}

/// What is kept of a known key.
struct Known {
    /// What the two static keys agree on.
    shared: [u8; 32],
    /// For a multiplication by any number in a quarter of the time. `None` of a key on the curve's twist, or beyond [`MULTIPLES_MAX`].
    multiples: Option<Box<EdwardsBasepointTable>>,
}

impl Statics {
    /// `known` are the public keys of those with whom there may be many handshakes; the first of them may be faster.
    pub fn new(private: [u8; 32], known: impl IntoIterator<Item = [u8; 32]>) -> Arc<Self> {
        let known = known.into_iter().map(|key| (key, OnceLock::new())).collect();
        Arc::new(Self { private, public: public_key(&private), known })
    }
    fn of(&self, public: &[u8; 32]) -> Option<&Known> {
        let known = self.known.get(public)?;
        Some(known.get_or_init(|| {
            let full = self.known.values().filter(|known| known.get().is_some()).count() >= MULTIPLES_MAX;
            let point = if full { None } else { MontgomeryPoint(*public).to_edwards(0) };
            let multiples = point.map(|point| Box::new(EdwardsBasepointTable::create(&point)));
            Known { shared: MontgomeryPoint(*public).mul_clamped(self.private).to_bytes(), multiples }
        }))
    }
}

impl core::fmt::Debug for Statics {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Statics").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// X25519 (RFC 7748), by what is known beforehand.
struct Curve {
    statics: Arc<Statics>,
    private: [u8; 32],
    public: [u8; 32],
    is_static: bool,
}

impl Dh for Curve {
    fn name(&self) -> &'static str {
        "25519"
    }
    fn pub_len(&self) -> usize {
        32
    }
    fn priv_len(&self) -> usize {
        32
    }
    fn set(&mut self, private: &[u8]) {
        assert!(private == self.statics.private, "only our static key is given");
        self.private = self.statics.private;
        self.public = self.statics.public;
        self.is_static = true;
    }
    fn generate(&mut self, random: &mut dyn Random) -> Result<(), snow::Error> {
        random.try_fill_bytes(&mut self.private)?;
        self.public = public_key(&self.private);
        self.is_static = false;
        Ok(())
    }
    fn pubkey(&self) -> &[u8] {
        &self.public
    }
    fn privkey(&self) -> &[u8] {
        &self.private
    }
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let public = public.first_chunk().ok_or(snow::Error::Dh)?;
        let out = out.first_chunk_mut().ok_or(snow::Error::Dh)?;
        *out = match self.statics.of(public) {
            Some(known) if self.is_static => known.shared,
            Some(Known { multiples: Some(multiples), .. }) => {
                multiples.mul_base_clamped(self.private).to_montgomery().to_bytes()
            }
            _ => MontgomeryPoint(*public).mul_clamped(self.private).to_bytes(),
        };
        Ok(())
    }
}

/// Gives snow our random generator instead of the operating system's, so that a simulated handshake repeats byte for byte, and our curve.
struct Resolver {
    seed: [u8; 32],
    statics: Arc<Statics>,
}

struct Dice(Entropy);

impl Random for Dice {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill(out);
        Ok(())
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Dice(Entropy::from_os_bytes(self.seed))))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        let empty = [0; 32];
        let curve = Curve { statics: Arc::clone(&self.statics), private: empty, public: empty, is_static: false };
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(curve) as Box<dyn Dh>)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

fn builder(entropy: &mut Entropy, statics: &Arc<Statics>) -> Builder<'static> {
    let mut seed = [0; 32];
    entropy.fill(&mut seed);
    let params = PATTERN.parse().expect("the pattern's name is well-formed");
    Builder::with_resolver(params, Box::new(Resolver { seed, statics: Arc::clone(statics) }))
}

/// The prologue of a session's handshake.
pub(super) fn prologue(initiator_index: u32) -> Vec<u8> {
    [PROLOGUE, &[WIRE_VERSION], &initiator_index.to_be_bytes()].concat()
}

/// The side that sends the first message.
pub(crate) fn initiator(
    entropy: &mut Entropy,
    statics: &Arc<Statics>,
    peer_public: &[u8; 32],
    preshared: &[u8; 32],
    prologue: &[u8],
) -> HandshakeState {
    builder(entropy, statics)
        .local_private_key(&statics.private)
        .and_then(|b| b.remote_public_key(peer_public))
        .and_then(|b| b.psk(2, preshared))
        .and_then(|b| b.prologue(prologue))
        .and_then(Builder::build_initiator)
        .expect("every key that the pattern needs is given once")
}

/// The side that answers. The pre-shared key is set once the initiator is known.
pub(crate) fn responder(entropy: &mut Entropy, statics: &Arc<Statics>, prologue: &[u8]) -> HandshakeState {
    builder(entropy, statics)
        .local_private_key(&statics.private)
        .and_then(|b| b.prologue(prologue))
        .and_then(Builder::build_responder)
        .expect("every key that the pattern needs is given once")
}

/// The public key of a private key (X25519, RFC 7748).
pub fn public_key(private: &[u8; 32]) -> [u8; 32] {
    MontgomeryPoint::mul_base_clamped(*private).to_bytes()
}

/// A new key pair: (private, public).
pub fn generate(entropy: &mut Entropy) -> ([u8; 32], [u8; 32]) {
    let mut private = [0; 32];
    entropy.fill(&mut private);
    (private, public_key(&private))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by snow alone.
    fn plainly(private: &[u8; 32], public: &[u8; 32]) -> ([u8; 32], [u8; 32]) {
        let mut dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("the default resolver has X25519");
        let mut out = [0; 32];
        dh.set(private);
        dh.dh(public, &mut out).expect("X25519 has a result for all keys");
        (dh.pubkey().try_into().expect("32 bytes"), out)
    }

    proptest! {
        /// Any octets are a public key: about half of them on the curve, the others on its twist.
        #[test]
        fn what_is_known_beforehand_changes_no_result(
            private: [u8; 32],
            seed: [u8; 32],
            theirs: [u8; 32],
            kind in 0..3_usize
        ) {
            // Of a real key, of any octets, and of a point of small order with another part.
            let theirs = [public_key(&theirs), theirs, [0; 32]][kind];
            for known in [vec![theirs], Vec::new()] {
                let statics = Statics::new(private, known);
                let resolver = Resolver { seed, statics: Arc::clone(&statics) };
                let mut dh = resolver.resolve_dh(&DHChoice::Curve25519).expect("this one");
                let mut out = [0; 32];
                dh.set(&private);
                dh.dh(&theirs, &mut out).expect("it has a result");
                prop_assert_eq!((dh.pubkey(), out), (&plainly(&private, &theirs).0[..], plainly(&private, &theirs).1));
                dh.generate(&mut Dice(Entropy::from_os_bytes(seed))).expect("there are numbers");
                let mut ephemeral = [0; 32];
                Entropy::from_os_bytes(seed).fill(&mut ephemeral);
                dh.dh(&theirs, &mut out).expect("it has a result");
                let plain = plainly(&ephemeral, &theirs);
                prop_assert_eq!((dh.pubkey(), out), (&plain.0[..], plain.1));
            }
        }
    }

    #[test]
    fn few_keys_have_multiples() {
        let keys: Vec<[u8; 32]> = (0..=MULTIPLES_MAX as u8).map(|n| public_key(&[n + 1; 32])).collect();
        let statics = Statics::new([200; 32], keys.iter().copied());
        let with = |keys: &[[u8; 32]]| {
            keys.iter().filter(|key| statics.of(key).is_some_and(|k| k.multiples.is_some())).count()
        };
        assert_eq!((with(&keys[..1]), with(&keys), statics.of(&[7; 32]).is_none()), (1, MULTIPLES_MAX, true));
    }

    #[test]
    fn rfc_7748_section_5_2_first_iteration() {
        // Scalar 9 on the base point, whose u-coordinate is 9 too.
        let mut nine = [0; 32];
        nine[0] = 9;
        let hex: String = public_key(&nine).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
    }
}
