#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::fixtures::document;
use wavelane_run::figures::FlowFigures;
use wavelane_run::{Omitted, StackResult};

const FAMILY: Seed = Seed(1);

fn draws() -> impl Iterator<Item = Draw> {
    (1..).map(|number| super::super::draw::draw(FAMILY, number))
}

/// One with so many bodies.
fn with_bodies(n: usize) -> Draw {
    draws().find(|draw| unfit(draw).is_none() && draw.bodies().len() == n).unwrap()
}

fn fitting() -> Draw {
    with_bodies(1)
}

fn seen(draw: &Draw, stack: &str, mbps: f64) -> Seen {
    Seen {
        stack: stack.into(),
        dice: draw.dice,
        key: String::new(),
        goodputs_bps: vec![mbps * 1e6; draw.bodies().len()],
        share: 0.5,
        rtt_p50_ms: Some(100.0),
        rtt_p95_ms: Some(120.0),
        wire_bytes_per_delivered_byte: Some(1.1),
        sent: 100,
        lost: 0,
    }
}

/// What the laboratory saw.
fn real(draw: &Draw, stack: &str, mbps: f64) -> StackResult {
    let body = |(_, name): &(&str, &str)| FlowFigures {
        flow: (*name).into(),
        goodput_bps: Some(mbps * 1e6),
        ..FlowFigures::default()
    };
    StackResult { stack: stack.into(), flows: draw.bodies().iter().map(body).collect(), ..StackResult::default() }
}

#[test]
fn ten_quick_draws_fit_the_lab() {
    let quick = || draws().skip(1_000).take(100);
    assert!(quick().filter(|draw| unfit(draw).is_none()).count() >= DRAWS);
    for draw in quick() {
        let held = |way: &super::super::draw::Way| way.rate as f64 * draw.rtt_ms / 8e3 + way.queue as f64;
        let fits = draw.down.rate.max(draw.up.rate) <= RATE_MAX
            && draw.lasts_ms <= LASTS_MAX_MS
            && draw.loaded().into_iter().all(|way| held(way) <= HELD_MAX);
        assert_eq!(unfit(&draw).is_none(), fits, "{}: {:?}", draw.number, unfit(&draw));
    }
}

#[test]
fn agreement_is_within_a_tenth_either_way() {
    let draw = fitting();
    for (lab, verdict) in [(10.0, Verdict::Pass), (9.1, Verdict::Pass), (8.9, Verdict::Fail), (11.1, Verdict::Fail)] {
        let row = one(&draw, &seen(&draw, OURS, 10.0), &document(vec![real(&draw, OURS, lab)], vec![]));
        assert_eq!(row.verdict, verdict, "{lab}: {row:?}");
        assert!((row.value.unwrap() - lab / 10.0).abs() < 1e-9);
        assert!(row.why.contains(&format!("--draws {n}..{n}", n = draw.number)), "{}", row.why);
    }
}

#[test]
fn one_body_does_not_make_up_for_the_other() {
    let draw = with_bodies(2);
    let mut lab = real(&draw, OURS, 12.0);
    lab.flows[0].goodput_bps = Some(8e6);
    let row = one(&draw, &seen(&draw, OURS, 10.0), &document(vec![lab.clone()], vec![]));
    assert_eq!(row.verdict, Verdict::Fail, "{row:?}");
    assert!(row.why.starts_with("8.000 + 12.000 beside 10.000 + 10.000 Mbit/s"), "{}", row.why);
    lab.flows[1].goodput_bps = None;
    let row = one(&draw, &seen(&draw, OURS, 10.0), &document(vec![lab], vec![]));
    assert_eq!((row.verdict, row.value), (Verdict::Inconclusive, None));
}

#[test]
fn missing_or_late_runs_are_inconclusive() {
    let draw = fitting();
    let missing = vec![Omitted { stack: BBR.into(), why: "no bbr".into() }];
    let row = one(&draw, &seen(&draw, BBR, 10.0), &document(vec![], missing));
    assert_eq!((row.verdict, row.why.as_str()), (Verdict::Inconclusive, "not run: no bbr"));
    let late = StackResult { inconclusive: Some("late".into()), ..real(&draw, BBR, 5.0) };
    let late = one(&draw, &seen(&draw, BBR, 10.0), &document(vec![late], vec![]));
    assert_eq!(late.verdict, Verdict::Inconclusive);
    let good = one(&draw, &seen(&draw, BBR, 10.0), &document(vec![real(&draw, BBR, 10.0)], vec![]));
    let bad = one(&draw, &seen(&draw, BBR, 10.0), &document(vec![real(&draw, BBR, 5.0)], vec![]));
    let verdict = |rows: &[&Row]| claim(BBR, &rows.iter().map(|row| (*row).clone()).collect::<Vec<_>>()).verdict;
    assert_eq!(verdict(&[&good, &good]), Verdict::Pass);
    assert_eq!(verdict(&[&good, &late]), Verdict::Inconclusive);
    assert_eq!(verdict(&[&good, &bad, &late]), Verdict::Fail);
    assert_eq!(verdict(&[&late]), Verdict::Inconclusive);
    assert_eq!(verdict(&[]), Verdict::Inconclusive);
}
