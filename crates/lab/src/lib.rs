//! The laboratory: one scenario on one machine in real time.
//!
//! A node is a network namespace with a real Linux TCP stack, an emulated channel is a machine of `wavelane-channel` driven between two TUN
//! devices, and the gateways are the shipped `wavelaned`. Real programs generate the traffic. When this process ends, all of it ends:
//! nothing here has a name outside the process.
#![forbid(unsafe_code)]

mod backend;
mod bulk;
mod capacity;
mod cell;
mod content;
mod datagrams;
mod driver;
pub mod duel;
mod echo;
mod fetch;
mod folder;
mod gateways;
mod ground;
mod haproxy;
mod http;
mod judge;
mod kernel;
mod lanes;
mod lateness;
mod lines;
mod media;
mod mesh;
mod mobility;
mod mptcp;
mod over;
mod pcapng;
mod peers;
mod ping;
mod program;
mod proxies;
#[cfg_attr(not(feature = "quic"), path = "no_quic.rs")]
mod quic;
mod review;
mod run;
mod sockets;
mod spurts;
mod tally;
mod tools;
mod topology;
mod web;
mod worker;
mod workload;
mod world;

pub use backend::{LATENESS_BOUND, LabBackend};
pub use capacity::{Bench, Capacity, CapacityCase, ProxyKind, TransferDirection, can_measure, can_proxy};
pub use datagrams::{Crossed, Crossing, Unserved, carry};
pub use driver::MTU;
pub use ground::{Ground, can_build};
pub use over::{Order, OverBackend, seclude};
pub use pcapng::{FILE_MAX, SNAPLEN};

use wavelane_run::BackendError;

/// Whether this process may build a laboratory.
pub fn may_run() -> bool {
    wavelane_host::netns::may_administer_network()
}

/// Why the lab could not build or run something. One line each, with a remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The scenario cannot be laid out.
    #[error("{0}")]
    Topology(String),
    /// A namespace operation failed.
    #[error(transparent)]
    Netns(#[from] wavelane_host::netns::NetnsError),
    /// A TUN device operation failed.
    #[error(transparent)]
    Tun(#[from] wavelane_host::tun::TunError),
    /// A channel's parameters are invalid.
    #[error("channel '{0}': {1}")]
    Channel(String, wavelane_channel::ConfigError),
    /// A program is missing or cannot be started.
    #[error("cannot start {program} ({error}): {remedy}")]
    Program {
        /// Its name.
        program: String,
        /// What the system said.
        error: std::io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// A program ran and failed.
    #[error("{program} failed: {said}")]
    Failed {
        /// Its name.
        program: String,
        /// The last line it wrote.
        said: String,
    },
    /// A time limit was exceeded.
    #[error("{0}")]
    Late(String),
    /// Reading or writing failed.
    #[error("{what}: {error}")]
    Io {
        /// What was being done, and a possible remedy.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The user asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl LabError {
    /// Adds what was being done to a system error.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }
}

impl From<LabError> for BackendError {
    fn from(error: LabError) -> Self {
        let text = error.to_string();
        match error {
            LabError::Cancelled => Self::Cancelled,
            LabError::Failed { .. } | LabError::Late(_) | LabError::Channel(..) => Self::Failed(text),
            _ => Self::Unable(text),
        }
    }
}

/// Serialises tests that build namespaces: concurrently they would delay each other and see each other's threads.
#[cfg(test)]
pub(crate) static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
