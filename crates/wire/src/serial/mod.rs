//! What runs on a serial line: framing of packets as octets, PPP's packets and compressed TCP/IP headers.
//!
//! State (reassembly, slots of connections, negotiation) is `wavelane-serial`'s; `docs/protocol/serial.md` is the prose twin.

pub mod hdlc;
pub mod kiss;
pub mod ppp;
pub mod slip;
pub mod vj;
