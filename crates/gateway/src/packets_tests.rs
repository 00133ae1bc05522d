//! ICMP errors at one gateway without a session to its peer yet.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

use crate::{Config, Gateway, LaneConfig, PacketConfig, PeerConfig, PeerId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wavelane_base::{Instant, Machine, PortId, Seed, Span};
use wavelane_wire::ip::checksum;
use wavelane_wire::packet::Packet;

const MTU: usize = 1_400;
const OWN4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const OWN6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 1);

fn peer(me: u8, routes: &[&str]) -> PeerConfig {
    PeerConfig {
        name: format!("peer {me}"),
        public_key: wavelane_transport::session::public_key(&[me; 32]),
        preshared_key: None,
        lanes: vec![LaneConfig::new(PortId(0), Some("192.0.2.2:4780".parse().unwrap()))],
        choice: crate::Choice::Bond,
        keepalive: None,
        allow_sources: None,
        allow_targets: Vec::new(),
        routes: routes.iter().map(|route| route.parse().unwrap()).collect(),
    }
}

fn gateway() -> Gateway {
    let packets =
        PacketConfig { inner_mtu: MTU, address4: Some(OWN4), address6: Some(OWN6), ..PacketConfig::default() };
    let config = Config {
        private_key: [1; 32],
        peers: vec![peer(2, &["10.1.0.0/16", "fd01::/16"]), peer(3, &["10.1.7.0/24"])],
        packets: Some(packets),
        ..Config::default()
    };
    Gateway::new(Instant::from_secs(1), config, 1, Seed(1).entropy("gateway")).unwrap()
}

fn v4(target: [u8; 4], ttl: u8, flags: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = ((20 + payload.len()) as u16).to_be_bytes();
    let mut out = vec![0x45, 0, high, low, 0, 7, flags, 0, ttl, protocol, 0, 0, 10, 0, 0, 5];
    out.extend(target);
    let sum = checksum(&[&out]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

fn v6(target: &str, hops: u8, len: usize) -> Vec<u8> {
    let [high, low] = (len as u16).to_be_bytes();
    let mut out = vec![0x60, 0, 0, 0, high, low, 17, hops];
    out.extend("fd00::5".parse::<Ipv6Addr>().unwrap().octets());
    out.extend(target.parse::<Ipv6Addr>().unwrap().octets());
    out.extend(vec![0; len]);
    out
}

const DF: u8 = 0x40;
const ROUTED: [u8; 4] = [10, 1, 0, 9];

/// The ICMP error for `packet`: type, code and the 32 bits after the checksum.
fn answer(gateway: &mut Gateway, packet: &[u8]) -> Option<(u8, u8, u32)> {
    let now = Instant::from_secs(2);
    gateway.handle_packet(now, packet);
    let mut buf = [0; 2048];
    let len = gateway.poll_packet(now, &mut buf)?;
    assert_eq!(gateway.poll_packet(now, &mut [0; 2048]), None, "one answer at most");
    let view = Packet::parse(&buf[..len]).unwrap();
    assert!([IpAddr::V4(OWN4), IpAddr::V6(OWN6)].contains(&view.source));
    let icmp = view.upper();
    assert_eq!(icmp[8..], packet[..icmp.len() - 8], "the packet as it came is quoted");
    Some((icmp[0], icmp[1], u32::from_be_bytes([icmp[4], icmp[5], icmp[6], icmp[7]])))
}

fn counter(gateway: &Gateway, name: &str) -> u64 {
    let counters = gateway.status(Instant::from_secs(2)).counters;
    counters.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
}

#[test]
fn undeliverable_packets_are_answered_by_icmp() {
    let mut gateway = gateway();
    let mut ask = |packet: Vec<u8>| answer(&mut gateway, &packet);
    assert_eq!(ask(v4([10, 2, 0, 1], 64, 0, 17, &[0; 20])), Some((3, 0, 0)), "no route");
    assert_eq!(ask(v4(ROUTED, 1, 0, 17, &[0; 20])), Some((11, 0, 0)), "no hops");
    assert_eq!(ask(v4(ROUTED, 64, DF, 17, &[0; 1_381])), Some((3, 4, MTU as u32)), "too big");
    assert_eq!(ask(v6("fd02::1", 64, 20)), Some((1, 0, 0)), "no route");
    assert_eq!(ask(v6("fd01::1", 1, 20)), Some((3, 0, 0)), "no hops");
    assert_eq!(ask(v6("fd01::1", 64, 1_361)), Some((2, 0, MTU as u32)), "too big");
}

#[test]
fn packets_without_an_icmp_answer_get_none() {
    let mut gateway = gateway();
    let error = [3, 3, 0, 0, 0, 0, 0, 0];
    for packet in [
        v4([10, 2, 0, 1], 64, 0, 1, &error),
        v4([224, 0, 0, 1], 64, 0, 17, &[0; 20]),
        v4([255, 255, 255, 255], 64, 0, 17, &[0; 20]),
        v4([169, 254, 0, 1], 64, 0, 17, &[0; 20]),
        v6("ff02::2", 255, 20),
        vec![0x45; 30],
        Vec::new(),
    ] {
        assert_eq!(answer(&mut gateway, &packet), None, "{packet:?}");
    }
    assert_eq!(counter(&gateway, "dropped_packets_local_scope"), 4);
    assert_eq!(counter(&gateway, "dropped_packets_malformed"), 2);
}

#[test]
fn packets_wait_for_the_peer_and_large_ones_are_fragmented() {
    let mut gateway = gateway();
    assert_eq!(answer(&mut gateway, &v4(ROUTED, 64, DF, 17, &[0; 1_380])), None);
    assert_eq!(gateway.status(Instant::from_secs(2)).packets_buffered, 1_400);
    // 2,000 bytes of payload: 1,376 and 624, each with its header.
    assert_eq!(answer(&mut gateway, &v4(ROUTED, 64, 0, 17, &[0; 2_000])), None);
    assert_eq!(gateway.status(Instant::from_secs(2)).packets_buffered, 1_400 + 2_040);
    assert_eq!(counter(&gateway, "packets_fragmented"), 1);
}

#[test]
fn the_longest_prefix_decides() {
    let gateway = gateway();
    let route = |ip: &str| gateway.peer_towards(Instant::ZERO, ip.parse().unwrap()).map(|peer| peer.0);
    assert_eq!(
        [route("10.1.0.1"), route("10.1.7.1"), route("10.2.0.1"), route("fd01::9")],
        [Some(0), Some(1), None, Some(0)]
    );
}

#[test]
fn answers_are_rate_limited() {
    let mut gateway = gateway();
    let packet = v4([10, 2, 0, 1], 64, 0, 17, &[0; 20]);
    let mut flood = |now: Instant, count: usize| {
        let mut answers = 0;
        for _ in 0..count {
            gateway.handle_packet(now, &packet);
            answers += usize::from(gateway.poll_packet(now, &mut [0; 2048]).is_some());
        }
        answers
    };
    assert_eq!(flood(Instant::from_secs(2), 1_000), 50);
    assert_eq!(flood(Instant::from_secs(2) + Span::from_millis(100), 1_000), 10);
    assert_eq!(flood(Instant::from_secs(20), 1_000), 50);
}

#[test]
fn a_gateway_without_the_service_counts_and_forgets() {
    let config = Config { private_key: [1; 32], peers: vec![peer(2, &["10.1.0.0/16"])], ..Config::default() };
    let mut gateway = Gateway::new(Instant::from_secs(1), config, 1, Seed(1).entropy("gateway")).unwrap();
    assert_eq!(answer(&mut gateway, &v4(ROUTED, 64, 0, 17, &[0; 20])), None);
    assert_eq!(counter(&gateway, "dropped_packets_no_service"), 1);
}

#[test]
fn packets_to_a_peer_that_is_down_are_answered() {
    let mut gateway = gateway();
    let (begin, patience) = (Instant::from_secs(1), crate::neighbours::DOWN_AFTER);
    let datagram = v4(ROUTED, 64, 0, 17, &[0; 20]);
    let taken = |gateway: &mut Gateway, now: Instant| {
        let mut buf = [0; 2048];
        let mut answers = Vec::new();
        while let Some(len) = gateway.poll_packet(now, &mut buf) {
            answers
                .push((Packet::parse(&buf[..len]).unwrap().upper()[0], Packet::parse(&buf[..len]).unwrap().upper()[1]));
        }
        answers
    };
    // The peer is called from the start; until it counts as down packets wait.
    gateway.handle_packet(begin + Span::from_secs(1), &datagram);
    gateway.handle_packet(begin + Span::from_secs(2), &v6("fd01::1", 64, 20));
    assert_eq!(taken(&mut gateway, begin + Span::from_secs(2)), vec![]);
    let due = gateway.poll_timeout().unwrap();
    assert!(due.at <= begin + patience, "{due:?}");
    gateway.handle_timeout(begin + patience);
    assert_eq!(taken(&mut gateway, begin + patience), vec![(3, 1), (1, 3)], "those that waited");
    gateway.handle_packet(begin + patience, &datagram);
    gateway.handle_packet(begin + patience, &v6("fd01::1", 64, 20));
    assert_eq!(taken(&mut gateway, begin + patience), vec![(3, 1), (1, 3)], "and those that come");
    // A later fragment, and an ICMP error: RFC 1122, section 3.2.2.
    let mut fragment = v4(ROUTED, 64, 0, 17, &[0; 24]);
    fragment[7] = 3;
    fragment[10] = 0;
    fragment[11] = 0;
    let sum = checksum(&[&fragment[..20]]);
    fragment[10..12].copy_from_slice(&sum.to_be_bytes());
    gateway.handle_packet(begin + patience, &fragment);
    let mut about = v4([10, 0, 0, 5], 64, 0, 17, &[0; 8]);
    about[12..16].copy_from_slice(&ROUTED);
    gateway.handle_packet(begin + patience, &v4(ROUTED, 64, 0, 1, &[&[3, 3, 0, 0, 0, 0, 0, 0], &about[..]].concat()));
    assert_eq!(taken(&mut gateway, begin + patience), vec![]);
    let counters = gateway.status(begin + patience).counters;
    assert!(counters.contains(&("dropped_packets_peer_down", 6)), "{counters:?}");
    assert_eq!(gateway.status(begin + patience).packets_buffered, 0);
}

#[test]
fn packets_go_to_the_stand_in_while_the_first_is_down() {
    let nowhere =
        PeerConfig { lanes: vec![LaneConfig::new(PortId(0), None)], ..peer(2, &["10.1.0.0/16", "10.5.0.0/16"]) };
    let wider = peer(4, &["10.0.0.0/8"]);
    let packets = PacketConfig { inner_mtu: MTU, address4: Some(OWN4), ..PacketConfig::default() };
    let peers = vec![nowhere, peer(3, &["10.1.0.0/16"]), wider];
    let config = Config { private_key: [1; 32], peers, packets: Some(packets), ..Config::default() };
    let mut gateway = Gateway::new(Instant::from_secs(1), config, 1, Seed(1).entropy("gateway")).unwrap();
    assert_eq!(answer(&mut gateway, &v4(ROUTED, 64, 0, 17, &[0; 20])), None);
    assert_eq!(gateway.net.peers.packets(PeerId(1)).unwrap().octets(), 40);
    // A peer with a wider route is no stand-in: it may not use the sources of the narrower network.
    assert_eq!(answer(&mut gateway, &v4([10, 5, 0, 1], 64, 0, 17, &[0; 20])), Some((3, 1, 0)));
}

#[test]
fn queued_packets_are_not_unreachable_with_a_stand_in() {
    let packets = PacketConfig { inner_mtu: MTU, address4: Some(OWN4), ..PacketConfig::default() };
    let peers = vec![peer(2, &["10.1.0.0/16", "10.5.0.0/16"]), peer(3, &["10.1.0.0/16"])];
    let config = Config { private_key: [1; 32], peers, packets: Some(packets), ..Config::default() };
    let begin = Instant::from_secs(1);
    let mut gateway = Gateway::new(begin, config, 1, Seed(1).entropy("gateway")).unwrap();
    for target in [ROUTED, [10, 5, 0, 1]] {
        gateway.handle_packet(begin + Span::from_secs(1), &v4(target, 64, 0, 17, &[0; 20]));
    }
    let down = begin + crate::neighbours::DOWN_AFTER;
    // The second peer is as silent here, but was not asked for as long.
    *gateway.net.peers.down_at(PeerId(1)) = Some(down + Span::from_secs(1));
    gateway.packets.refuse_waiting(&mut gateway.net, down, PeerId(0));
    let mut buf = [0; 2048];
    let len = gateway.poll_packet(down, &mut buf).unwrap();
    let told = Packet::parse(&buf[..len]).unwrap();
    assert_eq!((told.upper()[0], told.upper()[1]), (3, 1));
    assert_eq!(told.upper()[8 + 16..][..4], [10, 5, 0, 1], "only of what nobody else leads to");
    assert_eq!(gateway.poll_packet(down, &mut buf), None);
    assert_eq!(counter(&gateway, "dropped_packets_peer_down"), 2);
}

#[test]
fn a_peer_without_address_and_session_is_down_at_once() {
    let nowhere = PeerConfig { lanes: vec![LaneConfig::new(PortId(0), None)], ..peer(2, &["10.1.0.0/16"]) };
    let packets = PacketConfig { inner_mtu: MTU, address4: Some(OWN4), ..PacketConfig::default() };
    let config = Config { private_key: [1; 32], peers: vec![nowhere], packets: Some(packets), ..Config::default() };
    let mut gateway = Gateway::new(Instant::from_secs(1), config, 1, Seed(1).entropy("gateway")).unwrap();
    assert_eq!(answer(&mut gateway, &v4(ROUTED, 64, 0, 17, &[0; 20])), Some((3, 1, 0)));
}
