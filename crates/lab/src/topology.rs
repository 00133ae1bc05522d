//! Addresses, interface names and static routes of a scenario. Pure.

use crate::world::is_veth;
use crate::{LabError, lines};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use wavelane_scenario::{Channel, ChannelKind, ChannelRoute, NodeKind, Scenario};
use wavelane_settings::RadioLanes;

/// Maximum number of wires in the address plan: one third byte each of `10.77.0.0/16`.
pub(crate) const WIRES_MAX: usize = 256;
/// Maximum number of nodes: each is a network namespace.
pub(crate) const NODES_MAX: usize = 64;

/// Longest name of an interface (IFNAMSIZ less its end).
const INTERFACE_MAX: usize = 15;

/// The first two bytes of every address in the lab.
const NET: [u8; 2] = [10, 77];

/// A channel's two ends, or two stations of a radio cell that hear each other: the kernel tells by the device for whom a packet is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wire {
    /// Its channel's place in [`Scenario::channels`].
    pub(crate) channel: usize,
    /// Places of its ends among the channel's nodes.
    pub(crate) places: [usize; 2],
    /// Places in [`Scenario::nodes`] of the first and second node.
    pub(crate) ends: [usize; 2],
    /// Their addresses on it, in one /30.
    pub(crate) addresses: [Ipv4Addr; 2],
    /// The interface's name, the same at both ends.
    pub(crate) interface: String,
    /// Whether it carries nothing from its second end to its first.
    pub(crate) one_way: bool,
    /// Whether it is captured and its traffic counted: it connects two neighbouring gateways, or, where none do, a program crosses
    /// it in the place of flows.
    pub(crate) counted: bool,
    /// The end at which a node is that leaves it or moves to it.
    pub(crate) mobile: Option<usize>,
    /// Whether nothing crosses it before a node moves to it.
    pub(crate) later: bool,
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
    /// In the scenario's order of channels, and in a cell of their stations.
    pub(crate) wires: Vec<Wire>,
    /// Per node, in the scenario's order.
    pub(crate) routes: Vec<Vec<Route>>,
    /// Every link that joins two gateways directly or that a flow takes, each once.
    pub(crate) links: Vec<Link>,
    /// What lanes in cells do, by gateway, where that is not as on cables.
    pub(crate) radios: BTreeMap<usize, RadioLanes>,
}

impl Wire {
    /// Its block of addresses.
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
    /// Builds the plan. Channels that name unknown nodes, or too many of them, are rejected.
    pub(crate) fn of(scenario: &Scenario) -> Result<Self, LabError> {
        if scenario.nodes.len() > NODES_MAX {
            let nodes = scenario.nodes.len();
            return Err(LabError::Topology(format!("{nodes} nodes are more than the lab's {NODES_MAX} namespaces")));
        }
        let mut wires = Vec::new();
        for (i, channel) in scenario.channels.iter().enumerate() {
            wires_of(scenario, (i, channel), &mut wires)?;
        }
        if wires.len() > WIRES_MAX {
            return Err(LabError::Topology(format!(
                "{} channels and pairs of stations that hear each other are more than the lab's {WIRES_MAX}: use fewer",
                wires.len()
            )));
        }
        let links = links(scenario, &wires);
        for (i, wire) in wires.iter_mut().enumerate() {
            let channel = &scenario.channels[wire.channel];
            wire.counted = links.iter().any(|l| l.wires.contains(&i) || l.beside.contains(&i))
                || (scenario.flows.is_empty() && links.is_empty() && !is_veth(scenario, channel));
        }
        // A mobile's second channel is what its first was.
        for of in &scenario.moves {
            let over = |wire: &Wire, place: usize| scenario.channels[wire.channel].name == of.channels[place];
            let counted = wires.iter().any(|wire| wire.counted && over(wire, 0));
            wires.iter_mut().filter(|wire| over(wire, 1)).for_each(|wire| wire.counted = counted);
        }
        let routes = (0..scenario.nodes.len()).map(|node| routes_of(scenario, node, &wires, &[])).collect();
        Ok(Self { wires, routes, links, radios: BTreeMap::new() })
    }

    /// The same for gateways that take radio lanes where the scenario has it so.
    pub(crate) fn with_radios(mut self, scenario: &Scenario, usual: RadioLanes) -> Self {
        let of = |wire: &Wire| scenario.channels[wire.channel].cell().is_some();
        let stations = self.wires.iter().filter(|wire| of(wire) && wire.counted).flat_map(|wire| wire.ends);
        self.radios = stations.map(|node| (node, lanes_in_cells(scenario, node, usual))).collect();
        self.radios.retain(|_, lanes| *lanes != RadioLanes::Plain);
        self
    }

    /// The radio lanes of the gateway at an end of a wire.
    pub(crate) fn radio_at(&self, scenario: &Scenario, wire: &Wire, end: usize) -> Option<RadioLanes> {
        let in_cell = wire.counted && scenario.channels[wire.channel].cell().is_some();
        self.radios.get(&wire.ends[end]).copied().filter(|_| in_cell)
    }

    /// The wires of the channel at a place, with their places.
    pub(crate) fn wires_of(&self, channel: usize) -> impl Iterator<Item = (usize, &Wire)> {
        self.wires.iter().enumerate().filter(move |(_, wire)| wire.channel == channel)
    }

    /// The same plan with the routes of nodes that are all plain routers: each direction between two neighbours takes the channel that
    /// `[routes]` names, or the first that carries it, also to the neighbour's addresses on the others.
    pub(crate) fn routed(mut self, scenario: &Scenario) -> Self {
        let place = |name: &str| scenario.nodes.iter().position(|n| n.name == name);
        let named = |route: &ChannelRoute| {
            let (from, to) = (place(&route.from)?, place(&route.to)?);
            let channel = scenario.routed(&route.from, &route.to)?;
            let joins = |w: &Wire| w.channel == channel && w.end_of(from).is_some() && w.end_of(to).is_some();
            Some(Hop { from, to, wire: self.wires.iter().position(joins)? })
        };
        let named: Vec<Hop> = scenario.routes.iter().filter_map(named).collect();
        self.routes = (0..scenario.nodes.len()).map(|node| routes_of(scenario, node, &self.wires, &named)).collect();
        for (node, routes) in self.routes.iter_mut().enumerate() {
            routes.extend(host_routes_of(node, &self.wires, &named));
        }
        for host in 0..scenario.nodes.len() {
            self.route_to_station(scenario, host, &named);
        }
        self
    }

    /// The way to a station's own address: that of its first neighbour may be nearer, but need not lead there.
    fn route_to_station(&mut self, scenario: &Scenario, host: usize, named: &[Hop]) {
        let first = self.wires.iter().find_map(|wire| Some((wire, wire.end_of(host)?)));
        let Some((first, end)) = first.filter(|(w, _)| scenario.channels[w.channel].cell().is_some()) else { return };
        let prefix = format!("{}/32", first.addresses[end]);
        let ways = Ways::new(scenario, host, &self.wires, true);
        for (node, routes) in self.routes.iter_mut().enumerate().filter(|(node, _)| *node != host) {
            let Some((wire, next)) = ways.back[node] else { continue };
            let by = &self.wires[Hop::wire(named, node, next, wire)];
            let Some(via) = by.end_of(next).map(|end| by.addresses[end]).filter(|_| by != first) else { continue };
            routes.retain(|route| route.prefix != prefix);
            routes.push(Route { prefix: prefix.clone(), via, interface: by.interface.clone() });
        }
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
        self.wires_of_now(node).find_map(|w| w.end_of(node).map(|end| w.addresses[end]))
    }

    /// Whether `node` can reach `to` at all.
    pub(crate) fn reaches(&self, node: usize, to: usize) -> bool {
        node == to
            || self.wires.iter().any(|w| w.end_of(node).is_some() && w.end_of(to).is_some())
            || self.routes[node].iter().any(|r| self.wires_of_now(to).next().is_some_and(|w| w.prefix() == r.prefix))
    }

    /// The wires of a node, but for one that it moves to later.
    fn wires_of_now(&self, node: usize) -> impl Iterator<Item = &Wire> {
        self.wires.iter().filter(move |w| w.end_of(node).is_some_and(|end| !(w.later && w.mobile == Some(end))))
    }
}

/// What the lanes of a gateway do in cells.
pub(crate) fn lanes_in_cells(scenario: &Scenario, node: usize, usual: RadioLanes) -> RadioLanes {
    let settings = scenario.gateways.iter().find(|settings| settings.node == scenario.nodes[node].name);
    settings.and_then(|settings| settings.knobs.radio).unwrap_or(usual)
}

/// Two gateways with only routers between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// Their places.
    pub(crate) ends: [usize; 2],
    /// Places of the wires from the first to the second, in order; one if they are joined directly.
    pub(crate) wires: Vec<usize>,
    /// Places of further wires that join the two directly.
    pub(crate) beside: Vec<usize>,
}

/// Adds the wires of a channel: one, or in a cell one for every two stations that hear each other.
fn wires_of(scenario: &Scenario, (i, channel): (usize, &Channel), wires: &mut Vec<Wire>) -> Result<(), LabError> {
    let place = |name: &String| {
        scenario
            .nodes
            .iter()
            .position(|n| n.name == *name)
            .ok_or_else(|| LabError::Topology(format!("channel end '{name}' is no node: add it under [nodes]")))
    };
    if let ChannelKind::Serial(serial) = &channel.kind
        && let Some(why) = lines::refusal(serial, channel.one_way)
    {
        return Err(LabError::Topology(format!(
            "channel '{}' {why}, or use `wavelane run FILE --on sim`",
            channel.name
        )));
    }
    let nodes = channel.between.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    for (a, b) in (0..nodes.len()).flat_map(|a| (a + 1..nodes.len()).map(move |b| (a, b))) {
        if !channel.joins(a, b) {
            continue;
        }
        // One too many is refused as a whole.
        let number = wires.len();
        let address = |last: u8| Ipv4Addr::new(NET[0], NET[1], (number % WIRES_MAX) as u8, last);
        let mut interface = match channel.cell() {
            Some(_) => format!("wl{number}_{}", channel.name),
            None => format!("wl_{}", channel.name),
        };
        interface.truncate(INTERFACE_MAX);
        wires.push(Wire {
            channel: i,
            places: [a, b],
            ends: [nodes[a], nodes[b]],
            addresses: [address(1), address(2)],
            interface,
            one_way: channel.one_way,
            counted: false,
            mobile: scenario.move_over(&channel.name).and_then(|of| channel.between.iter().position(|n| *n == of.node)),
            later: scenario.is_later(&channel.name),
        });
    }
    Ok(())
}

/// Every link that joins two gateways directly or that a flow takes, each once.
fn links(scenario: &Scenario, wires: &[Wire]) -> Vec<Link> {
    let is_gateway = |node: usize| scenario.nodes[node].kind == NodeKind::Gateway;
    let mut found: Vec<Link> = Vec::new();
    let mut add = |ends: [usize; 2], wires: Vec<usize>| match found
        .iter_mut()
        .find(|l| l.ends == ends || l.ends == [ends[1], ends[0]])
    {
        None => found.push(Link { ends, wires, beside: Vec::new() }),
        Some(link) => {
            let known = |c: &usize| link.wires.contains(c) || link.beside.contains(c);
            if let Some(wire) = wires.first().filter(|c| wires.len() == 1 && !known(c)) {
                link.beside.push(*wire);
            }
        }
    };
    for (i, wire) in wires.iter().enumerate() {
        if wire.ends.into_iter().all(is_gateway) {
            add(wire.ends, vec![i]);
        }
    }
    for flow in &scenario.flows {
        let path = scenario.path(&flow.from, &flow.to).zip(scenario.nodes_of_path(&flow.from, &flow.to));
        let Some((path, nodes)) = path else { continue };
        // The last gateway passed, and the wires since.
        let mut since = is_gateway(nodes[0]).then(|| (nodes[0], Vec::new()));
        for ((channel, _), hop) in path.into_iter().zip(nodes.windows(2)) {
            let number = scenario.channels.iter().position(|c| c.name == channel.name);
            let joins = |w: &Wire| Some(w.channel) == number && hop.iter().all(|node| w.end_of(*node).is_some());
            let Some(number) = wires.iter().position(joins) else { break };
            let here = hop[1];
            if let Some((_, wires)) = &mut since {
                wires.push(number);
            }
            if is_gateway(here) {
                if let Some((before, wires)) = since.take() {
                    add([before, here], wires);
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

/// Best ways between one node and all others.
struct Ways {
    /// By node; the greatest number where none leads.
    cost: Vec<u32>,
    /// By node: the last wire, and the node before.
    back: Vec<Option<(usize, usize)>>,
}

impl Ways {
    /// The cheapest from `node`, or towards it, by the scenario's criterion; of equals the first in file order. Endpoints pass nothing on.
    fn new(scenario: &Scenario, node: usize, wires: &[Wire], towards: bool) -> Self {
        let nodes = scenario.nodes.len();
        let mut ways = Self { cost: vec![u32::MAX; nodes], back: vec![None; nodes] };
        ways.cost[node] = 0;
        // The cheapest first; of equals the one that was found first.
        let (mut found, mut open) = (0_u32, BTreeSet::from([(0_u32, 0_u32, node)]));
        while let Some((cost, _, at)) = open.pop_first() {
            if cost > ways.cost[at] || (at != node && scenario.nodes[at].kind == NodeKind::Endpoint) {
                continue;
            }
            for (i, wire) in wires.iter().enumerate().filter(|(_, wire)| !wire.later) {
                let sender = |end: &usize| if towards { 1 - end } else { *end };
                let Some(end) = wire.end_of(at).filter(|end| wire.carries_from(sender(end))) else { continue };
                let [a, b] = wire.places;
                let of_hop = scenario.routing.cost(scenario.channels[wire.channel].arrives(a, b));
                let (next, total) = (wire.ends[1 - end], cost.saturating_add(of_hop));
                if total < ways.cost[next] {
                    ways.cost[next] = total;
                    ways.back[next] = Some((i, at));
                    found += 1;
                    open.insert((total, found, next));
                }
            }
        }
        ways
    }

    /// The first wire on the way from `node` to `to`, and the node that it leads to.
    fn first(&self, node: usize, to: usize) -> Option<(usize, usize)> {
        let mut at = to;
        loop {
            let (wire, before) = self.back[at]?;
            if before == node {
                return Some((wire, at));
            }
            at = before;
        }
    }
}

/// Best paths to all networks; the first channel in file order wins a tie, unless `named` has another.
fn routes_of(scenario: &Scenario, node: usize, wires: &[Wire], named: &[Hop]) -> Vec<Route> {
    let ways = Ways::new(scenario, node, wires, false);
    let mut routes = Vec::new();
    for wire in wires.iter().filter(|w| w.end_of(node).is_none()) {
        let nearer = match wire.mobile.filter(|_| wire.later) {
            // Its router's alone.
            Some(mobile) => wire.ends[1 - mobile],
            None if ways.cost[wire.ends[0]] <= ways.cost[wire.ends[1]] => wire.ends[0],
            None => wire.ends[1],
        };
        let Some((first, next)) = ways.first(node, nearer) else { continue };
        let by = &wires[Hop::wire(named, node, next, first)];
        let mine = by.end_of(node).expect("the first hop's wire starts at this node");
        routes.push(Route { prefix: wire.prefix(), via: by.addresses[1 - mine], interface: by.interface.clone() });
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
        let links = Plan::of(&scenario).unwrap().links;
        assert_eq!(links.len(), 2);
        assert_eq!((links[0].ends, &links[0].wires[..]), ([1, 4], &[1, 2, 3][..]));
        assert_eq!((links[1].ends, &links[1].wires[..]), ([8, 7], &[7, 2, 6][..]));
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

    /// Four stations; the direct way from a to d loses half, that over b and c a tenth a hop. c and d hear nothing of a line beside.
    fn mesh(top: &str) -> Plan {
        let pair = |a: &str, b: &str, drop: &str| {
            format!("{{ between = [\"{a}\", \"{b}\"], hear = \"decode\", drop = \"{drop}\" }},")
        };
        let pairs =
            [pair("a", "d", "0.5"), pair("a", "b", "0.1"), pair("b", "c", "0.1"), pair("c", "d", "0.1")].concat();
        let text = format!(
            "{top}\nduration = \"1 s\"\nstacks = [\"tcp-cubic\"]\nnodes = {{ a = \"endpoint\", b = \"router\", c = \"router\", d = \"endpoint\" }}\n\
             [channels.twelve_chars]\nkind = \"wifi\"\nphy = \"802.11a\"\nrate = \"6 Mbit/s\"\nnodes = [\"a\", \"b\", \"c\", \"d\"]\nreach = \"none\"\n\
             pairs = [{pairs}]\n[flows.copy]\napp = \"upload\"\nfrom = \"a\"\nto = \"d\"\n"
        );
        let scenario = Scenario::parse(&text, std::path::Path::new(".")).unwrap();
        let plan = Plan::of(&scenario).unwrap();
        plan.routed(&scenario)
    }

    #[test]
    fn stations_have_a_device_for_each_other_that_they_hear_and_take_the_best_way() {
        let plan = mesh("");
        let wires: Vec<([usize; 2], &str)> = plan.wires.iter().map(|w| (w.places, &*w.interface)).collect();
        assert_eq!(
            wires,
            [
                ([0, 1], "wl0_twelve_char"),
                ([0, 3], "wl1_twelve_char"),
                ([1, 2], "wl2_twelve_char"),
                ([2, 3], "wl3_twelve_char")
            ]
        );
        let way = |plan: &Plan, node: usize, to: usize| {
            let prefix = format!("{}/32", plan.address_of(to).unwrap());
            plan.routes[node].iter().find(|route| route.prefix == prefix).map(|route| route.interface.clone())
        };
        assert_eq!(way(&plan, 0, 3), None, "the shortest: by the device that d's own address is behind");
        let plan = mesh("routing = \"etx\"");
        let by = |node, to| way(&plan, node, to).unwrap();
        assert_eq!([by(0, 3), by(1, 3), by(2, 3)], ["wl0_twelve_char", "wl2_twelve_char", "wl3_twelve_char"]);
        assert_eq!([by(3, 0), by(2, 0)], ["wl3_twelve_char", "wl2_twelve_char"]);
        assert_eq!(way(&plan, 1, 0), None, "a's own address is on the way from b");
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
