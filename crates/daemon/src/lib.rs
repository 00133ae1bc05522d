//! `wavelaned`: the gateway protocol on a Linux host.
//!
//! The library half holds what the `wavelane` command shares with the daemon: the configuration file and the
//! operator's commands. One thread moves packets around one [`wavelane_gateway::Gateway`]. What may take its
//! time (the log, name lookups, the kernel's rules, why a peer is silent) has threads of its own, whose bells it polls.
#![forbid(unsafe_code)]

pub mod about;
pub mod arguments;
mod changes;
pub mod commands;
pub mod config;
mod connection;
mod control;
mod counters;
pub mod daemon;
mod decisions;
#[doc(hidden)]
pub use decisions::replay as replay_decisions;
mod diagnosis;
mod engine;
mod epoch;
mod hook;
mod key_log;
pub mod keys;
mod line_capture;
pub mod load;
pub mod log;
mod machine;
mod memory;
mod metrics;
mod names;
mod peer_addresses;
pub mod proxy;
mod request;
mod serial;
pub mod shaper;
pub mod start;
pub mod status;
mod supervisor;
pub mod system;
