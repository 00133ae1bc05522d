//! The parameters of a flow's client, for all kinds of flows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wavelane_base::Instant;
use wavelane_host::netns::Netns;
use wavelane_run::FlowRaw;

/// Parameters of one flow.
pub(crate) struct Workload {
    /// The flow's name.
    pub(crate) name: String,
    /// The run's start.
    pub(crate) epoch: Instant,
    /// When the flow first connects.
    pub(crate) start: Instant,
    /// When it ends at the latest.
    pub(crate) stop: Instant,
    /// The client's node.
    pub(crate) from: Arc<Netns>,
    /// The server.
    pub(crate) server: SocketAddr,
    /// Congestion control of its connections.
    pub(crate) control: String,
    /// Set to abort everything immediately.
    pub(crate) cancel: Arc<AtomicBool>,
    /// Bytes of its body received so far, for display.
    pub(crate) progress: Arc<AtomicU64>,
}

impl Workload {
    /// Nanoseconds from the run's start to `at`.
    pub(crate) fn since_epoch(&self, at: Instant) -> u64 {
        at.since(self.epoch).as_nanos()
    }
    /// Whether everything must end now.
    pub(crate) fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
    /// The record of a flow that has not begun.
    pub(crate) fn raw(&self, app: &'static str, connect_ns: u64) -> FlowRaw {
        FlowRaw {
            flow: self.name.clone(),
            app,
            connect_ns,
            first_byte_ns: None,
            last_byte_ns: None,
            completed: false,
            intact: None,
            octets: 0,
            arrivals: Vec::new(),
            probes: Vec::new(),
            ages: Vec::new(),
            fetches: Vec::new(),
            given_ns: self.stop.since(self.start).as_nanos(),
        }
    }
}
