//! TCP: our own, with every knob exposed, on the real wire format over IPv4 and IPv6.
//!
//! Reading order: [`Config`] (the knobs), [`State`], [`Connection`] (one connection as a plain struct), then its parts:
//! `arrive` (what a segment does), `transmit` (what it sends), `send` and `acked` (the sender), `recovery`, `undo`, `congestion`, `receive`; `persist`, `pmtu`, `numbers`; and [`Host`],
//! which holds many connections and is a [`wavelane_base::Machine`]. `docs/models/tcp.md` says what is modelled.

mod acked;
mod arrive;
mod burst;
mod config;
mod congestion;
mod connection;
mod guess;
mod host;
mod numbers;
mod persist;
mod pmtu;
mod rate;
mod receive;
mod recovery;
mod rtt;
mod scoreboard;
mod send;
mod state;
mod transmit;
mod undo;

pub use config::{Config, CongestionControl, Keepalive, RtoFloor, SlowStartExit};
pub use connection::{Connection, Event, Status};
pub use host::{Host, HostError, HostEvent};
pub use numbers::Numbers;
pub use send::Counters;
pub use state::State;

/// Room that one packet may need: the longest IP packet without a jumbogram option.
pub const PACKET_ROOM: usize = 65_535;

#[cfg(test)]
mod tests;
