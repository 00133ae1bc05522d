//! Allowed sources, reachable targets and forwarded ICMP, at one gateway between its network and two peers.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

use super::may_reach;
use crate::flows::in_tests::{Edge, Role};
use crate::{Config, Detour, Gateway, GatewayEvent, LaneConfig, PacketConfig, PeerConfig, PeerId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wavelane_base::{Instant, IpPrefix, Machine, PortId, Seed};
use wavelane_wire::frame::{FlowName, Reason};
use wavelane_wire::ip::checksum;

const SHIP: PeerId = PeerId(0);
const TOWN: PeerId = PeerId(1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

fn prefixes(texts: &[&str]) -> Vec<IpPrefix> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn peer(key: u8, routes: &[&str]) -> PeerConfig {
    PeerConfig {
        name: format!("peer {key}"),
        public_key: wavelane_transport::session::public_key(&[key; 32]),
        preshared_key: None,
        lanes: vec![LaneConfig::new(PortId(0), Some("192.0.2.2:4780".parse().unwrap()))],
        choice: crate::Choice::Bond,
        keepalive: None,
        allow_sources: None,
        allow_targets: prefixes(&["0.0.0.0/0", "::/0"]),
        routes: prefixes(routes),
    }
}

/// Serves 10.3.0.0/16, has the ship's 10.1.0.0/16 behind one peer and everything else behind the other.
fn config() -> Config {
    Config {
        private_key: [1; 32],
        peers: vec![peer(2, &["10.1.0.0/16", "fd01::/16"]), peer(3, &["0.0.0.0/0", "::/0"])],
        serves: prefixes(&["10.3.0.0/16", "fd03::/16"]),
        packets: Some(PacketConfig { address4: Some(ROUTER), ..PacketConfig::default() }),
        ..Config::default()
    }
}

fn gateway(config: Config) -> Gateway {
    let mut gateway = Gateway::new(now(), config, 1, Seed(1).entropy("gateway")).unwrap();
    gateway.set_own_addresses(vec!["10.2.0.2".parse().unwrap()]);
    gateway
}

fn now() -> Instant {
    Instant::from_secs(1)
}

/// A packet of `protocol` with `payload`.
fn packet(source: &str, target: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match (source.parse().unwrap(), target.parse().unwrap()) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let [high, low] = ((20 + payload.len()) as u16).to_be_bytes();
            out.extend([0x45, 0, high, low, 0, 7, 0x40, 0, 64, protocol, 0, 0]);
            out.extend([source.octets(), target.octets()].concat());
            let sum = checksum(&[&out]);
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let [high, low] = (payload.len() as u16).to_be_bytes();
            out.extend([0x60, 0, 0, 0, high, low, protocol, 64]);
            out.extend([source.octets(), target.octets()].concat());
        }
        _ => panic!("two versions"),
    }
    out.extend_from_slice(payload);
    out
}

fn udp(source: &str, target: &str) -> Vec<u8> {
    packet(source, target, 17, &[0x10, 0, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4])
}

/// An ICMP message of type `kind` that quotes a packet.
fn icmp(source: &str, target: &str, kind: u8, about: &[u8]) -> Vec<u8> {
    let protocol = if target.contains(':') { 58 } else { 1 };
    packet(source, target, protocol, &[&[kind, 0, 0, 0, 0, 0, 0, 0], about].concat())
}

fn count(gateway: &Gateway, name: &str) -> u64 {
    let counters = gateway.status(now()).counters;
    counters.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
}

/// Whether a packet from `from` reaches the inside; if not, why.
fn arrives(gateway: &mut Gateway, from: PeerId, packet: &[u8]) -> Result<(), &'static str> {
    const WHYS: [&str; 4] = [
        "dropped_packets_source_not_allowed",
        "dropped_packets_icmp_kind",
        "dropped_packets_target_not_allowed",
        "dropped_packets_local_scope",
    ];
    let before = WHYS.map(|why| count(gateway, why));
    gateway.packets.admit(&mut gateway.net, now(), from, packet.to_vec());
    gateway.settle(now());
    let mut buf = [0; 2048];
    if let Some(len) = gateway.poll_packet(now(), &mut buf) {
        assert_eq!(&buf[..len], packet);
        return Ok(());
    }
    let why = WHYS.iter().zip(before).find(|(why, before)| count(gateway, why) > *before);
    Err(why.expect("what is dropped is counted").0)
}

/// Whether a packet from the inside is accepted for a peer; if not, why.
fn leaves(gateway: &mut Gateway, packet: &[u8]) -> Result<(), &'static str> {
    const WHYS: [&str; 2] = ["dropped_packets_source_not_ours", "dropped_packets_icmp_kind"];
    let before = WHYS.map(|why| count(gateway, why));
    let waiting = gateway.status(now()).packets_buffered;
    gateway.handle_packet(now(), packet);
    assert_eq!(gateway.poll_packet(now(), &mut [0; 2048]), None, "nobody is told");
    if gateway.status(now()).packets_buffered > waiting {
        return Ok(());
    }
    let why = WHYS.iter().zip(before).find(|(why, before)| count(gateway, why) > *before);
    Err(why.expect("what is dropped is counted").0)
}

const SOURCE: Result<(), &str> = Err("dropped_packets_source_not_allowed");
const NOT_OURS: Result<(), &str> = Err("dropped_packets_source_not_ours");
const KIND: Result<(), &str> = Err("dropped_packets_icmp_kind");
const TARGET: Result<(), &str> = Err("dropped_packets_target_not_allowed");

#[test]
fn a_peer_may_use_only_sources_behind_it() {
    let mut gateway = gateway(config());
    let cases = [
        (SHIP, "10.1.0.5", Ok(())),
        (SHIP, "10.4.0.5", SOURCE),
        // The longest prefix decides: the ship's addresses and ours are not the town's although it has the default route.
        (TOWN, "10.4.0.5", Ok(())),
        (TOWN, "203.0.113.9", Ok(())),
        (TOWN, "10.1.0.5", SOURCE),
        (TOWN, "10.3.0.5", SOURCE),
        // This machine's own.
        (TOWN, "10.2.0.2", SOURCE),
        (TOWN, "10.9.0.1", SOURCE),
    ];
    for (peer, source, want) in cases {
        assert_eq!(arrives(&mut gateway, peer, &udp(source, "10.3.0.2")), want, "{source} of {peer:?}");
    }
    for (peer, source, want) in
        [(SHIP, "fd01::5", Ok(())), (SHIP, "fd02::5", SOURCE), (TOWN, "fd02::5", Ok(())), (TOWN, "fd03::5", SOURCE)]
    {
        assert_eq!(arrives(&mut gateway, peer, &udp(source, "fd03::2")), want, "{source} of {peer:?}");
    }
    // A list adds to the routes.
    let mut listed = config();
    listed.peers[0].allow_sources = Some(prefixes(&["10.4.0.0/24"]));
    let mut gateway = self::gateway(listed);
    assert_eq!(arrives(&mut gateway, SHIP, &udp("10.4.0.5", "10.3.0.2")), Ok(()));
    assert_eq!(arrives(&mut gateway, SHIP, &udp("10.1.0.5", "10.3.0.2")), Ok(()));
    assert_eq!(arrives(&mut gateway, TOWN, &udp("10.4.0.5", "10.3.0.2")), SOURCE);
}

#[test]
fn inside_sources_are_local_or_of_other_peers() {
    let mut gateway = gateway(config());
    let cases = [
        ("10.3.0.5", "10.1.0.9", Ok(())),
        // This machine itself, and packets from the town that go on through the device to the ship.
        ("10.2.0.2", "10.1.0.9", Ok(())),
        ("10.4.0.5", "10.1.0.9", Ok(())),
        ("10.1.0.5", "203.0.113.9", Ok(())),
        // The receiver's own addresses come from nowhere else.
        ("10.1.0.5", "10.1.0.9", NOT_OURS),
        ("10.4.0.5", "203.0.113.9", NOT_OURS),
        ("fd01::5", "fd01::9", NOT_OURS),
    ];
    for (source, target, want) in cases {
        assert_eq!(leaves(&mut gateway, &udp(source, target)), want, "{source} to {target}");
    }
    // Without `serves` the other end does the check.
    let mut unsaid = self::gateway(Config { serves: Vec::new(), ..config() });
    assert_eq!(leaves(&mut unsaid, &udp("10.4.0.5", "203.0.113.9")), Ok(()));
}

#[test]
fn icmp_errors_pass_only_about_packets_sent_there() {
    let mut gateway = gateway(config());
    // A router of the ship whose address is in no route here, and the source used by a gateway without an address.
    let (sent, sent6) = (udp("10.3.0.2", "10.1.0.9"), udp("fd03::2", "fd01::9"));
    for from in ["192.0.0.8", "172.16.0.1", "10.1.0.9"] {
        for kind in [3, 11, 12] {
            assert_eq!(arrives(&mut gateway, SHIP, &icmp(from, "10.3.0.2", kind, &sent)), Ok(()), "{kind} of {from}");
        }
    }
    for kind in 1..=4 {
        assert_eq!(arrives(&mut gateway, SHIP, &icmp("fd77::1", "fd03::2", kind, &sent6)), Ok(()), "{kind}");
    }
    let about = |from, target, packet: &[u8]| icmp(from, target, 3, packet);
    let (of_town, of_other) = (udp("10.3.0.2", "10.4.0.9"), udp("10.3.0.7", "10.1.0.9"));
    for (what, packet) in [
        ("about a packet to another peer", about("10.1.0.9", "10.3.0.2", &of_town)),
        ("about another host's packet", about("10.1.0.9", "10.3.0.2", &of_other)),
        ("about nothing", about("10.1.0.9", "10.3.0.2", &[])),
        ("cut short", about("10.1.0.9", "10.3.0.2", &sent[..19])),
        ("of another version", about("10.1.0.9", "10.3.0.2", &sent6)),
    ] {
        assert_eq!(arrives(&mut gateway, SHIP, &packet), KIND, "{what}");
    }
    // As if we had sent it ourselves.
    assert_eq!(arrives(&mut gateway, SHIP, &about("10.9.0.1", "10.3.0.2", &sent)), SOURCE);
    // From the inside, the same.
    let back = udp("10.1.0.9", "10.3.0.2");
    assert_eq!(leaves(&mut gateway, &about("172.16.0.1", "10.1.0.9", &back)), Ok(()));
    assert_eq!(leaves(&mut gateway, &about("172.16.0.1", "10.1.0.9", &udp("10.1.0.9", "10.1.0.2"))), KIND);
    assert_eq!(leaves(&mut gateway, &about("172.16.0.1", "10.1.0.9", &udp("10.1.0.7", "10.3.0.2"))), KIND);
}

#[test]
fn link_local_icmp_kinds_do_not_cross() {
    let mut gateway = gateway(config());
    // Source quench, redirect, router advertisement and solicitation, information, address mask; echo and timestamp.
    let sent = udp("10.3.0.2", "10.1.0.9");
    for (kind, want) in
        [4, 5, 9, 10, 15, 16, 17, 18].map(|k| (k, KIND)).into_iter().chain([0, 8, 13, 14].map(|k| (k, Ok(()))))
    {
        assert_eq!(arrives(&mut gateway, SHIP, &icmp("10.1.0.9", "10.3.0.2", kind, &sent)), want, "{kind}");
        assert_eq!(leaves(&mut gateway, &icmp("10.3.0.2", "10.1.0.9", kind, &sent)), want, "{kind}");
    }
    // Unknown errors, multicast listeners, router and neighbour discovery, redirect, renumbering; echo.
    for (kind, want) in [100, 127, 130, 133, 134, 135, 136, 137, 138]
        .map(|k| (k, KIND))
        .into_iter()
        .chain([128, 129].map(|k| (k, Ok(()))))
    {
        assert_eq!(arrives(&mut gateway, SHIP, &icmp("fd01::9", "fd03::2", kind, &[0; 48])), want, "{kind}");
    }
    // Behind more extension headers than are parsed.
    let redirect = [&[[60, 0, 0, 0, 0, 0, 0, 0]; 8].concat()[..], &[58, 0, 0, 0, 0, 0, 0, 0], &[137; 48]].concat();
    assert_eq!(arrives(&mut gateway, SHIP, &packet("fd01::9", "fd03::2", 60, &redirect)), KIND);
    // Without an ICMP type.
    assert_eq!(arrives(&mut gateway, SHIP, &packet("10.1.0.9", "10.3.0.2", 1, &[])), KIND);
}

#[test]
fn metadata_and_unlisted_targets_are_refused() {
    let mut open = config();
    let mut gateway = gateway(open.clone());
    for target in ["100.100.100.200", "168.63.129.16", "192.0.0.192"] {
        assert_eq!(arrives(&mut gateway, SHIP, &udp("10.1.0.9", target)), TARGET, "{target}");
    }
    for target in ["fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"] {
        assert_eq!(arrives(&mut gateway, SHIP, &udp("fd01::9", target)), TARGET, "{target}");
    }
    assert_eq!(arrives(&mut gateway, SHIP, &udp("10.1.0.9", "169.254.169.254")), Err("dropped_packets_local_scope"));
    open.peers[0].allow_targets = prefixes(&["10.3.0.0/24", "fd00:ec2::254/128"]);
    let mut gateway = self::gateway(open);
    assert_eq!(arrives(&mut gateway, SHIP, &udp("fd01::9", "fd00:ec2::254")), Ok(()));
    assert_eq!(arrives(&mut gateway, SHIP, &udp("10.1.0.9", "10.3.1.1")), TARGET);
    assert_eq!(arrives(&mut gateway, SHIP, &udp("10.1.0.9", "10.2.0.2")), Ok(()));
}

#[test]
fn a_kept_source_must_be_behind_the_peer() {
    let ask = |config: &Config, peer: PeerId, source: &str, target: &str| {
        let (mut gateway, [source, target]) = (gateway(config.clone()), [source, target].map(|a| a.parse().unwrap()));
        let answer = gateway.net.check_incoming(peer, source, target);
        let denied: Vec<GatewayEvent> = std::iter::from_fn(|| gateway.poll_event()).collect();
        assert_eq!(denied.len(), usize::from(answer.is_err()), "the owner hears of every refusal");
        let counted = count(&gateway, "dropped_source_not_allowed") + count(&gateway, "dropped_target_not_allowed");
        assert_eq!(counted, u64::from(answer.is_err()));
        answer
    };
    const NO: Result<(), Reason> = Err(Reason::Prohibited);
    let (server, own) = ("10.3.0.2:80", config());
    for source in ["192.0.2.77:9", "10.2.0.2:9"] {
        assert_eq!(ask(&own, SHIP, source, server), Ok(()), "nobody connects from there");
    }
    let mut kept = Config { keep_sources: true, ..config() };
    for (peer, source, want) in [
        (SHIP, "10.1.0.5:9", Ok(())),
        (SHIP, "192.0.2.77:9", NO),
        (SHIP, "10.3.0.5:9", NO),
        (TOWN, "192.0.2.77:9", Ok(())),
        (TOWN, "10.1.0.5:9", NO),
        (TOWN, "10.3.0.5:9", NO),
        // Our own, and what the kernel makes our own of.
        (TOWN, "10.2.0.2:9", NO),
        (TOWN, "0.0.0.0:9", NO),
        (TOWN, "255.255.255.255:9", NO),
        (TOWN, "224.0.0.1:9", NO),
        // These are never connected from.
        (SHIP, "127.0.0.1:9", Ok(())),
        (SHIP, "[fd09::1]:9", Ok(())),
    ] {
        assert_eq!(ask(&kept, peer, source, server), want, "{source} of {peer:?}");
    }
    // A list is all there is.
    kept.peers[0].allow_sources = Some(prefixes(&["10.1.7.0/24"]));
    kept.peers[0].allow_targets = prefixes(&["10.3.0.0/24"]);
    for keep_sources in [false, true] {
        let listed = Config { keep_sources, ..kept.clone() };
        assert_eq!(ask(&listed, SHIP, "10.1.7.5:9", server), Ok(()));
        assert_eq!(ask(&listed, SHIP, "10.1.0.5:9", server), NO);
        assert_eq!(ask(&listed, SHIP, "10.1.7.5:9", "10.3.1.2:80"), NO);
    }
}

#[test]
fn served_targets_are_local_unless_a_route_is_longer() {
    let gateway = gateway(config());
    let next = |ip: &str| gateway.net.next_hop(SHIP, ip.parse().unwrap());
    assert_eq!([next("10.3.0.2"), next("203.0.113.9"), next("10.4.0.2")], [None, Some(TOWN), Some(TOWN)]);
    let mut wide = config();
    wide.serves = prefixes(&["0.0.0.0/0"]);
    wide.peers[1].routes = prefixes(&["10.4.0.0/16"]);
    let gateway = self::gateway(wide);
    let next = |ip: &str| gateway.net.next_hop(SHIP, ip.parse().unwrap());
    assert_eq!([next("203.0.113.9"), next("10.4.0.2")], [None, Some(TOWN)]);
}

#[test]
fn the_first_usable_route_or_detour_is_taken() {
    let mut four = config();
    four.peers.push(peer(4, &["0.0.0.0/0"]));
    four.peers.push(peer(5, &[]));
    let (port, yard) = (PeerId(2), PeerId(3));
    four.detours.push(Detour { prefix: "0.0.0.0/0".parse().unwrap(), peer: yard, metric: 1 });
    let mut gateway = gateway(four);
    let (now, target) = (Instant::from_secs(1), "203.0.113.9".parse().unwrap());
    let next = |gateway: &Gateway| gateway.net.good_way(now, Some(SHIP), target);
    assert_eq!(gateway.net.ways_to(Some(SHIP), target), [TOWN, port, yard]);
    assert_eq!(next(&gateway), Some(TOWN));
    *gateway.net.peers.down(TOWN) = true;
    assert_eq!(next(&gateway), Some(port));
    gateway.net.shun(now, Some(SHIP), port, target);
    assert_eq!(next(&gateway), Some(yard));
    *gateway.net.peers.down(yard) = true;
    assert_eq!(next(&gateway), None);
    assert_eq!(gateway.net.any_way(now, Some(SHIP), target), Some(port), "it may lead somewhere by now");
    assert_eq!(gateway.net.ways_to(Some(TOWN), target), [port, yard]);
    gateway.net.peers.config_mut().peers.truncate(2);
    gateway.net.peers.config_mut().detours[0].peer = SHIP;
    assert_eq!(gateway.net.next_hop(TOWN, target), Some(SHIP), "a detour leads on where every route leads back");
    // A closer route of a peer that is down stays its own.
    *gateway.net.peers.down(SHIP) = true;
    let closer = "10.1.0.9".parse().unwrap();
    assert_eq!(gateway.net.ways_to(Some(TOWN), closer)[0], SHIP);
    assert_eq!(gateway.net.next_hop(TOWN, closer), Some(SHIP));
}

#[test]
fn distrusted_ways_take_turns_and_those_that_lead_nowhere_rest() {
    let mut four = config();
    four.peers.push(peer(4, &["0.0.0.0/0"]));
    four.peers.push(peer(5, &["0.0.0.0/0"]));
    let (port, yard) = (PeerId(2), PeerId(3));
    let mut gateway = gateway(four);
    let (at, target) = (Instant::from_secs, "203.0.113.9".parse().unwrap());
    assert_eq!(gateway.net.ways_to(Some(SHIP), target), [TOWN, port, yard]);
    gateway.net.distrust_way(at(1), Some(SHIP), TOWN, target);
    assert_eq!(gateway.net.good_way(at(1), Some(SHIP), target), Some(port));
    gateway.net.distrust_way(at(2), Some(SHIP), port, target);
    gateway.net.shun(at(3), Some(SHIP), yard, target);
    assert_eq!(gateway.net.good_way(at(3), Some(SHIP), target), None);
    let next = |gateway: &Gateway, s| {
        (gateway.net.next_way(at(s), Some(SHIP), target), gateway.net.any_way(at(s), Some(SHIP), target))
    };
    assert_eq!(next(&gateway, 3), (Some(TOWN), Some(TOWN)), "the one distrusted the longest ago");
    for other in [None, Some(yard)] {
        assert_eq!(
            gateway.net.good_way(at(3), other, target),
            Some(TOWN),
            "what comes by another neighbour is tried anew"
        );
    }
    gateway.net.distrust_way(at(5), Some(SHIP), TOWN, target);
    gateway.net.distrust_way(at(6), Some(SHIP), port, target);
    assert_eq!(next(&gateway, 12), (Some(TOWN), Some(TOWN)), "one that led nowhere rests");
    assert_eq!(next(&gateway, 13), (Some(TOWN), Some(yard)), "and is asked again where all failed");
    gateway.net.routing.returned(yard);
    assert_eq!(gateway.net.good_way(at(13), Some(SHIP), target), Some(yard), "it was down, and is back");
    assert_eq!(gateway.net.good_way(at(6 + 120), Some(SHIP), target), Some(TOWN));
}

/// What one neighbour's requests met moves no other's flows, nor makes their marks forgotten.
#[test]
fn marks_belong_to_the_upstream_that_caused_them() {
    let mut gateway = gateway(config_of_three());
    let (port, at, target) = (PeerId(2), Instant::from_secs, "203.0.113.9".parse().unwrap());
    gateway.net.shun(at(1), Some(SHIP), TOWN, target);
    for n in 0..3_000_u32 {
        gateway.net.shun(at(2), Some(port), TOWN, std::net::Ipv4Addr::from_bits(0x0a04_0000 + n).into());
        gateway.net.shun(at(2), None, TOWN, std::net::Ipv4Addr::from_bits(0x0a04_0000 + n).into());
    }
    assert_eq!(gateway.net.good_way(at(2), Some(SHIP), target), Some(port), "it led nowhere for what comes from there");
    assert_eq!(gateway.net.good_way(at(2), Some(port), target), Some(TOWN));
    assert_eq!(gateway.net.good_way(at(2), None, target), Some(TOWN));
    gateway.net.routing.returned(TOWN);
    assert_eq!(gateway.net.good_way(at(2), Some(SHIP), target), Some(TOWN));
}

/// SHIP, and two peers that lead everywhere.
fn config_of_three() -> Config {
    let mut three = config();
    three.peers.push(peer(4, &["0.0.0.0/0"]));
    three
}

#[test]
fn ways_that_all_led_nowhere_take_turns() {
    let mut gateway = gateway(config_of_three());
    let (port, at, target) = (PeerId(2), Instant::from_secs, "203.0.113.9".parse().unwrap());
    // A request that came in a circle is refused by all of them.
    gateway.net.shun(at(1), Some(SHIP), TOWN, target);
    gateway.net.shun(at(2), Some(SHIP), port, target);
    let next = |gateway: &Gateway, s| gateway.net.any_way(at(s), Some(SHIP), target);
    assert_eq!(next(&gateway, 3), Some(TOWN));
    // It led there after all, over a relay that withholds.
    gateway.net.distrust_way(at(4), Some(SHIP), TOWN, target);
    assert_eq!(next(&gateway, 5), Some(port), "not the same one until it has rested");
    gateway.net.distrust_way(at(6), Some(SHIP), port, target);
    assert_eq!(next(&gateway, 7), Some(TOWN));
}

#[test]
fn dangerous_targets_are_named_exactly() {
    let may = |listed: &[&str], target: &str, own: Option<&[IpAddr]>| {
        may_reach(&prefixes(listed), target.parse().unwrap(), own)
    };
    let none = Some(&[][..]);
    for target in ["169.254.169.254", "169.254.1.1"] {
        assert!(!may(&["0.0.0.0/0", "169.254.0.0/16", "169.254.169.0/24"], target, none), "{target}");
        assert!(may(&[&format!("{target}/32")], target, none), "{target}");
    }
    assert!(!may(&["fd00::/8", "fd00:ec2::/32"], "fd00:ec2::254", none));
    assert!(may(&["fd00:ec2::254/128"], "fd00:ec2::254", none));
    for (target, plain) in [("64:ff9b::a9fe:a9fe", "64:ff9b::5db8:d70e"), ("2002:7f00:1::1", "2002:5db8:d70e::1")] {
        assert!(!may(&["::/0", "64:ff9b::/96", "2002::/16"], target, none), "{target} leads to IPv4");
        assert!(may(&[&format!("{target}/128")], target, none) && may(&["::/0"], plain, none), "{target}");
    }
    assert!(!may(&["fe80::1/128", "::/0"], "fe80::1", none), "it means nothing without an interface");
    assert!(may(&["127.0.0.0/8"], "127.0.0.1", none) && !may(&["0.0.0.0/0"], "127.0.0.1", none));
    // Our own addresses are unknown: any may be ours.
    let server = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 1).ip();
    assert!(may(&["10.3.0.0/24"], "10.3.0.2", Some(&[server])));
    assert!(!may(&["10.3.0.0/24", "0.0.0.0/0"], "10.3.0.2", None));
    assert!(may(&["10.3.0.2/32"], "10.3.0.2", None));
}

#[test]
fn both_ends_apply_the_same_source_rules() {
    // What the rules let out here, the same rules let in there, with the two sides' networks exchanged.
    let mut there = config();
    there.serves = prefixes(&["10.1.0.0/16"]);
    there.peers = vec![peer(2, &["10.3.0.0/16"])];
    let (mut here, mut there) = (gateway(config()), gateway(there));
    there.set_own_addresses(Vec::new());
    for source in ["10.3.0.5", "10.1.0.5"] {
        let packet = udp(source, "10.1.0.9");
        assert_eq!(leaves(&mut here, &packet).is_ok(), arrives(&mut there, SHIP, &packet).is_ok(), "{source}");
    }
}

#[test]
fn bytes_kept_for_one_peers_flows_leave_the_others_their_share() {
    let pool = 8 << 20;
    let mut gateway = gateway(Config { pool: wavelane_base::Octets::new(pool), ..config() });
    let flow = |gateway: &mut Gateway, peer, number: u64| {
        let edge = Edge::new(u128::from(number).to_be_bytes(), Role::Answerer);
        gateway.flows.insert((peer, FlowName { mine: false, number }), edge)
    };
    let quiet = flow(&mut gateway, TOWN, 1);
    // A neighbour that never says how far it got.
    let greedy: Vec<_> = (10..60).map(|n| flow(&mut gateway, SHIP, n)).collect();
    for id in &greedy {
        let share = gateway.flows.share_kept(*id) as usize;
        gateway.flows.with_edge(*id, |edge| edge.keep(&vec![0; share]));
    }
    assert_eq!(gateway.flows.share_kept(greedy[0]), 16 << 10);
    assert!(gateway.flows.share_kept(quiet) >= pool / 2 / 4 / 4, "{}", gateway.flows.share_kept(quiet));
    for id in greedy {
        gateway.flows.forget(&mut gateway.net, id);
    }
    assert_eq!(gateway.flows.kept_for(SHIP), (0, 0));
}
