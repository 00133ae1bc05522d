#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::{FlowRaw, Probe, Review};
use wavelane_scenario::App;

/// A tiny backend with closed-form results: `wavelane` twice as fast as TCP, no BBR, slower by seed.
#[derive(Default)]
struct Fake {
    fails: bool,
    shaky: bool,
}

impl Backend for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn review(&self, scenario: &Scenario) -> Review {
        let mut review = Review::default();
        if scenario.title == "refuse me" {
            review.clause("flows.page", Treatment::Refused("too heavy".into()));
        }
        review.clause("channels.air", Treatment::Approximated("rounded to 1 ms".into()));
        review.stack(Stack::from_word("tcp-bbr").unwrap(), Treatment::Omitted("no BBR here".into()));
        review
    }
    fn run_stack(
        &mut self,
        scenario: &Scenario,
        stack: Stack,
        seed: Seed,
        context: &mut RunContext<'_>,
    ) -> Result<StackRaw, BackendError> {
        let (at, of) = (wavelane_base::Span::ZERO, scenario.duration);
        (context.progress)(Progress { stack, seed, at, of, note: String::new() });
        if context.is_cancelled() {
            return Err(BackendError::Cancelled);
        }
        if self.fails {
            return Err(BackendError::Failed("the fake broke".into()));
        }
        std::fs::write(context.pcap("a", "air"), b"capture").map_err(|e| BackendError::Unable(e.to_string()))?;
        let seconds = if stack == Stack::WAVELANE { 2 } else { 4 } + seed.0 % 7;
        Ok(StackRaw {
            stack,
            flows: scenario.flows.iter().map(|flow| seen(flow, seconds)).collect(),
            wire_octets: 22_000_000,
            ways: vec![crate::WayRaw { channel: "air".into(), way: "forward", octets: 20_000_000 }],
            repair_octets: (stack == Stack::WAVELANE).then_some(1_000),
            first_octets: (stack == Stack::WAVELANE).then_some(100_000),
            inconclusive: self.shaky.then(|| "late by 12 ms".into()),
            notes: vec!["a note".into()],
            radios: vec![radio()],
            lines: vec![],
            spent: crate::Spent { programs_s: (stack == Stack::WAVELANE).then_some(0.5), machine_s: Some(1.0) },
            kernels: vec![crate::KernelTcp { node: "server".into(), sent: 1000, repeated: 5 }],
            packets: (stack == Stack::WAVELANE).then_some(crate::PacketsRaw {
                sent: 400,
                repeated: 3,
                spurious: 1,
                compressed: 0,
            }),
            timeouts: None,
        })
    }
}

/// What `flow` saw; its bytes arrived in two halves within `seconds`.
fn seen(flow: &wavelane_scenario::Flow, seconds: u64) -> FlowRaw {
    let bulk = flow.app.is_bulk();
    let octets = match flow.app {
        App::Download { size: Some(size) } => size.get(),
        _ => 64,
    };
    let end = 1_000_000_000 * (1 + seconds);
    let probe = Probe { sent_ns: 600_000_000, rtt_ns: Some(100_000 * seconds) };
    FlowRaw {
        flow: flow.name.clone(),
        app: flow.app.word(),
        connect_ns: 500_000_000,
        first_byte_ns: Some(1_000_000_000),
        last_byte_ns: Some(end),
        completed: true,
        intact: bulk.then_some(true),
        octets,
        arrivals: if bulk { vec![(1_000_000_000, octets / 2), (end, octets - octets / 2)] } else { vec![] },
        probes: if bulk { vec![] } else { vec![probe] },
        ages: vec![],
        fetches: vec![],
        given_ns: 9_500_000_000,
    }
}

fn radio() -> crate::RadioRaw {
    crate::RadioRaw {
        channel: "air".into(),
        span: wavelane_base::Span::from_secs(10),
        frames: 200,
        data: 90,
        rts: 10,
        ack_missing: 5,
        cts_missing: 4,
        given_up: 1,
        queue_full: 2,
        dropped_delay: Some(7),
        categories: vec![crate::CategoryRaw {
            category: "voice",
            data: 30,
            ack_missing: 3,
            gave_way: 1,
            given_up: 0,
            queue_full: 2,
            dropped_delay: Some(6),
            delivered_octets: 5_000,
        }],
        errors: Some(crate::ErrorsRaw { uncoded: (80, 4), coded: (20, 5) }),
    }
}

fn scenario() -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo.toml");
    Scenario::load(&path).unwrap()
}

struct Place(PathBuf);
impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("wavelane-run-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}
impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn go(fake: fn() -> Fake, scenario: &Scenario, out: &Path, repeat: u32, jobs: usize) -> Result<RunDocument, RunError> {
    let make = move || -> Box<dyn Backend> { Box::new(fake()) };
    let options = RunOptions {
        captures: crate::CaptureExtent::Headers,
        name: "demo".into(),
        repeat,
        jobs,
        out: out.into(),
        rerun: "wavelane run demo".into(),
    };
    let hooks = RunHooks {
        progress: &|_| (),
        count: &|_| (),
        cancelled: &AtomicBool::new(scenario.title == "cancel me"),
        environment: &|| serde_json::json!({"kernel": "x"}),
        render: &|dir| std::fs::write(dir.join("report.html"), "<html>").map_err(|e| e.to_string()),
    };
    run(&make, scenario, &options, &hooks)
}

/// The whole document of a fake run, frozen. A change here changes the format that others read; `WAVELANE_BLESS=1`
/// records it anew, which is only right together with a reviewed change of the format.
#[test]
fn the_document_is_frozen() {
    let place = Place::new("golden");
    let mut document = go(Fake::default, &scenario(), &place.0.join("r"), 1, 1).unwrap();
    document.record = "records/demo".into();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/documents/record.json");
    if std::env::var_os("WAVELANE_BLESS").is_some() {
        std::fs::write(&path, document.to_json()).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap();
    assert_eq!(document.to_json(), golden, "the document differs from testing/documents/record.json");
    assert_eq!(serde_json::from_str::<RunDocument>(&golden).unwrap(), document);
}

#[test]
fn a_record_is_complete_and_reads_back() {
    let place = Place::new("whole");
    let out = place.0.join("deep/er/rec");
    let document = go(Fake::default, &scenario(), &out, 3, 2).unwrap();
    for file in ["record.json", "scenario.toml", "environment.json", "report.html", "log.txt"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    assert!(out.join("pcap/wavelane-2-a-air.pcapng").is_file());
    assert_eq!(RunDocument::load(&out).unwrap(), document);
    assert_eq!(document.stacks[1].flows.len(), 6);
    let seeds: Vec<u64> = document.stacks[0].flows.iter().map(|f| f.seed).collect();
    assert_eq!(seeds, [1, 1, 2, 2, 3, 3]);
    let figures = &document.stacks[0].flows[4];
    let series = document.series(&out, "tcp-cubic", figures).unwrap();
    assert!(matches!(series, crate::Series::Arrivals(list) if list.iter().map(|a| a.1).sum::<u64>() == 20_000_000));
    let probes = document.series(&out, "tcp-cubic", &document.stacks[0].flows[5]).unwrap();
    assert_eq!(probes, crate::Series::Probes(vec![(600_000_000, Some(700_000))]));
    assert_eq!(std::fs::read_dir(place.0.join("deep/er")).unwrap().count(), 1, "a draft was left behind");
    let written = std::fs::read_to_string(out.join("scenario.toml")).unwrap();
    assert_eq!(Scenario::parse(&written, Path::new(".")).unwrap(), scenario());
}

#[test]
fn a_record_without_runs_is_refused() {
    let place = Place::new("none");
    let out = place.0.join("r");
    let mut document = go(Fake::default, &scenario(), &out, 1, 1).unwrap();
    document.repeat = 0;
    std::fs::write(out.join("record.json"), document.to_json()).unwrap();
    let why = RunDocument::load(&out).unwrap_err().to_string();
    assert!(why.contains("its repeat is 0"), "{why}");
}

#[test]
fn unknown_keys_are_named_and_unknown_names_are_refused() {
    let place = Place::new("names");
    let out = place.0.join("r");
    let document = go(Fake::default, &scenario(), &out, 1, 1).unwrap();
    assert_eq!(RunDocument::unknown_keys(&out), Vec::<String>::new(), "KEYS has every key");
    document.check_against(&out, &scenario()).unwrap();
    let text = document.to_json().replacen('{', "{\"mood\": [1],", 1);
    std::fs::write(out.join("record.json"), text).unwrap();
    assert_eq!(RunDocument::unknown_keys(&out), ["mood"]);
    assert_eq!(RunDocument::load(&out).unwrap(), document);
    let mut edited = [document.clone(), document.clone(), document.clone()];
    edited[0].stacks[0].stack = "tcp-vegas".into();
    edited[1].stacks[0].flows[0].flow = "../../secret".into();
    edited[2].checks[0].check = "other".into();
    for (edited, part) in edited.iter().zip(["stack 'tcp-vegas'", "flow '../../secret'", "check 'other'"]) {
        let why = edited.check_against(&out, &scenario()).unwrap_err().to_string();
        assert!(why.contains(part), "{why}");
    }
    let figures = &edited[1].stacks[0].flows[0];
    assert!(edited[1].series(&out, "wavelane", figures).unwrap_err().to_string().contains("with a '/'"));
}

#[test]
fn output_is_independent_of_the_number_of_workers() {
    let place = Place::new("same");
    let out = place.0.join("r");
    let one = go(Fake::default, &scenario(), &out, 4, 1).unwrap().to_json();
    let again = go(Fake::default, &scenario(), &out, 4, 4).unwrap().to_json();
    assert_eq!(one, again);
    let mut other = scenario();
    other.seed = Seed(8);
    assert_ne!(go(Fake::default, &other, &out, 4, 1).unwrap().to_json(), one);
}

#[test]
fn a_failed_run_leaves_no_record() {
    let place = Place::new("wrong");
    let out = place.0.join("r");
    let mut cancelled = scenario();
    cancelled.title = "cancel me".into();
    assert!(matches!(go(Fake::default, &cancelled, &out, 1, 1), Err(RunError::Cancelled)));
    let mut refused = scenario();
    refused.title = "refuse me".into();
    let error = go(Fake::default, &refused, &out, 1, 1).unwrap_err().to_string();
    assert_eq!(error, "fake cannot run this scenario: flows.page: too heavy");
    let fails = || Fake { fails: true, shaky: false };
    let error = go(fails, &scenario(), &out, 2, 2).unwrap_err().to_string();
    assert!(error.starts_with("stack tcp-cubic, seed ") && error.ends_with(": the fake broke"), "{error}");
    let mut none = scenario();
    none.stacks = vec![Stack::from_word("tcp-bbr").unwrap()];
    let error = go(Fake::default, &none, &out, 1, 1).unwrap_err().to_string();
    assert_eq!(error, "fake can run none of the stacks: tcp-bbr: no BBR here");
    assert_eq!(std::fs::read_dir(&place.0).unwrap().count(), 0);
}

#[test]
fn a_directory_of_something_else_is_never_replaced() {
    let place = Place::new("mine");
    std::fs::write(place.0.join("thesis.tex"), "years").unwrap();
    let error = go(Fake::default, &scenario(), &place.0, 1, 1).unwrap_err().to_string();
    assert!(error.ends_with("exists and is not a record: choose another --out or remove it"), "{error}");
    assert!(place.0.join("thesis.tex").exists());
    let error = go(Fake::default, &scenario(), Path::new("/dev/full"), 1, 1).unwrap_err().to_string();
    assert!(error.starts_with("/dev/full exists and is not a record"), "{error}");
    let error = go(Fake::default, &scenario(), Path::new("/proc/nowhere/r"), 1, 1).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot write /proc/nowhere: ") && error.contains("; use --out with a writable folder"),
        "{error}"
    );
}

#[test]
fn a_late_run_is_inconclusive() {
    let place = Place::new("shaky");
    let document = go(|| Fake { fails: false, shaky: true }, &scenario(), &place.0.join("r"), 1, 1).unwrap();
    assert_eq!(document.verdict, Verdict::Inconclusive);
    assert!(document.checks.iter().all(|c| c.verdict == Verdict::Inconclusive), "{:?}", document.checks);
}

#[test]
fn runs_are_counted_to_the_last() {
    let place = Place::new("count");
    let told: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
    let hooks = RunHooks {
        progress: &|_| (),
        count: &|c| told.lock().unwrap().push((c.done, c.of)),
        cancelled: &AtomicBool::new(false),
        environment: &|| serde_json::Value::Null,
        render: &|_| Ok(()),
    };
    let out = place.0.join("r");
    let options = RunOptions {
        captures: crate::CaptureExtent::Headers,
        name: "demo".into(),
        repeat: 3,
        jobs: 2,
        out,
        rerun: "wavelane run demo".into(),
    };
    let make = || -> Box<dyn Backend> { Box::new(Fake::default()) };
    run(&make, &scenario(), &options, &hooks).unwrap();
    // Two stacks, three seeds: the third stack is omitted.
    let mut told = told.into_inner().unwrap();
    told.sort_unstable();
    assert_eq!(told, (0..=6).map(|done| (done, 6)).collect::<Vec<_>>());
}

#[test]
fn seeds_do_not_wrap() {
    let place = Place::new("seeds");
    let mut last = scenario();
    last.seed = Seed(SEED_MAX);
    assert_eq!(go(Fake::default, &last, &place.0.join("r"), 1, 1).unwrap().seed, SEED_MAX);
    let written = Scenario::load_recorded(&place.0.join("r")).unwrap();
    assert_eq!(written.seed, last.seed);
    for (seed, repeat) in [(SEED_MAX, 2), (u64::MAX, 1), (u64::MAX, 2)] {
        last.seed = Seed(seed);
        let error = go(Fake::default, &last, &place.0.join("s"), repeat, 1).unwrap_err().to_string();
        assert!(error.contains("choose a smaller one"), "{error}");
    }
    assert_eq!(std::fs::read_dir(&place.0).unwrap().count(), 1);
}

#[test]
fn a_stack_that_would_repeat_another_is_omitted_with_the_reason() {
    let words = |scenario: &Scenario| {
        let (run, omitted, _) = review(&Fake::default(), scenario).unwrap();
        let run: Vec<String> = run.iter().map(ToString::to_string).collect();
        (run, omitted.into_iter().map(|o| (o.stack, o.why)).collect::<Vec<_>>())
    };
    let mut scenario = scenario();
    let stacks = ["wavelane", "tcp-reno", "tcp-cubic", "tcp-cubic+rts"];
    scenario.stacks = stacks.map(|word| Stack::from_word(word).unwrap()).to_vec();
    assert_eq!(words(&scenario).0, stacks);
    for flow in &mut scenario.flows {
        flow.control = Some(wavelane_scenario::TcpKind::Bbr);
    }
    let (run, omitted) = words(&scenario);
    assert_eq!(run, ["wavelane", "tcp-reno", "tcp-cubic+rts"]);
    assert!(
        omitted.len() == 1 && omitted[0].0 == "tcp-cubic" && omitted[0].1.contains("repeat tcp-reno"),
        "{omitted:?}"
    );
}
