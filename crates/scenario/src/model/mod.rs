//! A scenario as plain data. Nothing here depends on the file's syntax or the machine.

mod check;
mod cost;
mod gateway;
mod mobility;
mod path;
mod stack;
mod topology;
mod traffic;

pub use check::{Bound, Check, Metric, Side};
pub use gateway::{GatewaySettings, ProxySide};
pub use mobility::Move;
pub use stack::{Family, Stack, StackOption, TcpKind};
pub use topology::{
    Channel, ChannelKind, ChannelRoute, Direction, Node, NodeKind, Routing, SerialChannel, SerialFraming,
};
pub use traffic::{App, Codec, Flow, Spurts, Voice, Web};

use wavelane_base::{Seed, Span};
use wavelane_channel::Parameter;
use wavelane_settings::{LinkKnobs, TcpKnobs};

/// Maximum number of nodes in a scenario: the largest radio cell and its surroundings.
pub const NODES_MAX: usize = 320;
/// Maximum number of flows in a scenario.
pub const FLOWS_MAX: usize = 256;
/// Longest run.
pub const DURATION_MAX: Span = Span::from_secs(24 * 3600);

/// Topology, channels, stacks, traffic, timeline, checks: everything a backend needs, resolved.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// One line for display.
    pub title: String,
    /// The run's number; the command line may replace it.
    pub seed: Seed,
    /// Maximum run time of each stack.
    pub duration: Span,
    /// What to run, in order; each is a full run of the same seed.
    pub stacks: Vec<Stack>,
    /// The nodes, in file order.
    pub nodes: Vec<Node>,
    /// The channels between them, in file order.
    pub channels: Vec<Channel>,
    /// The traffic, in file order.
    pub flows: Vec<Flow>,
    /// Changes of channel parameters, by time.
    pub timeline: Vec<Change>,
    /// Conditions on the results, in file order.
    pub checks: Vec<Check>,
    /// Criterion for the best path between gateways.
    pub routing: Routing,
    /// TCP settings of the endpoints that differ from the stack's defaults.
    pub tcp: TcpKnobs,
    /// Settings of single gateways that differ from their defaults, in file order.
    pub gateways: Vec<GatewaySettings>,
    /// Settings of links between gateways that differ from their defaults, in file order.
    pub links: Vec<LinkKnobs>,
    /// The channel by which plain routers reach a neighbour, where that is not the first that carries the direction; in file order.
    pub routes: Vec<ChannelRoute>,
    /// Nodes that change their channel during the run, in file order.
    pub moves: Vec<Move>,
}

/// A change of one channel parameter during the run.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// Time since the run's start.
    pub at: Span,
    /// The channel's name.
    pub channel: String,
    /// Its direction.
    pub direction: Direction,
    /// The parameter and its new value.
    pub parameter: Parameter,
}

impl Scenario {
    /// Whether a station can send an RTS: WaveLAN has none.
    pub fn has_rts(&self) -> bool {
        self.channels.iter().any(|channel| channel.cell().is_some_and(|cell| cell.rules.acknowledges))
    }
    /// The same scenario in which an RTS precedes every data frame.
    pub fn with_rts(mut self) -> Self {
        for channel in &mut self.channels {
            if let ChannelKind::Wifi(cell) = &mut channel.kind
                && cell.rules.acknowledges
            {
                cell.rts_threshold = 0;
            }
        }
        self
    }
    /// The node with that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == name)
    }
    /// The flow with that name.
    pub fn flow(&self, name: &str) -> Option<&Flow> {
        self.flows.iter().find(|f| f.name == name)
    }
    /// The channel with that name.
    pub fn channel(&self, name: &str) -> Option<&Channel> {
        self.channels.iter().find(|c| c.name == name)
    }
    /// The place of the channel that `[routes]` selects for packets from `from` to its neighbour `to`, if any.
    pub fn routed(&self, from: &str, to: &str) -> Option<usize> {
        let route = self.routes.iter().find(|route| route.from == from && route.to == to)?;
        self.channels.iter().position(|channel| channel.name == route.channel)
    }
    /// The channels whose two ends are both gateways: the bad ones, whose offered bytes the figures count.
    pub fn channels_between_gateways(&self) -> impl Iterator<Item = &Channel> {
        let gateway = |name: &String| self.node(name).is_some_and(|n| n.kind == NodeKind::Gateway);
        self.channels.iter().filter(move |c| c.between.iter().all(gateway))
    }
    /// The latest time at which `flow` is stopped.
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
