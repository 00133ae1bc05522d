//! Queues that a scenario names, met by real packets.

use super::*;
use wavelane_base::Ratio;
use wavelane_channel::{Parameter, RateTrace, Source, Then};
use wavelane_scenario::ChannelKind;

/// A laptop that uploads over 5 Mbit/s for four seconds, and pings.
fn home(queue: &str) -> Scenario {
    let text = format!(
        r#"
title = "home"
duration = "5 s"
stacks = ["tcp-cubic"]
[nodes]
laptop = "endpoint"
server = "endpoint"
[channels.air]
kind = "cable"
between = ["laptop", "server"]
forward = {{ rate = "5 Mbit/s", delay = "1 ms", queue = {queue} }}
reverse = {{ rate = "5 Mbit/s", delay = "1 ms", queue = "1000 packets" }}
[flows.copy]
app = "upload"
from = "laptop"
to = "server"
start = "1 s"
[flows.ping]
app = "ping"
from = "laptop"
to = "server"
every = "50 ms"
"#
    );
    Scenario::parse(&text, Path::new(".")).unwrap()
}

/// Round trips in milliseconds asked for between these seconds of the run, sorted; a lost one is infinite.
fn waits(raw: &StackRaw, from: u64, to: u64) -> Vec<f64> {
    let ping = raw.flows.iter().find(|flow| flow.flow == "ping").unwrap();
    let within = ping.probes.iter().filter(|p| (from * 1_000_000_000..to * 1_000_000_000).contains(&p.sent_ns));
    let mut all: Vec<f64> = within.map(|p| p.rtt_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e6)).collect();
    all.sort_by(f64::total_cmp);
    all
}

#[test]
fn fq_codel_spares_a_ping_behind_a_copy() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let two_stage = home("{ kind = \"two-stage\", txqueuelen = \"80 packets\", ring = \"40 packets\" }");
    let review = LabBackend.review(&two_stage);
    let staged = review.clauses.iter().find(|clause| clause.clause == "channels.air").map(|clause| &clause.treatment);
    assert!(matches!(staged, Some(Treatment::Approximated(_))), "{staged:?}");
    let (raw, ..) = run(&two_stage, tcp(TcpKind::Cubic), "two-stage");
    let raw = raw.unwrap();
    // No run says less than physics: 120 packets of 2.4 ms are 288 ms when both stages are full.
    let (idle, busy) = (waits(&raw, 0, 1), waits(&raw, 2, 5));
    assert!(idle.len() >= 15 && busy.len() >= 40, "{} {}", idle.len(), busy.len());
    assert!(busy[busy.len() * 9 / 10] > 150.0, "{busy:?}");
    // The device's ring is a stage of the scenario's: its drops do not speak against the run.
    let drops = raw.notes.iter().any(|note| note.starts_with("first stages of queues"));
    assert!(drops, "{:?}", raw.notes);
    assert!(!raw.inconclusive.as_ref().is_some_and(|why| why.contains("before a channel saw them")), "{:?}", raw.notes);
    let (raw, ..) = run(&home("{ kind = \"fq-codel\" }"), tcp(TcpKind::Cubic), "fq-codel");
    let raw = raw.unwrap();
    let sorted = waits(&raw, 2, 5);
    assert!(raw.inconclusive.is_some() || sorted[sorted.len() / 2] < busy[busy.len() / 2] / 3.0, "{sorted:?} {busy:?}");
}

/// The lab's channels follow recordings as the simulator's do: 12 Mbit/s for a second, then 6, and again.
#[test]
fn an_upload_takes_the_time_that_a_recording_gives_it() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let mut scenario =
        scenario("[flows.send]\napp = \"upload\"\nfrom = \"client\"\nto = \"server\"\nsize = \"3 MB\"\n");
    // real time: 4 s, the upload's own
    scenario.duration = Span::from_secs(10);
    let at = (1..=1_000).chain((1_002..=2_000).step_by(2)).collect();
    let source = Source::made("steps");
    let trace = RateTrace::opportunities(source, at, Ratio::ONE, Then::Wrap).unwrap();
    let air = scenario.channels.iter_mut().find(|channel| channel.name == "air").unwrap();
    let ChannelKind::Cable(cable) = &mut air.kind else { unreachable!("a cable") };
    cable.forward.set(Parameter::RateTrace(trace)).unwrap();
    let (raw, _, _out) = run(&scenario, tcp(TcpKind::Bbr), "recording");
    let raw = raw.unwrap();
    let send = &raw.flows[0];
    assert!(send.completed && send.intact == Some(true), "{:?} {:?}", send.completed, raw.notes);
    let took = (send.last_byte_ns.unwrap() - send.first_byte_ns.unwrap()) as f64 / 1e9;
    eprintln!("3 MB in {took:.2} s, {:?}", raw.inconclusive);
    // At 12 Mbit/s throughout 2.0 s, at 6 Mbit/s 4.1 s.
    if raw.inconclusive.is_none() {
        assert!((2.1..4.1).contains(&took), "{took} s");
    }
}
