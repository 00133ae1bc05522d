#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::cells::Head;
use crate::document::Edition;
use net::{B11, TXOP};
use std::path::Path;
use wavelane_run::Verdict;

/// Every run of both editions is a scenario, no two are the same, and every part has judged rows.
#[test]
fn editions_hold_every_part() {
    let meshes = population::meshes().unwrap();
    for edition in [Edition::Quick, Edition::Full] {
        let scenes = scenes::all(edition, &meshes);
        assert!(PARTS.iter().all(|part| *part == LAB || scenes.iter().any(|scene| scene.part == *part)));
        let mut texts: Vec<&str> = scenes.iter().flat_map(|scene| &scene.runs).map(|run| run.text.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        // The longest texts are those of meshes, all alike but for their ends.
        for text in texts
            .iter()
            .filter(|text| text.len() < 5_000)
            .chain(texts.iter().filter(|text| text.len() >= 5_000).take(3))
        {
            Scenario::parse(text, Path::new(".")).expect(text);
        }
        let seen = |run: &Run| Seen {
            flows: ["up", "small4", "plain"].map(|flow| of_flow(flow, run)).into(),
            data: 1.0,
            others: 1.0,
            unanswered: 0.0,
            own_drops: 0.0,
        };
        let found: Vec<Found<'_>> =
            scenes.iter().map(|scene| Found { scene, seen: scene.runs.iter().map(seen).collect() }).collect();
        let rows = rows::all(&found);
        for id in
            ["S2-E2", "S2-E3", "S2-E4", "S2-E5", "S2-E6", "S2-E7", "cells", "both-ways", "beside", "phys", "S2-E13"]
        {
            assert!(rows.iter().any(|row| row.id == id && row.verdict != Verdict::Info), "{id}");
        }
        let ratio = |metric: &str| rows.iter().find(|row| row.metric == metric).and_then(|row| row.value);
        assert_eq!(ratio("over_best_p50"), Some(2.0));
        assert_eq!(ratio("plain_tcp_keeps"), Some(2.0));
    }
}

/// S2-E13's shorter break, in virtual time.
#[test]
fn data_comes_again_soon_after_a_link_of_the_path_breaks() {
    let (_, net) = scenes::broken(5);
    let run = Simulation { scenario: net.text(&format!("{B11}\n{TXOP}"), OURS), stack: OURS.into(), seed: 1 };
    let seen = work(&run, &AtomicBool::new(false)).unwrap();
    println!("{:?}", seen.flows);
    let rows = rows::broken(&Head::sim("S2-E13", &[], OURS), &[&seen]);
    assert!(rows.iter().all(|row| row.verdict == Verdict::Pass), "{rows:?}");
    // Where nothing came again there is no time, and ours fails all the same.
    let mut never = seen.clone();
    never.flows[0].again_ms = None;
    for (stack, verdict) in [(OURS, Verdict::Fail), ("tcp-cubic", Verdict::Info)] {
        let rows = rows::broken(&Head::sim("S2-E13", &[], stack), &[&seen, &never]);
        let again = rows.iter().find(|row| row.metric == "again_ms").unwrap();
        assert_eq!((again.value, again.verdict, &*again.why), (None, verdict, "not before the end"));
    }
}

/// Ours carries twice what others do.
fn of_flow(flow: &str, run: &Run) -> FlowSeen {
    let goodput_bps = if run.stack == OURS { 2e6 } else { 1e6 };
    FlowSeen {
        flow: flow.into(),
        app: "upload".into(),
        goodput_bps,
        bytes: 1,
        duration_ms: Some(9.0),
        p95_ms: None,
        whole: true,
        again_ms: Some(9.0),
    }
}
