//! Devices, addresses and files that change while lanes are in use.

use super::{KEEP, LAN, delivered, limit, two_ways, with_lanes};
use crate::common::{Daemon, World, alone, echo, edit, root_or_skip, transfer_during};
use std::time::Duration;

/// The lanes of a daemon to its first peer are by these, and all work.
fn wait_lanes(daemon: &Daemon, by: &[&str]) {
    crate::common::wait_for("the lanes", || {
        let lanes = &daemon.status().peers[0].lanes;
        lanes.iter().all(|lane| lane.works) && lanes.iter().map(|lane| lane.by.as_str()).eq(by.iter().copied())
    });
}

const LANE_0: &str = "[[peer.lane]]\naddress = \"10.2.0.2:4780\"\n";
const LANE_1: &str = "[[peer.lane]]\naddress = \"10.4.0.2:4780\"\ndevice = \"wan1\"\n";

#[test]
fn a_lane_follows_its_device() {
    let _alone = alone();
    if !root_or_skip("lanes_plugged_again") {
        return;
    }
    let world = World::new("plugged");
    world.serve(7, echo);
    let b = world.spawn("b", &with_lanes(&world, "b", "", KEEP, ""));
    let a = world.spawn("a", &with_lanes(&world, "a", &format!("{LANE_0}{LANE_1}"), "", LAN));
    a.wait_log("peer 'b' is up");
    assert!(a.log().contains("device wan1 of a lane does not exist here yet"), "{}", a.log());
    let works = |wanted: [bool; 2]| {
        crate::common::wait_for("the lanes", || a.status().peers[0].lanes.iter().map(|lane| lane.works).eq(wanted));
    };
    works([true, false]);
    assert!(a.status().to_string().contains("not used: device wan1 is not there;"), "{}", a.status());
    let plug_in = || world.cable(&world.a, "wan1", "4.0.1", &world.b, "wan1", "4.0.2");
    plug_in();
    a.wait_log("device 'wan1' is there");
    works([true, true]);
    transfer_during(&world, 20_000_000, || {
        world.sh(&world.a, "ip link del wan1");
        a.wait_log("device 'wan1' is gone");
        works([true, false]);
    });
    plug_in();
    works([true, true]);
    assert!(a.stayed_up() && b.stayed_up(), "{}\n{}", a.log(), b.log());
}

#[test]
fn a_lane_follows_its_local_address() {
    let _alone = alone();
    if !root_or_skip("lanes_local_address") {
        return;
    }
    let world = two_ways("local");
    let b = world.spawn("b", &with_lanes(&world, "b", "", KEEP, ""));
    // As a modem's, which its `pppd` brings later.
    let lane_1 = "[[peer.lane]]\naddress = \"10.4.0.2:4780\"\nlocal = \"10.4.0.9:0\"\n";
    let config = with_lanes(&world, "a", &format!("{LANE_0}{lane_1}"), "", LAN);
    let checked = {
        let config = config.clone();
        world.a.run(move || wavelane_daemon::commands::check_config(&config).unwrap()).unwrap()
    };
    assert!(checked.contains("10.4.0.9 of a lane is not this machine's yet"), "{checked}");
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    assert!(a.log().contains("10.4.0.9 of a lane is not this machine's yet"), "{}", a.log());
    let works = |wanted: [bool; 2]| {
        crate::common::wait_for("the lanes", || a.status().peers[0].lanes.iter().map(|lane| lane.works).eq(wanted));
    };
    works([true, false]);
    assert!(a.status().to_string().contains("not used: local address 10.4.0.9 is not this machine's now"));
    world.sh(&world.a, "ip addr add 10.4.0.9/24 dev wan1");
    a.wait_log("local address 10.4.0.9 is there");
    works([true, true]);
    transfer_during(&world, 5_000_000, || {
        world.sh(&world.a, "ip addr del 10.4.0.9/24 dev wan1");
        a.wait_log("local address 10.4.0.9 is not this machine's");
        works([true, false]);
    });
    // A reload that names another such address is not refused.
    edit(&config, "10.4.0.9:0", "10.4.0.10:0");
    assert_eq!(a.reload(), None);
    works([true, false]);
    world.sh(&world.a, "ip addr add 10.4.0.10/24 dev wan1");
    works([true, true]);
    assert!(a.stayed_up() && b.stayed_up(), "{}\n{}", a.log(), b.log());
}

#[test]
fn lanes_come_go_and_lead_elsewhere_by_reload() {
    let _alone = alone();
    if !root_or_skip("lanes_reload") {
        return;
    }
    let world = two_ways("reload");
    let b = world.spawn("b", &with_lanes(&world, "b", "", KEEP, ""));
    let config = with_lanes(&world, "a", LANE_0, "", LAN);
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    limit(&world);
    let moved = "[[peer.lane]]\naddress = \"10.2.0.2:4780\"\nlocal = \"10.2.0.1:4790\"\n";
    let change = |from: &str, to: &str| {
        edit(&config, from, to);
        a.reload()
    };
    transfer_during(&world, 30_000_000, || {
        assert_eq!(change(LANE_0, &format!("{LANE_0}{LANE_1}")), None);
        wait_lanes(&a, &["0.0.0.0:4780", "wan1"]);
        crate::common::wait_for("bytes by the new lane", || delivered(&a)[1] > 1_000_000);
        assert_eq!(change(LANE_0, ""), None);
        wait_lanes(&a, &["wan1"]);
        // The other gateway was told of no lane: it follows.
        crate::common::wait_for("the far end", || b.status().peers[0].lanes.len() == 1);
        let before = delivered(&a)[0];
        crate::common::wait_for("bytes by the only lane", || delivered(&a)[0] > before + 1_000_000);
        assert_eq!(change(LANE_1, moved), None);
        wait_lanes(&a, &["10.2.0.1:4790"]);
    });
    let addresses = |daemon: &Daemon| daemon.status().peers[0].lanes[0].address.clone().unwrap();
    assert_eq!((addresses(&a), addresses(&b)), ("10.2.0.2:4780".to_string(), "10.2.0.1:4790".to_string()));
    // A port that somebody has is refused, and everything stays.
    let _taken = world.a.run(|| std::net::UdpSocket::bind("10.2.0.1:4791").unwrap()).unwrap();
    let why = change("local = \"10.2.0.1:4790\"", "local = \"10.2.0.1:4791\"").unwrap();
    assert!(why.contains("10.2.0.1:4791"), "{why}");
    transfer_during(&world, 1_000_000, || {});
    assert!(a.stayed_up() && b.stayed_up(), "{}\n{}", a.log(), b.log());
}

#[test]
fn an_address_that_changes_stops_a_transfer_for_no_handshake() {
    let _alone = alone();
    if !root_or_skip("lanes_address") {
        return;
    }
    let world = two_ways("address");
    let b = world.spawn("b", &with_lanes(&world, "b", "", KEEP, ""));
    let a = world.spawn("a", &with_lanes(&world, "a", LANE_0, "", LAN));
    a.wait_log("peer 'b' is up");
    limit(&world);
    transfer_during(&world, 20_000_000, || {
        crate::common::wait_for("a first part", || delivered(&a)[0] > 1_000_000);
        world.sh(&world.a, "ip addr del 10.2.0.1/24 dev wan0; ip addr add 10.2.0.9/24 dev wan0");
        let (before, began) = (delivered(&a)[0], crate::common::now());
        crate::common::wait_for("bytes from the new address", || delivered(&a)[0] > before + 50_000);
        // Silence calls for a handshake after 5 s.
        let took = began.elapsed();
        assert!(took < Duration::from_millis(4_900), "{took:?}");
    });
    assert!(b.status().to_string().contains("10.2.0.9:4780"), "{}", b.status());
}
