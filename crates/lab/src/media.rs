//! What the lanes between the lab's gateways travel in: one table, from a medium's word in the gateway file to what that file says of a lane.
//!
//! To add a medium: a row here. Its port is opened, and examined when nothing comes from it, by the shipped daemon, whose table
//! (`crates/daemon/src/medium.rs`) has the same words.

use crate::topology::Wire;

/// UDP port of the gateways' lanes: `wavelane init`'s default.
const PORT: u16 = 4780;

/// A row of the table.
pub(crate) struct Kind {
    /// Its name in the gateway file.
    word: &'static str,
    /// Whether lanes over this wire travel in it; the first row that says so counts.
    carries: fn(&Wire) -> bool,
    /// Where the gateway at an end of a wire is called.
    pub(crate) address: fn(&Wire, usize) -> String,
    /// What the gateway at an end needs in a lane's table besides the other's address.
    keys: fn(&Wire, usize) -> String,
}

/// The medium of a lane whose table names none.
const DEFAULT: &str = "udp";

impl Kind {
    /// Whether a gateway file need not name it.
    pub(crate) fn is_default(&self) -> bool {
        self.word == DEFAULT
    }
    /// The lines about it in the table of a lane over `wire`, for the gateway at `end`.
    pub(crate) fn lines(&self, wire: &Wire, end: usize) -> String {
        let named = if self.is_default() { String::new() } else { format!("medium = \"{}\"\n", self.word) };
        format!("address = \"{}\"\n{named}{}", (self.address)(wire, 1 - end), (self.keys)(wire, end))
    }
}

static KINDS: &[Kind] = &[
    #[cfg(test)]
    tests::STATION,
    Kind {
        word: DEFAULT,
        carries: |_| true,
        address: |wire, end| format!("{}:{PORT}", wire.addresses[end]),
        keys: |_, _| String::new(),
    },
];

/// The medium of lanes over `wire`.
pub(crate) fn of(wire: &Wire) -> &'static Kind {
    KINDS.iter().find(|kind| (kind.carries)(wire)).expect("the last row carries everything")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Plan;
    use std::path::Path;
    use wavelane_scenario::Scenario;

    /// A medium that only tests have, to show that a row of the table is all that it takes.
    pub(super) const STATION: Kind = Kind {
        word: "ethernet",
        carries: |wire| wire.interface.starts_with("station"),
        address: |_, end| format!("02:00:00:00:00:0{end}"),
        keys: |wire, _| format!("device = \"{}\"\n", wire.interface),
    };

    #[test]
    fn a_row_of_the_table_is_a_medium() {
        let text = "duration = \"1 s\"\nstacks = [\"wavelane\"]\nnodes = { a = \"gateway\", b = \"gateway\" }\n\
             channels = { air = { preset = \"ethernet\", between = [\"a\", \"b\"] } }\n\
             flows = { page = { app = \"download\", from = \"a\", to = \"b\" } }\n";
        let scenario = Scenario::parse(text, Path::new(".")).expect("sound");
        let mut plan = Plan::of(&scenario).expect("small");
        let lanes = |plan: &Plan| crate::lanes::tables(&scenario, plan, vec![0], [0, 1]);
        assert_eq!((of(&plan.wires[0]).word, lanes(&plan).contains("medium")), ("udp", false));
        plan.wires[0].interface = "station0".into();
        assert_eq!(of(&plan.wires[0]).word, "ethernet");
        let keys =
            "address = \"02:00:00:00:00:01\"\nmedium = \"ethernet\"\ndevice = \"station0\"\ndirection = \"both\"\n";
        assert!(lanes(&plan).contains(keys), "{}", lanes(&plan));
    }
}
