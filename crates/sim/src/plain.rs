//! The world of a stack without gateways: nodes with programs are hosts, all others plain routers, or gateways are proxies in one box, and
//! every channel is crossed.

use crate::door::OnPath;
use crate::engine::{ChannelId, Engine, NodeId};
use crate::wiring::{Shape, WiringError, World, draw_clock};
use std::collections::{BTreeMap, BTreeSet};
use wavelane_base::Seed;
use wavelane_scenario::NodeKind;
use wavelane_tcp::Config as TcpConfig;

/// A way from a node: by which channel and to which node.
pub(crate) type Way = (usize, usize);

impl Shape<'_> {
    /// Builds it. With `rts` every data frame of a radio cell is preceded by an RTS. `proxy` says what the proxy on a gateway is like.
    pub(crate) fn build_plain(
        &self,
        seed: Seed,
        config: &TcpConfig,
        rts: bool,
        proxy: Option<&dyn Fn(usize) -> OnPath>,
    ) -> Result<World, WiringError> {
        let mut engine = Engine::new(seed);
        let mut nodes = BTreeMap::new();
        let hosts: BTreeSet<usize> =
            self.scenario.flows.iter().flat_map(|f| [self.node(&f.from), self.node(&f.to)]).flatten().collect();
        for node in 0..self.scenario.nodes.len() {
            let name = self.name(node);
            let proxy = proxy.filter(|_| self.kind(node) == NodeKind::Gateway);
            let id = if hosts.contains(&node) || proxy.is_some() {
                let id = engine.add_host(name, self.host(node), draw_clock(seed, name)?, config.clone());
                proxy.iter().for_each(|of| match of(node) {
                    OnPath::Split(config) => engine.split_at(id, *config),
                    OnPath::Snoop(towards) => engine.snoop_at(id, towards),
                });
                id
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
        self.ways_without(|number| self.scenario.is_later(&self.scenario.channels[number].name))
    }

    /// The same without some channels.
    pub(crate) fn ways_without(&self, gone: impl Fn(usize) -> bool) -> Vec<Vec<Way>> {
        let mut ways = vec![Vec::new(); self.scenario.nodes.len()];
        for (number, channel) in self.scenario.channels.iter().enumerate().filter(|(number, _)| !gone(*number)) {
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

    /// Every host and router learns a best way to a host, by the channels that `[routes]` names. Endpoints pass nothing on, gateways of ours neither.
    pub(crate) fn route_to(
        &self,
        host: usize,
        engine: &mut Engine,
        nodes: &BTreeMap<usize, NodeId>,
        channels: &BTreeMap<String, ChannelId>,
        ways: &[Vec<Way>],
    ) {
        let passes = |node: usize| nodes.get(&node).is_some_and(|node| !engine.is_gateway(*node));
        for Step { node, channel, next } in self.steps_to(host, ways, passes) {
            let id = |number: usize| channels.get(&self.scenario.channels[number].name).copied();
            let named = self.scenario.routed(self.name(node), self.name(next)).and_then(id);
            if let Some(back) = named.or_else(|| id(channel)) {
                engine.route_via(nodes[&node], self.host(host), back, nodes[&next]);
            }
        }
    }

    /// The step of each node on a best way to `host` over nodes that `passes` names, nearest first.
    pub(crate) fn steps_to(&self, host: usize, ways: &[Vec<Way>], passes: impl Fn(usize) -> bool) -> Vec<Step> {
        let mut steps = Vec::new();
        // The cheapest first; of equals the one that was found first.
        let mut found = 0_u32;
        let mut open = BTreeSet::from([(0_u32, found, host)]);
        let mut best: Vec<(u32, Option<Step>)> = vec![(u32::MAX, None); self.scenario.nodes.len()];
        best[host] = (0, None);
        while let Some((cost, _, at)) = open.pop_first() {
            if cost > best[at].0 {
                continue;
            }
            steps.extend(best[at].1);
            if at != host && self.kind(at) == NodeKind::Endpoint {
                continue;
            }
            for &(channel, node) in &ways[at] {
                let of = &self.scenario.channels[channel];
                if of.one_way && self.node(&of.between[0]) != Some(node) {
                    continue;
                }
                let total = cost.saturating_add(self.hop_cost(node, at));
                if !passes(node) || total >= best[node].0 {
                    continue;
                }
                best[node] = (total, Some(Step { node, channel, next: at }));
                found += 1;
                open.insert((total, found, node));
            }
        }
        steps
    }

    /// The gateways that packets of a plain stack cross from one node to another, in order, without the two.
    fn crossed(&self, from: usize, to: usize, ways: &[Vec<Way>]) -> Vec<usize> {
        let next: BTreeMap<usize, usize> =
            self.steps_to(to, ways, |_| true).into_iter().map(|step| (step.node, step.next)).collect();
        let way = std::iter::successors(next.get(&from).copied(), |at| next.get(at).copied());
        way.filter(|node| *node != to && self.kind(*node) == NodeKind::Gateway).collect()
    }

    /// Why no stack that splits TCP at gateways runs, if so: each proxy must see both directions of a connection.
    pub(crate) fn unsplittable(&self) -> Option<String> {
        let ways = self.ways();
        let mut crossed = false;
        for flow in self.scenario.flows.iter().filter(|flow| !flow.app.is_datagrams()) {
            let (Some(from), Some(to)) = (self.node(&flow.from), self.node(&flow.to)) else { continue };
            let (there, mut back) = (self.crossed(from, to, &ways), self.crossed(to, from, &ways));
            back.reverse();
            if there != back {
                return Some(format!(
                    "flow '{}' crosses other gateways on its way back, and a proxy must see both directions: name the way in [routes]",
                    flow.name
                ));
            }
            crossed |= !there.is_empty();
        }
        (!crossed).then(|| {
            "no TCP crosses a gateway between its ends, so nothing is split: make a node on the way a gateway"
                .to_owned()
        })
    }
}

/// A node's way on.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) node: usize,
    /// The channel by which the node was found.
    pub(crate) channel: usize,
    pub(crate) next: usize,
}
