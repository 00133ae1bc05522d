//! What relays of a simulation do that no gateway does.

use wavelane_base::{Chance, Ratio, Seed};
use wavelane_gateway::{Faults, Meddler, PeerId};

/// How likely a gateway does what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeFaults {
    /// Change a stretch of a flow that it passes on as a relay.
    pub corruption: Ratio,
    /// Lose a whole block of a flow across relays that it receipted.
    pub block_loss: Ratio,
}

impl Default for NodeFaults {
    fn default() -> Self {
        Self { corruption: Ratio::ZERO, block_loss: Ratio::ZERO }
    }
}

impl NodeFaults {
    /// The same for the gateway that is node `name` since it started for the `boots`-th time.
    pub(crate) fn draw(self, name: &str, seed: Seed, boots: u64) -> Faults {
        let chance = || seed.chance(&format!("node {name} / corruption {boots}"));
        let meddler = |p| -> Box<dyn Meddler> { Box::new(Corruption { p, chance: chance() }) };
        let dice = || Seed(seed.chance(&format!("node {name} / block loss")).next_u64());
        let some = |p: Ratio| (p != Ratio::ZERO).then_some(p);
        Faults { meddler: some(self.corruption).map(meddler), block_loss: some(self.block_loss).map(|p| (p, dice())) }
    }
}

/// A relay that changes what it passes on.
#[derive(Debug)]
struct Corruption {
    /// How likely, of each stretch of a flow that it passes on at once.
    p: Ratio,
    chance: Chance,
}

impl Meddler for Corruption {
    fn octets(&mut self, _: PeerId, octets: &mut Vec<u8>) {
        if !octets.is_empty() && self.chance.happens(self.p) {
            let bit = self.chance.below(8 * octets.len() as u64);
            octets[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}
