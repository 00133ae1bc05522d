//! The JSON document of a run, and reading a Record directory back.

use crate::figures::{self, FlowFigures, RunTotals};
use crate::schema::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wavelane_base::text::ShownPath;
use wavelane_scenario::{CATEGORIES, STACKS, Scenario};

/// The format's name and version in `record.json`.
pub const RUN_FORMAT: &str = "wavelane-run/1";
/// Largest `record.json` that is read back.
const RECORD_MAX: u64 = 256 << 20;
/// Keys of the top level.
const KEYS: [&str; 13] = [
    "format", "scenario", "title", "backend", "seed", "repeat", "verdict", "omitted", "clauses", "stacks", "checks",
    "rerun", "record",
];
/// Largest series file that is read back.
const SERIES_MAX: u64 = 1 << 30;

/// How something was judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// The run cannot tell.
    Inconclusive,
    /// Reported, not judged.
    Info,
}

impl Verdict {
    /// The total: fail if any fails, else inconclusive if any is, else pass if any passes. Where nothing was judged, info.
    pub fn total(all: impl IntoIterator<Item = Self>) -> Self {
        let worst = |total, v| match (total, v) {
            (Self::Fail, _) | (_, Self::Fail) => Self::Fail,
            (Self::Inconclusive, _) | (_, Self::Inconclusive) => Self::Inconclusive,
            (Self::Pass, _) | (_, Self::Pass) => Self::Pass,
            (Self::Info, Self::Info) => Self::Info,
        };
        all.into_iter().fold(Self::Info, worst)
    }
    /// Its word in the document.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
            Self::Info => "info",
        }
    }
}

/// The JSON document of a run (`record.json`, and what `--json` prints). Keys stand in this order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunDocument {
    /// The format's name and version.
    #[schemars(extend("const" = RUN_FORMAT))]
    pub format: String,
    /// The scenario file's stem.
    pub scenario: String,
    /// Its title.
    pub title: String,
    /// `sim` or `lab`.
    #[schemars(extend("enum" = ["sim", "lab"]))]
    pub backend: String,
    /// The first seed.
    pub seed: u64,
    /// How many seeds, counting up from the first.
    #[schemars(extend("minimum" = 1, "maximum" = crate::drive::REPEAT_MAX))]
    pub repeat: u32,
    /// The total over the checks.
    pub verdict: Verdict,
    /// Stacks that the backend cannot run.
    pub omitted: Vec<Omitted>,
    /// Clauses the backend honours nearly or not at all.
    pub clauses: Vec<ClauseNote>,
    /// Results by stack, in the scenario's order.
    #[schemars(extend("minItems" = 1))]
    pub stacks: Vec<StackResult>,
    /// Verdicts, in the scenario's order.
    pub checks: Vec<CheckResult>,
    /// The command that repeats this run.
    pub rerun: String,
    /// The Record's directory.
    pub record: String,
}

/// A stack that was not run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    /// Its word.
    #[schemars(extend("enum" = words(&STACKS)))]
    pub stack: String,
    /// Why.
    pub why: String,
}

/// A clause that was not imposed as written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClauseNote {
    /// Where it stands in the file.
    pub clause: String,
    /// `approximated` or `omitted`.
    #[schemars(extend("enum" = ["approximated", "omitted"]))]
    pub treatment: String,
    /// Why.
    pub why: String,
}

/// What one stack gave, over all seeds.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StackResult {
    /// Its word.
    #[schemars(extend("enum" = words(&STACKS)))]
    pub stack: String,
    /// IP bytes offered to the bad channel over delivered bytes.
    pub wire_bytes_per_delivered_byte: Option<f64>,
    /// Repair bytes over first transmissions.
    pub repair_share: Option<f64>,
    /// Processor seconds of the gateways' or the peer's processes per 10^9 delivered bytes; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s_per_gb: Option<f64>,
    /// The whole machine's busy seconds per 10^9 delivered bytes, ends and channels included; absent in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_s_per_gb: Option<f64>,
    /// Why its runs are inconclusive, if they are.
    pub inconclusive: Option<String>,
    /// Per flow and seed: by seed, then in the scenario's order.
    pub flows: Vec<FlowFigures>,
    /// Per cable between gateways, direction and seed, in the same order; absent where nobody counts them apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<WayFigures>,
    /// Per radio cell and seed, in the same order; absent where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub radios: Vec<RadioFigures>,
    /// Per direction of a serial line and seed, in the same order; absent where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineFigures>,
    /// Per endpoint and seed; absent where no kernel plays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelFigures>,
    /// Per seed; absent where the gateways carry no packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<PacketFigures>,
    /// Per seed: the sums that the figures of all seeds are made of. Absent in records that were written before there were any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunTotals>,
}

impl StackResult {
    /// What one seed gave, if the record keeps each seed's sums.
    pub(crate) fn of_seed(&self, seed: u64) -> Option<Self> {
        fn of<T: Clone>(all: &[T], is_of: impl Fn(&T) -> bool) -> Vec<T> {
            all.iter().filter(|one| is_of(one)).cloned().collect()
        }
        let runs = of(&self.runs, |r| r.seed == seed);
        (runs.len() == 1).then(|| Self {
            stack: self.stack.clone(),
            flows: of(&self.flows, |f| f.seed == seed),
            ways: of(&self.ways, |w| w.seed == seed),
            radios: of(&self.radios, |r| r.seed == seed),
            lines: of(&self.lines, |l| l.seed == seed),
            kernels: of(&self.kernels, |k| k.seed == seed),
            packets: of(&self.packets, |p| p.seed == seed),
            runs,
            ..Self::default()
        })
    }
    /// The results of several seeds as one, with the figures that are over all of them.
    pub(crate) fn of_all(stack: &str, parts: Vec<Self>) -> Self {
        let mut all = Self { stack: stack.to_owned(), ..Self::default() };
        for part in parts {
            all.flows.extend(part.flows);
            all.ways.extend(part.ways);
            all.radios.extend(part.radios);
            all.lines.extend(part.lines);
            all.kernels.extend(part.kernels);
            all.packets.extend(part.packets);
            all.runs.extend(part.runs);
        }
        all.wire_bytes_per_delivered_byte = figures::wire_bytes_per_delivered_byte(&all.runs);
        all.repair_share = figures::repair_share(&all.runs);
        all.cpu_s_per_gb = figures::seconds_per_gb(&all.runs, |r| r.cpu_s);
        all.machine_s_per_gb = figures::seconds_per_gb(&all.runs, |r| r.machine_s);
        all.inconclusive = all.runs.iter().find_map(|r| r.inconclusive.clone());
        all
    }
}

/// What was offered to one direction of a cable between gateways in one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WayFigures {
    /// The channel.
    pub channel: String,
    /// `forward` or `reverse`.
    #[schemars(extend("enum" = ["forward", "reverse"]))]
    pub way: String,
    /// The run's seed.
    pub seed: u64,
    /// IP bytes, before loss.
    pub offered_bytes: u64,
}

/// What one direction of a serial line did in one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LineFigures {
    /// The channel.
    pub channel: String,
    /// `forward` or `reverse`.
    #[schemars(extend("enum" = ["forward", "reverse"]))]
    pub way: String,
    /// The run's seed.
    pub seed: u64,
    /// Packets handed in.
    pub packets: u64,
    /// Their bytes.
    pub packet_bytes: u64,
    /// Packets for which the queue had no room.
    pub full: u64,
    /// Packets that came before PPP was up.
    pub down: u64,
    /// Packets longer than the MTU.
    pub too_long: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes of their frames on the line.
    pub sent_bytes: u64,
    /// Whole packets at the other end.
    pub received: u64,
    /// Frames there that were no packet.
    pub bad: u64,
    /// Bytes that noise changed or took.
    pub noise: u64,
    /// Bytes for which the receiver's FIFO had no room.
    pub overrun: u64,
}

/// What the kernel of one endpoint counted of TCP in one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct KernelFigures {
    /// The node.
    pub node: String,
    /// The run's seed.
    pub seed: u64,
    /// Segments sent, those that hold only repeats left out, pure acknowledgements included.
    pub segments_sent: u64,
    /// Segments sent again.
    pub segments_repeated: u64,
}

/// What the packet service of all gateways together counted in one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PacketFigures {
    /// The run's seed.
    pub seed: u64,
    /// Packets sent for the first time.
    pub packets_sent: u64,
    /// Repeats of packets or of pieces of them.
    pub packets_repeated: u64,
    /// Repeats of what had arrived.
    pub packets_spurious: u64,
}

/// What the stations of one radio cell did in one run, all together, per second of the whole run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RadioFigures {
    /// The channel.
    pub channel: String,
    /// The run's seed.
    pub seed: u64,
    /// Frames of all kinds sent.
    pub frames_per_s: f64,
    /// Data frames sent, repetitions counted.
    pub data_per_s: f64,
    /// RTS frames sent.
    pub rts_per_s: f64,
    /// Data frames whose ACK did not come.
    pub ack_missing_per_s: f64,
    /// RTS frames whose CTS did not come.
    pub cts_missing_per_s: f64,
    /// Frames given up after their last try.
    pub given_up_per_s: f64,
    /// Frames that found a queue full.
    pub queue_full_per_s: f64,
    /// Where queues are managed: frames that they dropped to hold the delay down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_delay_per_s: Option<f64>,
    /// With EDCA: by access category, lowest priority first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryFigures>,
    /// With bit errors: the share of data frames lost to them that were sent without error correction, of those that no
    /// other frame met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maximum" = 1))]
    pub uncoded_loss: Option<f64>,
    /// The same of frames sent with error correction: its residual loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maximum" = 1))]
    pub coded_loss: Option<f64>,
    /// The share of these data frames that was sent with error correction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maximum" = 1))]
    pub coded_share: Option<f64>,
}

/// What became of the frames of one access category in a radio cell, per second of the whole run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CategoryFigures {
    /// Its word in files.
    #[schemars(extend("enum" = words(CATEGORIES)))]
    pub category: String,
    /// IP bits that arrived, each hop counted.
    pub delivered_bps: f64,
    /// Data frames sent, repetitions counted.
    pub data_per_s: f64,
    /// Data frames whose ACK did not come.
    pub ack_missing_per_s: f64,
    /// Times that it gave way to a higher category of its station.
    pub gave_way_per_s: f64,
    /// Frames given up after their last try.
    pub given_up_per_s: f64,
    /// Frames that found a queue full.
    pub queue_full_per_s: f64,
    /// Where queues are managed: frames that they dropped to hold the delay down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_delay_per_s: Option<f64>,
}

/// A judged check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CheckResult {
    /// Its name.
    pub check: String,
    /// How it went.
    pub verdict: Verdict,
    /// The numbers behind it.
    pub why: String,
}

/// Why a Record cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// There is none, or it is damaged.
    #[error("{}: {why}; name a directory that `wavelane run` wrote", path.shown())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Two columns of one flow of one run: arrivals as (ns, bytes), or probes as (ns, delay in ns or nothing if lost).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Series {
    /// Of a bulk flow.
    Arrivals(Vec<(u64, u64)>),
    /// Of an echo.
    Probes(Vec<(u64, Option<u64>)>),
    /// Of a fetch: (connect() in ns, time to the last byte in ns or nothing if it did not end).
    Fetches(Vec<(u64, Option<u64>)>),
}

impl RunDocument {
    /// Reads `record.json` of a Record directory.
    pub fn load(record: &Path) -> Result<Self, RecordError> {
        let path = record.join("record.json");
        let wrong = |why: String| RecordError::Unreadable { path: path.clone(), why };
        crate::draft::recover_record(record).map_err(|e| wrong(e.to_string()))?;
        let text = wavelane_scenario::read_regular(&path, RECORD_MAX).map_err(wrong)?;
        let document: Self =
            serde_json::from_str(&text).map_err(|e| wrong(format!("it is damaged ({e}): run it again")))?;
        if document.format != RUN_FORMAT {
            return Err(wrong(format!("its format is '{}', this program reads '{RUN_FORMAT}'", document.format)));
        }
        if document.repeat == 0 {
            return Err(wrong("its repeat is 0, and a record has one run or more".into()));
        }
        Ok(document)
    }
    /// Top-level keys of `record.json` that this version does not know: a newer one may add some, and they are ignored.
    pub fn unknown_keys(record: &Path) -> Vec<String> {
        let text = wavelane_scenario::read_regular(&record.join("record.json"), RECORD_MAX).unwrap_or_default();
        let keys: BTreeMap<String, serde::de::IgnoredAny> = serde_json::from_str(&text).unwrap_or_default();
        keys.into_keys().filter(|key| !KEYS.contains(&key.as_str())).collect()
    }
    /// Refuses stacks, flows and seeds that the record's `scenario` does not have.
    pub fn check_against(&self, record: &Path, scenario: &Scenario) -> Result<(), RecordError> {
        let path = record.join("record.json");
        let stray = |what: &str, name: &str| RecordError::Unreadable {
            path: path.clone(),
            why: format!("it names the {what} '{name}', which its scenario.toml does not have: was it edited?"),
        };
        for stack in &self.stacks {
            if !scenario.stacks.iter().any(|s| s.word() == stack.stack) {
                return Err(stray("stack", &stack.stack));
            }
            if let Some(flow) = stack.flows.iter().find(|flow| scenario.flow(&flow.flow).is_none()) {
                return Err(stray("flow", &flow.flow));
            }
        }
        match self.checks.iter().find(|check| !scenario.checks.iter().any(|c| c.name == check.check)) {
            Some(check) => Err(stray("check", &check.check)),
            None => Ok(()),
        }
    }
    /// The document as it stands in `record.json`: two spaces of indent, a newline at the end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("the document has text keys and finite numbers only");
        text + "\n"
    }
    /// Prefix of a run's files in `series/` and `pcap/`: `STACK`, or `STACK-SEED` if there are several seeds.
    pub fn label(&self, stack: &str, seed: u64) -> String {
        label(stack, seed, self.repeat)
    }
    /// Reads `series/LABEL-FLOW.csv`.
    pub fn series(&self, record: &Path, stack: &str, figures: &FlowFigures) -> Result<Series, RecordError> {
        let name = format!("{}-{}.csv", self.label(stack, figures.seed), figures.flow);
        if name.contains('/') {
            let why = "its record.json names it with a '/'".into();
            return Err(RecordError::Unreadable { path: record.join("series"), why });
        }
        let path = record.join("series").join(name);
        let wrong = |why: String| RecordError::Unreadable { path: path.clone(), why };
        let text = wavelane_scenario::read_regular(&path, SERIES_MAX).map_err(wrong)?;
        parse_series(&text).map_err(wrong)
    }
}

pub(crate) fn label(stack: &str, seed: u64, repeat: u32) -> String {
    if repeat > 1 { format!("{stack}-{seed}") } else { stack.to_owned() }
}

const ARRIVALS_HEAD: &str = "t_ns,bytes";
const PROBES_HEAD: &str = "sent_ns,rtt_ns";
const FETCHES_HEAD: &str = "connect_ns,total_ns";

/// A flow's series as CSV with a head line.
pub(crate) fn series_csv(raw: &crate::FlowRaw, is_bulk: bool) -> String {
    use core::fmt::Write;
    let head = match raw.app {
        "fetch" | "web" => FETCHES_HEAD,
        _ if is_bulk => ARRIVALS_HEAD,
        _ => PROBES_HEAD,
    };
    let mut out = format!("{head}\n");
    if is_bulk {
        for (t, bytes) in &raw.arrivals {
            let _ = writeln!(out, "{t},{bytes}");
        }
    } else {
        for probe in &raw.probes {
            let rtt = probe.rtt_ns.map(|r| r.to_string()).unwrap_or_default();
            let _ = writeln!(out, "{},{rtt}", probe.sent_ns);
        }
        for fetch in &raw.fetches {
            let total = fetch.total_ns.map(|t| t.to_string()).unwrap_or_default();
            let _ = writeln!(out, "{},{total}", fetch.connect_ns);
        }
    }
    out
}

fn parse_series(text: &str) -> Result<Series, String> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let number = |t: &str| t.parse::<u64>().map_err(|e| format!("'{t}': {e}"));
    let mut pairs = Vec::new();
    for line in lines {
        let (a, b) = line.split_once(',').ok_or_else(|| format!("'{line}' has no comma"))?;
        pairs.push((number(a)?, if b.is_empty() { None } else { Some(number(b)?) }));
    }
    match head {
        ARRIVALS_HEAD => Ok(Series::Arrivals(pairs.into_iter().map(|(t, b)| (t, b.unwrap_or(0))).collect())),
        PROBES_HEAD => Ok(Series::Probes(pairs)),
        FETCHES_HEAD => Ok(Series::Fetches(pairs)),
        _ => Err(format!("unknown columns '{head}'")),
    }
}
