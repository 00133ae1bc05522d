//! What can be seen of a run.

use super::medium::Medium;
use super::{ChannelId, Engine, Node, NodeId, Tap};
use crate::node::GatewayNode;
use crate::traffic::{FlowIndex, FlowLog};
use std::collections::BTreeMap;
use wavelane_base::Instant;
use wavelane_channel::cable::{Cable, Direction};
use wavelane_gateway::{Gateway, GatewayEvent, LoggedKey, Status};
use wavelane_run::LineTally;
use wavelane_tcp::Status as TcpStatus;

impl Engine {
    /// The engine's time.
    pub fn now(&self) -> Instant {
        self.now
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
    /// If it is no cable.
    pub fn cable(&self, channel: ChannelId) -> &Cable {
        match &self.channels[channel.0].medium {
            Medium::Cable(cable) => cable,
            _ => panic!("channel {} is no cable", channel.0),
        }
    }
    /// What one direction of a serial line has done, if the channel is one.
    pub fn line(&self, channel: ChannelId, direction: Direction) -> Option<LineTally> {
        match &self.channels[channel.0].medium {
            Medium::Serial(line) => Some(line.tally(direction)),
            _ => None,
        }
    }
    /// Bytes that wait in a split proxy, between its halves and in their TCP.
    pub fn proxy_waiting(&self, node: NodeId) -> Option<usize> {
        match &self.nodes[node.0] {
            Node::Host(host) => host.proxy_waiting(),
            _ => None,
        }
    }
    /// A gateway's own status.
    pub fn status(&self, node: NodeId) -> Status {
        let node = self.gateway_node(node);
        node.gateway.status(node.clock.local(self.now))
    }
    /// The data keys that gateways have agreed on and that were not taken before, each once per end.
    pub fn take_keys(&mut self) -> Vec<LoggedKey> {
        let gateways = self.nodes.iter_mut().filter_map(|node| match node {
            Node::Gateway(gateway) => Some(gateway),
            _ => None,
        });
        gateways.flat_map(|node| core::iter::from_fn(|| node.gateway.poll_key())).collect()
    }
    /// The status of a host's open TCP connections.
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
    /// What a gateway reported of its peers, with the engine's time.
    pub fn peer_events(&self, node: NodeId) -> &[(Instant, GatewayEvent)] {
        &self.gateway_node(node).peer_events
    }
    /// Packets that a node discarded before its machine saw them, by reason.
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

    /// What came out of the insides of gateways that nothing is plugged into, since the last call: when, where, what.
    pub fn take_packets(&mut self) -> Vec<(Instant, NodeId, Vec<u8>)> {
        std::mem::take(&mut self.inside)
    }

    fn gateway_node(&self, node: NodeId) -> &GatewayNode {
        match &self.nodes[node.0] {
            Node::Gateway(gateway) => gateway,
            other => panic!("node {} is no gateway", other.name()),
        }
    }
}
