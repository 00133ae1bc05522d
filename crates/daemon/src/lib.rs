//! `wavelaned`: the gateway protocol on a Linux host.
//!
//! The library half holds what the `wavelane` command shares with the daemon: the configuration file and the
//! operator's commands. The daemon itself is one thread around one [`wavelane_protocol::gateway::Gateway`].
#![forbid(unsafe_code)]

pub mod commands;
pub mod config;
pub mod keys;
pub mod status;
mod units;
