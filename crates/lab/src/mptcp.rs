//! Multipath TCP of the kernel: the endpoints' connections use every channel between the two gateways, which only forward.
//!
//! A server has an address for each further channel and advertises it (ADD_ADDR); the client joins from its own. Traffic to and from that
//! address uses that channel.

use crate::LabError;
use crate::review::needs_udp;
use crate::tools;
use crate::topology::{Link, Plan};
use crate::world::World;
use std::net::Ipv4Addr;
use wavelane_scenario::{Family, Scenario, Stack};

/// Prefix of the congestion control's name for Multipath TCP sockets.
pub(crate) const WORD: &str = "mptcp ";
/// Shows whether the kernel supports it.
const SWITCH: &str = "/proc/sys/net/mptcp/enabled";
/// Maximum number of paths of a connection (`MPTCP_PM_ADDR_MAX`).
const PATHS_MAX: usize = 8;
/// The program that turns another program's sockets into Multipath TCP sockets.
pub(crate) const WRAPPER: &str = "mptcpize";
/// The first two bytes of the servers' further addresses; the node and the path follow.
const NET: [u8; 2] = [10, 78];
/// Port on which the kernel accepts further paths: the servers listen only on their first address.
const JOIN_PORT: u16 = 7_999;
/// The first of the source routing tables, one per path.
const TABLE: usize = 100;

/// The two gateways and the channels between them, in order.
fn paths(scenario: &Scenario) -> Result<(Link, Vec<usize>), String> {
    let plan = Plan::of(scenario).map_err(|error| error.to_string())?;
    let [link] = &plan.links[..] else {
        return Err(format!("mptcp needs one pair of gateways, not {}", plan.links.len()));
    };
    let channels: Vec<usize> = link.wires.iter().chain(&link.beside).copied().collect();
    let both_ways = channels.iter().all(|c| !plan.wires[*c].one_way);
    match (channels.len(), link.wires.len()) {
        (2..=PATHS_MAX, 1) if both_ways => Ok((link.clone(), channels)),
        _ => Err(format!("mptcp needs 2 to {PATHS_MAX} channels between the two gateways, each of both directions")),
    }
}

/// Whether this machine can run it; if not, why.
pub(crate) fn review(scenario: &Scenario) -> Result<(), String> {
    let enabled = std::fs::read_to_string(SWITCH).unwrap_or_default();
    if enabled.trim() != "1" {
        return Err(format!("this kernel has no Multipath TCP: {SWITCH} is not 1"));
    }
    if tools::find(WRAPPER).is_none() {
        return Err(format!("the program {WRAPPER} is missing: install it (apt install mptcpize)"));
    }
    if let Some(flow) = scenario.flows.iter().find(|f| needs_udp(&f.app)) {
        return Err(format!("mptcp carries TCP only, and flow {} is {}", flow.name, flow.app.word()));
    }
    let (link, _) = paths(scenario)?;
    scenario.flows.iter().try_for_each(|flow| {
        let beside = |name: &str| {
            let joins = |c: &&wavelane_scenario::Channel| c.between.iter().any(|n| n == name);
            let other = scenario.channels.iter().find(joins).and_then(|c| c.between.iter().find(|n| *n != name));
            link.ends.into_iter().find(|end| Some(&scenario.nodes[*end].name) == other)
        };
        match (beside(&flow.from), beside(&flow.to)) {
            (Some(a), Some(b)) if a != b => Ok(()),
            _ => Err(format!("flow {}: under mptcp each end is joined to a gateway of its own", flow.name)),
        }
    })
}

/// Assigns the endpoints' further addresses, and the matching routes on the gateways.
pub(crate) fn set_up(scenario: &Scenario, world: &World, controls: &[&str]) -> Result<(), LabError> {
    let (link, channels) = paths(scenario).map_err(LabError::Topology)?;
    let plan = &world.plan;
    let place = |name: &str| scenario.nodes.iter().position(|n| n.name == name).expect("flows name nodes");
    let mut servers: Vec<usize> = scenario.flows.iter().map(|flow| place(&flow.to)).collect();
    let mut clients: Vec<usize> = scenario.flows.iter().map(|flow| place(&flow.from)).collect();
    for nodes in [&mut servers, &mut clients] {
        nodes.sort_unstable();
        nodes.dedup();
    }
    let limits = format!("mptcp limits set subflows {PATHS_MAX} add_addr_accepted {PATHS_MAX}");
    let lan = |node: usize| plan.wires.iter().find(|wire| wire.end_of(node).is_some()).expect("reviewed: it is joined");
    for node in servers.iter().chain(&clients) {
        tools::ip(&world.nodes[*node], std::slice::from_ref(&limits))?;
    }
    for client in clients {
        let wire = lan(client);
        let end = wire.end_of(client).expect("its own wire");
        let [a, b] = NET;
        let line = format!(
            "route add {a}.{b}.0.0/16 via {} dev {} congctl {}",
            wire.addresses[1 - end],
            wire.interface,
            controls[client]
        );
        tools::ip(&world.nodes[client], &[line])?;
    }
    for server in servers {
        let wire = lan(server);
        let end = wire.end_of(server).expect("its own wire");
        let near = wire.ends[1 - end];
        let far = link.ends.into_iter().find(|gateway| *gateway != near).expect("a link has two ends");
        for (path, channel) in channels.iter().enumerate().skip(1) {
            let [a, b] = NET;
            let own = Ipv4Addr::new(a, b, u8::try_from(server).expect("NODES_MAX is 64"), path as u8);
            let between = &plan.wires[*channel];
            let [at_near, at_far] =
                [near, far].map(|n| between.addresses[between.end_of(n).expect("the link's channel")]);
            let (name, table) = (&between.interface, TABLE + path);
            tools::ip(
                &world.nodes[server],
                &[
                    format!("addr add {own}/32 dev {}", wire.interface),
                    format!("mptcp endpoint add {own} port {JOIN_PORT} dev {} signal", wire.interface),
                ],
            )?;
            tools::ip(&world.nodes[far], &[format!("route add {own}/32 via {at_near} dev {name}")])?;
            tools::ip(
                &world.nodes[near],
                &[
                    format!("route add {own}/32 via {} dev {}", wire.addresses[end], wire.interface),
                    format!("route replace default via {at_far} dev {name} table {table}"),
                    format!("rule add from {own}/32 lookup {table}"),
                ],
            )?;
        }
    }
    Ok(())
}

/// Number of further paths that the connections of all endpoints used (`MPJoinAckRx` in /proc/net/netstat).
pub(crate) fn joins(scenario: &Scenario, world: &World) -> Result<u64, LabError> {
    let mut sum = 0;
    for flow in &scenario.flows {
        let Some(server) = scenario.nodes.iter().position(|n| n.name == flow.to) else { continue };
        let text = world.nodes[server].run(|| std::fs::read_to_string("/proc/thread-self/net/netstat"))?;
        let text = text.map_err(LabError::io("cannot read /proc/net/netstat"))?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("MPTcpExt: "));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else { continue };
        let found = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "MPJoinAckRx");
        sum = sum.max(found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0));
    }
    Ok(sum)
}

/// Whether a stack is Multipath TCP.
pub(crate) fn is(stack: Stack) -> bool {
    stack.family == Family::Mptcp
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn paths_are_the_channels_between_two_gateways_that_carry_both_ways() {
        let text = |middle: &str| {
            format!(
                "duration = \"1 s\"\nstacks = [\"mptcp\"]\nnodes = {{ c = \"endpoint\", a = \"gateway\", b = \"gateway\", s = \"endpoint\" }}\n\
                 flows = {{ up = {{ app = \"upload\", from = \"c\", to = \"s\" }} }}\n\
                 [channels]\nnear = {{ preset = \"ethernet\", between = [\"c\", \"a\"] }}\n{middle}\n\
                 far = {{ preset = \"ethernet\", between = [\"b\", \"s\"] }}\n"
            )
        };
        let of = |middle: &str| paths(&Scenario::parse(&text(middle), std::path::Path::new(".")).unwrap());
        let one = "one = { between = [\"a\", \"b\"], forward = { rate = \"1 Mbit/s\" }, reverse = \"same\" }\n";
        let two = "two = { between = [\"b\", \"a\"], forward = { rate = \"1 Mbit/s\" }, reverse = \"same\" }\n";
        let beam = "two = { between = [\"a\", \"b\"], forward = { rate = \"1 Mbit/s\" }, reverse = \"none\" }\n";
        let (link, channels) = of(&format!("{one}{two}")).unwrap();
        assert_eq!((link.ends, channels), ([1, 2], vec![1, 2]));
        for few in [one.to_owned(), format!("{one}{beam}")] {
            assert!(of(&few).unwrap_err().contains("2 to 8 channels"), "{few}");
        }
    }
}
