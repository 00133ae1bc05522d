//! The file's tables and words, as TOML has them.

use super::serial_table::SerialTable;
use super::{Attached, Directions, OnFailure, Source};
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

/// A packet of this size fits one datagram of a lane on a path of 1500 bytes.
const TUN_MTU_DEFAULT: u16 = 1_400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) gateway: GatewayTable,
    #[serde(default)]
    pub(super) peer: Vec<PeerTable>,
    pub(super) intercept: Option<InterceptTable>,
    pub(super) tun: Option<TunTable>,
    #[serde(default)]
    pub(super) forward: Vec<ForwardTable>,
    #[serde(default)]
    pub(super) edge: Vec<EdgeTable>,
    pub(super) serial: Option<SerialTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GatewayTable {
    pub(super) name: String,
    pub(super) key: PathBuf,
    #[serde(default = "default_listen")]
    pub(super) listen: String,
    #[serde(default)]
    pub(super) on_failure: OnFailure,
    #[serde(default)]
    pub(super) source: Source,
    #[serde(default)]
    pub(super) attached: Attached,
    pub(super) control: Option<PathBuf>,
    pub(super) metrics: Option<String>,
    pub(super) hook: Option<PathBuf>,
    pub(super) state: Option<PathBuf>,
    pub(super) serves: Option<Vec<String>>,
    #[serde(default)]
    pub(super) routing: RoutingWord,
    pub(super) routing_table: Option<u32>,
}

/// What chooses the peer for a target, in the file's words.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RoutingWord {
    #[default]
    Peers,
    Kernel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EdgeTable {
    pub(super) name: String,
    pub(super) public_key: String,
    #[serde(default)]
    pub(super) routes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerTable {
    pub(super) name: String,
    pub(super) public_key: String,
    pub(super) preshared_key: Option<PathBuf>,
    pub(super) address: Option<String>,
    #[serde(default)]
    pub(super) routes: Vec<String>,
    #[serde(default)]
    pub(super) next_hops: Vec<String>,
    pub(super) allow_targets: Option<Vec<String>>,
    pub(super) allow_sources: Option<Vec<String>>,
    pub(super) controller: Option<String>,
    #[serde(default)]
    pub(super) lane: Vec<Spanned<LaneTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LaneTable {
    pub(crate) medium: Option<String>,
    pub(crate) address: Option<String>,
    pub(crate) device: Option<String>,
    pub(crate) local: Option<String>,
    #[serde(default)]
    pub(crate) direction: Directions,
    pub(crate) priority: Option<u8>,
    pub(crate) mark: Option<u32>,
    pub(crate) rate: Option<String>,
    pub(crate) framing: Option<String>,
    pub(crate) flow_control: Option<String>,
    pub(crate) carrier: Option<bool>,
    pub(crate) mtu: Option<usize>,
    pub(crate) chat: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterceptTable {
    #[serde(default)]
    pub(super) interfaces: Vec<String>,
    #[serde(default)]
    pub(super) local: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TunTable {
    #[serde(default = "default_tun_name")]
    pub(super) name: String,
    #[serde(default)]
    pub(super) addresses: Vec<String>,
    #[serde(default = "default_tun_mtu")]
    pub(super) mtu: u16,
    #[serde(default = "yes")]
    pub(super) offload: bool,
    #[serde(default)]
    pub(super) masquerade: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForwardTable {
    pub(super) listen: String,
    pub(super) to: String,
    pub(super) via: String,
}

fn yes() -> bool {
    true
}

fn default_tun_name() -> String {
    "wavelane0".into()
}

fn default_tun_mtu() -> u16 {
    TUN_MTU_DEFAULT
}

fn default_listen() -> String {
    "0.0.0.0:4780".into()
}
