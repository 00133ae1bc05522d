//! Forward erasure correction: repair symbols from which a receiver rebuilds lost datagrams without a retransmit.
//!
//! `gf256` is the field, `code` defines the coefficient for a number and a key, [`Encoder`] keeps the covered datagrams and computes
//! repair symbols, [`Decoder`] solves for what is missing. Nothing here knows a lane or a clock: the link decides what is protected and
//! what repair may cost. `docs/protocol/fec.md` describes it in prose.

mod code;
mod decoder;
mod encoder;
mod gf256;

pub use code::{LENGTH_LEN, SPAN_MAX, coefficient};
pub use decoder::{Decoder, EQUATIONS_MAX, SOURCES_MAX};
pub use encoder::{Encoder, REPAIRS_MAX, Repair, repairs_for};
pub use gf256::{add_multiple, inverse, multiply};

#[cfg(test)]
mod tests;
