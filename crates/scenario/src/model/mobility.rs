//! Nodes that move.

use super::{Channel, ChannelKind, Scenario};
use wavelane_base::{Instant, Span};
use wavelane_settings::MovedAddress;

/// A node that leaves one channel and comes back by another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// Its table's name.
    pub name: String,
    /// Who moves.
    pub node: String,
    /// The channel that it leaves, and the one that it moves to.
    pub channels: [String; 2],
    /// The nodes at the far ends of these.
    pub networks: [String; 2],
    /// When its channel is lost.
    pub at: Span,
    /// How long it has none.
    pub gap: Span,
    /// What becomes of its address.
    pub address: MovedAddress,
}

impl Move {
    /// When it has a channel again.
    pub fn back(&self) -> Span {
        self.at + self.gap
    }
}

impl Scenario {
    /// Whether nothing crosses a channel before a node moves to it: paths are those from the start.
    pub fn is_later(&self, channel: &str) -> bool {
        self.moves.iter().any(|of| of.channels[1] == channel)
    }
    /// The move that leaves a channel or takes it.
    pub fn move_over(&self, channel: &str) -> Option<&Move> {
        self.moves.iter().find(|of| of.channels.iter().any(|name| name == channel))
    }
    /// The same scenario in which channels of mobiles lose everything while they are not there.
    pub fn with_moves(mut self) -> Self {
        // Nothing of a run happens later.
        let end = Instant::ZERO + self.duration.times(2) + Span::from_secs(3600);
        for of in std::mem::take(&mut self.moves) {
            let gone = [(Instant::ZERO + of.at, end), (Instant::ZERO, Instant::ZERO + of.back())];
            for (name, gone) in of.channels.iter().zip(gone) {
                if let Some(Channel { kind: ChannelKind::Cable(cable), .. }) =
                    self.channels.iter_mut().find(|channel| channel.name == *name)
                {
                    for way in [&mut cable.forward, &mut cable.reverse] {
                        way.outages = joined(&way.outages, gone);
                    }
                }
            }
            self.moves.push(of);
        }
        self
    }
}

/// Sorted and disjoint spans with one more, which takes in what overlaps it.
fn joined(spans: &[(Instant, Instant)], mut more: (Instant, Instant)) -> Vec<(Instant, Instant)> {
    if more.0 >= more.1 {
        return spans.to_vec();
    }
    let mut all = Vec::new();
    for span in spans {
        match span.1 < more.0 || span.0 > more.1 {
            true => all.push(*span),
            false => more = (more.0.min(span.0), more.1.max(span.1)),
        }
    }
    all.push(more);
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_takes_in_what_it_overlaps() {
        let at = |s: u64| Instant::from_secs(s);
        let spans = [(at(1), at(2)), (at(4), at(6)), (at(9), at(10))];
        assert_eq!(joined(&spans, (at(5), at(8))), [(at(1), at(2)), (at(4), at(8)), (at(9), at(10))]);
        assert_eq!(joined(&spans, (at(0), at(20))), [(at(0), at(20))]);
        assert_eq!(joined(&spans, (at(2), at(4))), [(at(1), at(6)), (at(9), at(10))]);
        assert_eq!(joined(&[], (at(0), at(0))), []);
    }
}
