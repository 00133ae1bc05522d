//! [`LabBackend`]: the lab behind the scenario's contract.

use crate::review;
use crate::run::Run;
use wavelane_base::{Seed, Span};
use wavelane_run::{Backend, BackendError, Review, RunContext, StackRaw, Treatment};
use wavelane_scenario::{Scenario, Stack};

/// A run is inconclusive if more than 1 % of the packets were delivered later than this after their scheduled time.
pub const LATENESS_BOUND: Span = Span::from_millis(5);

/// Runs scenarios between real kernels in network namespaces on this machine, in real time. Needs root.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabBackend;

impl Backend for LabBackend {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn review(&self, scenario: &Scenario) -> Review {
        let mut found = Review::default();
        review::machine(scenario, &mut found);
        review::channels(scenario, &mut found);
        review::flows(scenario, &mut found);
        for stack in &scenario.stacks {
            let treatment = review::stack(scenario, *stack).map_or_else(Treatment::Omitted, |()| Treatment::Imposed);
            found.stack(*stack, treatment);
        }
        found
    }

    fn run_stack(
        &mut self,
        scenario: &Scenario,
        stack: Stack,
        seed: Seed,
        context: &mut RunContext<'_>,
    ) -> Result<StackRaw, BackendError> {
        if let Some((clause, why)) = self.review(scenario).refusal() {
            return Err(BackendError::Unable(format!("{clause}: {why}")));
        }
        review::stack(scenario, stack).map_err(BackendError::Unable)?;
        Ok(Run::prepare(scenario, stack, seed, context)?.go(context)?)
    }
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
