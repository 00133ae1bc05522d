//! Faults for simulations. A gateway has none until [`crate::Gateway::set_faults`], and a configuration cannot name any.

use crate::PeerId;
use wavelane_base::{Ratio, Seed};
use wavelane_wire::frame::Reach;

/// How a relay tampers with what it forwards.
pub trait TamperingRelay: core::fmt::Debug + Send {
    /// Changes octets of a flow on their way to `to`; the result is truncated to the available room.
    fn octets(&mut self, to: PeerId, octets: &mut Vec<u8>);
    /// Changes an edge's word.
    fn progress(&mut self, _reach: &mut Reach) {}
}

/// The faults of a gateway.
#[derive(Debug, Default)]
pub struct Faults {
    /// Tampering with what it forwards.
    pub tampering: Option<Box<dyn TamperingRelay>>,
    /// The probability that it loses a whole receipted block of a flow across relays, and the seed.
    pub block_loss: Option<(Ratio, Seed)>,
}
