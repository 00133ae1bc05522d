#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::fixtures::document;

fn figures(flow: &str, seed: u64, goodput: Option<f64>, p95: Option<f64>) -> FlowFigures {
    FlowFigures {
        flow: flow.into(),
        app: if flow == ECHO { "echo" } else { "download" }.into(),
        seed,
        completed: true,
        intact: Some(true),
        goodput_bps: goodput,
        bytes: 1,
        duration_ms: goodput.map(|_| 1.0),
        rtt_p50_ms: p95,
        rtt_p95_ms: p95,
        rtt_p99_ms: p95,
        ..FlowFigures::default()
    }
}

fn stack(word: &str, goodputs: [f64; 2], p95: f64) -> StackResult {
    let flows = goodputs
        .iter()
        .zip(1..)
        .flat_map(|(g, seed)| [figures(BULK, seed, Some(*g), None), figures(ECHO, seed, None, Some(p95))]);
    StackResult {
        stack: word.into(),
        wire_bytes_per_delivered_byte: Some(1.1),
        flows: flows.collect(),
        ..StackResult::default()
    }
}

fn judged(stacks: Vec<StackResult>) -> Vec<Row> {
    let scenario = Scenario::parse(SCENARIO, Path::new(".")).unwrap();
    let document = RunDocument { scenario: "demo".into(), repeat: 2, ..document(stacks, vec![]) };
    judge(&scenario, &document)
}

fn find<'a>(rows: &'a [Row], stack: &str, metric: &str) -> &'a Row {
    rows.iter().find(|r| r.stack == stack && r.metric == metric).unwrap()
}

#[test]
fn the_bound_is_rate_times_good_time_times_payload_share() {
    let rows = judged(vec![stack("wavelane", [15e6, 17e6], 150.0), stack("tcp-bbr", [8e6, 8e6], 200.0)]);
    let row = find(&rows, "wavelane", "goodput_bps");
    // 20 Mbit/s x 570 / 600 x 1437 / 1500.
    assert!((row.bound.unwrap() - 18.202e6).abs() < 1.0, "{:?}", row.bound);
    assert_eq!((row.value, row.n, row.verdict), (Some(16e6), 2, Verdict::Pass));
    assert!(row.ci95.unwrap() > 0.0);
    assert_eq!(find(&rows, "tcp-bbr", "rtt_p95_ms").verdict, Verdict::Info);
    let pooled = find(&rows, "wavelane", "wire_bytes_per_delivered_byte");
    assert_eq!((pooled.value, pooled.ci95), (Some(1.1), None));
}

#[test]
fn a_goodput_above_the_link_is_a_failed_measurement() {
    let rows = judged(vec![stack("wavelane", [15e6, 19.5e6], 150.0)]);
    assert_eq!(find(&rows, "wavelane", "goodput_bps").verdict, Verdict::Fail);
}

#[test]
fn claims_pair_seeds_and_skip_slow_rivals() {
    let rows = judged(vec![
        stack("tcp-cubic", [1e6, 1e6], 100.0),
        stack("tcp-bbr", [8e6, 32e6], 100.0),
        stack("wavelane", [16e6, 16e6], 150.0),
    ]);
    let faster = find(&rows, "wavelane", "geomean_ratio goodput_bps over tcp-bbr");
    // (2 x 1/2) ^ 1/2 = 1.
    assert!((faster.value.unwrap() - 1.0).abs() < 1e-9);
    assert!(faster.case.is_empty());
    let calmer = |rival: &str| find(&rows, "wavelane", &format!("geomean_ratio rtt_p95_ms over {rival}")).verdict;
    assert_eq!(calmer("tcp-cubic"), Verdict::Info);
    assert_eq!(calmer("tcp-bbr"), Verdict::Fail);
}

#[test]
fn a_stack_that_lacks_a_figure_leaves_the_claim_open() {
    let mut broken = stack("tcp-bbr", [8e6, 8e6], 100.0);
    broken.flows[0].goodput_bps = None;
    let rows = judged(vec![broken, stack("wavelane", [16e6, 16e6], 150.0)]);
    let faster = find(&rows, "wavelane", "geomean_ratio goodput_bps over tcp-bbr");
    assert_eq!(faster.verdict, Verdict::Inconclusive);
}

#[test]
fn the_seeds_runs_become_one_document() {
    let one = |seed: u64, wire: f64, why: Option<&str>| {
        let flows = vec![figures(BULK, seed, Some(seed as f64), None), figures(ECHO, seed, None, Some(1.0))];
        let (wire, why) = (Some(wire), why.map(str::to_owned));
        let of = |stack: &str| StackResult {
            stack: stack.into(),
            wire_bytes_per_delivered_byte: wire,
            inconclusive: why.clone(),
            flows: flows.clone(),
            ..StackResult::default()
        };
        document(vec![of("tcp-bbr"), of("wavelane")], vec![])
    };
    let all = merged(vec![one(5, 1.0, None), one(6, 2.0, Some("late"))]);
    assert_eq!((all.repeat, all.stacks.len()), (2, 2));
    for stack in &all.stacks {
        assert_eq!(values(stack, BULK, Metric::GoodputBps), [Some(5.0), Some(6.0)]);
        assert_eq!((stack.wire_bytes_per_delivered_byte, stack.inconclusive.as_deref()), (Some(1.5), Some("late")));
    }
}

#[test]
fn every_seed_is_a_cell_with_its_command() {
    let [one, two] = [cell(3, "seed-3"), cell(4, "seed-4")];
    let folder = crate::fixtures::Folder::new("main-job");
    let options = crate::fixtures::options(&folder.0);
    assert_ne!(one.places(&options), two.places(&options));
    assert_eq!(one.own.unwrap().1, "wavelane run scenarios/demo.toml --on lab --seed 3");
    assert!(two.kept(&options).unwrap().is_none());
}
