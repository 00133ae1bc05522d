//! Instruments: latency under load (the probe's protocol, client and server), connections from capture files ([`trace`]), and
//! the result files of other tools ([`formats`]).
#![forbid(unsafe_code)]

mod bounds;
pub mod client;
pub mod document;
pub mod drive;
mod explain;
pub mod export;
pub mod figures;
pub mod formats;
pub mod hops;
pub mod limits;
pub mod load;
pub mod names;
pub mod nq;
pub mod packet;
mod places;
pub mod plan;
mod pump;
mod queue;
pub mod serve;
pub mod server;
pub mod stream;
pub mod trace;
pub mod train;
pub mod vantage;

use std::net::SocketAddr;
use wavelane_base::Span;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A socket could not be opened.
    #[error("cannot {what}: {why}")]
    Socket {
        /// Its purpose.
        what: &'static str,
        /// The system's error message.
        why: std::io::Error,
    },
    /// No answer.
    #[error("no probe server answers at {0} (UDP): run 'wavelane probe serve' there, and open UDP and TCP port {port} in its firewall", port = .0.port())]
    NoServer(SocketAddr),
    /// The server refused a session.
    #[error("{}", .0.text())]
    Refused(packet::Refusal),
    /// The plan is longer than the server grants.
    #[error(
        "the server grants {granted_s} s and the measurement takes {needed}: choose fewer --seconds, or ask its operator for a longer --session-seconds"
    )]
    TooLong {
        /// The granted time.
        granted_s: u16,
        /// The needed time.
        needed: Span,
    },
    /// The plan has more probes than the server answers; the others would look lost.
    #[error(
        "the server answers {granted} probes a second and the measurement sends {needed}: choose a longer --interval, or fewer --dscp"
    )]
    TooFast {
        /// The granted number.
        granted: u16,
        /// The needed number.
        needed: u64,
    },
    /// An HTTP server that cannot be measured.
    #[error("cannot measure {url}: {why}")]
    Http {
        /// Which.
        url: String,
        /// Why.
        why: String,
    },
    /// Its configuration document is invalid.
    #[error(transparent)]
    Config(nq::ConfigError),
    /// The user stopped it before there were results.
    #[error("ended before the first measurement")]
    Interrupted,
}

/// Whether this process may send with the congestion control `name`.
pub fn load_allowed(name: &str) -> std::io::Result<()> {
    wavelane_host::load::try_congestion(name)
}
