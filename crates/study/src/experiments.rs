//! Experiments: some runs each, and what makes rows of what they gave.

use crate::cells::{Cell, Head, Take, rows_of_all, unproven};
use crate::document::{Row, StudyDocument};
use crate::{Setup, StudyError};
use wavelane_run::{Backend, CaptureExtent, RunDocument, RunError, StackResult};

/// The part of a study that runs the shipped daemons between kernels.
pub(crate) const LAB: &str = "lab";

/// Makes rows of what runs gave, in their order.
pub(crate) type Judge<S> = Box<dyn Fn(&[S]) -> Vec<Row> + Sync + Send>;

/// Runs that are judged together.
pub(crate) struct Experiment<R, S> {
    pub(crate) part: &'static str,
    /// Seeds of each run.
    pub(crate) seeds: u32,
    pub(crate) runs: Vec<R>,
    pub(crate) judge: Judge<S>,
}

/// A row in place of those of a laboratory that cannot run.
pub(crate) fn no_lab(study: &str, stack: &str, why: &str) -> Row {
    Row::new(study, LAB, stack, "completed", "share").inconclusive(format!("the lab cannot run: {why}"))
}

/// Rows of runs that all exist; else one row, of what is missing.
pub(crate) fn rows_of<S>(
    found: &[Option<S>],
    head: &Head,
    (metric, unit): (&str, &str),
    stack: impl Fn(&S) -> &StackResult,
    make: impl Fn(&[&S]) -> Vec<Row>,
) -> Vec<Row> {
    let seen: Vec<&S> = found.iter().flatten().collect();
    if seen.is_empty() || seen.len() < found.len() {
        let why = "a run of this experiment could not be made here";
        return vec![head.row(metric, unit, &[]).inconclusive(why)];
    }
    let stacks: Vec<_> = seen.iter().map(|seen| stack(seen)).collect();
    let mut rows = make(&seen);
    rows.iter_mut().for_each(|row| unproven(row, &stacks));
    rows
}

/// Runs scenarios by name, those of the simulator on all processors, then those of part [`LAB`], and judges what `see` finds in
/// their Records.
pub(crate) fn run<S>(
    study: &'static str,
    captures: CaptureExtent,
    all: impl Iterator<Item = Experiment<(String, String), S>>,
    see: impl Fn(&RunDocument) -> S + Sync,
    setup: &Setup<'_>,
) -> Result<StudyDocument, StudyError> {
    let options = setup.options;
    let (lab, simulated): (Vec<_>, Vec<_>) = all.filter(|e| options.wants(e.part)).partition(|e| e.part == LAB);
    let rows_of = |experiment: &Experiment<(String, String), S>, take: Take<'_>| {
        let mut found = Vec::new();
        for (name, text) in &experiment.runs {
            let cell = Cell { study, name, text, repeat: experiment.seeds, own: None, captures };
            let Some(document) = take(&cell)? else { return Ok(None) };
            found.push(see(&document));
        }
        let mut rows = (experiment.judge)(&found);
        if experiment.part == LAB {
            rows.iter_mut().for_each(|row| LAB.clone_into(&mut row.backend));
        }
        Ok(Some(rows))
    };
    let simulator = || -> Box<dyn Backend> { Box::new(wavelane_sim::SimBackend) };
    let mut rows = rows_of_all(&simulated, options.workers(), &Setup { make: &simulator, ..*setup }, rows_of)?;
    // Runs in real time have the machine to themselves.
    let real = || -> Box<dyn Backend> { Box::new(wavelane_lab::LabBackend) };
    match rows_of_all(&lab, 1, &Setup { make: &real, ..*setup }, rows_of) {
        Err(StudyError::Run(why)) if !matches!(why, RunError::Cancelled) => {
            rows.push(no_lab(study, "wavelane", &why.to_string()));
        }
        found => rows.extend(found?),
    }
    Ok(StudyDocument::new(study, options.edition, options.seed.0, rows))
}
