//! How lanes are used, of `[[peer.lane]]` too, and `[links.NAME]` of scenarios.

use crate::gateway::SCENARIO;
use crate::knob::{Bounds, Group, Knob};
use crate::values::Setting;
use wavelane_base::Rate;

/// The rate at which the delay controller starts unless a lane is told to start slower.
pub const START_RATE: Rate = Rate::from_bps(4_000_000);
/// The lowest that it can be told: that of the slowest modems (ITU-T V.21).
pub const START_RATE_MIN: Rate = Rate::from_bps(300);
pub(crate) const START_RATES: Bounds = Bounds::rates(
    START_RATE_MIN,
    START_RATE,
    [
        "no line is slower, so write the line's rate, such as \"33.6 kbit/s\"",
        "a lane starts there and finds a higher rate itself, so remove it",
    ],
);

/// How a link with several lanes out uses them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// All together: by delay, rate, loss and cost.
    #[default]
    Bond,
    /// The first alone, even if it fails; bulk takes the first that may carry it.
    Pinned,
    /// The same among those that work.
    PinnedFallback,
    /// The first (in 1998 the radio) while enough of its packets are delivered, else the others (the modem).
    Delivery1998,
}

impl Setting for Choice {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("bond", Self::Bond),
        ("pinned", Self::Pinned),
        ("pinned+fallback", Self::PinnedFallback),
        ("delivery-1998", Self::Delivery1998),
    ];
}

/// One lane's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "what each does stands in its row of LANE")]
pub struct LaneKnobs {
    pub metered: bool,
    pub bulk: bool,
    pub small: bool,
    pub start_rate: Option<Rate>,
}

impl Default for LaneKnobs {
    fn default() -> Self {
        Self { metered: false, bulk: true, small: true, start_rate: None }
    }
}

/// The settings of a link between two gateways of a scenario, at both ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of LINK")]
pub struct LinkKnobs {
    /// Its name.
    pub name: String,
    pub lanes: Vec<String>,
    pub choice: Option<Choice>,
    pub metered: Vec<String>,
    pub no_bulk: Vec<String>,
    pub no_small: Vec<String>,
    pub start_rates: Vec<(String, Rate)>,
}

pub(crate) const HOW: &str = "[how they are used](lanes.md#choice-of-lane)";

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const LINK: Group<LinkKnobs> = Group(&[
    Knob { name: "lanes", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.lanes, default: "required",
        says: "channels between the same two gateways: the first lanes in this order; others follow as the file has them" },
    Knob { name: "choice", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.choice, default: "`bond`", says: HOW },
    Knob { name: "metered", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.metered, default: "none",
        says: "sending on them costs money: each is used only while no other works" },
    Knob { name: "no-bulk", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.no_bulk, default: "none",
        says: "they carry only small exchanges, acknowledgements and small packets; each gateway needs a way out for bulk" },
    Knob { name: "no-small", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.no_small, default: "none",
        says: "they carry none of these while another channel does" },
    Knob { name: "start-rates", stands: SCENARIO, bounds: START_RATES, field: |k| &mut k.start_rates, default: "4 Mbit/s",
        says: "the rate that gateways start at on a slow channel ([why](lanes.md#a-line-of-a-few-kilobits))" },
]);

impl LinkKnobs {
    /// The place of a channel among its lanes; unnamed ones come last.
    pub fn place(&self, channel: &str) -> usize {
        self.lanes.iter().position(|lane| lane == channel).unwrap_or(self.lanes.len())
    }
    /// What is told of a channel.
    pub fn lane(&self, channel: &str) -> LaneKnobs {
        let names = |list: &[String]| list.iter().any(|name| name == channel);
        LaneKnobs {
            metered: names(&self.metered),
            bulk: !names(&self.no_bulk),
            small: !names(&self.no_small),
            start_rate: self.start_rates.iter().find(|(name, _)| name == channel).map(|(_, rate)| *rate),
        }
    }
}
