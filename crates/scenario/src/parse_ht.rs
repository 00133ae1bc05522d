//! What cells of 802.11n have beside others: rates by MCS, and aggregates.

use crate::error::ScenarioError;
use crate::parse_wifi::rate;
use crate::table::{Table, Value};
use wavelane_base::{Octets, Rate};
use wavelane_channel::wifi::{Aggregate, MCS_MAX, Phy};

/// The word for rates that senders choose by themselves.
pub(crate) const ADAPTIVE: &str = "adaptive";

/// The rate of data frames, where it is written (`rate`, or of 802.11n `mcs`), and whether senders choose it themselves.
pub(crate) fn data_rate<'a>(table: &Table<'a>, phy: Phy) -> Result<(Value<'a>, Rate, bool), ScenarioError> {
    let (wanted, example, other) = match phy {
        Phy::Ht { .. } => ("mcs", "7", "rate"),
        _ => ("rate", "\"54 Mbit/s\"", "mcs"),
    };
    if let Some(value) = table.get(other) {
        let why = format!("{}: {phy} has its rates by {wanted}", value.path);
        return Err(value.impossible(format!("{why}: write {wanted} = {example} instead")));
    }
    let value = table.need(wanted, example)?;
    if other == "mcs" {
        let rate = rate(&value, phy)?;
        return Ok((value, rate, false));
    }
    let adapts = value.as_str() == Some(ADAPTIVE);
    let mcs = if adapts { MCS_MAX.into() } else { value.whole()? };
    let known = u8::try_from(mcs).ok().and_then(|mcs| phy.mcs_rate(mcs));
    let why =
        || format!("{} = {mcs} is not one of one spatial stream: choose 0 to {MCS_MAX}, or \"{ADAPTIVE}\"", value.path);
    let rate = known.ok_or_else(|| value.impossible(why()))?;
    Ok((value, rate, adapts))
}

/// `{ frames = 64, size = "65535 B" }`, each left out at its largest.
pub(crate) fn aggregate(value: &Value<'_>) -> Result<Aggregate, ScenarioError> {
    let table = value.table("{ frames = 64, size = \"65535 B\" }")?;
    table.only(&["frames", "size"])?;
    let mut aggregate = Aggregate::LARGEST;
    if let Some(frames) = table.get("frames") {
        aggregate.frames = u8::try_from(frames.whole()?).unwrap_or(u8::MAX);
    }
    if let Some(octets) = table.quantity::<Octets>("size")? {
        aggregate.octets = usize::try_from(octets.get()).unwrap_or(usize::MAX);
    }
    Ok(aggregate)
}
