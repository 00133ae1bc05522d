#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::fixtures::document;
use wavelane_run::Verdict;
use wavelane_run::figures::FlowFigures;
use wavelane_scenario::Scenario;

fn stack(word: &str, ours: f64, other: f64) -> StackResult {
    let flow = |name: &str, mbps: f64| FlowFigures {
        flow: name.into(),
        app: "download".into(),
        seed: 1,
        completed: true,
        goodput_bps: Some(mbps * 1e6),
        bytes: 1,
        ..FlowFigures::default()
    };
    StackResult { stack: word.into(), flows: vec![flow(OURS, ours), flow(OTHER, other)], ..StackResult::default() }
}

fn verdicts(rows: &[Row], metric: &str) -> Vec<Verdict> {
    rows.iter().filter(|r| r.metric == metric).map(|r| r.verdict).collect()
}

#[test]
fn every_cell_has_one_shared_bottleneck() {
    for queue in QUEUES {
        let texts = [beside_tcp(15, queue, "cubic"), beside_tcp(15, queue, "bbr"), beside_ours(15, queue)];
        for text in texts {
            let s = Scenario::parse(&text, std::path::Path::new(".")).unwrap();
            for flow in &s.flows {
                let path = s.path(&flow.from, &flow.to).unwrap();
                assert!(path.iter().any(|(c, _)| c.name == "narrow"), "{}", flow.name);
                assert_eq!(s.bottleneck(flow).unwrap().as_bps(), 20_000_000);
            }
        }
    }
}

#[test]
fn shares_are_judged_on_both_sides() {
    let judged = |ours, other| {
        against_tcp(
            &document(vec![stack("tcp-cubic", 9.0, 10.0), stack("wavelane", ours, other)], vec![]),
            "1",
            "cubic",
        )
    };
    use Verdict::{Fail, Pass};
    let rows = judged(10.0, 9.0);
    assert_eq!((verdicts(&rows, "share"), verdicts(&rows, "kept_share")), (vec![Pass], vec![Pass]));
    // 13 of 18.6 is 0.70; 5.6 of 9.5 is 0.59.
    let rows = judged(13.0, 5.6);
    assert_eq!((verdicts(&rows, "share"), verdicts(&rows, "kept_share")), (vec![Fail], vec![Fail]));
    let rows = judged(3.0, 15.0);
    assert_eq!(verdicts(&rows, "share"), [Fail]);
    let mut late = stack("wavelane", 10.0, 9.0);
    late.inconclusive = Some("late".into());
    let rows = against_tcp(&document(vec![stack("tcp-cubic", 9.0, 10.0), late], vec![]), "1", "cubic");
    assert!(rows.iter().all(|r| r.verdict == Verdict::Inconclusive && r.why == "late"));
    let rows = against_tcp(&document(vec![stack("tcp-cubic", 9.0, 10.0)], vec![]), "1", "cubic");
    assert_eq!(verdicts(&rows, "share"), [Verdict::Inconclusive]);
}

#[test]
fn two_links_are_judged_by_jains_index() {
    let jain = |a, b| {
        let rows = two_links(&document(vec![stack("wavelane", a, b)], vec![]), "1");
        let row = rows.into_iter().find(|r| r.metric == "jain").unwrap();
        (row.value.unwrap(), row.verdict)
    };
    assert_eq!(jain(9.0, 9.0), (1.0, Verdict::Pass));
    let (value, verdict) = jain(12.0, 6.0);
    assert!((value - 0.9).abs() < 1e-9 && verdict == Verdict::Pass, "{value}");
    assert_eq!(jain(13.0, 6.0).1, Verdict::Fail);
}

#[test]
fn every_cell_has_a_name_and_a_scenario_of_its_own() {
    let tasks = Task::all();
    let mut names: Vec<String> = tasks.iter().map(Task::name).collect();
    let mut texts: Vec<String> = tasks.iter().map(|task| task.text(15)).collect();
    assert_eq!((names.len(), names[0].as_str(), names[2].as_str()), (9, "cubic-0.25-bdp", "two-0.25-bdp"));
    for words in [&mut names, &mut texts] {
        words.sort();
        words.dedup();
        assert_eq!(words.len(), 9);
    }
}
