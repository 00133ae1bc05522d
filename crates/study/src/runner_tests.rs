#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::sync::atomic::AtomicBool;

/// Runs `tasks`, whose numbers are their costs, of which `found` are there already; says which were worked on, in order,
/// what was counted, and what came out.
fn go(
    tasks: &[u32],
    found: &[u32],
    workers: usize,
    cancelled: &AtomicBool,
    work: impl Fn(&u32) -> Result<u32, StudyError> + Sync,
) -> (Vec<u32>, Vec<Count>, Result<Vec<u32>, StudyError>) {
    let (worked, counts) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let hooks = RunHooks {
        progress: &|_| (),
        count: &|count| counts.lock().unwrap().push(count),
        cancelled,
        environment: &|| serde_json::Value::Null,
        render: &|_| Ok(()),
    };
    let runner = Runner { what: "draws", workers, hooks: &hooks };
    let result = runner.run(
        tasks,
        |task| f64::from(*task),
        |task| found.contains(task).then_some(1_000 + task),
        |task| {
            worked.lock().unwrap().push(*task);
            work(task)
        },
    );
    (worked.into_inner().unwrap(), counts.into_inner().unwrap(), result)
}

#[test]
fn kept_tasks_are_skipped_and_the_longest_run_first() {
    let run = AtomicBool::new(false);
    let (worked, counts, result) = go(&[1, 4, 2, 5, 3], &[4], 1, &run, |task| Ok(*task));
    assert_eq!(worked, [5, 3, 2, 1]);
    assert_eq!(result.unwrap(), [1, 1_004, 2, 5, 3]);
    let told: Vec<(usize, usize)> = counts.iter().map(|c| (c.done, c.of)).collect();
    assert_eq!(told, [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]);
    // 5 of the 11 that were left.
    assert!(counts[0].share == 0.0 && (counts[1].share - 5.0 / 11.0).abs() < 1e-9 && counts[4].share == 1.0);
}

#[test]
fn several_workers_give_the_same_results_in_the_same_order() {
    let run = AtomicBool::new(false);
    let tasks: Vec<u32> = (0..100).map(|n| n * 37 % 101).collect();
    let (mut worked, counts, result) = go(&tasks, &[], 7, &run, |task| Ok(task * 2));
    assert_eq!(result.unwrap(), tasks.iter().map(|task| task * 2).collect::<Vec<_>>());
    worked.sort_unstable();
    worked.dedup();
    assert_eq!((worked.len(), counts.len()), (100, 101));
}

#[test]
fn an_error_stops_further_tasks() {
    let run = AtomicBool::new(false);
    let (worked, _, result) = go(&[9, 8, 7, 6], &[], 1, &run, |task| match task {
        8 => Err(RunError::Refused("no".into()).into()),
        task => Ok(*task),
    });
    assert_eq!(worked, [9, 8]);
    assert!(matches!(result, Err(StudyError::Run(RunError::Refused(_)))));
}

#[test]
fn a_cancelled_run_begins_nothing_more() {
    let stop = AtomicBool::new(false);
    let (worked, _, result) = go(&[9, 8, 7], &[], 1, &stop, |task| {
        stop.store(true, Ordering::Relaxed);
        Ok(*task)
    });
    assert_eq!(worked, [9]);
    assert!(matches!(result, Err(StudyError::Run(RunError::Cancelled))));
}

#[test]
fn nothing_left_needs_no_worker() {
    let run = AtomicBool::new(false);
    let (worked, counts, result) = go(&[1, 2], &[1, 2], 4, &run, |task| Ok(*task));
    assert!(worked.is_empty() && counts.len() == 1 && counts[0].share == 1.0);
    assert_eq!(result.unwrap(), [1_001, 1_002]);
}
