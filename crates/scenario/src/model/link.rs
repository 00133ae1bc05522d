//! How gateways use the channels between two of them.

use wavelane_base::Rate;

/// Where gateways start unless they are told a lower rate: the transport's `Controller::START_RATE`.
pub const START_RATE: Rate = Rate::from_bps(4_000_000);

/// What a link under `wavelane` does differently from its defaults, at both ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkKnobs {
    /// Its name.
    pub name: String,
    /// Its first lanes, by their channels' names; others follow in file order.
    pub lanes: Vec<String>,
    /// How they are used.
    pub choice: LaneChoice,
    /// Channels whose bytes cost.
    pub metered: Vec<String>,
    /// Channels that carry no bulk.
    pub no_bulk: Vec<String>,
    /// Channels that carry nothing small while others do.
    pub no_small: Vec<String>,
    /// The rate that gateways start at on these channels, if less than their own.
    pub start_rates: Vec<(String, Rate)>,
}

/// How a link uses its lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LaneChoice {
    /// All together.
    #[default]
    Bond,
    /// The first alone.
    Pinned,
    /// The first that works.
    PinnedFallback,
    /// The first while enough of its packets are delivered, else the others.
    Delivery1998,
}

impl LinkKnobs {
    /// The rate that gateways are told to start at on a channel.
    pub fn start_rate(&self, channel: &str) -> Option<Rate> {
        self.start_rates.iter().find(|(name, _)| name == channel).map(|(_, rate)| *rate)
    }

    /// The place of a channel among its lanes; those that are not named come last.
    pub fn place(&self, channel: &str) -> usize {
        self.lanes.iter().position(|lane| lane == channel).unwrap_or(self.lanes.len())
    }
}
