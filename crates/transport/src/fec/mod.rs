//! Forward erasure correction: repair symbols from which a receiver makes lost datagrams without asking again.
//!
//! [`gf256`] is the field, [`code`] says which coefficient belongs to a number and a key, [`Encoder`] keeps what may
//! be asked for and adds up repair symbols, [`Decoder`] solves for what is missing. Nothing here knows a lane or a
//! clock: the link decides what is protected and what repair may cost. `docs/protocol/fec.md` is the prose twin.

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
