#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::fixtures::{Folder, options};
use serde_json::Value;
use std::sync::atomic::AtomicBool;
use wavelane_run::RunHooks;
use wavelane_scenario::Scenario;

/// Every run is a scenario, no two are the same, every part has judged rows, and what was not run is never a pass.
#[test]
fn editions_hold_every_part() {
    for edition in [Edition::Quick, Edition::Full] {
        let all = runs(edition, |_| true);
        let mut keys: Vec<String> = all.iter().map(Run::key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all.len());
        for run in all.iter().filter(|run| run.seed == 0) {
            Scenario::parse(&run.text, std::path::Path::new(".")).expect(&run.text);
        }
        let found = Found { runs: all.iter().map(|run| (run, Seen::default())).collect() };
        for (part, rows) in TABLE {
            let rows = rows(&Found { runs: Vec::new() }, edition);
            assert!(rows.iter().any(|row| row.verdict == Verdict::Inconclusive), "{part}");
            assert!(rows.iter().all(|row| [Verdict::Inconclusive, Verdict::Info].contains(&row.verdict)));
        }
        assert!(!rows(&found, edition).is_empty());
        assert!(PARTS.iter().zip(&TABLE).all(|(word, (part, _))| word == part));
    }
}

/// A run with captures at four places: the split shows the server the wire's round trip, and nobody else's.
#[test]
fn captures_tell_both_sides_of_the_proxy_apart() {
    let folder = Folder::new("dungs-captures");
    let all = runs(Edition::Quick, |part| part == "split");
    let run = all.iter().find(|run| run.name == "e8" && run.stack.ends_with("+split")).unwrap();
    let go_on = AtomicBool::new(false);
    let hooks = RunHooks {
        progress: &|_| (),
        count: &|_| (),
        cancelled: &go_on,
        environment: &|| Value::Null,
        render: &|_| Ok(()),
    };
    let seen = seen::observe(run, &options(&folder.0), &hooks).unwrap();
    let rtt = |place: &str| seen.point(place).unwrap().rtt_ms.unwrap();
    assert!((10.0..12.0).contains(&rtt("server-wire")), "{}", rtt("server-wire"));
    assert!(rtt("p-lan") > 20.0 && rtt("p-wire") < 2.0, "{} {}", rtt("p-lan"), rtt("p-wire"));
    assert!(seen.held.unwrap() > 60_000.0, "{:?}", seen.held);
    assert_eq!(seen::observe(run, &options(&folder.0), &hooks).unwrap(), seen);
}

/// A curve has one value at each length of the outage, though two experiments have the same stack.
#[test]
fn a_curve_is_of_one_experiment() {
    let row = |id: &str, value: f64| {
        let row = crate::Row::new(id, "sim", "tcp-cubic+split", "restart_s", "s");
        crate::Row { value: Some(value), case: [("outage_s".to_owned(), Value::from(16))].into_iter().collect(), ..row }
    };
    let document = StudyDocument::new(ID, Edition::Quick, 1, vec![row("S4-E4", 20.0), row("S4-E16", 17.0)]);
    let charts = page::charts(&Folder::new("dungs-curves").0, &document);
    let curves = &charts.iter().find(|chart| chart.name == "sawtooth").unwrap().curves;
    let of = |id: &str, value: f64| (format!("tcp-cubic+split, {id}"), vec![(16.0, value)]);
    assert_eq!(*curves, [of("S4-E4", 20.0), of("S4-E16", 17.0)]);
}
