//! Serial lines: a port of this machine with the framing of its packets.

mod call;
mod flow;
pub(crate) mod ip;
mod lane;
mod line;

pub(crate) use lane::{SerialLane, far_end};
pub(crate) use line::PacedLine;

use wavelane_base::Carrier;
use wavelane_serial::Framing;

/// Octets around a datagram by SLIP: an END before it after silence, and one behind it. One octet in 128 is sent as two.
const SLIP_OVERHEAD: usize = 2;
/// By KISS: an END more, and the command.
const KISS_OVERHEAD: usize = 3;
/// By PPP: two flags, address, control, protocol and check sequence (RFC 1662, section 3.1).
const PPP_OVERHEAD: usize = 8;
/// The longest packet of any line.
const MTU_MAX: usize = 1_500;

/// What a line does to a datagram; its MTU is told for each.
pub(crate) const CARRIER: Carrier =
    Carrier { overhead: SLIP_OVERHEAD, mtu_floor: MTU_MAX, mtu_max: MTU_MAX, batch: MTU_MAX, radio: None };

/// Octets around a packet.
pub(crate) fn overhead(framing: Framing) -> usize {
    match framing {
        Framing::Slip1998 | Framing::Slip | Framing::Cslip => SLIP_OVERHEAD,
        Framing::Kiss => KISS_OVERHEAD,
        Framing::Ppp => PPP_OVERHEAD,
    }
}
