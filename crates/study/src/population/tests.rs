#![allow(clippy::unwrap_used, reason = "tests")]
use super::draw::{Loss, Moving, Set, draw};
use super::*;
use crate::document::Row;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_base::Seed;
use wavelane_run::{Count, Verdict};
use wavelane_scenario::Scenario;

const FAMILY: Seed = Seed(1);

#[test]
fn a_draw_is_a_pure_function_of_family_and_number() {
    for number in [1, 17, 1_001, 2_999] {
        assert_eq!(draw(FAMILY, number), draw(FAMILY, number));
        assert_ne!(draw(FAMILY, number).scenario(&STACKS), draw(FAMILY, number + 1).scenario(&STACKS));
        assert_ne!(draw(FAMILY, number).scenario(&STACKS), draw(Seed(2), number).scenario(&STACKS));
    }
}

#[test]
fn every_draw_parses_to_its_values() {
    let last = if std::env::var_os("WAVELANE_TEST_ALL").is_some() { 400 } else { 100 };
    for number in 1..=last {
        let d = draw(FAMILY, number);
        let scenario = Scenario::parse(&d.scenario(&STACKS), Path::new(".")).unwrap();
        // What the Record keeps of it reads back as the same.
        assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")).unwrap(), scenario, "draw {number}");
        assert!((4.0..=600.0).contains(&d.rtt_ms), "draw {number}: {} ms", d.rtt_ms);
        let seconds = d.lasts_ms as f64 / 1e3;
        assert!(seconds >= 30.0 && seconds * 1e3 >= 60.0 * d.rtt_ms, "draw {number}: {seconds} s");
        for way in [&d.down, &d.up] {
            assert!((100_000..=500_000_000).contains(&way.rate), "draw {number}: {}", way.rate);
            assert!(way.queue >= 15_000 && way.lost() <= 0.21, "draw {number}: {} {}", way.queue, way.lost());
            assert!(way.jitter_us <= 40_000 && way.jitter_us as f64 <= d.rtt_ms * 500.0, "draw {number}");
        }
        for way in d.loaded() {
            assert!(way.steady() / 12e3 * seconds >= 2_000.0, "draw {number}: {seconds} s at {}", way.steady());
        }
        let ratio = d.down.rate as f64 / d.up.rate as f64;
        assert!((0.049..=20.2).contains(&ratio), "draw {number}: {ratio}");
    }
}

#[test]
fn the_further_sets_are_what_they_are_named_for() {
    let of = |set: Set| (1..=60).map(move |n| draw(FAMILY, set.before() + n));
    for d in of(Set::Deep).chain(of(Set::Radio)) {
        let scenario = Scenario::parse(&d.scenario(&STACKS), Path::new(".")).unwrap();
        assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")).unwrap(), scenario, "draw {}", d.number);
    }
    for d in of(Set::Deep) {
        for way in d.loaded() {
            let bdp = way.rate as f64 * d.rtt_ms / 8e3;
            let depth = way.queue as f64 / bdp;
            assert!(
                way.queue == 15_000 || way.queue == 64_000_000 || (3.9..=40.2).contains(&depth),
                "{}: {depth}",
                d.number
            );
            let fall = way.rate as f64 / way.least();
            assert!(way.least() < 20_500.0 || (9.9..=101.0).contains(&fall), "draw {}: {fall}", d.number);
            assert!(way.policer.is_none() && way.rates.len() >= 2, "draw {}", d.number);
        }
    }
    let gateways: Vec<u64> = of(Set::Radio).map(|d| d.radio.unwrap().gateways).collect();
    assert!((2..=5).all(|n| gateways.contains(&n)) && gateways.iter().all(|n| (2..=5).contains(n)), "{gateways:?}");
    // Those of a set are judged by themselves.
    let mut members: Vec<Member> = (1..=20).map(|n| member(n, 0.505, 100.0, 1.1)).collect();
    members.extend((1..=20).map(|n| member(Set::Deep.before() + n, 0.3, 100.0, 1.1)));
    let rows = judge::rows(&members);
    assert_eq!(verdict(&rows, "goodput_ratio_median"), Verdict::Pass);
    assert_eq!(verdict(&rows, "deep_goodput_ratio_median"), Verdict::Fail);
}

#[test]
fn traits_come_as_often_as_they_should() {
    let draws: Vec<_> = (1..=3_000).map(|number| draw(FAMILY, number)).collect();
    let share = |of: &dyn Fn(&Draw) -> bool| draws.iter().filter(|d| of(d)).count() as f64 / draws.len() as f64;
    // Four standard deviations of a quarter of 3,000 are 0.032.
    for (name, share) in [
        ("jitter", share(&|d| d.down.jitter_us > 0)),
        ("reordering", share(&|d| d.up.reorder.0 > 0)),
        ("duplication", share(&|d| d.down.duplicate_ppm > 0)),
        ("corruption", share(&|d| d.up.corrupt_ppm > 0)),
        ("policer", share(&|d| d.up.policer.is_some())),
        ("moving", share(&|d| d.moving != Moving::No)),
        ("both", share(&|d| d.load == draw::Load::Both)),
        ("loss-free", share(&|d| matches!(d.down.loss, Loss::None | Loss::Repeated)) - 1.0 / 12.0),
    ] {
        assert!((share - 0.25).abs() < 0.035, "{name}: {share}");
    }
    let fast = share(&|d| d.loaded().iter().any(|way| way.rate > 100_000_000));
    assert!((0.03..0.08).contains(&fast), "{fast}");
}

/// Options of a study of `draws` into `out`, whose rows go nowhere.
fn options(out: &Path, draws: RangeInclusive<u64>) -> StudyOptions {
    StudyOptions {
        edition: Edition::Quick,
        seed: FAMILY,
        jobs: Some(2),
        out: out.to_owned(),
        parts: Vec::new(),
        draws: Some(draws),
        stacks: Vec::new(),
        reuse: Vec::new(),
        traces: [None, None],
        elsewhere: None,
        row: |_| (),
    }
}

/// Runs the study; the counts, and what came out. Asks to stop once so many draws are over.
fn go(options: &StudyOptions, stop_at: usize) -> (Vec<Count>, Result<StudyDocument, StudyError>) {
    let (counts, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let count = |count: Count| {
        stop.fetch_or(count.done >= stop_at, Ordering::Relaxed);
        counts.lock().unwrap().push(count);
    };
    let hooks = RunHooks {
        progress: &|_| (),
        count: &count,
        cancelled: &stop,
        environment: &|| serde_json::Value::Null,
        render: &|_| Ok(()),
    };
    let result = run(&Setup { make: &|| Box::new(wavelane_sim::SimBackend), options, hooks: &hooks });
    (counts.into_inner().unwrap(), result)
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wavelane-population-{name}-{}", std::process::id()))
}

fn files(out: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(out.join(ID)).unwrap().map(Result::unwrap);
    let mut files: Vec<_> =
        entries.map(|e| (e.file_name().to_string_lossy().into_owned(), std::fs::read(e.path()).unwrap())).collect();
    files.sort();
    files
}

/// The cheapest neighbours, so that an unoptimised build runs them in seconds.
fn cheap() -> RangeInclusive<u64> {
    let cost = |first: u64| (first..first + 3).map(|n| draw(FAMILY, n).cost()).sum::<f64>();
    let first = (1..=900u64).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap();
    first..=first + 2
}

#[test]
fn a_resumed_study_gives_the_same_bytes() {
    let (whole, broken) = (folder("whole"), folder("broken"));
    let (_, expected) = go(&options(&whole, cheap()), usize::MAX);
    let expected = expected.unwrap();
    assert!(expected.rows.iter().filter(|r| r.metric == "goodput_ratio").count() == 3, "{expected:?}");

    let one = StudyOptions { jobs: Some(1), ..options(&broken, cheap()) };
    let (counts, stopped) = go(&one, 1);
    assert!(matches!(stopped, Err(StudyError::Run(RunError::Cancelled))), "{stopped:?}");
    assert_eq!(counts.last().unwrap().done, 1);
    let (counts, resumed) = go(&one, usize::MAX);
    assert_eq!((counts[0].done, counts.len()), (1, 3), "one was taken over, two were run");
    assert_eq!(resumed.unwrap(), expected);
    assert_eq!(files(&broken), files(&whole));
    // Nothing is left to do, and another place takes the results over.
    let (counts, again) = go(&one, usize::MAX);
    assert_eq!((counts.len(), counts[0].done), (1, 3));
    assert_eq!(again.unwrap(), expected);
    let elsewhere = folder("elsewhere");
    let (counts, again) = go(&StudyOptions { reuse: vec![whole.clone()], ..options(&elsewhere, cheap()) }, usize::MAX);
    assert_eq!((counts.len(), again.unwrap()), (1, expected));
    // The dice of one file are not those of another family.
    let (counts, _) = go(&StudyOptions { seed: Seed(2), ..options(&broken, cheap()) }, 0);
    assert_eq!(counts[0].done, 0);
    for out in [whole, broken, elsewhere] {
        std::fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn a_range_without_members_is_refused() {
    let (_, result) = go(&options(&folder("none"), RangeInclusive::new(3, 2)), usize::MAX);
    assert!(matches!(result, Err(StudyError::Run(RunError::Refused(why))) if why.contains("--draws 3..2")));
}

fn seen(stack: &str, share: f64, p95: f64, wire: f64) -> Seen {
    Seen {
        stack: stack.into(),
        dice: 1,
        key: String::new(),
        goodputs_bps: vec![share * 1e6],
        share,
        rtt_p50_ms: Some(p95),
        rtt_p95_ms: Some(p95),
        wire_bytes_per_delivered_byte: Some(wire),
        sent: 100,
        lost: 0,
    }
}

fn member(number: u64, ours: f64, p95: f64, wire: f64) -> Member {
    let seen = vec![
        seen(OURS, ours, p95, wire),
        seen("tcp-cubic", 0.1, 20.0, 1.0),
        seen(BBR, 0.5, 100.0, 1.1),
        seen("tcp-bbr3", 0.4, 150.0, 1.1),
    ];
    Member { draw: draw(FAMILY, number), seen, again: Vec::new() }
}

fn verdict(rows: &[Row], metric: &str) -> Verdict {
    rows.iter().find(|r| r.case.is_empty() && r.metric == metric).unwrap().verdict
}

#[test]
fn the_family_is_judged_by_median_tail_echo_and_cost() {
    let good: Vec<Member> = (1..=100).map(|n| member(n, 0.505, 100.0, 1.1)).collect();
    let rows = judge::rows(&good);
    assert!(rows.iter().all(|r| r.verdict != Verdict::Fail), "{rows:?}");
    // A CUBIC that hardly sends is no rival in delay; BBR is, and so is BBR v3, but less strict.
    let slow: Vec<Member> = (1..=100).map(|n| member(n, 0.505, if n <= 6 { 5_000.0 } else { 100.0 }, 1.1)).collect();
    assert_eq!(verdict(&judge::rows(&slow), "echo_p95_share"), Verdict::Fail);
    let dear: Vec<Member> = (1..=100).map(|n| member(n, 0.505, 100.0, if n <= 6 { 1.4 } else { 1.1 })).collect();
    assert_eq!(verdict(&judge::rows(&dear), "wire_share"), Verdict::Fail);
    let tail: Vec<Member> = (1..=100).map(|n| member(n, if n <= 40 { 0.47 } else { 0.505 }, 100.0, 1.1)).collect();
    let rows = judge::rows(&tail);
    assert_eq!(verdict(&rows, "goodput_ratio_median"), Verdict::Pass);
    assert_eq!(verdict(&rows, "goodput_ratio_worst_tenth"), Verdict::Fail);
    assert_eq!(verdict(&rows, "goodput_ratio_085_share"), Verdict::Pass);
    let mut bad: Vec<Member> = (1..=100).map(|n| member(n, if n == 7 { 0.3 } else { 0.505 }, 100.0, 1.1)).collect();
    assert_eq!(verdict(&judge::rows(&bad), "goodput_ratio_085_share"), Verdict::Fail);
    // Five other dice decide whether it was chance.
    bad[6].again = (0..5).map(|_| member(7, 0.45, 100.0, 1.1).seen).collect();
    assert_eq!(verdict(&judge::rows(&bad), "goodput_ratio_085_share"), Verdict::Pass);
}

#[test]
fn every_tcp_fills_a_clean_draw() {
    let clean = |d: &Draw| {
        let ways = [&d.down, &d.up];
        let bare = |w: &&draw::Way| w.loss == Loss::None && w.policer.is_none() && w.jitter_us + w.reorder.1 == 0;
        ways.iter().all(bare)
            && d.moving == Moving::No
            && d.load != draw::Load::Both
            && ways.iter().all(|w| w.duplicate_ppm + w.corrupt_ppm == 0)
    };
    let mut draws: Vec<_> = (1..=3_000).map(|number| draw(FAMILY, number)).filter(clean).collect();
    assert!(draws.len() >= 4, "{} clean draws", draws.len());
    draws.sort_by(|a, b| a.cost().total_cmp(&b.cost()));
    let run = AtomicBool::new(false);
    for d in draws.iter().take(4) {
        let text = d.scenario(&STACKS);
        let share = |stack: &&str| Seen::simulate(d, &text, stack, d.dice, &run).unwrap().share;
        let shares: Vec<f64> = STACKS.iter().filter(|stack| **stack != OURS).map(share).collect();
        println!("draw {}: {shares:.3?} of the link; {}", d.number, d.words());
        // Of what a TCP with timestamps can carry in packets of 1,500 bytes.
        let most = 1_448.0 / 1_500.0;
        assert!(shares.iter().all(|share| (0.9 * most..=most).contains(share)), "draw {}: {shares:?}", d.number);
    }
}
