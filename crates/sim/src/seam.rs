//! Channels that `wavelane` does not cross in the simulator, since flows enter at the gateways' stream seam: those between
//! gateways and endpoints. Leaving out a good cable changes little; leaving out a bad one would flatter us.

use wavelane_base::{Octets, Span};
use wavelane_channel::{CableConfig, DirectionConfig, LossConfig, QueueLimit};
use wavelane_scenario::{Channel, Direction, NodeKind, Quantity, Scenario};

/// A shorter queue loses what one packet of segmentation offload brings.
const QUEUE_LEAST: Octets = Octets::new(65_536);

/// Why `wavelane` would be flattered, if so: a flow's way has a channel to an endpoint that is, at any time, worse than the
/// preset `ethernet`.
pub(crate) fn flatters(scenario: &Scenario) -> Option<String> {
    let is = |kind: NodeKind| move |name: &String| scenario.node(name).is_some_and(|node| node.kind == kind);
    let ways = scenario.flows.iter().filter_map(|flow| scenario.path(&flow.from, &flow.to));
    let crossed = ways.flatten().map(|(channel, _)| channel).filter(|channel| {
        channel.between.iter().any(is(NodeKind::Endpoint)) && channel.between.iter().any(is(NodeKind::Gateway))
    });
    let mut both = crossed.flat_map(|channel| [(channel, Direction::Forward), (channel, Direction::Reverse)]);
    let (channel, way, what) = both.find_map(|(channel, way)| Some((channel, way, worse(scenario, channel, way)?)))?;
    let way = if way == Direction::Forward { "forward" } else { "reverse" };
    let why = "in the simulator wavelane's flows do not cross channels to endpoints";
    let remedy = "run it with --on lab, or take wavelane out of `stacks`";
    Some(format!("channels.{}.{way} {what} than the preset \"ethernet\" has, and {why}: {remedy}", channel.name))
}

/// What one direction of a channel does, at any time, that the preset does not.
fn worse(scenario: &Scenario, channel: &Channel, way: Direction) -> Option<String> {
    let ethernet = CableConfig::ethernet().forward;
    scenario.over_time(channel, way).iter().find_map(|(at, config)| {
        let what = worse_than(config, &ethernet)?;
        Some(if *at == Span::ZERO { what } else { format!("from {} on {what}", at.write()) })
    })
}

fn worse_than(config: &DirectionConfig, good: &DirectionConfig) -> Option<String> {
    let rate = config.rate.filter(|rate| good.rate.is_some_and(|good| *rate < good));
    if let Some(rate) = rate {
        return Some(format!("has a lower rate, {},", rate.write()));
    }
    if config.delay > good.delay {
        return Some(format!("has a longer delay, {},", config.delay.write()));
    }
    let short = match config.queue {
        QueueLimit::Bounded => false,
        QueueLimit::Octets(octets) => octets < QUEUE_LEAST,
        QueueLimit::Packets(packets) => packets.saturating_mul(1_500) < QUEUE_LEAST.get(),
    };
    let more = [
        (config.jitter > good.jitter, "jitter"),
        (config.loss != LossConfig::None, "loss"),
        (config.corrupt != good.corrupt, "corruption"),
        (config.duplicate != good.duplicate, "duplication"),
        (config.reorder.p != good.reorder.p, "reordering"),
        (!config.outages.is_empty(), "outages"),
        (config.policer.is_some(), "policing"),
        (short, "losses in a short queue"),
    ];
    more.iter().find(|(is, _)| *is).map(|(_, what)| format!("has more {what}"))
}

#[cfg(test)]
#[path = "seam_tests.rs"]
mod tests;
