//! Faults for simulations. A gateway has none until [`Gateway::set_faults`], and a configuration cannot name any.

use super::{Gateway, Link};
use crate::PeerId;
use wavelane_base::{Ratio, Seed};
use wavelane_services::hop::Losing;
use wavelane_wire::frame::Reach;

/// How a relay tampers with what it forwards.
pub trait Meddler: core::fmt::Debug + Send {
    /// Changes octets of a flow on their way to `to`; the result is truncated to the available room.
    fn octets(&mut self, to: PeerId, octets: &mut Vec<u8>);
    /// Changes an edge's word.
    fn progress(&mut self, _reach: &mut Reach) {}
}

/// The faults of a gateway.
#[derive(Debug, Default)]
pub struct Faults {
    /// Tampering with what it forwards.
    pub meddler: Option<Box<dyn Meddler>>,
    /// The probability that it loses a whole receipted block of a flow across relays, and the seed.
    pub block_loss: Option<(Ratio, Seed)>,
}

impl Faults {
    /// Applies the faults to a neighbour's link.
    pub(super) fn put_into(&self, link: &mut Link, peer: &str) {
        if let Some((p, seed)) = self.block_loss {
            let chance = seed.chance(&format!("accepted blocks / from {peer}"));
            link.service.blocks.lose_blocks(Losing { p, chance });
        }
    }
}

impl Gateway {
    /// Sets faults from now on, for simulations.
    pub fn set_faults(&mut self, faults: Faults) {
        for (link, peer) in self.links.iter_mut().zip(&self.config.peers) {
            faults.put_into(link, &peer.name);
        }
        self.faults = faults;
    }
}
