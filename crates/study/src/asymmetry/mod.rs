//! Links whose directions or lanes differ: thin ways back, steps of rate and delay, lanes over different media, outages.
//!
//! An experiment is a handful of scenarios and what makes rows of their Records; where they run is the backend's affair.

mod bond;
mod choice;
mod net;
mod outage;
mod profiles;
mod seen;
mod steps;
mod thin;

use crate::cells::{self, Cell, Take};
use crate::document::{Edition, Row, StudyDocument};
use crate::{MakeBackend, StudyError, StudyOptions};
use seen::Seen;
use wavelane_run::RunHooks;

/// The study's id.
pub(crate) const ID: &str = "asymmetry";
/// Its parts: one kind of asymmetry each.
pub(crate) const PARTS: [&str; 6] = ["thin", "steps", "choice", "bond", "outage", "profiles"];
/// What is judged, and what it is compared with where TCP can use the link at all.
const OURS: &str = "wavelane";
const STACKS: [&str; 4] = [OURS, "tcp-cubic", "tcp-bbr", "tcp-bbr3"];

const FULL_SEEDS: u32 = 10;

/// What makes rows of an experiment's runs, which stand in their order.
type Judge = Box<dyn Fn(&[Seen]) -> Vec<Row> + Sync + Send>;

/// One experiment: its runs by name and scenario, and what makes rows of them.
struct Task {
    part: &'static str,
    /// Seeds in the quick edition; the full one has [`FULL_SEEDS`] at least.
    seeds: u32,
    runs: Vec<(String, String)>,
    judge: Judge,
}

fn tasks(edition: Edition) -> Vec<Task> {
    let mut tasks = thin::tasks();
    tasks.extend(steps::tasks());
    tasks.extend(choice::tasks());
    tasks.extend(bond::tasks(edition));
    tasks.extend(outage::tasks());
    tasks.extend(profiles::tasks(edition));
    tasks
}

/// Runs the edition's experiments on all processors and judges them.
pub(crate) fn run(
    make: &MakeBackend<'_>,
    options: &StudyOptions,
    hooks: &RunHooks<'_>,
) -> Result<StudyDocument, StudyError> {
    let tasks: Vec<Task> = tasks(options.edition).into_iter().filter(|task| options.wants(task.part)).collect();
    let rows_of = |task: &Task, take: Take<'_>| {
        let repeat = if options.edition == Edition::Full { task.seeds.max(FULL_SEEDS) } else { task.seeds };
        let mut found = Vec::new();
        for (name, text) in &task.runs {
            let Some(document) = take(&Cell { study: ID, name, text, repeat, own: None })? else { return Ok(None) };
            found.push(Seen::of(&document));
        }
        Ok(Some((task.judge)(&found)))
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = options.jobs.unwrap_or(processors);
    let rows = cells::rows_of_all(&tasks, workers, (make, options, hooks), rows_of)?;
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

#[cfg(test)]
mod tests;
