//! HTTP servers of networkQuality's kind (draft-ietf-ippm-responsiveness): measuring one, and being one.

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

/// Where such a server tells its URLs.
pub const CONFIG_PATH: &str = "/.well-known/nq";
