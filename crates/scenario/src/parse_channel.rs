//! Channels and their changes: `[channels.air]` and `[[timeline]]`.

use crate::model::{Change, Channel, ChannelKind, Direction, Scenario};
use crate::parse::read_bounded;
use crate::parse_trace::Base;
use crate::word;
use crate::{Problem, ScenarioError};
use crate::{Table, Value};
use std::path::Path;
use wavelane_base::Quantity;
use wavelane_base::text::ShownPath;
use wavelane_base::{Instant, Octets, Rate, Ratio, Span};
use wavelane_channel::{
    CableConfig, DirectionConfig, LossConfig, LossTrace, Parameter, PerUnit, Policer, Reorder, Windows,
};

/// Largest loss trace file: enough for a million intervals.
const TRACE_FILE_MAX: u64 = 64 << 20;

/// Keys of one direction of a channel in files.
pub const DIRECTION_KEYS: &[&str] = &[
    "rate",
    "delay",
    "jitter",
    "keep-order",
    "queue",
    "loss",
    "duplicate",
    "reorder",
    "corrupt",
    "outages",
    "policer",
    "mtu",
];

/// Constructor of a preset's configuration.
type Preset = fn() -> CableConfig;
/// Presets by name.
const PRESETS: &[(&str, Preset)] = &[("ethernet", CableConfig::ethernet)];

/// The kinds of channels, and whether that is the cell: those with files of their own are told apart before.
const KINDS: &[(&str, bool)] =
    &[("cable", false), ("wifi", true), ("bluetooth", false), ("cellular", false), ("serial", false)];

/// `[channels.NAME]`.
pub(crate) fn channel(name: &str, value: &Value<'_>, base: &Base<'_>) -> Result<Channel, ScenarioError> {
    let table = value.table("[channels.air]")?;
    if let Some(kind) = table.get("kind") {
        let text = kind.str("a kind of channel", "\"cable\"")?;
        match text {
            "bluetooth" => return crate::parse_pair::bluetooth(name, &table),
            "cellular" => return crate::parse_pair::cellular(name, &table),
            "serial" => return crate::parse_serial::serial(name, &table, base),
            _ => {}
        }
        if word(&kind, "kind of channel", KINDS, "\"cable\"")? {
            return crate::parse_wifi::wifi(name, &table);
        }
    }
    table.only(&["kind", "between", "preset", "forward", "reverse"])?;
    let between = table.need("between", "[\"a\", \"b\"]")?;
    let ends = between.list("a pair of nodes", "[\"a\", \"b\"]")?;
    let [first, second] = ends.as_slice() else {
        return Err(between.impossible(format!("{} must name exactly two nodes, such as [\"a\", \"b\"]", between.path)));
    };
    let end = |v: &Value<'_>| v.str("a node's name", "\"a\"").map(str::to_owned);
    let one_way = table.get("reverse").is_some_and(|value| value.as_str() == Some("none"));
    let cable = match table.get("preset") {
        Some(preset) => {
            let mut cable = word(&preset, "preset", PRESETS, "\"ethernet\"")?();
            if let Some(forward) = table.get("forward") {
                direction_into(&forward, base, &mut cable.forward)?;
            }
            match table.get("reverse") {
                Some(same) if same.as_str() == Some("same") => cable.reverse = cable.forward.clone(),
                Some(own) if !one_way => direction_into(&own, base, &mut cable.reverse)?,
                _ => {}
            }
            cable
        }
        None => two_directions(&table, base)?,
    };
    let between = vec![end(first)?, end(second)?];
    let mut cable = cable;
    if one_way {
        // Packets sent in the wrong direction are lost.
        cable.reverse.loss = LossConfig::Random { p: Ratio::ONE };
    }
    Ok(Channel { name: name.to_owned(), between, kind: ChannelKind::Cable(Box::new(cable)), one_way })
}

fn two_directions(table: &Table<'_>, base: &Base<'_>) -> Result<CableConfig, ScenarioError> {
    let mut forward = DirectionConfig::default();
    direction_into(&table.need("forward", "{ rate = \"20 Mbit/s\", delay = \"50 ms\" }")?, base, &mut forward)?;
    let reverse_at = table.need("reverse", "\"same\"")?;
    let reverse = match reverse_at.as_str() {
        Some("same" | "none") => forward.clone(),
        Some(other) => {
            let why =
                format!("{} = \"{other}\" is neither \"same\" nor \"none\" nor a table like forward", reverse_at.path);
            return Err(reverse_at.impossible(why));
        }
        None => {
            let mut reverse = DirectionConfig::default();
            direction_into(&reverse_at, base, &mut reverse)?;
            reverse
        }
    };
    Ok(CableConfig { forward, reverse })
}

/// Applies the settings of the table at `value`.
fn direction_into(value: &Value<'_>, base: &Base<'_>, direction: &mut DirectionConfig) -> Result<(), ScenarioError> {
    let table = value.table("{ rate = \"20 Mbit/s\", delay = \"50 ms\" }")?;
    table.only(DIRECTION_KEYS)?;
    for (key, value) in table.entries() {
        direction
            .set(parameter(&key, &value, base)?)
            .map_err(|error| value.impossible(format!("{}: {error}", value.path)))?;
    }
    Ok(())
}

/// One parameter of a direction; `key` is one of [`DIRECTION_KEYS`].
pub(crate) fn parameter(key: &str, value: &Value<'_>, base: &Base<'_>) -> Result<Parameter, ScenarioError> {
    Ok(match key {
        "rate" if value.raw().is_table() => Parameter::RateTrace(crate::parse_trace::rate(value, base)?),
        "rate" => Parameter::Rate(Some(value.quantity()?)),
        "delay" if value.raw().is_table() => Parameter::DelayTrace(crate::parse_trace::delay(value, base)?),
        "delay" => Parameter::Delay(value.quantity()?),
        "jitter" => Parameter::Jitter(value.quantity()?),
        "keep-order" => Parameter::KeepOrder(value.bool()?),
        "queue" => crate::parse_queue::queue(value)?,
        "loss" => Parameter::Loss(loss(value, base)?),
        "duplicate" => Parameter::Duplicate(value.quantity()?),
        "reorder" => {
            let table = value.table("{ p = \"1/100\", extra = \"20 ms\" }")?;
            table.only(&["p", "extra"])?;
            Parameter::Reorder(Reorder {
                p: table.need("p", "\"1/100\"")?.quantity()?,
                extra: table.need("extra", "\"20 ms\"")?.quantity()?,
            })
        }
        "corrupt" => Parameter::Corrupt(value.quantity()?),
        "outages" => Parameter::Outages(windows(value)?),
        "mtu" => Parameter::Mtu(Some(value.quantity()?)),
        _ => {
            let table = value.table("{ rate = \"5 Mbit/s\", burst = \"10 kB\" }")?;
            table.only(&["rate", "burst"])?;
            Parameter::Policer(Some(Policer {
                rate: table.need("rate", "\"5 Mbit/s\"")?.quantity::<Rate>()?,
                burst: table.need("burst", "\"10 kB\"")?.quantity::<Octets>()?,
            }))
        }
    })
}

/// `[{ at = "10 s", for = "30 s" }]`.
pub(crate) fn windows(value: &Value<'_>) -> Result<Windows, ScenarioError> {
    const EXAMPLE: &str = "[{ at = \"10 s\", for = \"30 s\" }]";
    let mut windows = Windows::new();
    for item in value.list("a list of outages", EXAMPLE)? {
        let table = item.table("{ at = \"10 s\", for = \"30 s\" }")?;
        table.only(&["at", "for"])?;
        let start = Instant::ZERO + table.need("at", "\"10 s\"")?.quantity::<Span>()?;
        windows.push((start, start + table.need("for", "\"30 s\"")?.quantity::<Span>()?));
    }
    Ok(windows)
}

/// The table of a loss model.
fn loss(value: &Value<'_>, base: &Path) -> Result<LossConfig, ScenarioError> {
    const KINDS: &[(&str, &str)] =
        &[("none", "none"), ("random", "random"), ("gilbert-elliott", "gilbert-elliott"), ("trace", "trace")];
    const PER: &[(&str, PerUnit)] = &[("packet", PerUnit::Packet), ("bit", PerUnit::Bit)];
    let table = value.table("{ kind = \"random\", p = \"1/20\" }")?;
    match word(&table.need("kind", "\"random\"")?, "kind of loss", KINDS, "\"random\"")? {
        "none" => {
            table.only(&["kind"])?;
            Ok(LossConfig::None)
        }
        "random" => {
            table.only(&["kind", "p"])?;
            Ok(LossConfig::Random { p: table.need("p", "\"1/20\"")?.quantity()? })
        }
        "gilbert-elliott" => {
            table.only(&["kind", "good", "bad", "in_good", "in_bad", "per"])?;
            let per = table.get("per").map(|v| word(&v, "loss unit", PER, "\"packet\"")).transpose()?;
            Ok(LossConfig::GilbertElliott {
                good: table.need("good", "\"380 ms\"")?.quantity()?,
                bad: table.need("bad", "\"20 ms\"")?.quantity()?,
                in_good: table.quantity("in_good")?.unwrap_or(Ratio::ZERO),
                in_bad: table.quantity("in_bad")?.unwrap_or(Ratio::ONE),
                per: per.unwrap_or_default(),
            })
        }
        _ => {
            table.only(&["kind", "file", "intervals", "frames"])?;
            trace(value, &table, base).map(LossConfig::Trace)
        }
    }
}

/// `file`, or the contents of such a file as `intervals` or `frames` (the form the Record uses, so that it is self-contained).
fn trace(value: &Value<'_>, table: &Table<'_>, base: &Path) -> Result<LossTrace, ScenarioError> {
    match (table.get("file"), table.get("intervals"), table.get("frames")) {
        (Some(file), None, None) => {
            let name = file.str("a path", "\"outages.txt\"")?;
            let path = base.join(name);
            let wrong = |why: String| file.impossible(format!("loss trace {}: {why}", path.shown()));
            let text = read_bounded(&path, TRACE_FILE_MAX)
                .map_err(|why| wrong(format!("cannot read it: {why}; the path counts from the scenario's folder")))?;
            trace_file(&text).map_err(wrong)
        }
        (None, Some(intervals), None) => windows(&intervals).map(LossTrace::Intervals),
        (None, None, Some(frames)) => {
            let list = frames.list("a list of frame numbers", "[3, 17]")?;
            list.iter().map(Value::whole).collect::<Result<_, _>>().map(LossTrace::Frames)
        }
        _ => Err(value.impossible(format!("{} needs exactly one of file, intervals and frames", value.path))),
    }
}

/// One entry per line: `3.2 s - 3.45 s` (lost interval) or `17` (number of a lost frame); `#` begins a comment.
fn trace_file(text: &str) -> Result<LossTrace, String> {
    let (mut intervals, mut frames) = (Windows::new(), Vec::new());
    for (i, line) in text.lines().enumerate() {
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let at = |why: String| format!("line {}: {why}", i + 1);
        match entry.split_once(" - ") {
            Some((start, stop)) => {
                let time = |t: &str| Span::parse(t.trim()).map(|s| Instant::ZERO + s).map_err(|e| at(e.to_string()));
                intervals.push((time(start)?, time(stop)?));
            }
            None => frames.push(entry.parse().map_err(|_| {
                at(format!("'{entry}' is neither a lost interval such as '3.2 s - 3.45 s' nor a frame number"))
            })?),
        }
    }
    match (intervals.is_empty(), frames.is_empty()) {
        (false, true) => Ok(LossTrace::Intervals(intervals)),
        (true, false) => Ok(LossTrace::Frames(frames)),
        (true, true) => Err("it holds no entry: leave loss out for a channel without loss".into()),
        (false, false) => Err("it mixes intervals and frame numbers: split it in two".into()),
    }
}

/// `{ at = "10 s", set = "air.forward.rate", to = "2 Mbit/s" }`.
pub(crate) fn change(scenario: &Scenario, value: &Value<'_>, base: &Base<'_>) -> Result<Change, ScenarioError> {
    let table = value.table("{ at = \"10 s\", set = \"air.forward.rate\", to = \"2 Mbit/s\" }")?;
    table.only(&["at", "set", "to"])?;
    let set = table.need("set", "\"air.forward.rate\"")?;
    let text = set.str("a parameter's path", "\"air.forward.rate\"")?;
    let parts: Vec<&str> = text.split('.').collect();
    let [channel, way, key] = parts.as_slice() else {
        return Err(
            set.impossible(format!("'{text}' is not CHANNEL.forward|reverse.PARAMETER, such as \"air.forward.rate\""))
        );
    };
    let unknown = |what: &str, word: &str, hint| {
        Err(Problem::UnknownWord { what: what.into(), word: word.into(), hint }.at(set.line))
    };
    match scenario.channel(channel).map(|c| &c.kind) {
        Some(ChannelKind::Cable(_)) => {}
        Some(ChannelKind::Wifi(_)) => {
            let why = format!("'{channel}' is a wifi channel, whose parameters do not change during a run yet");
            return Err(set.impossible(format!("{why}: remove this step, or change a cable")));
        }
        Some(_) => {
            let why = format!("the parameters of '{channel}' do not change during a run");
            return Err(set.impossible(format!("{why}: remove this step, or change a cable")));
        }
        None => {
            let names = scenario.channels.iter().map(|c| c.name.as_str());
            return unknown("channel", channel, crate::hint(channel, names));
        }
    }
    let direction = match *way {
        "forward" => Direction::Forward,
        "reverse" => Direction::Reverse,
        other => return unknown("direction", other, "use forward or reverse".into()),
    };
    if !DIRECTION_KEYS.contains(key) {
        return unknown("parameter", key, crate::hint(key, DIRECTION_KEYS.iter().copied()));
    }
    Ok(Change {
        at: table.need("at", "\"10 s\"")?.quantity()?,
        channel: (*channel).to_owned(),
        direction,
        parameter: parameter(key, &table.need("to", "\"2 Mbit/s\"")?, base)?,
    })
}
