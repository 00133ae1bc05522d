//! Serial lines: a port of this machine with the framing of its packets.

mod call;
mod lane;
mod line;

pub(crate) use lane::SerialLane;
pub(crate) use line::PacedLine;

use crate::config::SLIP_OVERHEAD;
use wavelane_base::Carrier;

/// The longest packet of any line.
const MTU_MAX: usize = 1_500;

/// What a line does to a datagram; its MTU is told for each.
pub(crate) const CARRIER: Carrier =
    Carrier { overhead: SLIP_OVERHEAD, mtu_floor: MTU_MAX, mtu_max: MTU_MAX, batch: MTU_MAX, radio: None };
