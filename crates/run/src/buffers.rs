//! How much the endpoints' TCP may hold. A fixed buffer would decide a comparison that the congestion control should
//! decide, so it follows from the paths of the scenario's flows.

use wavelane_base::{Rate, Span};
use wavelane_channel::wifi::WifiConfig;
use wavelane_channel::{QUEUE_BOUND, QueueLimit};
use wavelane_scenario::{Channel, Direction, Flow, Scenario};

/// Largest buffer that scaling can announce (RFC 7323, section 2.3).
const WINDOW_MAX: u64 = 1 << 30;
/// The assumed size of a packet in a queue that counts packets.
const PACKET: u64 = 1_500;
/// Twice what the path holds: one window more, so that new data flows while losses are retransmitted.
const TIMES: u64 = 2;

/// Bytes that a buffer needs so that it limits no flow of the scenario: twice the bandwidth-delay product and queue of the
/// path that holds most. Channels of infinite rate and queues without a stated limit count nothing.
pub fn needed(scenario: &Scenario) -> usize {
    let held = scenario.flows.iter().filter_map(|flow| held(scenario, flow)).map(|held| held.product + held.queue);
    usize::try_from(held.max().unwrap_or(0).saturating_mul(TIMES).min(WINDOW_MAX)).unwrap_or(usize::MAX)
}

/// Bytes that fill the longest and fastest path of a flow, queues apart.
pub fn product(scenario: &Scenario) -> u64 {
    let held = scenario.flows.iter().filter_map(|flow| held(scenario, flow)).map(|held| held.product);
    held.max().unwrap_or(0).min(WINDOW_MAX)
}

/// What a path holds.
struct Held {
    /// Its bandwidth-delay product.
    product: u64,
    queue: u64,
}

/// The most that the path of a flow holds at any time of the run.
fn held(scenario: &Scenario, flow: &Flow) -> Option<Held> {
    let (source, sink) = flow.ends();
    let there = scenario.path(source, sink)?;
    let back = scenario.path(sink, source)?;
    let hops: Vec<Hop> = there.iter().map(|(channel, way)| Hop::of(scenario, channel, *way)).collect();
    let delay = |hops: &[Hop]| hops.iter().fold(Span::ZERO, |sum, hop| sum + hop.delay);
    let returns: Vec<Hop> = back.iter().map(|(channel, way)| Hop::of(scenario, channel, *way)).collect();
    let rate = hops.iter().filter_map(|hop| hop.fastest).min()?;
    // A hop that is never slower than the bottleneck has no queue of ours.
    let queue: u64 = hops.iter().filter(|hop| hop.slowest.is_some_and(|r| r <= rate)).map(|hop| hop.queue).sum();
    let product = rate.octets_in(delay(&hops) + delay(&returns)).get().min(WINDOW_MAX);
    Some(Held { product, queue: queue.min(WINDOW_MAX) })
}

/// What one direction of a channel is over the run.
struct Hop {
    /// `None` is infinitely fast.
    fastest: Option<Rate>,
    slowest: Option<Rate>,
    /// The longest.
    delay: Span,
    /// The deepest.
    queue: u64,
}

impl Hop {
    fn of(scenario: &Scenario, channel: &Channel, way: Direction) -> Self {
        let configs = scenario.over_time(channel, way);
        if let Some(cell) = channel.cell() {
            let rate = Some(cell.rate);
            return Self { fastest: rate, slowest: rate, delay: Span::ZERO, queue: deepest(cell) };
        }
        let rates = || configs.iter().map(|(_, config)| config.rate);
        Self {
            fastest: if rates().any(|rate| rate.is_none()) {
                None
            } else {
                configs.iter().filter_map(|(_, config)| config.fastest()).max()
            },
            slowest: rates().flatten().min(),
            delay: configs.iter().map(|(_, config)| config.delay + config.jitter).max().unwrap_or_default(),
            queue: configs
                .iter()
                .map(|(_, config)| octets(config.queue) + config.queueing.ring * PACKET)
                .max()
                .unwrap_or(0),
        }
    }
}

/// The deepest queue of a cell's stations.
fn deepest(cell: &WifiConfig) -> u64 {
    let named = cell.queues.values().map(|queue| octets(queue.limit));
    let rest = (cell.queues.len() < cell.reach.stations()).then_some(cell.queue as u64 * PACKET);
    named.chain(rest).max().unwrap_or(0)
}

fn octets(queue: QueueLimit) -> u64 {
    match queue {
        // Without a stated limit the queue has no certain size.
        QueueLimit::Bounded => 0,
        QueueLimit::Octets(octets) => octets.get(),
        QueueLimit::Packets(packets) => packets.saturating_mul(PACKET).min(QUEUE_BOUND.get()),
    }
}

#[cfg(test)]
#[path = "buffers_tests.rs"]
mod tests;
