//! A cable's queue: `queue = "100 packets"`, or a table that names its discipline; read and written.

use crate::ScenarioError;
use crate::word;
use crate::write::{text, unit};
use crate::{Table, Value};
use wavelane_base::{Octets, Span};
use wavelane_channel::wifi::StationQueue;
use wavelane_channel::{AqlTerms, Tins};
use wavelane_channel::{CoDelTimes, Discipline, Parameter, QueueLimit, Queueing};

/// The kinds of queue in files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fifo,
    TwoStage,
    CoDel,
    FqCoDel,
    Pie,
    DualPi2,
    Cake,
}

const KINDS: &[(&str, Kind)] = &[
    ("fifo", Kind::Fifo),
    ("two-stage", Kind::TwoStage),
    ("codel", Kind::CoDel),
    ("fq-codel", Kind::FqCoDel),
    ("pie", Kind::Pie),
    ("dualpi2", Kind::DualPi2),
    ("cake", Kind::Cake),
];
const EXAMPLE: &str = "{ kind = \"fq-codel\" }";

impl Kind {
    /// Keys that a table of this kind may have.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Fifo => &["kind", "limit"],
            Self::TwoStage => &["kind", "txqueuelen", "ring"],
            Self::CoDel | Self::FqCoDel => &["kind", "limit", "ring", "target", "interval"],
            Self::Cake => &["kind", "limit", "ring", "target", "interval", "tins"],
            Self::Pie | Self::DualPi2 => &["kind", "limit", "ring", "target"],
        }
    }
    /// Default queue limit, as in Linux.
    fn limit(self) -> QueueLimit {
        match self {
            Self::Fifo | Self::TwoStage | Self::CoDel | Self::Pie => QueueLimit::Packets(1_000),
            // RFC 8290, section 5.2.2; and `sch_dualpi2`.
            Self::FqCoDel | Self::Cake => QueueLimit::Packets(10_240),
            Self::DualPi2 => QueueLimit::Packets(10_000),
        }
    }
}

/// `"250 kB"`, `"100 packets"` or a table.
pub(crate) fn queue(value: &Value<'_>) -> Result<Parameter, ScenarioError> {
    if value.as_str().is_some() {
        return Ok(Parameter::Queue(limit(value)?));
    }
    let table = value.table(EXAMPLE)?;
    let kind = word(&table.need("kind", "\"fq-codel\"")?, "kind of queue", KINDS, "\"fq-codel\"")?;
    table.only(kind.keys())?;
    let limit_at = table.get(if kind == Kind::TwoStage { "txqueuelen" } else { "limit" });
    let limit = limit_at.map_or(Ok(kind.limit()), |value| limit(&value))?;
    let ring = match kind {
        Kind::TwoStage => packets(&table.need("ring", "\"256 packets\"")?)?,
        _ => table.get("ring").map_or(Ok(0), |value| packets(&value))?,
    };
    if kind == Kind::Fifo {
        return Ok(Parameter::Queue(limit));
    }
    Ok(Parameter::Queueing(limit, Queueing { discipline: discipline(&table, kind)?, ring }))
}

fn discipline(table: &Table<'_>, kind: Kind) -> Result<Discipline, ScenarioError> {
    Ok(match kind {
        Kind::Fifo | Kind::TwoStage => Discipline::Fifo,
        Kind::CoDel => Discipline::CoDel(times(table)?),
        Kind::FqCoDel => Discipline::FqCoDel(times(table)?),
        Kind::Pie => Discipline::Pie(table.quantity("target")?.unwrap_or(PI_TARGET)),
        Kind::Cake => Discipline::Cake(times(table)?, tins(table)?),
        Kind::DualPi2 => Discipline::DualPi2(table.quantity("target")?.unwrap_or(PI_TARGET)),
    })
}

/// The queue of a radio station: `"50 packets"`, or a table.
pub(crate) fn station(value: &Value<'_>) -> Result<StationQueue, ScenarioError> {
    if value.as_str().is_some() {
        let limit = QueueLimit::Packets(packets(value)?);
        return Ok(StationQueue { limit, discipline: Discipline::Fifo, airtime: false, ring: 0, aql: None });
    }
    let table = value.table(EXAMPLE)?;
    let kind_at = table.need("kind", "\"fq-codel\"")?;
    let kind = word(&kind_at, "kind of queue", KINDS, "\"fq-codel\"")?;
    let ring_at = table.get("ring");
    let drop_tail = matches!(kind, Kind::Fifo | Kind::TwoStage);
    if let Some(at) = ring_at.clone().filter(|_| drop_tail).or((kind == Kind::TwoStage).then_some(kind_at)) {
        let why = format!("{}: a station's drop-tail queue before a ring is drop-tail of both together", at.path);
        return Err(at.impossible(format!("{why}: leave ring out, name kind = \"fifo\" and add the ring to its limit")));
    }
    let keys: Vec<&str> = kind.keys().iter().copied().chain(["airtime", "aql"]).collect();
    table.only(&keys)?;
    let limit = table.get("limit").map_or(Ok(kind.limit()), |value| limit(&value))?;
    let airtime = table.get("airtime").map(|value| value.bool()).transpose()?.unwrap_or(false);
    let ring = ring_at.map_or(Ok(0), |value| packets(&value))?;
    let aql = table.get("aql").map_or(Ok(None), |value| aql(&value))?;
    Ok(StationQueue { limit, discipline: discipline(&table, kind)?, airtime, ring, aql })
}

/// `true`, or the limits that differ from Linux's.
fn aql(value: &Value<'_>) -> Result<Option<AqlTerms>, ScenarioError> {
    let usual = AqlTerms::default();
    if let Ok(limits) = value.bool() {
        return Ok(limits.then_some(usual));
    }
    let table =
        value.table("true, or { low = \"5 ms\", high = \"12 ms\", threshold = \"24 ms\", broadcast = \"50 ms\" }")?;
    table.only(&["low", "high", "threshold", "broadcast"])?;
    let of = |key, usual| Ok(table.quantity(key)?.unwrap_or(usual));
    Ok(Some(AqlTerms {
        low: of("low", usual.low)?,
        high: of("high", usual.high)?,
        threshold: of("threshold", usual.threshold)?,
        broadcast: of("broadcast", usual.broadcast)?,
    }))
}

/// The TOML value of a radio station's queue.
pub(crate) fn write_station(queue: &StationQueue) -> String {
    let words = write(queue.limit, Queueing { discipline: queue.discipline, ring: queue.ring });
    let Some(open) = words.strip_suffix(" }").filter(|_| queue.airtime) else { return words };
    let aql = queue.aql.map_or(String::new(), |AqlTerms { low, high, threshold, broadcast }| {
        let [low, high, threshold, broadcast] = [low, high, threshold, broadcast].map(|limit| unit(&limit));
        format!(", aql = {{ low = {low}, high = {high}, threshold = {threshold}, broadcast = {broadcast} }}")
    });
    format!("{open}, airtime = true{aql} }}")
}

/// Target delay of PIE and DualPI2 (RFC 8033, section 4.1; RFC 9332, appendix A.1).
const PI_TARGET: Span = Span::from_millis(15);

fn times(table: &Table<'_>) -> Result<CoDelTimes, ScenarioError> {
    let usual = CoDelTimes::default();
    let target = table.quantity("target")?.unwrap_or(usual.target);
    Ok(CoDelTimes { target, interval: table.quantity("interval")?.unwrap_or(usual.interval) })
}

/// Names of CAKE's tin modes (tc-cake(8)).
const TINS: &[(&str, Tins)] =
    &[("besteffort", Tins::BestEffort), ("diffserv3", Tins::Diffserv3), ("diffserv4", Tins::Diffserv4)];

fn tins(table: &Table<'_>) -> Result<Tins, ScenarioError> {
    let usual = Tins::default();
    table.get("tins").map_or(Ok(usual), |value| word(&value, "set of tins", TINS, "\"diffserv3\""))
}

/// `"250 kB"` or `"100 packets"`.
fn limit(value: &Value<'_>) -> Result<QueueLimit, ScenarioError> {
    match counted(value) {
        Some(packets) => Ok(QueueLimit::Packets(packets)),
        None => value.quantity::<Octets>().map(QueueLimit::Octets),
    }
}

fn counted(value: &Value<'_>) -> Option<u64> {
    value.as_str().and_then(|text| text.strip_suffix(" packets")).and_then(|n| n.parse().ok())
}

fn packets(value: &Value<'_>) -> Result<u64, ScenarioError> {
    let text = value.str("a number of packets", "\"256 packets\"")?;
    let wrong =
        || value.impossible(format!("{}: '{text}' is no number of packets, such as \"256 packets\"", value.path));
    counted(value).ok_or_else(wrong)
}

/// The TOML value of a queue.
pub(crate) fn write(limit: QueueLimit, queueing: Queueing) -> String {
    let limit = match limit {
        QueueLimit::Octets(octets) => unit(&octets),
        QueueLimit::Packets(packets) => text(&format!("{packets} packets")),
        QueueLimit::Bounded => unit(&wavelane_channel::cable::QUEUE_DEFAULT),
    };
    let ring = format!("ring = \"{} packets\"", queueing.ring);
    let with_ring = |words: String| if queueing.ring > 0 { format!("{words}, {ring} }}") } else { words + " }" };
    let codel = |kind: &str, times: CoDelTimes| {
        let (target, interval) = (unit(&times.target), unit(&times.interval));
        with_ring(format!("{{ kind = \"{kind}\", limit = {limit}, target = {target}, interval = {interval}"))
    };
    let pi = |kind: &str, target: Span| {
        with_ring(format!("{{ kind = \"{kind}\", limit = {limit}, target = {}", unit(&target)))
    };
    match queueing.discipline {
        Discipline::Fifo if queueing.ring == 0 => limit,
        Discipline::Fifo => format!("{{ kind = \"two-stage\", txqueuelen = {limit}, {ring} }}"),
        Discipline::CoDel(times) => codel("codel", times),
        Discipline::FqCoDel(times) => codel("fq-codel", times),
        Discipline::Pie(target) => pi("pie", target),
        Discipline::DualPi2(target) => pi("dualpi2", target),
        Discipline::Cake(times, tins) => {
            let named = TINS.iter().find(|(_, known)| *known == tins).map_or("", |(name, _)| name);
            let text = codel("cake", times);
            text.strip_suffix(" }").map_or(text.clone(), |open| format!("{open}, tins = \"{named}\" }}"))
        }
    }
}
