#![allow(clippy::unwrap_used, reason = "tests")]

use super::words::estimate;
use super::*;
use crate::overlay::{is_apart, legends, recolour};
use crate::plot::{Curve, Look};
use serde_json::Value;
use std::path::Path;
use wavelane_run::Verdict;

/// A record of one stack and one flow with these goodputs in Mbit/s, seeds counting up from `seed`.
fn record(name: &str, stack: &str, seed: u64, mbit: &[f64]) -> Compared {
    let flow = |(i, m): (usize, &f64)| FlowFigures {
        flow: "page".into(),
        app: "download".into(),
        seed: seed + i as u64,
        goodput_bps: Some(m * 1e6),
        duration_ms: Some(160_000.0 / m),
        ..FlowFigures::default()
    };
    let result = StackResult {
        stack: stack.into(),
        flows: mbit.iter().enumerate().map(flow).collect(),
        ..StackResult::default()
    };
    let document = RunDocument {
        format: wavelane_run::RUN_FORMAT.into(),
        scenario: "demo".into(),
        title: String::new(),
        backend: "sim".into(),
        seed,
        repeat: mbit.len() as u32,
        verdict: Verdict::Info,
        omitted: vec![],
        clauses: vec![],
        stacks: vec![result],
        checks: vec![],
        rerun: String::new(),
        record: name.into(),
    };
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo.toml");
    Compared { record: name.into(), document, scenario: Scenario::load(&demo).unwrap(), stack: None }
}

fn goodput(records: &[Compared]) -> Difference {
    goodput_of(&Comparison::of(records))
}

fn goodput_of(comparison: &Comparison) -> Difference {
    comparison.differences.iter().find(|d| FIGURES[d.figure].key == "goodput_bps").unwrap().clone()
}

fn near(found: f64, truth: f64) -> bool {
    (found - truth).abs() <= 1e-3 * truth.abs().max(1e-3)
}

#[test]
fn runs_of_equal_seeds_are_compared_with_each_other() {
    // Every seed is 2 Mbit/s faster, give or take 0.1: the spread between seeds drops out.
    let a = record("a", "wavelane", 1, &[5.0, 10.0, 15.0]);
    let b = record("b", "wavelane", 1, &[7.1, 12.0, 16.9]);
    let d = goodput(&[a.clone(), b]);
    assert!(d.by_seed && near(d.difference.value, 2e6), "{d:?}");
    // t(0.975, 2) = 4.303 x 0.1 / sqrt(3) = 0.2484.
    let (low, high) = d.difference.interval.unwrap();
    assert!(near(low, 2e6 - 0.248_4e6) && near(high, 2e6 + 0.248_4e6), "{low} {high}");
    let ratio = d.ratio.unwrap().value;
    assert!(near(ratio, (7.1_f64 / 5.0 * 1.2 * 16.9 / 15.0).cbrt()), "{ratio}");
    // The same record: no difference at all, and certainly so.
    let same = goodput(&[a.clone(), a]);
    assert_eq!((same.difference.value, same.difference.interval), (0.0, Some((0.0, 0.0))));
    assert_eq!(same.ratio.unwrap().interval, Some((1.0, 1.0)));
}

#[test]
fn only_the_stacks_that_prove_nothing_are_doubted() {
    let mut a = record("a", "wavelane", 1, &[5.0]);
    assert_eq!(super::words::about(&a), "on sim, seed 1, info");
    let other = StackResult { stack: "tcp-bbr".into(), ..a.document.stacks[0].clone() };
    a.document.stacks.push(other);
    a.document.stacks[0].inconclusive = Some("busy".into());
    a.document.verdict = Verdict::Inconclusive;
    assert_eq!(super::words::about(&a), "on sim, seed 1, inconclusive: wavelane proves nothing");
}

#[test]
fn other_seeds_are_compared_by_their_means() {
    // Welch's example by hand: means 10 and 14, variances 4 and 1, three runs each.
    let a = record("a", "wavelane", 1, &[8.0, 10.0, 12.0]);
    let b = record("b", "wavelane", 100, &[13.0, 14.0, 15.0]);
    let d = goodput(&[a, b]);
    assert!(!d.by_seed && near(d.difference.value, 4e6), "{d:?}");
    // se = sqrt(4/3 + 1/3) = 1.29099; freedom (5/3)^2 / ((16/9 + 1/9) / 2) = 2.94, so 2: t = 4.302653.
    let (low, high) = d.difference.interval.unwrap();
    assert!(near(low, 4e6 - 5.554_7e6) && near(high, 4e6 + 5.554_7e6), "{low} {high}");
    let (low, high) = d.ratio.unwrap().interval.unwrap();
    assert!(near(low * high, 1.4 * 1.4), "a ratio and its inverse are equally sure: {low} {high}");
}

#[test]
fn means_of_some_runs_say_of_how_many() {
    let a = record("a", "wavelane", 1, &[8.0, 10.0, 12.0, 14.0]);
    let mut b = record("b", "wavelane", 1, &[8.0, 10.0, 12.0, 14.0]);
    b.document.stacks[0].flows[0].goodput_bps = None;
    let comparison = Comparison::of(&[a.clone(), b]);
    let d = goodput_of(&comparison);
    // The seeds that both have are still compared with each other, and their means are of those.
    assert!(d.by_seed && d.runs == [3, 3] && d.means == [12e6, 12e6], "{d:?}");
    assert!(comparison.text().contains("12.0 (3 of 4)"), "{}", comparison.text());
    // Where few seeds are common, all runs count.
    let other = goodput(&[a, record("c", "wavelane", 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]);
    assert!(!other.by_seed && other.runs == [4, 6], "{other:?}");
}

/// Of five runs against one all that can be said is whether the one lies among the five.
#[test]
fn one_run_is_told_from_several_by_their_range() {
    let five = record("five", "wavelane", 1, &[18.0, 18.2, 18.4, 18.1, 18.3]);
    for (first, other) in
        [(five.clone(), record("one", "wavelane", 9, &[15.0])), (record("one", "wavelane", 1, &[15.0]), five.clone())]
    {
        let comparison = Comparison::of(&[first, other]);
        let d = goodput_of(&comparison);
        let single = d.single.unwrap();
        assert_eq!((single.runs, single.range, single.inside), (5, (18.0e6, 18.4e6), false), "{d:?}");
        assert_eq!(single.side, if d.runs[0] == 1 { 0 } else { 1 });
        let text = comparison.text();
        let ratio = if single.side == 1 { "0.824" } else { "1.21" };
        for part in [
            "outside 18.0 to 18.4",
            &format!(
                "2 of 2 figures of the one lie beyond all 5 (about 1 would by chance): wavelane page: goodput x {ratio}; "
            ),
            "Whether means differ cannot be said of a record with one run",
            // A sixth run is the least or the greatest of six by chance.
            "by chance in 33 % of comparisons",
            "Run both with the same --repeat",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let json: Value = serde_json::from_str(&comparison.to_json()).unwrap();
        assert_eq!(
            (&json["differences"][0]["range"][0], &json["differences"][0]["inside"]),
            (&18.0e6.into(), &false.into())
        );
    }
    let same = Comparison::of(&[five.clone(), record("one", "wavelane", 3, &[18.25])]).text();
    assert!(
        same.contains("inside 18.0 to 18.4, seed 3: 18.4") && same.contains("They have its seed, 3, too"),
        "{same}"
    );
    let among = Comparison::of(&[five, record("one", "wavelane", 9, &[18.25])]).text();
    // As many decimals as it takes.
    let single = Single { side: 1, runs: 5, range: (105.9, 106.2), inside: false, same_seed: None };
    assert_eq!(single.words(106.4, 1.0), "106.4 outside 105.9 to 106.2");
    let alike = Single { range: (0.0, 0.0), ..single };
    assert_eq!(alike.words(1.0, 0.01), "outside, all 5 are 0.00");
    assert!(among.contains("inside 18.0 to 18.4") && among.contains("so no difference shows"), "{among}");
}

/// The page begins with one short sentence; what differs stands below it.
#[test]
fn the_headline_is_one_short_sentence() {
    let a = record("a", "wavelane", 1, &[5.0, 10.0, 15.0]);
    let b = record("b", "wavelane", 1, &[10.0, 20.1, 29.8]);
    let line = |records: &[Compared]| Comparison::of(records).headline();
    let two = line(&[a.clone(), b.clone()]).unwrap();
    assert_eq!(two, "B against A: 2 of 2 ratios differ from 1, the furthest wavelane page goodput x 2.00.");
    // That all runs completed is no ratio.
    let complete = |mut of: Compared| {
        of.document.stacks[0].flows.iter_mut().for_each(|flow| flow.completed = true);
        of
    };
    assert_eq!(line(&[complete(a.clone()), complete(b.clone())]).unwrap(), two);
    let same = line(&[a.clone(), a.clone()]).unwrap();
    assert_eq!(same, "B against A: no ratio differs from 1 beyond its interval.");
    let one = line(&[a.clone(), record("one", "wavelane", 9, &[16.0])]).unwrap();
    assert_eq!(one, "B against A: 2 of 2 figures of the one run of B lie beyond all 3 others.");
    let many = line(&[a.clone(), b.clone(), a.clone(), record("one", "wavelane", 9, &[16.0])]).unwrap();
    assert_eq!(many, "2 of 3 records differ from A beyond intervals or ranges.");
    let none = line(&[a.clone(), a.clone(), a.clone()]).unwrap();
    assert_eq!(none, "None of 2 records differs from A beyond intervals or ranges.");
    assert_eq!(line(&[record("x", "wavelane", 1, &[5.0]), record("y", "wavelane", 1, &[6.0])]), None);
    let findings = Comparison::of(&[a, b]).findings(1).unwrap();
    assert!(findings.starts_with("B against A: wavelane page: ") && findings.contains("goodput x 2.0"), "{findings}");
}

/// The ends of an interval are as exact as it takes to tell them apart, and equal runs have none.
#[test]
fn intervals_show_no_false_precision() {
    let of = |value, low, high| estimate(Estimate { value, interval: Some((low, high)) }, 1.0, false);
    assert_eq!(of(18.2, 18.1, 18.3), "18.2 (18.1 to 18.3)");
    assert_eq!(of(101.0, 100.96, 101.04), "101.00 (100.96 to 101.04)");
    assert_eq!((of(0.0, 0.0, 0.0), of(1.0, 1.0, 1.0)), ("0.00".into(), "1.00".into()));
}

#[test]
fn single_runs_have_no_interval() {
    let records = [record("x/a", "tcp-bbr", 1, &[5.0]), record("x/b", "wavelane", 1, &[15.0])];
    let comparison = Comparison::of(&records);
    let text = comparison.text();
    for part in ["B against A: x/b against x/a", "tcp-bbr -> wavelane", "+10.0", "3.00", "run them with --repeat"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&comparison.to_json()).unwrap();
    assert_eq!(json["format"], "wavelane-compare/1");
    assert_eq!((&json["differences"][0]["ratio"], &json["differences"][0]["ratio_ci95"]), (&3.0.into(), &Value::Null));
    let two = record("c", "wavelane", 1, &[1.0]);
    let mut three = record("d", "tcp-cubic", 1, &[1.0]);
    three.document.stacks.push(StackResult { stack: "tcp-reno".into(), ..StackResult::default() });
    assert!(Comparison::of(&[two, three]).text().contains("nothing to compare"));
}

/// Two stacks with two flows each in two records: four colours, and a dash per record.
#[test]
fn colours_are_flows_and_dashes_are_records() {
    let curve =
        |name: &str| Curve { name: name.into(), look: Look::of(0), pieces: vec![], band: vec![], marks: vec![] };
    let names = ["wavelane up", "wavelane down", "tcp-bbr up", "tcp-bbr down"];
    let mut curves: Vec<Curve> =
        ["A", "B"].iter().flat_map(|letter| names.map(|name| curve(&format!("{letter} {name}")))).collect();
    recolour(&mut curves, &mut Vec::new());
    for (i, curve) in curves.iter().enumerate() {
        assert_eq!(curve.look, Look::of(i % 4).with_dash(i / 4), "{}", curve.name);
    }
    let said = legends(2, true);
    assert!(said.contains("A solid (dots: round), B dashed (square).") && !said.contains("C dotted"), "{said}");
    assert!(legends(30, false).contains("of its own"));
}

/// A record without the first stack of another numbers its own from 0.
#[test]
fn a_stack_has_one_colour_in_all_records() {
    let curve =
        |name: &str, i| Curve { name: name.into(), look: Look::of(i), pieces: vec![], band: vec![], marks: vec![] };
    let mut curves = [curve("A wavelane", 0), curve("A tcp-bbr", 1), curve("B tcp-bbr", 0)];
    assert!(is_apart(&curves) && !is_apart(&curves[..2]));
    let mut names = vec!["tcp-cubic".to_owned()];
    recolour(&mut curves, &mut names);
    assert!(!is_apart(&curves));
    assert_eq!((curves[1].look, curves[2].look), (Look::of(2).with_dash(0), Look::of(2).with_dash(1)));
    assert_eq!(names, ["tcp-cubic", "wavelane", "tcp-bbr"]);
}

/// Whether a transfer completed is a yes or a no: an interval of its mean would reach beyond none and all.
#[test]
fn runs_that_completed_are_counted() {
    let mut a = record("a", "wavelane", 1, &[5.0; 5]);
    let b = record("b", "wavelane", 1, &[5.0; 5]);
    a.document.stacks[0].flows[..2].iter_mut().for_each(|f| f.completed = true);
    let comparison = Comparison::of(&[a, b]);
    let text = comparison.text();
    let row = text.lines().find(|line| line.contains("completed runs")).unwrap();
    assert!(
        row.contains("2 of 5") && row.contains("0 of 5") && row.contains("-40.0 %") && !row.contains(" to "),
        "{row}"
    );
    let json: Value = serde_json::from_str(&comparison.to_json()).unwrap();
    let rows = json["differences"].as_array().unwrap();
    let of = rows.iter().find(|row| row["metric"] == "completed").unwrap();
    assert_eq!((&of["difference"], &of["difference_ci95"]), (&(-0.4).into(), &Value::Null));
    // Of other shares an interval ends where differences do.
    let lost = FIGURES.iter().find(|figure| figure.key == "lost_share").unwrap();
    let wide = Estimate { value: -0.4, interval: Some((-1.08, 0.28)) };
    assert_eq!(lost.bounded(wide).interval, Some((-1.0, 0.28)));
}
