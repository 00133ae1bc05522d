//! The way of a flow through the topology.

use super::{App, Channel, ChannelKind, Direction, Flow, NodeKind, Scenario};
use wavelane_base::Rate;

impl Scenario {
    /// The slowest rate that the bytes of a bulk flow meet, as the file starts; `None` without a finite one.
    pub fn bottleneck(&self, flow: &Flow) -> Option<Rate> {
        let (source, sink) = match flow.app {
            App::Download { .. } | App::Fetch { .. } | App::Quic { .. } => (flow.to.as_str(), flow.from.as_str()),
            _ => (flow.from.as_str(), flow.to.as_str()),
        };
        let rate = |(channel, way): &(&Channel, Direction)| match &channel.kind {
            ChannelKind::Cable(_) => channel.direction(*way)?.rate,
            ChannelKind::Wifi(cell) => Some(cell.rate),
        };
        self.path(source, sink)?.iter().filter_map(rate).min()
    }
    /// The channels of a shortest way from `source` to `sink` with their directions. Endpoints pass nothing on. A
    /// radio hop is `forward` from the lower-numbered station to the higher.
    pub fn path(&self, source: &str, sink: &str) -> Option<Vec<(&Channel, Direction)>> {
        let place = |name: &str| self.nodes.iter().position(|node| node.name == name);
        let (source, sink) = (place(source)?, place(sink)?);
        let places: Vec<Vec<Option<usize>>> =
            self.channels.iter().map(|c| c.between.iter().map(|name| place(name)).collect()).collect();
        // By node: the node before it on the way, and by what it was reached.
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
            for (number, channel) in self.channels.iter().enumerate() {
                let Some(at) = places[number].iter().position(|node| *node == Some(here)) else { continue };
                for (to, other) in places[number].iter().enumerate() {
                    let Some(other) = other.filter(|_| to != at && channel.joins(at, to)) else { continue };
                    if other != source && before[other].is_none() {
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
            way.push((&self.channels[number], direction));
            here = earlier;
        }
        way.reverse();
        Some(way)
    }
}
