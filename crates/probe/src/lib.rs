//! Latency under load: the probe's protocol, client and server.
#![forbid(unsafe_code)]

pub mod client;
pub mod limits;
pub mod packet;
pub mod server;
