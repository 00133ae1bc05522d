#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn point(stack: &str, rest: &str) -> Point {
    let curve = format!("{stack}{rest}");
    Point { stack: stack.into(), rest: rest.into(), curve, x: 1.0, mean: 1.0, half: None }
}

fn points_of(all: Vec<Point>) -> Points {
    let rests = distinct(all.iter().map(|p| p.rest.as_str())).into_iter().map(str::to_owned).collect();
    Points { all, rests }
}

#[test]
fn a_colour_is_a_stack_and_a_dash_is_a_value() {
    let rests = [", air forward delay 10 ms", ", air forward delay 20 ms"];
    let stacks = ["tcp-bbr", "wavelane"];
    let points = points_of(stacks.iter().flat_map(|stack| rests.map(|rest| point(stack, rest))).collect());
    let order: Vec<&str> = points.all.iter().map(|p| p.curve.as_str()).collect();
    let both = looks(&points, &stacks, &order);
    let found: Vec<Look> = both.curves.into_iter().map(|(look, _)| look).collect();
    assert_eq!(found, [(2, 0), (2, 1), (0, 0), (0, 1)].map(|(colour, dash)| Look::of(colour).with_dash(dash)));
    // Two stacks and two values are four words of a legend and not eight.
    let names: Vec<&str> = both.keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["tcp-bbr", "wavelane", "air forward delay 10 ms", "air forward delay 20 ms"]);
    // More values than dashes: every curve by itself.
    let many = points_of((0..6).map(|n| point("wavelane", &format!(", {n} ms"))).collect());
    let order: Vec<&str> = many.all.iter().map(|p| p.curve.as_str()).collect();
    let found = looks(&many, &["wavelane"], &order);
    assert!((1..6).all(|i| found.curves[i].0.colour != found.curves[0].0.colour) && found.keys.is_empty());
}

#[test]
fn areas_lie_below_all_lines_and_axes_have_words() {
    let axes = [Axis::read("air.forward.rate=5 Mbit/s,10 Mbit/s").unwrap()];
    let at = |stack: usize, x: f64| Point { x, half: Some(0.1), ..point(&format!("tcp-{stack}"), "") };
    let points = points_of((0..6).flat_map(|stack| [at(stack, 5e6), at(stack, 10e6)]).collect());
    let names: Vec<String> = (0..6).map(|stack| format!("tcp-{stack}")).collect();
    let order: Vec<&str> = names.iter().map(String::as_str).collect();
    let (plot, _) = plot(&axes, (0, "bps"), METRICS[0], &points, (&order, &order)).unwrap();
    let svg = plot.svg(crate::plot::WIDE);
    assert!(svg.rfind("<polygon class").unwrap() < svg.find("<polyline").unwrap());
    // Six areas are half as opaque as up to three.
    assert_eq!(svg.matches("fill-opacity=\"0.08\"").count(), 6);
    assert!(svg.contains(">air forward rate (Mbit/s)<") && svg.contains(">Goodput by air forward rate<"));
}

/// A legend of many rows does not push the axes down: it stands below them.
#[test]
fn a_long_legend_stands_below_the_axes() {
    let axes = [Axis::read("air.forward.rate=5 Mbit/s,10 Mbit/s").unwrap()];
    let svg = |curves: usize| {
        let at =
            |n: usize, x: f64| Point { x, ..point("wavelane", &format!(", channel of the name {n:03} and no other")) };
        let points = points_of((0..curves).flat_map(|n| [at(n, 5e6), at(n, 10e6)]).collect());
        let names: Vec<&str> = points.all.iter().step_by(2).map(|p| p.curve.as_str()).collect();
        plot(&axes, (0, "bps"), METRICS[0], &points, (&["wavelane"], &names)).unwrap().0.svg(crate::plot::WIDE)
    };
    let y_of = |svg: &str, words: &str| -> f64 {
        let line = svg.lines().find(|line| line.contains(words)).unwrap();
        line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    for (curves, below) in [(2, false), (14, true)] {
        let svg = svg(curves);
        let (name, axis) = (y_of(&svg, ">channel of the name 000"), y_of(&svg, ">air forward rate (Mbit/s)<"));
        assert_eq!(name > axis, below, "{curves} curves");
        let height: f64 = svg.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        assert!(y_of(&svg, &format!(">channel of the name {:03}", curves - 1)) < height - 4.0, "within the picture");
    }
}

#[test]
fn many_curves_are_said_by_stack() {
    let at = |stack: &str, n: usize, mean| Point { mean, ..point(stack, &format!(", {n} ms")) };
    let points: Vec<Point> = (1..5).flat_map(|n| [at("a", n, n as f64 * 1e6), at("b", n, 5e5)]).collect();
    let order: Vec<&str> = points.iter().map(|p| p.curve.as_str()).collect();
    let mut all: Vec<Points> = METRICS.iter().map(|_| Points::default()).collect();
    all[0].all = points
        .iter()
        .map(|p| Point { curve: p.curve.clone(), rest: p.rest.clone(), stack: p.stack.clone(), ..*p })
        .collect();
    assert_eq!(
        ends(&all, &order, "bps"),
        ["Goodput, means of all combinations: a 1 Mbit/s to 4 Mbit/s; b 500 kbit/s to 500 kbit/s."]
    );
}

#[test]
fn what_does_not_vary_is_a_sentence() {
    let at = |mean: f64, half| Point { mean, half, ..point("wavelane", "") };
    let completed = METRICS[2];
    assert_eq!(flat(completed, &[at(1.0, Some(0.0)), at(1.0, None)]).as_deref(), Some("Every transfer completed."));
    assert_eq!(flat(completed, &[at(1.0, None), at(0.5, None)]), None);
    assert_eq!(
        flat(METRICS[11], &[at(0.0, None), at(0.0, None)]).as_deref(),
        Some("Share of a call lost or late: 0 everywhere.")
    );
    assert_eq!(flat(completed, &[]), None);
}

#[test]
fn only_transfers_are_asked_whether_they_completed() {
    assert!(concerns("completed", "download") && !concerns("completed", "echo") && concerns("rtt_p50_ms", "echo"));
}

/// A sweep's cell at this rate, of these stacks with one transfer each: how long it took, if it completed.
fn cell(rate: &str, durations: &[(&str, Option<f64>)]) -> SweepCell {
    let flow = |ms: &Option<f64>| wavelane_run::figures::FlowFigures {
        flow: "page".into(),
        app: "download".into(),
        completed: ms.is_some(),
        goodput_bps: Some(1e6),
        duration_ms: *ms,
        ..Default::default()
    };
    let stack = |(stack, ms): &(&str, Option<f64>)| wavelane_run::StackResult {
        stack: (*stack).into(),
        flows: vec![flow(ms)],
        ..Default::default()
    };
    let document = wavelane_run::RunDocument {
        format: wavelane_run::RUN_FORMAT.into(),
        scenario: "demo".into(),
        title: String::new(),
        backend: "sim".into(),
        seed: 1,
        repeat: 1,
        verdict: Verdict::Info,
        omitted: vec![],
        clauses: vec![],
        stacks: durations.iter().map(stack).collect(),
        checks: vec![],
        rerun: String::new(),
        record: "r".into(),
    };
    SweepCell { values: vec![rate.into()], record: "r".into(), document, failed: vec![] }
}

/// A stack whose transfer did not complete at the first value has the colour that it has in the pictures of other metrics.
#[test]
fn a_stack_has_its_colour_also_where_it_lacks_a_point() {
    let axes = [Axis::read("air.forward.rate=5 Mbit/s,10 Mbit/s").unwrap()];
    let cells = [
        cell("5 Mbit/s", &[("wavelane", Some(1.0)), ("tcp-cubic", None), ("tcp-bbr", Some(2.0))]),
        cell("10 Mbit/s", &[("wavelane", Some(1.0)), ("tcp-cubic", Some(4.0)), ("tcp-bbr", Some(2.0))]),
    ];
    let colours = |metric: &str| {
        let points = points(&axes, &cells, 0, metric);
        looks(&points, &stacks_of(&cells), &["wavelane", "tcp-cubic", "tcp-bbr"]).curves.iter().map(|c| c.0).collect()
    };
    let all: [Vec<Look>; 2] = ["goodput_bps", "duration_ms"].map(colours);
    assert_eq!(all[0], [0, 1, 2].map(|colour| Look::of(colour).with_dash(0)));
    assert_eq!(all[0], all[1]);
    // A stack that the first combination leaves out stands where the scenario has it.
    let fewer = [cell("5 Mbit/s", &[("wavelane", None), ("tcp-bbr", None)]), cells[1].clone()];
    assert_eq!(stacks_of(&fewer), ["wavelane", "tcp-cubic", "tcp-bbr"]);
}

/// The same of dashes, which tell values apart.
#[test]
fn a_value_has_its_dash_also_where_it_lacks_a_point() {
    let read = |axis| Axis::read(axis).unwrap();
    let axes = [read("air.forward.rate=5 Mbit/s,10 Mbit/s"), read("air.forward.delay=10 ms,20 ms")];
    let at = |rate: &str, delay: &str, ms| SweepCell {
        values: vec![rate.into(), delay.into()],
        ..cell(rate, &[("wavelane", ms)])
    };
    let [slow, fast] = ["5 Mbit/s", "10 Mbit/s"];
    let (lacks, has) = (at(slow, "10 ms", None), Some(1.0));
    let cells = [lacks, at(slow, "20 ms", has), at(fast, "10 ms", has), at(fast, "20 ms", has)];
    let points = points(&axes, &cells, 0, "duration_ms");
    let order = ["wavelane, air forward delay 10 ms", "wavelane, air forward delay 20 ms"];
    let found = looks(&points, &["wavelane"], &order).curves;
    assert_eq!(found, [(Look::of(0).with_dash(0), order[0]), (Look::of(0).with_dash(1), order[1])]);
}

#[test]
fn the_interval_of_a_share_ends_at_all() {
    let axes = [Axis::read("air.forward.rate=5 Mbit/s,10 Mbit/s").unwrap()];
    let at = |x: f64| Point { x, mean: 0.6, half: Some(0.68), ..point("wavelane", "") };
    let points = points_of(vec![at(5e6), at(10e6)]);
    let highest = |metric| {
        let (plot, _) = plot(&axes, (0, "bps"), metric, &points, (&["wavelane"], &["wavelane"])).unwrap();
        plot.curves[0].band.iter().map(|p| p.1).fold(0.0, f64::max)
    };
    assert_eq!(METRICS[2].0, "completed");
    assert_eq!(highest(METRICS[2]), 1.0);
    // What is no share goes as far as its interval.
    assert!(highest(METRICS[12]) > 1.1);
}

#[test]
fn the_page_says_how_the_checks_came_out() {
    let folder = std::env::temp_dir().join(format!("wavelane-sweep-verdict-{}", std::process::id()));
    let axes = [Axis::read("air.forward.rate=5 Mbit/s").unwrap()];
    for verdict in [Verdict::Fail, Verdict::Pass] {
        let mut one = cell("5 Mbit/s", &[("wavelane", Some(1.0))]);
        one.document.verdict = verdict;
        let page = render_sweep(&folder, "demo", &axes, &[one], "wavelane sweep").unwrap();
        let word = verdict.word();
        let line = format!("<p>Verdict: <span class=\"v {word}\">{word}</span>.</p>");
        assert!(std::fs::read_to_string(page).unwrap().contains(&line), "{word}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_first_lines_say_what_changes_and_who_carried_most() {
    let read = |axis: &str| Axis::read(axis).unwrap();
    let rates = ["5 Mbit/s", "10 Mbit/s", "20 Mbit/s", "50 Mbit/s"];
    let at = |rate: &str, goodput: [f64; 2]| {
        let mut cell = cell(rate, &[("wavelane", None), ("tcp-cubic", None)]);
        cell.document.stacks.iter_mut().zip(goodput).for_each(|(stack, bps)| stack.flows[0].goodput_bps = Some(bps));
        cell
    };
    let all = [[4e6, 2e6], [6e6, 8e6], [9e6, 3e6], [5e6, 0.0]];
    let cells: Vec<SweepCell> = rates.iter().zip(all).map(|(rate, goodput)| at(rate, goodput)).collect();
    let axis = format!("air.forward.rate={}", rates.join(","));
    let axes = [read(&axis)];
    assert_eq!(
        headline(&axes, &cells, 5),
        "What changes: air forward rate 5 Mbit/s to 50 Mbit/s (4 values). 4 combinations, 5 seeds of each"
    );
    assert_eq!(
        most_carried(&cells).unwrap(),
        "Most goodput: wavelane in 3 of 4 (2.00 to very many times the next), tcp-cubic in 1 of 4 (1.33 times the next)."
    );
    let two = [read("air.forward.rate=5 Mbit/s,10 Mbit/s"), read("page.size=1 MB")];
    assert_eq!(
        headline(&two, &cells[..2], 1),
        "What changes: air forward rate 5 Mbit/s, 10 Mbit/s. 2 combinations, one seed of each"
    );
    assert_eq!(most_carried(&[cell("5 Mbit/s", &[("wavelane", None)])]), None);
}
