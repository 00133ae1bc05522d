//! Media between two ports other than cables: `kind = "bluetooth"` and `kind = "cellular"`.

use crate::ScenarioError;
use crate::model::{Channel, ChannelKind};
use crate::parse_wifi::packets;
use crate::word;
use crate::write::{text, unit};
use crate::{Table, Value};
use core::fmt::Write;
use wavelane_base::{Octets, Rate, Ratio};
use wavelane_channel::bluetooth::{BluetoothConfig, Packets, Quality, Scheduler};
use wavelane_channel::cellular::{BearerConfig, CELLULAR_PRESETS, CellularConfig, Gaps, Promotion};

/// Keys of a Bluetooth channel in files.
pub const BLUETOOTH_KEYS: &[&str] =
    &["kind", "between", "preset", "packets", "slots", "scheduler", "poll", "queue", "quality"];
/// Keys of a cellular channel in files.
pub const CELLULAR_KEYS: &[&str] =
    &["kind", "between", "preset", "forward", "reverse", "promotion", "spikes", "handover"];
/// Keys of one direction of it.
pub const BEARER_KEYS: &[&str] =
    &["rate", "slowest", "hold", "delay", "queue", "block", "block-loss", "round", "tries"];

const PACKETS: &[(&str, Packets)] = &[("dh", Packets::Dh), ("dm", Packets::Dm), ("cqddr", Packets::Cqddr)];
const SCHEDULERS: &[(&str, Scheduler)] = &[("asymmetric", Scheduler::Asymmetric), ("symmetric", Scheduler::Symmetric)];
const WANDERING: &str = "{ asymmetric = \"5 s\", symmetric = \"2 s\" }";
const QUALITY: &str = "{ good = \"5 s\", bad = \"2 s\", in_good = \"0\", in_bad = \"0.0003\" }";
const GAPS: &str = "{ every = \"15 s\", lasts = \"100 ms\" }";

pub(crate) fn ends(table: &Table<'_>) -> Result<Vec<String>, ScenarioError> {
    let between = table.need("between", "[\"a\", \"b\"]")?;
    let ends = between.list("a pair of nodes", "[\"a\", \"b\"]")?;
    let [first, second] = ends.as_slice() else {
        return Err(between.impossible(format!("{} must name exactly two nodes, such as [\"a\", \"b\"]", between.path)));
    };
    let name = |v: &Value<'_>| v.str("a node's name", "\"a\"").map(str::to_owned);
    Ok(vec![name(first)?, name(second)?])
}

/// Reads a Bluetooth channel; the first node is the master.
pub(crate) fn bluetooth(name: &str, table: &Table<'_>) -> Result<Channel, ScenarioError> {
    table.only(BLUETOOTH_KEYS)?;
    let between = ends(table)?;
    let mut config = BluetoothConfig::default();
    if let Some(preset) = table.get("preset") {
        word(&preset, "preset", &[("bluetooth-1.1", ())], "\"bluetooth-1.1\"")?;
    }
    if let Some(value) = table.get("packets") {
        config.packets = word(&value, "kind of packet", PACKETS, "\"dh\"")?;
    }
    if let Some(value) = table.get("slots") {
        config.slots = u8::try_from(value.whole()?).unwrap_or(u8::MAX);
    }
    if let Some(value) = table.get("scheduler") {
        config.scheduler = match value.as_str() {
            Some(_) => word(&value, "scheduler", SCHEDULERS, "\"asymmetric\"")?,
            None => {
                let means = value.table(WANDERING)?;
                means.only(&["asymmetric", "symmetric"])?;
                let of = |key| means.need(key, "\"5 s\"")?.quantity();
                Scheduler::Wandering { asymmetric: of("asymmetric")?, symmetric: of("symmetric")? }
            }
        };
    }
    config.poll = table.quantity("poll")?.unwrap_or(config.poll);
    if let Some(value) = table.get("queue") {
        config.queue = packets(&value)?;
    }
    if let Some(value) = table.get("quality") {
        let quality = value.table(QUALITY)?;
        quality.only(&["good", "bad", "in_good", "in_bad"])?;
        let dwell = |key| quality.need(key, "\"5 s\"")?.quantity();
        let errors = |key| quality.quantity(key).map(|p| p.unwrap_or(Ratio::ZERO));
        let [in_good, in_bad] = [errors("in_good")?, errors("in_bad")?];
        config.quality = Some(Quality { good: dwell("good")?, bad: dwell("bad")?, in_good, in_bad });
    }
    config.check().map_err(|why| refused(table, "slots", &why))?;
    Ok(Channel { name: name.to_owned(), between, kind: ChannelKind::Bluetooth(config), one_way: false })
}

/// An error that concerns the whole table, at the line of a key that is there.
pub(crate) fn refused(table: &Table<'_>, key: &str, why: &dyn core::fmt::Display) -> ScenarioError {
    let at = [key, "preset", "forward", "kind"].into_iter().find_map(|key| table.get(key));
    match at {
        Some(at) => at.impossible(format!("{}: {why}", at.path)),
        None => crate::Problem::Impossible(why.to_string()).at(0),
    }
}

/// Reads a cellular channel; the first node is the network's.
pub(crate) fn cellular(name: &str, table: &Table<'_>) -> Result<Channel, ScenarioError> {
    table.only(CELLULAR_KEYS)?;
    let between = ends(table)?;
    let mut config = match table.get("preset") {
        Some(preset) => word(&preset, "preset", CELLULAR_PRESETS, "\"lte\"")?(),
        None => {
            for key in ["forward", "reverse"] {
                table.need(key, "{ rate = \"20 Mbit/s\", delay = \"20 ms\" }")?;
            }
            CellularConfig::default()
        }
    };
    if let Some(value) = table.get("forward") {
        bearer(&value, &mut config.forward)?;
    }
    match table.get("reverse") {
        Some(same) if same.as_str() == Some("same") => config.reverse = config.forward,
        Some(own) => bearer(&own, &mut config.reverse)?,
        None => {}
    }
    if let Some(value) = table.get("promotion") {
        let promotion = value.table("{ idle = \"5 s\", takes = \"2 s\" }")?;
        promotion.only(&["idle", "takes"])?;
        let of = |key| promotion.need(key, "\"2 s\"")?.quantity();
        config.promotion = Some(Promotion { idle: of("idle")?, takes: of("takes")? });
    }
    config.spikes = table.get("spikes").map(|v| gaps(&v)).transpose()?.or(config.spikes);
    config.handover = table.get("handover").map(|v| gaps(&v)).transpose()?.or(config.handover);
    config.check().map_err(|why| refused(table, "forward", &why))?;
    Ok(Channel { name: name.to_owned(), between, kind: ChannelKind::Cellular(Box::new(config)), one_way: false })
}

fn gaps(value: &Value<'_>) -> Result<Gaps, ScenarioError> {
    let table = value.table(GAPS)?;
    table.only(&["every", "lasts"])?;
    let of = |key| table.need(key, "\"100 ms\"")?.quantity();
    Ok(Gaps { every: of("every")?, lasts: of("lasts")? })
}

/// Applies the settings of the table at `value`.
fn bearer(value: &Value<'_>, bearer: &mut BearerConfig) -> Result<(), ScenarioError> {
    let table = value.table("{ rate = \"20 Mbit/s\", delay = \"20 ms\" }")?;
    table.only(BEARER_KEYS)?;
    if let Some(rate) = table.quantity::<Rate>("rate")? {
        bearer.rate = rate;
        bearer.slowest = rate;
    }
    bearer.slowest = table.quantity("slowest")?.unwrap_or(bearer.slowest);
    bearer.hold = table.quantity("hold")?.unwrap_or(bearer.hold);
    bearer.delay = table.quantity("delay")?.unwrap_or(bearer.delay);
    bearer.round = table.quantity("round")?.unwrap_or(bearer.round);
    bearer.block_loss = table.quantity("block-loss")?.unwrap_or(bearer.block_loss);
    if let Some(block) = table.quantity::<Octets>("block")? {
        bearer.block = usize::try_from(block.get()).unwrap_or(usize::MAX);
    }
    if let Some(tries) = table.get("tries") {
        bearer.tries = u32::try_from(tries.whole()?).unwrap_or(u32::MAX);
    }
    if let Some(value) = table.get("queue") {
        bearer.queue = packets(&value)?;
    }
    Ok(())
}

pub(crate) fn head(channel: &Channel, kind: &str) -> String {
    let [a, b] = [&channel.between[0], &channel.between[1]].map(|name| text(name));
    format!("\n[channels.{}]\nkind = \"{kind}\"\nbetween = [{a}, {b}]\n", channel.name)
}

/// Writes a Bluetooth channel.
pub(crate) fn write_bluetooth(channel: &Channel, config: &BluetoothConfig) -> String {
    let mut out = head(channel, "bluetooth");
    let BluetoothConfig { packets, slots, scheduler, poll, queue, quality } = *config;
    let kind = PACKETS.iter().find(|(_, p)| *p == packets).map_or("dh", |(word, _)| word);
    let scheduler = match scheduler {
        Scheduler::Wandering { asymmetric, symmetric } => {
            format!("{{ asymmetric = {}, symmetric = {} }}", unit(&asymmetric), unit(&symmetric))
        }
        other => text(SCHEDULERS.iter().find(|(_, s)| *s == other).map_or("asymmetric", |(word, _)| word)),
    };
    let _ = writeln!(out, "packets = \"{kind}\"\nslots = {slots}\nscheduler = {scheduler}");
    let _ = writeln!(out, "poll = {}\nqueue = \"{queue} packets\"", unit(&poll));
    if let Some(Quality { good, bad, in_good, in_bad }) = quality {
        let (good, bad, in_good, in_bad) = (unit(&good), unit(&bad), unit(&in_good), unit(&in_bad));
        let _ = writeln!(out, "quality = {{ good = {good}, bad = {bad}, in_good = {in_good}, in_bad = {in_bad} }}");
    }
    out
}

fn write_bearer(bearer: &BearerConfig) -> String {
    let BearerConfig { rate, slowest, hold, delay, queue, block, block_loss, round, tries } = *bearer;
    let (rate, slowest) = (unit(&rate), unit(&slowest));
    let (hold, delay, round) = (unit(&hold), unit(&delay), unit(&round));
    let (block, loss) = (unit(&Octets::new(block as u64)), unit(&block_loss));
    format!(
        "{{ rate = {rate}, slowest = {slowest}, hold = {hold}, delay = {delay}, queue = \"{queue} packets\", block = {block}, \
         block-loss = {loss}, round = {round}, tries = {tries} }}"
    )
}

/// Writes a cellular channel.
pub(crate) fn write_cellular(channel: &Channel, config: &CellularConfig) -> String {
    let mut out = head(channel, "cellular");
    let _ = writeln!(out, "forward = {}", write_bearer(&config.forward));
    let _ = writeln!(out, "reverse = {}", write_bearer(&config.reverse));
    if let Some(Promotion { idle, takes }) = config.promotion {
        let _ = writeln!(out, "promotion = {{ idle = {}, takes = {} }}", unit(&idle), unit(&takes));
    }
    for (key, gaps) in [("spikes", config.spikes), ("handover", config.handover)] {
        if let Some(Gaps { every, lasts }) = gaps {
            let _ = writeln!(out, "{key} = {{ every = {}, lasts = {} }}", unit(&every), unit(&lasts));
        }
    }
    out
}
