//! What channels join, as pairs of nodes: the ends of a cable, every two stations of a radio cell that hear each other.

use crate::wiring::Shape;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use wavelane_scenario::{ChannelKind, NodeKind, Scenario};

/// The UDP port of every lane.
const LANE_PORT: u16 = 51_820;

/// Two nodes that a channel joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Join {
    /// The channel's number.
    pub(crate) channel: usize,
    /// The two nodes, by number.
    pub(crate) ends: [usize; 2],
    /// Their places in the channel's list of nodes.
    places: [usize; 2],
    /// It carries from the first to the second only.
    one_way: bool,
}

impl Join {
    /// All of a scenario, in the file's order of channels and of their nodes.
    pub(crate) fn of(scenario: &Scenario, number: impl Fn(&str) -> Option<usize>) -> Vec<Self> {
        let mut joins = Vec::new();
        for (channel, of) in scenario.channels.iter().enumerate() {
            let nodes: Vec<Option<usize>> = of.between.iter().map(|name| number(name)).collect();
            for at in 0..nodes.len() {
                for far in at + 1..nodes.len() {
                    if let (Some(a), Some(b), true) = (nodes[at], nodes[far], of.joins(at, far)) {
                        joins.push(Self { channel, ends: [a, b], places: [at, far], one_way: of.one_way });
                    }
                }
            }
        }
        joins
    }

    /// The node at the other end, if `node` is at one.
    pub(crate) fn other(&self, node: usize) -> Option<usize> {
        match self.ends {
            [a, b] if a == node => Some(b),
            [a, b] if b == node => Some(a),
            _ => None,
        }
    }

    /// The places of its ends in the channel's list.
    pub(crate) fn places(&self) -> [usize; 2] {
        self.places
    }

    /// Whether it carries what `node` sends.
    pub(crate) fn carries(&self, node: usize) -> bool {
        self.ends[0] == node || self.ends[1] == node && !self.one_way
    }
}

impl Shape<'_> {
    /// Whether one end is an endpoint without flows: nothing crosses such joins under `wavelane`.
    pub(crate) fn is_local(&self, join: &Join) -> bool {
        join.ends.iter().any(|end| self.kind(*end) == NodeKind::Endpoint && !self.is_host(*end))
    }

    /// Whether an endpoint and a gateway are joined: this carries no lane.
    pub(crate) fn is_access(&self, join: &Join) -> bool {
        let kinds = join.ends.map(|end| self.kind(end));
        kinds.contains(&NodeKind::Endpoint) && kinds.contains(&NodeKind::Gateway)
    }

    /// Whether anything crosses a channel under `wavelane`.
    pub(crate) fn is_crossed(&self, channel: usize) -> bool {
        self.joins.iter().any(|join| join.channel == channel && !self.is_local(join))
    }

    /// The directions of a cable, by the end that sends, in which gateways send to gateways and routers: what is offered
    /// there is what gateways put on the wire. Of a serial line it is packets before framing. Radio cells count no bytes.
    pub(crate) fn sends_for_gateways(&self, channel: usize) -> Vec<usize> {
        let counts = matches!(self.scenario.channels[channel].kind, ChannelKind::Cable(_) | ChannelKind::Serial(_));
        let joins = self.joins.iter().filter(|j| counts && j.channel == channel && !self.is_local(j));
        let lanes = joins.filter(|join| !self.is_access(join));
        lanes.flat_map(|j| [0, 1].into_iter().filter(|side| self.kind(j.ends[*side]) == NodeKind::Gateway)).collect()
    }

    /// The joins by which `gateway` sends and receives: the ports of its lanes, in order.
    pub(crate) fn ports_of(&self, gateway: usize) -> Vec<usize> {
        let has_port = |j: &Join| !self.is_local(j) && !self.is_access(j) && j.ends.contains(&gateway);
        (0..self.joins.len()).filter(|join| has_port(&self.joins[*join])).collect()
    }

    /// The UDP address of the gateway port at `node`'s end of a join.
    pub(crate) fn port_address(&self, join: usize, node: usize) -> SocketAddrV4 {
        let side = u8::from(self.joins[join].ends[1] == node);
        let [high, low] = (join as u16).to_be_bytes();
        SocketAddrV4::new(Ipv4Addr::new(10, 128 + high, low, 1 + side), LANE_PORT)
    }

    /// The addresses of the ports by which the node at one place of a channel's list reaches the one at another, where these are lanes'.
    pub(crate) fn lane_addresses(&self, channel: usize) -> BTreeMap<(usize, usize), SocketAddrV4> {
        let joins = self.joins.iter().enumerate().filter(|(_, join)| join.channel == channel && !self.is_access(join));
        let ports = joins.flat_map(|(number, join)| {
            let [a, b] = join.places;
            [((a, b), self.port_address(number, join.ends[0])), ((b, a), self.port_address(number, join.ends[1]))]
        });
        ports.collect()
    }
}
