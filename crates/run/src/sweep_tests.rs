#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::{BackendError, FlowRaw, Review, RunContext, Spent, StackRaw};
use std::sync::atomic::AtomicBool;
use wavelane_scenario::{Cell, Scenario, Seed, Stack, Sweep};

/// How often the backend ran.
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// A transfer at the channel's rate; the rate of 3 Mbit/s is where Ctrl-C comes if the title says so.
struct AtRate;

impl Backend for AtRate {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn review(&self, _: &Scenario) -> Review {
        Review::default()
    }
    fn run_stack(
        &mut self,
        scenario: &Scenario,
        stack: Stack,
        seed: Seed,
        context: &mut RunContext<'_>,
    ) -> Result<StackRaw, BackendError> {
        let flow = &scenario.flows[0];
        let rate = scenario.bottleneck(flow).unwrap().as_bps();
        if scenario.title == "stop" && rate == 3_000_000 {
            return Err(BackendError::Cancelled);
        }
        assert_eq!(context.captures, crate::CaptureExtent::Off, "cells keep no captures");
        RUNS.fetch_add(1, Ordering::Relaxed);
        let octets = 1_000_000 + seed.0;
        let end = 1_000_000_000 + octets * 8_000_000_000 / rate;
        let seen = |f: &wavelane_scenario::Flow| FlowRaw {
            flow: f.name.clone(),
            app: f.app.word(),
            connect_ns: 500_000_000,
            first_byte_ns: Some(1_000_000_000),
            last_byte_ns: Some(end),
            completed: true,
            intact: Some(true),
            octets,
            arrivals: vec![(end, octets)],
            probes: vec![],
            ages: vec![],
            fetches: vec![],
            given_ns: 9_500_000_000,
        };
        Ok(StackRaw {
            stack,
            flows: scenario.flows.iter().map(seen).collect(),
            wire_octets: octets * 2,
            ways: vec![],
            repair_octets: None,
            first_octets: None,
            inconclusive: None,
            notes: vec![],
            radios: vec![],
            lines: vec![],
            spent: Spent { programs_s: None, machine_s: None },
            kernels: vec![],
            packets: None,
            timeouts: None,
        })
    }
}

// What was noted, by all tests of this thread.
thread_local!(static NOTES: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) });

fn notes() -> Vec<String> {
    NOTES.take()
}

fn go(out: &Path, title: &str, axis: &str) -> Result<(String, Vec<SweepCell>), RunError> {
    go_with(out, title, axis, 2)
}

/// What is swept, its combinations, and how.
fn plan(out: &Path, title: &str, axis: &str, repeat: u32) -> (Sweep, Vec<Cell>, SweepOptions) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/smoke/one_hop.toml");
    let sweep_of = Sweep {
        axes: vec![Axis::read(axis).unwrap(), Axis::read("air.forward.delay=10 ms,20 ms").unwrap()],
        repeats: None,
    };
    // At 1 Mbit/s seed 1 takes 8,500.008 ms, and every further seed 8 us more.
    let brief = "checks.brief={ flow = \"page\", metric = \"duration_ms\", at-most = \"8500010 us\" }";
    let settings = [&format!("title={title}"), brief].map(|text| wavelane_scenario::Setting::read(text).unwrap());
    let cells = sweep_of.cells(&file, &settings).unwrap();
    let options = SweepOptions {
        name: "hop".into(),
        repeat,
        jobs: 3,
        out: out.into(),
        rerun: format!("wavelane run hop.toml --repeat {repeat}"),
        replace: false,
        note: |line| NOTES.with_borrow_mut(|all| all.push(line.to_owned())),
    };
    (sweep_of, cells, options)
}

fn go_with(out: &Path, title: &str, axis: &str, repeat: u32) -> Result<(String, Vec<SweepCell>), RunError> {
    planned(plan(out, title, axis, repeat))
}

fn planned((sweep_of, cells, options): (Sweep, Vec<Cell>, SweepOptions)) -> Result<(String, Vec<SweepCell>), RunError> {
    let hooks = RunHooks {
        progress: &|_| (),
        count: &|count| assert!(count.done <= count.of && (0.0..=1.0).contains(&count.share)),
        cancelled: &AtomicBool::new(false),
        environment: &|| Value::Null,
        render: &|_| Ok(()),
    };
    let make = || -> Box<dyn Backend> { Box::new(AtRate) };
    let done = sweep(&make, &sweep_of.axes, &cells, &options, &hooks)?;
    Ok((sweep_table(&sweep_of.axes, &done).csv(), done))
}

/// One test, for it counts the runs of all.
#[test]
fn a_sweep_fills_a_table_and_resumes() {
    let out = std::env::temp_dir().join(format!("wavelane-sweep-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&out);
    let ran = || RUNS.swap(0, Ordering::Relaxed);
    let stopped = go(&out, "stop", "air.forward.rate=1 Mbit/s,2 Mbit/s,3 Mbit/s");
    assert!(matches!(stopped, Err(RunError::Cancelled)));
    let before = ran();
    assert!(before <= 8);
    // The title is part of the scenario: nothing of the stopped one is taken for this one.
    let (csv, cells) = go(&out, "go", "air.forward.rate=1 Mbit/s,2 Mbit/s,3 Mbit/s").unwrap();
    assert_eq!((ran(), cells.len()), (12, 6));
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("air.forward.rate_bps,air.forward.delay_ms,backend,stack,seed,flow,app,metric,value,verdict")
    );
    let goodput: Vec<&str> = lines.clone().filter(|l| l.contains(",page,download,goodput_bps,")).collect();
    assert_eq!(goodput.len(), 12, "a row per cell and seed");
    assert!(goodput[0].starts_with("1000000,10,fake,wavelane,1,page,download,goodput_bps,"), "{}", goodput[0]);
    let value: f64 = goodput[0].rsplit(',').nth(1).unwrap().parse().unwrap();
    assert!((value - 1e6).abs() < 10.0, "{value}");
    assert_eq!(lines.clone().filter(|l| l.contains("wavelane,,,,wire_bytes_per_delivered_byte,")).count(), 6);
    assert!(csv.contains(",page,download,completed,1,"), "{csv}");
    // Over both seeds 1 Mbit/s misses both bounds, and seed 1 by itself one of them.
    let failed = |cell: usize| cells[cell].failed.iter().map(|f| (f.check.as_str(), f.seeds)).collect::<Vec<_>>();
    assert_eq!(failed(0), [("page-fills-the-link", Some(2)), ("brief", Some(1))]);
    assert_eq!(failed(2), [("page-fills-the-link", Some(2))]);
    // Again: nothing runs. One value more: its cells alone run.
    assert_eq!(go(&out, "go", "air.forward.rate=1 Mbit/s,2 Mbit/s,3 Mbit/s").unwrap().0, csv);
    assert_eq!(ran(), 0);
    assert_eq!(go(&out, "go", "air.forward.rate=1 Mbit/s,4 Mbit/s,2 Mbit/s,3 Mbit/s").unwrap().1.len(), 8);
    assert_eq!(ran(), 4);
    assert!(cells.iter().all(|cell| out.join(&cell.record).join("record.json").exists()));
    what_is_not_believed(&out, &cells, &csv, &ran);
    assert!(cells[1].document.rerun.ends_with("--set 'air.forward.rate=1 Mbit/s' --set 'air.forward.delay=20 ms'"));
    std::fs::remove_dir_all(&out).unwrap();
    other_seeds_take_no_records_place(&out, &ran);
    std::fs::remove_dir_all(&out).unwrap();
    std::fs::create_dir_all(out.join("thesis")).unwrap();
    let refused = go(&out, "go", "air.forward.rate=1 Mbit/s").unwrap_err().to_string();
    assert!(refused.contains("exists and is not a sweep"), "{refused}");
    std::fs::remove_dir_all(&out).unwrap();
}

/// Records of another first seed are refused before anything runs, unless they are to be replaced.
fn other_seeds_take_no_records_place(out: &Path, ran: &dyn Fn() -> usize) {
    let from = |seed: u64, replace: bool| {
        let (sweep_of, mut cells, options) = plan(out, "go", "air.forward.rate=1 Mbit/s,2 Mbit/s,3 Mbit/s", 2);
        cells.iter_mut().for_each(|cell| cell.scenario.seed = wavelane_base::Seed(seed));
        planned((sweep_of, cells, SweepOptions { replace, ..options }))
    };
    from(1, false).unwrap();
    assert_eq!(ran(), 12);
    let why = from(2, false).unwrap_err().to_string();
    assert!(why.starts_with("6 combinations have records of other seeds"), "{why}");
    assert!(why.contains(": of seeds 1 to ") && why.contains("--replace") && why.contains("another --out"), "{why}");
    assert_eq!(ran(), 0);
    let (again, _) = from(1, false).unwrap();
    assert_eq!((ran(), again.contains(",wavelane,1,page,")), (0, true));
    let (other, _) = from(2, true).unwrap();
    assert_eq!((ran(), other.contains(",wavelane,1,page,"), other.contains(",wavelane,3,page,")), (12, false, true));
    notes();
}

/// Cells that were edited or cut are run again, and the reason is noted; other cells are not.
fn what_is_not_believed(out: &Path, cells: &[SweepCell], csv: &str, ran: &dyn Fn() -> usize) {
    let rates = "air.forward.rate=1 Mbit/s,2 Mbit/s,3 Mbit/s";
    let record = |cell: usize| out.join(&cells[cell].record);
    let again = |part: &str| {
        assert_eq!(go(out, "go", rates).unwrap().0, csv, "{part}");
        let notes = notes();
        assert!(notes.len() == 1 && notes[0].contains(part) && notes[0].contains("cells/"), "{notes:?}");
        assert_eq!(ran(), 2, "{part}");
    };
    notes();
    let edit = |cell: usize, from: &str, to: &str| {
        let path = record(cell).join("record.json");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(path, text.replacen(from, to, if to.ends_with('9') { 1 } else { usize::MAX })).unwrap();
    };
    edit(0, "\"goodput_bps\": ", "\"goodput_bps\": 9");
    again("was changed since it was written");
    // Nor is it when the sweep that found it out is interrupted before its turn.
    edit(0, "\"goodput_bps\": ", "\"goodput_bps\": 9");
    crate::kept::make_room(std::iter::once(record(0))).unwrap();
    assert_eq!((go(out, "go", rates).unwrap().0.as_str(), ran()), (csv, 2));
    // Without its seal a document still agrees with its scenario.
    edit(1, "\"seed\": 2", "\"seed\": 7");
    std::fs::remove_file(crate::kept::seal_of(&record(1))).unwrap();
    again("was changed since it was written");
    std::fs::remove_file(record(2).join("record.json")).unwrap();
    again("there is no record.json");
    std::fs::write(record(3).join("record.json"), "{").unwrap();
    again("cannot be read");
    seeds_are_added_and_never_removed(out, csv, ran);
    // Files of others are refused before anything runs, with a record and without.
    std::fs::write(record(4).join("notes.md"), "years").unwrap();
    let refused = go_with(out, "go", rates, 14).err().unwrap().to_string();
    assert!(refused.contains("holds notes.md"), "{refused}");
    std::fs::remove_file(record(4).join("record.json")).unwrap();
    let refused = go(out, "go", rates).unwrap_err().to_string();
    assert!(refused.contains("holds notes.md") && record(4).join("notes.md").exists(), "{refused}");
    assert_eq!(ran(), 0);
}

/// Another number of seeds runs the missing ones only, and gives what a sweep of that number gives from the start. No record loses
/// a seed.
fn seeds_are_added_and_never_removed(out: &Path, csv: &str, ran: &dyn Fn() -> usize) {
    let rates = "air.forward.rate=1 Mbit/s,2 Mbit/s,3 Mbit/s";
    let fresh = out.with_extension("fresh");
    let _ = std::fs::remove_dir_all(&fresh);
    let on_disk = |cell: &SweepCell| RunDocument::load(&out.join(&cell.record)).unwrap();
    let afresh = |repeat: u32| {
        let all = go_with(&fresh, "go", rates, repeat).unwrap();
        std::fs::remove_dir_all(&fresh).unwrap();
        assert_eq!(ran(), 6 * repeat as usize);
        all
    };
    for (repeat, runs, part) in [
        (5, 18, "with fewer seeds: only the missing ones are run"),
        (1, 0, "with more seeds than --repeat 1: the first one counts, the records keep all"),
        (3, 0, "with more seeds than --repeat 3: the first 3 count, the records keep all"),
        (5, 0, ""),
    ] {
        let (table, cells) = go_with(out, "go", rates, repeat).unwrap();
        assert_eq!(ran(), runs, "--repeat {repeat}");
        let said = notes();
        match part {
            "" => assert!(said.is_empty(), "{said:?}"),
            _ => assert!(said.len() == 1 && said[0] == format!("6 combinations are there {part}"), "{said:?}"),
        }
        let (same, whole) = afresh(repeat);
        assert_eq!(table, same);
        for (cell, new) in cells.iter().zip(whole) {
            let document = RunDocument { record: new.document.record.clone(), ..cell.document.clone() };
            assert_eq!((document, &cell.failed), (new.document, &new.failed));
            let record = on_disk(cell);
            assert_eq!(record.repeat, 5, "--repeat {repeat} takes no seed away");
            let stack = &record.stacks[0];
            let series = stack.flows.iter().map(|flow| record.series(&out.join(&cell.record), &stack.stack, flow));
            assert!(series.into_iter().all(|series| series.is_ok()));
        }
        let beside = std::fs::read_dir(out.join("cells")).unwrap().flatten();
        assert_eq!(beside.filter(|e| e.path().is_dir()).count(), 8, "one folder a combination, two of another value");
    }
    let first = &go_with(out, "go", rates, 5).unwrap().1[0];
    let more = crate::extend::more_of(&out.join(&first.record));
    let at = |place: &Path, after: u32, repeat: u32| {
        let scenario = wavelane_scenario::Scenario::load_recorded(&out.join(&first.record)).unwrap();
        let options = RunOptions {
            name: "hop".into(),
            repeat,
            jobs: 1,
            out: place.to_owned(),
            rerun: "wavelane run hop.toml".into(),
            captures: crate::CaptureExtent::Off,
        };
        let hooks = RunHooks {
            progress: &|_| (),
            count: &|_| (),
            cancelled: &AtomicBool::new(false),
            environment: &|| Value::Null,
            render: &|_| Ok(()),
        };
        run(&|| Box::new(AtRate), &crate::extend::rest(&scenario, after), &options, &hooks).unwrap();
        ran();
    };
    let beside = |after: u32, repeat: u32| at(&more, after, repeat);
    let missing = |repeat: u32| {
        let (sweep_of, cells, options) = plan(out, "go", rates, repeat);
        shards(&AtRate, &sweep_of.axes, &cells, &options).unwrap()
    };
    // Three further seeds were run, and the program ended before both records became one.
    beside(5, 3);
    for (repeat, runs, has) in [(2, 0, 5), (5, 0, 5), (6, 5, 8), (8, 10, 8)] {
        assert_eq!(
            missing(repeat).len(),
            if runs == 0 { 0 } else { 5 },
            "--repeat {repeat}: a shard for each other one"
        );
        let cells = go_with(out, "go", rates, repeat).unwrap().1;
        assert_eq!((ran(), cells[0].document.repeat, on_disk(&cells[0]).repeat), (runs, repeat, has));
        assert_eq!(more.exists(), has == 5, "--repeat {repeat}");
        assert!(on_disk(&cells[0]).rerun.contains(&format!("--repeat {}", if has == 5 { 5 } else { has })));
    }
    // One further seed, of two that are wanted.
    beside(8, 1);
    let left = missing(10);
    assert!(left.len() == 6 && left[0].repeat == 1 && left[0].record.ends_with(".more.more"), "{:?}", left[0]);
    let table = go_with(out, "go", rates, 10).unwrap().0;
    assert_eq!((ran(), more.exists(), table), (11, false, afresh(10).0));
    // Beside it as many as are wanted, and further ones beside those: none is run twice.
    let further = crate::extend::more_of(&more);
    beside(10, 1);
    at(&further, 11, 2);
    for (repeat, runs, is_beside) in [(11, 5, true), (13, 10, false)] {
        let cells = go_with(out, "go", rates, repeat).unwrap().1;
        assert_eq!((ran(), on_disk(&cells[0]).repeat), (runs, repeat));
        assert_eq!((more.exists(), further.exists()), (is_beside, false), "--repeat {repeat}");
    }
    at(&further, 13, 1);
    go_with(out, "go", rates, 13).unwrap();
    assert_eq!(
        (ran(), more.exists(), further.exists()),
        (0, true, false),
        "a program was killed before it moved that up"
    );
    std::fs::remove_dir_all(&more).unwrap();
    // The seeds where the others begin.
    assert_eq!((go_with(out, "go", rates, 2).unwrap().0.as_str(), ran()), (csv, 0));
    notes();
}
