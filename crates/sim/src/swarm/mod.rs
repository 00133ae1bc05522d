//! Meshes in which the seed draws everything: shape, cables, limits, traffic and faults. While faults last nothing may be
//! damaged, doubled or held beyond its bound; once they are over every flow ends, whole or with a clear failure.
//!
//! A seed's [`Plan`] is data, so a failing one can be made smaller until what is left is what matters.

mod draw;
mod judge;
mod show;
mod shrink;

pub use judge::Outcome;

use crate::faults::Lie;
use crate::mesh::MeshSpec;
use crate::traffic::Work;
use std::collections::VecDeque;
use wavelane_base::{Instant, Span};
use wavelane_gateway::HOPS_MAX;

/// How long after the last fault and the last reader's pause every flow must have ended.
pub const HEALING: Span = Span::from_secs(60);

/// One world.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Draws what happens inside: lost packets, keys, clocks.
    pub seed: u64,
    /// The gateways and the cables between them, with their outages.
    pub mesh: MeshSpec,
    /// The pairs of endpoints.
    pub flows: Vec<PlannedFlow>,
    /// Gateways that lose their state, in the order of time.
    pub crashes: Vec<Crash>,
    /// A gateway that lies about what it passes on, for good, and how. No flow begins or ends there.
    pub liar: Option<(usize, Lie)>,
    /// When all cables become good ones.
    pub healed: Instant,
}

/// One exchange of a plan.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlannedFlow {
    /// The client's gateway.
    pub from: usize,
    /// The server's.
    pub to: usize,
    /// What is exchanged.
    pub work: Work,
    /// When the client connects.
    pub start: Instant,
    /// Between these times the reader does not read.
    pub pause: Option<(Instant, Instant)>,
}

/// A gateway's process dies and starts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crash {
    /// When.
    pub at: Instant,
    /// Which gateway.
    pub node: usize,
}

/// What was found in a seed's world, and the smallest world that shows it if it is wrong.
#[derive(Debug)]
pub struct Failure {
    /// What is wrong.
    pub why: String,
    /// The plan made smaller, which is wrong too.
    pub smallest: Plan,
    /// What is wrong there.
    pub smallest_why: String,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        draw::plan(seed)
    }

    /// One in which every flow is sealed and a relay lies, on the path of a flow at least.
    pub fn draw_lying(seed: u64) -> Self {
        draw::lying(seed)
    }

    /// The relays of the shortest path between two gateways that does not lead over the liar, if `honest`.
    fn relays(&self, from: usize, to: usize, honest: bool) -> Option<Vec<usize>> {
        let avoided = self.liar.map(|(node, _)| node).filter(|_| honest);
        let mut before = vec![None; self.mesh.nodes];
        let mut next = VecDeque::from([from]);
        before[from] = Some(from);
        while let Some(node) = next.pop_front() {
            for [a, b] in self.mesh.links.iter().map(|link| link.between) {
                let other = if a == node { b } else { a };
                if (a == node || b == node) && Some(other) != avoided && before[other].is_none() {
                    before[other] = Some(node);
                    next.push_back(other);
                }
            }
        }
        let mut relays = Vec::new();
        let mut node = before[to]?;
        while node != from {
            relays.push(node);
            node = before[node]?;
        }
        (relays.len() <= usize::from(HOPS_MAX)).then_some(relays)
    }

    /// Runs and judges it.
    pub fn run(&self) -> Result<Outcome, String> {
        judge::judge(self)
    }

    /// The same; a plan that fails is made smaller.
    pub fn prove(&self) -> Result<Outcome, Box<Failure>> {
        self.run().map_err(|why| {
            let (smallest, smallest_why) = shrink::shrink(self, &why, Self::run);
            Box::new(Failure { why, smallest, smallest_why })
        })
    }

    /// The last moment at which any reader pauses.
    fn last_pause(&self) -> Option<Instant> {
        self.flows.iter().filter_map(|flow| flow.pause).map(|(_, end)| end).max()
    }

    /// Whether anything was cut or forgotten shortly before or during `[from, to]`.
    fn is_disturbed(&self, from: Instant, to: Instant) -> bool {
        let windows =
            self.mesh.links.iter().flat_map(|l| l.config.forward.outages.iter().chain(&l.config.reverse.outages));
        let windows = windows.copied().chain(self.crashes.iter().map(|crash| (crash.at, crash.at)));
        windows.into_iter().any(|(begin, end)| begin <= to && end + AFTERMATH >= from)
    }
}

/// For this long after a fault a new flow may be told that there is no path: paths that led nowhere are avoided for 30 s.
const AFTERMATH: Span = Span::from_secs(35);
