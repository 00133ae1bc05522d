//! Radio cells between kernels. Their goodput is judged beside the simulator's, by the study `hop`.

use super::*;

/// Two stations that do not hear each other, and one between them.
fn line(more: &str) -> Scenario {
    let text = format!(
        r#"
title = "two hops"
seed = 3
duration = "60 s"
stacks = ["tcp-cubic"]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
c = "gateway"
server = "endpoint"
[channels.lan_a]
preset = "ethernet"
between = ["client", "a"]
[channels.air]
kind = "wifi"
nodes = ["a", "b", "c"]
phy = "802.11a"
rate = "24 Mbit/s"
queue = "100 packets"
reach = "none"
pairs = [{{ between = ["a", "b"], hear = "decode" }}, {{ between = ["b", "c"], hear = "decode" }}]
{more}
[channels.lan_c]
preset = "ethernet"
between = ["c", "server"]
[flows.copy]
app = "upload"
from = "client"
to = "server"
size = "400 kB"
"#
    );
    Scenario::parse(&text, Path::new(".")).unwrap()
}

/// Full frames of 400 kB.
const FRAMES: u64 = 400_000 / 1_448;

#[test]
fn a_copy_crosses_two_hidden_hops() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let scenario = line("");
    let review = LabBackend.review(&scenario);
    assert_eq!(review.refusal(), None);
    for (word, rts) in [("tcp-cubic", false), ("tcp-cubic+rts", true)] {
        let (raw, _, _out) = run(&scenario, named(word), word);
        let raw = raw.unwrap();
        assert!(raw.flows[0].completed && raw.flows[0].intact == Some(true), "{:?}", raw.flows[0]);
        let radio = &raw.radios[0];
        assert!(radio.data >= 2 * FRAMES && (radio.rts >= radio.data) == rts, "{radio:?}");
    }
}

#[test]
fn gateways_relay_over_a_cell_and_their_devices_are_captured() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let mut scenario = line("");
    scenario.stacks = vec![named("wavelane")];
    let said = LabBackend.review(&scenario).clauses.into_iter().find(|clause| clause.clause == "channels.air").unwrap();
    assert!(matches!(&said.treatment, Treatment::Approximated(why) if why.contains("begins a burst")), "{said:?}");
    let (raw, _, out) = run(&scenario, scenario.stacks[0], "relayed");
    let raw = raw.unwrap();
    assert!(raw.flows[0].completed && raw.flows[0].intact == Some(true), "{:?}", raw.flows[0]);
    assert!(raw.radios[0].data >= 2 * FRAMES && raw.ways.is_empty(), "{:?}", raw.radios[0]);
    let captures =
        ["a-air-b", "b-air-a", "b-air-c", "c-air-b"].map(|name| out.0.join(format!("pcap/test-{name}.pcapng")));
    for file in captures {
        assert!(std::fs::metadata(&file).unwrap().len() > 50_000, "{}", file.display());
    }
}

/// What a flow asks for counts for its packets and their answers, and of others' their code points do.
#[test]
fn categories_are_asked_for_by_flow() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let ping = |name: &str, to: &str, more: &str| {
        format!(
            "[flows.{name}]\napp = \"ping\"\nfrom = \"client\"\nto = \"{to}\"\nevery = \"50 ms\"\nstop = \"1 s\"\n{more}\n"
        )
    };
    let text = |flows: &str| {
        format!(
            "duration = \"2 s\"\nstacks = [\"tcp-cubic\"]\nnodes = {{ client = \"endpoint\", ap = \"endpoint\", other = \"endpoint\" }}\n\
             [channels.air]\nkind = \"wifi\"\nphy = \"802.11a\"\nrate = \"54 Mbit/s\"\nnodes = [\"ap\", \"client\", \"other\"]\nedca = {{}}\n{flows}"
        )
    };
    let parse = |flows: &str| Scenario::parse(&text(flows), Path::new(".")).unwrap();
    let call = ping("call", "ap", "category = \"voice\"\nno-ack = true");
    let scenario = parse(&(call.clone() + &ping("plain", "other", "")));
    let (raw, ..) = run(&scenario, tcp(TcpKind::Cubic), "categories");
    let raw = raw.unwrap();
    assert!(raw.flows.iter().all(|flow| flow.probes.iter().any(|probe| probe.rtt_ns.is_some())), "{:?}", raw.flows);
    let data: Vec<u64> = raw.radios[0].categories.iter().map(|of| of.data).collect();
    // Of 20 questions; the first waits for nothing here, since no device asks who has an address.
    assert!(data[0] == 0 && data[1] >= 20 && data[2] == 0 && (20..=42).contains(&data[3]), "{data:?}");
    let review = LabBackend.review(&parse(&(call + &ping("plain", "ap", ""))));
    let (_, why) = review.refusal().unwrap();
    assert!(why.contains("flow 'plain' between the same has another category"), "{why}");
}

/// Of 802.11b at 11 Mbit/s with the long preamble one station's datagrams get 6.2 Mbit/s without a backlog's collisions.
#[test]
fn datagrams_cross_a_cell_at_a_rate_without_end_and_so_many_at_a_time() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    let run_of = |app: &str| {
        let text = format!(
            "duration = \"3 s\"\nstacks = [\"tcp-cubic\"]\nnodes = {{ a = \"endpoint\", b = \"endpoint\" }}\n\
             [channels.air]\nkind = \"wifi\"\nphy = \"802.11b\"\nrate = \"11 Mbit/s\"\nnodes = [\"a\", \"b\"]\nqueue = \"50 packets\"\n\
             [flows.of]\n{app}\nfrom = \"a\"\nto = \"b\"\n"
        );
        let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
        assert_eq!(LabBackend.review(&scenario).refusal(), None);
        let (raw, ..) = run(&scenario, tcp(TcpKind::Cubic), "datagrams");
        let raw = raw.unwrap();
        let flow = &raw.flows[0];
        assert!(flow.completed, "nothing is damaged: {:?}", raw.notes);
        (flow.octets, raw.radios[0].queue_full)
    };
    let (octets, full) = run_of("app = \"cbr\"\nevery = \"10 ms\"\nsize = \"500 B\"");
    assert!((295 * 500..=300 * 500).contains(&octets) && full == 0, "{octets} of 300 datagrams, {full} dropped");
    let (octets, full) = run_of("app = \"saturate\"");
    assert!((1_900_000..=2_400_000).contains(&octets) && full > 100, "{octets} octets, {full} dropped");
    let (octets, full) = run_of("app = \"window\"\npackets = 8");
    assert!((1_200_000..=2_200_000).contains(&octets) && full == 0, "{octets} octets, {full} dropped");
}
