//! Serial lines: packets as octets and back, compressed TCP/IP headers, PPP's negotiation, and the modem at the line's end.
//!
//! Pure, as every room of machines: the daemon holds the device, the simulator and the lab hold models of one. The formats
//! are `wavelane_wire::serial`'s; `docs/protocol/serial.md` is enough for a second implementation.
#![forbid(unsafe_code)]

// What the fuzz targets share is written against the crate's name.
#[cfg(test)]
extern crate self as wavelane_serial;

pub mod chat;
#[cfg(test)]
mod corpus_tests;
mod counters;
mod deframer;
pub mod dialer;
pub mod ended;
mod framer;
#[cfg(test)]
mod framer_tests;
mod framing;
mod line;
#[cfg(test)]
mod line_tests;
#[cfg(test)]
#[path = "../../../testing/modem/mod.rs"]
mod modem;
#[cfg(test)]
mod modem_tests;
pub mod ppp;
#[cfg(test)]
mod redial_tests;
#[cfg(test)]
mod vectors_tests;
pub mod vj;
#[cfg(test)]
mod vj_tests;

pub use counters::{Counters, Fault};
pub use framer::{FRAME_MAX_DEFAULT, FRAME_MAX_LIMIT, Framer, IDLE_DEFAULT, LANE_PROTOCOL, idle_at};
pub use framing::{Framing, FramingError};
pub use line::{Line, LineConfig, Unsent};
