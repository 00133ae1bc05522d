//! In a program built without QUIC: a flow that wants it is refused before the run.

use crate::LabError;
use crate::content::{Content, Digested};
use crate::workload::Workload;
use std::net::SocketAddr;
use wavelane_host::netns::Netns;
use wavelane_run::FlowRaw;

/// Nothing can be one.
pub(crate) enum Server {}

impl Server {
    /// Refuses, with the remedy.
    pub(crate) fn start(
        _ns: &Netns,
        _address: SocketAddr,
        _control: &str,
        flow: &str,
        _content: Content,
    ) -> Result<Self, LabError> {
        Err(LabError::Topology(format!(
            "flow '{flow}': this program was built without QUIC, for the demo alone: `make install` builds the whole one"
        )))
    }
    /// Never called.
    pub(crate) fn certificate(&self) -> &'static [u8] {
        match *self {}
    }
    /// Never called.
    pub(crate) fn note(&self) -> Option<String> {
        match *self {}
    }
}

/// Never called: no server was started.
pub(crate) fn run(
    _workload: &Workload,
    _size: Option<u64>,
    _certificate: &'static [u8],
    _digest: &Digested,
) -> Result<(FlowRaw, Option<String>), LabError> {
    unreachable!("no QUIC server was started")
}
