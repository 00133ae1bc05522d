//! What relays of a simulation do that no gateway does.

use wavelane_base::{Chance, Ratio};
use wavelane_gateway::{Meddler, PeerId};

/// A relay that changes what it passes on.
#[derive(Debug)]
pub(crate) struct Corruption {
    /// How likely, of each stretch of a flow that it passes on at once.
    pub(crate) p: Ratio,
    pub(crate) chance: Chance,
}

impl Meddler for Corruption {
    fn octets(&mut self, _: PeerId, octets: &mut Vec<u8>) {
        if !octets.is_empty() && self.chance.happens(self.p) {
            let bit = self.chance.below(8 * octets.len() as u64);
            octets[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}
