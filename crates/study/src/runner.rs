//! Runs the tasks of a study on several threads: what is finished already is taken over, the rest starts with the
//! longest, and progress is reported.

use crate::StudyError;
use crate::kept::Kept;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use wavelane_run::{Count, RunError, RunHooks};

/// How tasks are run.
pub(crate) struct Runner<'a> {
    /// What a task is, for people, such as `draws`.
    pub(crate) what: &'static str,
    /// Most tasks at once.
    pub(crate) workers: usize,
    /// The hooks for progress and cancelling.
    pub(crate) hooks: &'a RunHooks<'a>,
}

impl Runner<'_> {
    /// The same, with results that are `kept` by each task's `key`.
    pub(crate) fn run_kept<T: Sync, R: Send + Serialize + DeserializeOwned>(
        &self,
        kept: &Kept,
        tasks: &[T],
        cost: impl Fn(&T) -> f64,
        key: impl Fn(&T) -> String + Sync,
        work: impl Fn(&T) -> Result<R, StudyError> + Sync,
    ) -> Result<Vec<R>, StudyError> {
        self.run(tasks, cost, |task| kept.get(&key(task)), |task| Ok(kept.put(&key(task), work(task)?)))
    }
}

/// How far it is.
#[derive(Clone, Copy, Default)]
struct Over {
    tasks: usize,
    cost: f64,
}

impl Runner<'_> {
    /// Does `work` on every task whose result is not `found`, those of most `cost` first; results stand in the tasks'
    /// order. The first error stops the rest, as does a cancelled run, in which no further task starts.
    pub(crate) fn run<T: Sync, R: Send>(
        &self,
        tasks: &[T],
        cost: impl Fn(&T) -> f64,
        found: impl Fn(&T) -> Option<R>,
        work: impl Fn(&T) -> Result<R, StudyError> + Sync,
    ) -> Result<Vec<R>, StudyError> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let mut results: Vec<Option<R>> = tasks.iter().map(found).collect();
        let mut left: Vec<(usize, f64)> =
            (0..tasks.len()).filter(|i| results[*i].is_none()).map(|i| (i, cost(&tasks[i]))).collect();
        left.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (taken_over, whole) = (tasks.len() - left.len(), left.iter().map(|(_, cost)| cost).sum::<f64>());
        let tell = |over: Over| {
            let (done, of) = (taken_over + over.tasks, tasks.len());
            let share = if whole > 0.0 { over.cost / whole } else { 1.0 };
            (self.hooks.count)(Count { what: self.what, done, of, share });
        };
        tell(Over::default());
        let (next, over) = (AtomicUsize::new(0), Mutex::new(Over::default()));
        let slots = Mutex::new(&mut results);
        let failed: Mutex<Option<StudyError>> = Mutex::new(None);
        let stop = |error: StudyError| {
            next.store(left.len(), Ordering::Relaxed);
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        };
        let worker = || {
            while let Some(&(place, cost)) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.hooks.cancelled.load(Ordering::Relaxed) {
                    return stop(RunError::Cancelled.into());
                }
                match work(&tasks[place]) {
                    Ok(result) => slots.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(result),
                    Err(error) => return stop(error),
                }
                let mut over = over.lock().unwrap_or_else(PoisonError::into_inner);
                over.tasks += 1;
                over.cost += cost;
                tell(*over);
            }
        };
        match self.workers.min(left.len()) {
            0 => {}
            // On this thread: a caller that runs one after the other may hold what cannot be sent.
            1 => worker(),
            workers => std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker)))),
        }
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let all: Option<Vec<R>> = results.into_iter().collect();
        all.ok_or_else(|| RunError::Cancelled.into())
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
