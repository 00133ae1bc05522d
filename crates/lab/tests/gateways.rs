//! The shipped gateways between real kernels: whole runs of scenarios from the corpus.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use wavelane_lab::LabBackend;
use wavelane_scenario::{Backend, Progress, RunContext, Scenario, Stack, StackRaw, Treatment};

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
    let why = refusal.or_else(|| match review.treatment_of(Stack::Wavelane) {
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

fn run(scenario: &Scenario, name: &str) -> (StackRaw, String) {
    let out = std::env::temp_dir().join(format!("wavelane-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let cancelled = AtomicBool::new(false);
    let mut progress = |_: Progress| {};
    let mut context =
        RunContext { out: &out, label: "wavelane".into(), progress: &mut progress, cancelled: &cancelled };
    let raw = LabBackend.run_stack(scenario, Stack::Wavelane, scenario.seed, &mut context);
    let log = ["a", "b"].map(|n| std::fs::read_to_string(out.join(format!("logs/wavelane-{n}.log"))));
    std::fs::remove_dir_all(&out).unwrap();
    let raw = raw.unwrap_or_else(|e| panic!("{e}\n{log:?}"));
    eprintln!("{}", raw.notes.join("\n"));
    (raw, log.map(Result::unwrap).concat())
}

#[test]
fn a_clean_hop_carries_a_download_and_an_echo_through_both_gateways() {
    let scenario = corpus("smoke/one_hop.toml");
    if !able(&scenario) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let (raw, log) = run(&scenario, "one-hop");
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
fn an_outage_of_30_s_in_mid_download_costs_the_application_nothing_but_time() {
    let scenario = corpus("outage.toml");
    if !able(&scenario) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let (raw, log) = run(&scenario, "outage");
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
