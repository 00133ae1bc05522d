//! From a scenario's names to a wired engine: addresses, keys, clocks, peers and routes.

use crate::clock::{DriftTooLarge, NodeClock};
use crate::engine::{ChannelId, Engine, NodeId, Plug};
use crate::seam;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use wavelane_base::{IpPrefix, PortId, Ratio, Seed, Span};
use wavelane_gateway::{Backpressure, Config, LaneConfig, PeerConfig, PeerId};
use wavelane_scenario::{CONTROLS, ChannelKind, Flow, GatewayKnobs, NodeKind, Scenario, TcpKind};
use wavelane_transport::session::public_key;

/// The UDP port of every lane.
const LANE_PORT: u16 = 51_820;
/// The port of every server program; those of flows with a congestion control of their own follow it, one per control.
const SERVER_PORT: u16 = 80;
/// The first port of client programs; each exchange has its own.
const CLIENT_PORT: u16 = 40_000;
/// Clocks start up to this far apart.
const CLOCK_OFFSET_MAX: Span = Span::from_secs(3600);
/// Clocks drift up to this much either way: what two ordinary crystals do.
const CLOCK_DRIFT_MAX_PPM: u64 = 50;

/// The shape of a scenario: who is what and who is next to whom, by number.
pub(crate) struct Shape<'a> {
    pub(crate) scenario: &'a Scenario,
    index: BTreeMap<&'a str, usize>,
    /// Nodes whose programs have a TCP of their own under `wavelane` too: the ends of flows that cross no gateway.
    hosts: BTreeSet<usize>,
    /// Endpoints behind gateways have a TCP of their own as well, and gateways a door that ends it.
    doors: bool,
}

/// A flow's two gateways and the neighbour by which the first reaches the second, by node number, and the node numbers
/// of its programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    pub(crate) client: usize,
    pub(crate) ingress: usize,
    pub(crate) next: usize,
    pub(crate) egress: usize,
    pub(crate) server: usize,
}

/// A wired engine and the names in it.
pub(crate) struct World {
    pub(crate) engine: Engine,
    /// Engine nodes of gateways, routers and hosts, by scenario node.
    pub(crate) nodes: BTreeMap<usize, NodeId>,
    /// Engine channels, by name; under `wavelane`, channels from gateways to endpoints have none.
    pub(crate) channels: BTreeMap<String, ChannelId>,
    /// `(gateway, neighbour)` to the peer's place in the gateway's configuration.
    pub(crate) peers: BTreeMap<(usize, usize), PeerId>,
}

/// Why a scenario could not be wired.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum WiringError {
    #[error("gateway '{0}': {1}")]
    Gateway(String, wavelane_gateway::ConfigError),
    #[error("channel '{0}': {1}")]
    Channel(String, wavelane_channel::ConfigError),
    #[error("channel '{0}': {1}")]
    Cell(String, wavelane_channel::wifi::ConfigError),
    #[error(transparent)]
    Clock(#[from] DriftTooLarge),
}

impl<'a> Shape<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let index = scenario.nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
        let doors = seam::needs_doors(scenario);
        let mut shape = Self { scenario, index, hosts: BTreeSet::new(), doors };
        let own = |flow: &&Flow| doors || shape.is_plain(flow);
        let ends = scenario.flows.iter().filter(own).flat_map(|flow| [shape.node(&flow.from), shape.node(&flow.to)]);
        let endpoint = |node: &usize| shape.kind(*node) != NodeKind::Gateway;
        shape.hosts = ends.flatten().filter(endpoint).collect();
        shape
    }

    /// Whether a flow crosses no gateway, so that it is plain TCP under `wavelane` too.
    pub(crate) fn is_plain(&self, flow: &Flow) -> bool {
        let gateway = |name: &String| self.node(name).is_some_and(|node| self.kind(node) == NodeKind::Gateway);
        let path = self.scenario.path(&flow.from, &flow.to).unwrap_or_default();
        !path.iter().any(|(channel, _)| channel.between.iter().any(gateway))
    }

    /// Whether a flow enters at the gateways' stream seam under `wavelane`, without a TCP.
    pub(crate) fn at_seam(&self, flow: &Flow) -> bool {
        !self.doors && !self.is_plain(flow)
    }

    pub(crate) fn node(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    pub(crate) fn kind(&self, node: usize) -> NodeKind {
        self.scenario.nodes[node].kind
    }

    pub(crate) fn name(&self, node: usize) -> &'a str {
        &self.scenario.nodes[node].name
    }

    /// The two nodes of a cable; a radio cell has more, and none that it is only between.
    pub(crate) fn ends(&self, channel: usize) -> Option<[usize; 2]> {
        let channel = &self.scenario.channels[channel];
        let (ChannelKind::Cable(_), [a, b]) = (&channel.kind, channel.between.as_slice()) else { return None };
        Some([self.node(a)?, self.node(b)?])
    }

    /// Whether a channel ends at an endpoint whose flows go through gateways: such channels are not crossed under
    /// `wavelane`.
    pub(crate) fn is_local(&self, channel: usize) -> bool {
        let seam = |end: &usize| self.kind(*end) == NodeKind::Endpoint && !self.hosts.contains(end);
        self.ends(channel).is_none_or(|ends| ends.iter().any(seam))
    }

    /// Whether a channel joins an endpoint and a gateway: it carries no lane.
    pub(crate) fn is_access(&self, channel: usize) -> bool {
        let kinds = self.ends(channel).map(|ends| ends.map(|end| self.kind(end)));
        kinds.is_some_and(|kinds| kinds.contains(&NodeKind::Endpoint) && kinds.contains(&NodeKind::Gateway))
    }

    /// The node itself if it is a gateway, or the one gateway that an endpoint is plugged into.
    fn gateway_of(&self, node: usize) -> Result<usize, String> {
        match self.kind(node) {
            NodeKind::Gateway => return Ok(node),
            NodeKind::Router => return Err(format!("'{}' is a router; programs run on endpoints", self.name(node))),
            NodeKind::Endpoint => {}
        }
        let mut next = (0..self.scenario.channels.len()).filter_map(|c| self.ends(c)).filter_map(|[a, b]| match node {
            n if n == a => Some(b),
            n if n == b => Some(a),
            _ => None,
        });
        match (next.next(), next.next()) {
            (Some(gateway), None) if self.kind(gateway) == NodeKind::Gateway => Ok(gateway),
            _ => Err(format!("endpoint '{}' must be joined to exactly one node, a gateway", self.name(node))),
        }
    }

    /// Which gateways carry a flow from `from` to `to`.
    pub(crate) fn route(&self, from: &str, to: &str) -> Result<Route, String> {
        let unknown = |name: &str| format!("there is no node '{name}'");
        let client = self.node(from).ok_or_else(|| unknown(from))?;
        let server = self.node(to).ok_or_else(|| unknown(to))?;
        let (ingress, egress) = (self.gateway_of(client)?, self.gateway_of(server)?);
        if let Some(next) = self.next_gateway(ingress, egress) {
            return Ok(Route { client, ingress, next, egress, server });
        }
        let (ingress, egress) = (self.name(ingress), self.name(egress));
        Err(format!("no channels, routers or gateways lead from gateway '{ingress}' to gateway '{egress}'"))
    }

    /// The neighbour through which `from` reaches `to` over the fewest gateways; the first of equals.
    fn next_gateway(&self, from: usize, to: usize) -> Option<usize> {
        let mut seen = BTreeSet::from([from]);
        let first = self.neighbours(from).into_iter().map(|(_, next)| (next, next));
        let mut queue: VecDeque<(usize, usize)> = first.collect();
        while let Some((at, next)) = queue.pop_front() {
            if at == to {
                return Some(next);
            }
            if seen.insert(at) {
                queue.extend(self.neighbours(at).into_iter().map(|(_, other)| (other, next)));
            }
        }
        None
    }

    /// The hosts that `gateway` reaches through its neighbour `next`.
    fn routes_through(&self, gateway: usize, next: usize) -> Vec<IpPrefix> {
        let nodes = 0..self.scenario.nodes.len();
        let far = nodes.filter(|node| match self.gateway_of(*node) {
            Ok(edge) => edge != gateway && self.next_gateway(gateway, edge) == Some(next),
            Err(_) => false,
        });
        far.map(|node| IpPrefix { address: IpAddr::V4(self.host(node)), bits: 32 }).collect()
    }

    /// The gateways reached from `gateway` through one channel or through routers: (channel by which it leaves,
    /// gateway), nearest first.
    fn neighbours(&self, gateway: usize) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for first in 0..self.scenario.channels.len() {
            for (node, _) in self.flood(gateway, first) {
                let known = found.iter().any(|(_, other)| *other == node);
                if self.kind(node) == NodeKind::Gateway && node != gateway && !known {
                    found.push((first, node));
                }
            }
        }
        found
    }

    /// The channels by which `gateway` reaches its neighbour `other`, with the address of its port there: that by which it was
    /// found, and those that join the two alone.
    fn lanes_to(&self, gateway: usize, (found, other): (usize, usize)) -> Vec<(usize, Option<SocketAddr>)> {
        // The neighbour's own way towards us tells which of its ports answers.
        let back = self.neighbours(other).into_iter().find(|(_, node)| *node == gateway).map(|(channel, _)| channel);
        let joins =
            |channel: usize| self.ends(channel).is_some_and(|ends| ends.contains(&gateway) && ends.contains(&other));
        let at = |channel: usize| Some(SocketAddr::V4(self.port_address(channel, other)));
        let first = if joins(found) { at(found) } else { back.and_then(at) };
        let direct =
            (0..self.scenario.channels.len()).filter(|c| *c != found && joins(*c) && self.carries(*c, gateway));
        core::iter::once((found, first)).chain(direct.map(|channel| (channel, at(channel)))).collect()
    }

    /// Whether a channel carries what `node` sends.
    pub(crate) fn carries(&self, channel: usize, node: usize) -> bool {
        self.ends(channel).is_some_and(|ends| !self.scenario.channels[channel].one_way || ends[0] == node)
    }

    /// Every node reached by leaving `start` through `first` and passing only routers, with the channel by which it is
    /// entered, nearest first.
    fn flood(&self, start: usize, first: usize) -> Vec<(usize, usize)> {
        let mut reached = Vec::new();
        let mut seen = BTreeSet::from([start]);
        let mut queue = VecDeque::from([(start, Some(first))]);
        while let Some((node, only)) = queue.pop_front() {
            for channel in (0..self.scenario.channels.len()).filter(|c| !self.is_local(*c)) {
                let Some(ends) = self.ends(channel) else { continue };
                if only.is_some_and(|only| only != channel) || !ends.contains(&node) || !self.carries(channel, node) {
                    continue;
                }
                let other = if ends[0] == node { ends[1] } else { ends[0] };
                if seen.insert(other) {
                    reached.push((other, channel));
                    if self.kind(other) == NodeKind::Router {
                        queue.push_back((other, None));
                    }
                }
            }
        }
        reached
    }

    /// The UDP address of the gateway port at `node`'s end of `channel`.
    fn port_address(&self, channel: usize, node: usize) -> SocketAddrV4 {
        let side = u8::from(self.ends(channel).is_some_and(|ends| ends[1] == node));
        let [high, low] = (channel as u16).to_be_bytes();
        SocketAddrV4::new(Ipv4Addr::new(10, 128 + high, low, 1 + side), LANE_PORT)
    }

    /// The address of a program's host.
    pub(crate) fn host(&self, node: usize) -> Ipv4Addr {
        let [high, low] = (node as u16).to_be_bytes();
        Ipv4Addr::new(10, high, low, 10)
    }

    /// Where the server programs of flows with this congestion control listen; `None` is the stack's.
    pub(crate) fn server_address(&self, route: Route, control: Option<TcpKind>) -> SocketAddrV4 {
        let place = control.and_then(|control| CONTROLS.iter().position(|(_, kind)| *kind == control));
        SocketAddrV4::new(self.host(route.server), SERVER_PORT + place.map_or(0, |place| 1 + place as u16))
    }
    /// Where datagrams to the server of `flow` go.
    pub(crate) fn datagram_address(&self, route: Route) -> SocketAddr {
        SocketAddr::from((self.host(route.server), crate::datagrams::DATAGRAM_PORT))
    }
    /// A flow's two nodes under a stack without gateways.
    pub(crate) fn plain_route(&self, from: &str, to: &str) -> Result<Route, String> {
        let place = |name: &str| self.node(name).ok_or_else(|| format!("there is no node '{name}'"));
        let (client, server) = (place(from)?, place(to)?);
        Ok(Route { client, ingress: client, next: server, egress: server, server })
    }

    /// Where the client program of flow number `flow` sits.
    pub(crate) fn client_address(&self, route: Route, flow: usize) -> SocketAddr {
        SocketAddr::from((self.host(route.client), CLIENT_PORT + flow as u16))
    }

    /// The channels by which `gateway` sends and receives.
    fn ports_of(&self, gateway: usize) -> Vec<usize> {
        let joins = |c: &usize| {
            !self.is_local(*c) && !self.is_access(*c) && self.ends(*c).is_some_and(|ends| ends.contains(&gateway))
        };
        (0..self.scenario.channels.len()).filter(joins).collect()
    }

    fn gateway_config(&self, seed: Seed, gateway: usize) -> Config {
        let ports = self.ports_of(gateway);
        let everywhere = || vec![IpPrefix { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), bits: 9 }];
        let peers = self.neighbours(gateway).into_iter().map(|(leaves_by, other)| {
            let lane = |(channel, address): (usize, Option<SocketAddr>)| {
                let port = ports.iter().position(|port| *port == channel).unwrap_or(0);
                LaneConfig {
                    one_way: self.scenario.channels[channel].one_way,
                    ..LaneConfig::new(PortId(port as u16), address)
                }
            };
            PeerConfig {
                name: self.name(other).to_owned(),
                public_key: public_key(&private_key(seed, self.name(other))),
                preshared_key: None,
                lanes: self.lanes_to(gateway, (leaves_by, other)).into_iter().map(lane).collect(),
                keepalive: None,
                allow_sources: None,
                allow_targets: everywhere(),
                routes: self.routes_through(gateway, other),
            }
        });
        let config =
            Config { private_key: private_key(seed, self.name(gateway)), peers: peers.collect(), ..Config::default() };
        let knobs = self.scenario.gateways.iter().find(|knobs| knobs.node == self.name(gateway));
        match knobs {
            Some(knobs) => turned(config, knobs, seed),
            None => config,
        }
    }

    /// Builds everything but the flows. Hosts have `config`, unless a flow has its own.
    pub(crate) fn build(&self, seed: Seed, config: &wavelane_tcp::Config) -> Result<World, WiringError> {
        let mut engine = Engine::new(seed);
        let mut nodes = BTreeMap::new();
        let mut peers = BTreeMap::new();
        for node in 0..self.scenario.nodes.len() {
            let name = self.name(node);
            let id = match self.kind(node) {
                NodeKind::Endpoint if self.hosts.contains(&node) => {
                    engine.add_host(name, self.host(node), draw_clock(seed, name)?, config.clone())
                }
                NodeKind::Endpoint => continue,
                NodeKind::Router => engine.add_router(name),
                NodeKind::Gateway => {
                    for (place, (_, other)) in self.neighbours(node).into_iter().enumerate() {
                        peers.insert((node, other), PeerId(place));
                    }
                    let config = self.gateway_config(seed, node);
                    let refused = |why| WiringError::Gateway(name.to_owned(), why);
                    engine.add_gateway(name, draw_clock(seed, name)?, config).map_err(refused)?
                }
            };
            if self.doors && self.kind(node) == NodeKind::Gateway {
                engine.open_door(id, self.host(node), config.clone());
            }
            nodes.insert(node, id);
        }
        let channels = self.connect(&mut engine, &nodes, |channel| !self.is_local(channel))?;
        self.add_routes(&mut engine, &nodes, &channels);
        let ways = self.ways();
        for &host in &self.hosts {
            self.route_to(host, &mut engine, &nodes, &channels, &ways);
        }
        self.route_through_doors(&mut engine, &nodes, &channels);
        Ok(World { engine, nodes, channels, peers })
    }

    /// Endpoints send everything to their gateway, and it knows the way to them.
    fn route_through_doors(
        &self,
        engine: &mut Engine,
        nodes: &BTreeMap<usize, NodeId>,
        channels: &BTreeMap<String, ChannelId>,
    ) {
        for channel in (0..self.scenario.channels.len()).filter(|c| self.doors && self.is_access(*c)) {
            let Some([a, b]) = self.ends(channel) else { continue };
            let (endpoint, gateway) = if self.kind(a) == NodeKind::Endpoint { (a, b) } else { (b, a) };
            let (Some(&id), channel) = (nodes.get(&endpoint), channels.get(&self.scenario.channels[channel].name))
            else {
                continue;
            };
            let Some(&channel) = channel else { continue };
            engine.route(nodes[&gateway], self.host(endpoint), channel);
            for other in (0..self.scenario.nodes.len()).filter(|other| *other != endpoint) {
                engine.route(id, self.host(other), channel);
            }
        }
    }

    pub(crate) fn connect(
        &self,
        engine: &mut Engine,
        nodes: &BTreeMap<usize, NodeId>,
        crossed: impl Fn(usize) -> bool,
    ) -> Result<BTreeMap<String, ChannelId>, WiringError> {
        let mut channels = BTreeMap::new();
        for (number, channel) in self.scenario.channels.iter().enumerate().filter(|(c, _)| crossed(*c)) {
            let Some(ends) = self.ends(number) else { continue };
            let lane = !self.is_access(number);
            let plug =
                |node: usize| Plug { node: nodes[&node], address: lane.then(|| self.port_address(number, node)) };
            let ChannelKind::Cable(config) = &channel.kind else { continue };
            let id = engine
                .connect(&channel.name, (**config).clone(), plug(ends[0]), plug(ends[1]))
                .map_err(|why| WiringError::Channel(channel.name.clone(), why))?;
            channels.insert(channel.name.clone(), id);
        }
        Ok(channels)
    }

    /// Every router learns the way to every gateway port it can reach.
    fn add_routes(&self, engine: &mut Engine, nodes: &BTreeMap<usize, NodeId>, channels: &BTreeMap<String, ChannelId>) {
        for gateway in (0..self.scenario.nodes.len()).filter(|n| self.kind(*n) == NodeKind::Gateway) {
            for lane in self.ports_of(gateway) {
                for (router, entered_by) in self.flood(gateway, lane) {
                    if self.kind(router) == NodeKind::Router {
                        let back = channels[&self.scenario.channels[entered_by].name];
                        engine.route(nodes[&router], *self.port_address(lane, gateway).ip(), back);
                    }
                }
            }
        }
    }

    /// The directed channels by which gateways send: their offered bytes are what gateways put on the wire.
    pub(crate) fn leaves_gateway(&self, channel: usize, side: usize) -> bool {
        self.ends(channel).is_some_and(|ends| self.kind(ends[side]) == NodeKind::Gateway)
    }
}

/// A gateway's configuration with what the scenario says of it.
fn turned(config: Config, knobs: &GatewayKnobs, seed: Seed) -> Config {
    let backpressure = match knobs.backpressure {
        wavelane_scenario::Backpressure::Adaptive => Backpressure::Adaptive,
        wavelane_scenario::Backpressure::One => Backpressure::Blocks(1),
        wavelane_scenario::Backpressure::Two => Backpressure::Blocks(2),
        wavelane_scenario::Backpressure::Off => Backpressure::Off,
    };
    let dice = Seed(seed.chance(&format!("node {} / block loss", knobs.node)).next_u64());
    let block_loss = (knobs.block_loss != Ratio::ZERO).then_some((knobs.block_loss, dice));
    let cache = knobs.cache.unwrap_or(config.cache);
    Config { backpressure, micro_blocks: knobs.micro_blocks, cache, block_loss, ..config }
}

/// A key of this run only.
fn private_key(seed: Seed, name: &str) -> [u8; 32] {
    let mut key = [0; 32];
    seed.entropy(&format!("node {name} / key")).fill(&mut key);
    key
}

pub(crate) fn draw_clock(seed: Seed, name: &str) -> Result<NodeClock, DriftTooLarge> {
    let mut chance = seed.chance(&format!("node {name} / clock"));
    let offset = Span::from_nanos(chance.below(CLOCK_OFFSET_MAX.as_nanos()));
    let drift = chance.below(2 * CLOCK_DRIFT_MAX_PPM + 1) as i32 - CLOCK_DRIFT_MAX_PPM as i32;
    NodeClock::new(offset, drift)
}
