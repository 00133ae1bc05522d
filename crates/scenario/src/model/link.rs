//! How gateways use the channels between them.

use wavelane_base::Rate;

/// Start rate of gateways unless a lower one is configured: the transport's `Controller::START_RATE`.
pub const START_RATE: Rate = Rate::from_bps(4_000_000);
/// The lowest configured one: the transport's `Controller::START_RATE_MIN`.
pub const START_RATE_MIN: Rate = Rate::from_bps(300);

/// Settings of a link under `wavelane` that differ from their defaults, at both ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkKnobs {
    /// Its name.
    pub name: String,
    /// Its first lanes, by their channels' names; others follow in file order.
    pub lanes: Vec<String>,
    /// How they are used.
    pub choice: LaneChoice,
    /// Channels with a cost per byte.
    pub metered: Vec<String>,
    /// Channels that carry no bulk traffic.
    pub no_bulk: Vec<String>,
    /// Channels that carry no small traffic while others do.
    pub no_small: Vec<String>,
    /// The start rate of gateways on these channels, if less than their default.
    pub start_rates: Vec<(String, Rate)>,
}

/// How a link uses its lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LaneChoice {
    /// All together.
    #[default]
    Bond,
    /// Only the first.
    Pinned,
    /// The first that works.
    PinnedFallback,
    /// The first while enough of its packets are delivered, else the others.
    Delivery1998,
}

impl LinkKnobs {
    /// The configured start rate of gateways on a channel.
    pub fn start_rate(&self, channel: &str) -> Option<Rate> {
        self.start_rates.iter().find(|(name, _)| name == channel).map(|(_, rate)| *rate)
    }

    /// The place of a channel among its lanes; unnamed ones come last.
    pub fn place(&self, channel: &str) -> usize {
        self.lanes.iter().position(|lane| lane == channel).unwrap_or(self.lanes.len())
    }
}
