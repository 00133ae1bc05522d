//! TCP: our own, with every knob exposed, on the real wire format over IPv4 and IPv6.
//!
//! Reading order: [`Config`] (the knobs), [`ConnectionState`], [`Connection`] (one connection as a plain struct), then its parts:
//! `opening`, `arrive` (what a segment does) and `transmit` (what is sent); the sender in `send`, `burst`, `usage`, `acked`,
//! `deadlines`, `recovery`, `undo` and `congestion`; `receive`, `compression` and `announce`; `persist`, `pmtu`, `numbers`;
//! and [`Host`], which holds many connections, shares memory out among them (`pool`), knows their outages (`silence`) and is a [`wavelane_base::Machine`]. `docs/models/tcp.md` says what is modelled.
#![forbid(unsafe_code)]

mod acked;
mod announce;
mod arrive;
mod burst;
mod compression;
mod config;
mod congestion;
mod connection;
mod deadlines;
mod guess;
mod host;
mod numbers;
mod opening;
mod persist;
mod pmtu;
mod pool;
mod quirks;
mod rate;
mod receive;
mod recovery;
mod rtt;
mod scoreboard;
mod send;
mod silence;
mod state;
mod transmit;
mod undo;
mod usage;

pub use config::{Config, CongestionControl, Keepalive, RtoFloor, SlowStartExit};
pub use connection::{Connection, Status, TcpEvent};
pub use host::{Host, HostError, HostEvent};
pub use numbers::Numbers;
pub use pool::{MEMORY_SHARE, memory_own};
pub use quirks::Quirks;
pub use send::Counters;
pub use state::ConnectionState;

/// Room that one packet may need: the longest IP packet without a jumbogram option.
pub const PACKET_ROOM: usize = 65_535;

#[cfg(test)]
mod tests;
