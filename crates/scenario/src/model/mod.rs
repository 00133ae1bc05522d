//! A scenario as plain data. Nothing here knows the file's syntax or consults the machine.

mod check;
mod gateway;
mod link;
mod path;
mod stack;
mod topology;
mod traffic;

pub use check::{Bound, Check, Metric, Side};
pub use gateway::{Backpressure, GatewayKnobs};
pub use link::{LaneChoice, LinkKnobs, START_RATE};
pub use stack::{Stack, TcpKind, TcpKnobs, TcpProfile};
pub use topology::{Channel, ChannelKind, ChannelRoute, Direction, Node, NodeKind, Routing};
pub use traffic::{App, Codec, Flow, Spurts, Voice, Web};

use wavelane_base::{Seed, Span};
use wavelane_channel::Parameter;

/// Most nodes a scenario may have: the largest radio cell and what surrounds it.
pub const NODES_MAX: usize = 320;
/// Most flows a scenario may have.
pub const FLOWS_MAX: usize = 256;
/// Longest run.
pub const DURATION_MAX: Span = Span::from_secs(24 * 3600);

/// Topology, channels, stacks, traffic, timeline, checks: everything a backend needs, resolved.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// One line for people.
    pub title: String,
    /// The run's number; the command line may replace it.
    pub seed: Seed,
    /// How long each stack runs at most.
    pub duration: Span,
    /// What to run, in order; each is a full run of the same seed.
    pub stacks: Vec<Stack>,
    /// The places, in file order.
    pub nodes: Vec<Node>,
    /// What joins them, in file order.
    pub channels: Vec<Channel>,
    /// The traffic, in file order.
    pub flows: Vec<Flow>,
    /// Changes of channel parameters, by time.
    pub timeline: Vec<Change>,
    /// What must hold, in file order.
    pub checks: Vec<Check>,
    /// What makes a way between gateways the best.
    pub routing: Routing,
    /// What the endpoints' TCP does differently from its stack's defaults.
    pub tcp: TcpKnobs,
    /// What single gateways do differently from their defaults, in file order.
    pub gateways: Vec<GatewayKnobs>,
    /// What links between gateways do differently from their defaults, in file order.
    pub links: Vec<LinkKnobs>,
    /// By which channel plain routers reach a neighbour, where that is not the first that carries the direction; in file order.
    pub routes: Vec<ChannelRoute>,
}

/// A change of one channel parameter while the run goes on.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// When, since the run's start.
    pub at: Span,
    /// The channel's name.
    pub channel: String,
    /// Which way.
    pub direction: Direction,
    /// The parameter and its new value.
    pub parameter: Parameter,
}

impl Scenario {
    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == name)
    }
    /// The flow of that name.
    pub fn flow(&self, name: &str) -> Option<&Flow> {
        self.flows.iter().find(|f| f.name == name)
    }
    /// The channel of that name.
    pub fn channel(&self, name: &str) -> Option<&Channel> {
        self.channels.iter().find(|c| c.name == name)
    }
    /// The place of the channel by which `[routes]` has packets leave `from` for its neighbour `to`, if it says so.
    pub fn routed(&self, from: &str, to: &str) -> Option<usize> {
        let route = self.routes.iter().find(|route| route.from == from && route.to == to)?;
        self.channels.iter().position(|channel| channel.name == route.channel)
    }
    /// The channels whose two ends are both gateways: the bad ones, whose offered bytes the figures count.
    pub fn channels_between_gateways(&self) -> impl Iterator<Item = &Channel> {
        let gateway = |name: &String| self.node(name).is_some_and(|n| n.kind == NodeKind::Gateway);
        self.channels.iter().filter(move |c| c.between.iter().all(gateway))
    }
    /// When `flow` is stopped at the latest.
    pub fn stop_of(&self, flow: &Flow) -> Span {
        flow.stop.unwrap_or(self.duration).min(self.duration)
    }
    /// The bulk flow during which the probes of echo `flow` count: the one it names, else the first bulk flow.
    pub fn bulk_of(&self, flow: &Flow) -> Option<&Flow> {
        match &flow.app {
            App::Echo { during: Some(name), .. } => self.flow(name),
            App::Fetch { .. } | App::Web(_) | App::Voice(_) => None,
            _ => self.flows.iter().find(|f| f.app.is_bulk()),
        }
    }
}
