//! Gateways joined by several lanes: two uplinks to a hub that knows neither's address, and a way out that is not the way
//! back. The tables are those of `docs/guide/lanes.md`, with the test's addresses.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its world should stop")]

mod common;

use common::{Daemon, Outside, World, alone, echo, edit, pause, root_or_skip, transfer_during};
use std::path::{Path, PathBuf};
use std::time::Duration;

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

#[test]
fn two_uplinks_carry_together_and_either_goes_without_a_byte_lost() {
    let _alone = alone();
    if !root_or_skip("lanes_two_uplinks") {
        return;
    }
    let world = two_ways("uplinks");
    // The hub is told of no address.
    let b = world.spawn("b", &with_lanes(&world, "b", "", KEEP, ""));
    let lanes =
        of_guide(1, &[("203.0.113.7:4780", "10.2.0.2:4780"), ("203.0.113.8:4780", "10.4.0.2:4780"), ("wwan0", "wan1")]);
    let a = world.spawn("a", &with_lanes(&world, "a", &lanes, "", LAN));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    limit(&world);
    // Twice 5 MB/s: more than one cable carries.
    transfer_during(&world, 20_000_000, || {});
    for daemon in [&a, &b] {
        let bytes = delivered(daemon);
        assert!(bytes.len() == 2 && bytes.iter().all(|bytes| *bytes > 1_000_000), "{bytes:?}");
    }
    transfer_during(&world, 20_000_000, || {
        for interface in ["wan0", "wan1", "wan0"] {
            cut(&world, interface);
            pause(Duration::from_millis(1_500));
            let lanes = a.status().peers[0].lanes.clone();
            let unused: Vec<_> = lanes.iter().filter(|lane| !lane.works).map(|lane| lane.by.clone()).collect();
            let expected = if interface == "wan0" { "0.0.0.0:4780" } else { "wan1" };
            assert_eq!(unused, [expected], "{lanes:?}");
        }
    });
    assert!(a.status().to_string().contains("lane by wan1 to 10.4.0.2:4780"), "{}", a.status());
    assert!(!a.log().contains("is down") && !b.log().contains("is down"), "{}", a.log());
}

/// `interface` of the near gateway is taken down or up, as a cable that is pulled is.
fn plug(world: &World, interface: &str, how: &str) {
    world.sh(&world.a, &format!("ip link set {interface} {how}"));
}

#[test]
fn a_lane_unplugged_in_mid_transfer_loses_nothing_and_is_used_again() {
    let _alone = alone();
    if !root_or_skip("lanes_unplugged") {
        return;
    }
    let world = two_ways("unplugged");
    let b = world.spawn("b", &with_lanes(&world, "b", "", KEEP, ""));
    let lanes = "[[peer.lane]]\naddress = \"10.2.0.2:4780\"\n\
                 [[peer.lane]]\naddress = \"10.4.0.2:4780\"\ndevice = \"wan1\"\nmetered = true\n";
    let a = world.spawn("a", &with_lanes(&world, "a", lanes, "", LAN));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    limit(&world);
    let works = |wanted: [bool; 2]| {
        common::wait_for("the lanes", || a.status().peers[0].lanes.iter().map(|lane| lane.works).eq(wanted));
    };
    works([true, true]);
    transfer_during(&world, 20_000_000, || {
        let lanes = a.status().peers[0].lanes.clone();
        assert!(lanes[1].spare && lanes[1].delivered_bytes < 100_000, "the metered one waits: {lanes:?}");
        for (interface, left) in [("wan0", [false, true]), ("wan1", [true, false])] {
            plug(&world, interface, "down");
            works(left);
            pause(Duration::from_millis(1_000));
            plug(&world, interface, "up");
            works([true, true]);
        }
    });
    let lanes = a.status().peers[0].lanes.clone();
    assert!(lanes.iter().all(|lane| lane.delivered_bytes > 1_000_000) && lanes[1].spare, "{lanes:?}");
    assert!(!a.log().contains("is down") && !b.log().contains("is down"), "{}", a.log());
}

#[test]
fn what_leaves_by_radio_and_comes_back_by_modem_needs_neither_in_the_other_direction() {
    let _alone = alone();
    if !root_or_skip("lanes_one_way") {
        return;
    }
    let world = two_ways("oneway");
    // The radio, `wan0`, carries nothing to the near gateway, and the modem, `wan1`, nothing from it.
    world.sh(
        &world.a,
        "nft 'table ip oneway { chain i { type filter hook input priority 0; iifname wan0 udp dport 4780 counter drop; }; \
           chain o { type filter hook output priority 0; oifname wan1 meta l4proto udp counter drop; }; }'",
    );
    let near = of_guide(2, &[("203.0.113.7:4780", "10.2.0.2:4780"), ("198.51.100.1:4781", "10.4.0.1:4781")]);
    let far = of_guide(3, &[("198.51.100.1:4781", "10.4.0.1:4781"), ("198.51.100.2:4781", "10.4.0.2:4781")]);
    let b = world.spawn("b", &with_lanes(&world, "b", &far, KEEP, ""));
    let a = world.spawn("a", &with_lanes(&world, "a", &near, "", LAN));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    transfer_during(&world, 2_000_000, || {});
    let tried = world.sh(&world.a, "nft list table ip oneway");
    assert_eq!(tried.matches("counter packets 0 ").count(), 2, "nothing even tries the wrong way: {tried}");
}
