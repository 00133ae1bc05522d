//! Links whose directions or lanes differ: thin ways back, steps of rate and delay, lanes over different media, outages.
//!
//! `plan.toml` has the experiments, a handful of scenarios each, and `judge.rs` makes rows of their Records; the part decides where they run.

mod judge;
mod seen;

use crate::document::{Edition, StudyDocument};
use crate::experiments::{self, Experiment, LAB};
use crate::{Setup, StudyError, plan};
use seen::Seen;
use wavelane_run::CaptureExtent;

/// The study's id.
pub(crate) const ID: &str = "asymmetry";
/// Its parts: one kind of asymmetry each.
pub(crate) const PARTS: [&str; 7] = ["thin", "steps", "choice", "bond", "outage", "profiles", LAB];
/// What is judged.
const OURS: &str = "wavelane";
/// The bulk flow and the echo beside it.
const BULK: &str = "up";
const ECHO: &str = "echo";

fn tasks(edition: Edition) -> Vec<Experiment<(String, String), Seen>> {
    plan::experiments(include_str!("plan.toml"), edition, &PARTS, judge::of)
}

/// Runs the edition's experiments on all processors and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    experiments::run(ID, CaptureExtent::Off, tasks(setup.options.edition).into_iter(), Seen::of, setup)
}

#[cfg(test)]
mod tests;
