//! The Noise handshake (Noise Protocol Framework, revision 34) through `snow`, with our own random generator.

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use wavelane_base::Entropy;
use wavelane_wire::datagram::WIRE_VERSION;

/// The handshake: after one round trip both sides know each other's static key, and a pre-shared key may protect it against a future break
/// of X25519.
const PATTERN: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// The start of the prologue; the wire version and the initiator's index follow.
const PROLOGUE: &[u8] = b"wavelane session";

/// Gives snow our random generator instead of the operating system's, so that a simulated handshake repeats byte for byte.
struct Resolver {
    seed: [u8; 32],
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
        DefaultResolver.resolve_dh(choice)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

fn builder(entropy: &mut Entropy) -> Builder<'static> {
    let mut seed = [0; 32];
    entropy.fill(&mut seed);
    let params = PATTERN.parse().expect("the pattern's name is well-formed");
    Builder::with_resolver(params, Box::new(Resolver { seed }))
}

/// The prologue of a session's handshake.
pub(super) fn prologue(initiator_index: u32) -> Vec<u8> {
    [PROLOGUE, &[WIRE_VERSION], &initiator_index.to_be_bytes()].concat()
}

/// The side that sends the first message.
pub(crate) fn initiator(
    entropy: &mut Entropy,
    private: &[u8; 32],
    peer_public: &[u8; 32],
    preshared: &[u8; 32],
    prologue: &[u8],
) -> HandshakeState {
    builder(entropy)
        .local_private_key(private)
        .and_then(|b| b.remote_public_key(peer_public))
        .and_then(|b| b.psk(2, preshared))
        .and_then(|b| b.prologue(prologue))
        .and_then(Builder::build_initiator)
        .expect("every key that the pattern needs is given once")
}

/// The side that answers. The pre-shared key is set once the initiator is known.
pub(crate) fn responder(entropy: &mut Entropy, private: &[u8; 32], prologue: &[u8]) -> HandshakeState {
    builder(entropy)
        .local_private_key(private)
        .and_then(|b| b.prologue(prologue))
        .and_then(Builder::build_responder)
        .expect("every key that the pattern needs is given once")
}

/// The public key of a private key (X25519, RFC 7748).
pub fn public_key(private: &[u8; 32]) -> [u8; 32] {
    let mut dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("the default resolver has X25519");
    dh.set(private);
    dh.pubkey().try_into().expect("X25519 public keys are 32 bytes")
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

    #[test]
    fn rfc_7748_section_5_2_first_iteration() {
        // Scalar 9 on the base point, whose u-coordinate is 9 too.
        let mut nine = [0; 32];
        nine[0] = 9;
        let hex: String = public_key(&nine).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
    }
}
