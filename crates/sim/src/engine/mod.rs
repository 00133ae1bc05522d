//! The virtual-time driver: nodes and channels, and one agenda of what happens next.
//!
//! The engine's time is no node's clock. It drives machines only through [`wavelane_base::Machine`], in the documented
//! order, and panics with the cause if one breaks a law, because a run with a broken machine proves nothing.

mod digest;
mod inspect;
mod layout;
mod medium;
mod pass;
mod programs;
mod radio;
mod reading;
mod router;
mod serial;

use crate::agenda::Agenda;
use crate::connection::PIECE;
use crate::host::HostNode;
use crate::node::{GatewayNode, INSIDE, Moment, Outgoing, Resident};
use crate::traffic::Flow;
use digest::DIGEST_START;
use medium::{ChannelSlot, Medium};
use router::Router;
use std::collections::{BTreeMap, VecDeque};
use wavelane_base::{Address, Instant, PortId, Seed, Span};
use wavelane_channel::Parameter;
use wavelane_channel::cable::Direction;
use wavelane_channel::wifi::{Captured, Handling};

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
    /// The port's address on a gateway; without one it is a port of the gateway's door, or if that has none its inside,
    /// where the packet service takes and gives IP packets. A router's port needs none.
    pub address: Option<Address>,
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
    pub point: Point,
    /// The IP packet.
    pub packet: &'a [u8],
}

/// At which end of its path through a channel a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// The packet was offered to the channel.
    Offered,
    /// The packet came out at the far side.
    Delivered,
}

/// What sees every packet.
pub type Tap = Box<dyn FnMut(Crossing<'_>)>;
/// What takes the frames that radio cells capture: of which cell, which frame, and the bytes kept of it.
pub type CaptureSink = Box<dyn FnMut(ChannelId, Captured, &[u8])>;

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
    fn resident(&self) -> &dyn Resident {
        match self {
            Self::Gateway(gateway) => &**gateway,
            Self::Host(host) => &**host,
            Self::Router(router) => router,
        }
    }
    fn resident_mut(&mut self) -> &mut dyn Resident {
        match self {
            Self::Gateway(gateway) => &mut **gateway,
            Self::Host(host) => &mut **host,
            Self::Router(router) => router,
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
    /// By gateway and port: the same for its inside and its door.
    inside_wires: BTreeMap<(usize, usize), (usize, PortId)>,
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
    /// What a program moves per call.
    piece: Box<[u8; PIECE]>,
    digest: u64,
    tap: Option<Tap>,
    /// How exchanges are sent by radio, by the client's port; others by default.
    handlings: BTreeMap<u16, Handling>,
    capture_sink: Option<CaptureSink>,
    capture_buffer: Vec<u8>,
    /// What came out of the insides of gateways that nothing is plugged into.
    inside: Vec<(Instant, NodeId, Vec<u8>)>,
    /// Exchanges that fetch objects, and the readers that wait for them.
    watched: Vec<(usize, usize)>,
    /// The port of the next client that fetches an object.
    object_port: u16,
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
            piece: Box::new([0; PIECE]),
            digest: DIGEST_START,
            tap: None,
            handlings: BTreeMap::new(),
            capture_sink: None,
            capture_buffer: Vec::new(),
            inside: Vec::new(),
            watched: Vec::new(),
            object_port: Self::first_object_port(),
        }
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

    /// Runs while `go_on` says so (asked every `step`) or until `limit`. Returns whether `go_on` ended it.
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
    /// If the channel is no cable.
    pub fn set(
        &mut self,
        channel: ChannelId,
        direction: Direction,
        parameter: Parameter,
    ) -> Result<(), wavelane_channel::ConfigError> {
        let Medium::Cable(cable) = &mut self.channels[channel.0].medium else {
            panic!("channel {} is no cable: its parameters stay", channel.0)
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

    /// Lets a gateway send now what it has to send; else it does so when something happens to it first.
    pub fn rouse(&mut self, node: NodeId) {
        self.at_resident(node.0, |gateway, moment| gateway.service(moment));
        self.settle();
    }

    /// Tells a running gateway of other routes, peers or limits.
    ///
    /// # Panics
    /// If it cannot take them without a restart.
    pub fn reload(&mut self, node: NodeId, config: wavelane_gateway::Config) {
        self.gateway_mut(node);
        self.at_node(node.0, |this, moment| {
            if let Node::Gateway(gateway) = this {
                gateway.reload(moment, config);
            }
        });
        self.settle();
    }

    /// Gives a gateway's port another address, as a modem that was assigned a new one. Peers are not informed.
    pub fn readdress(&mut self, node: NodeId, port: usize, address: impl Into<Address>) {
        self.gateway_mut(node).ports[port] = address.into();
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
        self.wake_readers();
    }

    /// Lets a node's machine or programs act and takes what they send to the channels.
    fn at_resident<T>(&mut self, node: usize, act: impl FnOnce(&mut dyn Resident, &mut Moment<'_>) -> T) -> T {
        self.at_node(node, |this, moment| act(this.resident_mut(), moment))
    }

    fn at_node<T>(&mut self, node: usize, act: impl FnOnce(&mut Node, &mut Moment<'_>) -> T) -> T {
        let mut moment = Moment {
            now: self.now,
            flows: &mut self.flows,
            out: &mut self.out,
            spare: &mut self.spare,
            piece: &mut self.piece,
        };
        let result = act(&mut self.nodes[node], &mut moment);
        self.agenda.set(self.node_actors[node], self.nodes[node].resident().deadline());
        let mut out = std::mem::take(&mut self.out);
        for Outgoing { port, packet, handling } in out.drain(..) {
            self.offer(node, port, packet, handling);
        }
        self.out = out;
        result
    }

    fn gateway_mut(&mut self, node: NodeId) -> &mut GatewayNode {
        match &mut self.nodes[node.0] {
            Node::Gateway(gateway) => gateway,
            other => panic!("node {} is no gateway", other.name()),
        }
    }
}
