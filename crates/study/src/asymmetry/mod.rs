//! Links whose directions or lanes differ: thin ways back, steps of rate and delay, lanes over different media, outages.
//!
//! An experiment is a handful of scenarios and what makes rows of their Records; the backend decides where they run.

mod bond;
mod choice;
mod net;
mod outage;
mod profiles;
mod reserve;
mod seen;
mod steps;
mod thin;

use crate::cells::{self, Cell, Take};
use crate::document::{Edition, Row, StudyDocument};
use crate::{MakeBackend, StudyError, StudyOptions};
use seen::Seen;
use wavelane_run::{Backend, CaptureExtent, RunError, RunHooks, Verdict};

/// The study's id.
pub(crate) const ID: &str = "asymmetry";
/// Its parts: one kind of asymmetry each.
pub(crate) const PARTS: [&str; 7] = ["thin", "steps", "choice", "bond", "outage", "profiles", LAB];
/// The part that runs between kernels; all others are simulated.
const LAB: &str = "lab";
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
    tasks.extend(reserve::tasks());
    tasks.extend(profiles::tasks(edition));
    tasks.extend(thin::lab_tasks(edition));
    tasks.extend(bond::lab_tasks(edition));
    tasks.extend(outage::lab_tasks(edition));
    tasks.extend(reserve::lab_tasks(edition));
    tasks
}

/// Runs the edition's experiments on all processors and judges them.
pub(crate) fn run(
    make: &MakeBackend<'_>,
    options: &StudyOptions,
    hooks: &RunHooks<'_>,
) -> Result<StudyDocument, StudyError> {
    let all = tasks(options.edition).into_iter().filter(|task| options.wants(task.part));
    let (lab, simulated): (Vec<Task>, Vec<Task>) = all.partition(|task| task.part == LAB);
    let rows_of = |task: &Task, take: Take<'_>| {
        let repeat =
            if options.edition == Edition::Full && task.part != LAB { task.seeds.max(FULL_SEEDS) } else { task.seeds };
        let mut found = Vec::new();
        for (name, text) in &task.runs {
            let Some(document) =
                take(&Cell { study: ID, name, text, repeat, own: None, captures: CaptureExtent::Off })?
            else {
                return Ok(None);
            };
            found.push(Seen::of(&document));
        }
        Ok(Some((task.judge)(&found)))
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = options.jobs.unwrap_or(processors);
    let mut rows = cells::rows_of_all(&simulated, workers, (make, options, hooks), rows_of)?;
    if !lab.is_empty() {
        // Runs in real time have the machine to themselves.
        let real = || -> Box<dyn Backend> { Box::new(wavelane_lab::LabBackend) };
        match cells::rows_of_all(&lab, 1, (&real, options, hooks), rows_of) {
            Ok(found) => rows.extend(found),
            Err(StudyError::Run(why)) if !matches!(why, RunError::Cancelled) => {
                let row = Row::new(ID, LAB, OURS, "completed", "share");
                rows.push(Row { verdict: Verdict::Inconclusive, why: format!("the lab cannot run: {why}"), ..row });
            }
            Err(why) => return Err(why),
        }
    }
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

#[cfg(test)]
mod tests;
