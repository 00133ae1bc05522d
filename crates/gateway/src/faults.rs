//! Faults of simulations. A gateway has none until it is given some, and a configuration cannot name any.

use super::{Gateway, Link};
use crate::PeerId;
use wavelane_base::{Ratio, Seed};
use wavelane_services::hop::Losing;
use wavelane_wire::frame::Reach;

/// What a relay does to what it passes on.
pub trait Meddler: core::fmt::Debug + Send {
    /// To octets of a flow, on their way to `to`; past the room that was there they are cut off.
    fn octets(&mut self, to: PeerId, octets: &mut Vec<u8>);
    /// To an edge's word.
    fn progress(&mut self, _reach: &mut Reach) {}
}

/// What a gateway does wrong.
#[derive(Debug, Default)]
pub struct Faults {
    /// To what it passes on.
    pub meddler: Option<Box<dyn Meddler>>,
    /// How likely it loses a whole block of a flow across relays after it receipted it, and the dice.
    pub block_loss: Option<(Ratio, Seed)>,
}

impl Faults {
    /// Has a neighbour's link do so.
    pub(super) fn put_into(&self, link: &mut Link, peer: &str) {
        if let Some((p, seed)) = self.block_loss {
            let chance = seed.chance(&format!("accepted blocks / from {peer}"));
            link.service.blocks.lose_blocks(Losing { p, chance });
        }
    }
}

impl Gateway {
    /// Has it do wrong from now on, for simulations.
    pub fn set_faults(&mut self, faults: Faults) {
        for (link, peer) in self.links.iter_mut().zip(&self.config.peers) {
            faults.put_into(link, &peer.name);
        }
        self.faults = faults;
    }
}
