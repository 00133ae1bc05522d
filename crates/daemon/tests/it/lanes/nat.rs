//! `wavelane netcheck` where a translator stands before the gateway.

use super::{KEEP, LAN, with_lanes};
use crate::common::{World, alone, root_or_skip};
use wavelane_daemon::commands::{NetcheckArgs, netcheck};

/// The peer sees two lanes by one socket: at one port if the translator maps by the source alone, at two if by the destination too.
#[test]
fn netcheck_tells_the_kind_of_a_nat() {
    let _alone = alone();
    if !root_or_skip("nat_kind") {
        return;
    }
    for (tag, rule, kind) in [
        (
            "nat-random",
            "masquerade to :50000-59999 random",
            "(address- and port-dependent mapping): nobody can call this host",
        ),
        ("nat-fixed", "masquerade to :50007", "(endpoint-independent or address-dependent mapping)"),
        ("nat-none", "accept", ""),
    ] {
        let world = World::new(tag);
        let chain =
            format!("chain post {{ type nat hook postrouting priority 100; oifname wan0 udp sport 4780 {rule}; }}");
        world.sh(&world.a, &format!("nft 'table ip translator {{ {chain}; }}'"));
        let two = "[[peer.lane]]\n[[peer.lane]]\nlocal = \"10.2.0.2:4781\"\n";
        let b = world.spawn("b", &with_lanes(&world, "b", two, KEEP, ""));
        let lanes = "[[peer.lane]]\naddress = \"10.2.0.2:4780\"\n[[peer.lane]]\naddress = \"10.2.0.2:4781\"\n";
        let a = world.spawn("a", &with_lanes(&world, "a", lanes, "", LAN));
        a.wait_log("peer 'b' is up");
        b.wait_log("peer 'a' is up");
        // The address that it sends from is the gateway's.
        let args = NetcheckArgs { control: Some(a.control.clone()), peer: None };
        let check = || {
            let args = args.clone();
            world.a.run(move || netcheck(&args)).unwrap().unwrap().text
        };
        crate::common::wait_for("both lanes to be seen", || {
            let lanes = a.status().peers[0].lanes.clone();
            lanes.iter().all(|lane| lane.rtt_ms.is_some())
                && (kind.is_empty()
                    || check()
                        .matches("a NAT stands before this host, and the peer sees 10.2.0.1:4780 as 10.2.0.1:5")
                        .count()
                        == 2)
        });
        let text = check();
        if kind.is_empty() {
            assert!(!text.contains("NAT"), "{text}");
        } else {
            assert!(text.contains("(the port is another one)") && text.contains(kind), "{text}");
        }
        assert!(a.stayed_up() && b.stayed_up(), "{}\n{}", a.log(), b.log());
    }
}
