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
mod experiments;
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
mod observe;
mod ours;
mod page;
mod petrovic;
mod plan;
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
use std::sync::LazyLock;
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
    /// Runs of the simulator at once.
    pub(crate) fn workers(&self) -> usize {
        self.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }
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
    run: Run,
}

/// Makes a backend per worker.
pub type MakeBackend<'a> = dyn Fn() -> Box<dyn Backend> + Sync + 'a;

/// What a study is run with.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// Its own backend.
    pub(crate) make: &'a MakeBackend<'a>,
    pub(crate) options: &'a StudyOptions,
    pub(crate) hooks: &'a RunHooks<'a>,
}

type Run = fn(&Setup<'_>) -> Result<StudyDocument, StudyError>;
type Code = (&'static str, &'static [&'static str], &'static [&'static str], Run);

/// The studies' ids, parts, stacks and code; the rest stands in `studies.txt`.
const CODE: [Code; 18] = [
    (main_job::ID, &[], &[], main_job::run),
    (simulator_speed::ID, &[], &[], simulator_speed::run),
    (capacity::ID, &[], &[], capacity::run),
    (tcp_interop::ID, &tcp_interop::PARTS, &[], tcp_interop::run),
    (efficiency::ID, &efficiency::PARTS, &[], efficiency::run),
    (sharing::ID, &sharing::PARTS, &[], sharing::run),
    (population::ID, &population::PARTS, &population::STACKS, population::run),
    (hop_swarm::ID, &[], &[], hop_swarm::run),
    (hop::ID, &hop::PARTS, &[], hop::run),
    (gettys::ID, &gettys::PARTS, &[], gettys::run),
    (latency::ID, &latency::PARTS, &[], latency::run),
    (hop_mechanisms::ID, &hop_mechanisms::PARTS, &[], hop_mechanisms::run),
    (asymmetry::ID, &asymmetry::PARTS, &[], asymmetry::run),
    (maggs::ID, &maggs::PARTS, &[], maggs::run),
    (petrovic::ID, &petrovic::PARTS, &[], petrovic::run),
    (traces::ID, &[], &[], traces::run),
    (dungs::ID, &dungs::PARTS, &[], dungs::run),
    (proxy::ID, &[], &[], proxy::run),
];

/// Every study that exists.
pub static STUDIES: LazyLock<Vec<Study>> = LazyLock::new(|| {
    let study = |(id, parts, stacks, run): Code| {
        let mut lines = include_str!("studies.txt").lines();
        let line = lines.find_map(|line| line.strip_prefix(id)?.strip_prefix(" | ")).expect("a line of each study");
        let words: Vec<&str> = line.split(" | ").collect();
        let [backend, quick, full, about] = words[..] else { panic!("studies.txt, {id}: four columns") };
        Study { id, about, takes: [quick, full], backend, parts, stacks, run }
    };
    CODE.map(study).into()
});

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
        let document = (self.run)(&Setup { make: &make, options, hooks })?;
        let draws = options.draws.as_ref().map(|draws| format!("{}..{}", draws.start(), draws.end()));
        Ok(StudyDocument { parts: options.parts.clone(), draws, ..document })
    }
}
