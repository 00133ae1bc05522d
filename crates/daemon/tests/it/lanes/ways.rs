//! Where lanes lead: one way, without IP, by a rule; and what `wavelane check` says of that.

use super::{KEEP, LAN, delivered, limit, of_guide, plug, two_ways, with_lanes};
use crate::common::{alone, pause, root_or_skip, transfer_during};
use std::time::Duration;

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
    assert!(
        a.status().to_string().contains("  lane 2 by 10.4.0.1:4781 (udp, in): in use; received 2."),
        "{}",
        a.status()
    );
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
    let called = ("198.51.100.1:4781", "10.2.0.1:4781");
    let by_modem = of_guide(2, &[called]);
    let near = of_guide(4, &[voice]) + &by_modem[by_modem.rfind("[[peer.lane]]").unwrap()..];
    let far = of_guide(5, &[]) + &of_guide(3, &[called, ("198.51.100.2:4781", "10.2.0.2:4781")]);
    let b = world.spawn("b", &with_lanes(&world, "b", &far, KEEP, ""));
    let a = world.spawn("a", &with_lanes(&world, "a", &near, "", LAN));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    transfer_during(&world, 2_000_000, || {});
    assert!(a.status().to_string().contains("peer b (02:00:00:00:00:0b): up"), "{}", a.status());
    let lane = a.status().peers[0].lanes[0].clone();
    assert_eq!((lane.address.as_deref(), lane.by.as_str()), (Some("02:00:00:00:00:0b"), "radio0"));
    // The path's search for the largest packet ends at what the medium carries.
    crate::common::wait_for("the path MTU", || a.status().peers[0].path_mtu == 1_500);
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
        // real time: 2 s, traffic while the lane is away, for each kind of lane
        pause(Duration::from_millis(1_000));
        plug(&world, "wan1", "up");
        crate::common::wait_for("the lane", || a.status().peers[0].lanes.iter().all(|lane| lane.works));
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
                       [[peer.lane]]\naddress = \"10.2.0.2:4780\"\ndevice = \"wan1\"\nmetered = true\n\
                       start_rate = \"33.6 kbit/s\"\n";
    let config = with_lanes(&world, "a", one_address, "", LAN);
    let check = || {
        let config = config.clone();
        world.a.run(move || wavelane_daemon::commands::check_config(&config).unwrap()).unwrap()
    };
    world.sh(&world.a, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.wan1.rp_filter=1");
    let said = check();
    assert!(said.contains("\n  lane 2 by wan1 to 10.2.0.2:4780 (udp, metered, starts at 33.6 kbit/s)\n"), "{said}");
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
