//! Lanes that fail, return, and say why.

use super::{KEEP, LAN, cut, delivered, limit, of_guide, plug, two_ways, with_lanes};
use crate::common::{alone, pause, root_or_skip, transfer_during};
use std::time::Duration;

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
            let expected = if interface == "wan0" { "0.0.0.0:4780" } else { "wan1" };
            let start = crate::common::now();
            crate::common::wait_for("the cut lane alone to be unused", || {
                let lanes = a.status().peers[0].lanes.clone();
                lanes.iter().filter(|lane| !lane.works).map(|lane| lane.by.as_str()).eq([expected])
            });
            let took = start.elapsed();
            assert!(took <= Duration::from_millis(1_500), "{interface}: {took:?}");
            // real time: 2 s, traffic after each change
            pause(Duration::from_millis(1_000));
        }
    });
    a.wait_log("peer 'b', lane 1 by 0.0.0.0:4780 to 10.2.0.2:4780 has failed: no answer");
    a.wait_log("peer 'b', lane 1 by 0.0.0.0:4780 to 10.2.0.2:4780 works again");
    // The hub has no table for these lanes: they answer those of the ship.
    for what in ["has failed: no answer", "works again"] {
        let told = |line: &str| line.contains("peer 'a', lane by 0.0.0.0:4780 to 10.") && line.contains(what);
        crate::common::wait_for("the hub's line", || b.log().lines().any(told));
    }
    // Where the processor is busy, a lane may count as failed for a moment at any time.
    crate::common::wait_for("lane 2", || {
        a.status().to_string().contains("lane 2 by wan1 to 10.4.0.2:4780 (udp): in use")
    });
    assert!(a.stayed_up() && b.stayed_up(), "{}\n{}", a.log(), b.log());
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
        crate::common::wait_for("the lanes", || a.status().peers[0].lanes.iter().map(|lane| lane.works).eq(wanted));
    };
    works([true, true]);
    transfer_during(&world, 20_000_000, || {
        crate::common::wait_for("the metered lane to be in reserve", || a.status().peers[0].lanes[1].spare);
        crate::common::wait_for("the first megabyte", || delivered(&a)[0] > 1_000_000);
        let bytes = delivered(&a);
        assert!(bytes[1] < bytes[0] / 5, "the metered one waits: {bytes:?}");
        // The hub, which has no table for it and one port for both, was told, and spares the way back.
        crate::common::wait_for("the hub's megabyte", || delivered(&b).iter().any(|bytes| *bytes > 1_000_000));
        let back = b.status().peers[0].lanes.clone();
        let [plain, dear] = [false, true].map(|dear| back.iter().find(|lane| lane.metered_there == dear).unwrap());
        assert!(back.len() == 2 && dear.spare && dear.delivered_bytes < plain.delivered_bytes / 5, "{back:?}");
        assert!(b.status().to_string().contains("metered there): in reserve: it is metered at the peer's end"));
        plug(&world, "wan0", "down");
        works([false, true]);
        crate::common::wait_for("traffic while the lane is away", || delivered(&a)[1] > 1_000_000);
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
    assert!(a.stayed_up() && b.stayed_up(), "{}\n{}", a.log(), b.log());
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
        crate::common::key_pair().public
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
