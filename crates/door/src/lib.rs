//! Terminating TCP, sans-IO: bytes between an application's connection and a flow, the last bytes before a reset,
//! connections whose SYN is held until the far server has answered, and refusals by TCP reset or ICMP.
//!
//! A [`Door`] joins an [`Engine`], the TCP, with a [`FarSide`], what carries flows on: a gateway over its links, or a [`Pair`],
//! which joins two sockets of one machine without a link. Engines: the kernel's sockets in the daemon, and [`Own`], our TCP.
//! A proxy's connections leave the door when both halves are open and go on as [`Relays`], whose bytes need no flow.
//! Reading order: [`Door`], [`Splice`] (one connection), `Attempts`, [`Syn`], [`Relay`].
#![forbid(unsafe_code)]

mod attempts;
mod connections;
mod door;
mod engine;
mod far;
mod last_bytes;
mod own;
mod pair;
mod relay;
mod relays;
mod snoop;
mod socket;
mod splice;
mod syn;
mod window;

pub use attempts::Limits;
pub use connections::Connection;
pub use door::{CONNECT_PATIENCE, Door, Gone, Kept};
pub use engine::Engine;
pub use far::{FarSide, FlowEvent, Flows, NotOpened};
pub use last_bytes::PATIENCE;
pub use own::{FRAGMENTED_MAX, Fragments, Gathered, Offered, Own, OwnDoor, OwnSocket};
pub use pair::{Marks, POOL_DEFAULT, Pair, PairConfig, other, pool_parts};
pub use relay::{COPY, Edges, Half, Pipes, Relay};
pub use relays::{Relays, Tally};
pub use snoop::{SEGMENTS_MAX, Snoop, Snooped, TRIES_MAX};
pub use socket::{Got, Put, Receiving, Rooms, Socket};
pub use splice::{CHUNK, Moved, Splice, Stage, Turn};
pub use syn::{Refusal, Syn, Unreachable};
pub use window::Window;
