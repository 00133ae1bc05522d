//! Configuration of gateways with several neighbours, and of gateways with non-default settings.

use crate::lanes;
use crate::media;
use crate::topology::{Link, Plan};
use core::fmt::Write;
use wavelane_base::Ratio;
use wavelane_scenario::{NodeKind, Scenario};
use wavelane_settings::{File, GATEWAY, GatewayKnobs, SentAgain};

/// What the lab knows of a gateway besides the scenario.
pub(crate) struct Known<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) plan: &'a Plan,
    pub(crate) links: &'a [Link],
    /// The public key of each node that is a gateway.
    pub(crate) keys: &'a [Option<String>],
}

/// Why the lab cannot apply a gateway's knobs.
pub(crate) fn refusal(knobs: &GatewayKnobs) -> Option<String> {
    let is_fault = |share: &Ratio| *share != Ratio::ZERO;
    // What is as in wavelaned is no difference, and `buffer` is of proxies, which say themselves what they lack.
    let turned = GatewayKnobs {
        buffer: None,
        overhear: knobs.overhear.filter(|on| *on),
        radio: None,
        tries: knobs.tries.filter(|tries| *tries == SentAgain::Of1998),
        block_loss: knobs.block_loss.filter(is_fault),
        corruption: knobs.corruption.filter(is_fault),
        ..knobs.clone()
    };
    let of_simulator = GATEWAY
        .turned(File::Scenario, &turned)
        .into_iter()
        .find(|(key, _)| GATEWAY.0.iter().any(|knob| knob.name == key && !knob.stands.contains(&File::Daemon)));
    of_simulator.map(|(key, _)| {
        format!("{key} is of the simulator alone, because wavelaned does not have it: run it with --on sim")
    })
}

impl Known<'_> {
    /// The links of `node`.
    pub(crate) fn links_of(&self, node: usize) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(move |link| link.ends.contains(&node))
    }

    /// The place of the far end of a link of `node`, and where it is called.
    pub(crate) fn neighbour(&self, node: usize, link: &Link) -> (usize, String) {
        let mine = usize::from(link.ends[1] == node);
        let peer = link.ends[1 - mine];
        // The peer is reached at its address on the channel that connects it to the link.
        let nearest = if mine == 0 { link.wires.last() } else { link.wires.first() };
        let wire = &self.plan.wires[*nearest.expect("a link has wires")];
        (peer, (media::of(wire).address)(wire, wire.end_of(peer).expect("the link ends at the peer")))
    }

    /// The tables of a link's lanes if it is a radio's.
    fn radio_lane(&self, node: usize, link: &Link) -> Option<String> {
        let mine = usize::from(link.ends[1] == node);
        let nearest = *(if mine == 0 { link.wires.first() } else { link.wires.last() })?;
        let wire = &self.plan.wires[nearest];
        self.plan.radio_at(self.scenario, wire, wire.end_of(node)?)?;
        Some(lanes::tables(self.scenario, self.plan, vec![nearest], [node, link.ends[1 - mine]]))
    }

    /// The networks of endpoints attached to `node`.
    fn own(&self, node: usize) -> Vec<String> {
        let wires = self.plan.wires.iter().filter(|w| w.end_of(node).is_some() && !w.counted);
        wires.map(crate::topology::Wire::prefix).collect()
    }

    /// The networks behind `peer` that `node` requests from it.
    fn beyond(&self, node: usize, peer: usize) -> Vec<&str> {
        self.plan.beyond(node, peer).map(|route| route.prefix.as_str()).collect()
    }

    /// Additions to a gateway's configuration beyond what `wavelane init` wrote for its first neighbour: in `[gateway]`, in that
    /// neighbour's table, and at the end.
    pub(crate) fn additions(&self, node: usize) -> [String; 3] {
        let relays = self.links_of(node).count() > 1;
        let mut all = [self.knobs(node), String::new(), String::new()];
        if relays {
            let neighbours: Vec<_> = self.links_of(node).map(|link| self.neighbour(node, link)).collect();
            for (place, (peer, address)) in neighbours.iter().enumerate() {
                let others = neighbours.iter().filter(|(other, _)| other != peer);
                let others: Vec<&str> = others.flat_map(|(other, _)| self.beyond(node, *other)).collect();
                let own = self.own(node);
                let reach: Vec<&str> = own.iter().map(String::as_str).chain(others).collect();
                let allowed = format!("allow_targets = {reach:?}\n");
                if place == 0 {
                    all[1] = allowed;
                    continue;
                }
                let (name, key) = (&self.scenario.nodes[*peer].name, self.keys[*peer].as_deref().unwrap_or_default());
                let routes = self.beyond(node, *peer);
                let link = self.links_of(node).find(|link| link.ends.contains(peer)).expect("it is a neighbour");
                let (called, lanes) = match self.radio_lane(node, link) {
                    Some(tables) => (String::new(), tables),
                    None => (format!("address = \"{address}\"\n"), String::new()),
                };
                let _ = write!(
                    all[2],
                    "\n[[peer]]\nname = {name:?}\npublic_key = {key:?}\n{called}routes = {routes:?}\n{allowed}{lanes}"
                );
            }
        }
        if all[0].contains("seal = \"end") {
            all[2] += &self.edges(node);
        }
        all
    }

    /// The keys of `[gateways.NAME]`, in the daemon's syntax.
    fn knobs(&self, node: usize) -> String {
        let name = &self.scenario.nodes[node].name;
        let Some(settings) = self.scenario.gateways.iter().find(|of| of.node == *name) else { return String::new() };
        let mut text = GATEWAY.write(File::Daemon, &settings.knobs);
        if settings.seals() {
            // Where the kernel may name another path at any time, neighbours that are a flow's edges encrypt it too.
            if self.links_of(node).all(|link| link.wires.len() == 1) {
                text += "routing = \"kernel\"\n";
            }
        }
        text
    }

    /// Every other gateway with the networks behind it.
    fn edges(&self, node: usize) -> String {
        let others = (0..self.keys.len()).filter(|other| *other != node);
        let others = others.filter(|other| self.scenario.nodes[*other].kind == NodeKind::Gateway);
        let edge = |other: usize| {
            let (name, key) = (&self.scenario.nodes[other].name, self.keys[other].as_ref()?);
            Some(format!("\n[[edge]]\nname = {name:?}\npublic_key = {key:?}\nroutes = {:?}\n", self.own(other)))
        };
        others.filter_map(edge).collect()
    }
}
