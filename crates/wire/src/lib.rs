//! Formats only: how Wavelane's datagrams and frames, and the Internet headers around them, look as bytes.
//!
//! No state and no IO. Every parser takes untrusted bytes, allocates no more than a named bound, and never
//! panics. `docs/protocol/wire.md` is the prose twin of [`datagram`] and [`frame`].
#![forbid(unsafe_code)]

pub mod codec;
pub mod datagram;
pub mod frame;
pub mod icmp;
pub mod ip;
pub mod ipip;
pub mod keylog;
pub mod packet;
pub mod parcel;
pub mod serial;
pub mod tcp;

pub use codec::{DecodeError, Reader, Writer};
