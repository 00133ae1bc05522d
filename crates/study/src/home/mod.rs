//! A home: a laptop on its radio link to the router, a server behind that, and a second machine; one copy fills the link,
//! and pings show what others feel of it.

mod seen;

pub(crate) use seen::{Seen, seen};

/// When the copy begins; before that the link is idle.
pub(crate) const COPY_AT_S: u64 = 5;
/// The copy, and the pings: from the laptop, from the second machine, and from the server back to the laptop.
pub(crate) const COPY: &str = "copy";
pub(crate) const PING: &str = "ping";
pub(crate) const SECOND: &str = "ping2";
pub(crate) const BACK: &str = "pingback";
/// Bits of a full packet.
pub(crate) const PACKET_BITS: f64 = 12_000.0;
