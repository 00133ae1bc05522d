//! What hops cost, by which the best path is found.

use super::{Channel, Direction, Routing};
use wavelane_base::maths::power;
use wavelane_base::{Octets, Ratio, Span};
use wavelane_channel::wifi::PairLoss;
use wavelane_channel::{DirectionConfig, LossConfig, PerUnit};

/// Cost of a hop over which nothing is lost.
const HOP: u32 = 1_000;
/// Cost of a hop over which nothing arrives: worse than any path without it.
const HOP_MAX: u32 = 1_000_000;
/// The packet whose chance to arrive counts.
const PACKET: Octets = Octets::new(1_500);

impl Routing {
    /// The cost of a hop over which this share of packets arrives, there and back.
    pub fn cost(self, arrives: f64) -> u32 {
        match self {
            Self::Shortest => HOP,
            Self::Etx => (f64::from(HOP) / arrives.max(1e-9)).clamp(f64::from(HOP), f64::from(HOP_MAX)) as u32,
        }
    }
}

impl Channel {
    /// The mean share of packets that arrive undamaged from the node at place `a` of `between` at the one at `b`, and back.
    pub fn arrives(&self, a: usize, b: usize) -> f64 {
        if let Some(cell) = self.cell() {
            let arrives = |loss: PairLoss| (1.0 - loss.air.as_f64()) * (1.0 - loss.drop.as_f64());
            return arrives(cell.reach.loss(a, b)) * arrives(cell.reach.loss(b, a));
        }
        let both = [Direction::Forward, Direction::Reverse];
        both.into_iter().filter_map(|way| self.direction(way)).map(delivery_ratio).product()
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
