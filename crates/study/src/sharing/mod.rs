//! Beside others on one drop-tail bottleneck: is Wavelane fair, and does it get its share?
//!
//! Two downloads meet in a channel between two routers. One comes through a pair of gateways; the other is a plain TCP
//! flow of a stated congestion control, or comes through a second pair. The same file under the rival's own stack says
//! what the rival gets beside its own kind. In the simulator over many links, in the laboratory over three queues.

mod lab;
mod sim;
mod text;

use crate::cells::Head;
use crate::document::{Row, StudyDocument};
use crate::{Setup, StudyError};
use wavelane_run::{Backend, RunDocument, Verdict};

/// The study's id.
pub(crate) const ID: &str = "link-sharing";
/// Its parts: where the rows come from.
pub(crate) const PARTS: [&str; 2] = ["sim", "lab"];

/// The flow through the first pair of gateways, and the other.
const OURS: &str = "ours";
const OTHER: &str = "other";

/// Runs the edition's cells and judges them.
pub(crate) fn run(setup: &Setup<'_>) -> Result<StudyDocument, StudyError> {
    let Setup { options, .. } = *setup;
    let mut rows = Vec::new();
    if options.wants(PARTS[0]) {
        let simulator = || -> Box<dyn Backend> { Box::new(wavelane_sim::SimBackend) };
        rows.extend(sim::run(&Setup { make: &simulator, ..*setup })?);
    }
    if options.wants(PARTS[1]) {
        rows.extend(lab::run(setup)?);
    }
    Ok(StudyDocument::new(ID, options.edition, options.seed.0, rows))
}

/// What stands in a cell's place if its stacks cannot be run.
fn not_run(document: &RunDocument, head: &Head) -> Row {
    let mut row = head.row("share", "share", &[]);
    row.verdict = Verdict::Inconclusive;
    let whys: Vec<&str> = document.omitted.iter().map(|o| o.why.as_str()).collect();
    row.why = format!("not run: {}", whys.join("; "));
    row
}
