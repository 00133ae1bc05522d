#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::path::Path;

fn scenario(checks: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo.toml");
    let demo = std::fs::read_to_string(path).unwrap();
    let head = demo.split("[checks.").next().unwrap();
    Scenario::parse(&format!("{head}\n{checks}"), Path::new(".")).unwrap()
}

/// A stack with a goodput in Mbit/s and an echo p95 in ms.
fn stack(word: &str, mbit: Option<f64>, p95: f64) -> StackResult {
    let flow = |name: &str, app: &str| FlowFigures {
        flow: name.into(),
        app: app.into(),
        seed: 1,
        completed: mbit.is_some(),
        intact: mbit.map(|_| true),
        goodput_bps: mbit.filter(|_| app == "download").map(|m| m * 1e6),
        bytes: 1,
        duration_ms: mbit.map(|m| 160_000.0 / m),
        rtt_p95_ms: (app == "echo").then_some(p95),
        ..FlowFigures::default()
    };
    StackResult {
        stack: word.into(),
        wire_bytes_per_delivered_byte: Some(1.1),
        flows: vec![flow("page", "download"), flow("echo", "echo")],
        ..StackResult::default()
    }
}

fn judge(check: &str, stacks: &[StackResult]) -> (Verdict, String) {
    let scenario = scenario(&format!("[checks.c]\n{check}"));
    let omitted = [Omitted { stack: "tcp-bbr".into(), why: "not here".into() }];
    let result = checks(&scenario, stacks, &omitted).remove(0);
    (result.verdict, result.why)
}

const FASTER: &str = "flow = \"page\"\nmetric = \"goodput_bps\"\nat-least = true\nthan = \"tcp-*\"\ntimes = \"1.5\"";
const CALMER: &str =
    "flow = \"echo\"\nmetric = \"rtt_p95_ms\"\nat-most = true\nthan = \"tcp-*\"\nif-goodput-at-least = \"1/2\"";

#[test]
fn every_rival_must_be_beaten_by_the_factor() {
    let ours = stack("wavelane", Some(15.0), 150.0);
    let rivals = |c, b| [ours.clone(), stack("tcp-cubic", Some(c), 1.0), stack("tcp-bbr", Some(b), 1.0)];
    let (verdict, why) = judge(FASTER, &rivals(9.0, 10.0));
    assert_eq!(verdict, Verdict::Pass, "{why}");
    assert_eq!(
        why,
        "wavelane page goodput_bps 15.000 Mbit/s: >= 1.5 x tcp-cubic 9.000 Mbit/s; >= 1.5 x tcp-bbr 10.000 Mbit/s"
    );
    assert_eq!(judge(FASTER, &rivals(9.0, 10.1)).0, Verdict::Fail);
    assert_eq!(judge(FASTER, &rivals(9.0, 0.0)).0, Verdict::Inconclusive, "beside nothing everything is fast");
    // One rival that was not run leaves the claim unproven, but a failure stays a failure.
    assert_eq!(judge(FASTER, &rivals(9.0, 1.0)[..2]).0, Verdict::Inconclusive);
    assert_eq!(judge(FASTER, &rivals(11.0, 1.0)[..2]).0, Verdict::Fail);
}

#[test]
fn a_rival_that_hardly_sends_does_not_count_for_delay() {
    let ours = stack("wavelane", Some(15.0), 150.0);
    let slow_and_calm = stack("tcp-cubic", Some(2.0), 101.0);
    let fast = |p95| stack("tcp-bbr", Some(8.0), p95);
    assert_eq!(judge(CALMER, &[ours.clone(), slow_and_calm.clone(), fast(200.0)]).0, Verdict::Pass);
    let (verdict, why) = judge(CALMER, &[ours.clone(), slow_and_calm.clone(), fast(140.0)]);
    assert_eq!(verdict, Verdict::Fail);
    assert_eq!(
        why,
        "wavelane echo rtt_p95_ms 150.0 ms: tcp-cubic does not count (2.000 Mbit/s, needs 7.500 Mbit/s); not <= tcp-bbr 140.0 ms"
    );
    let nobody = [ours, slow_and_calm, stack("tcp-bbr", Some(1.0), 1.0)];
    assert_eq!(judge(CALMER, &nobody).0, Verdict::Pass);
}

#[test]
fn a_rival_without_goodput_is_inconclusive() {
    let all = [stack("wavelane", Some(15.0), 150.0), stack("tcp-cubic", Some(2.0), 300.0), stack("tcp-bbr", None, 1.0)];
    let faster = "flow = \"page\"\nmetric = \"duration_ms\"\nat-most = true\nthan = \"tcp-bbr\"";
    for check in [FASTER, CALMER, faster] {
        let (verdict, why) = judge(check, &all);
        assert_eq!(verdict, Verdict::Inconclusive, "{why}");
        assert!(why.contains("tcp-bbr") && why.contains("nothing to compare with"), "{why}");
    }
}

#[test]
fn rates_keep_three_digits_in_their_own_unit() {
    let written = [
        (3.534e9, "3.53 Gbit/s"),
        (18.19e6, "18.190 Mbit/s"),
        (30_240.0, "30.2 kbit/s"),
        (1_234.0, "1.23 kbit/s"),
        (96.0, "96.0 bit/s"),
    ];
    for (bps, text) in written {
        assert_eq!(show(Metric::GoodputBps, bps), text);
    }
}

#[test]
fn absolute_bounds_show_both_numbers_and_a_missing_figure_fails() {
    let check = "flow = \"page\"\nmetric = \"duration_ms\"\nat-most = \"10 s\"";
    let (verdict, why) = judge(check, &[stack("wavelane", Some(20.0), 1.0)]);
    assert_eq!((verdict, why.as_str()), (Verdict::Pass, "wavelane page duration_ms 8000.0 ms is <= 10.00 s"));
    let (verdict, why) = judge(check, &[stack("wavelane", Some(10.0), 1.0)]);
    assert_eq!((verdict, why.as_str()), (Verdict::Fail, "wavelane page duration_ms 16.00 s is not <= 10.00 s"));
    let (verdict, why) = judge(check, &[stack("wavelane", None, 1.0)]);
    assert_eq!(verdict, Verdict::Fail, "{why}");
    assert_eq!(judge(check, &[]).0, Verdict::Inconclusive);
    let intact = "flow = \"page\"\nmetric = \"intact\"\nat-least = true";
    assert_eq!(judge(intact, &[stack("wavelane", None, 1.0)]).0, Verdict::Fail);
    assert_eq!(judge(intact, &[stack("wavelane", Some(1.0), 1.0)]).0, Verdict::Pass);
}

#[test]
fn totals_put_fail_before_inconclusive_before_pass() {
    use Verdict::{Fail, Inconclusive, Info, Pass};
    assert_eq!(Verdict::total([]), Info, "nothing was judged");
    assert_eq!(Verdict::total([Info, Info]), Info);
    assert_eq!(Verdict::total([Pass, Info]), Pass);
    assert_eq!(Verdict::total([Pass, Inconclusive, Info]), Inconclusive);
    assert_eq!(Verdict::total([Inconclusive, Fail, Pass]), Fail);
}
