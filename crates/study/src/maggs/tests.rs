#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

/// Every run of both editions is a scenario, and every part has rows.
#[test]
fn editions_hold_every_part() {
    for edition in [Edition::Quick, Edition::Full] {
        let tasks = tasks(edition);
        let full = edition == Edition::Full;
        assert!(PARTS.iter().all(|part| tasks.iter().any(|task| task.part == *part) || !full && *part == "today"));
        for run in tasks.iter().flat_map(|task| &task.runs) {
            let scenario =
                Scenario::parse(&run.text, Path::new(".")).unwrap_or_else(|why| panic!("{why}\n{}", run.text));
            let stack = Stack::from_word(&run.stack).unwrap();
            assert!(scenario.stacks.contains(&stack), "{} {}", run.stack, run.text);
        }
        let line = LineSeen { way: "forward".into(), sent: 100, octets: 4_100, received: 100, ..LineSeen::default() };
        let flow = FlowSeen { flow: DOWN.into(), bytes: 146_000, goodput_bps: 1e6, ..FlowSeen::default() };
        let seen = Seen { flows: vec![flow], lines: vec![line], ..Seen::default() };
        assert_eq!((seen.ratio(), seen.octets_up()), (1.0, 41.0));
        let rows: Vec<Row> = tasks.iter().flat_map(|task| (task.judge)(&vec![seen.clone(); task.runs.len()])).collect();
        for id in [
            "E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E9", "E10", "E11", "E12", "E13", "E15", "E16", "E17",
            "E18", "E19", "E20", "E21",
        ] {
            assert!(rows.iter().any(|row| row.id == format!("S0-{id}")), "{id}");
        }
        let charts = page::charts(&StudyDocument::new(ID, edition, 1, rows));
        assert!(charts.iter().all(|chart| chart.shows_something()));
    }
}
