//! Which checks of a sweep's combination fail, and with how many of its seeds.

use crate::judge;
use crate::record::{RunDocument, StackResult, Verdict};
use wavelane_scenario::Scenario;

/// A check that fails over a combination's seeds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedCheck {
    /// Its name.
    pub check: String,
    /// With how many of the seeds it fails by itself. `None` of a record without each seed's sums.
    pub seeds: Option<u32>,
}

/// The checks of the document that fail, in the scenario's order.
pub(crate) fn failed(scenario: &Scenario, document: &RunDocument) -> Vec<FailedCheck> {
    let failing = document.checks.iter().filter(|check| check.verdict == Verdict::Fail);
    let names: Vec<&str> = failing.map(|check| check.check.as_str()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let seeds = (0..u64::from(document.repeat)).map(|i| document.seed.saturating_add(i));
    let of_seed = |seed: u64| {
        let part = |stack: &StackResult| Some(StackResult::of_all(&stack.stack, vec![stack.of_seed(seed)?]));
        let stacks = document.stacks.iter().map(part).collect::<Option<Vec<_>>>()?;
        Some(judge::checks(scenario, &stacks, &document.omitted))
    };
    let by_seed: Option<Vec<_>> = seeds.map(of_seed).collect();
    let count = |name: &str| {
        let fails = |checks: &Vec<crate::CheckResult>| {
            checks.iter().any(|check| check.check == name && check.verdict == Verdict::Fail)
        };
        by_seed.as_ref().map(|all| all.iter().filter(|checks| fails(checks)).count() as u32)
    };
    names.into_iter().map(|name| FailedCheck { check: name.to_owned(), seeds: count(name) }).collect()
}
