//! Paths between gateways: the best next neighbour towards each other gateway, and the further ones.

use crate::wiring::Shape;
use std::collections::{BTreeSet, VecDeque};
use wavelane_base::maths::power;
use wavelane_base::{Octets, Ratio, Span};
use wavelane_channel::wifi::PairLoss;
use wavelane_channel::{DirectionConfig, LossConfig, PerUnit};
use wavelane_gateway::{DETOURS_MAX, Detour, PeerId};
use wavelane_scenario::{Direction, Routing};

/// Cost of a hop over which nothing is lost.
const HOP: u32 = 1_000;
/// Cost of a hop over which nothing arrives: worse than any path without it.
const HOP_MAX: u32 = 1_000_000;
/// The packet whose chance to arrive counts.
const PACKET: Octets = Octets::new(1_500);

impl Shape<'_> {
    /// The neighbour through which `from` reaches `to` best; the first of equals. None leads to itself.
    pub(crate) fn next_gateway(&self, from: usize, to: usize) -> Option<usize> {
        if from == to {
            return None;
        }
        match self.scenario.routing {
            Routing::Shortest => self.nearest(from, to),
            Routing::Etx => {
                let through = |next: usize| {
                    Some(self.hop_cost(from, next).saturating_add(self.cheapest(next, to, Some(from))?))
                };
                let nexts = self.neighbours(from).iter().filter_map(|&(_, next)| Some((through(next)?, next)));
                nexts.min_by_key(|(cost, _)| *cost).map(|(_, next)| next)
            }
        }
    }

    fn nearest(&self, from: usize, to: usize) -> Option<usize> {
        let mut seen = BTreeSet::from([from]);
        let first = self.neighbours(from).iter().map(|&(_, next)| (next, next));
        let mut queue: VecDeque<(usize, usize)> = first.collect();
        while let Some((at, next)) = queue.pop_front() {
            if at == to {
                return Some(next);
            }
            if seen.insert(at) {
                queue.extend(self.neighbours(at).iter().map(|&(_, other)| (other, next)));
            }
        }
        None
    }

    /// The cost of the cheapest path that does not pass `without`.
    fn cheapest(&self, from: usize, to: usize, without: Option<usize>) -> Option<u32> {
        let (mut open, mut over) = (BTreeSet::from([(0, from)]), BTreeSet::new());
        while let Some((cost, at)) = open.pop_first() {
            if at == to {
                return Some(cost);
            }
            if over.insert(at) {
                let onward = self.neighbours(at).iter().filter(|(_, next)| Some(*next) != without);
                open.extend(onward.map(|&(_, next)| (cost.saturating_add(self.hop_cost(at, next)), next)));
            }
        }
        None
    }

    /// The cost of a hop between two neighbours.
    pub(crate) fn hop_cost(&self, from: usize, to: usize) -> u32 {
        if self.scenario.routing == Routing::Shortest {
            return HOP;
        }
        let cost = |arrives: f64| (f64::from(HOP) / arrives.max(1e-9)).clamp(f64::from(HOP), f64::from(HOP_MAX)) as u32;
        let direct = self.joins.iter().find(|join| join.other(from) == Some(to));
        if let Some(join) = direct
            && let Some(cell) = self.scenario.channels[join.channel].cell()
        {
            let [a, b] = join.places();
            let arrives = |loss: PairLoss| (1.0 - loss.air.as_f64()) * (1.0 - loss.drop.as_f64());
            return cost(arrives(cell.reach.loss(a, b)) * arrives(cell.reach.loss(b, a)));
        }
        let channels = match direct {
            Some(join) => vec![&self.scenario.channels[join.channel]],
            None => {
                let path = self.scenario.path(self.name(from), self.name(to)).unwrap_or_default();
                path.into_iter().map(|(channel, _)| channel).collect()
            }
        };
        let both = [Direction::Forward, Direction::Reverse];
        let directions = channels.into_iter().flat_map(|channel| both.map(|way| channel.direction(way)));
        let arrives: f64 = directions.flatten().map(delivery_ratio).product();
        cost(arrives)
    }

    /// The further paths of a gateway: each neighbour from which a host is reached without it, unless it is the best.
    pub(crate) fn detours(&self, gateway: usize) -> Vec<Detour> {
        let mut detours = Vec::new();
        for node in 0..self.scenario.nodes.len() {
            let Ok(edge) = self.gateway_of(node) else { continue };
            let best = self.next_gateway(gateway, edge);
            for (place, &(_, next)) in self.neighbours(gateway).iter().enumerate() {
                if edge == gateway || best == Some(next) {
                    continue;
                }
                if let Some(beyond) = self.cheapest(next, edge, Some(gateway)) {
                    let metric = self.hop_cost(gateway, next).saturating_add(beyond);
                    detours.push(Detour { prefix: self.prefix(node), peer: PeerId(place), metric });
                }
            }
        }
        detours.sort_by_key(|detour| detour.metric);
        detours.truncate(DETOURS_MAX);
        detours
    }

    /// Whether any gateway knows several paths to a host.
    pub(crate) fn has_detours(&self) -> bool {
        (0..self.scenario.nodes.len()).any(|node| !self.neighbours(node).is_empty() && !self.detours(node).is_empty())
    }
}

/// The mean share of packets that arrive undamaged. The loss of a trace depends on the time.
fn delivery_ratio(config: &DirectionConfig) -> f64 {
    let arrives = |p: Ratio, per| match per {
        PerUnit::Packet => 1.0 - p.as_f64(),
        PerUnit::Bit => power(1.0 - p.as_f64(), PACKET.get() as f64 * 8.0),
    };
    let kept = match &config.loss {
        LossConfig::None | LossConfig::Trace(_) => 1.0,
        LossConfig::Random { p } => 1.0 - p.as_f64(),
        LossConfig::GilbertElliott { good, bad, in_good, in_bad, per } => {
            let of = |span: &Span| span.as_secs_f64() / (good.as_secs_f64() + bad.as_secs_f64());
            of(good) * arrives(*in_good, *per) + of(bad) * arrives(*in_bad, *per)
        }
    };
    kept * (1.0 - config.corrupt.as_f64())
}

#[cfg(test)]
#[path = "routing_tests.rs"]
mod tests;
