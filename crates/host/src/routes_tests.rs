#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

use super::*;
use crate::netns::{Netns, may_administer_network};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;

/// An attribute: kind and value.
type Given<'a> = (u16, &'a [u8]);

/// A route as the kernel writes it: IPv4, `bits`, `kind`, with attributes.
fn route(bits: u8, kind: u8, given: &[Given<'_>]) -> Vec<u8> {
    let mut out = vec![libc::AF_INET as u8, bits, 0, 0, TABLE_MAIN as u8, 4, 0, kind, 0, 0, 0, 0];
    for (kind, value) in given {
        out.extend(((4 + value.len()) as u16).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(*value);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

fn hops(body: &[u8]) -> Option<Vec<Option<IpAddr>>> {
    parse(body, TABLE_MAIN, &Objects::default()).map(|route| route.next_hops)
}

#[test]
fn next_hops_are_read_in_all_their_forms() {
    let via = |n: u8| Some(IpAddr::from([10, 0, 0, n]));
    let (device, target): (Given<'_>, Given<'_>) = ((RTA_OIF, &[2, 0, 0, 0]), (RTA_DST, &[10, 9, 0, 0]));
    assert_eq!(hops(&route(16, RTN_UNICAST, &[target, (RTA_GATEWAY, &[10, 0, 0, 7]), device])), Some(vec![via(7)]));
    assert_eq!(hops(&route(16, RTN_UNICAST, &[target, device])), Some(vec![None]), "on the link");
    assert_eq!(hops(&route(16, RTN_UNREACHABLE, &[target])), Some(Vec::new()), "refused");
    let six: IpAddr = "fe80::7".parse().unwrap();
    let through =
        [&(libc::AF_INET6 as u16).to_ne_bytes()[..], &"fe80::7".parse::<Ipv6Addr>().unwrap().octets()].concat();
    assert_eq!(hops(&route(16, RTN_UNICAST, &[target, (RTA_VIA, &through), device])), Some(vec![Some(six)]));
    let one = |flags: u8, n: u8| [&[16, 0, flags, 0, 2, 0, 0, 0, 8, 0, 5, 0][..], &[10, 0, 0, n]].concat();
    let all = [one(0, 1), one(1, 2), one(0, 3)].concat();
    assert_eq!(
        hops(&route(16, RTN_UNICAST, &[target, (RTA_MULTIPATH, &all)])),
        Some(vec![via(1), via(3)]),
        "one is dead"
    );
    assert_eq!(parse(&route(16, RTN_UNICAST, &[target, device]), 100, &Objects::default()), None, "of another table");
}

#[test]
fn a_cut_or_damaged_message_is_no_panic() {
    let all = [8, 0, 0, 0, 2, 0, 0, 0];
    let whole = route(16, RTN_UNICAST, &[(RTA_DST, &[10, 9, 0, 0]), (RTA_MULTIPATH, &all), (RTA_PRIORITY, &[1])]);
    for cut in 0..whole.len() {
        let _ = (parse(&whole[..cut], TABLE_MAIN, &Objects::default()), messages(&whole[..cut]).count());
        for value in [0, 1, 3, 255] {
            let mut damaged = whole.clone();
            damaged[cut] = value;
            let _ = (parse(&damaged, TABLE_MAIN, &Objects::default()), messages(&damaged).count());
        }
    }
}

#[test]
fn kernel_routes_are_read_and_changes_reported() {
    if !may_administer_network() {
        eprintln!(
            "SKIPPED (1 test): kernel_routes_are_read_and_changes_reported needs root to make network namespaces"
        );
        return;
    }
    let space = Netns::new(&format!("wl{}-routes", std::process::id())).unwrap();
    let ip = |what: &'static str| {
        let done = space.run(move || Command::new("sh").arg("-ec").arg(what).status().unwrap()).unwrap();
        assert!(done.success(), "{what}");
    };
    ip(
        "ip link set lo up; ip link add d0 type veth peer name d1; ip link set d1 up; ip addr add 10.0.0.1/24 dev d0; ip link set d0 up",
    );
    ip("ip route add 10.9.0.0/16 via 10.0.0.7 metric 20; ip route add 10.9.0.0/16 via 10.0.0.8 metric 10");
    ip(
        "ip route add unreachable 10.9.4.0/24; ip route add 10.9.5.0/24 via 10.0.0.9 table 100; ip route add 10.8.0.0/16 via 10.0.0.7",
    );
    let watch = Arc::new(space.run(|| RouteWatch::open(TABLE_MAIN).unwrap()).unwrap());
    let read = || {
        let watch = Arc::clone(&watch);
        space.run(move || watch.read(&["10.9.0.0/16".parse().unwrap()]).unwrap()).unwrap()
    };
    let seen: Vec<_> = read().into_iter().map(|r| (r.prefix.bits, r.next_hops)).collect();
    assert_eq!(seen, [(16, vec![Some("10.0.0.8".parse().unwrap())]), (24, Vec::new())]);
    ip("ip route add 10.9.7.7/32 via 10.0.0.7; ip addr add 10.9.7.7/32 dev lo; ip route add throw 10.9.8.0/24");
    let own: Vec<_> =
        read().into_iter().map(|r| (r.prefix.bits, r.next_hops)).filter(|(_, hops)| hops != &seen[0].1).collect();
    assert_eq!(own, [(24, Vec::new()), (32, vec![None]), (24, Vec::new())], "an address of this host, and `throw`");
    ip("ip addr del 10.9.7.7/32 dev lo; ip route del 10.9.7.7/32; ip route del throw 10.9.8.0/24");
    let (stop, end) = UnixStream::pair().unwrap();
    assert!(watch.wait(end.as_fd()).unwrap(), "routes came and went");
    ip("ip link set d0 down");
    assert!(watch.wait(end.as_fd()).unwrap(), "the interface took its routes along");
    assert_eq!(read().len(), 1, "what is refused stays");
    drop(stop);
    while watch.wait(end.as_fd()).unwrap() {}
}

#[test]
fn routes_by_next_hop_objects_are_read() {
    if !may_administer_network() {
        return eprintln!(
            "SKIPPED (1 test): routes_by_next_hop_objects_are_read needs root to make network namespaces"
        );
    }
    let space = Netns::new(&format!("wl{}-objects", std::process::id())).unwrap();
    let sh = |what: &'static str| space.run(move || Command::new("sh").arg("-ec").arg(what).status().unwrap()).unwrap();
    let base = "ip link set lo up; ip link add d0 type veth peer name d1; ip link set d1 up; ip addr add 10.0.0.1/24 dev d0; ip link set d0 up";
    assert!(sh(base).success());
    let objects = "sysctl -qw net.ipv4.nexthop_compat_mode=0; ip nexthop add id 1 via 10.0.0.7 dev d0; ip nexthop add id 2 via 10.0.0.8 dev d0; \
         ip nexthop add id 3 group 1/2; ip nexthop add id 4 blackhole";
    if !sh(objects).success() {
        return eprintln!("SKIPPED (1 test): this kernel has no next-hop objects");
    }
    assert!(
        sh("ip route add 10.9.1.0/24 nhid 1; ip route add 10.9.2.0/24 nhid 3; ip route add 10.9.3.0/24 nhid 4")
            .success()
    );
    let found = space.run(|| RouteWatch::open(TABLE_MAIN)?.read(&["10.9.0.0/16".parse().unwrap()])).unwrap().unwrap();
    let via = |n: u8| Some(IpAddr::from([10, 0, 0, n]));
    let hops: Vec<_> = found.into_iter().map(|route| route.next_hops).collect();
    assert_eq!(hops, [vec![via(7)], vec![via(7), via(8)], vec![]]);
}
