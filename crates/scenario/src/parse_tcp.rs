//! The endpoints' TCP: `[tcp]`.

use crate::{ScenarioError, Value};
use wavelane_settings::{File, TCP, TcpKnobs};

/// Reads `[tcp]`.
pub(crate) fn knobs(value: &Value<'_>) -> Result<TcpKnobs, ScenarioError> {
    let table = value.table("{ profile = \"ns3-3.44\" }")?;
    table.only(&TCP.keys(File::Scenario))?;
    TCP.read(File::Scenario, &table)
}

/// Writes `[tcp]`; nothing if all knobs have their defaults.
pub(crate) fn write(knobs: &TcpKnobs) -> String {
    match *knobs == TcpKnobs::default() {
        true => String::new(),
        false => format!("\n[tcp]\n{}", TCP.write(File::Scenario, knobs)),
    }
}
