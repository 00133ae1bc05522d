//! Terminating TCP at a gateway, sans-IO: bytes between an application's connection and a flow, the last bytes before a reset,
//! connections whose SYN is held until the far server has answered, and refusals by TCP reset or ICMP.
//!
//! [`Socket`] abstracts the TCP: the kernel's in the daemon, our own in the simulator. Reading order: [`Splice`] (one
//! connection), [`Connections`], [`Attempts`], [`Syn`].
#![forbid(unsafe_code)]

mod attempts;
mod connections;
mod last_bytes;
mod own;
mod socket;
mod splice;
mod syn;
mod window;

pub use attempts::{Arrival, Attempts, Cause, Ended, HOLD, Key, Limits};
pub use connections::{Connection, Connections, Due};
pub use last_bytes::PATIENCE;
pub use own::OwnDoor;
pub use socket::{Got, Put, Receiving, Rooms, Socket};
pub use splice::{CHUNK, Flows, Moved, Splice, Stage, Turn};
pub use syn::{Refusal, Syn, Unreachable};
pub use window::Window;
