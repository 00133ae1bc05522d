//! Addresses, interface names and static routes of a scenario. Pure.

use crate::world::is_veth;
use crate::{LabError, lines};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use wavelane_scenario::{ChannelKind, ChannelRoute, NodeKind, Scenario};

/// Maximum number of channels in the address plan: one third byte each of `10.77.0.0/16`.
pub(crate) const CHANNELS_MAX: usize = 256;
/// Maximum number of nodes: each is a network namespace.
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
    /// Whether it carries nothing from its second end to its first.
    pub(crate) one_way: bool,
    /// Whether it is captured and its traffic counted: it connects two neighbouring gateways, or, where none do, a program crosses
    /// it in the place of flows.
    pub(crate) counted: bool,
}

/// A static route of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The destination, such as `10.77.2.0/30`.
    pub(crate) prefix: String,
    /// The neighbour's address.
    pub(crate) via: Ipv4Addr,
    /// The outgoing interface.
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
    /// Whether it carries packets sent by the node at its end `end`.
    pub(crate) fn carries_from(&self, end: usize) -> bool {
        !self.one_way || end == 0
    }
    /// The end at which `node` is, if any.
    pub(crate) fn end_of(&self, node: usize) -> Option<usize> {
        self.ends.iter().position(|n| *n == node)
    }
}

impl Plan {
    /// Builds the plan. Channels that name unknown nodes, or too many channels, are rejected.
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
        let links = links(scenario);
        let mut wires = Vec::new();
        for (i, channel) in scenario.channels.iter().enumerate() {
            if channel.cell().is_some() {
                let why = "is a radio cell, and a bit-level MAC cannot run against real kernels in real time";
                return Err(LabError::Topology(format!(
                    "channel '{}' {why}: `wavelane run FILE --on sim` has it",
                    channel.name
                )));
            }
            if let ChannelKind::Serial(serial) = &channel.kind
                && let Some(why) = lines::refusal(serial, channel.one_way)
            {
                return Err(LabError::Topology(format!(
                    "channel '{}' {why}, or use `wavelane run FILE --on sim`",
                    channel.name
                )));
            }
            let ends = [place(&channel.between[0])?, place(&channel.between[1])?];
            let third = u8::try_from(i).expect("CHANNELS_MAX is 256, checked above");
            let address = |last: u8| Ipv4Addr::new(NET[0], NET[1], third, last);
            wires.push(Wire {
                ends,
                addresses: [address(1), address(2)],
                // Names have at most 12 characters, so this has at most the 15 that the kernel accepts.
                interface: format!("wl_{}", channel.name),
                one_way: channel.one_way,
                counted: links.iter().any(|l| l.channels.contains(&i) || l.beside.contains(&i))
                    || (scenario.flows.is_empty() && links.is_empty() && !is_veth(scenario, channel)),
            });
        }
        let routes = (0..scenario.nodes.len()).map(|node| routes_of(node, &wires, scenario.nodes.len(), &[])).collect();
        Ok(Self { wires, routes })
    }

    /// The same plan with the routes of nodes that are all plain routers: each direction between two neighbours takes the channel that
    /// `[routes]` names, or the first that carries it, also to the neighbour's addresses on the others.
    pub(crate) fn routed(mut self, scenario: &Scenario) -> Self {
        let place = |name: &str| scenario.nodes.iter().position(|n| n.name == name);
        let named = |route: &ChannelRoute| {
            let (from, to) = (place(&route.from)?, place(&route.to)?);
            Some(Hop { from, to, wire: scenario.routed(&route.from, &route.to)? })
        };
        let named: Vec<Hop> = scenario.routes.iter().filter_map(named).collect();
        let nodes = scenario.nodes.len();
        self.routes = (0..nodes).map(|node| routes_of(node, &self.wires, nodes, &named)).collect();
        for (node, routes) in self.routes.iter_mut().enumerate() {
            routes.extend(host_routes_of(node, &self.wires, &named));
        }
        self
    }

    /// The networks beyond `node` that it reaches via `over`.
    pub(crate) fn beyond(&self, node: usize, over: usize) -> impl Iterator<Item = &Route> {
        self.routes[node].iter().filter(move |route| self.leads_over(node, &route.prefix, over))
    }

    /// Whether packets from `node` to `prefix` pass `over`.
    fn leads_over(&self, node: usize, prefix: &str, over: usize) -> bool {
        let mut here = node;
        for _ in 0..self.routes.len() {
            let Some(route) = self.routes[here].iter().find(|r| r.prefix == prefix) else { return false };
            let owner = self.wires.iter().find_map(|w| Some(w.ends[w.addresses.iter().position(|a| *a == route.via)?]));
            let Some(next) = owner else { return false };
            if next == over {
                return true;
            }
            here = next;
        }
        false
    }

    /// The address at which others reach `node`: the one on its first channel.
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

/// Two gateways with only routers between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// Their places.
    pub(crate) ends: [usize; 2],
    /// Places of the channels from the first to the second, in order; one if they are joined directly.
    pub(crate) channels: Vec<usize>,
    /// Places of further channels that join the two directly.
    pub(crate) beside: Vec<usize>,
}

/// Every link that joins two gateways directly or that a flow takes, each once.
pub(crate) fn links(scenario: &Scenario) -> Vec<Link> {
    let place = |name: &str| scenario.nodes.iter().position(|n| n.name == name);
    let is_gateway = |node: usize| scenario.nodes[node].kind == NodeKind::Gateway;
    let mut found: Vec<Link> = Vec::new();
    let mut add = |ends: [usize; 2], channels: Vec<usize>| match found
        .iter_mut()
        .find(|l| l.ends == ends || l.ends == [ends[1], ends[0]])
    {
        None => found.push(Link { ends, channels, beside: Vec::new() }),
        Some(link) => {
            let known = |c: &usize| link.channels.contains(c) || link.beside.contains(c);
            if let Some(channel) = channels.first().filter(|c| channels.len() == 1 && !known(c)) {
                link.beside.push(*channel);
            }
        }
    };
    for (i, channel) in scenario.channels.iter().enumerate() {
        if let [Some(a), Some(b)] = [place(&channel.between[0]), place(&channel.between[1])]
            && is_gateway(a)
            && is_gateway(b)
        {
            add([a, b], vec![i]);
        }
    }
    for flow in &scenario.flows {
        let (Some(mut here), Some(path)) = (place(&flow.from), scenario.path(&flow.from, &flow.to)) else { continue };
        // The last gateway passed, and the channels since.
        let mut since = is_gateway(here).then(|| (here, Vec::new()));
        for (channel, _) in path {
            let other = channel.between.iter().filter_map(|n| place(n)).find(|n| *n != here);
            let number = scenario.channels.iter().position(|c| c.name == channel.name);
            let (Some(next), Some(number)) = (other, number) else { break };
            here = next;
            if let Some((_, channels)) = &mut since {
                channels.push(number);
            }
            if is_gateway(here) {
                if let Some((before, channels)) = since.take() {
                    add([before, here], channels);
                }
                since = Some((here, Vec::new()));
            }
        }
    }
    found
}

/// The channel from a node to its neighbour, if `[routes]` names one.
struct Hop {
    from: usize,
    to: usize,
    wire: usize,
}

impl Hop {
    /// The channel by which `from` reaches its neighbour `to`: `first`, unless another is named.
    fn wire(named: &[Self], from: usize, to: usize, first: usize) -> usize {
        named.iter().find(|hop| hop.from == from && hop.to == to).map_or(first, |hop| hop.wire)
    }
}

/// The routes to the neighbours' addresses on channels that `node` does not use to send to them.
fn host_routes_of(node: usize, wires: &[Wire], named: &[Hop]) -> Vec<Route> {
    // By neighbour: the channel used.
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, wire) in wires.iter().enumerate() {
        if let Some(end) = wire.end_of(node).filter(|end| wire.carries_from(*end)) {
            let next = wire.ends[1 - end];
            taken.entry(next).or_insert_with(|| Hop::wire(named, node, next, i));
        }
    }
    let route = |wire: &Wire| {
        let end = wire.end_of(node)?;
        let by = &wires[*taken.get(&wire.ends[1 - end])?];
        let via = by.addresses[1 - by.end_of(node)?];
        let prefix = format!("{}/32", wire.addresses[1 - end]);
        (by != wire).then(|| Route { prefix, via, interface: by.interface.clone() })
    };
    wires.iter().filter_map(route).collect()
}

/// Shortest paths by number of channels; the first channel in file order wins a tie, unless `named` has another.
fn routes_of(node: usize, wires: &[Wire], nodes: usize, named: &[Hop]) -> Vec<Route> {
    // `hop[n]`: the first wire of the path from `node` to n.
    let mut hop: Vec<Option<usize>> = vec![None; nodes];
    let mut distance = vec![usize::MAX; nodes];
    distance[node] = 0;
    let mut queue = VecDeque::from([node]);
    while let Some(at) = queue.pop_front() {
        for (i, wire) in wires.iter().enumerate() {
            let Some(end) = wire.end_of(at).filter(|end| wire.carries_from(*end)) else { continue };
            let next = wire.ends[1 - end];
            if distance[next] == usize::MAX {
                distance[next] = distance[at] + 1;
                hop[next] = if at == node { Some(Hop::wire(named, node, next, i)) } else { hop[at] };
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
        let between: Vec<bool> = plan.wires.iter().map(|w| w.counted).collect();
        assert_eq!(between, [false, true, true, false], "a router lies between neighbours");
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
    fn what_a_program_crosses_is_counted_and_a_gateways_lan_is_not() {
        let lan = channel("lan", "c", "a").replace(
            "preset = \"ethernet\"",
            "kind = \"cable\"\nreverse = \"same\"\nforward = { rate = \"9 Mbit/s\" }",
        );
        let counted = |text: &str| {
            let mut scenario = plan(text).0;
            scenario.flows.clear();
            Plan::of(&scenario).unwrap().wires.iter().map(|wire| wire.counted).collect::<Vec<_>>()
        };
        let far = channel("far", "b", "s");
        assert_eq!(counted(&format!("{lan}{}{far}", channel("air", "a", "b"))), [false, true, false]);
        let through = [channel("one", "a", "r"), channel("two", "r", "b")].concat();
        assert_eq!(
            counted(&format!("{lan}{through}{far}")),
            [true, false, false, false],
            "no two gateways are neighbours"
        );
    }

    /// Two pairs of gateways around one channel between routers, and a plain flow beside them.
    #[test]
    fn gateways_are_neighbours_across_routers() {
        let text = r#"
title = "t"
duration = "1 s"
stacks = ["wavelane"]
nodes = { c = "endpoint", a = "gateway", p = "router", q = "router", b = "gateway", s = "endpoint", d = "endpoint", e = "gateway", f = "gateway", t = "endpoint", x = "endpoint", y = "endpoint" }
[flows.one]
app = "download"
from = "c"
to = "s"
[flows.two]
app = "download"
from = "t"
to = "d"
[flows.rival]
app = "download"
from = "x"
to = "y"
"#;
        let channels: String = [
            ("c_a", "c", "a"),
            ("a_p", "a", "p"),
            ("p_q", "p", "q"),
            ("q_b", "q", "b"),
            ("b_s", "b", "s"),
            ("d_e", "d", "e"),
            ("e_p", "e", "p"),
            ("q_f", "q", "f"),
            ("f_t", "f", "t"),
            ("x_p", "x", "p"),
            ("q_y", "q", "y"),
        ]
        .map(|(n, a, b)| channel(n, a, b))
        .concat();
        let scenario = Scenario::parse(&(text.to_owned() + &channels), std::path::Path::new(".")).unwrap();
        let links = links(&scenario);
        assert_eq!(links.len(), 2);
        assert_eq!((links[0].ends, &links[0].channels[..]), ([1, 4], &[1, 2, 3][..]));
        assert_eq!((links[1].ends, &links[1].channels[..]), ([8, 7], &[7, 2, 6][..]));
        let plan = Plan::of(&scenario).unwrap();
        let between: Vec<usize> = (0..plan.wires.len()).filter(|i| plan.wires[*i].counted).collect();
        assert_eq!(between, [1, 2, 3, 6, 7]);
        let beyond = |node, over| plan.beyond(node, over).map(|r| r.prefix.clone()).collect::<Vec<_>>();
        assert_eq!(beyond(1, 4), [plan.wires[4].prefix()]);
        assert_eq!(beyond(4, 1), [plan.wires[0].prefix()]);
        assert_eq!(beyond(8, 7), [plan.wires[5].prefix()]);
    }

    /// Of two channels each direction takes the first that carries it or the one that is named, also to an end of the other.
    #[test]
    fn plain_routers_heed_routes() {
        let beam = "[channels.beam]\nbetween = [\"b\", \"a\"]\nforward = { rate = \"1 Mbit/s\" }\nreverse = \"none\"\n";
        let text = channel("lan", "c", "a")
            + beam
            + &channel("one", "a", "b")
            + &channel("two", "a", "b")
            + &channel("far", "b", "s");
        let by = |routes: &str| {
            let (scenario, plan) = plan(&format!("{text}{routes}"));
            let plan = plan.routed(&scenario);
            let of = |node: usize, to: &str| {
                let route = plan.routes[node].iter().find(|r| r.prefix == to).map(|r| (r.interface.clone(), r.via));
                route.map_or("direct".to_owned(), |(name, via)| format!("{name} {via}"))
            };
            // From a: to the far network and to b's ends of the three channels; from b: to the near network and to a's ends.
            let there = ["10.77.4.0/30", "10.77.1.1/32", "10.77.2.2/32", "10.77.3.2/32"].map(|to| of(1, to));
            let back = ["10.77.0.0/30", "10.77.1.2/32", "10.77.2.1/32", "10.77.3.1/32"].map(|to| of(3, to));
            (there.join(", "), back.join(", "))
        };
        let (there, back) = by("");
        assert_eq!(there, "wl_one 10.77.2.2, wl_one 10.77.2.2, direct, wl_one 10.77.2.2");
        assert_eq!(back, "wl_beam 10.77.1.2, direct, wl_beam 10.77.1.2, wl_beam 10.77.1.2");
        let (there, back) = by("[routes]\n\"a -> b\" = \"two\"\n\"b -> a\" = \"one\"\n");
        assert_eq!(there, "wl_two 10.77.3.2, wl_two 10.77.3.2, wl_two 10.77.3.2, direct");
        assert_eq!(back, "wl_one 10.77.2.1, wl_one 10.77.2.1, direct, wl_one 10.77.2.1");
    }

    #[test]
    fn a_shorter_way_wins_and_a_bad_link_is_known() {
        let text = channel("lan", "c", "a")
            + &channel("one", "a", "r")
            + &channel("two", "r", "b")
            + &channel("twelve_chars", "a", "b")
            + &channel("far", "b", "s");
        let (_, plan) = plan(&text);
        assert!(plan.wires[3].counted);
        assert!(plan.wires[3].interface.len() <= 15, "the kernel's limit");
        let far = plan.routes[1].iter().find(|r| r.prefix == plan.wires[4].prefix()).unwrap();
        assert_eq!(far.interface, "wl_twelve_chars");
        assert_eq!(plan.address_of(4), Some(plan.wires[4].addresses[1]));
    }
}
