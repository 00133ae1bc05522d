//! Who sits where: addresses, interface names and static routes of a scenario. Pure.

use crate::LabError;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use wavelane_scenario::{NodeKind, Scenario};

/// Most channels the address plan has room for: one third byte each of `10.77.0.0/16`.
pub(crate) const CHANNELS_MAX: usize = 256;
/// Most nodes: each is a network namespace.
pub(crate) const NODES_MAX: usize = 64;

/// The first two bytes of every address in the lab.
const NET: [u8; 2] = [10, 77];

/// One channel's two ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wire {
    /// Places in [`Scenario::nodes`] of the first and second node.
    pub(crate) ends: [usize; 2],
    /// Their addresses on this channel, in one /30.
    pub(crate) addresses: [Ipv4Addr; 2],
    /// The interface's name, the same at both ends.
    pub(crate) interface: String,
    /// Whether both ends are gateways: the emulated bad link, captured and counted.
    pub(crate) between_gateways: bool,
}

/// A static route of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// Where to, such as `10.77.2.0/30`.
    pub(crate) prefix: String,
    /// The neighbour's address.
    pub(crate) via: Ipv4Addr,
    /// The interface it leaves by.
    pub(crate) interface: String,
}

/// Addresses and routes of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// In the scenario's order of channels.
    pub(crate) wires: Vec<Wire>,
    /// Per node, in the scenario's order.
    pub(crate) routes: Vec<Vec<Route>>,
}

impl Wire {
    /// The channel's block of addresses.
    pub(crate) fn prefix(&self) -> String {
        let [a, b, c, _] = self.addresses[0].octets();
        format!("{a}.{b}.{c}.0/30")
    }
    /// Which end `node` is at, if any.
    pub(crate) fn end_of(&self, node: usize) -> Option<usize> {
        self.ends.iter().position(|n| *n == node)
    }
}

impl Plan {
    /// Lays the plan. Channels that name unknown nodes, or too many channels, are refused.
    pub(crate) fn of(scenario: &Scenario) -> Result<Self, LabError> {
        if scenario.channels.len() > CHANNELS_MAX {
            return Err(LabError::Topology(format!(
                "{} channels are more than the lab's {CHANNELS_MAX}: use fewer",
                scenario.channels.len()
            )));
        }
        if scenario.nodes.len() > NODES_MAX {
            let nodes = scenario.nodes.len();
            return Err(LabError::Topology(format!("{nodes} nodes are more than the lab's {NODES_MAX} namespaces")));
        }
        let place = |name: &String| {
            scenario
                .nodes
                .iter()
                .position(|n| n.name == *name)
                .ok_or_else(|| LabError::Topology(format!("channel end '{name}' is no node: add it under [nodes]")))
        };
        let mut wires = Vec::new();
        for (i, channel) in scenario.channels.iter().enumerate() {
            if !matches!(channel.kind, wavelane_scenario::ChannelKind::Cable(_)) {
                let why = "is a radio cell, and a bit-level MAC cannot run against real kernels in real time";
                return Err(LabError::Topology(format!("channel '{}' {why}: use --on sim", channel.name)));
            }
            let ends = [place(&channel.between[0])?, place(&channel.between[1])?];
            let third = u8::try_from(i).expect("CHANNELS_MAX is 256, checked above");
            let address = |last: u8| Ipv4Addr::new(NET[0], NET[1], third, last);
            wires.push(Wire {
                ends,
                addresses: [address(1), address(2)],
                // Names have at most 12 characters, so this has at most the 15 that the kernel takes.
                interface: format!("wl_{}", channel.name),
                between_gateways: ends.iter().all(|n| scenario.nodes[*n].kind == NodeKind::Gateway),
            });
        }
        let routes = (0..scenario.nodes.len()).map(|node| routes_of(node, &wires, scenario.nodes.len())).collect();
        Ok(Self { wires, routes })
    }

    /// The address by which others reach `node`: that on its first channel.
    pub(crate) fn address_of(&self, node: usize) -> Option<Ipv4Addr> {
        self.wires.iter().find_map(|w| w.end_of(node).map(|end| w.addresses[end]))
    }

    /// Whether `node` can reach `to` at all.
    pub(crate) fn reaches(&self, node: usize, to: usize) -> bool {
        node == to
            || self.wires.iter().any(|w| w.end_of(node).is_some() && w.end_of(to).is_some())
            || self.routes[node]
                .iter()
                .any(|r| self.wires.iter().find(|w| w.end_of(to).is_some()).is_some_and(|w| w.prefix() == r.prefix))
    }
}

/// Shortest paths by number of channels; the first channel in file order wins a tie.
fn routes_of(node: usize, wires: &[Wire], nodes: usize) -> Vec<Route> {
    // `hop[n]`: the wire by which `node` starts on its way to n.
    let mut hop: Vec<Option<usize>> = vec![None; nodes];
    let mut distance = vec![usize::MAX; nodes];
    distance[node] = 0;
    let mut queue = VecDeque::from([node]);
    while let Some(at) = queue.pop_front() {
        for (i, wire) in wires.iter().enumerate() {
            let Some(end) = wire.end_of(at) else { continue };
            let next = wire.ends[1 - end];
            if distance[next] == usize::MAX {
                distance[next] = distance[at] + 1;
                hop[next] = if at == node { Some(i) } else { hop[at] };
                queue.push_back(next);
            }
        }
    }
    let mut routes = Vec::new();
    for wire in wires.iter().filter(|w| w.end_of(node).is_none()) {
        let nearer = if distance[wire.ends[0]] <= distance[wire.ends[1]] { wire.ends[0] } else { wire.ends[1] };
        let Some(first) = hop[nearer].map(|i| &wires[i]) else { continue };
        let mine = first.end_of(node).expect("the first hop's wire starts at this node");
        routes.push(Route {
            prefix: wire.prefix(),
            via: first.addresses[1 - mine],
            interface: first.interface.clone(),
        });
    }
    routes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn plan(channels: &str) -> (Scenario, Plan) {
        let text = format!(
            r#"
title = "t"
duration = "1 s"
stacks = ["tcp-cubic"]
nodes = {{ c = "endpoint", a = "gateway", r = "router", b = "gateway", s = "endpoint" }}
flows = {{ page = {{ app = "download", from = "c", to = "s", size = "1 MB" }} }}
{channels}"#
        );
        let scenario = Scenario::parse(&text, std::path::Path::new(".")).unwrap();
        let plan = Plan::of(&scenario).unwrap();
        (scenario, plan)
    }

    fn channel(name: &str, a: &str, b: &str) -> String {
        format!("[channels.{name}]\npreset = \"ethernet\"\nbetween = [\"{a}\", \"{b}\"]\n")
    }

    #[test]
    fn routes_lead_along_the_shortest_path_and_back_the_same_way() {
        let long = [("lan", "c", "a"), ("one", "a", "r"), ("two", "r", "b"), ("far", "b", "s")];
        let text: String = long.iter().map(|(n, a, b)| channel(n, a, b)).collect();
        let (_, plan) = plan(&text);
        assert_eq!(plan.wires[1].prefix(), "10.77.1.0/30");
        assert!(plan.wires.iter().all(|w| !w.between_gateways), "a router is no gateway");
        // From c everything leaves by lan; from s by far.
        assert!(plan.routes[0].iter().all(|r| r.interface == "wl_lan" && r.via == plan.wires[0].addresses[1]));
        assert_eq!(plan.routes[0].len(), 3);
        assert!(plan.routes[4].iter().all(|r| r.interface == "wl_far"));
        // In the middle, each side by its own channel.
        let of = |prefix: &str| plan.routes[2].iter().find(|r| r.prefix == prefix).unwrap().interface.clone();
        assert_eq!((of("10.77.0.0/30"), of("10.77.3.0/30")), ("wl_one".to_owned(), "wl_two".to_owned()));
        assert!(plan.reaches(0, 4) && plan.reaches(4, 0));
    }

    #[test]
    fn a_shorter_way_wins_and_a_bad_link_is_known() {
        let text = channel("lan", "c", "a")
            + &channel("one", "a", "r")
            + &channel("two", "r", "b")
            + &channel("twelve_chars", "a", "b")
            + &channel("far", "b", "s");
        let (_, plan) = plan(&text);
        assert!(plan.wires[3].between_gateways);
        assert!(plan.wires[3].interface.len() <= 15, "the kernel's limit");
        let far = plan.routes[1].iter().find(|r| r.prefix == plan.wires[4].prefix()).unwrap();
        assert_eq!(far.interface, "wl_twelve_chars");
        assert_eq!(plan.address_of(4), Some(plan.wires[4].addresses[1]));
    }
}
