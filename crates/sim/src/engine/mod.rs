//! The virtual-time driver: nodes and channels, and one agenda of what happens next.
//!
//! The engine's time is nobody's clock. It drives machines only through [`Machine`], in the documented order, and
//! panics with the cause if one breaks a law, because a run with a broken machine proves nothing.

mod programs;
mod router;

use crate::agenda::{Agenda, Alarm};
use crate::clock::NodeClock;
use crate::content::Content;
use crate::host::HostNode;
use crate::node::{GatewayNode, INSIDE, Moment, Outgoing, Resident};
use crate::traffic::{Flow, FlowIndex, FlowLog, FlowSpec};
use router::Router;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use wavelane_base::{FrameMeta, Instant, Machine, PortId, Seed, Span};
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
    /// Which way it travels.
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

struct ChannelSlot {
    cable: Cable,
    alarm: Alarm,
    /// (node, port) at side a and side b.
    ends: [(NodeId, usize); 2],
}

#[derive(Debug)]
enum Due {
    Node(usize, u64),
    Channel(usize, u64),
    Flow(usize, u64),
}

/// The simulator.
pub struct Engine {
    now: Instant,
    seed: Seed,
    agenda: Agenda<Due>,
    nodes: Vec<Node>,
    channels: Vec<ChannelSlot>,
    /// (node, port) to (channel, side).
    wires: BTreeMap<(usize, usize), (usize, usize)>,
    flows: Vec<Flow>,
    alarms: Vec<Alarm>,
    out: Vec<Outgoing>,
    dirty: VecDeque<usize>,
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
            nodes: Vec::new(),
            channels: Vec::new(),
            wires: BTreeMap::new(),
            flows: Vec::new(),
            alarms: Vec::new(),
            out: Vec::new(),
            dirty: VecDeque::new(),
            buffer: vec![0; PACKET_ROOM],
            digest: DIGEST_START,
            tap: None,
            inside: Vec::new(),
        }
    }

    /// Adds a gateway. Its entropy is the run's substream of its name, so two nodes need two names.
    pub fn add_gateway(&mut self, name: &str, clock: NodeClock, config: Config) -> Result<NodeId, ConfigError> {
        let node = GatewayNode::new(name, self.now, clock, config, self.seed)?;
        self.nodes.push(Node::Gateway(Box::new(node)));
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// Adds a router, which forwards by the routes it is given and by nothing else.
    pub fn add_router(&mut self, name: &str) -> NodeId {
        self.nodes.push(Node::Router(Router::new(name)));
        NodeId(self.nodes.len() - 1)
    }

    /// Adds an end host with our TCP. It forwards by routes what is not for it.
    pub fn add_host(&mut self, name: &str, address: Ipv4Addr, clock: NodeClock, config: TcpConfig) -> NodeId {
        self.nodes.push(Node::Host(Box::new(HostNode::new(name, address, clock, config, self.seed))));
        NodeId(self.nodes.len() - 1)
    }

    /// Joins two nodes by a cable; each gets a new port, numbered from 0 in the order of such calls.
    pub fn connect(
        &mut self,
        name: &str,
        config: CableConfig,
        a: Plug,
        b: Plug,
    ) -> Result<ChannelId, wavelane_channel::ConfigError> {
        let cable = Cable::new(self.seed, name, config)?;
        let channel = self.channels.len();
        let mut ends = [(a.node, 0), (b.node, 0)];
        for (side, plug) in [a, b].into_iter().enumerate() {
            let port = match &mut self.nodes[plug.node.0] {
                Node::Gateway(gateway) => match plug.address {
                    Some(address) => {
                        gateway.ports.push(address);
                        gateway.ports.len() - 1
                    }
                    None => INSIDE,
                },
                Node::Host(host) => {
                    host.ports += 1;
                    host.ports - 1
                }
                Node::Router(router) => {
                    router.ports += 1;
                    router.ports - 1
                }
            };
            ends[side].1 = port;
            self.wires.insert((plug.node.0, port), (channel, side));
        }
        self.channels.push(ChannelSlot { cable, alarm: Alarm::default(), ends });
        Ok(ChannelId(channel))
    }

    /// Tells a router, or a host, to send packets for `to` out of the port that `channel` is plugged into.
    ///
    /// # Panics
    /// If `router` is a gateway or `channel` does not end there.
    pub fn route(&mut self, router: NodeId, to: Ipv4Addr, channel: ChannelId) {
        let end = self.channels[channel.0].ends.iter().find(|(node, _)| *node == router);
        let port = end.expect("the channel ends at the router").1;
        match &mut self.nodes[router.0] {
            Node::Router(node) => node.routes.insert(to, port),
            Node::Host(node) => node.routes.insert(to, port),
            Node::Gateway(node) => panic!("node {} is a gateway, not a router", node.name),
        };
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
        self.alarms.push(Alarm::default());
        self.arm_flow(index, Some(start));
        FlowIndex(index)
    }

    /// The engine's time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Runs everything that is due up to and including `until`.
    pub fn run_until(&mut self, until: Instant) {
        while let Some((at, due)) = self.agenda.pop_until(until) {
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

    /// Changes one parameter of a channel, now.
    pub fn set(
        &mut self,
        channel: ChannelId,
        direction: Direction,
        parameter: Parameter,
    ) -> Result<(), wavelane_channel::ConfigError> {
        self.channels[channel.0].cable.set(self.now, direction, parameter)?;
        self.dirty.push_back(channel.0);
        self.settle();
        Ok(())
    }

    /// Hands an IP packet to a gateway's inside, now.
    pub fn send_packet(&mut self, node: NodeId, packet: &[u8]) {
        self.at_resident(node.0, |gateway, moment| gateway.receive(moment, INSIDE, packet));
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
    pub fn cable(&self, channel: ChannelId) -> &Cable {
        &self.channels[channel.0].cable
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
            Due::Node(node, generation) => {
                if self.nodes[node].resident_mut().is_some_and(|node| node.alarm().take(generation)) {
                    self.at_resident(node, |gateway, moment| gateway.timeout(moment));
                }
            }
            Due::Channel(channel, generation) => {
                let slot = &mut self.channels[channel];
                if slot.alarm.take(generation) {
                    slot.cable.handle_timeout(self.now);
                    self.dirty.push_back(channel);
                }
            }
            Due::Flow(flow, generation) => {
                if self.alarms[flow].take(generation) {
                    self.tick(flow);
                }
            }
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
        let mut moment = Moment { now: self.now, flows: &mut self.flows, out: &mut self.out };
        let result = act(&mut self.nodes[node], &mut moment);
        if let Some(resident) = self.nodes[node].resident_mut() {
            let deadline = resident.deadline();
            if let Some((at, generation)) = resident.alarm().set(deadline) {
                self.agenda.push(at, Due::Node(node, generation));
            }
        }
        let mut out = std::mem::take(&mut self.out);
        for Outgoing { port, packet } in out.drain(..) {
            self.offer(node, port, packet);
        }
        self.out = out;
        result
    }

    /// Hands a packet to the channel at a node's port.
    fn offer(&mut self, node: usize, port: usize, mut packet: Vec<u8>) {
        let Some(&(channel, side)) = self.wires.get(&(node, port)) else {
            if port == INSIDE && self.inside.len() < INSIDE_KEPT {
                self.inside.push((self.now, NodeId(node), packet));
            }
            return;
        };
        let direction = Direction::BOTH[side];
        self.note(channel, direction, Edge::Offered, &packet);
        let meta = FrameMeta { rx_time: self.now, ..FrameMeta::default() };
        self.channels[channel].cable.handle_frame(self.now, PortId(side as u16), &mut packet, meta);
        self.dirty.push_back(channel);
    }

    /// Delivers what channels have ready until nothing moves at this moment.
    fn settle(&mut self) {
        for _ in 0..SETTLE_LIMIT {
            let Some(channel) = self.dirty.pop_front() else { return };
            let mut ready = Vec::new();
            let slot = &mut self.channels[channel];
            for side in [0usize, 1] {
                while let Some(sent) = slot.cable.poll_transmit(self.now, PortId(side as u16), &mut self.buffer, 1) {
                    ready.push((side, self.buffer[..sent.len].to_vec()));
                }
            }
            while slot.cable.poll_event().is_some() {}
            let wish = slot.cable.poll_timeout();
            if let Some(wakeup) = wish {
                assert!(
                    wakeup.at > self.now,
                    "channel {channel} breaks law 3 at {:?}: stale deadline {:?} for '{}'",
                    self.now,
                    wakeup.at,
                    wakeup.cause
                );
            }
            if let Some((at, generation)) = slot.alarm.set(wish.map(|w| w.at)) {
                self.agenda.push(at, Due::Channel(channel, generation));
            }
            for (side, packet) in ready {
                self.deliver(channel, side, packet);
            }
        }
        panic!("at {:?} packets circulate without end: a routing loop over channels without delay", self.now)
    }

    /// A packet comes out at `side` of a channel.
    fn deliver(&mut self, channel: usize, side: usize, packet: Vec<u8>) {
        self.note(channel, Direction::BOTH[1 - side], Edge::Delivered, &packet);
        let (node, port) = self.channels[channel].ends[side];
        match &mut self.nodes[node.0] {
            Node::Gateway(_) | Node::Host(_) => {
                self.at_resident(node.0, |resident, moment| resident.receive(moment, port, &packet));
            }
            Node::Router(router) => {
                if let Some(to) = router.choose(port, &packet) {
                    self.offer(node.0, to, packet);
                }
            }
        }
    }

    fn arm_flow(&mut self, index: usize, wish: Option<Instant>) {
        if let Some((at, generation)) = self.alarms[index].set(wish) {
            self.agenda.push(at, Due::Flow(index, generation));
        }
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

    fn note(&mut self, channel: usize, direction: Direction, edge: Edge, packet: &[u8]) {
        let head = [self.now.as_nanos(), channel as u64, direction as u64, edge as u64, packet.len() as u64];
        self.digest = head.into_iter().fold(self.digest, mix);
        self.digest = packet.chunks(8).fold(self.digest, |digest, piece| {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            mix(digest, u64::from_be_bytes(word))
        });
        if let Some(tap) = &mut self.tap {
            tap(Crossing { at: self.now, channel: ChannelId(channel), direction, edge, packet });
        }
    }
}

/// FNV-1a's offset basis for 64 bits.
const DIGEST_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a over words instead of bytes, with a rotation so that high bits reach low ones.
fn mix(digest: u64, word: u64) -> u64 {
    ((digest ^ word).wrapping_mul(0x0000_0100_0000_01b3)).rotate_left(23)
}
