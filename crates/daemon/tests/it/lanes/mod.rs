//! Gateways joined by several lanes: two uplinks to a hub that knows neither's address, and a way out that is not the way
//! back. The tables are those of `docs/guide/lanes.md`, with the test's addresses.

mod changing;
mod failing;
mod nat;
mod ways;

use crate::common::{Daemon, Outside, World, echo, edit};
use std::path::{Path, PathBuf};

/// The `n`-th TOML block of the guide's page, with its documentation addresses replaced.
fn of_guide(n: usize, replaced: &[(&str, &str)]) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/lanes.md");
    let text = std::fs::read_to_string(page).unwrap();
    let block = text.split("```toml\n").nth(n).unwrap().split("```").next().unwrap();
    let (_, lanes) = block.split_once("[[peer.lane]]").unwrap();
    replaced.iter().fold(format!("[[peer.lane]]{lanes}"), |text, (from, to)| {
        assert!(text.contains(from), "no {from} in {text}");
        text.replace(from, to)
    })
}

/// A second cable between the gateways: `wan1`, 10.4.0.1 and 10.4.0.2.
fn two_ways(tag: &str) -> World {
    let world = World::new(tag);
    world.cable(&world.a, "wan1", "4.0.1", &world.b, "wan1", "4.0.2");
    world.serve(7, echo);
    world
}

/// A configuration whose peer has `lanes` and no address.
fn with_lanes(world: &World, name: &str, lanes: &str, extra: &str, rest: &str) -> PathBuf {
    let config = world.write(name, Outside::V4, extra, &format!("{lanes}\n{rest}"));
    let number = if name == "a" { 2 } else { 1 };
    edit(&config, &format!("address = \"10.2.0.{number}:4780\"\n"), "");
    config
}

const LAN: &str = "[intercept]\ninterfaces = [\"lan0\"]";
const KEEP: &str = "source = \"keep\"";

/// Nothing crosses `interface` at the near gateway from now on, and everything crosses the others.
fn cut(world: &World, interface: &str) {
    world.sh(
        &world.a,
        &format!(
            "nft 'table ip cut; delete table ip cut; table ip cut {{ \
               chain o {{ type filter hook output priority 0; oifname {interface} drop; }}; \
               chain i {{ type filter hook input priority 0; iifname {interface} drop; }}; }}'"
        ),
    );
}

/// At most 3 MB/s leave by each cable.
fn limit(world: &World) {
    let meter = |interface| format!("oifname {interface} limit rate over 3000 kbytes/second burst 200 kbytes drop");
    for gateway in [&world.a, &world.b] {
        let rules = [meter("wan0"), meter("wan1")].join("; ");
        world.sh(
            gateway,
            &format!("nft 'table ip slow {{ chain o {{ type filter hook output priority 0; {rules}; }}; }}'"),
        );
    }
}

fn delivered(daemon: &Daemon) -> Vec<u64> {
    daemon.status().peers[0].lanes.iter().map(|lane| lane.delivered_bytes).collect()
}

/// `interface` of the near gateway is taken down or up, as a cable that is pulled is.
fn plug(world: &World, interface: &str, how: &str) {
    world.sh(&world.a, &format!("ip link set {interface} {how}"));
}
