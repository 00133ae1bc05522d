//! The line of `[serial]`.

use super::Counter;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A serial line that carries IP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Serial {
    /// Path of its port.
    pub device: String,
    /// The interface whose packets it carries.
    pub interface: String,
    /// Rate, framing, MTU and flow control.
    pub line: String,
    /// This end's addresses.
    pub address: String,
    /// The other end's, if PPP told it.
    pub far_address: Option<String>,
    /// Why nothing passes, if that is so.
    pub unused: Option<String>,
    /// Packets from the line.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets to the line.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets that were dropped to keep the queue before the line short, or that the other end does not take.
    pub dropped: u64,
    /// Frames from the line that held no packet, by cause.
    pub bad: Vec<Counter>,
}

impl Serial {
    pub(super) fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let far = self.far_address.as_ref().map(|far| format!(" to {far}")).unwrap_or_default();
        let address = if self.address.is_empty() { "no address yet" } else { &self.address };
        write!(f, "IP by {} ({}) through {}, {address}{far}: ", self.device, self.line, self.interface)?;
        match &self.unused {
            None => write!(f, "in use")?,
            Some(why) => write!(f, "not used: {why}")?,
        }
        let bad: u64 = self.bad.iter().map(|cause| cause.value).sum();
        writeln!(
            f,
            "; {} packets ({} bytes) in, {} ({} bytes) out, {} dropped, {bad} bad frames",
            self.packets_in, self.bytes_in, self.packets_out, self.bytes_out, self.dropped
        )
    }
}
