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
fn two_uplinks_add_up_and_either_may_fail() {
    let _alone = alone();
    if !root_or_skip("lanes_two_uplinks") {
        return;
    }
    let world = two_ways("uplinks");
    // The hub is told of no address.
    let b = world.spawn("b", &with_lanes(&world, "b", "", KEEP, ""));
    let lanes =
        of_guide(1, &[("192.0.2.7:4780", "10.2.0.2:4780"), ("203.0.113.8:4780", "10.4.0.2:4780"), ("wwan0", "wan1")]);
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
    a.wait_log("peer 'b', lane 1 by 0.0.0.0:4780 to 10.2.0.2:4780 has failed: no answer");
    a.wait_log("peer 'b', lane 1 by 0.0.0.0:4780 to 10.2.0.2:4780 works again");
    // Where the processor is busy, a lane may count as failed for a moment at any time.
    common::wait_for("lane 2", || a.status().to_string().contains("lane 2 by wan1 to 10.4.0.2:4780 (udp): in use"));
    assert!(!a.log().contains("is down") && !b.log().contains("is down"), "{}", a.log());
}

/// `interface` of the near gateway is taken down or up, as a cable that is pulled is.
fn plug(world: &World, interface: &str, how: &str) {
    world.sh(&world.a, &format!("ip link set {interface} {how}"));
}

#[test]
fn an_unplugged_lane_loses_nothing_and_returns() {
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
        plug(&world, "wan0", "down");
        works([false, true]);
        pause(Duration::from_millis(1_000));
        // Nobody waits for an answer on the one that is kept in reserve.
        plug(&world, "wan0", "up");
        works([true, true]);
        plug(&world, "wan1", "down");
        a.wait_log("device 'wan1' is set down: its lane carries nothing");
        assert!(a.status().to_string().contains("not used: device wan1 is set down;"), "{}", a.status());
        plug(&world, "wan1", "up");
        a.wait_log("device 'wan1' is set up again");
    });
    let lanes = a.status().peers[0].lanes.clone();
    assert!(lanes.iter().all(|lane| lane.delivered_bytes > 1_000_000) && lanes[1].spare, "{lanes:?}");
    assert!(!a.log().contains("is down") && !b.log().contains("is down"), "{}", a.log());
}

/// The lanes of a daemon to its first peer are by these, and all work.
fn wait_lanes(daemon: &Daemon, by: &[&str]) {
    common::wait_for("the lanes", || {
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
        common::wait_for("the lanes", || a.status().peers[0].lanes.iter().map(|lane| lane.works).eq(wanted));
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
    assert!(!a.log().contains("is down") && !b.log().contains("is down"), "{}", a.log());
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
        common::wait_for("the lanes", || a.status().peers[0].lanes.iter().map(|lane| lane.works).eq(wanted));
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
    assert!(!a.log().contains("is down") && !b.log().contains("is down"), "{}", a.log());
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
        common::wait_for("bytes by the new lane", || delivered(&a)[1] > 1_000_000);
        assert_eq!(change(LANE_0, ""), None);
        wait_lanes(&a, &["wan1"]);
        // The other gateway was told of no lane: it follows.
        common::wait_for("the far end", || b.status().peers[0].lanes.len() == 1);
        let before = delivered(&a)[0];
        common::wait_for("bytes by the only lane", || delivered(&a)[0] > before + 1_000_000);
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
    assert!(!a.log().contains("is down") && !b.log().contains("is down"), "{}", a.log());
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
        common::wait_for("a first part", || delivered(&a)[0] > 1_000_000);
        world.sh(&world.a, "ip addr del 10.2.0.1/24 dev wan0; ip addr add 10.2.0.9/24 dev wan0");
        let (before, began) = (delivered(&a)[0], common::now());
        common::wait_for("bytes from the new address", || delivered(&a)[0] > before + 500_000);
        // Silence calls for a handshake after 5 s.
        let took = began.elapsed();
        assert!(took < Duration::from_secs(3), "{took:?}");
    });
    assert!(b.status().to_string().contains("10.2.0.9:4780"), "{}", b.status());
}

#[test]
fn one_way_lanes_send_nothing_the_other_way() {
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
    let lanes = a.status().peers[0].lanes.clone();
    let told: Vec<_> = lanes.iter().map(|l| (l.name.as_str(), l.direction.as_str(), l.unused.clone())).collect();
    assert_eq!(told, [("lane 1", "out", None), ("lane 2", "in", None)]);
    assert!(a.status().to_string().contains("  lane 2 by 10.4.0.1:4781 (udp, in): in use; heard "), "{}", a.status());
    let tried = world.sh(&world.a, "nft list table ip oneway");
    assert_eq!(tried.matches("counter packets 0 ").count(), 2, "nothing even tries the wrong way: {tried}");
}

#[test]
fn an_ethernet_lane_without_ip_carries_the_handshake_one_way() {
    let _alone = alone();
    if !root_or_skip("lanes_ethernet") {
        return;
    }
    let world = two_ways("ethernet");
    for (gateway, mac) in [(&world.a, "02:00:00:00:00:0a"), (&world.b, "02:00:00:00:00:0b")] {
        // No address of IP, and nobody who would answer for one.
        world.sh(
            gateway,
            &format!(
                "ip link set wan1 down; ip link set wan1 name radio0; ip addr flush dev radio0; \
                 sysctl -qw net.ipv6.conf.radio0.disable_ipv6=1; ip link set radio0 address {mac} arp off up"
            ),
        );
    }
    // The radio carries nothing to the near gateway, and the modem nothing from it.
    world.sh(
        &world.a,
        "nft 'table netdev oneway { chain i { type filter hook ingress device radio0 priority 0; counter drop; }; \
           chain e { type filter hook egress device radio0 priority 0; meta priority != 0:106 counter; }; }'; \
         nft 'table ip oneway { chain o { type filter hook output priority 0; meta l4proto udp counter drop; }; }'",
    );
    // 0x106 is 256 and 6.
    let voice = ("direction = \"out\"", "direction = \"out\"\npriority = 6");
    let near = of_guide(4, &[("198.51.100.1:4781", "10.2.0.1:4781"), voice]);
    let far = of_guide(5, &[("198.51.100.1:4781", "10.2.0.1:4781"), ("198.51.100.2:4781", "10.2.0.2:4781")]);
    let b = world.spawn("b", &with_lanes(&world, "b", &far, KEEP, ""));
    let a = world.spawn("a", &with_lanes(&world, "a", &near, "", LAN));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    transfer_during(&world, 2_000_000, || {});
    assert!(a.status().to_string().contains("peer b (02:00:00:00:00:0b): up"), "{}", a.status());
    let lane = a.status().peers[0].lanes[0].clone();
    assert_eq!((lane.address.as_deref(), lane.by.as_str()), (Some("02:00:00:00:00:0b"), "radio0"));
    // The path's search for the largest packet ends at what the medium carries.
    common::wait_for("the path MTU", || a.status().peers[0].path_mtu == 1_500);
    let tried = world.sh(&world.a, "nft list table netdev oneway; nft list table ip oneway");
    assert_eq!(
        tried.matches("counter packets 0 ").count(),
        3,
        "nothing tries the wrong way, or has another class: {tried}"
    );
}

#[test]
fn ethernet_and_udp_lanes_share_the_load() {
    let _alone = alone();
    if !root_or_skip("lanes_ethernet_both") {
        return;
    }
    let world = two_ways("ethers");
    world.sh(&world.b, "ip link set wan1 address 02:00:00:00:00:0b");
    let udp = |n| format!("[[peer.lane]]\naddress = \"10.2.0.{n}:4780\"\n");
    let ether = "[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"wan1\"\n";
    let told = format!("{}{ether}address = \"02:00:00:00:00:0b\"\n", udp(2));
    let b = world.spawn("b", &with_lanes(&world, "b", &format!("{}{ether}", udp(1)), KEEP, ""));
    let a = world.spawn("a", &with_lanes(&world, "a", &told, "", LAN));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    limit(&world);
    // What is not IP passes that limit; the driver's own keeps it from taking all.
    for gateway in [&world.a, &world.b] {
        world.sh(gateway, "tc qdisc add dev wan1 root tbf rate 24mbit burst 20kb latency 50ms");
    }
    transfer_during(&world, 20_000_000, || {});
    for daemon in [&a, &b] {
        let bytes = delivered(daemon);
        assert!(bytes.len() == 2 && bytes.iter().all(|bytes| *bytes > 1_000_000), "{bytes:?}");
    }
    transfer_during(&world, 10_000_000, || {
        plug(&world, "wan1", "down");
        pause(Duration::from_millis(1_000));
        plug(&world, "wan1", "up");
        common::wait_for("the lane", || a.status().peers[0].lanes.iter().all(|lane| lane.works));
    });
}

#[test]
fn check_sees_what_is_in_a_lanes_way() {
    let _alone = alone();
    if !root_or_skip("lanes_check") {
        return;
    }
    let world = two_ways("check");
    let one_address = "[[peer.lane]]\naddress = \"10.2.0.2:4780\"\n\
                       [[peer.lane]]\naddress = \"10.2.0.2:4780\"\ndevice = \"wan1\"\nmetered = true\n";
    let config = with_lanes(&world, "a", one_address, "", LAN);
    let check = || {
        let config = config.clone();
        world.a.run(move || wavelane_daemon::commands::check_config(&config).unwrap()).unwrap()
    };
    world.sh(&world.a, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.wan1.rp_filter=1");
    let said = check();
    assert!(said.contains("\n  lane 2 by wan1 to 10.2.0.2:4780 (udp, metered)\n"), "{said}");
    let dropped = "peer 'b', lane 2: what comes from 10.2.0.2 by wan1 is dropped, because its route is by wan0";
    assert!(said.contains(dropped), "{said}");
    assert!(said.contains("peer 'b', lane 2: no route to 10.2.0.2 leads by device wan1"), "{said}");
    world.sh(
        &world.a,
        "sysctl -qw net.ipv4.conf.wan1.rp_filter=2; ip route add 10.2.0.2 via 10.4.0.2 dev wan1 metric 9",
    );
    let said = check();
    assert!(!said.contains("lane 2: "), "{said}");
    world.sh(&world.a, "ip link set wan1 mtu 400");
    assert!(check().contains("lane 2: device wan1 has an MTU of 400, and a lane needs 576"), "{}", check());
}

#[test]
fn a_marked_lane_takes_the_way_of_a_rule() {
    let _alone = alone();
    if !root_or_skip("lanes_mark") {
        return;
    }
    let world = two_ways("mark");
    // The mark's table leads to the same address over the other cable.
    world.sh(&world.a, "ip route add 10.2.0.2 via 10.4.0.2 dev wan1 table 100; ip rule add fwmark 7 table 100");
    world.sh(&world.a, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.wan1.rp_filter=0");
    world.sh(&world.b, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.wan1.rp_filter=0");
    world.sh(
        &world.a,
        "nft 'table ip seen { chain o { type filter hook output priority 0; oifname wan0 udp dport 4780 counter; \
           oifname wan1 udp dport 4780 counter; }; }'",
    );
    let b = world.spawn("b", &with_lanes(&world, "b", "", KEEP, ""));
    let lanes = "[[peer.lane]]\naddress = \"10.2.0.2:4780\"\nmark = 7\n";
    let a = world.spawn("a", &with_lanes(&world, "a", lanes, "", LAN));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    transfer_during(&world, 100_000, || {});
    let seen = world.sh(&world.a, "nft list table ip seen");
    assert_eq!(seen.matches("counter packets 0 ").count(), 1, "{seen}");
    assert!(seen.lines().any(|l| l.contains("\"wan0\"") && l.contains("counter packets 0 ")), "{seen}");
    assert!(a.status().to_string().contains("  lane 1 by 0.0.0.0:0 with mark 7 to 10.2.0.2:4780 (udp): in use"));
}

#[test]
fn a_dead_pinned_lane_says_that_no_other_is_used() {
    let _alone = alone();
    if !root_or_skip("lanes_pinned") {
        return;
    }
    let world = two_ways("pinned");
    let _b = world.spawn("b", &with_lanes(&world, "b", "", KEEP, ""));
    let lanes = "choice = \"pinned\"\n[[peer.lane]]\naddress = \"10.2.0.2:4780\"\n[[peer.lane]]\naddress = \"10.4.0.2:4780\"\ndevice = \"wan1\"\n";
    let a = world.spawn("a", &with_lanes(&world, "a", lanes, "", LAN));
    a.wait_log("peer 'b' is up");
    transfer_during(&world, 10_000, || {});
    cut(&world, "wan0");
    a.wait_log("has failed: no answer; choice = \"pinned\" uses no other lane, \"pinned+fallback\" would");
    let status = a.status().to_string();
    assert!(status.contains("not used: no answer; choice = \"pinned\" uses no other lane"), "{status}");
}

#[test]
fn the_cause_of_a_silence_is_the_lanes_own() {
    let _alone = alone();
    if !root_or_skip("lanes_causes") {
        return;
    }
    let world = two_ways("causes");
    let near = of_guide(2, &[("203.0.113.7:4780", "10.2.0.2:4780"), ("198.51.100.1:4781", "10.4.0.1:4781")]);
    let far = of_guide(3, &[("198.51.100.1:4781", "10.4.0.1:4781"), ("198.51.100.2:4781", "10.4.0.2:4781")]);
    let _b = world.spawn("b", &with_lanes(&world, "b", &far, KEEP, ""));
    // The way out is whole, and what comes back is lost.
    cut(&world, "wan1");
    let mut a = world.spawn("a", &with_lanes(&world, "a", &near, "", LAN));
    a.wait_log("peer 'b' does not answer: nothing comes by lane 2 (10.4.0.1:4781), by which alone it can answer");
    // What others send to the port is none of the peer's.
    world.sh(&world.a, "bash -c 'echo x > /dev/udp/10.4.0.1/4781'");
    assert!(
        a.status()
            .to_string()
            .contains("  lane 2 by 10.4.0.1:4781 (udp, in): not used: nothing of the peer's has come by it yet;")
    );
    a.stop();
    let named = format!(
        "[[peer]]\nname = \"c\"\npublic_key = \"{}\"\n[[peer.lane]]\naddress = \"no-such-host.invalid:4780\"\n",
        common::key_pair().public
    );
    let gone = "[[peer.lane]]\naddress = \"10.2.0.2:4780\"\ndevice = \"wan9\"\n";
    let a = world.spawn("a", &with_lanes(&world, "a", gone, "", &format!("{named}{LAN}")));
    a.wait_log("peer 'b' does not answer: no lane can be used (lane 1: device wan9 is not there)");
    a.wait_log("peer 'c' does not answer: no address for 'no-such-host.invalid:4780'");
    assert!(
        a.status().to_string().contains("not used: no address for 'no-such-host.invalid:4780' ("),
        "{}",
        a.status()
    );
}
