//! Settings that are in order and have no effect, or another one than whoever wrote them expects.
//!
//! A remark is made only where it holds whatever path a flow takes: gateways move flows to other paths, so every gateway with two
//! neighbours counts as a possible relay of every flow that does not begin or end its way at it.

use crate::model::{ChannelKind, Flow, GatewaySettings, NodeKind, Scenario, Stack, StackOption};
use wavelane_base::{Instant, Ratio, Span};
use wavelane_channel::{Then, Windows};
use wavelane_settings::RadioLanes;

/// Something to tell whoever wrote a file that is in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// Where it stands in the file, such as `gateways.relay.seal`.
    pub clause: String,
    /// What is amiss, and what to do.
    pub why: String,
}

impl Scenario {
    /// What of the scenario has no effect, in the file's order of sections.
    pub fn remarks(&self) -> Vec<Remark> {
        let mut remarks = Vec::new();
        late_outages(self, &mut remarks);
        short_recordings(self, &mut remarks);
        let works = self.stacks.iter().any(|stack| stack.has_gateways());
        let splits = self.stacks.iter().any(|stack| stack.split().is_some());
        let snoops = self.stacks.iter().any(|stack| stack.option == StackOption::Snoop);
        let idle = "none of `stacks` has gateways at work, so it has no effect: add \"wavelane\", or remove it";
        for settings in &self.gateways {
            let clause = format!("gateways.{}", settings.node);
            let of_proxy = [
                ("buffer", settings.knobs.buffer.is_some(), splits),
                ("sides", !settings.sides.is_empty(), splits || snoops),
            ];
            for (key, ..) in of_proxy.iter().filter(|(_, set, acts)| *set && !acts) {
                let why = "no stack splits TCP in one box, so it has no effect: add \"tcp-bbr+split\", or remove it";
                remarks.push(Remark { clause: format!("{clause}.{key}"), why: why.into() });
            }
            if !works && of_proxy.iter().any(|(_, set, acts)| *set && *acts) {
                continue;
            }
            if works {
                gateway(self, settings, &mut |key: &str, why| {
                    remarks.push(Remark { clause: format!("{clause}.{key}"), why })
                });
            } else {
                remarks.push(Remark { clause, why: idle.into() });
            }
        }
        let links = self.links.iter().filter(|_| !works);
        remarks.extend(links.map(|link| Remark { clause: format!("links.{}", link.name), why: idle.into() }));
        remarks
    }

    /// The gateways that a gateway has a channel to or from.
    fn neighbours(&self, gateway: &str) -> Vec<&str> {
        let is_gateway = |name: &str| self.node(name).is_some_and(|node| node.kind == NodeKind::Gateway);
        let beside = |other: &&str| {
            *other != gateway
                && self.channels.iter().any(|channel| {
                    channel.places(gateway, other).is_some_and(|(a, b)| channel.joins(a, b) || channel.joins(b, a))
                })
        };
        self.nodes.iter().map(|node| node.name.as_str()).filter(|name| is_gateway(name)).filter(beside).collect()
    }

    /// The first and the last gateway of a flow.
    fn edges(&self, flow: &Flow) -> Option<[&str; 2]> {
        let path = self.nodes_of_path(&flow.from, &flow.to)?;
        let gateways = || path.iter().map(|&node| &self.nodes[node]).filter(|node| node.kind == NodeKind::Gateway);
        Some([&gateways().next()?.name, &gateways().next_back()?.name])
    }

    /// Whether a flow may cross `gateway` as a relay.
    fn may_relay(&self, gateway: &str, flow: &Flow) -> bool {
        let far = |edges: [&str; 2]| edges[0] != edges[1] && !edges.contains(&gateway);
        self.edges(flow).is_some_and(far) && self.neighbours(gateway).len() > 1
    }

    /// Whether a flow may cross any relay.
    fn may_be_relayed(&self, flow: &Flow) -> bool {
        let gateways = self.nodes.iter().filter(|node| node.kind == NodeKind::Gateway);
        gateways.into_iter().any(|node| self.may_relay(&node.name, flow))
    }

    fn seals(&self, gateway: &str) -> bool {
        self.gateways.iter().any(|of| of.node == gateway && of.seals())
    }
}

/// Outages that begin when the run is over; a change of the timeline that does is refused.
fn late_outages(scenario: &Scenario, remarks: &mut Vec<Remark>) {
    let late = |outages: &Windows| {
        let mut starts = outages.iter().map(|(from, _)| from.since(Instant::ZERO));
        starts.find(|at| *at >= scenario.duration)
    };
    let mut remark = |clause: String, at: Span, of: &str| {
        let end = scenario.duration;
        let why = format!("an outage at {at}{of} comes after the run's end at {end}: move it or lengthen duration");
        remarks.push(Remark { clause, why });
    };
    for channel in &scenario.channels {
        if let ChannelKind::Cable(cable) = &channel.kind {
            for (way, direction) in [("forward", &cable.forward), ("reverse", &cable.reverse)] {
                if let Some(at) = late(&direction.outages)
                    && (way == "forward" || cable.forward.outages != cable.reverse.outages)
                {
                    remark(format!("channels.{}.{way}.outages", channel.name), at, "");
                }
            }
        } else if let Some(cell) = channel.cell() {
            // Once per cell, for it may have thousands of pairs.
            let stations = 0..cell.reach.stations();
            let mut pairs = stations.clone().flat_map(|from| stations.clone().map(move |to| (from, to)));
            let first = pairs.find_map(|(from, to)| Some((from, to, late(&cell.reach.loss(from, to).outages)?)));
            if let Some((from, to, at)) = first {
                let of = format!(" of the pair {}, {}", channel.between[from], channel.between[to]);
                remark(format!("channels.{}.pairs", channel.name), at, &of);
            }
        }
    }
}

/// Recordings that are over before the run is: what follows them was measured nowhere.
fn short_recordings(scenario: &Scenario, remarks: &mut Vec<Remark>) {
    for channel in &scenario.channels {
        let ChannelKind::Cable(cable) = &channel.kind else { continue };
        let mut told = Vec::new();
        for (way, direction) in [("forward", &cable.forward), ("reverse", &cable.reverse)] {
            let rate = direction.rate_trace.as_ref().map(|trace| ("rate", trace.period(), trace.then()));
            let delay = direction.delay_trace.as_ref().map(|trace| ("delay", trace.period(), trace.then()));
            for (key, lasts, then) in rate.into_iter().chain(delay) {
                // One recording in both directions is told once.
                if lasts >= scenario.duration || told.contains(&(key, lasts, then)) {
                    continue;
                }
                told.push((key, lasts, then));
                let then = match (then, key) {
                    (Then::Wrap, _) => "begins again",
                    (Then::End, "rate") => "lets nothing pass any more",
                    (Then::End, _) => "keeps its last delay",
                };
                let of = scenario.duration;
                remarks.push(Remark {
                    clause: format!("channels.{}.{way}.{key}", channel.name),
                    why: format!("the recording lasts {lasts} of the run's {of} and then {then}: shorten duration if that is not wanted"),
                });
            }
        }
    }
}

fn gateway(scenario: &Scenario, settings: &GatewaySettings, remark: &mut dyn FnMut(&str, String)) {
    let GatewaySettings { node, knobs, .. } = settings;
    let is_faulty = |share: Option<Ratio>| share.is_some_and(|share| share != Ratio::ZERO);
    let relays = scenario.flows.iter().any(|flow| scenario.may_relay(node, flow));
    let relayed = scenario.flows.iter().any(|flow| scenario.may_be_relayed(flow));
    if knobs.backpressure.is_some() && !relays {
        remark("backpressure", format!("no flow crosses '{node}' as a relay, so it has no effect: remove it"));
    }
    withhold(scenario, settings, remark);
    let neighbours = scenario.neighbours(node);
    let cells = scenario.channels.iter().filter(|channel| channel.cell().is_some());
    let on_air = || cells.clone().any(|cell| neighbours.iter().any(|far| cell.places(node, far).is_some()));
    let plain = knobs.radio == Some(RadioLanes::Plain);
    if knobs.radio.is_some() && !plain && !on_air() {
        remark("radio", format!("no radio cell joins '{node}' and another gateway, so it has no effect: remove it"));
    }
    if knobs.overhear == Some(true) {
        let sealed = |flow: &Flow| scenario.edges(flow).is_some_and(|ends| ends.iter().all(|end| scenario.seals(end)));
        let lacks = if !on_air() {
            Some(format!("no radio cell joins '{node}' and another gateway"))
        } else if plain {
            Some("radio = \"plain\" hands nothing up".into())
        } else if !scenario.flows.iter().any(|flow| sealed(flow) && scenario.may_be_relayed(flow)) {
            Some("it needs flows across relays whose first and last gateway both have seal = \"end-to-end\"".into())
        } else {
            None
        };
        if let Some(why) = lacks {
            remark("overhear", format!("it has no effect, for {why}: see to that, or remove it"));
        }
    }
    if is_faulty(knobs.block_loss) && !relayed {
        remark("block-loss", "no flow crosses a relay, so it has no effect: remove it".into());
    }
    seal(scenario, settings, remark);
    if is_faulty(knobs.corruption) && !relays {
        remark("corruption", format!("no flow crosses '{node}' as a relay, so it has no effect: remove it"));
    }
}

/// A sender asks for turns only if it withholds too. Under `hop-2009` alone it does in radio cells.
fn withhold(scenario: &Scenario, settings: &GatewaySettings, remark: &mut dyn FnMut(&str, String)) {
    let node = settings.node.as_str();
    if settings.knobs.withhold.unwrap_or(0) == 0 || !scenario.stacks.contains(&Stack::WAVELANE) {
        return;
    }
    let withholds = |name: &str| scenario.gateways.iter().any(|k| k.node == name && k.knobs.withhold.unwrap_or(0) > 0);
    let others: Vec<&str> = scenario.neighbours(node).into_iter().filter(|far| !withholds(far)).collect();
    if !others.is_empty() {
        let others = others.iter().map(|far| format!("'{far}'")).collect::<Vec<_>>().join(" and ");
        remark(
            "withhold",
            format!(
                "{others} beside it does not withhold: it asks for no turn, and its large transfers to '{node}' get little; set withhold at both ends of a channel"
            ),
        );
    }
}

/// A relayed flow of which one edge alone seals is refused.
fn seal(scenario: &Scenario, settings: &GatewaySettings, remark: &mut dyn FnMut(&str, String)) {
    if !settings.seals() {
        return;
    }
    let node = settings.node.as_str();
    let mut sealed = false;
    for flow in &scenario.flows {
        let Some([first, last]) = scenario.edges(flow).filter(|edges| edges.contains(&node)) else { continue };
        if !scenario.may_be_relayed(flow) {
            continue;
        }
        sealed = true;
        let far = if first == node { last } else { first };
        if !scenario.seals(far) {
            let why = format!("'{far}', where the flow {} leaves the gateways, does not seal", flow.name);
            remark(
                "seal",
                format!("{why}, so across relays the flow is refused and brings nothing: set seal there too"),
            );
            return;
        }
    }
    if !sealed {
        let why = format!("no flow across relays begins or ends its way through the gateways at '{node}'");
        remark("seal", format!("{why}, so it has no effect: set it at the first and last gateway, or remove it"));
    }
}

#[cfg(test)]
#[path = "remarks_tests.rs"]
mod tests;
