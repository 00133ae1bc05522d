#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use wavelane_scenario::Scenario;

#[test]
fn every_cell_is_a_scenario_the_simulator_takes() {
    for contest in contests() {
        let scenario = Scenario::parse(&contest.load.text(contest.seconds), Path::new(".")).unwrap();
        let review = wavelane_run::Backend::review(&wavelane_sim::SimBackend, &scenario);
        assert_eq!(review.refusal(), None, "{}", contest.name);
        assert_eq!(review.treatment_of(scenario.stacks[0]), wavelane_run::Treatment::Imposed);
    }
}

#[test]
fn a_missing_peer_is_inconclusive_in_the_full_edition_only() {
    let contest = &contests()[0];
    let quick = missing_row(contest, Build::Wheel, Edition::Quick, "not installed");
    assert_eq!(quick.verdict, Verdict::Info);
    assert!(quick.why.contains("pip install ns3==3.44.post0") && quick.why.contains("apt-get install libns3-dev"));
    assert_eq!(missing_row(contest, Build::Wheel, Edition::Full, "x").verdict, Verdict::Inconclusive);
}

#[test]
fn the_ratio_is_judged_against_the_aim() {
    let contest = &contests()[0];
    assert_eq!(ratio_row(contest, &[20.0, 22.0], 1.0).verdict, Verdict::Pass);
    assert_eq!(ratio_row(contest, &[19.0, 20.0], 1.0).verdict, Verdict::Fail);
}

#[test]
fn rows_stand_by_cell_whatever_was_measured_first() {
    let contests = contests();
    let all = tasks(&contests);
    assert_eq!(all.len(), 8 + 2 * 5 + 2 + 1);
    let bulk = contests.iter().position(|c| c.program == "seed_bulk").unwrap();
    let measured: Vec<(Task, Measured)> = all
        .into_iter()
        .rev()
        .map(|task| match task {
            Task::Ours(_) => (task, Ok(vec![100.0])),
            Task::Theirs(_, Build::Debian) => (task, Ok(vec![4.0])),
            Task::Theirs(_, Build::Wheel) => (task, Err("not installed".into())),
            Task::Memory(_) => (task, Ok(vec![10.0, 10.5])),
        })
        .collect();
    let rows = rows(&contests, &measured, Edition::Quick);
    let of = |place: usize| {
        let own = |row: &&Row| row.case["cell"] == contests[place].name;
        rows.iter().filter(own).map(|row| (row.metric.as_str(), row.value, row.verdict)).collect::<Vec<_>>()
    };
    assert_eq!(of(2), [("sim_s_per_cpu_s", Some(100.0), Verdict::Info)]);
    let ratio = ("ratio_to_ns3", Some(25.0), Verdict::Pass);
    assert!(of(0).contains(&ratio) && of(0).contains(&("sim_s_per_cpu_s", None, Verdict::Info)));
    assert_eq!(of(bulk).last(), Some(&("rss_ratio_4t", Some(1.05), Verdict::Pass)));
}
