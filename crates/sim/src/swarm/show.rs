//! A plan as text of a few lines.

use super::Plan;
use core::fmt;
use wavelane_base::{Instant, Ratio};
use wavelane_channel::{DirectionConfig, LossConfig};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mesh = &self.mesh;
        write!(
            f,
            "dice {}, {} gateways, pool {}, {} flows at most, routing {}, healed at {}",
            self.seed,
            mesh.nodes,
            mesh.pool.get(),
            mesh.flows_max,
            mesh.routing.word(),
            ms(self.healed)
        )?;
        for link in &mesh.links {
            let [a, b] = link.between;
            write!(f, "\n  {a}-{b}: {} | {}", Shown(&link.config.forward), Shown(&link.config.reverse))?;
        }
        for flow in &self.flows {
            write!(f, "\n  {} -> {} at {}: {:?}", flow.from, flow.to, ms(flow.start), flow.work)?;
            if let Some((begin, end)) = flow.pause {
                write!(f, ", reads nothing {} to {}", ms(begin), ms(end))?;
            }
        }
        if let Some((node, lie)) = &self.liar {
            write!(f, "\n  {node} {lie}")?;
        }
        for crash in &self.crashes {
            write!(f, "\n  {} forgets at {}", crash.node, ms(crash.at))?;
        }
        Ok(())
    }
}

fn ms(at: Instant) -> String {
    format!("{}.{:03} s", at.as_micros() / 1_000_000, at.as_micros() / 1_000 % 1_000)
}

/// One direction, without what it does not do.
struct Shown<'a>(&'a DirectionConfig);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.0;
        write!(f, "{} Mbit/s {}", config.rate.map_or(0.0, |rate| rate.as_bps() as f64 / 1e6), config.delay)?;
        if config.loss != LossConfig::None {
            write!(f, " {:?}", config.loss)?;
        }
        for (what, p) in [("doubles", config.duplicate), ("damages", config.corrupt), ("reorders", config.reorder.p)] {
            if p != Ratio::ZERO {
                write!(f, " {what} {}/{}", p.num(), p.den())?;
            }
        }
        config.outages.iter().try_for_each(|(begin, end)| write!(f, " cut {} to {}", ms(*begin), ms(*end)))
    }
}
