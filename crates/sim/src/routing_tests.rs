//! Which neighbour leads where, and which others do.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

use crate::wiring::Shape;
use std::path::Path;
use wavelane_gateway::PeerId;
use wavelane_scenario::Scenario;

/// A and f over b, c and d, or over e alone, which loses half each way.
fn mesh(top: &str) -> Scenario {
    let cable = |name: &str, a: &str, b: &str, loss: &str| {
        format!(
            "[channels.{name}]\nkind = \"cable\"\nbetween = [\"{a}\", \"{b}\"]\nforward = {{ rate = \"10 Mbit/s\", delay = \"5 ms\"{loss} }}\nreverse = \"same\"\n"
        )
    };
    let half = ", loss = { kind = \"random\", p = \"1/2\" }";
    let channels: String = [
        ("ab", "a", "b", ""),
        ("bc", "b", "c", ""),
        ("cf", "c", "f", ""),
        ("ae", "a", "e", half),
        ("ef", "e", "f", half),
    ]
    .iter()
    .map(|(name, a, b, loss)| cable(name, a, b, loss))
    .collect();
    let text = format!(
        "{top}\nduration = \"30 s\"\nstacks = [\"wavelane\"]\n[nodes]\na = \"gateway\"\nb = \"gateway\"\nc = \"gateway\"\ne = \"gateway\"\nf = \"gateway\"\n{channels}\n[flows.down]\napp = \"download\"\nfrom = \"a\"\nto = \"f\"\nsize = \"1 MB\"\n"
    );
    Scenario::parse(&text, Path::new(".")).unwrap()
}

fn first_hop(top: &str) -> &'static str {
    let scenario = mesh(top);
    let shape = Shape::new(&scenario);
    let route = shape.route("a", "f").unwrap();
    if shape.name(route.next) == "b" { "b" } else { "e" }
}

#[test]
fn shortest_counts_gateways_and_etx_transmissions() {
    assert_eq!([first_hop(""), first_hop("routing = \"shortest\"")], ["e", "e"]);
    // Two hops of four transmissions each, or three of one.
    assert_eq!(first_hop("routing = \"etx\""), "b");
}

#[test]
fn detours_carry_their_metric() {
    let scenario = mesh("routing = \"etx\"");
    let shape = Shape::new(&scenario);
    let (a, f) = (shape.node("a").unwrap(), shape.node("f").unwrap());
    let to_f: Vec<_> = shape.detours(a).into_iter().filter(|detour| detour.prefix == shape.prefix(f)).collect();
    assert_eq!(to_f.len(), 1);
    assert_eq!((to_f[0].peer, to_f[0].metric), (PeerId(1), 8_000));
}

#[test]
fn a_chain_has_no_other_ways() {
    let mut scenario = mesh("");
    scenario.channels.truncate(3);
    scenario.flows.clear();
    let shape = Shape::new(&scenario);
    assert!(!shape.has_detours());
}
