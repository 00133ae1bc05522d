//! What gateways do differently from their defaults.

use wavelane_base::{Octets, Ratio};

/// Knobs of one gateway under `wavelane` and `hop-2009`; what is `None` is the stack's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayKnobs {
    /// The gateway's name.
    pub node: String,
    /// What it takes of a flow that it passes on before its next hop has it.
    pub backpressure: Option<Backpressure>,
    /// Whether few bytes go ahead of many.
    pub micro_blocks: bool,
    /// The size of its blocks; `None` leaves it to the stack.
    pub block: Option<Octets>,
    /// Whether what is lost of a block is repeated once all of it was sent.
    pub rounds: Option<bool>,
    /// How many large blocks it receives at once, zero without limit.
    pub withhold: Option<u8>,
    /// Whether its lanes in radio cells say of each frame how to send it.
    pub radio: Option<bool>,
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
            backpressure: None,
            micro_blocks: true,
            block: None,
            rounds: None,
            withhold: None,
            radio: None,
            cache: None,
            block_loss: Ratio::ZERO,
            seal: false,
            corruption: Ratio::ZERO,
        }
    }
}
