//! One stack on one scenario, run for its raw results: no Record, no folder.

use crate::StudyError;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_run::{Backend, BackendError, CaptureExtent, RunContext, RunError, StackRaw};
use wavelane_scenario::{Scenario, Stack};

/// To six decimals: so short a number reads back as the same, and what was kept gives the rows that it gave.
pub(crate) fn short(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// A file or folder that cannot be written.
pub(crate) fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> RunError + '_ {
    move |e| RunError::Unwritable { path: path.to_owned(), why: e.to_string() }
}

/// A scenario's text with a seed, and the stack of that word.
pub(crate) fn ready(text: &str, stack: &str, seed: u64) -> Result<(Scenario, Stack), StudyError> {
    let scenario = Scenario { seed: Seed(seed), ..Scenario::parse(text, Path::new("."))? };
    let word = Stack::from_word(stack).ok_or_else(|| RunError::Refused(format!("no stack '{stack}'")))?;
    Ok((scenario, word))
}

/// Runs it on `backend`.
pub(crate) fn run_stack(
    backend: &mut dyn Backend,
    (scenario, stack): (&Scenario, Stack),
    context: &mut RunContext<'_>,
) -> Result<StackRaw, StudyError> {
    let raw = backend.run_stack(scenario, stack, scenario.seed, context);
    raw.map_err(|error| match error {
        BackendError::Cancelled => RunError::Cancelled.into(),
        error => RunError::Stack { stack, seed: scenario.seed.0, error }.into(),
    })
}

/// Runs it in the simulator.
pub(crate) fn simulate(scenario: &Scenario, stack: Stack, cancelled: &AtomicBool) -> Result<StackRaw, StudyError> {
    let label = stack.word().to_owned();
    let (out, captures, progress) = (Path::new("."), CaptureExtent::Off, &mut |_| {});
    let mut context = RunContext { out, label, captures, progress, cancelled };
    run_stack(&mut wavelane_sim::SimBackend, (scenario, stack), &mut context)
}
