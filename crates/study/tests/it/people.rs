//! Pages, calls, spurts and keystrokes over real sockets beside their twins in the simulator: the same times and sizes, and
//! figures that only the kernel's own time sets apart.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_lab::LabBackend;
use wavelane_run::figures::{FlowFigures, of_run};
use wavelane_run::{Backend, FlowRaw, RunContext, StackRaw};
use wavelane_scenario::Scenario;
use wavelane_sim::SimBackend;

const TEXT: &str = r#"
title = "people"
seed = 11
duration = "6 s"
stacks = ["tcp-cubic"]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
[channels.lan_a]
between = ["client", "a"]
preset = "ethernet"
[channels.air]
between = ["a", "b"]
forward = { rate = "20 Mbit/s", delay = "20 ms", queue = "100 kB" }
reverse = "same"
[channels.lan_b]
between = ["b", "server"]
preset = "ethernet"
[flows.reader]
app = "web"
document = "5 kB"
objects = 5
size = "8 kB"
shape = "3"
parallel = 3
gap = "1 ms"
think = "100 ms"
pages = 4
from = "client"
to = "server"
[flows.call]
app = "voice"
talk = "500 ms"
silence = "200 ms"
from = "client"
to = "server"
[flows.spurts]
app = "on-off"
rate = "200 kbit/s"
size = "300 B"
on = "300 ms"
off = "100 ms"
from = "server"
to = "client"
[flows.keys]
app = "telnet"
every = "100 ms"
from = "client"
to = "server"
"#;

fn run(backend: &mut dyn Backend, scenario: &Scenario) -> (StackRaw, Vec<FlowFigures>) {
    let out = std::env::temp_dir().join(format!("wavelane-people-{}-{}", std::process::id(), backend.name()));
    std::fs::create_dir_all(&out).unwrap();
    let mut context = RunContext {
        out: &out,
        label: String::new(),
        captures: wavelane_run::CaptureExtent::Off,
        progress: &mut |_| {},
        cancelled: &AtomicBool::new(false),
    };
    let raw = backend.run_stack(scenario, scenario.stacks[0], scenario.seed, &mut context);
    std::fs::remove_dir_all(&out).unwrap();
    let raw = raw.unwrap();
    let figures = of_run(scenario, &raw, scenario.seed);
    (raw, figures)
}

fn times(raw: &FlowRaw) -> Vec<u64> {
    raw.probes.iter().map(|probe| probe.sent_ns).collect()
}

#[test]
fn people_do_the_same_over_real_sockets_as_in_the_simulator() {
    let scenario = Scenario::parse(TEXT, Path::new(".")).unwrap();
    if let Some((clause, why)) = LabBackend.review(&scenario).refusal() {
        eprintln!("SKIPPED (lab test): {clause}: {why}");
        return;
    }
    let (sim, twins) = run(&mut SimBackend, &scenario);
    let (lab, found) = run(&mut LabBackend, &scenario);
    let pair = |name: &str| {
        let of = |raw: &'_ StackRaw| raw.flows.iter().position(|flow| flow.flow == name).unwrap();
        let (i, j) = (of(&lab), of(&sim));
        (&lab.flows[i], &found[i], &sim.flows[j], &twins[j])
    };
    for (ours, twin) in lab.flows.iter().zip(&sim.flows) {
        assert!(ours.completed && twin.completed, "{}: {:?}", ours.flow, lab.notes);
        assert_eq!((ours.app, ours.given_ns), (twin.app, twin.given_ns));
    }

    let (ours, figures, twin, expected) = pair("call");
    assert!(times(ours).len() > 50 && times(ours) == times(twin), "every datagram is due when its twin is");
    let (heard, wanted) = (figures.voice.as_ref().unwrap(), expected.voice.as_ref().unwrap());
    assert_eq!((heard.sent, heard.lost), (wanted.sent, 0));
    // A kernel is never faster than the channel; how much slower is the machine's affair if it was late.
    let punctual = lab.inconclusive.is_none();
    let (delay, least) = (heard.delay_p50_ms.unwrap(), wanted.delay_p50_ms.unwrap());
    assert!(delay > least - 0.1 && (!punctual || delay < least + 60.0), "{delay} beside {least}");
    assert!((!punctual || heard.mos.unwrap() > 3.0) && heard.mos.unwrap() < wanted.mos.unwrap() + 0.05);

    let (ours, _, twin, _) = pair("spurts");
    assert!(ours.probes.is_empty() && twin.probes.is_empty());
    // What was under way at the end may be missing.
    assert!(
        ours.octets <= twin.octets + 300 * 4 && ours.octets + 300 * 20 > twin.octets,
        "{} {}",
        ours.octets,
        twin.octets
    );
    assert!(twin.octets > 300 * 200 && ours.arrivals.iter().map(|(_, n)| n).sum::<u64>() == ours.octets);

    let (ours, figures, twin, expected) = pair("keys");
    let gaps = |raw: &FlowRaw| times(raw).windows(2).map(|two| two[1] - two[0]).collect::<Vec<_>>();
    let (pauses, same) = (gaps(ours), gaps(twin));
    // The connection of one may stand a little later, and so have a keystroke less before the end.
    let common = pauses.len().min(same.len());
    assert!(common > 30 && pauses.len().abs_diff(same.len()) <= 3 && pauses[..common] == same[..common]);
    assert_eq!((figures.lost, ours.octets), (Some(0), ours.probes.len() as u64));
    let (delay, least) = (figures.rtt_p50_ms.unwrap(), expected.rtt_p50_ms.unwrap());
    assert!(delay > least - 0.1 && (!punctual || delay < least + 60.0), "{delay} beside {least}");

    let (ours, figures, twin, expected) = pair("reader");
    let (pages, wanted) = (figures.web.as_ref().unwrap(), expected.web.as_ref().unwrap());
    assert_eq!((pages.pages, pages.objects, pages.unfinished), (4, 24, 0));
    assert_eq!((wanted.pages, wanted.objects, ours.octets), (4, 24, twin.octets));
    let of_pages = |raw: &FlowRaw| raw.fetches.iter().map(|fetch| fetch.page).collect::<Vec<_>>();
    assert_eq!(of_pages(ours), of_pages(twin));
    // Two round trips of 40 ms at least; Linux begins with as many segments.
    let (page, least) = (pages.page_p50_ms.unwrap(), wanted.page_p50_ms.unwrap());
    assert!(page > 0.9 * least && (!punctual || page < 1.5 * least + 200.0), "{page} beside {least}");
    assert!(pages.response_p50_ms.unwrap() > 80.0);
}
