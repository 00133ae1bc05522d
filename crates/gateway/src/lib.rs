//! A gateway: links to its peers, and the flows it carries over them.
//!
//! The owner (daemon or simulator) drives [`Gateway`] through [`wavelane_base::Machine`] for frames and time, and
//! through [`Gateway::open`], [`Gateway::accept`], [`Gateway::refuse`] and [`wavelane_base::Streams`] for flows.
//! One flow's life at the opener: `open` -> `Accepted | Refused`, then bytes, then `Closed`; at the far side:
//! `Incoming` -> `accept | refuse`, then bytes, then `Closed`.
//!
//! It is joined, in `gateway.rs`, of parts that own their state: neighbours, routing, flows, relays, grants, overheard octets, packets.
#![forbid(unsafe_code)]

mod about;
mod config;
mod door;
mod faults;
mod flows;
mod gateway;
mod grants;
mod neighbours;
mod overheard;
mod packets;
mod relays;
mod routing;
mod shares;
mod types;

pub use about::is_about;
pub use config::{
    Config, ConfigError, DETOURS_MAX, Detour, EDGES_MAX, EdgeConfig, LaneConfig, NEXT_HOPS_KNOWN_MAX, POOL_DEFAULT,
    PacketConfig, PeerConfig, tries,
};
pub use faults::{Faults, TamperingRelay};
pub use flows::KnownWay;
pub use gateway::Gateway;
pub use grants::Withholding;
pub use neighbours::{RETIRED_MAX, ReloadError};
pub use relays::HOPS_MAX;
pub use routing::{NEXT_HOPS_MAX, NextHop, TABLE_MAX, Table, may_reach};
pub use types::{Distrust, GatewayEvent, LaneStatus, OpenError, PeerId, PeerStatus, Status, Traffic};
pub use wavelane_queue::Discipline;
pub use wavelane_services::arq::{Repair, Tries};
pub use wavelane_services::packet::Repairs;
pub use wavelane_transport::{Choice, Controller};
pub use wavelane_wire::frame::{Reach, Reason};
pub use wavelane_wire::keylog::LoggedKey;

#[cfg(test)]
mod lanes_tests;
#[cfg(test)]
mod pairs_tests;
#[cfg(test)]
#[path = "tests/relay/mod.rs"]
mod relay_tests;
#[cfg(test)]
mod shares_tests;
#[cfg(test)]
#[path = "gateway_tests.rs"]
mod tests;
