//! The simulator: Wavelane's own machines in virtual time, deterministic, faster than real time.
//!
//! [`Engine`] joins gateways, hosts, routers and channels and runs what is due, in order. Every node has a clock of its own
//! ([`NodeClock`]). Programs sit at the gateways' stream seam or on the hosts' TCP ([`FlowSpec`]). `docs/guide/simulator.md` is the guide.
#![forbid(unsafe_code)]

mod agenda;
mod backend;
mod bulk_room;
mod captures;
mod clock;
mod connection;
mod content;
mod datagrams;
mod door;
mod engine;
mod faults;
mod host;
mod joins;
mod media;
mod mesh;
mod moves;
mod node;
mod plain;
mod routing;
mod stacks;
pub mod swarm;
mod traffic;
mod wiring;

pub use backend::SimBackend;
pub use clock::{DRIFT_MAX_PPM, DriftTooLarge, NodeClock};
pub use connection::REQUEST_LEN;
pub use content::Content;
pub use door::ProxyConfig;
pub use engine::{CaptureSink, ChannelId, Crossing, Engine, NodeId, Plug, Point, Tap};
pub use faults::{Deed, Lie, NodeFaults};
pub use media::carrier_of;
pub use mesh::{Mesh, MeshLink, MeshSpec};
pub use traffic::{
    AGE_BIN, ARRIVAL_BIN, ARRIVALS_BOUND, Datagrams, ECHO_GRACE, Exchange, FlowEnd, FlowIndex, FlowLog, FlowSpec,
    Pages, Question, Work,
};
