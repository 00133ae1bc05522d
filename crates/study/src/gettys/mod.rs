//! A copy and a ping at home: Gettys' experiments with wireless, and their remedy.
//!
//! "Your home network can't walk and chew gum at the same time": one copy makes every other exchange of the house wait for
//! seconds. The experiments (`S3-...`) run in the simulator, on a cable of the radio link's rate and in an 802.11g cell, and
//! some in the laboratory between real kernels.

mod cases;
mod judge;
pub(crate) mod page;

use crate::cells::{self, Cell, Take};
use crate::document::{Edition, Row, StudyDocument};
use crate::home::{Home, Seen, seen};
use crate::{Setup, StudyError};
use wavelane_run::Backend;

/// The study's id.
pub(crate) const ID: &str = "gettys";
/// Its parts: where the rows come from.
pub(crate) const PARTS: [&str; 2] = ["sim", "lab"];

/// Where a task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Sim,
    Lab,
}

impl Place {
    pub(crate) fn word(self) -> &'static str {
        PARTS[self as usize]
    }
}

/// One run: its name and its home.
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) home: Home,
}

/// What makes rows of an experiment's runs, which stand in their order.
pub(crate) type Judge = Box<dyn Fn(&[Found<'_>]) -> Vec<Row> + Sync + Send>;

/// One experiment: its runs, and what makes rows of them.
pub(crate) struct Task {
    pub(crate) place: Place,
    pub(crate) runs: Vec<Run>,
    pub(crate) judge: Judge,
}

/// A run and what came out of it; nothing if it was not run.
pub(crate) struct Found<'a> {
    pub(crate) home: &'a Home,
    pub(crate) seen: Option<Seen>,
}

/// Seeds by place and edition. Between kernels a run lasts as long as it says, so that there is one of each; another `--seed`
/// gives others.
fn repeat(place: Place, edition: Edition) -> u32 {
    match (place, edition) {
        (Place::Sim, Edition::Quick) => 5,
        (Place::Sim, Edition::Full) => 10,
        (Place::Lab, _) => 1,
    }
}

/// Runs `tasks` of a study and gives their rows, those of the simulator on all processors, then those of the laboratory
/// one after the other.
pub(crate) fn run_tasks(study: &'static str, tasks: Vec<Task>, setup: &Setup<'_>) -> Result<Vec<Row>, StudyError> {
    let Setup { options, .. } = *setup;
    let rows_of = |task: &Task, take: Take<'_>| {
        let repeat = repeat(task.place, options.edition);
        let mut found = Vec::new();
        for run in &task.runs {
            let (name, text) = (format!("{}-{}", task.place.word(), run.name), run.home.text());
            let Some(document) = take(&Cell::new(study, &name, &text, repeat))? else { return Ok(None) };
            found.push(Found { home: &run.home, seen: seen(&document) });
        }
        Ok(Some((task.judge)(&found)))
    };
    let (sim, lab): (Vec<Task>, Vec<Task>) = tasks.into_iter().partition(|task| task.place == Place::Sim);
    let simulator = || -> Box<dyn Backend> { Box::new(wavelane_sim::SimBackend) };
    let mut rows = cells::rows_of_all(&sim, options.workers(), &Setup { make: &simulator, ..*setup }, rows_of)?;
    if !lab.is_empty() {
        rows.extend(cells::rows_of_all(&lab, 1, setup, rows_of)?);
    }
    Ok(rows)
}

/// Runs the edition's experiments and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, .. } = *setup;
    let tasks = cases::all(options.edition).into_iter().filter(|task| options.wants(task.place.word()));
    let rows = run_tasks(ID, tasks.collect(), setup)?;
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

#[cfg(test)]
mod tests;
