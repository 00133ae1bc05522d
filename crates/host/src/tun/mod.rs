//! TUN devices: plain, and with the kernel's offloads.
//!
//! [`Tun`] transfers one packet per call, as the laboratory's channels need it. [`OffloadTun`] exchanges super-packets of up to 64 KiB with
//! the kernel and gives its owner packets of at most one MTU with complete checksums.

mod header;
mod merge;
mod offload;
mod plain;
mod split;
#[cfg(test)]
#[path = "tests/testing.rs"]
mod testing;

pub use merge::{SEGMENTS_MAX, TRAINS_MAX};
pub use offload::{Counts, OffloadTun};
pub use plain::{NAME_MAX, TUN_CONTROL, Tun, TunError, may_open};
