//! The virtual-time driver: nodes and channels, and one agenda of what happens next.
//!
//! The engine's time is nobody's clock. It drives machines only through [`Machine`], in the documented order, and
//! panics with the cause if one breaks a law, because a run with a broken machine proves nothing.

mod digest;
mod medium;
mod programs;
mod radio;
mod router;

use crate::agenda::Agenda;
use crate::clock::NodeClock;
use crate::content::Content;
use crate::host::HostNode;
use crate::node::{GatewayNode, INSIDE, Moment, Outgoing, Resident};
use crate::traffic::{Flow, FlowIndex, FlowLog, FlowSpec};
use digest::{DIGEST_START, mix, mix_bytes};
use medium::{ChannelSlot, Medium};
use router::Router;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use wavelane_base::{Instant, PortId, Seed, Span};
use wavelane_channel::cable::{Cable, Direction};
use wavelane_channel::{CableConfig, Parameter};
use wavelane_protocol::gateway::{Config, ConfigError, Event, Gateway, Status};
use wavelane_protocol::tcp::{Config as TcpConfig, Status as TcpStatus};

/// A node, by its place among those added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeId(pub usize);

/// A channel, by its place among those added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ChannelId(pub usize);

/// One end of a channel: a new port of `node`.
#[derive(Clone, Copy, Debug)]
pub struct Plug {
    /// The node.
    pub node: NodeId,
    /// The port's UDP address on a gateway; without one it is the gateway's inside, where the packet service takes
    /// and gives IP packets. A router's port needs none.
    pub address: Option<SocketAddrV4>,
}

/// A packet at a channel's edge, shown to the tap.
#[derive(Clone, Copy, Debug)]
pub struct Crossing<'a> {
    /// When.
    pub at: Instant,
    /// Where.
    pub channel: ChannelId,
    /// The channel's port by which it enters or leaves: 0 or 1 of a cable, [`wavelane_channel::wifi::port`] of a cell.
    pub port: PortId,
    /// Which way it travels; in a cell forward is from the lower-numbered station to the higher.
    pub direction: Direction,
    /// Whether it goes in (before queue and loss) or comes out.
    pub edge: Edge,
    /// The IP packet.
    pub packet: &'a [u8],
}

/// Which edge of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// The packet was offered to the channel.
    Offered,
    /// The packet came out at the far side.
    Delivered,
}

/// What sees every packet.
pub type Tap = Box<dyn FnMut(Crossing<'_>)>;

/// Deliveries at one moment before the wiring is called endless.
const SETTLE_LIMIT: usize = 10_000_000;
/// Packets kept that come out of a gateway's inside where nothing is plugged in; later ones are thrown away.
const INSIDE_KEPT: usize = 1_000_000;
/// Room for one packet that comes out of a channel.
const PACKET_ROOM: usize = 65_535;

enum Node {
    Gateway(Box<GatewayNode>),
    Host(Box<HostNode>),
    Router(Router),
}

impl Node {
    fn name(&self) -> &str {
        match self {
            Self::Gateway(gateway) => &gateway.name,
            Self::Host(host) => &host.name,
            Self::Router(router) => &router.name,
        }
    }
    /// The node as one with a machine and programs.
    fn resident(&self) -> Option<&dyn Resident> {
        match self {
            Self::Gateway(gateway) => Some(&**gateway),
            Self::Host(host) => Some(&**host),
            Self::Router(_) => None,
        }
    }
    fn resident_mut(&mut self) -> Option<&mut dyn Resident> {
        match self {
            Self::Gateway(gateway) => Some(&mut **gateway),
            Self::Host(host) => Some(&mut **host),
            Self::Router(_) => None,
        }
    }
}

/// Whose deadline it is.
#[derive(Clone, Copy, Debug)]
enum Due {
    Node(usize),
    Channel(usize),
    Flow(usize),
}

/// The simulator.
pub struct Engine {
    now: Instant,
    seed: Seed,
    agenda: Agenda,
    /// By actor of the agenda.
    actors: Vec<Due>,
    nodes: Vec<Node>,
    /// By node.
    node_actors: Vec<usize>,
    channels: Vec<ChannelSlot>,
    /// By node, then port: the channel and its port there.
    wires: Vec<Vec<(usize, PortId)>>,
    /// By gateway: the same for its inside.
    inside_wires: BTreeMap<usize, (usize, PortId)>,
    flows: Vec<Flow>,
    /// By flow.
    flow_actors: Vec<usize>,
    out: Vec<Outgoing>,
    /// Channels that may have something to hand out.
    dirty: VecDeque<usize>,
    /// What a channel hands out at this moment.
    ready: Vec<(PortId, Vec<u8>)>,
    /// Stations that a frame has left at this moment.
    departed: Vec<usize>,
    /// Packet buffers to be used again.
    spare: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    digest: u64,
    tap: Option<Tap>,
    /// What came out of the insides of gateways that nothing is plugged into.
    inside: Vec<(Instant, NodeId, Vec<u8>)>,
}

impl Engine {
    /// An empty world at time zero.
    pub fn new(seed: Seed) -> Self {
        Self {
            now: Instant::ZERO,
            seed,
            agenda: Agenda::new(),
            actors: Vec::new(),
            nodes: Vec::new(),
            node_actors: Vec::new(),
            channels: Vec::new(),
            wires: Vec::new(),
            inside_wires: BTreeMap::new(),
            flows: Vec::new(),
            flow_actors: Vec::new(),
            out: Vec::new(),
            dirty: VecDeque::new(),
            ready: Vec::new(),
            departed: Vec::new(),
            spare: Vec::new(),
            buffer: vec![0; PACKET_ROOM],
            digest: DIGEST_START,
            tap: None,
            inside: Vec::new(),
        }
    }

    /// Adds a gateway. Its entropy is the run's substream of its name, so two nodes need two names.
    pub fn add_gateway(&mut self, name: &str, clock: NodeClock, config: Config) -> Result<NodeId, ConfigError> {
        let node = GatewayNode::new(name, self.now, clock, config, self.seed)?;
        Ok(self.add_node(Node::Gateway(Box::new(node))))
    }

    fn join(&mut self, due: Due) -> usize {
        self.actors.push(due);
        self.agenda.join()
    }
    fn add_node(&mut self, node: Node) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(node);
        self.wires.push(Vec::new());
        let actor = self.join(Due::Node(id));
        self.node_actors.push(actor);
        NodeId(id)
    }

    /// Adds a router, which forwards by the routes it is given and by nothing else.
    pub fn add_router(&mut self, name: &str) -> NodeId {
        self.add_node(Node::Router(Router::new(name)))
    }

    /// Adds an end host with our TCP. It forwards by routes what is not for it.
    pub fn add_host(&mut self, name: &str, address: Ipv4Addr, clock: NodeClock, config: TcpConfig) -> NodeId {
        let node = HostNode::new(name, address, clock, config, self.seed);
        self.add_node(Node::Host(Box::new(node)))
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
        let channel = self.channels.len();
        let mut ends = Vec::new();
        for (side, plug) in [a, b].into_iter().enumerate() {
            let wire = (channel, PortId(side as u16));
            let mut port = self.wires[plug.node.0].len();
            match (&mut self.nodes[plug.node.0], plug.address) {
                (Node::Gateway(gateway), Some(address)) => gateway.ports.push(address),
                (Node::Gateway(_), None) => port = INSIDE,
                (Node::Host(host), _) => host.ports = port + 1,
                (Node::Router(router), _) => router.ports = port + 1,
            }
            ends.push((plug.node, vec![port; 2]));
            if port == INSIDE {
                self.inside_wires.insert(plug.node.0, wire);
            } else {
                self.wires[plug.node.0].push(wire);
            }
        }
        let actor = self.join(Due::Channel(channel));
        self.channels.push(ChannelSlot { medium, actor, ends, sources: Vec::new() });
        Ok(ChannelId(channel))
    }

    /// Tells a router, or a host, to send packets for `to` out of the port that `channel` is plugged into.
    ///
    /// # Panics
    /// If `router` is a gateway or `channel` does not end there.
    pub fn route(&mut self, router: NodeId, to: Ipv4Addr, channel: ChannelId) {
        let other = self.channels[channel.0].ends.iter().map(|(node, _)| *node).find(|node| *node != router);
        self.route_via(router, to, channel, other.expect("the channel has another end"));
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

    /// The engine's time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Runs everything that is due up to and including `until`.
    pub fn run_until(&mut self, until: Instant) {
        while let Some((at, actor)) = self.agenda.pop_until(until) {
            let due = self.actors[actor];
            assert!(at >= self.now, "the agenda went back from {:?} to {at:?} for {due:?}", self.now);
            self.now = at;
            self.act(due);
        }
        self.now = self.now.max(until);
    }

    /// Runs until `done` says so (asked every `step`) or until `limit`. Returns whether it did.
    pub fn run_while(&mut self, limit: Instant, step: Span, mut go_on: impl FnMut(&Self) -> bool) -> bool {
        while go_on(self) {
            if self.now >= limit {
                return false;
            }
            self.run_until((self.now + step).min(limit));
        }
        true
    }

    /// Changes one parameter of a cable, now.
    ///
    /// # Panics
    /// If the channel is a radio cell.
    pub fn set(
        &mut self,
        channel: ChannelId,
        direction: Direction,
        parameter: Parameter,
    ) -> Result<(), wavelane_channel::ConfigError> {
        let Medium::Cable(cable) = &mut self.channels[channel.0].medium else {
            panic!("channel {} is a radio cell, whose parameters stay", channel.0)
        };
        cable.set(self.now, direction, parameter)?;
        self.dirty.push_back(channel.0);
        self.settle();
        Ok(())
    }

    /// Hands an IP packet to a gateway's inside, now.
    pub fn send_packet(&mut self, node: NodeId, packet: &[u8]) {
        self.at_resident(node.0, |gateway, moment| gateway.receive(moment, INSIDE, &mut packet.to_vec()));
        self.settle();
    }

    /// What came out of the insides of gateways that nothing is plugged into, since the last call: when, where, what.
    pub fn take_packets(&mut self) -> Vec<(Instant, NodeId, Vec<u8>)> {
        std::mem::take(&mut self.inside)
    }

    /// Kills the gateway process and starts it again, with a new boot epoch.
    pub fn restart(&mut self, node: NodeId) {
        self.gateway_mut(node);
        self.at_node(node.0, |this, moment| {
            if let Node::Gateway(gateway) = this {
                gateway.restart(moment);
            }
        });
        self.settle();
    }

    /// Gives a gateway's port another address, as a modem that was assigned a new one. Nobody is told.
    pub fn readdress(&mut self, node: NodeId, port: usize, address: SocketAddrV4) {
        self.gateway_mut(node).ports[port] = address;
    }

    /// What was seen of an exchange.
    pub fn log(&self, flow: FlowIndex) -> &FlowLog {
        &self.flows[flow.0].log
    }
    /// How many exchanges there are.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }
    /// The cable behind a channel, for its counters.
    ///
    /// # Panics
    /// If it is a radio cell.
    pub fn cable(&self, channel: ChannelId) -> &Cable {
        match &self.channels[channel.0].medium {
            Medium::Cable(cable) => cable,
            Medium::Wifi(_) => panic!("channel {} is a radio cell", channel.0),
        }
    }
    /// A gateway's own account of itself.
    pub fn status(&self, node: NodeId) -> Status {
        let node = self.gateway_node(node);
        node.gateway.status(node.clock.local(self.now))
    }
    /// What the open TCP connections of a host say of themselves.
    pub fn connections(&self, node: NodeId) -> Vec<TcpStatus> {
        match &self.nodes[node.0] {
            Node::Host(host) => host.statuses(),
            _ => Vec::new(),
        }
    }
    /// Whether a node is a gateway.
    pub fn is_gateway(&self, node: NodeId) -> bool {
        matches!(self.nodes[node.0], Node::Gateway(_))
    }
    /// The gateway machine of a node.
    pub fn gateway(&self, node: NodeId) -> &Gateway {
        &self.gateway_node(node).gateway
    }
    /// What a gateway said of its peers, with the engine's time.
    pub fn peer_events(&self, node: NodeId) -> &[(Instant, Event)] {
        &self.gateway_node(node).peer_events
    }
    /// Packets that a node threw away before its machine saw them, by reason.
    pub fn dropped(&self, node: NodeId) -> &BTreeMap<&'static str, u64> {
        match &self.nodes[node.0] {
            Node::Gateway(gateway) => &gateway.dropped,
            Node::Host(host) => &host.dropped,
            Node::Router(router) => &router.dropped,
        }
    }
    /// A number that stands for every packet that entered or left a channel so far: when, where and which bytes.
    pub fn digest(&self) -> u64 {
        self.digest
    }
    /// Shows every packet at every channel's edges to `tap` from now on.
    pub fn set_tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    fn act(&mut self, due: Due) {
        match due {
            Due::Node(node) => self.at_resident(node, |gateway, moment| gateway.timeout(moment)),
            Due::Channel(channel) => {
                self.channels[channel].medium.handle_timeout(self.now);
                self.dirty.push_back(channel);
            }
            Due::Flow(flow) => self.tick(flow),
        }
        self.settle();
    }

    /// Lets a node's machine or programs act and takes what they send to the channels.
    fn at_resident<T>(&mut self, node: usize, act: impl FnOnce(&mut dyn Resident, &mut Moment<'_>) -> T) -> T {
        self.at_node(node, |this, moment| match this.resident_mut() {
            Some(resident) => act(resident, moment),
            None => panic!("node {node} is a router, which has no machine"),
        })
    }

    fn at_node<T>(&mut self, node: usize, act: impl FnOnce(&mut Node, &mut Moment<'_>) -> T) -> T {
        let mut moment = Moment { now: self.now, flows: &mut self.flows, out: &mut self.out, spare: &mut self.spare };
        let result = act(&mut self.nodes[node], &mut moment);
        if let Some(resident) = self.nodes[node].resident() {
            self.agenda.set(self.node_actors[node], resident.deadline());
        }
        let mut out = std::mem::take(&mut self.out);
        for Outgoing { port, mut packet } in out.drain(..) {
            self.offer(node, port, &mut packet);
            self.spare.push(packet);
        }
        self.out = out;
        result
    }

    /// Hands a packet to the channel at a node's port.
    fn offer(&mut self, node: usize, port: usize, packet: &mut [u8]) {
        let wire = if port == INSIDE { self.inside_wires.get(&node) } else { self.wires[node].get(port) };
        let Some(&(channel, port)) = wire else {
            if port == INSIDE && self.inside.len() < INSIDE_KEPT {
                self.inside.push((self.now, NodeId(node), packet.to_vec()));
            }
            return;
        };
        self.note(channel, port, Edge::Offered, packet);
        self.channels[channel].medium.handle_frame(self.now, port, packet);
        self.dirty.push_back(channel);
    }

    /// Delivers what channels have ready until nothing moves at this moment.
    fn settle(&mut self) {
        for _ in 0..SETTLE_LIMIT {
            let Some(channel) = self.dirty.pop_front() else { return };
            let mut ready = std::mem::take(&mut self.ready);
            let slot = &mut self.channels[channel];
            while let Some((port, len)) = slot.medium.next_out(self.now, &mut self.buffer) {
                let mut packet = self.spare.pop().unwrap_or_default();
                packet.clear();
                packet.extend_from_slice(&self.buffer[..len]);
                ready.push((port, packet));
            }
            let mut departed = std::mem::take(&mut self.departed);
            while let Some(station) = slot.medium.next_departure() {
                departed.push(station);
            }
            let wish = slot.medium.poll_timeout();
            if let Some(wakeup) = wish {
                assert!(
                    wakeup.at > self.now,
                    "channel {channel} breaks law 3 at {:?}: stale deadline {:?} for '{}'",
                    self.now,
                    wakeup.at,
                    wakeup.cause
                );
            }
            self.agenda.set(slot.actor, wish.map(|w| w.at));
            for (port, packet) in ready.drain(..) {
                self.deliver(channel, port, packet);
            }
            for station in departed.drain(..) {
                self.refill(channel, station);
            }
            (self.ready, self.departed) = (ready, departed);
        }
        panic!("at {:?} packets circulate without end: a routing loop over channels without delay", self.now)
    }

    /// A packet comes out at a port of a channel.
    fn deliver(&mut self, channel: usize, port: PortId, mut packet: Vec<u8>) {
        self.note(channel, port, Edge::Delivered, &packet);
        let slot = &self.channels[channel];
        let (at, far) = slot.medium.places(port);
        let (node, ports) = &slot.ends[at];
        let (node, port) = (node.0, ports[far]);
        match &mut self.nodes[node] {
            Node::Gateway(_) | Node::Host(_) => {
                self.at_resident(node, |resident, moment| resident.receive(moment, port, &mut packet));
            }
            Node::Router(router) => {
                if let Some(to) = router.choose(port, &packet) {
                    self.offer(node, to, &mut packet);
                }
            }
        }
        self.spare.push(packet);
    }

    fn gateway_node(&self, node: NodeId) -> &GatewayNode {
        match &self.nodes[node.0] {
            Node::Gateway(gateway) => gateway,
            other => panic!("node {} is no gateway", other.name()),
        }
    }

    fn gateway_mut(&mut self, node: NodeId) -> &mut GatewayNode {
        match &mut self.nodes[node.0] {
            Node::Gateway(gateway) => gateway,
            other => panic!("node {} is no gateway", other.name()),
        }
    }

    fn note(&mut self, channel: usize, port: PortId, edge: Edge, packet: &[u8]) {
        let (at, far) = self.channels[channel].medium.places(port);
        // What leaves at a port travels towards it.
        let direction = Direction::BOTH[usize::from((at > far) == (edge == Edge::Offered))];
        let place = match &self.channels[channel].medium {
            Medium::Cable(_) => direction as u64,
            Medium::Wifi(_) => u64::from(port.0),
        };
        let head = [self.now.as_nanos(), channel as u64, place, edge as u64, packet.len() as u64];
        self.digest = head.into_iter().fold(self.digest, mix);
        self.digest = mix_bytes(self.digest, packet);
        if let Some(tap) = &mut self.tap {
            tap(Crossing { at: self.now, channel: ChannelId(channel), port, direction, edge, packet });
        }
    }
}
