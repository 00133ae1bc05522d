//! Radio cells in the engine: stations, the paths between them, and saturated sources.

use super::medium::{ChannelSlot, Medium};
use super::{CaptureSink, ChannelId, Due, Engine, Node, NodeId};
use crate::datagrams;
use crate::node::INSIDE;
use crate::traffic::FlowIndex;
use std::net::{Ipv4Addr, SocketAddrV4};
use wavelane_base::{Address, Span};
use wavelane_channel::wifi::{CATEGORIES, Category, ConfigError, Handling, Overheard, Wifi, WifiConfig};
use wavelane_wire::ip::{Ipv4, PROTOCOL_UDP};
use wavelane_wire::tcp::PROTOCOL_TCP;

/// Datagrams of a saturated source that wait in its station, and bulk of a gateway that tells its radio how to send it.
pub(super) const BACKLOG: usize = 3;
/// Airtime of bulk that a gateway keeps in its radio: enough for aggregates, and short enough that what is urgent and comes behind it is soon
/// sent (decision 0050; Linux's mac80211 lets one receiver have 5 ms, `aql_txq_limit`).
pub(super) const ROOM: Span = Span::from_millis(4);
/// No port.
const NOWHERE: usize = usize::MAX;

impl Engine {
    /// Joins nodes by a radio cell, in the order of its stations. A node gets a port for each station that it can talk
    /// to; a gateway's has the `address` that is said for the two stations, and leads to an endpoint without one.
    ///
    /// # Panics
    /// If there are fewer nodes than stations.
    pub fn connect_cell(
        &mut self,
        name: &str,
        config: &WifiConfig,
        stations: &[NodeId],
        address: impl Fn(usize, usize) -> Option<SocketAddrV4>,
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
                    *port = self.plug(
                        *node,
                        address(at, far).map(|to| Address::Ip(to.into())),
                        (channel, medium.port(at, far)),
                    );
                }
            }
        }
        let room = medium.bulk_room(0);
        for (node, ports) in &ends {
            if let Node::Gateway(gateway) = &mut self.nodes[node.0] {
                gateway.plug_radio(ports.iter().copied().filter(|port| *port < INSIDE).collect(), room);
            }
        }
        let actor = self.join(Due::Channel(channel));
        self.channels.push(ChannelSlot { medium, actor, ends, sources: vec![[None; CATEGORIES]; count] });
        Ok(ChannelId(channel))
    }

    /// Tells a router, or a host, to send packets for `to` over `channel` to the node `next`.
    ///
    /// # Panics
    /// If `node` is a gateway without a door, or the channel does not lead from it to `next`.
    pub fn route_via(&mut self, node: NodeId, to: Ipv4Addr, channel: ChannelId, next: NodeId) {
        let ends = &self.channels[channel.0].ends;
        let far = ends.iter().position(|(at, _)| *at == next).expect("the channel reaches the next node");
        let (_, ports) = ends.iter().find(|(at, _)| *at == node).expect("the channel ends at the node");
        let port = ports[far];
        assert_ne!(port, NOWHERE, "the two stations hear each other");
        match &mut self.nodes[node.0] {
            Node::Router(node) => node.routes.insert(to, port),
            Node::Host(node) => node.routes.insert(to, port),
            Node::Gateway(node) => match &mut node.door {
                Some(door) => door.routes.insert(to, port),
                None => panic!("node {} is a gateway without a door, not a router", node.name),
            },
        };
    }

    /// The radio cell behind a channel, for its counters; `None` if it is a cable.
    pub fn cell(&self, channel: ChannelId) -> Option<&Wifi> {
        match &self.channels[channel.0].medium {
            Medium::Wifi(wifi) => Some(wifi),
            _ => None,
        }
    }

    /// Makes every radio station on the path send the packets of an exchange, both ways, like this. They are recognised
    /// by the client's port.
    pub fn send_as(&mut self, flow: FlowIndex, handling: Handling) {
        let port = self.flows[flow.0].spec.source.port();
        self.handlings.insert(port, handling);
    }
    /// How a radio frame of a packet is to be sent.
    pub(super) fn handling_of(&self, packet: &[u8]) -> Handling {
        if self.handlings.is_empty() {
            return Handling::default();
        }
        let found = ports(packet).and_then(|ports| ports.iter().find_map(|port| self.handlings.get(port)));
        found.copied().unwrap_or_default()
    }
    /// Shows every frame captured in radio cells to `sink` from now on.
    pub fn set_capture_sink(&mut self, sink: CaptureSink) {
        self.capture_sink = Some(sink);
    }
    /// Hands on what a cell has captured. Without a sink it is discarded, so that nothing waits.
    pub(super) fn drain_captures(&mut self, channel: usize) {
        let Medium::Wifi(wifi) = &mut self.channels[channel].medium else { return };
        while let Some(captured) = wifi.poll_capture(&mut self.capture_buffer) {
            if let Some(sink) = &mut self.capture_sink {
                sink(ChannelId(channel), captured, &self.capture_buffer);
            }
        }
    }

    /// Hands frames that were overheard to the gateways behind their listeners.
    pub(super) fn deliver_overheard(&mut self, channel: usize) {
        let mut packet = self.spare.pop().unwrap_or_default();
        loop {
            let slot = &mut self.channels[channel];
            let Medium::Wifi(wifi) = &mut slot.medium else { break };
            let Some(Overheard { station, sender, to }) = wifi.take_overheard(&mut packet) else { break };
            let (node, ports) = &slot.ends[station];
            let (node, port) = (node.0, ports[to]);
            if port >= INSIDE {
                // The listener cannot talk to the station that it was for.
                continue;
            }
            self.at_node(node, |node, moment| {
                if let Node::Gateway(gateway) = node {
                    gateway.overhear(moment, port, sender, &packet);
                }
            });
        }
        self.spare.push(packet);
    }

    /// Keeps the queue of the station by which `flow` leaves filled from now on; with `on` false no longer.
    pub(super) fn saturate(&mut self, flow: usize, on: bool) {
        let (node, target) = (self.flows[flow].spec.node, self.flows[flow].spec.target);
        let category = self.category_of(flow);
        let Node::Host(host) = &self.nodes[node.0] else { panic!("datagrams come from hosts") };
        let Some((channel, port)) = host.port_towards(target).map(|port| self.wires[node.0][port]) else { return };
        let slot = &mut self.channels[channel];
        let (station, _) = slot.medium.places(port);
        let queue = slot.medium.queue_of(category);
        let Some(source) = slot.sources.get_mut(station).map(|sources| &mut sources[queue]) else { return };
        if on {
            *source = Some(flow);
            self.refill(channel, station);
        } else if *source == Some(flow) {
            *source = None;
        }
    }
    /// Tells the gateway behind a station, if it decides how each frame is sent, how many bulk frames the station takes.
    fn tell_radio_room(&mut self, channel: usize, station: usize) {
        let slot = &self.channels[channel];
        let room = slot.medium.bulk_room(station);
        let (node, ports) = &slot.ends[station];
        let Some(port) = ports.iter().copied().find(|port| *port < INSIDE) else { return };
        let node = *node;
        if let Node::Gateway(gateway) = &mut self.nodes[node.0]
            && gateway.set_radio_room(port, room)
        {
            self.at_resident(node.0, |gateway, moment| gateway.service(moment));
        }
    }
    fn category_of(&self, flow: usize) -> Category {
        let port = self.flows[flow].spec.source.port();
        self.handlings.get(&port).map_or_else(Category::default, |handling| handling.category)
    }

    /// A frame has left a station: its saturated sources supply the next.
    pub(super) fn refill(&mut self, channel: usize, station: usize) {
        self.tell_radio_room(channel, station);
        let Some(sources) = self.channels[channel].sources.get(station).copied() else { return };
        for flow in sources.into_iter().flatten() {
            let missing = match &self.channels[channel].medium {
                Medium::Wifi(wifi) => wifi
                    .largest_burst(station)
                    .max(BACKLOG)
                    .saturating_sub(wifi.waiting_in(station, self.category_of(flow))),
                _ => 0,
            };
            for _ in 0..missing {
                let node = self.flows[flow].spec.node.0;
                self.at_node(node, |node, moment| {
                    if let Node::Host(host) = node {
                        datagrams::send_next(host, moment, flow);
                    }
                });
            }
        }
    }
}

/// The two ports of a TCP or UDP packet.
fn ports(packet: &[u8]) -> Option<[u16; 2]> {
    let ip = Ipv4::parse(packet).ok()?;
    if ![PROTOCOL_TCP, PROTOCOL_UDP].contains(&ip.protocol) {
        return None;
    }
    let at = |place: usize| Some(u16::from_be_bytes(*ip.payload.get(place..)?.first_chunk()?));
    Some([at(0)?, at(2)?])
}
