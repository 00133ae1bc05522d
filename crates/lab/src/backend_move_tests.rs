//! Nodes that change their access network: leases, a home agent, a gateway's new address.

use super::*;

/// A server, two access networks of 4 and 8 Mbit/s, and a mobile that is in the first until 3 s and in the second from 4 s on. With `boxed` the
/// mobile is a gateway with a laptop behind it, and another stands before the server.
fn moving(boxed: bool, address: &str, flow: &str) -> Scenario {
    let (kind, laptop) = if boxed { ("gateway", "laptop") } else { ("endpoint", "mobile") };
    let more = match boxed {
        true => "[channels.lan]\npreset = \"ethernet\"\nbetween = [\"laptop\", \"mobile\"]\n",
        false => "",
    };
    let laptops = if boxed { "laptop = \"endpoint\"\n" } else { "" };
    let flow = flow.replace("FROM", laptop);
    let text = format!(
        r#"
title = "a mobile"
seed = 3
duration = "20 s"
stacks = ["tcp-cubic"]
[nodes]
server = "endpoint"
gate = "{gate}"
core = "router"
home = "router"
foreign = "router"
mobile = "{kind}"
{laptops}
[channels.server]
preset = "ethernet"
between = ["server", "gate"]
[channels.wan]
preset = "ethernet"
between = ["gate", "core"]
[channels.one]
preset = "ethernet"
between = ["core", "home"]
[channels.two]
kind = "cable"
between = ["core", "foreign"]
forward = {{ delay = "5 ms" }}
reverse = "same"
[channels.near]
kind = "cable"
between = ["home", "mobile"]
forward = {{ rate = "4 Mbit/s", delay = "5 ms", queue = "50 packets" }}
reverse = "same"
[channels.away]
kind = "cable"
between = ["foreign", "mobile"]
forward = {{ rate = "8 Mbit/s", delay = "5 ms", queue = "50 packets" }}
reverse = "same"
{more}
[mobility.m]
node = "mobile"
to = "away"
at = "3 s"
gap = "1 s"
address = "{address}"
[flows.bulk]
{flow}
"#,
        gate = if boxed { "gateway" } else { "router" },
    );
    Scenario::parse(&text, Path::new(".")).unwrap_or_else(|why| panic!("{why}"))
}

fn may_move(scenario: &Scenario, stack: Stack) -> bool {
    if skip() {
        return false;
    }
    match review_stack(scenario, stack) {
        Err(why) if why.contains(": install ") => {
            eprintln!("SKIPPED (moves): {why}");
            false
        }
        found => found.map(|()| true).unwrap_or_else(|why| panic!("{why}")),
    }
}

/// When something of the mobile was, by a note.
fn noted(raw: &StackRaw, what: &str) -> f64 {
    let note = raw.notes.iter().find(|note| note.contains(what)).unwrap_or_else(|| panic!("{what}: {:?}", raw.notes));
    note.split(" at ").last().unwrap().trim_end_matches(" s").parse().unwrap()
}

/// One connection carries data until the end of the run, or at least for 9 s from `back` on.
fn goes_on(raw: &StackRaw, back: f64) {
    let bulk = &raw.flows[0];
    assert!(bulk.completed && bulk.intact != Some(false), "{bulk:?}");
    let seconds = |at: u64| at as f64 / 1e9;
    let (first, last) = (bulk.arrivals[0].0, bulk.arrivals[bulk.arrivals.len() - 1].0);
    eprintln!("{} octets from {} to {} s, back at {back} s", bulk.octets, seconds(first), seconds(last));
    assert!(seconds(last) > (back + 9.0).min(19.0), "{bulk:?}");
}

#[test]
fn a_tcp_survives_a_move_with_its_address_kept_by_a_home_agent() {
    let flow = "app = \"download\"\nfrom = \"FROM\"\nto = \"server\"";
    let scenario = moving(false, "kept", flow);
    if !may_move(&scenario, tcp(TcpKind::Cubic)) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    // real time: 20 s, the run's own: a neighbour that the kernel asks in vain is given up 8 s later
    let (raw, _, out) = run(&scenario, tcp(TcpKind::Cubic), "kept");
    let raw = raw.unwrap();
    raw.notes.iter().for_each(|note| eprintln!("note: {note}"));
    let (leased, registered) = (noted(&raw, "has the address"), noted(&raw, "is registered"));
    assert!(4.0 <= leased && leased <= registered, "{:?}", raw.notes);
    goes_on(&raw, registered);
    for log in ["dhcp-wl_near.log", "dhcp-wl_away.log"] {
        let text = std::fs::read_to_string(out.0.join("logs").join(log)).unwrap();
        assert!(text.contains("DHCPACK"), "{text}");
    }
    assert_eq!((children(), strays()), (Vec::new(), Vec::new()));
}

#[test]
fn sessions_of_a_gateway_with_a_new_address_go_on() {
    let flow = "app = \"download\"\nfrom = \"FROM\"\nto = \"server\"";
    let scenario = moving(true, "new", flow);
    if !may_move(&scenario, Stack::WAVELANE) {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    // real time: 20 s, the run's own: a neighbour that the kernel asks in vain is given up 8 s later
    let (raw, _, _out) = run(&scenario, Stack::WAVELANE, "new");
    let raw = raw.unwrap();
    raw.notes.iter().for_each(|note| eprintln!("note: {note}"));
    let leased = noted(&raw, "has the address");
    assert!(leased >= 4.0, "{:?}", raw.notes);
    goes_on(&raw, leased);
    assert_eq!((children(), strays()), (Vec::new(), Vec::new()));
}

#[test]
fn what_is_in_flight_arrives_where_there_is_no_gap() {
    let mut scenario = moving(false, "kept", "app = \"download\"\nfrom = \"FROM\"\nto = \"server\"");
    if !may_move(&scenario, tcp(TcpKind::Cubic)) {
        return;
    }
    let near = scenario.channels.iter_mut().find(|channel| channel.name == "near");
    if let Some(wavelane_scenario::ChannelKind::Cable(cable)) = near.map(|channel| &mut channel.kind) {
        cable.forward.delay = Span::from_millis(500);
    }
    scenario.moves[0].gap = Span::ZERO;
    // real time: 7 s, the run's own
    scenario.duration = Span::from_secs(7);
    let _guard = ONE_AT_A_TIME.lock();
    let (raw, _, _out) = run(&scenario, tcp(TcpKind::Cubic), "at-once");
    let raw = raw.unwrap();
    raw.notes.iter().for_each(|note| eprintln!("note: {note}"));
    // Data that left before 3 s are on their way for 500 ms, and the mobile is registered no sooner than they are through.
    let arrivals = &raw.flows[0].arrivals;
    let octets = |from: u64, until: u64| {
        arrivals.iter().filter(|(at, _)| (from..until).contains(&(at / 1_000_000))).map(|(_, n)| n).sum::<u64>()
    };
    assert!(octets(3_050, 3_500) > 50_000, "{arrivals:?}");
    assert!(noted(&raw, "has the address") >= 3.5 && octets(4_000, 7_000) > 0, "{arrivals:?}");
    assert_eq!((children(), strays()), (Vec::new(), Vec::new()));
}

#[test]
fn moves_that_no_program_here_can_do_are_refused_with_the_reason() {
    let flow = "app = \"echo\"\nfrom = \"FROM\"\nto = \"server\"";
    let endpoint = moving(false, "kept", flow);
    let why = crate::mobility::review(&endpoint, Stack::WAVELANE).unwrap_err();
    assert!(why.contains("moves the endpoint 'mobile'") || why.contains(": install "), "{why}");
    let why = crate::mobility::review(&endpoint, named("mptcp")).unwrap_err();
    assert!(why.contains("take the other out") || why.contains(": install "), "{why}");
    // What nobody crosses before is on no way, and its network lies behind its router.
    let plan = crate::topology::Plan::of(&endpoint).unwrap();
    let away = plan.wires.iter().find(|wire| wire.later).unwrap();
    assert_eq!((away.interface.as_str(), away.mobile), ("wl_away", Some(1)));
    for (node, of) in plan.routes.iter().enumerate() {
        assert!(of.iter().all(|route| route.interface != "wl_away"), "{node}: {of:?}");
    }
    let core = endpoint.nodes.iter().position(|node| node.name == "core").unwrap();
    let route = plan.routes[core].iter().find(|route| route.prefix == away.prefix()).unwrap();
    assert_eq!(route.interface, "wl_two");
}
