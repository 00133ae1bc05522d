use super::*;
use crate::document::Row;

fn ids(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}

/// Every experiment is there in both editions, every run of it is a scenario, and no two runs share a folder.
#[test]
fn editions_hold_every_experiment() {
    for (edition, lab_runs) in [(Edition::Quick, 6), (Edition::Full, 26)] {
        let tasks = cases::all(edition);
        let mut names: Vec<String> = Vec::new();
        let mut found: Vec<String> = Vec::new();
        for task in &tasks {
            for run in &task.runs {
                let text = run.home.text();
                wavelane_scenario::Scenario::parse(&text, std::path::Path::new(".")).expect(&text);
                names.push(format!("{}-{}", task.place.word(), run.name));
            }
            let missing: Vec<Found<'_>> = task.runs.iter().map(|run| Found { home: &run.home, seen: None }).collect();
            let rows = (task.judge)(&missing);
            assert!(!rows.is_empty());
            // What was not run is never a pass.
            assert!(rows.iter().all(|row| row.verdict == wavelane_run::Verdict::Inconclusive));
            found.extend(ids(&rows).into_iter().map(str::to_owned));
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
