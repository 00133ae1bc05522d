//! Several real-time runs at once: each needs little of the machine, and says so if it got too little.

use crate::StudyError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does `work` on every task with `workers` threads; results stand in the tasks' order. The first error stops the rest.
pub(super) fn run<T: Sync, R: Send>(
    tasks: &[T],
    workers: usize,
    work: impl Fn(&T) -> Result<R, StudyError> + Sync,
) -> Result<Vec<R>, StudyError> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<R, StudyError>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                while let Some((place, task)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| tasks.get(i).map(|t| (i, t)))
                {
                    let result = work(task);
                    let failed = result.is_err();
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
                    if failed {
                        next.store(tasks.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}
