//! Gateways joined by cables in any shape, with programs at their stream seams.

use crate::engine::{ChannelId, Engine, NodeId};
use crate::traffic::{FlowSpec, Work};
use crate::wiring::{Route, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use wavelane_base::{Instant, Octets, Seed, Span};
use wavelane_channel::CableConfig;
use wavelane_gateway::{Config, PeerId};
use wavelane_scenario::{Channel, ChannelKind, Node, NodeKind, Routing, Scenario, Stack};
use wavelane_settings::{Backpressure, TcpKnobs};

/// What a mesh is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct MeshSpec {
    /// Gateways, numbered from 0.
    pub nodes: usize,
    /// What joins them.
    pub links: Vec<MeshLink>,
    /// What makes a path the best.
    pub routing: Routing,
    /// Of each gateway.
    pub pool: Octets,
    /// Of each gateway.
    pub flows_max: usize,
    /// Whether the gateways seal flows across relays.
    pub seal: bool,
    /// What relays take of a flow before their next hop has it.
    pub backpressure: Backpressure,
}

/// A cable between two gateways.
#[derive(Clone, PartialEq, Debug)]
pub struct MeshLink {
    /// Forward leads from the first to the second.
    pub between: [usize; 2],
    /// What it does.
    pub config: CableConfig,
}

impl MeshSpec {
    /// Gateways joined by the same cable, with the usual limits.
    pub fn new(nodes: usize, joined: &[[usize; 2]], config: &CableConfig) -> Self {
        let links = joined.iter().map(|between| MeshLink { between: *between, config: config.clone() }).collect();
        let Config { pool, flows_max, seal, backpressure, .. } = Config::default();
        Self { nodes, links, routing: Routing::default(), pool, flows_max, seal, backpressure }
    }

    fn scenario(&self, seed: Seed) -> Scenario {
        let name = |node: usize| format!("n{node}");
        let nodes = (0..self.nodes).map(|node| Node { name: name(node), kind: NodeKind::Gateway });
        let channels = self.links.iter().enumerate().map(|(number, link)| Channel {
            name: format!("l{number}"),
            between: link.between.map(name).to_vec(),
            kind: ChannelKind::Cable(Box::new(link.config.clone())),
            one_way: false,
        });
        Scenario {
            title: String::new(),
            seed,
            duration: Span::MAX,
            stacks: vec![Stack::WAVELANE],
            nodes: nodes.collect(),
            channels: channels.collect(),
            flows: Vec::new(),
            timeline: Vec::new(),
            checks: Vec::new(),
            routing: self.routing,
            gateways: Vec::new(),
            links: Vec::new(),
            routes: Vec::new(),
            moves: Vec::new(),
            tcp: TcpKnobs::default(),
        }
    }
}

/// A wired mesh at time zero.
pub struct Mesh {
    /// What runs it.
    pub engine: Engine,
    /// Its gateways.
    pub nodes: Vec<NodeId>,
    /// Its cables.
    pub links: Vec<ChannelId>,
    /// Between each two gateways that a path joins.
    routes: BTreeMap<(usize, usize), (Route, PeerId)>,
    hosts: Vec<Ipv4Addr>,
    servers: BTreeSet<usize>,
    flows: u16,
}

impl Mesh {
    /// Wires it.
    ///
    /// # Panics
    /// If a gateway or cable refuses its configuration.
    pub fn new(seed: Seed, spec: &MeshSpec) -> Self {
        let scenario = spec.scenario(seed);
        let mut shape = Shape::new(&scenario);
        let MeshSpec { pool, flows_max, seal, backpressure, .. } = *spec;
        shape.limits = Some(Config { pool, flows_max, seal, backpressure, ..Config::default() });
        let world = match shape.build(seed, &wavelane_tcp::Config::default()) {
            Ok(world) => world,
            Err(why) => panic!("the mesh cannot be wired: {why}"),
        };
        let pairs = (0..spec.nodes).flat_map(|a| (0..spec.nodes).map(move |b| (a, b)));
        let (mut engine, nodes): (_, Vec<NodeId>) = (world.engine, world.nodes.into_values().collect());
        // As with daemons, they meet before they are needed.
        nodes.iter().for_each(|node| engine.rouse(*node));
        let route = |(a, b)| {
            let route = shape.route(shape.name(a), shape.name(b)).ok()?;
            Some(((a, b), (route, *world.peers.get(&(a, route.next))?)))
        };
        let routes = pairs.filter(|(a, b)| a != b).filter_map(route).collect();
        Self {
            nodes,
            links: (0..spec.links.len()).map(|link| world.channels[&format!("l{link}")]).collect(),
            engine,
            hosts: (0..spec.nodes).map(|node| shape.host(node)).collect(),
            routes,
            servers: BTreeSet::new(),
            flows: 0,
        }
    }

    /// A flow from a client at gateway `from` to a server at `to`, to be added; `None` if no path joins them.
    pub fn flow(&mut self, from: usize, to: usize, work: Work, start: Instant) -> Option<FlowSpec> {
        let (_, peer) = *self.routes.get(&(from, to))?;
        let address = |node: usize, port| SocketAddr::from((self.hosts[node], port));
        if self.servers.insert(to) {
            self.engine.listen(self.nodes[to], address(to, 80));
        }
        self.flows += 1;
        Some(FlowSpec {
            node: self.nodes[from],
            peer,
            source: address(from, 40_000 + self.flows),
            target: address(to, 80),
            work,
            start,
            stop: None,
            source_rate: None,
            reader_pause: None,
        })
    }

    /// The first neighbour on the path from `from` to `to`, by number.
    pub fn next(&self, from: usize, to: usize) -> Option<usize> {
        Some(self.routes.get(&(from, to))?.0.next)
    }

    /// One of a gateway's counters.
    pub fn count(&self, node: usize, name: &str) -> u64 {
        let status = self.engine.status(self.nodes[node]);
        status.counters.iter().find(|(key, _)| *key == name).map_or(0, |(_, count)| *count)
    }
}
