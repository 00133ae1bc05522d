//! A copy and a ping at home: Gettys' experiments with wireless, and their remedy.
//!
//! "Your home network can't walk and chew gum at the same time": one copy makes every other exchange of the house wait for
//! seconds. The experiments (`S3-...`) run in the simulator, on a cable of the radio link's rate and in an 802.11g cell, and
//! some in the laboratory between real kernels: `plan.toml` has them, and `judge.rs` makes rows of them.

mod judge;
pub(crate) mod page;

use crate::document::{Edition, StudyDocument};
use crate::experiments::{self, Experiment, LAB};
use crate::home::{Seen, seen};
use crate::{Setup, StudyError, plan};
use wavelane_run::CaptureExtent;

/// The study's id.
pub(crate) const ID: &str = "gettys";
/// Its parts: where the rows come from.
pub(crate) const PARTS: [&str; 2] = ["sim", LAB];

fn tasks(edition: Edition) -> Vec<Experiment<(String, String), Option<Seen>>> {
    plan::experiments(include_str!("plan.toml"), edition, &PARTS, judge::of)
}

/// Runs the edition's experiments and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    experiments::run(ID, CaptureExtent::Headers, tasks(setup.options.edition).into_iter(), seen, setup)
}
#[cfg(test)]
mod tests;
