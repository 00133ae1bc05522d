use super::*;
use wavelane_run::Verdict;
use wavelane_scenario::Scenario;

/// Every part has experiments in both editions, every run of them is a scenario, no two share a folder, and what was not run is
/// never a pass.
#[test]
fn editions_hold_every_experiment() {
    for edition in [Edition::Quick, Edition::Full] {
        let (mut names, mut parts) = (Vec::new(), Vec::new());
        for task in tasks(edition) {
            for (name, text) in &task.runs {
                let scenario = Scenario::parse(text, std::path::Path::new(".")).expect(text);
                assert_eq!(Scenario::parse(&scenario.to_toml(), std::path::Path::new(".")), Ok(scenario));
                names.push(name.clone());
            }
            let none: Vec<Seen> = task.runs.iter().map(|_| Seen::nothing()).collect();
            let rows = (task.judge)(&none);
            assert!(rows.iter().any(|row| row.verdict == Verdict::Inconclusive), "{}", task.runs[0].0);
            assert!(rows.iter().all(|row| [Verdict::Inconclusive, Verdict::Info].contains(&row.verdict)));
            parts.push(task.part);
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(PARTS.iter().all(|part| parts.contains(part)) && parts.iter().all(|part| PARTS.contains(part)));
    }
}

#[test]
fn every_row_of_a_stack_that_could_not_run_says_why_and_what_tells() {
    let why = "the program mptcpize is missing: install it (apt install mptcpize)";
    for edition in [Edition::Quick, Edition::Full] {
        let task = tasks(edition).into_iter().find(|task| task.runs[0].0.starts_with("lab-bond"));
        let task = task.expect("pairs in the laboratory");
        let seen: Vec<Seen> = task.runs.iter().map(|_| Seen::without("mptcp", why)).collect();
        let rows: Vec<_> = (task.judge)(&seen).into_iter().filter(|row| row.stack == "mptcp").collect();
        assert!(rows.len() >= 2);
        for row in rows {
            assert_eq!(row.verdict, Verdict::Inconclusive, "{}", row.metric);
            assert!(row.why.contains(why) && row.why.contains("`wavelane check scenarios/FILE`"), "{}", row.why);
        }
    }
}
