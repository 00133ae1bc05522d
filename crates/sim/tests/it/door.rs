//! Gateways that end the TCP of endpoints at a door of their own: what applications see is what a path without gateways
//! would have shown them.

use crate::common::{address, bursts, clean_demo, direction, gateway_config, secs, with_loss};
use std::net::{Ipv4Addr, SocketAddr};
use wavelane_base::{Instant, IpPrefix, Seed, Span};
use wavelane_channel::CableConfig;
use wavelane_gateway::{Config, PeerId};
use wavelane_sim::{Engine, FlowEnd, FlowIndex, FlowSpec, NodeClock, NodeId, Plug, Work};
use wavelane_tcp::Config as TcpConfig;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 10);

/// A client, two gateways with doors, and a server, over `access` cables and the cable `air`.
struct World {
    engine: Engine,
    client: NodeId,
    far: NodeId,
    flows: u16,
}

impl World {
    fn new(seed: u64, access: CableConfig, air: CableConfig) -> Self {
        let mut engine = Engine::new(Seed(seed));
        let clock = |ms| NodeClock::new(Span::from_millis(ms), 20).unwrap();
        let tcp = || TcpConfig { nagle: false, ..TcpConfig::default() };
        let client = engine.add_host("client", CLIENT, clock(1), tcp());
        let server = engine.add_host("server", SERVER, clock(2), tcp());
        let (at_a, at_b) = (address("192.0.2.1:51820"), address("192.0.2.2:51820"));
        let towards = |config: Config, ip: Ipv4Addr| {
            let mut config = config;
            // As `init` writes it where the peer's address is known: a session that stands is kept.
            config.peers[0].keepalive = Some(Span::from_secs(15));
            config.peers[0].routes = vec![IpPrefix { address: ip.into(), bits: 32 }];
            config
        };
        let near = engine.add_gateway("a", clock(3), towards(gateway_config(1, 2, at_b), SERVER)).unwrap();
        let far = engine.add_gateway("b", clock(4), towards(gateway_config(2, 1, at_a), CLIENT)).unwrap();
        for (gateway, host, ip, own) in [(near, client, CLIENT, 1), (far, server, SERVER, 2)] {
            engine.open_door(gateway, Ipv4Addr::new(10, 2, 0, own), tcp());
            let plug = |node| Plug { node, address: None };
            let wire = engine.connect(&format!("wire {own}"), access.clone(), plug(host), plug(gateway)).unwrap();
            engine.route(gateway, ip, wire);
            for to in [CLIENT, SERVER, Ipv4Addr::new(10, 2, 0, own)] {
                engine.route(host, to, wire);
            }
        }
        let lane = |node, address| Plug { node, address: Some(address) };
        engine.connect("air", air, lane(near, at_a), lane(far, at_b)).unwrap();
        engine.listen(server, SocketAddr::from((SERVER, 80)));
        Self { engine, client, far, flows: 0 }
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

fn gigabit() -> CableConfig {
    CableConfig::symmetric(direction(1_000, 0, 1_000_000))
}

#[test]
fn bodies_cross_whole_in_both_directions_and_end_in_order() {
    for seed in 1..=3 {
        let mut world =
            World::new(seed, CableConfig::symmetric(direction(15, 5, 60_000)), with_loss(clean_demo(), &bursts()));
        let down = world.add(Work::Download(Some(4_000_000)), 80, secs(1));
        let up = world.add(Work::Upload(Some(4_000_000)), 80, secs(1));
        world.engine.run_until(secs(30));
        for flow in [down, up] {
            let log = world.engine.log(flow);
            assert_eq!((log.end.map(|(_, how)| how), log.damage), (Some(FlowEnd::Complete), None), "seed {seed}");
            assert_eq!((log.octets, log.server_resets), (4_000_000, 0), "seed {seed}");
        }
    }
}

/// The handshake waits for the far server: one round trip of the lane.
#[test]
fn a_connection_is_accepted_only_after_the_far_server() {
    let mut world = World::new(1, gigabit(), clean_demo());
    world.add(Work::Download(Some(1_000)), 80, secs(1));
    let flow = world.add(Work::Download(Some(1_000)), 80, secs(2));
    world.engine.run_until(secs(10));
    let log = world.engine.log(flow);
    let took = log.accepted.unwrap().since(log.connected.unwrap());
    assert!((Span::from_millis(100)..Span::from_millis(130)).contains(&took), "{took:?}");
}

#[test]
fn a_closed_port_is_refused_as_it_would_be_without_gateways() {
    let mut world = World::new(1, gigabit(), clean_demo());
    world.add(Work::Download(Some(1_000)), 80, secs(1));
    let flow = world.add(Work::Download(Some(1_000)), 81, secs(2));
    world.engine.run_until(secs(10));
    let (at, how) = world.engine.log(flow).end.unwrap();
    assert_eq!(how, FlowEnd::Refused(None));
    assert!(at.since(secs(2)) < Span::from_millis(130), "{at:?}");
}

/// A gateway that dies forgets its doors: its own side's segments meet a reset, the other side is told by the link.
#[test]
fn a_restarted_gateway_resets_old_flows_and_takes_new_ones() {
    let mut world = World::new(1, gigabit(), clean_demo());
    let before = world.add(Work::Download(None), 80, secs(1));
    world.engine.run_until(secs(5));
    assert!(world.engine.log(before).octets > 1_000_000);
    world.engine.restart(world.far);
    let after = world.add(Work::Download(Some(100_000)), 80, secs(7));
    world.engine.run_until(secs(20));
    assert_eq!(world.engine.log(before).end.map(|(_, how)| how), Some(FlowEnd::Reset(None)));
    assert_eq!(world.engine.log(after).end.map(|(_, how)| how), Some(FlowEnd::Complete));
}

/// What the door holds of a download to a slow client is bounded, so that an exchange beside it does not wait for seconds.
#[test]
fn an_echo_to_a_slow_client_waits_in_its_queue_only() {
    // 2 Mbit/s and 30 kB: 120 ms of queue, on a way of 104 ms; and what CUBIC puts there beyond, for a round trip each time.
    let mut world = World::new(1, CableConfig::symmetric(direction(2, 2, 30_000)), clean_demo());
    let bulk = world.add(Work::Download(None), 80, secs(1));
    let echo =
        world.add(Work::Echo { every: Span::from_millis(100), random: false, size: 64, during: None }, 80, secs(2));
    world.engine.run_until(secs(30));
    let rate = world.engine.log(bulk).goodput_between(secs(5), secs(30)).as_bps() as f64 / 1e6;
    assert!((1.75..=2.0).contains(&rate), "{rate}");
    let log = world.engine.log(echo);
    let mut waits: Vec<Span> = log.questions.iter().filter_map(|q| Some(q.answered?.since(q.due))).collect();
    waits.sort();
    let late = waits[waits.len() * 95 / 100];
    assert!(waits.len() > 250 && late < Span::from_millis(350), "{} answers, 95 % within {late:?}", waits.len());
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let digest = |seed| {
        let mut world = World::new(seed, gigabit(), with_loss(clean_demo(), &bursts()));
        world.add(Work::Download(Some(1_000_000)), 80, secs(1));
        world.engine.run_until(secs(10));
        world.engine.digest()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}
