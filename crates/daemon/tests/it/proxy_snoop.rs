//! A proxy that snoops: TCP stays end to end, and what is lost between it and the client is sent again from there.

use crate::common::*;
use crate::proxy::{count, report, start};
use std::io::{Read, Write};
use wavelane_host::packet::{Offload, set_offload};

/// What of the server's segments the client does not get: each fiftieth.
const LOSSY: &str = "nft 'add table inet lossy; add chain inet lossy in { type filter hook prerouting priority -300; }; \
     add rule inet lossy in iifname eth0 tcp sport 80 meta length > 1000 numgen random mod 50 == 0 counter drop'";

/// The number behind a word of a listing.
fn after(listing: &str, word: &str) -> u64 {
    let rest = listing.split_once(word).map_or("", |(_, rest)| rest);
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

#[test]
fn what_the_air_loses_is_sent_again_from_the_proxy_and_its_sender_hardly_learns_of_it() {
    let _alone = alone();
    if !root_or_skip("proxy_snoop") {
        return;
    }
    const SIZE: usize = 4_000_000;
    let world = World::new("snoop");
    world.serve(80, |mut stream, _| {
        stream.write_all(&pattern(SIZE, 5)).unwrap();
        let mut ask = [0];
        while stream.read_exact(&mut ask).is_ok() {
            stream.write_all(&ask).unwrap();
        }
    });
    // One packet is one frame, and one loss; duplicates are all that says so; fewer are on the way than are kept.
    world.a.run(|| [Offload::Gso, Offload::Tso].map(|offload| set_offload("lan0", offload, false).unwrap())).unwrap();
    world.sh(&world.client, &format!("sysctl -qw net.ipv4.tcp_sack=0 net.ipv4.tcp_rmem='4096 65536 131072'; {LOSSY}"));
    let before = world.traces(&world.a);
    let side = "mode = \"snoop\"\n[[proxy.side]]\nname = \"air\"\nnetworks = [\"10.1.0.0/24\", \"fd00:1::/64\"]";
    for at in ["10.3.0.2:80", "[fd00:3::2]:80"] {
        let lost = || after(&world.sh(&world.client, "nft list table inet lossy"), "counter packets ");
        let lost_before = lost();
        let mut proxy = start(&world, "userspace", side);
        let mut stream = world.connect(&world.client, at).unwrap();
        let mut got = vec![0; SIZE];
        stream.read_exact(&mut got).unwrap();
        assert!(got == pattern(SIZE, 5));
        let lost = lost() - lost_before;
        let own = stream.local_addr().unwrap();
        let sockets = world.sh(&world.server, &format!("ss -tinH state established dport = :{}", own.port()));
        let by_server = sockets.split_once("retrans:").map_or(0, |(_, rest)| after(rest, "/"));
        let seen = report(&proxy);
        let (again, kept) = (count(&proxy, "snoop_sent_again"), count(&proxy, "snoop_kept"));
        println!("{at}: {lost} lost, {again} sent again by the proxy, {by_server} by the server");
        assert!(lost > 20 && kept > 1_000, "{lost} lost; {seen}");
        // How few the server repeats depends on the processor that the proxy gets: its timer is 200 ms.
        assert!(again + by_server >= lost && again * 10 > lost, "{lost} lost, {by_server} by the server; {seen}");
        assert!(count(&proxy, "snoop_suppressed") > 0 && seen.connections >= 1 && seen.hindrances.is_empty(), "{seen}");
        // Both ends have one connection, which outlives us.
        assert_eq!(proxy.stop(), Some(0));
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
    assert_eq!(world.traces(&world.a), before, "a stop leaves nothing behind");
}
