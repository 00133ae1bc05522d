//! Tasks of studies that run on other machines: each travels as a value that holds all that its result depends on, and so does the result.

use crate::runner::Runner;
use crate::{StudyError, hop, hop_swarm, petrovic, population, traces};
use core::fmt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use wavelane_run::{Count, RunError};

/// Some tasks of a study, which one worker does after each other.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Batch {
    /// Its number.
    pub shard: usize,
    /// This program's version.
    pub version: &'static str,
    /// The commit that it was built of, if that is known: results of another do not belong to it.
    pub commit: Option<&'static str>,
    /// The study's id.
    pub study: &'static str,
    /// What is to be done.
    pub tasks: Vec<Value>,
}

/// Takes the results of the batch of that number, one for each of its tasks.
pub type Deliver<'a> = dyn FnMut(usize, Vec<Value>) -> Result<(), RunError> + 'a;

/// Has batches done, in any order.
pub type Dispatch = dyn Fn(&[Batch], &mut Deliver<'_>) -> Result<(), RunError> + Send + Sync;

/// Where a study's tasks are done instead of on this machine.
#[derive(Clone)]
pub struct Elsewhere(pub Arc<Dispatch>);

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elsewhere")
    }
}

/// A stack on a scenario with a seed, as it travels.
#[derive(Serialize, Deserialize)]
pub(crate) struct Simulation {
    pub(crate) scenario: String,
    pub(crate) stack: String,
    pub(crate) seed: u64,
}

/// Does a task of the study `study`, here.
pub fn work(study: &str, task: Value, cancelled: &AtomicBool) -> Result<Value, StudyError> {
    match study {
        hop::ID => done(task, |task| hop::work(&task, cancelled)),
        hop_swarm::ID => done(task, hop_swarm::work),
        petrovic::ID => done(task, |task| petrovic::work(&task, cancelled)),
        population::ID => done(task, |task| population::work(task, cancelled)),
        traces::ID => done(task, |task| traces::work(&task, cancelled)),
        _ => Err(refused(format!("study '{study}' has no tasks that other machines can do"))),
    }
}

/// The studies of which [`work`] knows tasks.
pub(crate) const STUDIES: [&str; 5] = [hop::ID, hop_swarm::ID, petrovic::ID, population::ID, traces::ID];

fn done<T: DeserializeOwned, R: Serialize>(
    task: Value,
    work: impl FnOnce(T) -> Result<R, StudyError>,
) -> Result<Value, StudyError> {
    let task = serde_json::from_value(task).map_err(|e| refused(format!("a task that cannot be read: {e}")))?;
    serde_json::to_value(work(task)?).map_err(|e| refused(format!("a result that cannot be written: {e}")))
}

fn refused(why: String) -> StudyError {
    RunError::Refused(why).into()
}

/// How tasks of one kind travel.
pub(crate) struct Travel<'a, T, R> {
    /// The study's id.
    pub(crate) study: &'static str,
    /// Tasks of a batch: so many that a worker has seconds to do.
    pub(crate) batch: usize,
    /// What [`work`] gets of a task.
    pub(crate) pack: &'a dyn Fn(&T) -> Value,
    /// What a result says, kept for a later run.
    pub(crate) unpack: &'a dyn Fn(&T, Value) -> Result<R, StudyError>,
}

/// Reads what a worker gave.
pub(crate) fn read<R: DeserializeOwned>(value: Value) -> Result<R, StudyError> {
    serde_json::from_value(value).map_err(|e| refused(format!("a worker's result cannot be read: {e}")))
}

impl Runner<'_> {
    /// As [`Runner::run`], or where `elsewhere` says.
    pub(crate) fn run_anywhere<T: Sync, R: Send>(
        &self,
        elsewhere: Option<&Elsewhere>,
        tasks: &[T],
        cost: impl Fn(&T) -> f64,
        found: impl Fn(&T) -> Option<R>,
        work: impl Fn(&T) -> Result<R, StudyError> + Sync,
        travel: &Travel<'_, T, R>,
    ) -> Result<Vec<R>, StudyError> {
        let Some(Elsewhere(dispatch)) = elsewhere else { return self.run(tasks, cost, found, work) };
        let mut results: Vec<Option<R>> = tasks.iter().map(found).collect();
        let mut left: Vec<(usize, f64)> =
            (0..tasks.len()).filter(|i| results[*i].is_none()).map(|i| (i, cost(&tasks[i]))).collect();
        left.sort_by(|a, b| b.1.total_cmp(&a.1));
        let batch = |(shard, places): (usize, &[(usize, f64)])| Batch {
            shard,
            version: env!("CARGO_PKG_VERSION"),
            commit: wavelane_run::commit(),
            study: travel.study,
            tasks: places.iter().map(|(place, _)| (travel.pack)(&tasks[*place])).collect(),
        };
        let batches: Vec<Batch> = left.chunks(travel.batch).enumerate().map(batch).collect();
        let whole: f64 = left.iter().map(|(_, cost)| cost).sum();
        let (mut done, mut spent) = (tasks.len() - left.len(), 0.0);
        let tell = |done: usize, spent: f64| {
            let share = if whole > 0.0 { spent / whole } else { 1.0 };
            (self.hooks.count)(Count { what: self.what, done, of: tasks.len(), share });
        };
        tell(done, spent);
        // What stopped it keeps its kind: a study says more than a run.
        let mut failed = None;
        let mut deliver = |shard: usize, values: Vec<Value>| {
            let places = left.chunks(travel.batch).nth(shard).unwrap_or_default();
            if places.is_empty() || places.len() != values.len() {
                let why = format!("a worker gave {} results of {} tasks of batch {shard}", values.len(), places.len());
                return Err(RunError::Refused(why));
            }
            for ((place, cost), value) in places.iter().zip(values) {
                match (travel.unpack)(&tasks[*place], value) {
                    Ok(result) => results[*place] = Some(result),
                    Err(StudyError::Run(error)) => return Err(error),
                    Err(error) => {
                        let said = error.to_string();
                        failed = Some(error);
                        return Err(RunError::Refused(said));
                    }
                }
                spent += cost;
            }
            done += places.len();
            tell(done, spent);
            Ok(())
        };
        let outcome = if batches.is_empty() { Ok(()) } else { dispatch(&batches, &mut deliver) };
        if let Some(error) = failed {
            return Err(error);
        }
        outcome?;
        let all: Option<Vec<R>> = results.into_iter().collect();
        all.ok_or_else(|| refused("the cluster ended before every task was done; the same command goes on".into()))
    }
}

#[cfg(test)]
#[path = "elsewhere_tests.rs"]
mod tests;
