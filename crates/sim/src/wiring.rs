//! From a scenario's names to a wired engine: addresses, keys, clocks, peers and routes.

use crate::clock::{DriftTooLarge, NodeClock};
use crate::engine::{ChannelId, Engine, NodeId, Plug};
use crate::faults::{Lie, NodeFaults};
use crate::joins::Join;
use crate::media;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use wavelane_base::{Address, Carrier, IpPrefix, LinkAcks, PortId, Radio, Ratio, Seed, Span};
use wavelane_channel::wifi::WifiConfig;
use wavelane_gateway::{Config, EdgeConfig, LaneConfig, PacketConfig, PeerConfig, PeerId};
use wavelane_scenario::{CONTROLS, ChannelKind, Flow, GatewaySettings, NodeKind, Scenario, TcpKind};
use wavelane_settings::{GatewayKnobs, LaneKnobs, LinkKnobs, Preset, RadioLanes};
use wavelane_transport::session::public_key;

/// The port of every server program; those of flows with a congestion control of their own follow it, one per control.
const SERVER_PORT: u16 = 80;
/// The first port of client programs; each exchange has its own.
const CLIENT_PORT: u16 = 40_000;
/// Between gateways of which one knows several paths: the loss of one is to be noticed while nothing crosses it.
const KEEPALIVE: Span = Span::from_secs(1);
/// Clocks start up to this far apart.
const CLOCK_OFFSET_MAX: Span = Span::from_secs(3600);
/// Clocks drift up to this much either way, as two ordinary crystals do.
const CLOCK_DRIFT_MAX_PPM: u64 = 50;

/// The shape of a scenario: kinds of nodes and their neighbours, by number.
pub(crate) struct Shape<'a> {
    pub(crate) scenario: &'a Scenario,
    index: BTreeMap<&'a str, usize>,
    pub(crate) joins: Vec<Join>,
    /// Nodes whose programs have a TCP of their own under `wavelane` too: the ends of flows, except gateways.
    hosts: BTreeSet<usize>,
    /// Of each node that is a gateway: [`Shape::neighbours`].
    joined: OnceCell<Vec<Vec<(usize, usize)>>>,
    /// Whether gateways work as `hop-2009` has it, where nothing else is said.
    pub(crate) is_2009: bool,
    /// Whether gateways leave TCP whole and carry its packets.
    pub(crate) unsplit: bool,
    /// The configuration of every gateway besides its peers; `None` for the default.
    pub(crate) limits: Option<Config>,
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
    #[error("channel '{0}': {1}")]
    Pair(String, String),
    #[error(transparent)]
    Clock(#[from] DriftTooLarge),
}

impl<'a> Shape<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let index: BTreeMap<&str, usize> =
            scenario.nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
        let joins = Join::of(scenario, |name| index.get(name).copied());
        let hosts = BTreeSet::new();
        let mut shape = Self {
            scenario,
            index,
            joins,
            hosts,
            joined: OnceCell::new(),
            is_2009: false,
            unsplit: false,
            limits: None,
        };
        let ends = scenario.flows.iter().flat_map(|flow| [shape.node(&flow.from), shape.node(&flow.to)]);
        shape.hosts = ends.flatten().filter(|node| shape.kind(*node) != NodeKind::Gateway).collect();
        shape
    }

    /// Whether a flow crosses no gateway, so that it is plain TCP under `wavelane` too.
    pub(crate) fn is_plain(&self, flow: &Flow) -> bool {
        let path = self.scenario.nodes_of_path(&flow.from, &flow.to).unwrap_or_default();
        !path.iter().any(|node| self.kind(*node) == NodeKind::Gateway)
    }

    /// Whether a flow's client runs on a gateway, where it opens its flow at the stream seam under `wavelane`, without a TCP.
    pub(crate) fn at_seam(&self, flow: &Flow) -> bool {
        self.node(&flow.from).is_some_and(|node| self.kind(node) == NodeKind::Gateway)
    }

    /// Why TCP cannot stay whole, if so: packets have one way into a gateway, and a program on a gateway has no TCP.
    pub(crate) fn why_split(&self) -> Option<String> {
        if let Some(flow) = self.scenario.flows.iter().find(|flow| self.at_seam(flow)) {
            return Some(format!(
                "flow '{}' begins on a gateway, which has no TCP to leave whole: start it on an endpoint",
                flow.name
            ));
        }
        let behind =
            |gateway: usize| self.joins.iter().filter(move |j| self.is_access(j) && j.other(gateway).is_some()).count();
        let gateways = (0..self.scenario.nodes.len()).filter(|node| self.kind(*node) == NodeKind::Gateway);
        let crowded = gateways.into_iter().find(|gateway| behind(*gateway) > 1)?;
        let why = "has several channels to endpoints, and the simulator takes packets from one";
        Some(format!("gateway '{}' {why}: leave one, or run it with --on lab", self.name(crowded)))
    }

    /// Whether endpoints with programs are behind a gateway, whose door ends their TCP.
    fn has_door(&self, gateway: usize) -> bool {
        if self.unsplit {
            return false;
        }
        let host = |join: &Join| join.other(gateway).is_some_and(|other| self.is_host(other));
        self.joins.iter().any(|join| self.is_access(join) && host(join))
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

    /// Whether the node has a TCP of its own under `wavelane`.
    pub(crate) fn is_host(&self, node: usize) -> bool {
        self.hosts.contains(&node)
    }

    /// The node itself if it is a gateway, or the one gateway that an endpoint is plugged into.
    pub(crate) fn gateway_of(&self, node: usize) -> Result<usize, String> {
        match self.kind(node) {
            NodeKind::Gateway => return Ok(node),
            NodeKind::Router => return Err(format!("'{}' is a router; programs run on endpoints", self.name(node))),
            NodeKind::Endpoint => {}
        }
        // In a cell endpoints hear each other, which is no path out.
        let cell = |join: &Join| self.scenario.channels[join.channel].cell().is_some();
        let leads = |join: &Join, other: &usize| !cell(join) || self.kind(*other) != NodeKind::Endpoint;
        let mut next = self.joins.iter().filter_map(|join| join.other(node).filter(|other| leads(join, other)));
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
        let one = ingress == egress;
        let (ingress, egress) = (self.name(ingress), self.name(egress));
        if one {
            return Err(format!(
                "gateway '{ingress}' stands at both ends, and a flow under wavelane crosses two: add a gateway, or use stacks of plain TCP alone, such as tcp-cubic"
            ));
        }
        Err(format!("no channels, routers or gateways lead from gateway '{ingress}' to gateway '{egress}'"))
    }

    /// The hosts that `gateway` reaches through its neighbour `next`.
    fn routes_through(&self, gateway: usize, next: usize) -> Vec<IpPrefix> {
        let nodes = 0..self.scenario.nodes.len();
        let far = nodes.filter(|node| match self.gateway_of(*node) {
            Ok(edge) => edge != gateway && self.next_gateway(gateway, edge) == Some(next),
            Err(_) => false,
        });
        far.map(|node| self.prefix(node)).collect()
    }

    /// A host's address as a route.
    pub(crate) fn prefix(&self, node: usize) -> IpPrefix {
        IpPrefix { address: IpAddr::V4(self.host(node)), bits: 32 }
    }

    /// The gateways reached from `gateway` through one channel or through routers: (join by which it leaves, gateway),
    /// nearest first.
    pub(crate) fn neighbours(&self, gateway: usize) -> &[(usize, usize)] {
        let of = |node: usize| match self.kind(node) {
            NodeKind::Gateway => self.find_neighbours(node),
            NodeKind::Endpoint | NodeKind::Router => Vec::new(),
        };
        let all = || (0..self.scenario.nodes.len()).map(of).collect();
        &self.joined.get_or_init(all)[gateway]
    }

    fn find_neighbours(&self, gateway: usize) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for first in (0..self.joins.len()).filter(|join| !self.is_later(*join)) {
            for (node, _) in self.flood(gateway, first) {
                let known = found.iter().any(|(_, other)| *other == node);
                if self.kind(node) == NodeKind::Gateway && node != gateway && !known {
                    found.push((first, node));
                }
            }
        }
        found
    }

    /// The joins by which `gateway` reaches its neighbour `other`, with the address of its port there: that by which it was
    /// found, and those that join the two alone.
    fn lanes_to(&self, gateway: usize, (found, other): (usize, usize)) -> Vec<(usize, Option<SocketAddr>)> {
        // The neighbour's own route towards us tells which of its ports answers.
        let back = self.neighbours(other).iter().find(|(_, node)| *node == gateway).map(|(join, _)| *join);
        let joins = |join: usize| self.joins[join].other(gateway) == Some(other);
        let at = |join: usize| Some(SocketAddr::V4(self.port_address(join, other)));
        let first = if joins(found) { at(found) } else { back.and_then(at) };
        let direct = (0..self.joins.len()).filter(|j| *j != found && joins(*j) && self.joins[*j].carries(gateway));
        core::iter::once((found, first)).chain(direct.map(|join| (join, at(join)))).collect()
    }

    /// Every node reached by leaving `start` through the join `first` and passing only routers, with the join by which it
    /// is entered, nearest first.
    fn flood(&self, start: usize, first: usize) -> Vec<(usize, usize)> {
        let mut reached = Vec::new();
        let mut seen = BTreeSet::from([start]);
        let mut queue = VecDeque::from([(start, Some(first))]);
        while let Some((node, only)) = queue.pop_front() {
            for (number, join) in self.joins.iter().enumerate().filter(|(_, join)| !self.is_local(join)) {
                if only.map_or_else(|| self.is_later(number), |only| only != number) || !join.carries(node) {
                    continue;
                }
                let Some(other) = join.other(node) else { continue };
                if seen.insert(other) {
                    reached.push((other, number));
                    if self.kind(other) == NodeKind::Router {
                        queue.push_back((other, None));
                    }
                }
            }
        }
        reached
    }

    /// Whether nothing crosses a join before a node moves to it.
    fn is_later(&self, join: usize) -> bool {
        self.scenario.is_later(&self.scenario.channels[self.joins[join].channel].name)
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

    fn gateway_config(&self, seed: Seed, gateway: usize) -> Config {
        let ports = self.ports_of(gateway);
        let everywhere = || vec![IpPrefix { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), bits: 9 }];
        let keepalive = self.has_detours().then_some(KEEPALIVE);
        let radio = self.lanes_in_cells(gateway);
        let peers = self.neighbours(gateway).iter().map(|&(leaves_by, other)| {
            let channel = |join: usize| &self.scenario.channels[self.joins[join].channel];
            let mut joins = self.lanes_to(gateway, (leaves_by, other));
            let of_link = |link: &&LinkKnobs| joins.iter().any(|(join, _)| link.lanes.contains(&channel(*join).name));
            let link = self.scenario.links.iter().find(of_link);
            joins.sort_by_key(|(join, _)| link.map_or(0, |link| link.place(&channel(*join).name)));
            // With a single lane out there is nothing to choose.
            let choice = link.filter(|_| joins.len() > 1).and_then(|link| link.choice).unwrap_or_default();
            let lane = |(join, address): (usize, Option<SocketAddr>)| {
                let port = ports.iter().position(|port| *port == join).unwrap_or(0);
                LaneConfig {
                    one_way: channel(join).one_way,
                    carrier: Carrier { radio: self.radio_of(self.joins[join].channel, radio), ..media::UDP.carrier },
                    knobs: link.map_or_else(LaneKnobs::default, |link| link.lane(&channel(join).name)),
                    ..LaneConfig::new(PortId(port as u16), address.map(Address::Ip))
                }
            };
            // In a cell it would cost each of the others' air as well. A link in use notices silence without it.
            let on_air = joins.iter().all(|(join, _)| channel(*join).cell().is_some());
            PeerConfig {
                name: self.name(other).to_owned(),
                public_key: public_key(&private_key(seed, self.name(other))),
                preshared_key: None,
                lanes: joins.into_iter().map(lane).collect(),
                choice,
                keepalive: keepalive.filter(|_| !on_air),
                allow_sources: None,
                allow_targets: everywhere(),
                routes: self.routes_through(gateway, other),
            }
        });
        let config = Config {
            private_key: private_key(seed, self.name(gateway)),
            peers: peers.collect(),
            detours: self.detours(gateway),
            log_keys: true,
            ..self.limits.clone().unwrap_or_default()
        };
        let knobs = self.knobs(gateway).cloned().unwrap_or_default();
        let preset = self.is_2009.then_some(Preset::Hop2009);
        let mut config = config.with(&GatewayKnobs { preset, ..knobs.clone() }).with_turns(knobs.withhold);
        if self.unsplit {
            config.packets = Some(PacketConfig { tries: wavelane_gateway::tries(&knobs), ..PacketConfig::default() });
        }
        config.overhear = self.overhears(gateway);
        if config.seal {
            config.edges = self.edges_beside(seed, gateway);
        }
        config
    }

    /// What a gateway's lanes in radio cells do.
    fn lanes_in_cells(&self, gateway: usize) -> RadioLanes {
        let usual = if self.is_2009 { RadioLanes::Raw } else { RadioLanes::Paced };
        self.knobs(gateway).and_then(|knobs| knobs.radio).unwrap_or(usual)
    }

    /// Whether its radios hand up frames for others.
    fn overhears(&self, gateway: usize) -> bool {
        self.lanes_in_cells(gateway) != RadioLanes::Plain
            && self.knobs(gateway).is_some_and(|knobs| knobs.overhear == Some(true))
    }

    /// The radio of a channel, if lanes tell it how to send each frame. One block ACK serves a whole aggregate (decision 0050).
    fn radio_of(&self, channel: usize, lanes: RadioLanes) -> Option<Radio> {
        let cell = self.scenario.channels[channel].cell()?;
        let acks = match lanes {
            RadioLanes::Plain => return None,
            RadioLanes::Paced if cell.aggregate.is_some() => LinkAcks::Each,
            RadioLanes::Paced => LinkAcks::First,
            RadioLanes::Raw => LinkAcks::Never,
        };
        Some(Radio { rate: cell.rate, cell: channel as u16, acks })
    }

    /// What the scenario says of a gateway.
    pub(crate) fn settings(&self, gateway: usize) -> Option<&GatewaySettings> {
        self.scenario.gateways.iter().find(|settings| settings.node == self.name(gateway))
    }

    fn knobs(&self, gateway: usize) -> Option<&GatewayKnobs> {
        self.settings(gateway).map(|settings| &settings.knobs)
    }

    /// All other gateways with their keys and what lies behind them.
    fn edges_beside(&self, seed: Seed, gateway: usize) -> Vec<EdgeConfig> {
        let nodes = || 0..self.scenario.nodes.len();
        let others = nodes().filter(|node| *node != gateway && self.kind(*node) == NodeKind::Gateway);
        let edge = |other: usize| EdgeConfig {
            name: self.name(other).to_owned(),
            public_key: public_key(&private_key(seed, self.name(other))),
            routes: nodes().filter(|node| self.gateway_of(*node) == Ok(other)).map(|node| self.prefix(node)).collect(),
        };
        others.map(edge).collect()
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
                // A station without programs is there and sends nothing.
                NodeKind::Endpoint if self.is_station(node) => engine.add_router(name),
                NodeKind::Endpoint => continue,
                NodeKind::Router => engine.add_router(name),
                NodeKind::Gateway => {
                    for (place, (_, other)) in self.neighbours(node).iter().copied().enumerate() {
                        peers.insert((node, other), PeerId(place));
                    }
                    let config = self.gateway_config(seed, node);
                    let refused = |why| WiringError::Gateway(name.to_owned(), why);
                    let id = engine.add_gateway(name, draw_clock(seed, name)?, config).map_err(refused)?;
                    if let Some(knobs) = self.knobs(node) {
                        let [corruption, block_loss] =
                            [knobs.corruption, knobs.block_loss].map(|share| share.unwrap_or(Ratio::ZERO));
                        engine.set_faults(id, NodeFaults { lie: Lie::corrupts(corruption), block_loss });
                    }
                    id
                }
            };
            if self.has_door(node) {
                engine.open_door(id, self.host(node), config.clone());
            }
            nodes.insert(node, id);
        }
        let channels = self.connect(&mut engine, &nodes, |channel| self.is_crossed(channel), false)?;
        self.add_routes(&mut engine, &nodes, &channels);
        self.route_through_doors(&mut engine, &nodes, &channels);
        // Paths without a gateway come before those through one.
        let ways = self.ways();
        for &host in &self.hosts {
            self.route_to(host, &mut engine, &nodes, &channels, &ways);
        }
        Ok(World { engine, nodes, channels, peers })
    }

    /// Endpoints send everything to their gateway, which has routes to them.
    fn route_through_doors(
        &self,
        engine: &mut Engine,
        nodes: &BTreeMap<usize, NodeId>,
        channels: &BTreeMap<String, ChannelId>,
    ) {
        for join in self.joins.iter().filter(|join| self.is_access(join)) {
            let [a, b] = join.ends;
            let (endpoint, gateway) = if self.kind(a) == NodeKind::Endpoint { (a, b) } else { (b, a) };
            let channel = channels.get(&self.scenario.channels[join.channel].name);
            let (Some(&id), Some(&channel), true) = (nodes.get(&endpoint), channel, self.is_host(endpoint)) else {
                continue;
            };
            if !self.unsplit {
                engine.route_via(nodes[&gateway], self.host(endpoint), channel, id);
            }
            for other in (0..self.scenario.nodes.len()).filter(|other| *other != endpoint) {
                engine.route_via(id, self.host(other), channel, nodes[&gateway]);
            }
        }
    }

    /// Whether a node is a station of a radio cell that is crossed.
    fn is_station(&self, node: usize) -> bool {
        let in_cell = |join: &&Join| self.scenario.channels[join.channel].cell().is_some();
        self.joins.iter().filter(in_cell).any(|join| join.ends.contains(&node) && self.is_crossed(join.channel))
    }

    /// Makes the channels that are `crossed`. With `rts` every data frame of a radio cell is preceded by an RTS.
    pub(crate) fn connect(
        &self,
        engine: &mut Engine,
        nodes: &BTreeMap<usize, NodeId>,
        crossed: impl Fn(usize) -> bool,
        rts: bool,
    ) -> Result<BTreeMap<String, ChannelId>, WiringError> {
        let mut channels = BTreeMap::new();
        for (number, channel) in self.scenario.channels.iter().enumerate().filter(|(c, _)| crossed(*c)) {
            let stations: Vec<usize> = channel.between.iter().filter_map(|name| self.node(name)).collect();
            let addresses = self.lane_addresses(number);
            let plug = |place: usize| Plug {
                node: nodes[&stations[place]],
                address: addresses.get(&(place, 1 - place)).map(|at| (*at).into()),
            };
            let id = match &channel.kind {
                ChannelKind::Bluetooth(config) => {
                    let made = engine.connect_bluetooth(&channel.name, *config, plug(0), plug(1));
                    made.map_err(|why| WiringError::Pair(channel.name.clone(), why.to_string()))?
                }
                ChannelKind::Cellular(config) => {
                    let made = engine.connect_cellular(&channel.name, **config, plug(0), plug(1));
                    made.map_err(|why| WiringError::Pair(channel.name.clone(), why.to_string()))?
                }
                ChannelKind::Serial(config) => {
                    let made = engine.connect_serial(&channel.name, config, plug(0), plug(1));
                    made.map_err(|why| WiringError::Pair(channel.name.clone(), why.to_string()))?
                }
                ChannelKind::Cable(config) => {
                    let made = engine.connect(&channel.name, (**config).clone(), plug(0), plug(1));
                    made.map_err(|why| WiringError::Channel(channel.name.clone(), why))?
                }
                ChannelKind::Wifi(config) => {
                    let config = (**config).clone();
                    // WaveLAN has no RTS.
                    let threshold = if rts && config.rules.acknowledges { 0 } else { config.rts_threshold };
                    let places = stations.iter().enumerate();
                    let listeners = places.filter(|(_, node)| self.overhears(**node)).map(|(place, _)| place).collect();
                    let config = WifiConfig { rts_threshold: threshold, listeners, ..config };
                    let stations: Vec<NodeId> = stations.iter().map(|node| nodes[node]).collect();
                    let address = |at, far| addresses.get(&(at, far)).copied();
                    let made = engine.connect_cell(&channel.name, &config, &stations, address);
                    made.map_err(|why| WiringError::Cell(channel.name.clone(), why))?
                }
            };
            channels.insert(channel.name.clone(), id);
        }
        Ok(channels)
    }

    /// Every router gets a route to every gateway port it can reach.
    fn add_routes(&self, engine: &mut Engine, nodes: &BTreeMap<usize, NodeId>, channels: &BTreeMap<String, ChannelId>) {
        for gateway in (0..self.scenario.nodes.len()).filter(|n| self.kind(*n) == NodeKind::Gateway) {
            for lane in self.ports_of(gateway) {
                for (router, entered_by) in self.flood(gateway, lane) {
                    let join = &self.joins[entered_by];
                    if let (NodeKind::Router, Some(next)) = (self.kind(router), join.other(router)) {
                        let back = channels[&self.scenario.channels[join.channel].name];
                        let port = *self.port_address(lane, gateway).ip();
                        engine.route_via(nodes[&router], port, back, nodes[&next]);
                    }
                }
            }
        }
    }
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
