//! Hop's mechanisms over several hops (NSDI 2009), each in the scenario that it was made for.

use crate::capacity::{Row, cable};
use crate::common::{run_scenario, secs};
use crate::swarm::cases;
use std::path::Path;
use wavelane_base::Instant;
use wavelane_run::{FlowRaw, StackRaw};
use wavelane_scenario::{Scenario, Stack};
use wavelane_sim::Work;

fn run(text: &str, seed: u64) -> StackRaw {
    run_scenario(&Scenario::parse(text, Path::new(".")).unwrap(), Stack::WAVELANE, seed)
}

fn flow<'a>(raw: &'a StackRaw, name: &str) -> &'a FlowRaw {
    raw.flows.iter().find(|flow| flow.flow == name).unwrap()
}

/// Bits per second that a flow's reader took from the fifth second on.
fn settled_bps(flow: &FlowRaw, seconds: u64) -> f64 {
    let from = 5_000_000_000;
    let octets: u64 = flow.arrivals.iter().filter(|(at, _)| *at >= from).map(|(_, octets)| octets).sum();
    octets as f64 * 8.0 / (seconds - 5) as f64
}

/// The topology of the slides: A-B-C, then D-E with 20 Mbit/s and F-G with 1 Mbit/s; B-C has 10 Mbit/s and is shared.
fn forked(knobs: &str, slow: bool) -> String {
    let mut text = String::from(
        "seed = 1\nduration = \"20 s\"\nstacks = [\"wavelane\"]\n[nodes]\nclient = \"endpoint\"\na = \"gateway\"\nb = \"gateway\"\n\
         c = \"gateway\"\nd = \"gateway\"\ne = \"gateway\"\nf = \"gateway\"\ng = \"gateway\"\nfast = \"endpoint\"\nslow = \"endpoint\"\n",
    );
    let links = [("a", "b", 20), ("b", "c", 10), ("c", "d", 20), ("d", "e", 20), ("c", "f", 20), ("f", "g", 1)];
    for (one, other, mbit) in links {
        text += &format!(
            "[channels.{one}{other}]\nkind = \"cable\"\nbetween = [\"{one}\", \"{other}\"]\nreverse = \"same\"\n\
             forward = {{ rate = \"{mbit} Mbit/s\", delay = \"2 ms\", queue = \"100 kB\" }}\n"
        );
    }
    for (gateway, host) in [("a", "client"), ("e", "fast"), ("g", "slow")] {
        text += &format!("[channels.lan_{gateway}]\npreset = \"ethernet\"\nbetween = [\"{host}\", \"{gateway}\"]\n");
    }
    for gateway in ["b", "c", "d", "f"] {
        text += &format!("[gateways.{gateway}]\n{knobs}\n");
    }
    text += "[flows.to_fast]\napp = \"upload\"\nfrom = \"client\"\nto = \"fast\"\n";
    if slow {
        text += "[flows.to_slow]\napp = \"upload\"\nfrom = \"client\"\nto = \"slow\"\n";
    }
    text
}

/// Of two flows over the same relays.
#[test]
fn a_relay_takes_no_more_flows_than_its_scenario_says() {
    let carried = |knobs: &str| {
        let raw = run(&forked(knobs, true), 1);
        raw.flows.iter().filter(|flow| !flow.arrivals.is_empty()).count()
    };
    let [one, many] = ["flows-max = 1", "flows-max = 16\nidle = \"60 s\"\npool = \"64 MiB\""].map(carried);
    assert!(one < 2 && many == 2, "{one} of two flows with room for one, {many} with room for more");
}

/// Both flows' goodput over that of one alone on the shared link.
fn shared(knobs: &str) -> f64 {
    let alone = run(&forked("backpressure = \"adaptive\"", false), 1);
    let both = run(&forked(knobs, true), 1);
    let sum = settled_bps(flow(&both, "to_fast"), 20) + settled_bps(flow(&both, "to_slow"), 20);
    sum / settled_bps(flow(&alone, "to_fast"), 20)
}

/// S2-E8: half of the shared link carries bytes that pile up before the slow one, unless its relay takes no more than a block.
#[test]
fn backpressure_leaves_the_shared_link_to_the_flow_that_moves() {
    let off = shared("backpressure = \"off\"");
    assert!((0.57..=0.63).contains(&off), "without backpressure {off}");
    for knobs in cases(&["limit-1", "adaptive", "limit-2"], 2) {
        let share = shared(&format!("backpressure = \"{knobs}\""));
        assert!(share >= 0.95, "{knobs}: {share}");
    }
}

/// A chain of so many hops of 20 Mbit/s, every gateway with these knobs, and an upload of so many bytes over it.
fn chain(hops: usize, knobs: &str, size: &str) -> String {
    let mut text =
        String::from("seed = 1\nduration = \"2 h\"\nstacks = [\"wavelane\"]\n[nodes]\nclient = \"endpoint\"\n");
    (0..=hops).for_each(|n| text += &format!("g{n} = \"gateway\"\n"));
    text += "server = \"endpoint\"\n";
    for n in 0..hops {
        text += &format!(
            "[channels.hop{n}]\nkind = \"cable\"\nbetween = [\"g{n}\", \"g{}\"]\nreverse = \"same\"\n\
             forward = {{ rate = \"20 Mbit/s\", delay = \"2 ms\", queue = \"100 kB\" }}\n",
            n + 1
        );
    }
    text += &format!(
        "[channels.lan_a]\npreset = \"ethernet\"\nbetween = [\"client\", \"g0\"]\n\
         [channels.lan_b]\npreset = \"ethernet\"\nbetween = [\"g{hops}\", \"server\"]\n\
         [flows.file]\napp = \"upload\"\nfrom = \"client\"\nto = \"server\"\nsize = \"{size}\"\n"
    );
    for n in 0..=hops {
        text += &format!("[gateways.g{n}]\n{knobs}\n");
    }
    text
}

/// How often the bytes of an upload crossed a hop, over how many they are.
fn transmissions(hops: usize, lost: &str) -> f64 {
    let raw = run(&chain(hops, &format!("block-loss = \"{lost}\""), "16 MB"), 1);
    let file = flow(&raw, "file");
    assert!(file.completed && file.intact == Some(true), "{file:?}");
    (raw.first_octets.unwrap() + raw.repair_octets.unwrap()) as f64 / file.octets as f64
}

/// S2-E9: a block that a node loses after it receipted it crosses that node's hop again and no other: `hops / (1 - q)`.
#[test]
fn a_lost_block_is_sent_again_over_the_hop_that_lost_it_alone() {
    for &(lost, q) in cases(&[("3/10", 0.3), ("1/10", 0.1), ("1/5", 0.2)], 1) {
        for &hops in cases(&[3, 6, 4], 2) {
            let (seen, form) = (transmissions(hops, lost), hops as f64 / (1.0 - q));
            assert!((seen / form - 1.0).abs() <= 0.05, "{hops} hops, q = {q}: {seen} instead of {form}");
        }
    }
}

/// Bits per second of each of so many downloads across a relay, from the fifth second to the twentieth; the reader of the last
/// takes nothing from the third second on if it `stalls`.
fn downloads(count: usize, stalls: bool) -> Vec<f64> {
    let mut row = Row::new(1, vec![cable(20, 20), cable(20, 20)]);
    let pause = (secs(3), secs(30));
    let flows: Vec<_> = (0..count)
        .map(|n| {
            let pause = (stalls && n + 1 == count).then_some(pause);
            row.add_reader(Work::Download(None), Instant::ZERO, Some(secs(20)), pause)
        })
        .collect();
    row.engine.run_until(secs(20));
    flows.iter().map(|flow| row.engine.log(*flow).goodput_between(secs(5), secs(20)).as_bps() as f64).collect()
}

/// One stopped reader among a hundred costs the others nothing: they share the link as if it were not there.
#[test]
fn a_stopped_reader_costs_others_nothing() {
    let (alone, beside) = (downloads(99, false), downloads(100, true));
    assert_eq!(beside[99], 0.0);
    let sum = |rates: &[f64]| rates.iter().sum::<f64>();
    let kept = sum(&beside[..99]) / sum(&alone);
    let squares: f64 = beside[..99].iter().map(|rate| rate * rate).sum();
    let jain = sum(&beside[..99]).powi(2) / (99.0 * squares);
    assert!((0.99..=1.01).contains(&kept) && jain >= 0.99, "kept {kept}, Jain {jain}");
}

/// Caches too small for one offer, so that what lies between the edge and the loss is gone: the edge asks for less.
#[test]
fn small_caches_fall_back_to_the_edge() {
    let raw = run(&chain(3, "block-loss = \"1/20\"\ncache = \"150 kB\"", "3 MB"), 3);
    let file = flow(&raw, "file");
    assert!(file.completed && file.intact == Some(true), "{file:?}");
}

/// The reader of a download across a relay stands still for a minute: its edge asks where the bytes are, is told that they are
/// there, and sends nothing again.
#[test]
fn a_stopped_reader_gets_rare_offers_and_no_data() {
    let mut row = Row::new(1, vec![cable(20, 20), cable(20, 20)]);
    let down =
        row.add_reader(Work::Download(Some(8_000_000)), Instant::ZERO, Some(secs(90)), Some((secs(1), secs(61))));
    row.engine.run_until(secs(80));
    assert!(row.engine.log(down).is_complete(), "{:?}", row.engine.log(down).end);
    let sum = |name: &str| -> u64 {
        let counters = row.nodes.iter().flat_map(|node| row.engine.status(*node).counters);
        counters.filter(|(known, _)| *known == name).map(|(_, count)| count).sum()
    };
    assert_eq!((sum("hop_vtx_octets"), sum("hop_protocol_errors")), (0, 0));
    // After 1, 2, 4, 8 and 16 s, and each 16 s from then on.
    assert!((3..=7).contains(&sum("vtx_asked")), "{}", sum("vtx_asked"));
}

/// A sealed flow arrives as it was sent over a relay that changes a bit of one stretch in twenty. Without seals the receiver gets
/// what the relay made of it.
#[test]
fn a_relay_that_changes_octets_is_detected() {
    let arrives = |knobs: &str| {
        let raw = run(&chain(2, &format!("corruption = \"1/20\"\n{knobs}"), "8 MB"), 1);
        flow(&raw, "file").intact
    };
    assert_eq!([arrives("seal = \"end-to-end\""), arrives("")], [Some(true), Some(false)]);
}

/// Seals cost 18 bytes per parcel of 4,096.
#[test]
fn seals_cost_little_on_a_chain() {
    let over = |hops: usize, knobs: &str| {
        let raw = run(&chain(hops, knobs, "16 MB"), 1);
        let file = flow(&raw, "file");
        assert!(file.completed && file.intact == Some(true));
        (
            file.octets as f64 / (file.last_byte_ns.unwrap() - file.connect_ns) as f64,
            raw.first_octets.unwrap() as f64 / (hops * 16_000_000) as f64,
        )
    };
    for hops in [2, 4] {
        let ((plain, bytes), (sealed, sealed_bytes)) = (over(hops, ""), over(hops, "seal = \"end-to-end\""));
        println!(
            "{hops} hops: sealed over plain {:.4}, bytes over a hop {bytes:.4} and {sealed_bytes:.4}",
            sealed / plain
        );
        assert!(sealed >= 0.97 * plain, "{sealed} of {plain}");
        assert!((1.0..=1.001).contains(&bytes) && (1.004..=1.03).contains(&sealed_bytes), "{bytes}, {sealed_bytes}");
    }
}
