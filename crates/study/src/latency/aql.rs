//! Airtime queue limits: how a deep driver's ring behind FQ-CoDel delays echoes beside downloads, and how much of that the
//! limits undo. The scenario is `scenarios/wifi/aql.toml`, in the simulator.

use super::{ID, MISSING};
use crate::cells::{Aim, Cell, Head, documents, unproven, values};
use crate::document::{Edition, Row};
use crate::{Setup, StudyError, StudyOptions};
use serde_json::json;
use wavelane_run::{Backend, RunDocument, RunHooks, StackResult};

const TEXT: &str = include_str!("../../../../scenarios/wifi/aql.toml");
/// What the file says of the access point's ring.
const RING: &str = "ring = \"1000 packets\", aql = true";
/// Names of the three cells, their words, and what they say of the ring.
const RINGS: [(&str, &str, &str); 3] = [
    ("none", "no ring", "ring = \"0 packets\""),
    ("deep", "ring of 1000 frames", "ring = \"1000 packets\""),
    ("aql", "ring of 1000 frames, aql", RING),
];
const ECHO: &str = "echo";
const BULK: [&str; 2] = ["bulk-near", "bulk-far"];

/// Airtime pending from which on a receiver has the lower limit only (`IEEE80211_AQL_THRESHOLD`): of two receivers with at most
/// 12 ms each, all that waits in the ring. The estimate of a frame's airtime includes neither access nor retransmissions, so
/// the worst echoes are allowed twice that.
const THRESHOLD_MS: f64 = 24.0;
/// Goodput that the limits must leave: as of FQ-CoDel beside FIFO.
const KEPT: f64 = 0.95;

fn seeds(edition: Edition) -> u32 {
    match edition {
        Edition::Quick => 5,
        Edition::Full => 10,
    }
}

/// Per seed: what both downloads carried.
fn carried(stack: &StackResult) -> Vec<f64> {
    let [near, far] = BULK.map(|flow| values(stack, flow, |figures| figures.goodput_bps));
    near.iter().zip(far).map(|(near, far)| near + far).collect()
}

fn judged(documents: &[RunDocument]) -> Vec<Row> {
    let stacks: Vec<Option<&StackResult>> = documents.iter().map(|document| document.stacks.first()).collect();
    let head = |ring: &str| Head::sim(ID, &[("cell", json!("802.11n")), ("queue", json!(ring))], "tcp-cubic");
    let heads = RINGS.map(|(_, words, _)| head(words));
    let [Some(none), Some(deep), Some(limited)] = stacks[..] else {
        return vec![
            heads[2].row(MISSING.0, MISSING.1, &[]).inconclusive("a run of this experiment could not be made here"),
        ];
    };
    let median = |stack: &StackResult| values(stack, ECHO, |figures| figures.rtt_p50_ms);
    let tail = |stack: &StackResult| values(stack, ECHO, |figures| figures.rtt_p99_ms);
    let mut rows = Vec::new();
    for (head, stack) in heads.iter().zip([none, deep, limited]) {
        rows.push(head.row("echo_p99_ms", "ms", &tail(stack)));
        rows.push(head.row("downloads_bps", "bit/s", &carried(stack)));
    }
    let rise = |of: &dyn Fn(&StackResult) -> Vec<f64>| -> Vec<f64> {
        of(limited).iter().zip(of(none)).map(|(limited, none)| limited - none).collect()
    };
    for (metric, values, limit) in [
        ("echo_p50_over_no_ring_ms", rise(&median), THRESHOLD_MS),
        ("echo_p99_over_no_ring_ms", rise(&tail), 2.0 * THRESHOLD_MS),
    ] {
        rows.push(heads[2].row(metric, "ms", &values).judged(Aim::AtMost(limit)));
    }
    let kept: Vec<f64> = carried(limited).iter().zip(carried(none)).map(|(limited, none)| limited / none).collect();
    rows.push(heads[2].row("goodput_of_no_ring", "ratio", &kept).judged(Aim::AtLeast(KEPT)));
    rows.iter_mut().for_each(|row| unproven(row, &[none, deep, limited]));
    rows
}

/// Runs the three cells and judges what the limits undo.
pub(super) fn run(options: &StudyOptions, hooks: &RunHooks<'_>) -> Result<Vec<Row>, StudyError> {
    let texts = RINGS.map(|(_, _, ring)| TEXT.replace(RING, ring));
    let names = RINGS.map(|(name, _, _)| format!("sim-ring-{name}"));
    let repeat = seeds(options.edition);
    let cells: Vec<Cell<'_>> = names.iter().zip(&texts).map(|(name, text)| Cell::new(ID, name, text, repeat)).collect();
    let simulator = || -> Box<dyn Backend> { Box::new(wavelane_sim::SimBackend) };
    let rows = judged(&documents(&cells, "cells", options.workers(), &Setup { make: &simulator, options, hooks })?);
    rows.iter().for_each(options.row);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::fixtures::{Folder, options};
    use std::sync::atomic::AtomicBool;
    use wavelane_run::Verdict;
    use wavelane_scenario::Scenario;

    /// As the quick edition runs it: the ring alone delays the echoes, the limits keep every aim.
    #[test]
    fn the_limits_undo_what_the_ring_does() {
        let folder = Folder::new("aql");
        let hooks = RunHooks {
            progress: &|_| (),
            count: &|_| (),
            cancelled: &AtomicBool::new(false),
            environment: &|| serde_json::Value::Null,
            render: &|_| Ok(()),
        };
        let rows = run(&options(&folder.0), &hooks).unwrap();
        let of = |metric: &str| rows.iter().filter(|row| row.metric == metric).collect::<Vec<_>>();
        let tails: Vec<f64> = of("echo_p99_ms").iter().map(|row| row.value.unwrap()).collect();
        assert!(tails[1] > 5.0 * tails[2] && tails[2] > tails[0], "{tails:?}");
        for metric in ["echo_p50_over_no_ring_ms", "echo_p99_over_no_ring_ms", "goodput_of_no_ring"] {
            let [row] = of(metric)[..] else { panic!("no single {metric}") };
            println!("{metric}: {}", row.why);
            assert_eq!(row.verdict, Verdict::Pass, "{metric}: {}", row.why);
        }
    }

    #[test]
    fn the_three_cells_differ_in_the_ring_alone() {
        assert_eq!(TEXT.matches(RING).count(), 1);
        for (_, _, ring) in RINGS {
            let scenario = Scenario::parse(&TEXT.replace(RING, ring), std::path::Path::new(".")).unwrap();
            assert!(BULK.iter().chain([&ECHO]).all(|name| scenario.flows.iter().any(|flow| flow.name == *name)));
        }
    }
}
