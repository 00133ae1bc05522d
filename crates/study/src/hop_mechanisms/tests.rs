use super::*;
use wavelane_base::Ratio;
use wavelane_run::Verdict;

/// Every experiment is there in both editions, every run of it is a scenario, no two share a folder, and what was not run is
/// never a pass.
#[test]
fn editions_hold_every_experiment() {
    for edition in [Edition::Quick, Edition::Full] {
        let (mut names, mut ids) = (Vec::new(), Vec::new());
        for task in tasks(edition) {
            assert!(PARTS.contains(&task.part));
            for (name, text) in &task.runs {
                let scenario = wavelane_scenario::Scenario::parse(text, Path::new(".")).expect(text);
                if task.part == LAB {
                    let mut faults =
                        scenario.gateways.iter().flat_map(|g| [g.knobs.block_loss, g.knobs.corruption]).flatten();
                    assert!(faults.all(|share| share == Ratio::ZERO), "{name}: the daemon has no faults");
                }
                let again = wavelane_scenario::Scenario::parse(&scenario.to_toml(), Path::new("."));
                assert_eq!(again, Ok(scenario));
                names.push(name.clone());
            }
            let none: Vec<Option<Seen>> = task.runs.iter().map(|_| None).collect();
            let rows = (task.judge)(&none);
            assert!(!rows.is_empty() && rows.iter().all(|row| row.verdict == Verdict::Inconclusive));
            ids.extend(rows.into_iter().map(|row| row.id));
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        for id in ["S2-E8", "S2-E9", "S2-E10", "S2-E11", "S2-E12", "chain", "sealed", "overhearing"] {
            assert!(ids.iter().any(|found| found == id), "{id}");
        }
    }
}
