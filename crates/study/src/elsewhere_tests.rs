#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::fixtures::{Folder, options};
use crate::{Study, StudyOptions};
use serde_json::json;
use std::sync::Mutex;
use wavelane_run::RunHooks;

/// Hooks that keep the counts.
fn hooks<'a>(count: &'a (dyn Fn(Count) + Sync), cancelled: &'a AtomicBool) -> RunHooks<'a> {
    RunHooks { progress: &|_| (), count, cancelled, environment: &|| Value::Null, render: &|_| Ok(()) }
}

/// What was counted, and what came out.
type Went = (Vec<(usize, usize)>, Result<Vec<u64>, StudyError>);

/// What comes of tasks that are numbers, of which 4 is `found`, in batches of two on machines like `dispatch`.
fn go(dispatch: Arc<Dispatch>) -> Went {
    let (counts, run) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let count = |count: Count| counts.lock().unwrap().push((count.done, count.of));
    let hooks = hooks(&count, &run);
    let runner = Runner { what: "draws", workers: 1, hooks: &hooks };
    let travel = Travel { study: "x", batch: 2, pack: &|task| json!(task), unpack: &|_, value| read(value) };
    let result = runner.run_anywhere(
        Some(&Elsewhere(dispatch)),
        &[1_u64, 4, 2, 5, 3],
        |task| *task as f64,
        |task| (*task == 4).then_some(1_004),
        |_| panic!("nothing is done here"),
        &travel,
    );
    (counts.into_inner().unwrap(), result)
}

/// A machine that adds ten.
fn ten_more(batch: &Batch) -> Vec<Value> {
    batch.tasks.iter().map(|task| json!(task.as_u64().unwrap() + 10)).collect()
}

#[test]
fn batches_go_out_longest_first_and_results_stand_in_the_tasks_order() {
    let (counts, result) = go(Arc::new(|batches, deliver| {
        let sent: Vec<&[Value]> = batches.iter().map(|batch| &batch.tasks[..]).collect();
        assert_eq!(sent, [[json!(5), json!(3)], [json!(2), json!(1)]]);
        assert!(batches.iter().enumerate().all(|(n, batch)| batch.shard == n && batch.study == "x"));
        batches.iter().rev().try_for_each(|batch| deliver(batch.shard, ten_more(batch)))
    }));
    assert_eq!(result.unwrap(), [11, 1_004, 12, 15, 13]);
    assert_eq!(counts, [(1, 5), (3, 5), (5, 5)]);
}

#[test]
fn what_a_worker_gives_is_checked() {
    let said = |dispatch: Arc<Dispatch>| go(dispatch).1.unwrap_err().to_string();
    let few = said(Arc::new(|_, deliver| deliver(0, vec![json!(1)])));
    assert_eq!(few, "a worker gave 1 results of 2 tasks of batch 0");
    let unknown = said(Arc::new(|_, deliver| deliver(9, vec![json!(1)])));
    assert_eq!(unknown, "a worker gave 1 results of 0 tasks of batch 9");
    let other = said(Arc::new(|_, deliver| deliver(1, vec![json!("one"), json!(2)])));
    assert!(other.starts_with("a worker's result cannot be read: invalid type"), "{other}");
    let lacking = said(Arc::new(|batches, deliver| deliver(0, ten_more(&batches[0]))));
    assert!(lacking.contains("ended before every task was done"), "{lacking}");
    let cancelled = go(Arc::new(|_, _| Err(RunError::Cancelled))).1;
    assert!(matches!(cancelled, Err(StudyError::Run(RunError::Cancelled))));
}

#[test]
fn tasks_of_no_study_are_refused() {
    let run = AtomicBool::new(false);
    let said = |study: &str, task: Value| work(study, task, &run).unwrap_err().to_string();
    assert_eq!(said("main-job", Value::Null), "study 'main-job' has no tasks that other machines can do");
    assert!(said(hop_swarm::ID, json!("x")).starts_with("a task that cannot be read"));
    let no_cell = json!({ "edition": "quick", "cell": "none", "first_seed": 1 });
    assert_eq!(said(petrovic::ID, no_cell), "study petrovic has no cell 'none'");
    let no_lanes = json!({ "lanes": { "family": 1, "draw": 1001, "lanes": 9 } });
    assert_eq!(said(population::ID, no_lanes), "no member has 9 lanes");
}

/// Machines to which everything goes as text, and comes from as text, the last batch first.
fn machines() -> Elsewhere {
    Elsewhere(Arc::new(|batches, deliver| {
        let run = AtomicBool::new(false);
        for batch in batches.iter().rev() {
            let sent: Value = serde_json::from_str(&serde_json::to_string(batch).unwrap()).unwrap();
            let tasks = sent["tasks"].as_array().unwrap();
            let study = sent["study"].as_str().unwrap();
            let each = |task: &Value| work(study, task.clone(), &run).unwrap();
            let results = tasks.iter().map(each).collect::<Vec<Value>>();
            deliver(batch.shard, serde_json::from_str(&json!(results).to_string()).unwrap())?;
        }
        Ok(())
    }))
}

#[test]
fn a_study_elsewhere_is_the_study_here() {
    let swarm = |options| StudyOptions { draws: Some(1..=3), ..options };
    let links = |options| StudyOptions { draws: Some(1_003..=1_004), ..options };
    let cells = |options| StudyOptions { parts: vec!["nodes".into()], ..options };
    let radio = |options| StudyOptions { parts: vec!["beside".into()], ..options };
    let each: [(&str, &dyn Fn(StudyOptions) -> StudyOptions); 4] =
        [(hop::ID, &radio), (hop_swarm::ID, &swarm), (population::ID, &links), (petrovic::ID, &cells)];
    let run = AtomicBool::new(false);
    for (id, of) in each {
        let folders = [Folder::new("here"), Folder::new("elsewhere")];
        let study = Study::find(id).unwrap();
        let [here, there] = [None, Some(machines())].map(|elsewhere| {
            let folder = &folders[usize::from(elsewhere.is_some())].0;
            let options = of(StudyOptions { elsewhere, ..options(folder) });
            study.run(&options, &hooks(&|_| (), &run)).unwrap().to_json()
        });
        assert_eq!(here, there);
        let files = |folder: &Folder| {
            let all = std::fs::read_dir(folder.0.join(id)).unwrap().map(|entry| entry.unwrap().path());
            let mut all: Vec<(String, String)> = all
                .map(|path| {
                    (path.file_name().unwrap().to_string_lossy().into(), std::fs::read_to_string(path).unwrap())
                })
                .collect();
            all.sort();
            all
        };
        let (mut here, mut there) = (files(&folders[0]), files(&folders[1]));
        // Lines of results stand in the order in which they came.
        for (_, text) in here.iter_mut().chain(&mut there).filter(|(name, _)| name == "kept.jsonl") {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            *text = lines.join("\n");
        }
        assert_eq!(here, there);
    }
}
