//! The path of a flow through the topology.

use super::{Change, Channel, ChannelKind, Direction, Flow, NodeKind, Scenario};
use std::collections::BTreeMap;
use wavelane_base::{Instant, Rate, Span};
use wavelane_channel::DirectionConfig;

/// What five-slot packets carry one way, the other being idle (Bluetooth Core 1.1, Part B, table 4.9).
const BLUETOOTH_RATE: Rate = Rate::from_bps(723_200);

impl Scenario {
    /// The slowest rate on the path of a bulk flow's bytes, as the file starts; `None` without a finite one.
    pub fn bottleneck(&self, flow: &Flow) -> Option<Rate> {
        let (source, sink) = flow.ends();
        let rate = |(channel, way): &(&Channel, Direction)| match &channel.kind {
            ChannelKind::Cable(_) => channel.direction(*way)?.rate,
            ChannelKind::Wifi(cell) => Some(cell.rate),
            ChannelKind::Cellular(bearer) => {
                let way = if *way == Direction::Forward { bearer.forward } else { bearer.reverse };
                Some(way.rate)
            }
            ChannelKind::Serial(serial) => {
                let line = &serial.line;
                Some(if *way == Direction::Forward { line.forward.octet_rate() } else { line.reverse.octet_rate() })
            }
            ChannelKind::Bluetooth(_) => Some(BLUETOOTH_RATE),
        };
        self.path(source, sink)?.iter().filter_map(rate).min()
    }
    /// The mean rate, between two times of the run, of the slowest channel on the path of a bulk flow's bytes, after the timeline, outages
    /// and policers; `None` without a finite one. Parallel channels count together. A flow's share of the link is relative to this rate.
    pub fn link_bps(&self, flow: &Flow, from: Span, until: Span) -> Option<f64> {
        let (source, sink) = flow.ends();
        let rate = |(channel, way): &(&Channel, Direction)| match channel.cell() {
            Some(cell) => Some(cell.rate.as_bps() as f64),
            // Its rate is what its packets and errors make of it.
            None if channel.pair_word().is_some() => None,
            None => {
                let beside = self.beside(channel, *way);
                beside.map(|(channel, way)| mean_bps(&self.over_time(channel, way), from, until)).sum()
            }
        };
        self.path(source, sink)?.iter().filter_map(rate).min_by(f64::total_cmp)
    }
    /// Every cable that carries between the same two nodes as this direction of `channel`, itself included.
    fn beside(&self, channel: &Channel, way: Direction) -> impl Iterator<Item = (&Channel, Direction)> {
        let order = |way, channel: &Channel| match (way, channel.between.as_slice()) {
            (Direction::Forward, [a, b]) | (Direction::Reverse, [b, a]) => Some((a.clone(), b.clone())),
            _ => None,
        };
        let ends = order(way, channel);
        let both = self.channels.iter().filter(|c| matches!(c.kind, ChannelKind::Cable(_)));
        let both = both.flat_map(|c| [(c, Direction::Forward), (c, Direction::Reverse)]);
        let carries = |c: &Channel, way| way == Direction::Forward || !c.one_way;
        both.filter(move |(c, way)| carries(c, *way) && order(*way, c) == ends)
    }
    /// The configuration over time of one direction of a cable, by the timeline; empty for a radio cell.
    pub fn over_time(&self, channel: &Channel, way: Direction) -> Vec<(Span, DirectionConfig)> {
        let Some(first) = channel.direction(way) else { return Vec::new() };
        let mut changes: Vec<&Change> =
            self.timeline.iter().filter(|c| c.channel == channel.name && c.direction == way).collect();
        changes.sort_by_key(|change| change.at);
        let mut states = vec![(Span::ZERO, first.clone())];
        for change in changes {
            let mut next = states[states.len() - 1].1.clone();
            // An impossible change is rejected when the file is read.
            if next.set(change.parameter.clone()).is_ok() {
                states.push((change.at, next));
            }
        }
        states
    }
    /// The channels of a shortest path from `source` to `sink` with their directions, respecting `[routes]`. Endpoints do not forward. A
    /// radio hop is `forward` from the lower-numbered station to the higher.
    pub fn path(&self, source: &str, sink: &str) -> Option<Vec<(&Channel, Direction)>> {
        let way = self.way(source, sink)?;
        Some(way.into_iter().map(|(_, number, direction)| (&self.channels[number], direction)).collect())
    }
    /// The numbers of the nodes on that path, from `source` to `sink`.
    pub fn nodes_of_path(&self, source: &str, sink: &str) -> Option<Vec<usize>> {
        let end = self.nodes.iter().position(|node| node.name == sink)?;
        Some(self.way(source, sink)?.into_iter().map(|(node, _, _)| node).chain([end]).collect())
    }
    /// Per hop: the node it leaves, the channel and the direction.
    fn way(&self, source: &str, sink: &str) -> Option<Vec<(usize, usize, Direction)>> {
        let index: BTreeMap<&str, usize> = self.nodes.iter().enumerate().map(|(n, node)| (&*node.name, n)).collect();
        let place = |name: &str| index.get(name).copied();
        let (source, sink) = (place(source)?, place(sink)?);
        let places: Vec<Vec<Option<usize>>> =
            self.channels.iter().map(|c| c.between.iter().map(|name| place(name)).collect()).collect();
        // Per node: its predecessor on the path, and how it was reached.
        let mut before: Vec<Option<(usize, usize, Direction)>> = vec![None; self.nodes.len()];
        let mut reached = vec![source];
        let mut next = 0;
        while let Some(&here) = reached.get(next) {
            next += 1;
            if here == sink {
                break;
            }
            if here != source && self.nodes[here].kind == NodeKind::Endpoint {
                continue;
            }
            for (number, channel) in self.channels.iter().enumerate().filter(|(_, c)| !self.is_later(&c.name)) {
                let Some(at) = places[number].iter().position(|node| *node == Some(here)) else { continue };
                for (to, other) in places[number].iter().enumerate() {
                    let Some(other) = other.filter(|_| to != at && channel.joins(at, to)) else { continue };
                    if other != source && before[other].is_none() {
                        // A route names another channel to the same node.
                        let [from, onto] = [here, other].map(|node| self.nodes[node].name.as_str());
                        let number = self.routed(from, onto).unwrap_or(number);
                        let (at, to) = self.channels[number].places(from, onto).unwrap_or((at, to));
                        let way = if at < to { Direction::Forward } else { Direction::Reverse };
                        before[other] = Some((here, number, way));
                        reached.push(other);
                    }
                }
            }
        }
        let (mut way, mut here) = (Vec::new(), sink);
        while here != source {
            let (earlier, number, direction) = before[here]?;
            way.push((earlier, number, direction));
            here = earlier;
        }
        way.reverse();
        Some(way)
    }
}

/// The mean rate of one direction of a cable; `None` if it is infinite at any time.
fn mean_bps(states: &[(Span, DirectionConfig)], from: Span, until: Span) -> Option<f64> {
    let ends = states.iter().skip(1).map(|(at, _)| *at).chain([Span::MAX]);
    let seconds = |from: Span, until: Span| until.as_secs_f64() - from.as_secs_f64();
    let mut bits = 0.0;
    for ((at, config), end) in states.iter().zip(ends) {
        let (start, end) = ((*at).max(from), end.min(until));
        if start >= end {
            continue;
        }
        let policed = config.policer.map(|policer| policer.rate);
        let at = |span| Instant::ZERO + span;
        let recorded = config.rate_trace.as_ref().map(|trace| trace.mean_between(at(start), at(end)));
        let rate = recorded.or(config.rate).into_iter().chain(policed).min()?;
        let down = config.outages.iter().map(|(off, on)| {
            let (off, on) = (off.since(Instant::ZERO).max(start), on.since(Instant::ZERO).min(end));
            seconds(off.min(on), on)
        });
        bits += rate.as_bps() as f64 * (seconds(start, end) - down.sum::<f64>());
    }
    (until > from).then(|| bits / seconds(from, until))
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
