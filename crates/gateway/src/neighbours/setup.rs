//! What sessions, links, lanes and services are set up with.

use super::Link;
use crate::{Config, LaneConfig, PacketConfig, PeerConfig, grants};
use std::sync::Arc;
use wavelane_base::{Address, Carrier, Entropy, Instant, Octets};
use wavelane_services::Services;
use wavelane_services::hop::HopConfig;
use wavelane_services::packet::PacketsConfig;
use wavelane_settings::LaneKnobs;
use wavelane_transport::link::{LaneOptions, LinkConfig};
use wavelane_transport::session::{PeerKeys, Statics, Way};

/// What carries datagrams of `lane` to `address`; a packet is never longer than the configuration allows.
pub(super) fn carrier(config: &Config, lane: &LaneConfig, address: Option<Address>) -> Carrier {
    let carrier = lane.carrier.towards(address);
    Carrier { mtu_max: carrier.mtu_max.min(config.mtu_max), ..carrier }
}

pub(super) fn hop_config(config: &Config, peer: &PeerConfig) -> HopConfig {
    let Config { flows_max, pool, idle, micro_blocks, block, rounds, .. } = *config;
    let withhold = grants::withholds(config, peer);
    HopConfig { flows_max, pool, idle, micro_blocks, block, rounds, withhold }
}

pub(super) fn new_link(
    now: Instant,
    config: &Config,
    peer: &PeerConfig,
    packets: Option<PacketsConfig>,
    dice: Entropy,
) -> Link {
    Link::new(now, link_config(config, peer), Services::new(hop_config(config, peer), packets), dice)
}

/// Who may be the other edge of a sealed flow is known beforehand.
pub(super) fn statics(config: &Config) -> Arc<Statics> {
    let peers = config.peers.iter().map(|peer| peer.public_key);
    let edges = peers.chain(config.edges.iter().map(|edge| edge.public_key));
    Statics::new(config.private_key, edges.filter(|_| config.seal))
}

pub(super) fn peer_keys(peer: &PeerConfig) -> PeerKeys {
    let ways = peer.lanes.iter().map(|lane| Way { port: lane.port, address: lane.address, one_way: lane.one_way });
    PeerKeys { public_key: peer.public_key, preshared_key: peer.preshared_key, ways: ways.collect() }
}

pub(super) fn lane_options(config: &Config, lane: &LaneConfig) -> LaneOptions {
    let LaneConfig { address, knobs: LaneKnobs { metered, bulk, small, start_rate }, .. } = *lane;
    let controller = lane.effective_controller();
    let carrier = carrier(config, lane, address);
    LaneOptions { controller, start_rate, carrier, metered, bulk, small }
}

pub(super) fn link_config(config: &Config, peer: &PeerConfig) -> LinkConfig {
    LinkConfig {
        lanes: peer.lanes.iter().map(|lane| lane_options(config, lane)).collect(),
        choice: peer.choice,
        keepalive: peer.keepalive,
        // Half of the pool is for sent data.
        in_flight_max: Octets::new(config.pool.get() / 2),
    }
}

/// Longest packet taken from a peer, whose inside may be wider than ours.
const PACKET_MAX: usize = u16::MAX as usize;

/// Each link's packet service configuration. Draws a flow-hash key.
pub(super) fn link_packets(packets: &PacketConfig, peers: usize, entropy: &mut Entropy) -> PacketsConfig {
    PacketsConfig {
        packet_max: PACKET_MAX,
        pool: packets.pool / peers.max(1),
        discipline: packets.discipline,
        repairs: packets.repairs,
        tries: packets.tries,
        key: [entropy.next_u64(), entropy.next_u64()],
    }
}
