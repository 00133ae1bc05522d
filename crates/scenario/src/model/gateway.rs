//! What gateways do differently from their defaults.

use wavelane_base::{Octets, Ratio};

/// Knobs of one gateway under `wavelane`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayKnobs {
    /// The gateway's name.
    pub node: String,
    /// What it takes of a flow that it passes on before its next hop has it.
    pub backpressure: Backpressure,
    /// Whether few bytes go ahead of many.
    pub micro_blocks: bool,
    /// What it keeps of what it passed on; none turns virtual retransmission off.
    pub cache: Option<Octets>,
    /// A fault: how likely it loses a block that it has receipted.
    pub block_loss: Ratio,
    /// Whether flows across relays are sealed from edge to edge.
    pub seal: bool,
    /// A fault: how likely it changes a stretch of a flow that it passes on.
    pub corruption: Ratio,
}

/// How much of a flow a relay takes that its next hop has not receipted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backpressure {
    /// What both hops need to stay full.
    #[default]
    Adaptive,
    /// One block.
    One,
    /// Two blocks.
    Two,
    /// Whatever comes, as long as there is room.
    Off,
}

impl GatewayKnobs {
    /// The defaults, for `node`.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            backpressure: Backpressure::default(),
            micro_blocks: true,
            cache: None,
            block_loss: Ratio::ZERO,
            seal: false,
            corruption: Ratio::ZERO,
        }
    }
}
