//! `[mobility.NAME]` of scenarios: a node that changes its channel during the run.

use crate::gateway::SCENARIO;
use crate::knob::{Bounds, Group, Knob};
use crate::values::Setting;
use wavelane_base::Span;

/// What becomes of a node's address when it moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MovedAddress {
    /// Mobile IP: it keeps its address, to which a home agent sends on what comes.
    #[default]
    Kept,
    /// It has the new network's alone.
    New,
}

impl Setting for MovedAddress {
    const WORDS: &'static [(&'static str, Self)] = &[("kept", Self::Kept), ("new", Self::New)];
}

/// The settings of one move.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "what each does stands in its row of MOBILITY")]
pub struct MobilityKnobs {
    pub node: Option<String>,
    pub to: Option<String>,
    pub at: Option<Span>,
    pub gap: Option<Span>,
    pub address: Option<MovedAddress>,
}

/// A day, the longest run.
const TIMES: Bounds = Bounds::times(Span::from_millis(1), Span::from_secs(24 * 3600));
const GAPS: Bounds = Bounds::times(Span::ZERO, Span::from_secs(24 * 3600));

/// Their declarations, in the order in which the guide has them.
#[rustfmt::skip] // A table is read by its rows.
pub const MOBILITY: Group<MobilityKnobs> = Group(&[
    Knob { name: "node", stands: SCENARIO, bounds: Bounds::texts("node"), field: |k| &mut k.node, default: "required, such as `\"mobile\"`",
        says: "who moves: an endpoint or a gateway" },
    Knob { name: "to", stands: SCENARIO, bounds: Bounds::texts("channel"), field: |k| &mut k.to, default: "required, such as `\"away\"`",
        says: "the cable that it moves to, which nothing crosses before; it leaves its other one" },
    Knob { name: "at", stands: SCENARIO, bounds: TIMES, field: |k| &mut k.at, default: "required, such as `\"20 s\"`",
        says: "when its channel is lost" },
    Knob { name: "gap", stands: SCENARIO, bounds: GAPS, field: |k| &mut k.gap, default: "0 s", says: "how long it has none" },
    Knob { name: "address", stands: SCENARIO, bounds: Bounds::NONE, field: |k| &mut k.address, default: "`kept`",
        says: "`kept`: Mobile IP (RFC 5944), whose home agent is the router at the channel that an endpoint left. `new`: the new network's; connections of an endpoint end, sessions of a gateway go on" },
]);
