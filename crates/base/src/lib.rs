//! The contract every Wavelane machine keeps, and the few value types it is written in.
//!
//! Nothing here performs IO, reads a clock or has a random source of its own. A *machine* is passed the time and handed
//! frames; it answers with frames, deadlines and events. The simulator, the lab and the daemon drive the same machines
//! through the same [`Machine`] trait.
#![forbid(unsafe_code)]

mod carrier;
mod chance;
mod frame;
pub mod laws;
mod machine;
pub mod maths;
mod quantity;
mod ranges;
mod routes;
mod stream;
pub mod text;
mod time;
mod units;

pub use carrier::{Address, Carrier, Host, LinkAcks, NoAddress, Radio};
pub use chance::{Chance, Entropy, Seed};
pub use frame::{Class, Ecn, FrameMeta, PortId, Transmit};
pub use machine::{Machine, Wakeup};
pub use quantity::{Quantity, UnitError};
pub use ranges::RangeSet;
pub use routes::{IpPrefix, longest_match, route};
pub use stream::{FlowId, ReadOutcome, Streams};
pub use time::{Instant, Span};
pub use units::{Octets, Rate, Ratio};
