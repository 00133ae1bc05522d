//! Radio cells: `[channels.NAME]` with `kind = "wifi"`.

use crate::ScenarioError;
use crate::model::{Channel, ChannelKind};
use crate::parse_channel::windows;
use crate::parse_edca;
use crate::parse_ht;
use crate::parse_queue;
use crate::word;
use crate::{Table, Value};
use std::collections::BTreeMap;
use wavelane_base::{Octets, Rate, Ratio, Span};
use wavelane_base::{Quantity, UnitError};
use wavelane_channel::wifi::{
    AfterDrop, BitErrors, CaptureEffect, CapturePoint, ConfigError, ErrorsPer, PairLoss, Phy, RTS_NEVER, Reach,
    ReachMap, Retry, Rules, SNAPLEN_MAX, STATIONS_BOUND, WAVELAN_WAITS, WifiConfig,
};

/// Keys of a wifi channel in files.
pub const WIFI_KEYS: &[&str] = &[
    "kind",
    "nodes",
    "preset",
    "phy",
    "preamble",
    "slot",
    "guard",
    "width",
    "streams",
    "rate",
    "mcs",
    "noise",
    "answer-rate",
    "rts-rate",
    "rts-threshold",
    "rules",
    "retry",
    "queue",
    "queues",
    "cw",
    "reach",
    "pairs",
    "capture",
    "errors",
    "overhead",
    "edca",
    "aggregate",
    "fec",
    "pcap",
];

pub(crate) const PHYS: &[(&str, Phy)] = &[
    ("dsss", Phy::Dsss),
    ("802.11b", Phy::HrDsss { short_preamble: false }),
    ("802.11a", Phy::Ofdm),
    ("802.11g", Phy::ErpOfdm { short_slot: false }),
    ("802.11n", Phy::Ht { short_guard: false }),
    ("802.11ac", parse_ht::VHT),
    ("wavelan", Phy::wavelan(WAVELAN_OVERHEAD)),
];
/// Default and maximum overhead of a WaveLAN frame in addition to its bytes.
const WAVELAN_OVERHEAD: Span = Span::from_micros(700);
const WAVELAN_OVERHEAD_MAX: Span = Span::from_millis(10);
/// Keys that only stations with acknowledgements have.
const ANSWERING_KEYS: &[&str] = &["answer-rate", "rts-rate", "rts-threshold", "retry", "edca"];
/// Positions in an 802.11b cell at 11 Mbit/s with short preambles, and their bit error ratios: of full frames, of 1,536 bytes, 0, 0.01,
/// 0.1 and 28 % are lost (`docs/models/wifi.md`).
const POSITIONS: &[(&str, Option<Ratio>)] = &[
    ("wlan-position-1", None),
    ("wlan-position-2", Ratio::new(8, 1_000_000_000)),
    ("wlan-position-3", Ratio::new(81, 1_000_000_000)),
    ("wlan-position-4", Ratio::new(26_730, 1_000_000_000)),
];
/// All of a position's but its errors.
const POSITION_PHY: Phy = Phy::HrDsss { short_preamble: true };
const POSITION_RATE: Rate = Rate::from_bps(11_000_000);
const POSITION_ANSWER: Rate = Rate::from_bps(2_000_000);
const LENGTHS: &[(&str, bool)] = &[("long", false), ("short", true)];
pub(crate) const RULES: &[(&str, Rules)] = &[
    ("standard", Rules::standard()),
    ("ns3-3.44", Rules::ns3_3_44()),
    ("ns2-2001", Rules::ns2_2001()),
    ("bianchi-2000", Rules::bianchi_2000()),
    ("wavelan-1995", Rules::wavelan_1995()),
];
/// Effect of a station's frames at another one.
pub(crate) const HEAR: &[(&str, Reach)] = &[
    ("decode", Reach::FULL),
    ("sense", Reach::SENSED),
    ("interfere", Reach::HARMFUL),
    ("sense+interfere", Reach::LOUD),
    ("none", Reach { decode: false, sense: false, interfere: false, signal_db: 0 }),
];
/// The word for a capture of every frame of a cell; no station may have this name.
pub(crate) const MEDIUM: &str = "medium";
/// Signal levels are within this many dB of zero.
const SIGNAL_MAX: i16 = 200;

/// Reads a cell.
pub(crate) fn wifi(name: &str, table: &Table<'_>) -> Result<Channel, ScenarioError> {
    table.only(WIFI_KEYS)?;
    let stations = stations(table)?;
    let position = table.get("preset").map(|v| word(&v, "preset", POSITIONS, "\"wlan-position-1\"")).transpose()?;
    let phy = if position.is_some() && table.get("phy").is_none() { POSITION_PHY } else { phy(table)? };
    let (rate_at, data_rate, adapts) = match table.get("preset") {
        Some(at) if table.get("rate").is_none() => (at, POSITION_RATE, false),
        _ => parse_ht::data_rate(table, phy)?,
    };
    let mut rules = rules(table, phy)?;
    if let Some(value) = table.get("retry") {
        rules.retry = retry(&value)?;
        if let (Retry::PerFrame(tries), AfterDrop::CountsOn(_)) = (rules.retry, rules.after_drop) {
            // ns-3 has one limit for both.
            rules.after_drop = AfterDrop::CountsOn(tries);
        }
    }
    let mut cell = WifiConfig::new(phy, data_rate, rules, stations.len());
    cell.adapts = adapts;
    cell.noise_db = table.get("noise").map(|v| decibels(&v)).transpose()?;
    cell.answer_rate = table.get("answer-rate").map(|v| rate(&v, phy.legacy())).transpose()?;
    if position.is_some() && cell.answer_rate.is_none() {
        cell.answer_rate = Some(POSITION_ANSWER);
    }
    cell.rts_rate = table.get("rts-rate").map(|v| rate(&v, phy.legacy())).transpose()?;
    if let Some(value) = table.get("rts-threshold") {
        cell.rts_threshold = threshold(&value)?;
    }
    if let Some(value) = table.get("queue") {
        if value.as_str().is_some() {
            cell.queue = packets(&value)?;
        } else {
            let queue = parse_queue::station(&value)?;
            cell.queues = (0..stations.len()).map(|station| (station, queue)).collect();
        }
    }
    if let Some(value) = table.get("queues") {
        for (name, value) in value.table("{ ap = { kind = \"fq-codel\" } }")?.entries() {
            cell.queues.insert(station_called(&stations, &name, &value)?, parse_queue::station(&value)?);
        }
    }
    cell.cw = table.get("cw").map(|v| contention_windows(&v)).transpose()?;
    cell.reach = reach(table, &stations)?;
    cell.edca = table.get("edca").map(|v| parse_edca::edca(&v, phy)).transpose()?;
    cell.aggregate = table.get("aggregate").map(|v| parse_ht::aggregate(&v, phy)).transpose()?;
    cell.fec = table.get("fec").map(|v| parse_edca::fec(&v)).transpose()?;
    if let Some(value) = table.get("pcap") {
        (cell.captures, cell.snaplen) = pcap(&value, &stations)?;
    }
    cell.capture = table.get("capture").map(|v| capture(&v)).transpose()?;
    cell.errors = table.get("errors").map(|v| errors(&v, &stations)).transpose()?;
    if let (Some(Some(p)), None) = (position, &cell.errors) {
        let (good, bad) = (Span::from_secs(1), Span::from_secs(1));
        cell.errors = Some(BitErrors { good, bad, in_good: p, in_bad: p, per: ErrorsPer::Receiver });
    }
    // Each remaining error concerns one key: report the first in the file of those that can be the cause.
    let keys = ["queue", "queues", "cw", "retry", "capture", "edca", "aggregate", "noise", "fec", "pcap", "errors"];
    let suspect = keys.into_iter().find_map(|key| {
        let mut plain = cell.clone();
        match key {
            "queue" => (plain.queue, plain.queues) = (50, BTreeMap::new()),
            "queues" => plain.queues = BTreeMap::new(),
            "cw" => plain.cw = None,
            "retry" => plain.rules.retry = Retry::PerFrame(7),
            "capture" => plain.capture = None,
            "edca" => plain.edca = None,
            "aggregate" => plain.aggregate = None,
            "noise" => plain.noise_db = None,
            "fec" => plain.fec = None,
            "pcap" => (plain.captures, plain.snaplen) = (Vec::new(), SNAPLEN_MAX),
            // A code without errors is also rejected.
            _ => (plain.errors, plain.fec) = (None, None),
        }
        table.get(key).filter(|_| cell.check().is_err() && plain.check().is_ok())
    });
    if let Err(why) = cell.check() {
        let at = suspect.unwrap_or(rate_at);
        return Err(at.impossible(format!("{}: {why}", at.path)));
    }
    Ok(Channel { name: name.to_owned(), between: stations, kind: ChannelKind::Wifi(Box::new(cell)), one_way: false })
}

fn stations(table: &Table<'_>) -> Result<Vec<String>, ScenarioError> {
    let value = table.need("nodes", "[\"ap\", \"s1\", \"s2\"]")?;
    let mut stations: Vec<String> = Vec::new();
    for item in value.list("a list of nodes", "[\"ap\", \"s1\", \"s2\"]")? {
        let name = item.str("a node's name", "\"ap\"")?;
        if name == MEDIUM && table.get("pcap").is_some() {
            let why = format!("{}: with pcap, '{MEDIUM}' means every frame of the cell", item.path);
            return Err(item.impossible(format!("{why}: give this station another name")));
        }
        if stations.iter().any(|known| known == name) {
            return Err(item.impossible(format!("{}: '{name}' is listed twice: name each station once", item.path)));
        }
        stations.push(name.to_owned());
    }
    if !(2..=STATIONS_BOUND).contains(&stations.len()) {
        let why = format!("{} lists {} stations, outside 2 to {STATIONS_BOUND}", value.path, stations.len());
        return Err(value.impossible(format!("{why}: add stations, or split the cell")));
    }
    Ok(stations)
}

fn phy(table: &Table<'_>) -> Result<Phy, ScenarioError> {
    let value = table.need("phy", "\"802.11a\"")?;
    let phy = word(&value, "physical layer", PHYS, "\"802.11a\"")?;
    let mut phy = parse_ht::shape(table, phy)?;
    if let Some(value) = table.get("overhead") {
        phy = overhead(&value, phy)?;
    }
    for key in ["preamble", "slot", "guard"] {
        let Some(at) = table.get(key) else { continue };
        let short = word(&at, "length", LENGTHS, "\"short\"")?;
        phy = match (key, phy) {
            ("preamble", Phy::HrDsss { .. }) => Phy::HrDsss { short_preamble: short },
            ("slot", Phy::ErpOfdm { .. }) => Phy::ErpOfdm { short_slot: short },
            ("guard", Phy::Ht { .. }) => Phy::Ht { short_guard: short },
            ("guard", Phy::Vht { width, streams, .. }) => Phy::Vht { width, streams, short_guard: short },
            _ => {
                let why = format!("{}: {phy} has only one {key}: remove it", at.path);
                return Err(at.impossible(format!(
                    "{why} (802.11b has two preambles, 802.11g two slots, 802.11n and 802.11ac two guard intervals)"
                )));
            }
        };
    }
    Ok(phy)
}

/// WaveLAN with this overhead per frame.
fn overhead(value: &Value<'_>, phy: Phy) -> Result<Phy, ScenarioError> {
    let Phy::WaveLan { .. } = phy else {
        let why = format!("{}: what a frame of {phy} costs is in its standard", value.path);
        return Err(value.impossible(format!("{why}: remove it, or write phy = \"wavelan\"")));
    };
    let overhead: Span = value.quantity()?;
    if !(WAVELAN_WAITS..=WAVELAN_OVERHEAD_MAX).contains(&overhead) {
        let (shown, least, most) = (overhead.write(), WAVELAN_WAITS.write(), WAVELAN_OVERHEAD_MAX.write());
        let why = format!("{} = {shown} lies outside {least} to {most}", value.path);
        return Err(value.impossible(format!("{why}: choose a value inside, such as \"700 us\"")));
    }
    Ok(Phy::wavelan(overhead))
}

/// The named set of rules, or that of the physical layer. WaveLAN and 802.11 cannot use each other's.
fn rules(table: &Table<'_>, phy: Phy) -> Result<Rules, ScenarioError> {
    let named = table.get("rules");
    let Phy::WaveLan { .. } = phy else {
        let Some(value) = named else { return Ok(Rules::standard()) };
        let rules = word(&value, "set of rules", RULES, "\"standard\"")?;
        if !rules.acknowledges {
            let why = format!("{}: \"{}\" are the rules of WaveLAN, not of {phy}", value.path, rules.name);
            return Err(value.impossible(format!("{why}: choose others, or write phy = \"wavelan\"")));
        }
        return Ok(rules);
    };
    if let Some(value) = named
        && word(&value, "set of rules", RULES, "\"wavelan-1995\"")?.acknowledges
    {
        let why = format!("{}: WaveLAN does not use the rules of 802.11", value.path);
        return Err(value.impossible(format!("{why}: remove it, or write \"wavelan-1995\"")));
    }
    if let Some(value) = ANSWERING_KEYS.iter().find_map(|key| table.get(key)) {
        let why = format!("{}: WaveLAN has no acknowledgements, RTS or categories", value.path);
        return Err(value.impossible(format!("{why}: remove it")));
    }
    Ok(Rules::wavelan_1995())
}

/// `{ at = ["medium", "s1"], bytes = "128 B" }`: where frames are captured, and how much of each.
fn pcap(value: &Value<'_>, stations: &[String]) -> Result<(Vec<CapturePoint>, usize), ScenarioError> {
    let table = value.table("{ at = [\"medium\", \"s1\"] }")?;
    table.only(&["at", "bytes"])?;
    let at = table.need("at", "[\"medium\"]")?;
    let mut points = Vec::new();
    for item in at.list("a list of stations, or \"medium\"", "[\"medium\"]")? {
        let medium = item.as_str() == Some(MEDIUM);
        let point = if medium { CapturePoint::Medium } else { CapturePoint::Station(station(stations, &item)?) };
        if points.contains(&point) {
            let name = item.as_str().unwrap_or_default();
            return Err(item.impossible(format!("{}: '{name}' is listed twice: name each place once", item.path)));
        }
        points.push(point);
    }
    if points.is_empty() {
        return Err(at.impossible(format!("{} is empty: name \"medium\" or stations, or remove pcap", at.path)));
    }
    let bytes: Option<Octets> = table.quantity("bytes")?;
    Ok((points, bytes.map_or(SNAPLEN_MAX, |bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX))))
}

/// A rate that the PHY supports.
pub(crate) fn rate(value: &Value<'_>, phy: Phy) -> Result<Rate, ScenarioError> {
    let rate = value.quantity()?;
    phy.rate(rate).map(|_| rate).map_err(|why| value.impossible(format!("{}: {why}", value.path)))
}

/// `"500 B"`, or `"never"`.
fn threshold(value: &Value<'_>) -> Result<usize, ScenarioError> {
    if value.as_str() == Some("never") {
        return Ok(RTS_NEVER);
    }
    let octets: Octets = value.quantity()?;
    Ok(octets.get().min(RTS_NEVER as u64) as usize)
}

/// `"50 packets"`.
pub(crate) fn packets(value: &Value<'_>) -> Result<usize, ScenarioError> {
    let text = value.str("a number of packets", "\"50 packets\"")?;
    let number = text.strip_suffix(" packets").and_then(|n| n.parse().ok());
    let why = || format!("{} = \"{text}\" is not a number of packets: write such as \"50 packets\"", value.path);
    number.ok_or_else(|| value.impossible(why()))
}

/// `7`, or `{ short = 7, long = 4 }`.
fn retry(value: &Value<'_>) -> Result<Retry, ScenarioError> {
    let count = |v: &Value<'_>| {
        let n = v.whole()?;
        let why = || format!("{} = {n} tries: choose 1 to 255", v.path);
        u32::try_from(n).ok().filter(|n| (1..=255).contains(n)).ok_or_else(|| v.impossible(why()))
    };
    match value.table("{ short = 7, long = 4 }") {
        Err(_) => count(value).map(Retry::PerFrame),
        Ok(table) => {
            table.only(&["short", "long"])?;
            let short = count(&table.need("short", "7")?)?;
            Ok(Retry::ShortLong { short, long: count(&table.need("long", "4")?)? })
        }
    }
}

/// `[15, 1023]`.
pub(crate) fn contention_windows(value: &Value<'_>) -> Result<(u32, u32), ScenarioError> {
    let list = value.list("CWmin and CWmax", "[15, 1023]")?;
    let [min, max] = list.as_slice() else {
        return Err(value.impossible(format!("{} must be CWmin and CWmax, such as [15, 1023]", value.path)));
    };
    let bounded = |v: &Value<'_>| v.whole().map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Ok((bounded(min)?, bounded(max)?))
}

fn station(stations: &[String], value: &Value<'_>) -> Result<usize, ScenarioError> {
    let name = value.str("a station's name", "\"ap\"")?;
    station_called(stations, name, value)
}

fn station_called(stations: &[String], name: &str, value: &Value<'_>) -> Result<usize, ScenarioError> {
    stations.iter().position(|s| s == name).ok_or_else(|| {
        let hint = crate::hint(name, stations.iter().map(String::as_str));
        value.impossible(format!("{}: '{name}' is no station of this channel; {hint}", value.path))
    })
}

/// `reach` and its changes by `pairs`.
fn reach(table: &Table<'_>, stations: &[String]) -> Result<ReachMap, ScenarioError> {
    const BASES: &[(&str, bool)] = &[("all", true), ("none", false)];
    let all = table.get("reach").map(|v| word(&v, "reach", BASES, "\"all\"")).transpose()?.unwrap_or(true);
    let mut map = if all { ReachMap::full(stations.len()) } else { ReachMap::none(stations.len()) };
    let Some(pairs) = table.get("pairs") else { return Ok(map) };
    const EXAMPLE: &str = "[{ between = [\"a\", \"b\"], hear = \"sense\" }]";
    for item in pairs.list("a list of pairs of stations", EXAMPLE)? {
        let pair = item.table("{ between = [\"a\", \"b\"], hear = \"sense\" }")?;
        pair.only(&["between", "from", "to", "hear", "signal", "loss", "drop", "outages"])?;
        let mut how = word(&pair.need("hear", "\"decode\"")?, "reach", HEAR, "\"decode\"")?;
        if let Some(signal) = pair.get("signal") {
            how.signal_db = decibels(&signal)?;
        }
        let (from, to, both) = match (pair.get("between"), pair.get("from"), pair.get("to")) {
            (Some(between), None, None) => {
                let list = between.list("two stations", "[\"a\", \"b\"]")?;
                let [a, b] = list.as_slice() else {
                    return Err(between.impossible(format!("{} must name two stations", between.path)));
                };
                (station(stations, a)?, station(stations, b)?, true)
            }
            (None, Some(from), Some(to)) => (station(stations, &from)?, station(stations, &to)?, false),
            _ => {
                let why = format!("{}: a pair needs either between = [\"a\", \"b\"] or from and to", item.path);
                return Err(item.impossible(why));
            }
        };
        let set = if both { map.set_both(from, to, how) } else { map.set(from, to, how) };
        if set.is_err() {
            let why = format!("{}: '{}' is given a reach to itself", item.path, stations[from]);
            return Err(item.impossible(format!("{why}: a station never hears its own frames, so remove this pair")));
        }
        let loss = PairLoss {
            air: pair.quantity("loss")?.unwrap_or(Ratio::ZERO),
            drop: pair.quantity("drop")?.unwrap_or(Ratio::ZERO),
            outages: pair.get("outages").map(|v| windows(&v)).transpose()?.unwrap_or_default(),
        };
        let back = if both { map.set_loss(to, from, loss.clone()) } else { Ok(()) };
        let why = match back.and_then(|()| map.set_loss(from, to, loss)) {
            Ok(()) => continue,
            Err(ConfigError::Outages(why)) => format!("outages: {why}"),
            Err(_) => {
                "only frames that are decoded can be lost: write hear = \"decode\", or remove loss, drop and outages"
                    .into()
            }
        };
        return Err(item.impossible(format!("{}: {why}", item.path)));
    }
    Ok(map)
}

/// `"10 dB"`, `"-3 dB"`.
fn decibels(value: &Value<'_>) -> Result<i16, ScenarioError> {
    let text = value.str("a level in dB", "\"10 dB\"")?;
    let number = text.strip_suffix(" dB").and_then(|n| n.parse::<i16>().ok());
    number.filter(|n| (-SIGNAL_MAX..=SIGNAL_MAX).contains(n)).ok_or_else(|| {
        let expected = "a level in whole dB from -200 to 200";
        let error = UnitError { text: text.into(), expected, example: "10 dB", detail: String::new() };
        crate::Problem::Unit { key: value.path.clone(), error }.at(value.line)
    })
}

fn capture(value: &Value<'_>) -> Result<CaptureEffect, ScenarioError> {
    let table = value.table("{ margin = \"10 dB\" }")?;
    table.only(&["margin", "mid-frame"])?;
    let mid_frame = table.get("mid-frame").map(|v| v.bool()).transpose()?.unwrap_or(false);
    Ok(CaptureEffect { margin_db: decibels(&table.need("margin", "\"10 dB\"")?)?, mid_frame })
}

fn errors(value: &Value<'_>, stations: &[String]) -> Result<BitErrors, ScenarioError> {
    const PER: &[(&str, &str)] = &[("station", "station"), ("receiver", "receiver"), ("cell", "cell")];
    let table = value.table("{ good = \"100 ms\", bad = \"30 ms\", in_good = \"0.000001\", in_bad = \"0.01\" }")?;
    table.only(&["good", "bad", "in_good", "in_bad", "per", "hub"])?;
    let per_at = table.need("per", "\"station\"")?;
    let per = match (word(&per_at, "division of errors", PER, "\"station\"")?, table.get("hub")) {
        ("station", Some(hub)) => ErrorsPer::Station { hub: station(stations, &hub)? },
        ("station", None) => {
            let why = format!("{} = \"station\" needs the station whose links these are", per_at.path);
            return Err(per_at.impossible(format!("{why}: add hub = \"{}\"", stations[0])));
        }
        (_, Some(hub)) => {
            return Err(hub.impossible(format!("{}: only per = \"station\" has a hub: remove it", hub.path)));
        }
        ("receiver", None) => ErrorsPer::Receiver,
        (_, None) => ErrorsPer::Cell,
    };
    Ok(BitErrors {
        good: table.need("good", "\"100 ms\"")?.quantity()?,
        bad: table.need("bad", "\"30 ms\"")?.quantity()?,
        in_good: table.need("in_good", "\"0.000001\"")?.quantity()?,
        in_bad: table.need("in_bad", "\"0.01\"")?.quantity()?,
        per,
    })
}

/// How a station's reach is written.
pub(crate) fn hear_word(reach: Reach) -> &'static str {
    let plain = Reach { signal_db: 0, ..reach };
    HEAR.iter().find(|(_, r)| *r == plain).map_or("sense+interfere", |(word, _)| word)
}

/// A rate as text.
pub(crate) fn rate_text(rate: Rate) -> String {
    format!("\"{}\"", rate.write())
}

#[cfg(test)]
#[path = "parse_wifi_tests.rs"]
mod tests;
