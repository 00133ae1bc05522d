//! What the file says, as the gateway machine takes it.

use crate::config::{Config, Directions, Intercept, LaneMedium, LaneSocket, Peer, PeerLane, Source, Tun};
use std::net::IpAddr;
use wavelane_base::{Address, PortId};
use wavelane_gateway as gateway;
use wavelane_gateway::{Controller, LaneConfig, PacketConfig, PeerConfig};
use wavelane_settings::LaneKnobs;

impl Config {
    /// A peer's lanes for the gateway machine. `addresses` are the known addresses to call it at, per lane.
    fn gateway_lanes(
        &self,
        peer: &Peer,
        sockets: &[Option<LaneSocket>],
        addresses: &[Option<Address>],
    ) -> Vec<LaneConfig> {
        let at = |lane: usize| addresses.get(lane).copied().flatten();
        if peer.lanes.is_empty() {
            return vec![LaneConfig { controller: peer.controller, ..LaneConfig::new(PortId(0), at(0)) }];
        }
        let out = peer.lanes.iter().filter(|lane| lane.ways != Directions::In);
        let port = |of: &PeerLane| sockets.iter().position(|s| s.is_some() && *s == of.socket).map_or(0, |i| i + 1);
        let one = |(i, of): (usize, &PeerLane)| {
            let address = at(i).or_else(|| of.number());
            LaneConfig {
                port: PortId(port(of) as u16),
                address,
                one_way: of.ways == Directions::Out,
                carrier: of.socket.as_ref().map_or_else(|| LaneMedium::default().carrier, LaneSocket::carrier),
                controller: peer.controller,
                knobs: LaneKnobs {
                    start_rate: of.first_rate().filter(|_| peer.controller == Controller::Delay),
                    ..of.knobs
                },
            }
        };
        out.enumerate().map(one).collect()
    }

    /// The gateway machine's configuration at the start. `addresses` are the resolved addresses of each peer's lanes out, in order.
    pub fn to_gateway(&self, addresses: &[Vec<Option<Address>>]) -> gateway::Config {
        let sockets: Vec<_> = self.lane_sockets().into_iter().map(Some).collect();
        self.to_gateway_by(addresses, &sockets)
    }

    /// The same with `sockets` as the ports 1, 2, ..., some of which may be unused.
    pub(crate) fn to_gateway_by(
        &self,
        addresses: &[Vec<Option<Address>>],
        sockets: &[Option<LaneSocket>],
    ) -> gateway::Config {
        let peers = self.peers.iter().enumerate().map(|(i, p)| PeerConfig {
            name: p.name.clone(),
            public_key: p.public_key,
            preshared_key: p.preshared_key,
            lanes: self.gateway_lanes(p, sockets, addresses.get(i).map_or(&[], Vec::as_slice)),
            choice: p.choice,
            keepalive: p.keepalive,
            allow_sources: p.allow_sources.clone(),
            allow_targets: self.targets(p).to_vec(),
            routes: p.routes.clone(),
        });
        let hops = self.peers.iter().enumerate();
        let hops = hops.flat_map(|(i, p)| p.next_hops.iter().map(move |hop| (*hop, gateway::PeerId(i))));
        let config = gateway::Config {
            private_key: self.private_key,
            peers: peers.collect(),
            by_table: self.routing_table.is_some(),
            next_hops: hops.collect(),
            serves: self.serves.clone().unwrap_or_default(),
            edges: self.edges.clone(),
            keep_sources: self.source == Source::Keep,
            aes_hardware: aes_hardware(),
            packets: self.packets(),
            ..gateway::Config::default()
        };
        config.with(&self.knobs).with_turns(self.knobs.withhold)
    }

    /// The packet service's configuration, if there is a packet door.
    fn packets(&self) -> Option<PacketConfig> {
        let (tun, intercept) = (self.tun.as_ref()?, self.intercept.as_ref()?);
        let address = |six| router_address(tun, intercept, six);
        let (v4, v6) = (address(false), address(true));
        Some(PacketConfig {
            inner_mtu: tun.mtu.into(),
            address4: v4.and_then(|a| if let IpAddr::V4(a) = a { Some(a) } else { None }),
            address6: v6.and_then(|a| if let IpAddr::V6(a) = a { Some(a) } else { None }),
            other_way: self.is_open(),
            tries: gateway::tries(&self.knobs),
            ..PacketConfig::default()
        })
    }
}

/// The address that ICMP errors of the packet door come from: the device's, else one of an intercepted interface.
fn router_address(tun: &Tun, intercept: &Intercept, six: bool) -> Option<IpAddr> {
    let usable = |a: &IpAddr| {
        a.is_ipv6() == six && !a.is_loopback() && !matches!(a, IpAddr::V6(v6) if v6.is_unicast_link_local())
    };
    let others = || intercept.interfaces.iter().flat_map(|name| wavelane_host::addresses_of(name));
    tun.addresses.iter().map(|a| a.address).find(usable).or_else(|| others().find(usable))
}

/// Whether this processor has AES instructions.
fn aes_hardware() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has = std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has = false;
    has
}
