//! Laying out the world: nodes, cables, servers and exchanges.

use super::medium::{ChannelSlot, Medium};
use super::router::Router;
use super::serial::SerialLink;
use super::{ChannelId, Due, Engine, Node, NodeId, Plug};
use crate::clock::NodeClock;
use crate::content::Content;
use crate::door::ProxyConfig;
use crate::faults::NodeFaults;
use crate::host::HostNode;
use crate::node::{DOOR, GatewayNode, INSIDE};
use crate::traffic::{Flow, FlowIndex, FlowSpec};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use wavelane_base::{Address, IpPrefix, PortId};
use wavelane_channel::bluetooth::{Bluetooth, BluetoothConfig, BluetoothError};
use wavelane_channel::cable::Cable;
use wavelane_channel::cellular::{Cellular, CellularConfig, CellularError};
use wavelane_channel::{CableConfig, SerialError};
use wavelane_gateway::{Config, ConfigError};
use wavelane_scenario::SerialChannel;
use wavelane_tcp::Config as TcpConfig;

impl Engine {
    /// Adds a gateway. Its entropy is the run's substream of its name, so two nodes need two names.
    pub fn add_gateway(&mut self, name: &str, clock: NodeClock, config: Config) -> Result<NodeId, ConfigError> {
        let node = GatewayNode::new(name, self.now, clock, config, self.seed)?;
        Ok(self.add_node(Node::Gateway(Box::new(node))))
    }

    /// Ends TCP at a gateway, whose own address is `address`: channels plugged into it without an address lead to endpoints
    /// from now on, to which [`Engine::route`] must be told the way.
    ///
    /// # Panics
    /// If `node` is no gateway.
    pub fn open_door(&mut self, node: NodeId, address: Ipv4Addr, config: TcpConfig) {
        let now = self.now;
        self.gateway_mut(node).open_door(now, address, config);
    }

    /// Makes a gateway misbehave from now on.
    ///
    /// # Panics
    /// If `node` is no gateway.
    pub fn set_faults(&mut self, node: NodeId, faults: NodeFaults) {
        self.gateway_mut(node).set_faults(faults);
    }

    /// Adds a router, which forwards by the routes it is given and by nothing else.
    pub fn add_router(&mut self, name: &str) -> NodeId {
        self.add_node(Node::Router(Router::new(name)))
    }

    /// Makes a host a split proxy too: it ends each TCP connection that crosses it and makes another to the server, from the client's
    /// address and without a link in between. It forwards what is not TCP.
    ///
    /// # Panics
    /// If `node` is no host.
    pub fn split_at(&mut self, node: NodeId, config: ProxyConfig) {
        let (now, seed) = (self.now, self.seed);
        match &mut self.nodes[node.0] {
            Node::Host(host) => host.split(now, config, seed),
            other => panic!("node {} is no host", other.name()),
        }
    }

    /// Makes a host a proxy that snoops: TCP stays end to end, and what is lost on the way to hosts of these networks is sent again from here.
    ///
    /// # Panics
    /// If `node` is no host.
    pub fn snoop_at(&mut self, node: NodeId, towards: Vec<IpPrefix>) {
        match &mut self.nodes[node.0] {
            Node::Host(host) => host.snoop(towards),
            other => panic!("node {} is no host", other.name()),
        }
    }

    /// Adds an end host with our TCP. It forwards by routes what is not for it.
    pub fn add_host(&mut self, name: &str, address: Ipv4Addr, clock: NodeClock, config: TcpConfig) -> NodeId {
        let node = HostNode::new(name, address, clock, config, self.seed);
        self.add_node(Node::Host(Box::new(node)))
    }

    pub(super) fn join(&mut self, due: Due) -> usize {
        self.actors.push(due);
        self.agenda.join()
    }
    pub(super) fn add_node(&mut self, node: Node) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(node);
        self.wires.push(Vec::new());
        let actor = self.join(Due::Node(id));
        self.node_actors.push(actor);
        // If nothing happens to it before, it is woken then.
        self.agenda.set(actor, self.nodes[id].resident().deadline());
        NodeId(id)
    }

    /// Joins two nodes by a cable; each gets a new port, numbered from 0 in the order of such calls.
    pub fn connect(
        &mut self,
        name: &str,
        config: CableConfig,
        a: Plug,
        b: Plug,
    ) -> Result<ChannelId, wavelane_channel::ConfigError> {
        let medium = Medium::Cable(Box::new(Cable::new(self.seed, name, config)?));
        Ok(self.join_pair(medium, a, b))
    }

    /// Joins a master and a slave by a Bluetooth link, as [`Engine::connect`].
    pub fn connect_bluetooth(
        &mut self,
        name: &str,
        config: BluetoothConfig,
        master: Plug,
        slave: Plug,
    ) -> Result<ChannelId, BluetoothError> {
        let medium = Medium::Bluetooth(Box::new(Bluetooth::new(self.seed, name, config)?));
        Ok(self.join_pair(medium, master, slave))
    }

    /// Joins a network and a terminal by a cellular bearer, as [`Engine::connect`].
    pub fn connect_cellular(
        &mut self,
        name: &str,
        config: CellularConfig,
        network: Plug,
        terminal: Plug,
    ) -> Result<ChannelId, CellularError> {
        let medium = Medium::Cellular(Box::new(Cellular::new(self.seed, name, config)?));
        Ok(self.join_pair(medium, network, terminal))
    }

    /// Joins two nodes by a serial line that carries IP, as [`Engine::connect`]. PPP begins to negotiate at once.
    pub fn connect_serial(
        &mut self,
        name: &str,
        config: &SerialChannel,
        a: Plug,
        b: Plug,
    ) -> Result<ChannelId, SerialError> {
        let medium = Medium::Serial(Box::new(SerialLink::new(self.now, self.seed, name, config)?));
        let wish = medium.poll_timeout().map(|wakeup| wakeup.at);
        let id = self.join_pair(medium, a, b);
        self.agenda.set(self.channels[id.0].actor, wish);
        Ok(id)
    }

    fn join_pair(&mut self, medium: Medium, a: Plug, b: Plug) -> ChannelId {
        let channel = self.channels.len();
        let mut ends = Vec::new();
        for (side, plug) in [a, b].into_iter().enumerate() {
            let port = self.plug(plug.node, plug.address, (channel, PortId(side as u16)));
            ends.push((plug.node, vec![port; 2]));
        }
        let actor = self.join(Due::Channel(channel));
        self.channels.push(ChannelSlot { medium, actor, ends, sources: Vec::new() });
        ChannelId(channel)
    }

    /// Gives a node a port at the end of `wire`, a channel's port; a gateway's has an address unless it leads to an
    /// endpoint. Returns its number.
    pub(super) fn plug(&mut self, node: NodeId, address: Option<Address>, wire: (usize, PortId)) -> usize {
        let mut port = self.wires[node.0].len();
        match (&mut self.nodes[node.0], address) {
            (Node::Gateway(gateway), Some(address)) => gateway.ports.push(address),
            (Node::Gateway(gateway), None) => {
                port = gateway.door.as_mut().map_or(INSIDE, |door| {
                    door.ports += 1;
                    DOOR + door.ports - 1
                });
            }
            (Node::Host(host), _) => host.ports = port + 1,
            (Node::Router(router), _) => router.ports = port + 1,
        }
        if port >= INSIDE {
            self.inside_wires.insert((node.0, port), wire);
        } else {
            self.wires[node.0].push(wire);
        }
        port
    }

    /// Tells a router, or a host, to send packets for `to` out of the port that `channel` is plugged into.
    ///
    /// # Panics
    /// If `router` is a gateway or `channel` does not end there.
    pub fn route(&mut self, router: NodeId, to: Ipv4Addr, channel: ChannelId) {
        let other = self.channels[channel.0].ends.iter().map(|(node, _)| *node).find(|node| *node != router);
        self.route_via(router, to, channel, other.expect("the channel has another end"));
    }

    /// A gateway's port leaves one channel for another, and has that one's address.
    ///
    /// # Panics
    /// If `node` is no gateway at the end of both.
    pub fn move_port(&mut self, node: NodeId, from: ChannelId, to: ChannelId) {
        let end = |engine: &Self, channel: ChannelId| {
            let end = engine.channels[channel.0].ends.iter().position(|(at, _)| *at == node);
            let end = end.expect("the channel ends at the gateway");
            (end, engine.channels[channel.0].ends[end].1[0])
        };
        let ((left, old), (taken, new)) = (end(self, from), end(self, to));
        self.gateway_mut(node).ports.swap(old, new);
        self.wires[node.0].swap(old, new);
        self.channels[from.0].ends[left].1.fill(new);
        self.channels[to.0].ends[taken].1.fill(old);
    }

    /// A router puts what comes for `home` into packets from `agent` to `care_of` from now on, as a home agent of Mobile IP.
    ///
    /// # Panics
    /// If `router` is none.
    pub fn tunnel(&mut self, router: NodeId, [home, agent, care_of]: [Ipv4Addr; 3]) {
        match &mut self.nodes[router.0] {
            Node::Router(router) => router.tunnels.insert(home, [agent, care_of]),
            other => panic!("node {} is no router", other.name()),
        };
    }

    /// A host takes packets out of those that come to `care_of` from now on. A node without programs gets none.
    pub fn take_from_tunnel(&mut self, node: NodeId, care_of: Ipv4Addr) {
        if let Node::Host(host) = &mut self.nodes[node.0] {
            host.care_of = Some(care_of);
        }
    }

    /// Starts a server program at `address` behind gateway `node`, or on host `node`.
    pub fn listen(&mut self, node: NodeId, address: SocketAddr) {
        match (&mut self.nodes[node.0], address) {
            (Node::Host(host), SocketAddr::V4(address)) => host.listen(address),
            _ => {
                self.gateway_mut(node).listening.insert(address);
            }
        }
    }

    /// Starts a server program at `address` on host `node`, whose connections have a TCP of their own.
    ///
    /// # Panics
    /// If `node` is no host.
    pub fn listen_with(&mut self, node: NodeId, address: SocketAddrV4, config: TcpConfig) {
        match &mut self.nodes[node.0] {
            Node::Host(host) => host.listen_with(address, config),
            other => panic!("node {} is no host", other.name()),
        }
    }

    /// Gives the client of an exchange on a host a TCP of its own.
    pub fn open_with(&mut self, flow: FlowIndex, config: TcpConfig) {
        self.flows[flow.0].tcp = Some(Box::new(config));
    }

    /// Adds an exchange, which starts by itself.
    pub fn add_flow(&mut self, spec: FlowSpec) -> FlowIndex {
        let index = self.flows.len();
        let content = Content(self.seed.chance(&format!("flow {index} / content")).next_u64());
        let start = spec.start.max(self.now);
        self.flows.push(Flow::new(spec, content));
        let actor = self.join(Due::Flow(index));
        self.flow_actors.push(actor);
        self.agenda.set(actor, Some(start));
        FlowIndex(index)
    }
}
