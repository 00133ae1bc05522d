//! Where `wavelane` enters the gateways in the simulator: at the stream seam, without a TCP before it, or through a door that
//! ends the endpoints' TCP. Leaving out a good cable to an endpoint changes little and costs little time; leaving out a bad
//! one would flatter us.

use wavelane_base::{Octets, Span};
use wavelane_channel::{CableConfig, DirectionConfig, LossConfig, QueueLimit};
use wavelane_scenario::{Channel, Direction, NodeKind, Scenario};

/// A shorter queue loses what one packet of segmentation offload brings.
const QUEUE_LEAST: Octets = Octets::new(65_536);

/// Whether a flow's way has a channel between an endpoint and a gateway that is, at any time, worse than the preset
/// `ethernet`: then all endpoints have a TCP and all gateways a door.
pub(crate) fn needs_doors(scenario: &Scenario) -> bool {
    let is = |kind: NodeKind| move |name: &String| scenario.node(name).is_some_and(|node| node.kind == kind);
    let ways = scenario.flows.iter().filter_map(|flow| scenario.path(&flow.from, &flow.to));
    let mut crossed = ways.flatten().map(|(channel, _)| channel).filter(|channel| {
        channel.between.iter().any(is(NodeKind::Endpoint)) && channel.between.iter().any(is(NodeKind::Gateway))
    });
    crossed.any(|channel| {
        channel.cell().is_some()
            || [Direction::Forward, Direction::Reverse].iter().any(|way| worse(scenario, channel, *way))
    })
}

/// Whether one direction of a channel is worse than the preset at any time.
fn worse(scenario: &Scenario, channel: &Channel, way: Direction) -> bool {
    let ethernet = CableConfig::ethernet().forward;
    scenario.over_time(channel, way).iter().any(|(_, config): &(Span, _)| worse_than(config, &ethernet))
}

fn worse_than(config: &DirectionConfig, good: &DirectionConfig) -> bool {
    let short = match config.queue {
        QueueLimit::Bounded => false,
        QueueLimit::Octets(octets) => octets < QUEUE_LEAST,
        QueueLimit::Packets(packets) => packets.saturating_mul(1_500) < QUEUE_LEAST.get(),
    };
    config.rate.is_some_and(|rate| good.rate.is_some_and(|good| rate < good))
        || config.delay > good.delay
        || config.jitter > good.jitter
        || config.loss != LossConfig::None
        || config.corrupt != good.corrupt
        || config.duplicate != good.duplicate
        || config.reorder.p != good.reorder.p
        || !config.outages.is_empty()
        || config.policer.is_some()
        || short
}

#[cfg(test)]
#[path = "seam_tests.rs"]
mod tests;
