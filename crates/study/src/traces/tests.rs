#![allow(clippy::unwrap_used, reason = "tests")]
use super::judge::rows;
use super::pairs::silence_ms;
use super::*;
use crate::fixtures::{Folder, options};
use std::sync::atomic::AtomicBool;
use wavelane_base::Rate;
use wavelane_run::Verdict;

fn case() -> Case {
    let mean = Rate::from_bps(1_000_000);
    Case { recording: "x".into(), way: "down", queue: "1 MB", mean, text: String::new() }
}

fn seen(stack: &str, mbit: f64, echo_ms: f64, lost: u64, wire: f64) -> Seen {
    Seen {
        stack: stack.into(),
        goodput_bps: mbit * 1e6,
        share: mbit / 10.0,
        echo_p95_ms: Some(echo_ms),
        echoes: 400,
        lost,
        wire: Some(wire),
        seconds: vec![(mbit, echo_ms)],
        answers_ms: vec![],
    }
}

fn verdicts(ours: Seen) -> Vec<(String, Verdict)> {
    let all = [
        ours,
        seen("tcp-cubic", 9.0, 900.0, 0, 1.05),
        seen(BBR, 9.5, 400.0, 0, 1.1),
        seen("tcp-bbr3", 4.0, 50.0, 0, 1.0),
    ];
    let case = case();
    let judged = rows(&[(&case, &all)]).into_iter().filter(|row| row.verdict != Verdict::Info);
    judged.map(|row| (row.metric, row.verdict)).collect()
}

#[test]
fn each_aim_passes_and_fails_by_its_own_figure() {
    let good = verdicts(seen(OURS, 9.4, 190.0, 0, 1.2));
    assert!(good.len() == 9 && good.iter().all(|(_, verdict)| *verdict == Verdict::Pass), "{good:?}");
    let failing = |ours: Seen| -> Vec<String> {
        verdicts(ours).into_iter().filter(|(_, v)| *v == Verdict::Fail).map(|(metric, _)| metric).collect()
    };
    let slow = failing(seen(OURS, 8.0, 190.0, 0, 1.2));
    assert_eq!(slow, ["goodput_ratio_median", "goodput_ratio_worst", "goodput_ratio"]);
    // BBR v3 has less than 0.9 of our goodput: its calm echo is no rival's.
    assert_eq!(failing(seen(OURS, 9.4, 470.0, 0, 1.2)), ["echo_ratio_median"]);
    assert_eq!(
        failing(seen(OURS, 9.4, 500.0, 0, 1.2)),
        ["echo_ratio_median", "echo_over_calmest_worst", "echo_over_calmest"]
    );
    assert_eq!(failing(seen(OURS, 9.4, 190.0, 0, 1.3)), ["wire_ratio_worst", "wire_ratio"]);
    assert_eq!(failing(seen(OURS, 9.4, 190.0, 1, 1.2)), ["lost_echoes"]);
}

#[test]
fn a_silence_counts_only_while_a_lane_delivers() {
    let both = [0, 100, 900, 1_000, 3_000];
    assert_eq!(silence_ms(&both, [&[950, 960], &[]]), 100.0);
    assert_eq!(silence_ms(&both, [&[500], &[]]), 800.0);
    assert_eq!(silence_ms(&both, [&[], &[1_200]]), 2_000.0);
    assert_eq!(silence_ms(&[], [&[1], &[]]), 0.0);
}

fn hooks(cancelled: &AtomicBool) -> RunHooks<'_> {
    let environment = &|| serde_json::Value::Null;
    RunHooks { progress: &|_| (), count: &|_| (), cancelled, environment, render: &|_| Ok(()) }
}

#[test]
fn the_shipped_recordings_make_cases_and_a_bad_folder_is_refused() {
    let folder = Folder::new("traces-cases");
    let cases = links::cases(None, &folder.0, 40).unwrap();
    let names: std::collections::BTreeSet<_> = cases.iter().map(|c| (c.recording.as_str(), c.way)).collect();
    let wanted = [("autobahn", "down"), ("autobahn", "up"), ("c2tcp-subway", "down"), ("leocc-starlink", "down")];
    assert!(names.into_iter().eq(wanted), "what is shipped");
    assert_eq!(cases.len(), 16);
    for case in &cases {
        Scenario::parse(&case.text, Path::new(".")).unwrap_or_else(|e| panic!("{e}\n{}", case.text));
    }
    let fair = cases.iter().filter(|case| case.text.contains("fq-codel")).count();
    assert_eq!(fair, 4);
    std::fs::write(folder.0.join("bad.down"), "1\nx\n").unwrap();
    let why = links::cases(Some(&folder.0), &folder.0, 40).err().unwrap();
    assert!(why.contains("bad.down: line 2: 'x' is not a whole number"), "{why}");
    let gone = StudyOptions { traces: [Some(folder.0.join("gone")), None], ..options(&folder.0) };
    let stop = AtomicBool::new(false);
    let why = crate::Study::find(ID).unwrap().run(&gone, &hooks(&stop)).unwrap_err().to_string();
    assert!(why.contains("gone") && why.contains("name a folder with recordings"), "{why}");
}

/// A slow recording through the whole study, as one and as two lanes.
#[test]
fn a_folder_of_slow_recordings_is_judged() {
    let folder = Folder::new("traces-run");
    let text = |first: u64| -> String {
        let lines = (0..60).map(|n| format!("{}.0,{}\n", first + n, if n == 20 { 0 } else { 300 + n % 7 * 50 }));
        format!("seconds,kbit/s\n{}", lines.collect::<String>())
    };
    for (place, first) in [("a", 100), ("b", 103)] {
        std::fs::create_dir_all(folder.0.join(place)).unwrap();
        std::fs::write(folder.0.join(place).join("car.up.csv"), text(first)).unwrap();
    }
    let stop = AtomicBool::new(false);
    let study = crate::Study::find(ID).unwrap();
    let options = |which: [Option<&str>; 2]| {
        let traces = which.map(|place| place.map(|place| folder.0.join(place)));
        StudyOptions { traces, ..options(&folder.0.join("out")) }
    };
    let one = study.run(&options([Some("a"), None]), &hooks(&stop)).unwrap();
    let of = |metric: &str| one.rows.iter().filter(|row| row.metric == metric).count();
    assert_eq!((of("goodput_ratio"), of("capacity_share"), of("goodput_ratio_median")), (4, 16, 1));
    let shares = one.rows.iter().filter(|row| row.metric == "capacity_share").filter_map(|row| row.value);
    assert!(shares.clone().all(|share| share <= 1.0) && shares.clone().any(|share| share > 0.8), "{:?}", one.rows);
    let charts = page::charts(&folder.0.join("out"), &one);
    assert_eq!(charts.len(), 7);
    assert!(charts.iter().all(|chart| chart.curves.len() == 4), "{charts:?}");
    let two = study.run(&options([Some("a"), Some("b")]), &hooks(&stop)).unwrap();
    let rows: Vec<_> = two.rows.iter().map(|row| (row.metric.as_str(), row.value.is_some())).collect();
    let metrics = ["share_of_sum_median", "share_of_sum", "of_better_lane", "echo_silence_ms"];
    assert_eq!(rows, metrics.map(|metric| (metric, true)));
    // Both have times: the first begins where the second does.
    let text = std::fs::read_to_string(folder.0.join("out/traces/pairs/car-car-a.csv")).unwrap();
    assert!(text.starts_with("seconds,kbit/s\n103.0,"), "{text}");
}
