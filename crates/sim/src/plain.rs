//! The world of a stack without gateways: nodes with programs are hosts, all others plain routers, and every channel is
//! crossed.

use crate::engine::{ChannelId, Engine, NodeId};
use crate::wiring::{Shape, WiringError, World, draw_clock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wavelane_base::Seed;
use wavelane_channel::wifi::WifiConfig;
use wavelane_scenario::{ChannelKind, NodeKind};
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
        let mut channels = self.connect(&mut engine, &nodes, |_| true)?;
        self.connect_cells(&mut engine, &nodes, &mut channels, rts)?;
        let ways = self.ways();
        for &host in &hosts {
            self.route_to(host, &mut engine, &nodes, &channels, &ways);
        }
        Ok(World { engine, nodes, channels, peers: BTreeMap::new() })
    }

    fn connect_cells(
        &self,
        engine: &mut Engine,
        nodes: &BTreeMap<usize, NodeId>,
        channels: &mut BTreeMap<String, ChannelId>,
        rts: bool,
    ) -> Result<(), WiringError> {
        for channel in &self.scenario.channels {
            let ChannelKind::Wifi(config) = &channel.kind else { continue };
            let stations: Vec<NodeId> =
                channel.between.iter().filter_map(|name| Some(nodes[&self.node(name)?])).collect();
            let config = (**config).clone();
            // WaveLAN has no RTS.
            let threshold = if rts && config.rules.acknowledges { 0 } else { config.rts_threshold };
            let config = WifiConfig { rts_threshold: threshold, ..config };
            let id = engine
                .connect_cell(&channel.name, &config, &stations)
                .map_err(|why| WiringError::Cell(channel.name.clone(), why))?;
            channels.insert(channel.name.clone(), id);
        }
        Ok(())
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

    /// Every host and router learns a shortest way to a host. Endpoints pass nothing on, gateways of ours neither.
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
                if self.ends(number).is_some() && !self.carries(number, other) {
                    continue;
                }
                let node = nodes.get(&other).filter(|node| !engine.is_gateway(**node));
                let (Some(&node), false) = (node, std::mem::replace(&mut seen[other], true)) else { continue };
                let back = channels[&self.scenario.channels[number].name];
                engine.route_via(node, self.host(host), back, nodes[&at]);
                if self.kind(other) != NodeKind::Endpoint {
                    queue.push_back(other);
                }
            }
        }
    }
}
