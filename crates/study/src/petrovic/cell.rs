//! One cell of the study as a scenario, and what is taken of its runs.

use super::quoted::Column;
use crate::StudyError;
use crate::observe::{short, simulate};
use core::fmt::Write;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_measure::jain;
use wavelane_measure::percentile;
use wavelane_run::figures::of_run;
use wavelane_run::{RunError, StackRaw};
use wavelane_scenario::Scenario;

/// Bulk flows count from here on, in seconds.
const WARM_UP_S: u64 = 5;
/// Windows in which fairness is looked at, in seconds.
const FAIR_S: u64 = 10;
/// A node with less than this share of the mean is starved.
const STARVED: f64 = 0.1;
/// Calls of the voice cell, both ways each.
pub(super) const CALLS: u32 = 7;

/// Which year's timers and retry limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Profile {
    /// ns-2 of 2001 with an RTS given up after 4 tries: fitted to the document.
    Y2001,
    /// Today's least timeouts, and the standard's MAC with its retry limits.
    Modern,
    /// A cell of today ([`super::today`]), with CUBIC.
    Cubic,
    /// The same with BBR.
    Bbr,
}

impl Profile {
    pub(super) const BOTH: [Self; 2] = [Self::Y2001, Self::Modern];
    pub(super) const TODAY: [Self; 2] = [Self::Cubic, Self::Bbr];
    /// The word in rows.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Y2001 => "2001",
            Self::Modern => "modern",
            Self::Cubic | Self::Bbr => "today",
        }
    }
    /// The stack, but for RTS/CTS.
    pub(super) fn stack(self) -> &'static str {
        match self {
            Self::Y2001 => "tcp-2001",
            Self::Modern => "tcp-reno",
            Self::Cubic => "tcp-cubic",
            Self::Bbr => "tcp-bbr",
        }
    }
    pub(super) fn is_today(self) -> bool {
        Self::TODAY.contains(&self)
    }
    /// The reading of the document that belongs to it.
    pub(super) fn reading(self) -> Reading {
        let modern = self != Self::Y2001;
        Reading {
            word: "default",
            uplink: false,
            errors: Some("station"),
            code: RS_31_22,
            all_frames: false,
            feedback_ms: 0,
            rts_tries: if modern { 7 } else { 4 },
            rto_initial_ms: if modern { 1_000 } else { 6_000 },
            rules: if modern { "standard" } else { "ns2-2001" },
        }
    }
}

/// Bit errors left in the bad state by codes of rate 0.71 (the document names the rate alone), and a real code.
pub(super) const RS_31_22: &str = "kind = \"residual\", ber = \"0.00057\"";
pub(super) const RS_63_45: &str = "kind = \"residual\", ber = \"0.000098\"";
pub(super) const RS_255_181: &str = "kind = \"residual\", ber = \"0.0000016\"";
const RESIDUAL_3E_3: &str = "kind = \"residual\", ber = \"0.003\"";
const BLOCKS: &str = "kind = \"reed-solomon\", length = 255, data = 181";

/// What the document leaves open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reading {
    pub(super) word: &'static str,
    /// Bulk goes to the base station.
    pub(super) uplink: bool,
    /// Who shares a process of bit errors; `None` is no errors.
    pub(super) errors: Option<&'static str>,
    pub(super) code: &'static str,
    /// Control frames are coded too.
    pub(super) all_frames: bool,
    /// Delay after which the sender knows the state.
    pub(super) feedback_ms: u32,
    /// Tries of an RTS.
    pub(super) rts_tries: u32,
    pub(super) rto_initial_ms: u32,
    /// Rules of the MAC.
    pub(super) rules: &'static str,
}

/// A change of the default reading.
type Switch = (&'static str, fn(&mut Reading));

/// Every reading beside the default one.
pub(super) const SWITCHES: [Switch; 13] = [
    ("uplink", |r| r.uplink = true),
    ("one channel for all", |r| r.errors = Some("cell")),
    ("own channel per receiver", |r| r.errors = Some("receiver")),
    ("residual 9.8e-5", |r| r.code = RS_63_45),
    ("residual 1.6e-6", |r| r.code = RS_255_181),
    ("residual 3e-3", |r| r.code = RESIDUAL_3E_3),
    ("RS(255,181) by blocks", |r| r.code = BLOCKS),
    ("coded control frames", |r| r.all_frames = true),
    ("state known 20 ms late", |r| r.feedback_ms = 20),
    ("RTS tried 7 times", |r| r.rts_tries = 7),
    ("initial timeout 3 s", |r| r.rto_initial_ms = 3_000),
    ("MAC of the standard", |r| r.rules = "standard"),
    ("no errors", |r| r.errors = None),
];

/// The reading that a switch makes of the profile's.
pub(super) fn switched(profile: Profile, (word, change): &Switch) -> Reading {
    let mut reading = Reading { word, ..profile.reading() };
    change(&mut reading);
    reading
}

/// Who sends what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Traffic {
    /// A bulk flow to each node.
    Bulk,
    /// A reader of pages at each node.
    Web,
    /// Seven calls and a bulk flow.
    Voice,
}

/// One cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) traffic: Traffic,
    pub(super) profile: Profile,
    pub(super) reading: Reading,
    pub(super) nodes: u32,
    /// Of a segment, or of a voice datagram.
    pub(super) size: u32,
    /// Segments.
    pub(super) window: u32,
    pub(super) column: Column,
    /// How long it is measured.
    pub(super) seconds: u64,
    pub(super) seeds: u64,
}

/// Figures of one run, by name.
pub(super) type Figures = BTreeMap<String, f64>;

impl Cell {
    /// A word for a file.
    pub(super) fn name(&self) -> String {
        let plain = |text: &str| text.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let traffic = format!("{:?}", self.traffic).to_lowercase();
        let profile = match self.profile {
            Profile::Y2001 | Profile::Modern => self.profile.word().to_owned(),
            Profile::Cubic | Profile::Bbr => format!("today-{}", self.profile.stack()),
        };
        let Self { nodes, size, window, .. } = self;
        format!(
            "{traffic}-{profile}-{}-{nodes}-nodes-{size}-b-w{window}-{}",
            plain(self.reading.word),
            plain(self.column.word())
        )
    }

    /// The stack's word.
    pub(super) fn stack(&self) -> String {
        format!("{}{}", self.profile.stack(), if self.column.rts { "+rts" } else { "" })
    }

    pub(super) fn lasts_s(&self) -> u64 {
        self.seconds + if self.traffic == Traffic::Bulk { WARM_UP_S } else { 0 }
    }

    /// How long it takes, roughly: small frames are many.
    pub(super) fn cost(&self) -> f64 {
        self.lasts_s() as f64 * self.seeds as f64 * (1.0 + 300.0 / f64::from(self.size))
    }

    /// Its scenario.
    pub(super) fn text(&self) -> String {
        if self.profile.is_today() {
            return super::today::text(self);
        }
        let Reading { uplink, errors, code, all_frames, feedback_ms, rts_tries, rto_initial_ms, rules, .. } =
            self.reading;
        let segment = if self.traffic == Traffic::Voice { 1_500 } else { self.size };
        let mut out = format!("title = \"{}\"\nduration = \"{} s\"\n", self.name(), self.lasts_s());
        let _ = write!(
            out,
            "stacks = [\"{}\"]\n[tcp]\nsegment = \"{segment} B\"\nwindow = \"{} B\"\nrto-initial = \"{rto_initial_ms} ms\"\n",
            self.stack(),
            segment * self.window
        );
        out += match self.profile {
            // ns-2 opened with one segment, whatever RFC 2581 allowed.
            Profile::Y2001 => "initial-window = 1\n",
            // Without time stamps, so that headers are the document's 40 bytes.
            _ => "rto-min = \"200 ms\"\nack-every = 1\ntimestamps = false\n",
        };
        out += "[nodes]\nhost = \"endpoint\"\nap = \"router\"\n";
        let stations: Vec<String> = (1..=self.nodes).map(|s| format!("s{s}")).collect();
        for s in &stations {
            let _ = writeln!(out, "{s} = \"endpoint\"");
        }
        out += "[channels.wire]\nbetween = [\"host\", \"ap\"]\nreverse = \"same\"\n\
                forward = { rate = \"5 Mbit/s\", delay = \"2 ms\", queue = \"50 packets\" }\n";
        let names: Vec<String> = stations.iter().map(|s| format!("\"{s}\"")).collect();
        // Tries of an RTS and of a data frame without one count as short ones, tries of a data frame after an RTS as long ones.
        let short = if self.column.rts { rts_tries } else { 7 };
        let _ = write!(
            out,
            "[channels.air]\nkind = \"wifi\"\nnodes = [\"ap\", {}]\nphy = \"dsss\"\nrate = \"2 Mbit/s\"\n\
             rules = \"{rules}\"\nretry = {{ short = {short}, long = 4 }}\nqueue = \"50 packets\"\n",
            names.join(", ")
        );
        if let Some(per) = errors {
            let hub = if per == "station" { ", hub = \"ap\"" } else { "" };
            let _ = writeln!(
                out,
                "errors = {{ good = \"100 ms\", bad = \"33300 us\", in_good = \"0.000001\", in_bad = \"0.01\", \
                 per = \"{per}\"{hub} }}"
            );
            if self.column.fec {
                let frames = if all_frames { "all" } else { "data" };
                let _ = writeln!(out, "fec = {{ {code}, frames = \"{frames}\", feedback = \"{feedback_ms} ms\" }}");
            }
        }
        let voice = self.traffic == Traffic::Voice;
        let start_ms = |node: u32| if voice { 100 } else { 10 * (node - 1) };
        out + &self.flows(uplink, "webtraf-2001", "", start_ms)
    }

    /// Its flows, with a model of pages, what more a call has, and when the bulk flow of a node begins.
    pub(super) fn flows(&self, uplink: bool, web: &str, call: &str, start_ms: impl Fn(u32) -> u32) -> String {
        let Self { traffic, nodes, size, .. } = *self;
        let flow = |name: &str, node: u32, app: &str, up: bool, more: &str| {
            let station = format!("s{node}");
            let (from, to) = if up { (station.as_str(), "host") } else { ("host", station.as_str()) };
            format!("[flows.{name}{node}]\napp = \"{app}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{more}\n")
        };
        let bulk = |node: u32| flow("bulk", node, "upload", uplink, &format!("start = \"{} ms\"", start_ms(node)));
        let call = format!("size = \"{size} B\"\n{call}");
        let calls = |node: u32| flow("up", node, "voice", true, &call) + &flow("down", node, "voice", false, &call);
        match traffic {
            Traffic::Bulk => (1..=nodes).map(bulk).collect(),
            Traffic::Web => {
                (1..=nodes).map(|node| flow("web", node, "web", true, &format!("model = \"{web}\""))).collect()
            }
            Traffic::Voice => bulk(CALLS + 1) + &(1..=CALLS).map(calls).collect::<String>(),
        }
    }

    /// Nodes of a cell with this traffic, in the document.
    pub(super) fn nodes_of(traffic: Traffic) -> u32 {
        match traffic {
            Traffic::Bulk => 5,
            Traffic::Web => 10,
            Traffic::Voice => CALLS + 1,
        }
    }

    /// Runs it with its seeds.
    pub(super) fn run(&self, first_seed: u64, cancelled: &AtomicBool) -> Result<Vec<Figures>, StudyError> {
        (first_seed..first_seed + self.seeds).map(|seed| self.simulate(seed, cancelled)).collect()
    }

    /// Runs it with one seed.
    pub(super) fn simulate(&self, seed: u64, cancelled: &AtomicBool) -> Result<Figures, StudyError> {
        let mut scenario = Scenario::parse(&self.text(), Path::new("."))?;
        scenario.seed = Seed(seed);
        let Some(&stack) = scenario.stacks.first() else {
            return Err(RunError::Refused("a cell without a stack".into()).into());
        };
        let raw = simulate(&scenario, stack, cancelled)?;
        let mut figures = match self.traffic {
            Traffic::Bulk => self.bulk(&raw),
            Traffic::Web => web(&raw),
            Traffic::Voice => self.voice(&scenario, &raw),
        };
        figures.retain(|_, value| value.is_finite());
        figures.values_mut().for_each(|value| *value = short(*value));
        Ok(figures)
    }

    /// Bytes that each bulk flow delivered between two times.
    fn delivered(raw: &StackRaw, (from, until): (u64, u64)) -> Vec<f64> {
        let of = |arrivals: &[(u64, u64)]| -> u64 {
            let within = |(at, _): &&(u64, u64)| (from * 1_000_000_000..until * 1_000_000_000).contains(at);
            arrivals.iter().filter(within).map(|(_, octets)| octets).sum()
        };
        raw.flows.iter().filter(|f| f.app == "upload").map(|f| of(&f.arrivals) as f64).collect()
    }

    fn bulk(&self, raw: &StackRaw) -> Figures {
        let end = WARM_UP_S + self.seconds;
        let nodes: Vec<f64> =
            Self::delivered(raw, (WARM_UP_S, end)).iter().map(|octets| octets * 8e-3 / self.seconds as f64).collect();
        let mut figures = Figures::from([("total_kbps".to_owned(), nodes.iter().sum())]);
        // The order of the nodes is chance: they are compared by rank.
        let mut ranked = nodes.clone();
        ranked.sort_by(|a, b| b.total_cmp(a));
        figures.extend(ranked.iter().enumerate().map(|(i, kbps)| (format!("rank{}_kbps", i + 1), *kbps)));
        figures.extend(jain(&nodes).map(|index| ("jain".to_owned(), index)));
        let parts = (WARM_UP_S..end).step_by(FAIR_S as usize);
        let parts: Vec<Vec<f64>> = parts.map(|from| Self::delivered(raw, (from, from + FAIR_S))).collect();
        let worst = parts.iter().filter_map(|part| jain(part)).min_by(f64::total_cmp);
        figures.extend(worst.map(|index| ("jain_worst_10s".to_owned(), index)));
        let starved = parts.iter().flat_map(|part| {
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            part.iter().filter(move |octets| **octets < STARVED * mean)
        });
        figures.insert("starved_10s".to_owned(), starved.count() as f64);
        figures
    }

    fn voice(&self, scenario: &Scenario, raw: &StackRaw) -> Figures {
        let kbps = Self::delivered(raw, (0, self.seconds)).iter().sum::<f64>() * 8e-3 / self.seconds as f64;
        let mut figures = Figures::from([("bulk_kbps".to_owned(), kbps)]);
        let flows = of_run(scenario, raw, scenario.seed);
        let calls: Vec<_> = flows.iter().filter_map(|f| f.voice.as_ref()).collect();
        let sum = |of: fn(&wavelane_run::figures::VoiceFigures) -> u64| calls.iter().map(|c| of(c)).sum::<u64>() as f64;
        let mean = |of: fn(&wavelane_run::figures::VoiceFigures) -> Option<f64>| {
            let values: Vec<f64> = calls.iter().filter_map(|c| of(c)).collect();
            wavelane_measure::mean(&values)
        };
        let sent = sum(|c| c.sent);
        figures.insert("loss_percent".to_owned(), 100.0 * (sum(|c| c.lost) + sum(|c| c.late)) / sent);
        figures.insert("late_percent".to_owned(), 100.0 * sum(|c| c.late) / sent);
        let means: [(&str, Option<f64>); 5] = [
            ("delay_p50_ms", mean(|c| c.delay_p50_ms)),
            ("delay_p95_ms", mean(|c| c.delay_p95_ms)),
            ("delay_p99_ms", mean(|c| c.delay_p99_ms)),
            ("jitter_ms", mean(|c| c.jitter_ms)),
            ("mos", mean(|c| c.mos)),
        ];
        figures.extend(means.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        figures
    }
}

/// Responses of all readers together.
fn web(raw: &StackRaw) -> Figures {
    let all = || raw.flows.iter().flat_map(|f| &f.fetches);
    let mut times: Vec<f64> = all().filter_map(|f| f.total_ns.map(|ns| ns as f64 / 1e9)).collect();
    times.sort_by(f64::total_cmp);
    let named = [
        ("response_mean_s", wavelane_measure::mean(&times)),
        ("response_p50_s", percentile(&times, 50)),
        ("response_p95_s", percentile(&times, 95)),
        ("objects", Some(times.len() as f64)),
        ("unfinished", Some((all().count() - times.len()) as f64)),
    ];
    named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
