//! Faults of simulated relays that no gateway has.

use core::fmt;
use std::collections::BTreeMap;
use wavelane_base::{Chance, Ratio, Seed};
use wavelane_gateway::{Faults, PeerId, Reach, TamperingRelay};

/// The faults of a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeFaults {
    /// To what it passes on as a relay.
    pub lie: Option<Lie>,
    /// How likely it loses a whole block of a flow across relays that it receipted.
    pub block_loss: Ratio,
}

impl Default for NodeFaults {
    fn default() -> Self {
        Self { lie: None, block_loss: Ratio::ZERO }
    }
}

impl NodeFaults {
    /// The same for the gateway that is node `name` since it started for the `boots`-th time.
    pub(crate) fn draw(self, name: &str, seed: Seed, boots: u64) -> Faults {
        let chance = || seed.chance(&format!("node {name} / corruption {boots}"));
        let tampering = |lie| -> Box<dyn TamperingRelay> { Box::new(Liar::new(lie, chance())) };
        let dice = || Seed(seed.chance(&format!("node {name} / block loss")).next_u64());
        let lossy = (self.block_loss != Ratio::ZERO).then_some(self.block_loss);
        Faults { tampering: self.lie.map(tampering), block_loss: lossy.map(|p| (p, dice())) }
    }
}

/// How a relay lies about what it passes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Changes a bit of a stretch.
    Corrupts,
    /// Takes octets into custody and passes nothing on from some moment.
    Withholds,
    /// Passes a stretch on once more.
    Replays,
    /// Passes a stretch's octets on in another order.
    Reorders,
    /// Claims in an edge's name to have what it has not.
    Claims,
}

/// What a lying relay does, and how often: of each stretch of a flow that it passes on at once, or of each Progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lie {
    /// What.
    pub deed: Deed,
    /// How likely.
    pub p: Ratio,
}

impl Lie {
    /// Changes a bit of each stretch with probability `p`; nothing if that is 0.
    pub fn corrupts(p: Ratio) -> Option<Self> {
        (p != Ratio::ZERO).then_some(Self { deed: Deed::Corrupts, p })
    }
}

impl Deed {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Corrupts, Self::Withholds, Self::Replays, Self::Reorders, Self::Claims];
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deed = match self.deed {
            Deed::Corrupts => "corrupts",
            Deed::Withholds => "withholds",
            Deed::Replays => "replays",
            Deed::Reorders => "reorders",
            Deed::Claims => "claims receipt",
        };
        write!(f, "{deed} {}/{}", self.p.num(), self.p.den())
    }
}

/// A relay that does it.
#[derive(Debug)]
struct Liar {
    lie: Lie,
    chance: Chance,
    /// To whom nothing is passed on any more.
    withheld: BTreeMap<PeerId, bool>,
    /// What was passed on last, for a relay that replays.
    last: Vec<u8>,
}

impl Liar {
    fn new(lie: Lie, chance: Chance) -> Self {
        Self { lie, chance, withheld: BTreeMap::new(), last: Vec::new() }
    }
}

impl TamperingRelay for Liar {
    fn octets(&mut self, to: PeerId, octets: &mut Vec<u8>) {
        if octets.is_empty() || self.lie.deed == Deed::Claims {
            return;
        }
        let now = self.chance.happens(self.lie.p);
        match self.lie.deed {
            Deed::Withholds => {
                let withheld = self.withheld.entry(to).or_default();
                *withheld |= now;
                if *withheld {
                    octets.clear();
                }
            }
            Deed::Corrupts if now => {
                let bit = self.chance.below(8 * octets.len() as u64);
                octets[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
            Deed::Reorders if now => {
                let by = self.chance.below(octets.len() as u64) as usize;
                octets.rotate_left(by);
            }
            Deed::Replays => {
                let fresh = octets.clone();
                if now {
                    // In place of what follows: a stretch of the past first.
                    octets.splice(0..0, self.last.iter().copied());
                }
                self.last = fresh;
            }
            Deed::Corrupts | Deed::Reorders | Deed::Claims => {}
        }
    }

    fn progress(&mut self, reach: &mut Reach) {
        if self.lie.deed == Deed::Claims && self.chance.happens(self.lie.p) {
            reach.received += 1 + self.chance.below(100_000);
            reach.finished |= self.chance.below(2) == 0;
        }
    }
}
