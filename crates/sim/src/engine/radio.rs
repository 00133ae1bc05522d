//! Radio cells in the engine: stations, the ways between them, and sources that never run dry.

use super::medium::{ChannelSlot, Medium};
use super::{ChannelId, Due, Engine, Node, NodeId};
use crate::datagrams;
use std::net::Ipv4Addr;
use wavelane_channel::wifi::{ConfigError, Wifi, WifiConfig};

/// Datagrams of a saturated source that wait in its station.
const BACKLOG: usize = 3;
/// No port.
const NOWHERE: usize = usize::MAX;

impl Engine {
    /// Joins nodes by a radio cell, in the order of its stations. A node gets a port for each station that it can talk
    /// to.
    ///
    /// # Panics
    /// If one of them is a gateway, or there are fewer nodes than stations.
    pub fn connect_cell(
        &mut self,
        name: &str,
        config: &WifiConfig,
        stations: &[NodeId],
    ) -> Result<ChannelId, ConfigError> {
        let medium = Medium::Wifi(Box::new(Wifi::new(self.seed, name, config)?));
        let channel = self.channels.len();
        let count = config.reach.stations();
        let mut ends: Vec<(NodeId, Vec<usize>)> =
            stations[..count].iter().map(|n| (*n, vec![NOWHERE; count])).collect();
        for (at, (node, ports)) in ends.iter_mut().enumerate() {
            for (far, port) in ports.iter_mut().enumerate() {
                let talks = at != far && config.reach.get(at, far).decode && config.reach.get(far, at).decode;
                if talks {
                    *port = self.wires[node.0].len();
                    self.wires[node.0].push((channel, medium.port(at, far)));
                }
            }
            match &mut self.nodes[node.0] {
                Node::Host(host) => host.ports = self.wires[node.0].len(),
                Node::Router(router) => router.ports = self.wires[node.0].len(),
                Node::Gateway(gateway) => panic!("node {}: gateways have no radios yet", gateway.name),
            }
        }
        let actor = self.join(Due::Channel(channel));
        self.channels.push(ChannelSlot { medium, actor, ends, sources: vec![None; count] });
        Ok(ChannelId(channel))
    }

    /// Tells a router, or a host, to send packets for `to` over `channel` to the node `next`.
    ///
    /// # Panics
    /// If `node` is a gateway, or the channel does not lead from it to `next`.
    pub fn route_via(&mut self, node: NodeId, to: Ipv4Addr, channel: ChannelId, next: NodeId) {
        let ends = &self.channels[channel.0].ends;
        let far = ends.iter().position(|(at, _)| *at == next).expect("the channel reaches the next node");
        let (_, ports) = ends.iter().find(|(at, _)| *at == node).expect("the channel ends at the node");
        let port = ports[far];
        assert_ne!(port, NOWHERE, "the two stations hear each other");
        match &mut self.nodes[node.0] {
            Node::Router(node) => node.routes.insert(to, port),
            Node::Host(node) => node.routes.insert(to, port),
            Node::Gateway(node) => panic!("node {} is a gateway, not a router", node.name),
        };
    }

    /// The radio cell behind a channel, for its counters; `None` if it is a cable.
    pub fn cell(&self, channel: ChannelId) -> Option<&Wifi> {
        match &self.channels[channel.0].medium {
            Medium::Wifi(wifi) => Some(wifi),
            Medium::Cable(_) => None,
        }
    }

    /// Keeps the queue of the station by which `flow` leaves filled from now on; with `on` false no longer.
    pub(super) fn saturate(&mut self, flow: usize, on: bool) {
        let (node, target) = (self.flows[flow].spec.node, self.flows[flow].spec.target);
        let Node::Host(host) = &self.nodes[node.0] else { panic!("datagrams come from hosts") };
        let Some((channel, port)) = host.port_towards(target).map(|port| self.wires[node.0][port]) else { return };
        let (station, _) = self.channels[channel].medium.places(port);
        let Some(source) = self.channels[channel].sources.get_mut(station) else { return };
        *source = on.then_some(flow);
        if on {
            self.refill(channel, station);
        }
    }

    /// A frame has left a station: its source, if it has one that never runs dry, gives the next.
    pub(super) fn refill(&mut self, channel: usize, station: usize) {
        let slot = &self.channels[channel];
        let Some(flow) = slot.sources.get(station).copied().flatten() else { return };
        let waiting = |slot: &ChannelSlot| match &slot.medium {
            Medium::Wifi(wifi) => wifi.waiting(station),
            Medium::Cable(_) => BACKLOG,
        };
        for _ in waiting(slot)..BACKLOG {
            let node = self.flows[flow].spec.node.0;
            self.at_node(node, |node, moment| {
                if let Node::Host(host) = node {
                    datagrams::send_next(host, moment, flow);
                }
            });
        }
    }
}
