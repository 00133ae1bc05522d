//! Nodes that change their channel.

use crate::common::run_scenario;
use std::path::Path;
use wavelane_run::{Backend, StackRaw, Treatment};
use wavelane_scenario::{Scenario, Stack};
use wavelane_sim::SimBackend;

/// A server, two access networks and a mobile that leaves the first of 4 Mbit/s for the second of 8 at 5 s, and is there at 7 s. `boxed` has
/// gateways at both ends.
fn text(boxed: bool, address: &str, flows: &str) -> String {
    let (ends, own) = match boxed {
        false => ("server = \"endpoint\"\nmobile = \"endpoint\"", ""),
        true => (
            "server = \"endpoint\"\ngate = \"gateway\"\nmobile = \"gateway\"\nlaptop = \"endpoint\"",
            "[channels.lan]\npreset = \"ethernet\"\nbetween = [\"laptop\", \"mobile\"]\n",
        ),
    };
    let far = if boxed { "gate" } else { "core" };
    let wan = if boxed { "[channels.wan]\npreset = \"ethernet\"\nbetween = [\"gate\", \"core\"]\n" } else { "" };
    format!(
        "title = \"A mobile\"\nduration = \"30 s\"\nstacks = [\"tcp-cubic\", \"tcp-cubic+split\", \"wavelane\"]\n[nodes]\n{ends}\n\
         core = \"router\"\nhome = \"router\"\nforeign = \"router\"\n\
         [channels.server]\npreset = \"ethernet\"\nbetween = [\"server\", \"{far}\"]\n{wan}{own}\
         [channels.one]\npreset = \"ethernet\"\nbetween = [\"core\", \"home\"]\n\
         [channels.two]\nkind = \"cable\"\nbetween = [\"core\", \"foreign\"]\nforward = {{ delay = \"10 ms\" }}\nreverse = \"same\"\n\
         [channels.away]\nkind = \"cable\"\nbetween = [\"foreign\", \"mobile\"]\nforward = {{ rate = \"8 Mbit/s\", delay = \"5 ms\", queue = \"100 packets\" }}\nreverse = \"same\"\n\
         [channels.near]\nkind = \"cable\"\nbetween = [\"home\", \"mobile\"]\nforward = {{ rate = \"4 Mbit/s\", delay = \"5 ms\", queue = \"100 packets\" }}\nreverse = \"same\"\n\
         [mobility.m]\nnode = \"mobile\"\nto = \"away\"\nat = \"5 s\"\ngap = \"2 s\"\naddress = \"{address}\"\n{flows}\n"
    )
}

fn flow(app: &str, node: &str) -> String {
    format!("[flows.bulk]\napp = \"{app}\"\nfrom = \"{node}\"\nto = \"server\"\nsize = \"8 MB\"\n")
}

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, Path::new(".")).unwrap_or_else(|why| panic!("{why}"))
}

/// Octets that arrived in whole seconds of the run.
fn seconds(raw: &StackRaw) -> Vec<u64> {
    let mut all = vec![0; 31];
    raw.flows[0].arrivals.iter().for_each(|(at, octets)| all[(at / 1_000_000_000) as usize] += octets);
    all
}

fn cubic() -> Stack {
    Stack::tcp(wavelane_scenario::TcpKind::Cubic)
}

#[test]
fn a_transfer_to_a_kept_address_goes_on_after_a_move_either_way() {
    for app in ["download", "upload"] {
        let scenario = parse(&text(false, "kept", &flow(app, "mobile")));
        let raw = run_scenario(&scenario, cubic(), 1);
        let found = seconds(&raw);
        assert!((raw.flows[0].completed, raw.flows[0].intact) == (true, Some(true)), "{app}: {found:?}");
        // 4 Mbit/s are 500 kB a second, less headers.
        assert!((400_000..500_000).contains(&found[3]), "{found:?}");
        assert_eq!(found[5..7].iter().sum::<u64>() / 100_000, 0, "{found:?}");
        // The back-off of a 2 s gap ends within 4 s; then there are 8 Mbit/s.
        assert!(found[12] > 900_000 || found[11] > 900_000, "{app}: {found:?}");
    }
}

/// Towards the mobile each packet has another header, so as fast a channel carries less by 20 octets in 1,500; from it none has.
#[test]
fn the_tunnel_costs_its_header_towards_the_mobile() {
    let rate = |app: &str, of: &str| {
        let text = text(false, "kept", &flow(app, "mobile").replace("size = \"8 MB\"\n", ""));
        // The same rate and delay at home.
        let text = text.replace("8 Mbit/s", "4 Mbit/s").replace("delay = \"10 ms\"", "delay = \"50 us\"");
        let raw = run_scenario(&parse(&text.replace("at = \"5 s\"", of)), cubic(), 1);
        seconds(&raw)[17..22].iter().sum::<u64>() as f64
    };
    let (still, moved) = ("at = \"27 s\"", "at = \"5 s\"");
    let share = rate("download", moved) / rate("download", still);
    assert!((1500.0 / 1520.0 - 0.004..1500.0 / 1520.0 + 0.004).contains(&share), "{share}");
    let back = rate("upload", moved) / rate("upload", still);
    assert!((0.99..1.01).contains(&back), "{back}");
}

#[test]
fn connections_of_an_endpoint_end_with_its_address() {
    let scenario = parse(&text(false, "new", &flow("download", "mobile")));
    let raw = run_scenario(&scenario, cubic(), 1);
    let found = seconds(&raw);
    assert!(!raw.flows[0].completed && found[4] > 400_000 && found[6..].iter().all(|octets| *octets == 0), "{found:?}");
}

#[test]
fn sessions_of_a_gateway_follow_its_new_address() {
    for app in ["download", "upload"] {
        let scenario = parse(&text(true, "new", &flow(app, "laptop")));
        let raw = run_scenario(&scenario, Stack::WAVELANE, 1);
        let found = seconds(&raw);
        assert!((raw.flows[0].completed, raw.flows[0].intact) == (true, Some(true)), "{app}: {found:?}");
        // What a session notices by itself: within 2 s of the return.
        assert!(found[7..9].iter().sum::<u64>() > 100_000, "{app}: {found:?}");
        let plain = run_scenario(&scenario, cubic(), 1);
        assert!(!plain.flows[0].completed, "a plain router's endpoints have no other way back");
    }
}

#[test]
fn what_the_simulator_cannot_do_is_said() {
    let treatments = |text: &str| {
        let review = SimBackend.review(&parse(text));
        let clauses: Vec<_> = review.clauses.into_iter().map(|clause| (clause.clause, clause.treatment)).collect();
        (clauses, review.stacks)
    };
    let (clauses, stacks) = treatments(&text(false, "kept", &flow("download", "mobile")));
    assert!(
        matches!(&clauses[..], [(clause, Treatment::Approximated(why))] if clause == "mobility.m" && why.contains("1,520")),
        "{clauses:?}"
    );
    assert!(
        matches!(&stacks[2].1, Treatment::Omitted(why) if why.contains("moves the endpoint 'mobile'")),
        "{stacks:?}"
    );
    let late = flow("download", "mobile") + "start = \"6 s\"\n";
    let (clauses, _) = treatments(&text(false, "new", &late));
    assert!(
        clauses
            .iter()
            .any(|(clause, of)| clause == "flows.bulk"
                && matches!(of, Treatment::Refused(why) if why.contains("--on lab"))),
        "{clauses:?}"
    );
    let (clauses, _) = treatments(&text(false, "kept", &late));
    assert_eq!(clauses.len(), 1, "a kept address is there all the time: {clauses:?}");
}
