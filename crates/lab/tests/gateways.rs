//! The shipped gateways between real kernels: whole runs of scenarios from the corpus.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use wavelane_lab::LabBackend;
use wavelane_run::{Backend, Progress, RunContext, StackRaw, Treatment};
use wavelane_scenario::{Scenario, Stack};

/// Runs take processor time; together they would make each other late.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn corpus(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    Scenario::load(&file).unwrap()
}

/// Whether `wavelane` and `wavelaned` are there and built; cargo does not build other packages' programs for a test.
fn able(scenario: &Scenario) -> bool {
    let review = LabBackend.review(scenario);
    let refusal = review.refusal().map(|(clause, why)| format!("{clause}: {why}"));
    let why = refusal.or_else(|| match review.treatment_of(Stack::WAVELANE) {
        Treatment::Omitted(why) => Some(why),
        _ => None,
    });
    let beside = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("wavelane");
    let tool = std::env::var_os("WAVELANE").map_or(beside, PathBuf::from);
    let silent = || Command::new(tool).arg("keygen").output().is_ok_and(|o| o.stdout.is_empty());
    let why = why.or_else(|| silent().then(|| "wavelane is not built: cargo build -p wavelane-cli".into()));
    if let Some(why) = &why {
        eprintln!("SKIPPED (gateways in the lab): {why}");
    }
    why.is_none()
}

fn run(scenario: &Scenario, stack: Stack, name: &str) -> (StackRaw, String) {
    let out = std::env::temp_dir().join(format!("wavelane-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let cancelled = AtomicBool::new(false);
    let mut progress = |_: Progress| {};
    let mut context = RunContext {
        out: &out,
        label: "wavelane".into(),
        captures: wavelane_run::CaptureExtent::Headers,
        progress: &mut progress,
        cancelled: &cancelled,
    };
    let raw = LabBackend.run_stack(scenario, stack, scenario.seed, &mut context);
    // Plain stacks have no gateways that could log.
    let log = |n| std::fs::read_to_string(out.join(format!("logs/wavelane-{n}.log"))).unwrap_or_default();
    let log = ["a", "b"].map(log);
    std::fs::remove_dir_all(&out).unwrap();
    let raw = raw.unwrap_or_else(|e| panic!("{e}\n{log:?}"));
    eprintln!("{}", raw.notes.join("\n"));
    (raw, log.concat())
}

#[test]
fn a_clean_hop_carries_a_download_and_an_echo() {
    let scenario = corpus("smoke/one_hop.toml");
    if !able(&scenario) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let (raw, log) = run(&scenario, Stack::WAVELANE, "one-hop");
    let page = &raw.flows[0];
    assert!(page.completed && page.intact == Some(true), "{log}");
    let took = (page.last_byte_ns.unwrap() - page.first_byte_ns.unwrap()) as f64 / 1e9;
    let goodput = page.octets as f64 * 8.0 / took;
    // Every full datagram of 1500 B spends at least 20 B on IP and 8 B on UDP.
    assert!(goodput < 20e6 * 1472.0 / 1500.0 * 1.01, "faster than the cable: {goodput}");
    assert!(raw.inconclusive.is_some() || goodput > 14e6, "{goodput} {log}");
    let echo = &raw.flows[1];
    assert!(echo.completed && echo.probes.iter().all(|p| p.rtt_ns.is_some_and(|ns| ns >= 20_000_000)));
    // The traffic went through the gateways and not past them.
    assert!(raw.first_octets.unwrap() >= page.octets, "{:?}", raw.first_octets);
    assert!(raw.wire_octets > page.octets && raw.wire_octets < page.octets * 5 / 4, "{}", raw.wire_octets);
    assert!(log.contains("is up") && log.contains("stopped"), "{log}");
    assert!(raw.notes.iter().all(|n| !n.contains("ignored SIGTERM") && !n.contains("ended with")), "{:?}", raw.notes);
}

#[test]
fn a_download_survives_an_outage_of_30_s() {
    let scenario = corpus("outage.toml");
    if !able(&scenario) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let (raw, log) = run(&scenario, Stack::WAVELANE, "outage");
    let page = &raw.flows[0];
    // curl connects once; it would report a broken connection and never ask again.
    assert!(page.completed && page.intact == Some(true), "{} of 12 MB {log}", page.octets);
    const BACK: u64 = 32_000_000_000;
    let silent = page.arrivals.iter().all(|(at, _)| !(4_000_000_000..BACK).contains(at));
    assert!(silent, "bytes arrived during the outage");
    // 1 s and two round trips of 50 ms, and what the host may add.
    let resumed = page.arrivals.iter().find(|(at, _)| *at >= BACK).unwrap().0 - BACK;
    assert!(resumed <= 1_100_000_000 + 50_000_000, "data flowed again {} ms after the link", resumed / 1_000_000);
}

/// 20 Mbit/s and 10 ms each way, a fiftieth of the packets lost, and a body by QUIC beside one by HTTP.
const LOSSY: &str = r#"
title = "QUIC and TCP over a lossy link"
seed = 5
duration = "20 s"
stacks = ["tcp-cubic", "tcp-bbr", "wavelane", "wavelane+unsplit"]
nodes = { client = "endpoint", a = "gateway", b = "gateway", server = "endpoint" }
[channels.lan_client]
preset = "ethernet"
between = ["client", "a"]
[channels.air]
between = ["a", "b"]
forward = { rate = "20 Mbit/s", delay = "10 ms", queue = "100 kB", loss = { kind = "random", p = "1/50" } }
reverse = "same"
[channels.lan_server]
preset = "ethernet"
between = ["b", "server"]
[flows.quic]
app = "quic"
from = "client"
to = "server"
size = "1 MB"
[flows.page]
app = "download"
from = "client"
to = "server"
size = "1 MB"
"#;

#[test]
fn quic_and_unsplit_tcp_cross_a_lossy_link() {
    let scenario = Scenario::parse(LOSSY, Path::new(".")).unwrap();
    if !able(&scenario) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    for stack in scenario.stacks.clone() {
        let (raw, log) = run(&scenario, stack, &format!("quic-{stack}"));
        for flow in &raw.flows {
            assert!(flow.completed && flow.intact == Some(true) && flow.octets == 1_000_000, "{stack} {flow:?} {log}");
        }
        let quic = &raw.flows[0];
        // 20 Mbit/s carry 1 MB in 0.4 s, and no byte is younger than the cable's delay.
        assert!(quic.last_byte_ns.unwrap() - quic.connect_ns > 400_000_000, "{stack}");
        assert!(quic.ages.len() == 977 && quic.ages.iter().all(|(_, age)| *age >= 10_000_000), "{stack}");
        let control = if stack.word() == "tcp-bbr" { "bbr" } else { "cubic" };
        let said = format!("flow quic: QUIC with {control} sent ");
        assert!(raw.notes.iter().any(|n| n.starts_with(&said)), "{stack}: {:?}", raw.notes);
        let server = raw.kernels.iter().find(|k| k.node == "server").unwrap();
        assert!(server.sent >= 1_000_000 / 1448, "{stack}: {server:?}");
        assert!(raw.spent.machine_s.unwrap() > 0.0, "{stack}");
        assert_eq!(raw.spent.programs_s.is_some(), stack.has_gateways(), "{stack}");
        let Some(packets) = raw.packets else {
            assert!(!stack.has_gateways(), "{stack}");
            assert!(server.repeated > 0, "{stack}: plain TCP lost nothing: {server:?}");
            continue;
        };
        // A QUIC packet carries less than 1,400 bytes; TCP besides, if it is not split.
        let least = if stack == Stack::UNSPLIT { 2_000_000 } else { 1_000_000 } / 1400;
        assert!(packets.sent > least && packets.repeated > 0, "{stack}: {packets:?}");
        if stack == Stack::WAVELANE {
            assert!(packets.sent < 2 * least, "TCP crossed as packets: {packets:?}");
        }
    }
}

/// Both gateways are proxies, between kernels whose CUBIC sees no loss of the air.
#[test]
fn split_proxies_stand_on_every_gateway_that_a_flow_crosses() {
    let text = LOSSY.replace("\"tcp-cubic\", \"tcp-bbr\", \"wavelane\", \"wavelane+unsplit\"", "\"tcp-cubic+split\"");
    let text = text.replace("app = \"quic\"", "app = \"download\"")
        + "\n[gateways.a]\nsides = [{ nodes = [\"client\"], congestion = \"reno\", tcp = { segment = \"1000 B\" } }]\n";
    let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
    if !able(&scenario) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let (raw, log) = run(&scenario, scenario.stacks[0], "split");
    for flow in &raw.flows {
        assert!(flow.completed && flow.intact == Some(true) && flow.octets == 1_000_000, "{flow:?} {log}");
    }
    assert!(log.contains("splits TCP from") && log.contains("stopped"), "{log}");
    for proxy in ["proxy a: ", "proxy b: "] {
        let note = raw.notes.iter().find(|note| note.starts_with(proxy)).unwrap();
        assert!(note.contains("connections_taken=2 ") && note.contains("connections_made=2 "), "{note}");
    }
    // What the air lost was repaired by the proxies; a busy host makes an end repeat a few segments needlessly.
    assert!(raw.kernels.iter().all(|kernel| kernel.repeated * 100 <= kernel.sent), "{:?}", raw.kernels);
    assert!(raw.spent.programs_s.is_some());
    let knob = text.replace("segment = \"1000 B\"", "sack = false");
    let review = LabBackend.review(&Scenario::parse(&knob, Path::new(".")).unwrap());
    let why = format!("{:?}", review.treatment_of(scenario.stacks[0]));
    assert!(why.contains("sack") && why.contains("--on sim"), "{why}");
}

/// Proxies that leave TCP end to end: what they do is what the daemon says.
#[test]
fn proxies_that_split_nothing_stand_there_too() {
    let stacks = "\"tcp-cubic+snoop\", \"tcp-cubic+mirror\"";
    let text = LOSSY.replace("\"tcp-cubic\", \"tcp-bbr\", \"wavelane\", \"wavelane+unsplit\"", stacks);
    let text =
        text.replace("app = \"quic\"", "app = \"download\"") + "\n[gateways.a]\nsides = [{ nodes = [\"client\"] }]\n";
    let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
    if !able(&scenario) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    for (stack, does, counts) in
        [(0, "snoops on TCP from", "snoop_kept="), (1, "mirrors TCP from", "packets_mirrored=")]
    {
        let (raw, log) = run(&scenario, scenario.stacks[stack], does.split_once(' ').unwrap().0);
        for flow in &raw.flows {
            assert!(flow.completed && flow.intact == Some(true) && flow.octets == 1_000_000, "{flow:?} {log}");
        }
        assert!(log.contains(does) && log.contains("stopped"), "{log}");
        for proxy in ["proxy a: ", "proxy b: "] {
            let note = raw.notes.iter().find(|note| note.starts_with(proxy)).unwrap();
            assert!(note.contains(counts), "{note}");
        }
    }
}

/// Three gateways in a row, whose edges seal: the middle one is a relay with two neighbours.
const CHAIN: &str = r#"
title = "A sealed download over a relay"
seed = 7
duration = "10 s"
stacks = ["wavelane"]
nodes = { client = "endpoint", a = "gateway", b = "gateway", c = "gateway", server = "endpoint" }
[channels.lan_client]
preset = "ethernet"
between = ["client", "a"]
[channels.one]
between = ["a", "b"]
forward = { rate = "20 Mbit/s", delay = "5 ms", queue = "100 kB" }
reverse = "same"
[channels.two]
between = ["b", "c"]
forward = { rate = "20 Mbit/s", delay = "5 ms", queue = "100 kB" }
reverse = "same"
[channels.lan_server]
preset = "ethernet"
between = ["c", "server"]
[flows.page]
app = "download"
from = "client"
to = "server"
size = "2 MB"
[gateways.a]
seal = "end-to-end"
[gateways.b]
backpressure = "limit-2"
[gateways.c]
seal = "end-to-end"
"#;

#[test]
fn a_relay_passes_a_sealed_download_on() {
    let scenario = Scenario::parse(CHAIN, Path::new(".")).unwrap();
    if !able(&scenario) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let (raw, log) = run(&scenario, Stack::WAVELANE, "chain");
    let page = &raw.flows[0];
    assert!(page.completed && page.intact == Some(true) && page.octets == 2_000_000, "{log}");
    let notes = raw.notes.join("\n");
    let of = |gateway: &str| notes.lines().find(|line| line.starts_with(&format!("gateway {gateway}: "))).unwrap();
    assert!(of("b").contains("flows_relayed=1") && of("b").contains("relayed_octets="), "{notes}");
    // Each parcel of 4,078 octets has 18 more.
    let relayed: u64 = of("b").split("relayed_octets=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(relayed > 2_000_000 + 2_000_000 / 4_078 * 18, "not sealed: {relayed} octets passed the relay");
}

#[test]
fn two_uploads_take_turns_where_the_daemons_withhold() {
    let cable = "forward = { rate = \"20 Mbit/s\", delay = \"5 ms\", queue = \"100 kB\" }\nreverse = \"same\"\n";
    let text = format!(
        "title = \"Two uploads in turns\"\nseed = 7\nduration = \"8 s\"\nstacks = [\"hop-2009\"]\n\
         nodes = {{ client = \"endpoint\", a = \"gateway\", b = \"gateway\", server = \"endpoint\" }}\n\
         [channels.lan_client]\npreset = \"ethernet\"\nbetween = [\"client\", \"a\"]\n\
         [channels.air]\nbetween = [\"a\", \"b\"]\n{cable}\
         [channels.lan_server]\npreset = \"ethernet\"\nbetween = [\"b\", \"server\"]\n\
         [flows]\none = {{ app = \"upload\", from = \"client\", to = \"server\", size = \"2 MB\" }}\n\
         other = {{ app = \"upload\", from = \"client\", to = \"server\", size = \"2 MB\" }}\n\
         [gateways.a]\nwithhold = 1\n[gateways.b]\nwithhold = 1\n"
    );
    let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
    if !able(&scenario) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let (raw, log) = run(&scenario, Stack::HOP_2009, "withhold");
    for flow in &raw.flows {
        assert!(flow.completed && flow.intact == Some(true) && flow.octets == 2_000_000, "{log}");
    }
    let notes = raw.notes.join("\n");
    let of_b = notes.lines().find(|line| line.starts_with("gateway b: ")).unwrap();
    let granted: u64 = of_b.split("grants_given=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    // Blocks of at most 1 MB.
    assert!(granted >= 4, "{of_b}");
}
