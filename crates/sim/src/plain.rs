//! The world of a stack without gateways: nodes with programs are hosts, all others plain routers, and every channel is
//! crossed.

use crate::engine::{ChannelId, Engine, NodeId};
use crate::wiring::{Shape, WiringError, World, draw_clock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wavelane_base::Seed;
use wavelane_scenario::NodeKind;
use wavelane_tcp::Config as TcpConfig;

/// A way from a node: by which channel and to which node.
type Way = (usize, usize);

impl Shape<'_> {
    /// Builds it. With `rts` every data frame of a radio cell is preceded by an RTS.
    pub(crate) fn build_plain(&self, seed: Seed, config: &TcpConfig, rts: bool) -> Result<World, WiringError> {
        let mut engine = Engine::new(seed);
        let mut nodes = BTreeMap::new();
        let hosts: BTreeSet<usize> =
            self.scenario.flows.iter().flat_map(|f| [self.node(&f.from), self.node(&f.to)]).flatten().collect();
        for node in 0..self.scenario.nodes.len() {
            let name = self.name(node);
            let id = if hosts.contains(&node) {
                engine.add_host(name, self.host(node), draw_clock(seed, name)?, config.clone())
            } else {
                engine.add_router(name)
            };
            nodes.insert(node, id);
        }
        let channels = self.connect(&mut engine, &nodes, |_| true, rts)?;
        let ways = self.ways();
        for &host in &hosts {
            self.route_to(host, &mut engine, &nodes, &channels, &ways);
        }
        Ok(World { engine, nodes, channels, peers: BTreeMap::new() })
    }

    /// From each node the channels to its neighbours, of whichever direction, in the file's order of channels and of
    /// their nodes.
    pub(crate) fn ways(&self) -> Vec<Vec<Way>> {
        let mut ways = vec![Vec::new(); self.scenario.nodes.len()];
        for (number, channel) in self.scenario.channels.iter().enumerate() {
            let places: Vec<Option<usize>> = channel.between.iter().map(|name| self.node(name)).collect();
            for (at, from) in places.iter().enumerate() {
                for (far, to) in places.iter().enumerate() {
                    let joined = channel.joins(at, far) || channel.joins(far, at);
                    if let (Some(from), Some(to), true) = (from, to, joined) {
                        ways[*from].push((number, *to));
                    }
                }
            }
        }
        ways
    }

    /// Every host and router learns a shortest way to a host, by the channels that `[routes]` names. Endpoints pass nothing on, gateways of ours neither.
    pub(crate) fn route_to(
        &self,
        host: usize,
        engine: &mut Engine,
        nodes: &BTreeMap<usize, NodeId>,
        channels: &BTreeMap<String, ChannelId>,
        ways: &[Vec<Way>],
    ) {
        let mut seen = vec![false; self.scenario.nodes.len()];
        seen[host] = true;
        let mut queue = VecDeque::from([host]);
        while let Some(at) = queue.pop_front() {
            for &(number, other) in &ways[at] {
                let channel = &self.scenario.channels[number];
                if channel.one_way && self.node(&channel.between[0]) != Some(other) {
                    continue;
                }
                let node = nodes.get(&other).filter(|node| !engine.is_gateway(**node));
                let (Some(&node), false) = (node, std::mem::replace(&mut seen[other], true)) else { continue };
                let id = |number: usize| channels.get(&self.scenario.channels[number].name).copied();
                let named = self.scenario.routed(self.name(other), self.name(at)).and_then(id);
                let Some(back) = named.or_else(|| id(number)) else { continue };
                engine.route_via(node, self.host(host), back, nodes[&at]);
                if self.kind(other) != NodeKind::Endpoint {
                    queue.push_back(other);
                }
            }
        }
    }
}
