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

use crate::document::{Edition, StudyDocument};
use crate::experiments::{self, Experiment, LAB};
use crate::{Setup, StudyError};
use seen::Seen;
use wavelane_run::CaptureExtent;

/// The study's id.
pub(crate) const ID: &str = "asymmetry";
/// Its parts: one kind of asymmetry each.
pub(crate) const PARTS: [&str; 7] = ["thin", "steps", "choice", "bond", "outage", "profiles", LAB];
/// What is judged, and what it is compared with where TCP can use the link at all.
const OURS: &str = "wavelane";
const STACKS: [&str; 4] = [OURS, "tcp-cubic", "tcp-bbr", "tcp-bbr3"];

const FULL_SEEDS: u32 = 10;

/// Its runs by name and scenario. Seeds are those of the quick edition; the full one has [`FULL_SEEDS`] at least.
type Task = Experiment<(String, String), Seen>;

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
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, .. } = *setup;
    let seeds = |task: &Task| {
        if options.edition == Edition::Full && task.part != LAB { task.seeds.max(FULL_SEEDS) } else { task.seeds }
    };
    let all = tasks(options.edition).into_iter().map(|task| Task { seeds: seeds(&task), ..task });
    experiments::run(ID, CaptureExtent::Off, all, Seen::of, setup)
}

#[cfg(test)]
mod tests;
