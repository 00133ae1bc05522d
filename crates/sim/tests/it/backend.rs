//! Scenarios through the backend: what the review says, and that a file and its seed decide every byte.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_base::{Seed, Span};
use wavelane_run::{Backend, BackendError, RunContext, StackRaw, Treatment};
use wavelane_scenario::{Scenario, Stack, TcpKind};
use wavelane_sim::SimBackend;

fn scenario(path: &str) -> Scenario {
    Scenario::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, Path::new(".")).unwrap()
}

fn run(scenario: &Scenario, seed: u64, cancelled: bool) -> Result<StackRaw, BackendError> {
    run_stack(scenario, Stack::WAVELANE, seed, cancelled)
}

pub(crate) fn run_stack(
    scenario: &Scenario,
    stack: Stack,
    seed: u64,
    cancelled: bool,
) -> Result<StackRaw, BackendError> {
    let cancelled = AtomicBool::new(cancelled);
    let mut progress = 0;
    let mut context = RunContext {
        out: Path::new("."),
        label: "wavelane".to_owned(),
        captures: wavelane_run::CaptureExtent::Off,
        progress: &mut |_| progress += 1,
        cancelled: &cancelled,
    };
    let raw = SimBackend.run_stack(scenario, stack, Seed(seed), &mut context);
    assert!(raw.is_err() || progress > 0, "a run says how far it is");
    raw
}

const TWO_ROUTERS: &str = r#"
title = "A download over two routers, whose link slows down"
seed = 1
duration = "30 s"
stacks = ["wavelane", "tcp-cubic"]
[nodes]
client = "endpoint"
a = "gateway"
left = "router"
right = "router"
b = "gateway"
[channels.lan]
preset = "ethernet"
between = ["client", "a"]
[channels.near]
preset = "ethernet"
between = ["a", "left"]
[channels.air]
kind = "cable"
between = ["left", "right"]
forward = { rate = "10 Mbit/s", delay = "20 ms", queue = "100 kB" }
reverse = "same"
[channels.far]
preset = "ethernet"
between = ["b", "right"]
[flows.page]
app = "download"
from = "client"
to = "b"
size = "3 MB"
[flows.up]
app = "upload"
from = "client"
to = "b"
stop = "4 s"
[flows.echo]
app = "echo"
from = "client"
to = "b"
while = "page"
[[timeline]]
at = "1 s"
set = "air.reverse.rate"
to = "2 Mbit/s"
"#;

#[test]
fn routers_timelines_and_fixed_time_flows_work() {
    let scenario = parse(TWO_ROUTERS);
    let raw = run(&scenario, 1, false).unwrap();
    let [page, up, echo] = &raw.flows[..] else { panic!("three flows, not {:?}", raw.flows) };
    assert_eq!((page.completed, page.intact, page.octets), (true, Some(true), 3_000_000));
    // Less than 1.25 MB fit before the step; the rest goes at 2 Mbit/s at the most.
    let took = page.last_byte_ns.unwrap();
    assert!((8_000_000_000..16_000_000_000).contains(&took), "the step was not applied: {took} ns");
    assert!(up.completed && up.octets > 1_000_000, "{up:?}");
    assert_eq!(up.given_ns, 4_000_000_000);
    assert!(echo.completed && echo.probes.iter().all(|p| p.rtt_ns.is_some_and(|rtt| rtt > 40_000_000)), "{echo:?}");
    assert_eq!(page.arrivals.iter().map(|(_, octets)| octets).sum::<u64>(), page.octets);
    let delivered: u64 = raw.flows.iter().map(|flow| flow.octets).sum();
    assert!(raw.wire_octets > delivered && raw.wire_octets < 2 * delivered, "{} B on the wire", raw.wire_octets);
    assert!(raw.first_octets.unwrap() >= delivered, "{:?}", raw.first_octets);
}

#[test]
fn the_review_names_deviations() {
    let review = SimBackend.review(&parse(TWO_ROUTERS));
    let stacks: Vec<_> = review.stacks.iter().map(|(_, treatment)| treatment.clone()).collect();
    assert!(matches!(&stacks[..], [Treatment::Imposed, Treatment::Imposed]), "{stacks:?}");
    let external = parse(&TWO_ROUTERS.replace("tcp-cubic", "kcptun"));
    let review = SimBackend.review(&external);
    assert!(matches!(&review.stacks[1].1, Treatment::Omitted(_)), "{:?}", review.stacks);
    // Without a gateway on the way `wavelane` would be TCP compared with itself.
    let plain = TWO_ROUTERS.replace("a = \"gateway\"", "a = \"router\"").replace("b = \"gateway\"", "b = \"endpoint\"");
    assert_ne!(plain, TWO_ROUTERS);
    let review = SimBackend.review(&parse(&plain));
    let wavelane = review.treatment_of(Stack::WAVELANE);
    assert!(matches!(&wavelane, Treatment::Omitted(why) if why.contains("changes nothing")), "{wavelane:?}");
    let review = SimBackend.review(&parse(TWO_ROUTERS));
    assert_eq!((review.refusal(), &review.clauses), (None, &Vec::new()), "all of it is as written");
}

/// Whether or not that gateway has a neighbour, and by either way of routing.
#[test]
fn a_flow_between_hosts_of_one_gateway_is_refused() {
    let pc = "[channels.pc]\npreset = \"ethernet\"\nbetween = [\"pc\", \"a\"]\n[flows.near]\napp = \"echo\"\nfrom = \"client\"\nto = \"pc\"\n[channels.lan]";
    let text = TWO_ROUTERS
        .replace("[channels.lan]", pc)
        .replace("client = \"endpoint\"", "client = \"endpoint\"\npc = \"endpoint\"");
    for routing in ["shortest", "etx"] {
        let review =
            SimBackend.review(&parse(&text.replace("seed = 1", &format!("seed = 1\nrouting = \"{routing}\""))));
        let (clause, why) = review.refusal().unwrap();
        assert!(clause == "flows.near" && why.contains("gateway 'a' stands at both ends"), "{clause}: {why}");
    }
    // Where no flow crosses one `wavelane` is left out beside another stack; alone it runs, and what it is is said.
    let plain = TWO_ROUTERS.replace("a = \"gateway\"", "a = \"router\"").replace("b = \"gateway\"", "b = \"endpoint\"");
    let alone = SimBackend.review(&parse(&plain.replace(", \"tcp-cubic\"", "")));
    assert!(
        matches!(&alone.stacks[..], [(_, Treatment::Approximated(why))] if why.contains("every flow is plain TCP")),
        "{:?}",
        alone.stacks
    );
}

#[test]
fn a_flow_that_no_pair_of_gateways_carries_is_refused() {
    let text = TWO_ROUTERS.replace("between = [\"b\", \"right\"]", "between = [\"b\", \"a\"]").replace(
        "[channels.lan]",
        "[channels.spare]\npreset = \"ethernet\"\nbetween = [\"client\", \"b\"]\n[channels.lan]",
    );
    let review = SimBackend.review(&parse(&text));
    let (clause, why) = review.refusal().unwrap();
    assert!(clause.starts_with("flows.") && why.contains("'client'"), "{clause}: {why}");
}

/// Issue: the demo, twice with one seed and once with another.
#[test]
fn the_demo_repeats_itself_and_depends_on_its_seed() {
    let demo = scenario("scenarios/demo.toml");
    let first = run(&demo, 7, false).unwrap();
    assert_eq!(first, run(&demo, 7, false).unwrap());
    let other = run(&demo, 8, false).unwrap();
    assert_ne!(first.notes, other.notes, "the digest of all packets is among the notes");
    for raw in [&first, &other] {
        let page = &raw.flows[0];
        assert_eq!((page.completed, page.intact), (true, Some(true)));
    }
}

/// Every stack of plain TCP over the demo's link: whole, the same twice, and in the order that the laboratory shows. Four seeds,
/// because CUBIC's luck with the first fades lasts for a whole run: one in thirty reaches more than twice the mean.
#[test]
fn the_demo_over_our_tcp() {
    let mut demo = scenario("scenarios/demo.toml");
    demo.duration = Span::from_secs(120);
    let goodput = |kind| {
        let stack = Stack::tcp(kind);
        let runs = [1, 2, 3, 4].map(|seed| run_stack(&demo, stack, seed, false).unwrap());
        assert_eq!(runs[0], run_stack(&demo, stack, 1, false).unwrap(), "{kind:?}");
        let goodputs = runs.map(|run| {
            let page = &run.flows[0];
            assert_ne!(page.intact, Some(false), "{kind:?}");
            // The whole packet, headers and all, crosses the bad link once at least.
            assert!(run.wire_octets > page.octets * 1_500 / 1_448, "{kind:?}");
            let took = page.last_byte_ns.unwrap() - page.first_byte_ns.unwrap();
            page.octets as f64 * 8_000.0 / took as f64
        });
        goodputs.iter().sum::<f64>() / 4.0
    };
    let [cubic, bbr, three, reno, old] =
        [TcpKind::Cubic, TcpKind::Bbr, TcpKind::Bbr3, TcpKind::Reno, TcpKind::Y2001].map(goodput);
    println!("cubic {cubic:.2}, bbr {bbr:.2}, bbr3 {three:.2}, reno {reno:.2}, 2001 {old:.2} Mbit/s");
    // 95 % of the time the link is up.
    let bound = 20.0 * 0.95 * 1_448.0 / 1_500.0;
    assert!(bbr > 12.0 && bbr < bound, "{bbr}");
    // Version 3 gives way to bursts of losses, but less than CUBIC.
    assert!(three > cubic && three < bound, "{three}");
    assert!(cubic > 1.0 && cubic < 5.0, "{cubic}");
    assert!(reno > 1.0 && reno < 5.0, "{reno}");
    assert!(old < 1.5, "{old}");
}

/// Gateways under a TCP stack are routers, and may hold programs of their own.
#[test]
fn a_program_on_a_gateway_under_tcp() {
    let stack = Stack::tcp(TcpKind::Cubic);
    let raw = run_stack(&parse(TWO_ROUTERS), stack, 1, false).unwrap();
    let [page, up, echo] = &raw.flows[..] else { panic!("three flows, not {:?}", raw.flows) };
    assert_eq!((page.completed, page.intact, page.octets), (true, Some(true), 3_000_000));
    let took = page.last_byte_ns.unwrap();
    assert!((8_000_000_000..16_000_000_000).contains(&took), "the step was not applied: {took} ns");
    assert!(up.completed && up.octets > 500_000, "{up:?}");
    assert!(echo.completed && echo.probes.iter().all(|p| p.rtt_ns.is_some_and(|rtt| rtt > 40_000_000)), "{echo:?}");
}

#[test]
fn a_cancelled_run_stops_at_once() {
    assert_eq!(run(&scenario("scenarios/demo.toml"), 1, true), Err(BackendError::Cancelled));
}
