//! The committed radio cells, end to end from the file: what they show is what the radio rooms promise.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use wavelane_run::{Backend, CategoryFigures, RunDocument, RunHooks, RunOptions, StackRaw, Treatment, Verdict, run};
use wavelane_scenario::{Scenario, Stack};
use wavelane_sim::SimBackend;

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/wifi").join(name);
    std::fs::read_to_string(path).unwrap()
}
fn parse(text: &str) -> Scenario {
    Scenario::parse(text, Path::new(".")).unwrap()
}

/// A directory that goes away with the test.
struct Place(PathBuf);
impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("wavelane-cells-{}-{name}", std::process::id()));
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

fn go(place: &Place, scenario: &Scenario, jobs: usize) -> RunDocument {
    let out = place.0.join("record");
    let options = RunOptions {
        captures: wavelane_run::CaptureExtent::Headers,
        name: "cell".into(),
        repeat: 2,
        jobs,
        out,
        rerun: String::new(),
    };
    let hooks = RunHooks {
        progress: &|_| (),
        count: &|_| (),
        cancelled: &AtomicBool::new(false),
        environment: &|| serde_json::Value::Null,
        render: &|_| Ok(()),
    };
    run(&|| Box::new(SimBackend), scenario, &options, &hooks).unwrap()
}

/// The document, and every capture of its record.
fn whole(name: &str, jobs: usize) -> (RunDocument, Vec<(String, Vec<u8>)>) {
    let place = Place::new(&format!("{name}-{jobs}"));
    let mut document = go(&place, &parse(&text(name)), jobs);
    document.record.clear();
    let folder = std::fs::read_dir(place.0.join("record/pcap")).unwrap().map(|entry| entry.unwrap().path());
    let file = |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap());
    let mut files: Vec<_> = folder.map(file).collect();
    files.sort();
    (document, files)
}

#[test]
fn cells_are_the_same_with_one_worker_and_two() {
    for name in [
        "categories.toml",
        "coded-cell.toml",
        "wavelan.toml",
        "capture.toml",
        "aggregates.toml",
        "adaptive.toml",
        "wide.toml",
        "queues.toml",
        "aql.toml",
    ] {
        let (document, files) = whole(name, 1);
        assert_eq!(document.verdict, Verdict::Pass, "{name}: {:?}", document.checks);
        assert!(!document.checks.is_empty());
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let expected = ["udp-1-call1-air", "udp-1-medium-air", "udp-2-call1-air", "udp-2-medium-air"];
        let expected = expected.map(|name| format!("{name}.pcapng"));
        assert_eq!(names, if name == "categories.toml" { &expected[..] } else { &[] });
        assert!(files.iter().all(|(_, bytes)| bytes.len() > 100_000));
        assert!(whole(name, 2) == (document, files), "{name} depends on the number of workers");
    }
}

/// An echo beside downloads: behind drop-tail it waits for the whole queue of the access point, whatever its aggregates
/// hold; behind managed queues for a few of these.
#[test]
fn echo_delay_follows_the_access_points_queue() {
    let p95 = |queue: &str| {
        let scenario = parse(&text("queues.toml").replace("{ kind = \"fq-codel\", airtime = true }", queue));
        let raw = one_run(&scenario);
        let flows = wavelane_run::figures::of_run(&scenario, &raw, scenario.seed);
        let echo = flows.iter().find(|flow| flow.flow == "echo").unwrap();
        // What a managed queue drops before it is full is told, and told apart.
        assert_eq!(raw.radios[0].dropped_delay.is_some(), queue.starts_with('{'), "{queue}");
        assert!(raw.radios[0].dropped_delay.is_none_or(|dropped| dropped > 0), "{queue}: {:?}", raw.radios[0]);
        echo.rtt_p95_ms.unwrap()
    };
    let fifo = p95("\"1000 packets\"");
    let codel = p95("{ kind = \"codel\" }");
    let flows = p95("{ kind = \"fq-codel\" }");
    let airtime = p95("{ kind = \"fq-codel\", airtime = true }");
    assert!(
        fifo > 200.0 && codel < 0.6 * fifo && flows < 0.3 * fifo && airtime < 0.3 * fifo,
        "{fifo} {codel} {flows} {airtime}"
    );
}

/// A deep ring delays a sparse flow whatever the discipline before it; airtime queue limits undo most of that and leave the
/// downloads what they carry.
#[test]
fn airtime_queue_limits_cure_a_deep_ring() {
    const NAMED: &str = "ring = \"1000 packets\", aql = true";
    let run = |queue: &str| {
        let text = text("aql.toml");
        assert!(text.contains(NAMED));
        let scenario = parse(&text.replace(NAMED, queue));
        let raw = one_run(&scenario);
        let flows = wavelane_run::figures::of_run(&scenario, &raw, scenario.seed);
        let of = |name: &str| flows.iter().find(|flow| flow.flow == name).unwrap().clone();
        let goodput = ["bulk-near", "bulk-far"].map(|name| of(name).goodput_bps.unwrap());
        (of("echo").rtt_p99_ms.unwrap(), goodput)
    };
    let (none, deep, limited) = (run("ring = \"0 packets\""), run("ring = \"1000 packets\""), run(NAMED));
    println!("no ring {none:?}, a ring {deep:?}, AQL {limited:?}");
    assert!(deep.0 > 3.0 * limited.0 && limited.0 < none.0 + 40.0, "{none:?} {deep:?} {limited:?}");
    let total = |(_, goodput): (f64, [f64; 2])| goodput.iter().sum::<f64>();
    assert!(total(limited) > 0.9 * total(none), "{none:?} {limited:?}");
}

/// The categories' drops for delay are those of the cell.
#[test]
fn managed_queues_of_categories_tell_their_drops() {
    let plain: String =
        text("categories.toml").lines().filter(|l| !l.starts_with("pcap")).map(|l| format!("{l}\n")).collect();
    // More film than the air takes.
    let plain = plain.replace("every = \"2 ms\"", "every = \"0.2 ms\"");
    let managed = plain.replace("edca = ", "queue = { kind = \"codel\" }\nedca = ");
    let radio = one_run(&parse(&managed)).radios.remove(0);
    let all: u64 = radio.categories.iter().map(|c| c.dropped_delay.unwrap()).sum();
    assert!(all > 0 && radio.dropped_delay == Some(all), "{radio:?}");
    let fifo = one_run(&parse(&plain)).radios.remove(0);
    assert!(fifo.dropped_delay.is_none() && fifo.categories.iter().all(|c| c.dropped_delay.is_none()), "{fifo:?}");
}

fn one_run(scenario: &Scenario) -> StackRaw {
    run_of(scenario, scenario.stacks[0])
}

fn run_of(scenario: &Scenario, stack: Stack) -> StackRaw {
    let mut context = wavelane_run::RunContext {
        out: Path::new("."),
        label: String::new(),
        captures: wavelane_run::CaptureExtent::Off,
        progress: &mut |_| {},
        cancelled: &AtomicBool::new(false),
    };
    SimBackend.run_stack(scenario, stack, scenario.seed, &mut context).unwrap()
}

/// What the categories delivered is what the programs received and the answers, IP and UDP headers counted.
#[test]
fn categories_count_their_flows_frames() {
    let place = Place::new("categories");
    let scenario = parse(&text("categories.toml"));
    let document = go(&place, &scenario, 1);
    let of = |word: &str| -> &CategoryFigures {
        document.stacks[0].radios[0].categories.iter().find(|c| c.category == word).unwrap()
    };
    let bytes = |flow: &str| document.stacks[0].flows.iter().find(|f| f.flow == flow).unwrap().bytes as f64;
    let expected = |flow: &str, size: f64| bytes(flow) * (size + 28.0) / size * 8.0 / 5.0;
    for (word, bps) in [
        ("video", expected("film", 1_200.0)),
        ("background", expected("rest", 1_472.0)),
        ("best-effort", expected("load1", 1_472.0) + expected("load2", 1_472.0)),
    ] {
        assert!((of(word).delivered_bps - bps).abs() < 1.0, "{word}: {} beside {bps}", of(word).delivered_bps);
    }
    // Questions and answers of both calls: all of the acknowledged one arrive, not all of the other.
    let calls = of("voice").delivered_bps / 8.0 / 188.0;
    assert!(calls > 130.0 && calls < 199.0, "{calls} frames a second");
}

/// The same traffic in a cell without categories: the acknowledged call waits longer for its answers.
#[test]
fn voice_waits_less_than_under_dcf() {
    let median = |raw: &StackRaw| {
        let mut delays: Vec<u64> = raw.flows[1].probes.iter().filter_map(|probe| probe.rtt_ns).collect();
        delays.sort_unstable();
        assert!(delays.len() > 200);
        delays[delays.len() / 2]
    };
    let with = text("categories.toml");
    let drop = |start: &'static [&'static str]| {
        let keep = |line: &&str| !start.iter().any(|start| line.starts_with(start));
        with.lines().filter(keep).map(|line| format!("{line}\n")).collect::<String>()
    };
    let edca = one_run(&parse(&drop(&["pcap"])));
    let dcf = drop(&["pcap", "edca", "category"]);
    // Its station cannot be saturated twice.
    let (rest, checks) = (dcf.find("[flows.rest]").unwrap(), dcf.find("[checks").unwrap());
    let dcf = one_run(&parse(&format!("{}{}", &dcf[..rest], &dcf[checks..])));
    assert!(dcf.radios[0].categories.is_empty() && dcf.radios[0].errors.is_none());
    let (edca, dcf) = (median(&edca), median(&dcf));
    println!("median round trip: {edca} ns with categories, {dcf} ns without");
    assert!(edca < dcf, "{edca} {dcf}");
}

/// Frames without acknowledgement are sent once: as many are lost as collide, and none is repeated.
#[test]
fn no_ack_frames_are_not_retransmitted() {
    let silent = text("capture.toml").replace("to = \"ap\"", "to = \"ap\"\nno-ack = true");
    let silent = &silent[..silent.find("[checks").unwrap()];
    let raw = one_run(&parse(&silent.replace("mid-frame = true", "mid-frame = false")));
    let radio = &raw.radios[0];
    assert_eq!((radio.ack_missing, radio.given_up), (0, 0));
    // Nothing but data was on the air.
    assert_eq!(radio.frames, radio.data);
    let received: u64 = raw.flows.iter().map(|flow| flow.octets / 1_472).sum();
    assert!(received < radio.data * 9 / 10, "{received} of {}", radio.data);
}

/// The residual loss of the real code in the bad state is that of its arithmetic, and coding is used while it is bad.
#[test]
fn the_residual_loss_is_that_of_the_code() {
    let text = text("coded-cell.toml").replace("in_good = \"0.000001\"", "in_good = \"0\"");
    let text = text.replace("good = \"100 ms\", bad = \"33333333 ns\"", "good = \"1 s\", bad = \"1 s\"");
    let raw = one_run(&parse(&text.replace("duration = \"20 s\"", "duration = \"200 s\"")));
    let errors = raw.radios[0].errors.unwrap();
    // 188 + 36 bytes are 359 symbols in 16 blocks of 22 and one of 7. A block fails if more than 4 of its symbols are
    // wrong, each with 1 - 0.99^5.
    let p = 1.0 - 0.99f64.powi(5);
    let mends = |symbols: i32| {
        let term = |k: i32| (0..k).fold(1.0, |c, i| c * f64::from(symbols - i) / f64::from(i + 1));
        (0..=4).map(|k| term(k) * p.powi(k) * (1.0 - p).powi(symbols - k)).sum::<f64>()
    };
    let expected = 1.0 - mends(31).powi(16) * mends(16);
    let lost = errors.coded.1 as f64 / errors.coded.0 as f64;
    let sigma = (expected * (1.0 - expected) / errors.coded.0 as f64).sqrt();
    // Frames that begin within 1 s of bad time and end after it are few: one in some hundred.
    assert!((lost - expected).abs() < 0.02 * expected + 4.0 * sigma, "{lost} beside {expected}");
    // Half of the time is bad. Fewer than half are coded: each takes longer, and ACKs, which are not coded, are lost.
    let share = errors.coded.0 as f64 / (errors.coded.0 + errors.uncoded.0) as f64;
    assert!((0.05..0.5).contains(&share), "{share}");
    assert!(errors.uncoded.1 * 50 < errors.uncoded.0, "{errors:?}");
}

#[test]
fn rts_stacks_need_a_cell_that_has_rts() {
    let text = text("wavelan.toml").replace("[\"udp\"]", "[\"udp\", \"tcp-reno+rts\"]");
    let text = &text[..text.find("# 50 datagrams").unwrap()];
    let review = SimBackend.review(&parse(text));
    assert!(matches!(&review.stacks[1].1, Treatment::Omitted(why) if why.contains("WaveLAN")), "{:?}", review.stacks);
}

/// Gateways as stations: relays along a line, and an access point that ends the TCP of a station.
#[test]
fn gateways_stand_in_cells() {
    let line = parse(&text("gateways.toml").replace("30 s", "8 s"));
    let stacks: Vec<_> = line.stacks.iter().map(|stack| run_of(&line, *stack)).collect();
    let goodput = |raw: &StackRaw| wavelane_run::figures::of_run(&line, raw, line.seed)[0].goodput_bps.unwrap();
    let [cubic, _, ours] = [0, 1, 2].map(|i| goodput(&stacks[i]));
    // Of 54 Mbit/s a saturated cell carries some 31 of 1,500 byte packets. The first and the last of four hops may be used at once.
    assert!(ours > 1.1 * cubic && ours < 31e6 / 3.0, "{ours} beside {cubic}");

    let station = text("bulk-cell.toml")
        .replace("duration = \"105 s\"", "duration = \"10 s\"")
        .replace("stacks = [\"tcp-reno\", \"tcp-reno+rts\"]", "stacks = [\"tcp-reno\", \"wavelane\"]")
        .replace("ap = \"router\"", "ap = \"gateway\"\nnear = \"gateway\"")
        .replace("between = [\"host\", \"ap\"]", "between = [\"near\", \"ap\"]")
        .replace(
            "[channels.air]",
            "[channels.lan]\npreset = \"ethernet\"\nbetween = [\"host\", \"near\"]\n[channels.air]",
        );
    let cell = parse(&station);
    let review = SimBackend.review(&cell);
    assert!(review.stacks.iter().all(|(_, treatment)| *treatment == Treatment::Imposed), "{:?}", review.stacks);
    for stack in &cell.stacks {
        let raw = run_of(&cell, *stack);
        let figures = wavelane_run::figures::of_run(&cell, &raw, cell.seed);
        let total: f64 = figures.iter().filter_map(|flow| flow.goodput_bps).sum();
        // 2 Mbit/s less preambles, acknowledgements and back-off leaves some 1.6, of which the noise takes up to half.
        assert!((0.6e6..1.7e6).contains(&total), "{stack:?}: {total}");
        let given: u64 = raw.radios.iter().map(|radio| radio.data).sum();
        assert!(given > 500, "it went by radio: {given} frames");
    }
}
