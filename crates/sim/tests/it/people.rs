//! Applications that follow a model of people, against what their models say of clean and of lossy links.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_run::figures::{FlowFigures, of_run};
use wavelane_run::{Backend, RunContext, StackRaw};
use wavelane_scenario::Scenario;
use wavelane_sim::SimBackend;

/// A client, two gateways with a cable of 10 ms between them, and a server.
fn text(stack: &str, seconds: u64, link: &str, flows: &str) -> String {
    format!(
        r#"
duration = "{seconds} s"
stacks = ["{stack}"]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
[channels.near]
preset = "ethernet"
between = ["client", "a"]
[channels.far]
preset = "ethernet"
between = ["b", "server"]
[channels.air]
kind = "cable"
between = ["a", "b"]
reverse = "same"
forward = {{ rate = "20 Mbit/s", delay = "10 ms"{link} }}
{flows}
"#
    )
}

fn run(text: &str, seed: u64) -> (StackRaw, Vec<FlowFigures>) {
    let scenario = Scenario::parse(text, Path::new(".")).unwrap();
    let cancelled = AtomicBool::new(false);
    let (label, mut quiet) = ("x".to_owned(), |_| {});
    let mut context = RunContext {
        out: Path::new("."),
        label,
        captures: wavelane_run::CaptureExtent::Off,
        progress: &mut quiet,
        cancelled: &cancelled,
    };
    let raw = SimBackend.run_stack(&scenario, scenario.stacks[0], Seed(seed), &mut context).unwrap();
    let figures = of_run(&scenario, &raw, Seed(seed));
    (raw, figures)
}

fn flow(app: &str, rest: &str) -> String {
    format!("[flows.f]\napp = \"{app}\"\nfrom = \"client\"\nto = \"server\"\n{rest}\n")
}

#[test]
fn a_page_takes_handshake_and_object_and_think_time() {
    let pages = flow("web", "pages = 200\nsize = \"2 kB\"\nshape = \"3\"\nthink = \"500 ms\"");
    let (raw, figures) = run(&text("tcp-reno", 600, "", &pages), 1);
    let seen = figures[0].web.as_ref().unwrap();
    assert_eq!((seen.objects, seen.unfinished, seen.pages), (200, 0, 200));
    assert!(figures[0].completed && figures[0].lost == Some(0));
    // A round trip of 20.2 ms for the connection and one for the object, which fits an initial window nearly always.
    let (least, median) = (raw.flows[0].fetches.iter().filter_map(|f| f.total_ns).min(), seen.response_p50_ms.unwrap());
    assert!((40_200_000..40_900_000).contains(&least.unwrap()), "{least:?}");
    assert!((40.2..43.0).contains(&median), "{median}");
    // Pages begin a response and a mean of 500 ms apart: 200 of them, deviation 500 / sqrt(200) = 35 ms.
    let starts: Vec<u64> = raw.flows[0].fetches.iter().map(|f| f.connect_ns).collect();
    let apart = (starts[199] - starts[0]) as f64 / 199.0 / 1e6;
    assert!((apart - 542.0).abs() < 4.0 * 36.0, "{apart}");
    // The bytes are those of the sizes: mean 2 kB, deviation 2 kB sqrt(3) / sqrt(200).
    let mean = figures[0].bytes as f64 / 200.0;
    assert!((mean - 2_000.0).abs() < 4.0 * 245.0, "{mean}");
}

#[test]
fn a_modern_page_is_its_document_and_objects_side_by_side() {
    let page = flow("web", "model = \"almanac-2024\"\npages = 3\nthink = \"1 s\"\nsize = \"30 kB\"\nshape = \"20\"");
    for stack in ["tcp-cubic", "wavelane"] {
        let (raw, figures) = run(&text(stack, 300, "", &page), 2);
        let seen = figures[0].web.as_ref().unwrap();
        assert_eq!((seen.objects, seen.pages), (3 * 71, 3), "{stack}");
        // 2.1 MB take 0.85 s at 20 Mbit/s alone; one object after the other would take 70 round trips more.
        let page_ms = seen.page_p50_ms.unwrap();
        assert!((850.0..2_200.0).contains(&page_ms), "{stack}: {page_ms}");
        let first = &raw.flows[0].fetches[..71];
        let document_end = first[0].connect_ns + first[0].total_ns.unwrap();
        assert!(first[1..].iter().all(|f| f.connect_ns >= document_end), "{stack}: objects wait for the document");
        let spans: Vec<_> = first.iter().map(|f| f.connect_ns..f.connect_ns + f.total_ns.unwrap()).collect();
        let at_once = |at: u64| spans.iter().filter(|span| span.contains(&at)).count();
        assert_eq!(spans.iter().map(|span| at_once(span.start)).max(), Some(6), "{stack}");
    }
}

#[test]
fn a_call_has_the_models_activity_and_the_links_loss() {
    let call = flow("voice", "");
    let (_, figures) = run(&text("tcp-reno", 1_000, "", &call), 3);
    let heard = figures[0].voice.as_ref().unwrap();
    // 1 / 2.35 of the time a datagram each 50 ms, less half of one a spurt; 425 spurts.
    let expected = 1_000.0 / 2.35 * (20.0 - 0.5);
    assert!((heard.sent as f64 / expected - 1.0).abs() < 0.16, "{} of {expected}", heard.sent);
    assert_eq!((heard.lost, heard.late, heard.jitter_ms), (0, 0, Some(0.0)));
    // 10 ms, two Ethernets of 0.05 ms, and 228 bytes at 20 Mbit/s and twice 1 Gbit/s.
    let delay = heard.delay_p50_ms.unwrap();
    assert!((delay - (10.1 + 0.0912 + 2.0 * 0.001824)).abs() < 0.001, "{delay}");
    // R = 93.2 - 0.024 (50 + 10.2) - 7 = 84.76.
    assert!((heard.mos.unwrap() - 4.190).abs() < 0.001, "{:?}", heard.mos);
    let (_, lossy) = run(&text("udp", 1_000, ", loss = { kind = \"random\", p = \"1/20\" }", &call), 3);
    let loss = lossy[0].voice.as_ref().unwrap();
    assert!((loss.loss.unwrap() - 0.05).abs() < 4.0 * 0.0024, "{loss:?}");
    assert!(loss.mos < heard.mos);
    // What is late is of no use either.
    let (_, late) =
        run(&text("udp", 60, ", jitter = \"20 ms\", keep-order = false", &flow("voice", "deadline = \"20 ms\"")), 3);
    let late = late[0].voice.as_ref().unwrap();
    let share = late.late as f64 / late.sent as f64;
    assert!((share - 0.5).abs() < 0.1 && late.lost == 0, "{late:?}");
}

#[test]
fn spurts_have_their_mean_rate_and_keystrokes_come_at_random() {
    let both = flow("on-off", "rate = \"400 kbit/s\"\non = \"200 ms\"\noff = \"600 ms\"\nsize = \"250 B\"")
        + "[flows.keys]\napp = \"telnet\"\nfrom = \"client\"\nto = \"server\"\nevery = \"200 ms\"\n";
    let (raw, figures) = run(&text("tcp-reno", 1_000, "", &both), 4);
    // 1,250 spurts of 40 datagrams less half of one each.
    let mean = figures[0].goodput_bps.unwrap();
    assert!((mean / 98_750.0 - 1.0).abs() < 4.0 * 0.04, "{mean}");
    let keys = &raw.flows[1].probes;
    assert!((keys.len() as f64 - 5_000.0).abs() < 4.0 * 71.0, "{}", keys.len());
    // Exponential: half of the intervals are below ln 2 of the mean.
    let below = keys.windows(2).filter(|pair| pair[1].sent_ns - pair[0].sent_ns < 138_629_436).count();
    assert!((below as f64 / keys.len() as f64 - 0.5).abs() < 4.0 * 0.0071, "{below}");
    let p50 = figures[1].rtt_p50_ms.unwrap();
    assert!((20.2..20.4).contains(&p50) && figures[1].lost == Some(0), "{p50}");
}

#[test]
fn seeds_determine_the_bytes() {
    let call = "[flows.call]\napp = \"voice\"\nfrom = \"server\"\nto = \"client\"\n";
    let text = text("tcp-reno", 60, ", loss = { kind = \"random\", p = \"1/20\" }", &(flow("web", "") + call));
    let (one, again, other) = (run(&text, 5), run(&text, 5), run(&text, 6));
    assert_eq!(one, again);
    assert_ne!(one.0.notes, other.0.notes);
}
