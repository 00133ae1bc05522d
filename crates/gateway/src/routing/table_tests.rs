#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case should stop")]

use super::*;
use crate::flows::in_tests::Edge;
use crate::{Config, Gateway, LaneConfig, PeerConfig};
use std::net::SocketAddr;
use wavelane_base::{PortId, Seed};
use wavelane_wire::frame::{FlowName, Passage, Reason};

const T0: Instant = Instant::from_secs(1);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn block(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn via(text: &str) -> NextHop {
    NextHop::Address(ip(text))
}

fn table(routes: &[(&str, &[NextHop])]) -> Table {
    let mut table = Table::default();
    for (prefix, hops) in routes {
        assert!(table.add(block(prefix), hops));
    }
    table
}

/// A gateway with peers at 10.0.n.2; the last has no address of its own.
fn gateway(next_hops: &[(&str, usize)]) -> Gateway {
    let peer = |n: u8, address: Option<&str>| PeerConfig {
        name: format!("peer-{n}"),
        public_key: wavelane_transport::session::public_key(&[n + 2; 32]),
        preshared_key: None,
        lanes: vec![LaneConfig::new(PortId(0), address.map(|a| a.parse().unwrap()))],
        choice: crate::Choice::Bond,
        keepalive: None,
        allow_sources: None,
        allow_targets: Vec::new(),
        routes: vec![block("10.9.0.0/16"), block("fd09::/16")],
    };
    let peers = vec![peer(0, Some("10.0.0.2:4780")), peer(1, Some("10.0.1.2:4780")), peer(2, None)];
    let next_hops = next_hops.iter().map(|(at, peer)| (ip(at), PeerId(*peer))).collect();
    let config = Config { private_key: [1; 32], peers, next_hops, by_table: true, ..Config::default() };
    Gateway::new(T0, config, 1, Seed(1).entropy("table")).unwrap()
}

fn ways(gateway: &Gateway, target: &str) -> Vec<usize> {
    gateway.net.ways_to(None, ip(target)).into_iter().map(|peer| peer.0).collect()
}

#[test]
fn the_longest_route_names_the_peers() {
    let mut gateway = gateway(&[]);
    assert!(ways(&gateway, "10.9.4.9").is_empty(), "no table, no way");
    gateway.set_table(T0, table(&[("10.0.0.0/8", &[via("10.0.0.2")]), ("10.9.4.0/24", &[via("10.0.1.2")])]));
    assert_eq!((ways(&gateway, "10.9.4.9"), ways(&gateway, "10.9.5.9")), (vec![1], vec![0]));
    gateway.set_table(T0, table(&[("10.9.4.0/24", &[via("10.0.1.2"), via("10.0.0.2")]), ("10.9.4.9/32", &[])]));
    assert_eq!(ways(&gateway, "10.9.4.8"), [1, 0]);
    assert!(ways(&gateway, "10.9.4.9").is_empty(), "a route to nowhere leads nowhere");
}

#[test]
fn a_next_hop_without_a_covering_route_is_not_used() {
    let mut gateway = gateway(&[]);
    gateway.set_table(T0, table(&[("0.0.0.0/0", &[via("10.0.0.2")])]));
    assert_eq!(ways(&gateway, "10.9.4.9"), [0]);
    assert!(ways(&gateway, "192.0.2.1").is_empty());
}

#[test]
fn a_peer_is_found_by_its_next_hops_too() {
    let mut gateway = gateway(&[("fe80::5", 2), ("10.0.7.7", 0)]);
    let routes: &[(&str, &[NextHop])] =
        &[("fd09:4::/32", &[via("fe80::5")]), ("10.9.4.0/24", &[via("10.0.7.7")]), ("10.9.5.0/24", &[via("10.0.0.2")])];
    gateway.set_table(T0, table(routes));
    assert_eq!(ways(&gateway, "fd09:4::1"), [2]);
    assert_eq!((ways(&gateway, "10.9.4.9"), ways(&gateway, "10.9.5.9")), (vec![0], vec![0]));
    assert_eq!(gateway.table_counts(), (3, 3));
}

#[test]
fn a_target_on_the_link_is_reached_only_if_it_is_a_peer() {
    let mut gateway = gateway(&[("10.9.4.9", 1)]);
    gateway.set_table(T0, table(&[("10.9.4.0/24", &[NextHop::OnLink])]));
    assert_eq!(ways(&gateway, "10.9.4.9"), [1]);
    assert!(ways(&gateway, "10.9.4.8").is_empty());
}

#[test]
fn own_addresses_are_not_relayed() {
    let mut gateway = gateway(&[]);
    gateway.set_table(T0, table(&[("10.9.0.0/16", &[via("10.0.0.2")])]));
    gateway.set_own_addresses(vec![ip("10.9.4.9")]);
    assert_eq!(gateway.net.next_hop(PeerId(1), ip("10.9.4.9")), None);
    assert_eq!(gateway.net.next_hop(PeerId(1), ip("10.9.4.8")), Some(PeerId(0)));
    assert_eq!(gateway.net.next_hop(PeerId(0), ip("10.9.4.8")), None, "it came from there");
}

#[test]
fn the_table_chooses_the_owners_peer() {
    let mut gateway = gateway(&[]);
    let named = |gateway: &Gateway, target| gateway.net.named_by_table(T0, PeerId(0), ip(target));
    assert_eq!(named(&gateway, "10.9.4.9"), Err(OpenError::NoWay(ip("10.9.4.9"))));
    assert_eq!(named(&gateway, "192.0.2.1"), Ok(PeerId(0)), "not a matter of the table");
    gateway.set_table(T0, table(&[("10.9.4.0/24", &[via("10.0.1.2")])]));
    assert_eq!(named(&gateway, "10.9.4.9"), Ok(PeerId(1)));
}

#[test]
fn a_table_and_its_routes_have_bounds() {
    let mut full = Table::default();
    let nth = |n: u32| IpPrefix { address: IpAddr::from((n << 8).to_be_bytes()), bits: 24 };
    assert!((0..TABLE_MAX as u32).all(|n| full.add(nth(n), &[])));
    assert!(!full.add(nth(TABLE_MAX as u32), &[]) && full.add(nth(7), &[via("10.0.0.2")]));
    let hops: Vec<_> = (0..40).map(|n| via(&format!("10.0.0.{n}"))).collect();
    assert!(full.add(nth(8), &hops));
    assert_eq!(full.route(ip("0.0.8.1")).map(|(bits, hops)| (bits, hops.len())), Some((24, NEXT_HOPS_MAX)));
}

#[test]
fn an_unproven_address_is_no_next_hop() {
    let mut gateway = gateway(&[]);
    gateway.set_table(T0, table(&[("10.9.0.0/16", &[via("10.0.5.5")])]));
    let claimed = "10.0.5.5:4780".parse().unwrap();
    gateway.net.peers.claim(T0, PeerId(2), claimed, false);
    assert!(ways(&gateway, "10.9.4.9").is_empty(), "any peer may say that it is there");
    gateway.net.peers.claim(T0, PeerId(2), claimed, true);
    assert_eq!(ways(&gateway, "10.9.4.9"), [2]);
}

/// Peer 1 asks again for a flow that another gateway answered.
fn asked_again(gateway: &mut Gateway, target: &str) -> Result<(), Reason> {
    let passage = Passage { token: [7; 16], hops: 0, received: Some(0), choice: true, attempt: 1, seal: None };
    let name = FlowName { mine: false, number: 1 };
    let target = SocketAddr::new(ip(target), 7);
    gateway
        .incoming(T0, (PeerId(1), name), ("10.1.0.1:9".parse().unwrap(), target), Some(passage))
        .map_err(|r| r.reason)
}

#[test]
fn a_flow_without_a_route_yet_is_kept() {
    let mut config = gateway(&[]).config().clone();
    config.peers[1].allow_targets = vec![block("10.9.0.0/16")];
    let mut gateway = Gateway::new(T0, config, 1, Seed(1).entropy("table")).unwrap();
    let tables: [&[(&str, &[NextHop])]; 3] =
        [&[], &[("10.9.0.0/16", &[via("10.0.1.2")])], &[("10.9.0.0/16", &[via("10.0.0.2")]), ("10.9.4.9/32", &[])]];
    for routes in tables {
        gateway.set_table(T0, table(routes));
        assert_eq!(asked_again(&mut gateway, "10.9.4.9"), Err(Reason::Restarted), "{routes:?}");
    }
    gateway.set_table(T0, table(&[("10.9.4.9/32", &[NextHop::OnLink])]));
    assert_eq!(asked_again(&mut gateway, "10.9.4.9"), Err(Reason::Aborted), "it ends here, and is unknown");
    // A flow that ended here is known whatever the table says now.
    gateway.flows.end_well([7; 16], wavelane_wire::frame::Answered { received: 0, seal: None });
    gateway.set_table(T0, Table::default());
    assert_eq!(asked_again(&mut gateway, "10.9.4.9"), Err(Reason::Complete));
}

#[test]
fn a_new_flow_without_route_is_refused() {
    let mut config = gateway(&[]).config().clone();
    config.peers[1].allow_targets = vec![block("10.9.0.0/16")];
    let mut gateway = Gateway::new(T0, config, 1, Seed(1).entropy("table")).unwrap();
    let name = FlowName { mine: false, number: 1 };
    let ends = ("10.1.0.1:9".parse().unwrap(), "10.9.4.9:7".parse().unwrap());
    assert_eq!(gateway.incoming(T0, (PeerId(1), name), ends, None).map_err(|r| r.reason), Err(Reason::Unreachable));
    gateway.set_table(T0, table(&[("10.9.4.9/32", &[NextHop::OnLink])]));
    assert_eq!(gateway.incoming(T0, (PeerId(1), name), ends, None).map_err(|r| r.reason), Ok(()));
}

#[test]
fn a_flapping_table_ends_no_flow() {
    let mut gateway = gateway(&[]);
    let by = |hop: &str| table(&[("10.9.4.0/24", &[via(hop)])]);
    gateway.set_table(T0, by("10.0.0.2"));
    let ends = ("10.1.0.1:9".parse().unwrap(), "10.9.4.9:7".parse().unwrap());
    let flow = gateway.open(T0, PeerId(0), ends.0, ends.1).unwrap();
    let mut last = PeerId(0);
    for _ in 0..100 {
        gateway.set_table(T0, by("10.0.1.2"));
        gateway.set_table(T0, Table::default());
        gateway.set_table(T0, by("10.0.0.2"));
        last = gateway.flows.find(flow).expect("it still stands").0;
    }
    assert_eq!(last, PeerId(0));
    assert_eq!(gateway.flows.edge(flow).and_then(Edge::tries).copied(), Some(0));
    // Failed ways do count.
    for _ in 0..100 {
        gateway.flows.lost(&mut gateway.net, T0, flow, Reason::Unreachable);
    }
    assert!(gateway.flows.find(flow).is_none());
}
