//! Every study goes on where it was interrupted, says how far it is, and stops when it is told to.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::fixtures::{Folder, options};
use crate::{STUDIES, Study, StudyError, StudyOptions};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_run::{Count, RunError, RunHooks};

/// Those that take a lab, or this program itself: their modules' tests hold what they keep to what they keep it by, and
/// `tests/studies.rs` of `wavelane-cli` interrupts the one that starts this program.
const ELSEWHERE: [&str; 6] =
    ["main-job", "simulator-speed", "gateway-capacity", "tcp-interop", "link-efficiency", "proxy"];

/// Its two tasks take longer than those of all others together: in `make test-all`.
const LONG: &str = "hop-mechanisms";

/// Runs a study until `more` of its tasks are over, and says what was counted.
fn interrupted(study: &Study, options: &StudyOptions, more: usize) -> Vec<Count> {
    let (stop, counts) = (AtomicBool::new(false), Mutex::new(Vec::<Count>::new()));
    let count = |count: Count| {
        let mut counts = counts.lock().unwrap();
        let first = counts.first().map_or(count.done, |first| first.done);
        stop.store(count.done >= first + more, Ordering::Relaxed);
        counts.push(count);
    };
    let hooks = RunHooks {
        progress: &|_| (),
        count: &count,
        cancelled: &stop,
        environment: &|| serde_json::Value::Null,
        render: &|_| Ok(()),
    };
    let result = study.run(options, &hooks);
    assert!(matches!(result, Err(StudyError::Run(RunError::Cancelled))), "{}: {result:?}", study.id);
    counts.into_inner().unwrap()
}

#[test]
fn an_interrupted_study_goes_on_and_repeats_nothing() {
    let held = |study: &&Study| {
        let folder = Folder::new(study.id);
        // The simulator's part, where there is one.
        let parts: Vec<String> = study.parts.iter().filter(|part| **part == "sim").map(|part| (*part).into()).collect();
        assert!(study.backend == "sim" || !parts.is_empty(), "{} has no part that runs here", study.id);
        let draws = study.has_draws().then_some(1..=3);
        let options = StudyOptions { parts, draws, ..options(&folder.0) };
        let first = interrupted(study, &options, 1);
        assert_eq!(first.iter().map(|c| c.done).collect::<Vec<_>>(), [0, 1], "{}", study.id);
        assert!(first[0].of > 1 && first[0].share == 0.0, "{}: {:?}", study.id, first[0]);
        let second = interrupted(study, &options, 0);
        assert_eq!(second.iter().map(|c| c.done).collect::<Vec<_>>(), [1], "{}", study.id);
    };
    let here: Vec<&Study> = STUDIES.iter().filter(|study| !ELSEWHERE.contains(&study.id)).collect();
    assert_eq!(here.len() + ELSEWHERE.len(), STUDIES.len());
    let short = std::env::var_os("WAVELANE_TEST_ALL").is_none();
    let asked = here.iter().filter(|study| !(short && study.id == LONG));
    std::thread::scope(|scope| asked.for_each(|study| drop(scope.spawn(move || held(study)))));
}

#[test]
fn a_moving_link_is_kept_too() {
    let folder = Folder::new("moving");
    let study = Study::find("latency").unwrap();
    let options = StudyOptions { parts: vec!["moving".into()], ..options(&folder.0) };
    assert_eq!(interrupted(study, &options, 1)[0].done, 0);
    assert_eq!(interrupted(study, &options, 0)[0].done, 1);
}
