//! HTTP servers of the networkQuality type (draft-ietf-ippm-responsiveness): client and server.

mod client;
mod config;
#[cfg(test)]
mod config_tests;
mod load;
pub(crate) mod serve;
mod trust;
mod wire;

pub use client::{HttpPlan, measure};
pub use config::{Config, ConfigError};
pub use trust::Trust;

/// Path at which such a server lists its URLs.
pub const CONFIG_PATH: &str = "/.well-known/nq";
