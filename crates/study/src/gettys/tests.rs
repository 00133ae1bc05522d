use super::*;
use wavelane_run::Verdict;

/// Every experiment is there in both editions, every run of it is a scenario, and no two runs share a folder.
#[test]
fn editions_hold_every_experiment() {
    for (edition, lab_runs) in [(Edition::Quick, 6), (Edition::Full, 26)] {
        let (mut names, mut found): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for task in tasks(edition) {
            for (name, text) in &task.runs {
                wavelane_scenario::Scenario::parse(text, std::path::Path::new(".")).expect(text);
                assert!(name.starts_with(task.part));
                names.push(name.clone());
            }
            let missing: Vec<Option<Seen>> = task.runs.iter().map(|_| None).collect();
            let rows = (task.judge)(&missing);
            assert!(!rows.is_empty());
            // What was not run is never a pass.
            assert!(rows.iter().all(|row| row.verdict == Verdict::Inconclusive));
            found.extend(rows.into_iter().map(|row| row.id));
        }
        let lab = names.iter().filter(|name| name.starts_with("lab-")).count();
        assert_eq!(lab, lab_runs, "{edition:?}");
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for id in ["E2a", "E2b", "E2c", "E2d", "E2e", "E3a", "E3b", "E3c", "E3d", "E3e", "E4"] {
            assert!(found.contains(&format!("S3-{id}")), "{id} in {edition:?}");
        }
    }
}
