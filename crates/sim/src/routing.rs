//! Paths between gateways: the best next neighbour towards each other gateway, and the further ones.

use crate::wiring::Shape;
use std::collections::{BTreeSet, VecDeque};
use wavelane_gateway::{DETOURS_MAX, Detour, PeerId};
use wavelane_scenario::Routing;

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
            return Routing::Shortest.cost(1.0);
        }
        let arrives = match self.joins.iter().find(|join| join.other(from) == Some(to)) {
            Some(join) => {
                let [a, b] = join.places();
                self.scenario.channels[join.channel].arrives(a, b)
            }
            None => {
                let path = self.scenario.path(self.name(from), self.name(to)).unwrap_or_default();
                path.into_iter().map(|(channel, _)| channel.arrives(0, 1)).product()
            }
        };
        self.scenario.routing.cost(arrives)
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

#[cfg(test)]
#[path = "routing_tests.rs"]
mod tests;
