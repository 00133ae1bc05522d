//! Additional settings of 802.11n and 802.11ac cells: width, streams, rates by MCS, and aggregates.

use crate::ScenarioError;
use crate::parse_wifi::rate;
use crate::word;
use crate::{Table, Value};
use wavelane_base::{Octets, Rate};
use wavelane_channel::wifi::{Aggregate, Phy, STREAMS_MAX, Width};

/// The word for rates chosen by the senders.
pub(crate) const ADAPTIVE: &str = "adaptive";

/// 802.11ac without further settings in the file.
pub(crate) const VHT: Phy = Phy::Vht { width: Width::Mhz80, streams: 1, short_guard: false };
const WIDTHS: &[(&str, Width)] = &[("20 MHz", Width::Mhz20), ("40 MHz", Width::Mhz40), ("80 MHz", Width::Mhz80)];

/// The physical layer with its `width` and `streams`, which exist only for 802.11ac.
pub(crate) fn shape(table: &Table<'_>, phy: Phy) -> Result<Phy, ScenarioError> {
    let Phy::Vht { mut width, mut streams, short_guard } = phy else {
        let Some(value) = ["width", "streams"].into_iter().find_map(|key| table.get(key)) else { return Ok(phy) };
        let why = format!("{}: {phy} is modelled 20 MHz wide at most, with one stream", value.path);
        return Err(value.impossible(format!("{why}: remove it, or write phy = \"802.11ac\"")));
    };
    if let Some(value) = table.get("width") {
        width = word(&value, "width", WIDTHS, "\"80 MHz\"")?;
    }
    if let Some(value) = table.get("streams") {
        let number = value.whole()?;
        let known = u8::try_from(number).ok().filter(|streams| (1..=STREAMS_MAX).contains(streams));
        let why = || format!("{} = {number} spatial streams are not modelled: choose 1 to {STREAMS_MAX}", value.path);
        streams = known.ok_or_else(|| value.impossible(why()))?;
    }
    Ok(Phy::Vht { width, streams, short_guard })
}

/// Writes `width`, `streams` and `guard`.
pub(crate) fn write_shape(phy: Phy, key: &mut impl FnMut(&str, String)) {
    if let Phy::Vht { width, streams, .. } = phy {
        key("width", format!("\"{width}\""));
        key("streams", streams.to_string());
    }
    if let Phy::Ht { short_guard: true } | Phy::Vht { short_guard: true, .. } = phy {
        key("guard", "\"short\"".into());
    }
}

/// The rate of data frames, where it is written (`rate`, or `mcs`), and whether senders choose it themselves.
pub(crate) fn data_rate<'a>(table: &Table<'a>, phy: Phy) -> Result<(Value<'a>, Rate, bool), ScenarioError> {
    let most = phy.mcs_max();
    let (wanted, example, other) = if most.is_some() { ("mcs", "7", "rate") } else { ("rate", "\"54 Mbit/s\"", "mcs") };
    if let Some(value) = table.get(other) {
        let why = format!("{}: {phy} has its rates by {wanted}", value.path);
        return Err(value.impossible(format!("{why}: write {wanted} = {example} instead")));
    }
    let value = table.need(wanted, example)?;
    let Some(most) = most else {
        let rate = rate(&value, phy)?;
        return Ok((value, rate, false));
    };
    let adapts = value.as_str() == Some(ADAPTIVE);
    let mcs = if adapts { most.into() } else { value.whole()? };
    let known = u8::try_from(mcs).ok().and_then(|mcs| phy.mcs_rate(mcs));
    let why = || format!("{} = {mcs} is not one of {phy}: choose 0 to {most}, or \"{ADAPTIVE}\"", value.path);
    let rate = known.ok_or_else(|| value.impossible(why()))?;
    Ok((value, rate, adapts))
}

/// `{ frames = 64, size = "65535 B" }`, each omitted at its maximum.
pub(crate) fn aggregate(value: &Value<'_>, phy: Phy) -> Result<Aggregate, ScenarioError> {
    let table = value.table("{ frames = 64, size = \"65535 B\" }")?;
    table.only(&["frames", "size"])?;
    let mut aggregate = Aggregate::largest(phy);
    if let Some(frames) = table.get("frames") {
        aggregate.frames = u8::try_from(frames.whole()?).unwrap_or(u8::MAX);
    }
    if let Some(octets) = table.quantity::<Octets>("size")? {
        aggregate.octets = usize::try_from(octets.get()).unwrap_or(usize::MAX);
    }
    Ok(aggregate)
}
