//! A split proxy in one box: two sockets and no link in between.

use crate::common::{direction, secs};
use std::net::{Ipv4Addr, SocketAddr};
use wavelane_base::{Instant, Seed, Span};
use wavelane_channel::CableConfig;
use wavelane_gateway::PeerId;
use wavelane_sim::{ChannelId, Engine, FlowEnd, FlowIndex, FlowSpec, NodeClock, NodeId, Plug, Work};
use wavelane_tcp::Config as TcpConfig;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);
const PROXY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 10);

/// A client, a proxy or a router, and a server.
struct World {
    engine: Engine,
    client: NodeId,
    wired: ChannelId,
    flows: u16,
}

impl World {
    fn new(split: bool, wired: CableConfig, air: CableConfig) -> Self {
        let mut engine = Engine::new(Seed(1));
        let clock = |ms| NodeClock::new(Span::from_millis(ms), 20).unwrap();
        let tcp = || TcpConfig { nagle: false, ..TcpConfig::default() };
        let client = engine.add_host("client", CLIENT, clock(1), tcp());
        let server = engine.add_host("server", SERVER, clock(2), tcp());
        let middle = match split {
            true => engine.add_proxy("proxy", PROXY, clock(3), tcp()),
            false => engine.add_router("router"),
        };
        let plug = |node| Plug { node, address: None };
        let air = engine.connect("air", air, plug(client), plug(middle)).unwrap();
        let wired = engine.connect("wired", wired, plug(middle), plug(server)).unwrap();
        engine.route(middle, CLIENT, air);
        engine.route(middle, SERVER, wired);
        engine.route(client, SERVER, air);
        for to in [CLIENT, PROXY] {
            engine.route(server, to, wired);
        }
        engine.listen(server, SocketAddr::from((SERVER, 80)));
        Self { engine, client, wired, flows: 0 }
    }

    fn add(&mut self, work: Work, port: u16, start: Instant) -> FlowIndex {
        self.flows += 1;
        self.engine.add_flow(FlowSpec {
            node: self.client,
            peer: PeerId(0),
            source: SocketAddr::from((CLIENT, 40_000 + self.flows)),
            target: SocketAddr::from((SERVER, port)),
            work,
            start,
            stop: None,
            source_rate: None,
            reader_pause: None,
        })
    }
}

fn near() -> CableConfig {
    CableConfig::symmetric(direction(10, 2, 60_000))
}

fn far() -> CableConfig {
    CableConfig::symmetric(direction(100, 50, 500_000))
}

#[test]
fn bodies_cross_whole_in_both_directions_and_end_in_order() {
    let mut world = World::new(true, far(), near());
    let down = world.add(Work::Download(Some(4_000_000)), 80, secs(1));
    let up = world.add(Work::Upload(Some(4_000_000)), 80, secs(1));
    world.engine.run_until(secs(30));
    for flow in [down, up] {
        let log = world.engine.log(flow);
        assert_eq!((log.end.map(|(_, how)| how), log.damage), (Some(FlowEnd::Complete), None));
        assert_eq!((log.octets, log.server_resets), (4_000_000, 0));
    }
    assert!(world.engine.cable(world.wired).counters(crate::common::Direction::Forward).offered.frames > 1_000);
}

/// The client's SYN waits for the server's answer, which takes the round trip of both cables.
#[test]
fn a_connection_is_accepted_only_after_the_server_and_refused_as_without_a_proxy() {
    for split in [true, false] {
        let mut world = World::new(split, far(), near());
        let open = world.add(Work::Download(Some(1_000)), 80, secs(1));
        let refused = world.add(Work::Download(Some(1_000)), 81, secs(2));
        world.engine.run_until(secs(10));
        let log = world.engine.log(open);
        let took = log.accepted.unwrap().since(log.connected.unwrap());
        assert!((Span::from_millis(104)..Span::from_millis(110)).contains(&took), "{split}: {took:?}");
        let (at, how) = world.engine.log(refused).end.unwrap();
        assert_eq!(how, FlowEnd::Refused(None), "{split}");
        assert!(at.since(secs(2)) < Span::from_millis(110), "{split}: {at:?}");
    }
}

/// Loss beside the client is repaired over its short round trip, not over the whole path: the reason for a split.
#[test]
fn loss_on_the_near_side_costs_its_own_round_trip_only() {
    let octets = |split| {
        let air = crate::common::with_loss(near(), &crate::common::bursts());
        let mut world = World::new(split, far(), air);
        let flow = world.add(Work::Download(None), 80, secs(1));
        world.engine.run_until(secs(31));
        world.engine.log(flow).octets
    };
    let (split, whole) = (octets(true), octets(false));
    assert!(split > 2 * whole, "{split} octets with the proxy, {whole} without");
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let digest = || {
        let mut world = World::new(true, far(), near());
        world.add(Work::Download(Some(1_000_000)), 80, secs(1));
        world.engine.run_until(secs(10));
        world.engine.digest()
    };
    assert_eq!(digest(), digest());
}
