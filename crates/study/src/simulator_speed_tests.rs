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
fn a_missing_peer_is_named_with_its_remedy_and_spoils_only_the_full_edition() {
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
