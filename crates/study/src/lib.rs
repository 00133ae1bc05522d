//! Studies: experiments with their scenarios and judges, each repeatable by one command.
#![forbid(unsafe_code)]

mod asymmetry;
mod capacity;
mod cells;
mod child;
mod document;
mod dungs;
mod earlier;
mod efficiency;
mod elsewhere;
#[cfg(test)]
#[path = "tests/fixtures.rs"]
mod fixtures;
mod gettys;
mod home;
mod hop;
mod hop_mechanisms;
mod hop_swarm;
mod kept;
mod latency;
mod maggs;
mod main_job;
pub mod ns3;
mod ours;
mod page;
mod petrovic;
mod population;
mod proxy;
mod runner;
mod sharing;
mod simulator_speed;
#[cfg(test)]
mod studies_tests;
mod tcp_interop;
mod traces;
mod words;

pub use document::{Edition, Row, STUDIES_FORMAT, STUDY_FORMAT, StudiesDocument, StudyDocument};
pub use elsewhere::{Batch, Deliver, Dispatch, Elsewhere, work};
pub use page::report;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use wavelane_base::Seed;
use wavelane_run::{Backend, RunError, RunHooks};
use wavelane_scenario::ScenarioError;

/// How to run a study.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// Quick or full.
    pub edition: Edition,
    /// The first seed.
    pub seed: Seed,
    /// Runs at once; `None` lets the study choose (one at a time in the lab).
    pub jobs: Option<usize>,
    /// Where the Records go, one directory per cell.
    pub out: PathBuf,
    /// Only these of the study's parts; empty for all.
    pub parts: Vec<String>,
    /// Only these members of a population, by number; `None` leaves it to the edition.
    pub draws: Option<RangeInclusive<u64>>,
    /// Run only these stacks of a population, and take the others as far as they are kept; empty for all.
    pub stacks: Vec<String>,
    /// Directories of other runs whose kept results hold here too.
    pub reuse: Vec<PathBuf>,
    /// Folders of recordings to run on: of one link each, and of the second lanes beside them.
    pub traces: [Option<PathBuf>; 2],
    /// Where the tasks of a study that can have them done on other machines are done instead of here.
    pub elsewhere: Option<Elsewhere>,
    /// Gets each row as soon as it is judged, where a study has several cells.
    pub row: fn(&Row),
}

impl StudyOptions {
    /// Whether `part` is to be run.
    pub fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|name| name == part)
    }
}

/// Why a study has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// Its built-in scenario is damaged; a defect of this program.
    #[error("the built-in scenario does not parse: {0}; please report this")]
    Scenario(#[from] ScenarioError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// One entry of the list of studies.
pub struct Study {
    /// The word that names it.
    pub id: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// How long it takes: quick, full.
    pub takes: [&'static str; 2],
    /// Where it runs.
    pub backend: &'static str,
    /// Its parts that can be run alone, if it has any.
    pub parts: &'static [&'static str],
    /// Its stacks that can be run alone, if it has members that are drawn.
    pub stacks: &'static [&'static str],
    run: fn(&MakeBackend<'_>, &StudyOptions, &RunHooks<'_>) -> Result<StudyDocument, StudyError>,
}

/// Makes a backend per worker.
pub type MakeBackend<'a> = dyn Fn() -> Box<dyn Backend> + Sync + 'a;

/// Every study that exists.
pub const STUDIES: &[Study] = &[
    Study {
        id: main_job::ID,
        about: "a download and an echo over a bursty link: CUBIC and BBR end to end against the gateways",
        takes: ["5 min", "20 min"],
        backend: "lab",
        parts: &[],
        stacks: &[],
        run: main_job::run,
    },
    Study {
        id: simulator_speed::ID,
        about: "simulated seconds per processor second on radio cells, beside both packaged builds of ns-3",
        takes: ["2 min", "8 min"],
        backend: "sim",
        parts: &[],
        stacks: &[],
        run: simulator_speed::run,
    },
    Study {
        id: capacity::ID,
        about: "what two gateways carry where only the machine limits them, and its cost, beside other tunnels",
        takes: ["3 min", "15 min"],
        backend: "lab",
        parts: &[],
        stacks: &[],
        run: capacity::run,
    },
    Study {
        id: tcp_interop::ID,
        about: "our TCP against the Linux kernel's: transfers both ways, counters, goodput under loss, fairness, sim beside lab",
        takes: ["12 min", "2 h"],
        backend: "lab",
        parts: &tcp_interop::PARTS,
        stacks: &[],
        run: tcp_interop::run,
    },
    Study {
        id: efficiency::ID,
        about: "loss of 0 to 20 %, bursts and fades: goodput, delay, age and small transfers against TCP and other tunnels",
        takes: ["14 min", "5 h"],
        backend: "lab",
        parts: &efficiency::PARTS,
        stacks: &[],
        run: efficiency::run,
    },
    Study {
        id: sharing::ID,
        about: "one bottleneck beside CUBIC, Reno, BBR, BBR v3 or another link: shares and what the rival keeps, in sim and lab",
        takes: ["10 min", "5 h"],
        backend: "lab",
        parts: &sharing::PARTS,
        stacks: &[],
        run: sharing::run,
    },
    Study {
        id: population::ID,
        about: "links drawn by chance, 0.1 to 500 Mbit/s and 4 to 600 ms: goodput, echo and cost beside the best TCP",
        takes: ["6 min", "60 min"],
        backend: "sim",
        parts: &population::PARTS,
        stacks: &population::STACKS,
        run: population::run,
    },
    Study {
        id: hop_swarm::ID,
        about: "meshes of 2 to 12 gateways with loss, damage, partitions, crashes and slow readers: every byte arrives once, or the application gets an error",
        takes: ["3 min", "15 min"],
        backend: "sim",
        parts: &[],
        stacks: &[],
        run: hop_swarm::run,
    },
    Study {
        id: hop::ID,
        about: "radio cells of one and several hops, meshes and access points: the default stack beside TCP and block switching of 2009",
        takes: ["4 min", "25 min"],
        backend: "sim",
        parts: &hop::PARTS,
        stacks: &[],
        run: hop::run,
    },
    Study {
        id: gettys::ID,
        about: "one copy at home makes every ping wait for seconds: why, and how FQ-CoDel ends it; simulator and lab",
        takes: ["4 min", "25 min"],
        backend: "lab",
        parts: &gettys::PARTS,
        stacks: &[],
        run: gettys::run,
    },
    Study {
        id: latency::ID,
        about: "latency under load by queue: FQ-CoDel at 6 to 54 Mbit/s for Reno, CUBIC and BBR; simulator beside lab; the probe beside irtt",
        takes: ["4 min", "20 min"],
        backend: "lab",
        parts: &latency::PARTS,
        stacks: &[],
        run: latency::run,
    },
    Study {
        id: hop_mechanisms::ID,
        about: "backpressure, virtual retransmission, micro-blocks and relays, each in its own scenario, with it and without",
        takes: ["2 min", "15 min"],
        backend: "sim",
        parts: &hop_mechanisms::PARTS,
        stacks: &[],
        run: hop_mechanisms::run,
    },
    Study {
        id: asymmetry::ID,
        about: "thin ways back, steps of rate and delay, two lanes at once, a radio beside a modem, outages: gateways and TCP",
        takes: ["5 min", "45 min"],
        backend: "sim",
        parts: &asymmetry::PARTS,
        stacks: &[],
        run: asymmetry::run,
    },
    Study {
        id: maggs::ID,
        about: "data by radio, acknowledgements over a serial line, as in 1998: rate, framing, modem, loss and hidden stations beside closed forms",
        takes: ["3 min", "25 min"],
        backend: "sim",
        parts: &maggs::PARTS,
        stacks: &[],
        run: maggs::run,
    },
    Study {
        id: petrovic::ID,
        about: "bulk, web and voice over 802.11 with bit errors: the tables of Petrovic and Aboelaze beside ours, two profiles",
        takes: ["1 min", "10 min"],
        backend: "sim",
        parts: &petrovic::PARTS,
        stacks: &[],
        run: petrovic::run,
    },
    Study {
        id: traces::ID,
        about: "recordings of real links, shipped or from --traces: goodput, echo and cost beside the best TCP; two as lanes of one link",
        takes: ["4 min", "15 min"],
        backend: "sim",
        parts: &[],
        stacks: &[],
        run: traces::run,
    },
    Study {
        id: dungs::ID,
        about: "a split-TCP proxy over 802.11b, Bluetooth, handovers and cellular links: the source's figures, and when to split",
        takes: ["2 min", "15 min"],
        backend: "sim",
        parts: &dungs::PARTS,
        stacks: &[],
        run: dungs::run,
    },
    Study {
        id: proxy::ID,
        about: "a split proxy in one box where only the machine limits it, beside plain forwarding and HAProxy",
        takes: ["2 min", "8 min"],
        backend: "lab",
        parts: &[],
        stacks: &[],
        run: proxy::run,
    },
];

impl Study {
    /// The study of that id.
    pub fn find(id: &str) -> Option<&'static Self> {
        STUDIES.iter().find(|s| s.id == id)
    }
    /// Whether it writes an entry of that name into its `--out`.
    fn writes(&self, name: &str) -> bool {
        let own = name.strip_prefix('.').and_then(|n| n.strip_suffix(".draft")).unwrap_or(name);
        let captures = self.id == tcp_interop::ID && (name.starts_with("demo-") || name.ends_with(".pcapng"));
        own.strip_prefix(self.id).is_some_and(|rest| rest.is_empty() || rest == ".json")
            || captures
            || ["logs", "pcap"].contains(&name)
    }
    /// The first entry of the directory `out` that none of `studies` wrote: they would write among files of others, or over
    /// another study's page.
    pub fn foreign(out: &Path, studies: &[&Self]) -> Option<String> {
        let judged = studies.iter().any(|study| out.join(format!("{}.json", study.id)).exists());
        let ours = |name: &str| {
            studies.iter().any(|study| study.writes(name)) || (judged && ["report.html", "plots"].contains(&name))
        };
        let entries = std::fs::read_dir(out).into_iter().flatten().flatten();
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|name| !ours(name)).min()
    }
    /// The edition and first seed of the results in the directory `out`, of a study that ended or of one that was interrupted.
    pub fn results_in(&self, out: &Path) -> Option<(Edition, u64)> {
        earlier::results_in(out, self.id)
    }
    /// What of the results in `out` would have no rows any more if only these parts and draws came in their place.
    pub fn rows_lost(&self, out: &Path, parts: &[String], draws: Option<&RangeInclusive<u64>>) -> Option<String> {
        earlier::rows_lost(out, self.id, parts, draws)
    }
    /// Where its parts run, and what that takes.
    pub fn places(&self) -> String {
        let lab = self.backend == "lab";
        match (lab, self.parts) {
            (true, parts) if parts.contains(&"sim") => "sim and lab (root)".into(),
            (false, parts) if parts.contains(&"lab") => "sim, part lab (root)".into(),
            (true, _) => "lab (root)".into(),
            (false, _) => "sim".into(),
        }
    }
    /// Whether its members are drawn by chance and have numbers.
    pub fn has_draws(&self) -> bool {
        [population::ID, hop_swarm::ID].contains(&self.id)
    }
    /// Whether other machines can do its tasks.
    pub fn runs_elsewhere(&self) -> bool {
        elsewhere::STUDIES.contains(&self.id)
    }
    /// Whether it runs on recordings.
    pub fn has_recordings(&self) -> bool {
        self.id == traces::ID
    }
    /// Runs it where it belongs.
    pub fn run(&self, options: &StudyOptions, hooks: &RunHooks<'_>) -> Result<StudyDocument, StudyError> {
        let lab = self.backend == "lab";
        let make = move || -> Box<dyn Backend> {
            if lab { Box::new(wavelane_lab::LabBackend) } else { Box::new(wavelane_sim::SimBackend) }
        };
        let document = (self.run)(&make, options, hooks)?;
        let draws = options.draws.as_ref().map(|draws| format!("{}..{}", draws.start(), draws.end()));
        Ok(StudyDocument { parts: options.parts.clone(), draws, ..document })
    }
}
