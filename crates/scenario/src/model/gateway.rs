//! Gateway settings that differ from their defaults.

use crate::model::{TcpKind, TcpKnobs};
use wavelane_base::{Octets, Ratio};

/// Knobs of one gateway; `None` means the stack's default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayKnobs {
    /// The gateway's name.
    pub node: String,
    /// How much of a relayed flow it accepts before its next hop has received it.
    pub backpressure: Option<Backpressure>,
    /// Whether small data is sent before large data.
    pub micro_blocks: bool,
    /// The size of its blocks; `None` means the stack's default.
    pub block: Option<Octets>,
    /// Whether the lost parts of a block are retransmitted once all of it was sent.
    pub rounds: Option<bool>,
    /// Maximum number of large blocks received at once; zero means no limit.
    pub withhold: Option<u8>,
    /// What its lanes in radio cells do.
    pub radio: Option<RadioLanes>,
    /// Whether its radios hand up frames for others, and the bytes of sealed flows leave openly, so that neighbours overhear them; needs
    /// lanes that specify how each frame is sent.
    pub overhear: bool,
    /// How much relayed data it keeps; zero turns virtual retransmission off.
    pub cache: Option<Octets>,
    /// A fault: probability of losing a block that it has acknowledged.
    pub block_loss: Ratio,
    /// Whether flows across relays are encrypted from edge to edge.
    pub seal: bool,
    /// A fault: probability of corrupting a stretch of a relayed flow.
    pub corruption: Ratio,
    /// Whether packets that are not split are sent again as the acknowledgement layer of 1998 did.
    pub tries_of_1998: bool,
    /// As a proxy under `tcp-*+split`: bytes that wait in each direction of a connection.
    pub buffer: Option<Octets>,
    /// As a proxy: what connections on one side of it do differently.
    pub sides: Vec<ProxySide>,
}

/// The halves of a proxy's connections towards some nodes, whoever opened them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxySide {
    /// The nodes at their remote end.
    pub nodes: Vec<String>,
    /// Congestion control; `None` means the stack's.
    pub congestion: Option<TcpKind>,
    /// The proxy's TCP there; `None` means that of the endpoints.
    pub tcp: Option<TcpKnobs>,
}

/// What lanes in radio cells do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RadioLanes {
    /// The same as on cables: a controller sets the pace, and the cell acknowledges every frame.
    Plain,
    /// Medium access sets the pace. Bulk goes in bursts of which the first frame is acknowledged, or in acknowledged aggregates.
    Paced,
    /// The same without any acknowledgement of bulk by the cell.
    Raw,
}

/// How much of a flow a relay accepts that its next hop has not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backpressure {
    /// As much as both hops need to stay full.
    #[default]
    Adaptive,
    /// One block.
    One,
    /// Two blocks.
    Two,
    /// Everything, as long as there is room.
    Off,
}

impl GatewayKnobs {
    /// The defaults, for `node`.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            backpressure: None,
            micro_blocks: true,
            block: None,
            rounds: None,
            withhold: None,
            radio: None,
            overhear: false,
            cache: None,
            block_loss: Ratio::ZERO,
            seal: false,
            corruption: Ratio::ZERO,
            tries_of_1998: false,
            buffer: None,
            sides: Vec::new(),
        }
    }
}
