//! Nodes that move: what changes in the world when one has a channel again. While it has none, its channels lose everything
//! ([`Scenario::with_moves`]).

use crate::wiring::{Shape, World};
use std::net::Ipv4Addr;
use wavelane_run::{Review, Treatment};
use wavelane_scenario::{Move, NodeKind, Scenario, Stack};
use wavelane_settings::MovedAddress;

/// What becomes of moves.
pub(crate) fn review(scenario: &Scenario, review: &mut Review) {
    for of in &scenario.moves {
        let why = match of.address {
            MovedAddress::Kept => {
                "beside the gap, a lease and a registration take no time, and packets in the tunnel may have 1,520 octets"
            }
            MovedAddress::New => "beside the gap, a lease takes no time",
        };
        review.clause(format!("mobility.{}", of.name), Treatment::Approximated(why.to_owned()));
        let begins_later = |flow: &&wavelane_scenario::Flow| {
            of.address == MovedAddress::New
                && (flow.from == of.node || flow.to == of.node)
                && flow.start >= of.at
                && scenario.node(&of.node).is_some_and(|node| node.kind == NodeKind::Endpoint)
        };
        for flow in scenario.flows.iter().filter(begins_later) {
            let why = format!(
                "it begins after '{}' has lost its address, and the simulator's endpoints have no second one: start it before {}, or run it with --on lab",
                of.node, of.at
            );
            review.clause(format!("flows.{}", flow.name), Treatment::Refused(why));
        }
    }
}

/// Why a stack cannot have a scenario's moves, if so.
pub(crate) fn refusal(scenario: &Scenario, stack: Stack) -> Option<String> {
    let at_agent =
        |of: &&Move| scenario.flows.iter().any(|flow| of.networks[0] == flow.from || of.networks[0] == flow.to);
    if let Some(of) = scenario.moves.iter().filter(|of| of.address == MovedAddress::Kept).find(at_agent) {
        let agent = &of.networks[0];
        return Some(format!("'{agent}' is a home agent, which has no programs here: let flows end at endpoints"));
    }
    let is_gateway = |of: &Move| scenario.node(&of.node).is_some_and(|node| node.kind == NodeKind::Gateway);
    let fixed = scenario.moves.iter().find(|of| stack.has_gateways() && !is_gateway(of))?;
    Some(format!(
        "under the gateways' own stacks gateways move, and [mobility.{}] moves the endpoint '{}': use tcp-* stacks, or name a gateway",
        fixed.name, fixed.node
    ))
}

impl Shape<'_> {
    /// Has a node come back by the channel that it moves to.
    pub(crate) fn arrive(&self, of: &Move, stack: Stack, world: &mut World) {
        let numbers = of.channels.each_ref().map(|name| self.scenario.channels.iter().position(|c| c.name == *name));
        let ([Some(left), Some(taken)], Some(mobile)) = (numbers, self.node(&of.node)) else { return };
        let channels = of.channels.each_ref().map(|name| world.channels.get(name).copied());
        let ([Some(from), Some(to)], Some(&id)) = (channels, world.nodes.get(&mobile)) else { return };
        match of.address {
            // Its sessions go on; what comes to the old address, and what a plain TCP sends from it, finds no way.
            MovedAddress::New if stack.has_gateways() => world.engine.move_port(id, from, to),
            MovedAddress::New => {}
            MovedAddress::Kept => {
                let Some(agent) = self.node(&of.networks[0]) else { return };
                let care_of = self.care_of(taken, mobile);
                world.engine.tunnel(world.nodes[&agent], [self.host(mobile), self.host(agent), care_of]);
                world.engine.take_from_tunnel(id, care_of);
                self.lead(mobile, care_of, left, world);
            }
        }
    }

    /// A node's address in the network that it moves to.
    fn care_of(&self, channel: usize, node: usize) -> Ipv4Addr {
        let join = self.joins.iter().position(|join| join.channel == channel);
        *self.port_address(join.unwrap_or_default(), node).ip()
    }

    /// Routes to and from a mobile that has left a channel: all nodes know its care-of address, itself the way to all hosts.
    fn lead(&self, mobile: usize, care_of: Ipv4Addr, left: usize, world: &mut World) {
        let ways = self.ways_without(|number| number == left);
        for host in 0..self.scenario.nodes.len() {
            for step in self.steps_to(host, &ways, |_| true) {
                let (to, wanted) = match host == mobile {
                    true => (care_of, true),
                    false => (self.host(host), step.node == mobile),
                };
                let channel = world.channels.get(&self.scenario.channels[step.channel].name).copied();
                if let (true, Some(channel)) = (wanted, channel) {
                    world.engine.route_via(world.nodes[&step.node], to, channel, world.nodes[&step.next]);
                }
            }
        }
    }
}
