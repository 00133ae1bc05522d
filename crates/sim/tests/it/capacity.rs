//! One flow fills what the path holds: no window, pool, table or list ends before the link does.

use crate::common::{address, direction, random_loss, secs, server};
use std::net::SocketAddr;
use wavelane_base::{Instant, Octets, PortId, Rate, Seed, Span};
use wavelane_channel::CableConfig;
use wavelane_channel::cable::Policer;
use wavelane_gateway::{Config, LaneConfig, PeerConfig, PeerId};
use wavelane_sim::{Engine, FlowIndex, FlowSpec, NodeClock, NodeId, Plug, Work};
use wavelane_transport::session::public_key;

/// A row of gateways; the client sits at the first, the server at the last.
pub(crate) struct Row {
    pub(crate) engine: Engine,
    pub(crate) nodes: Vec<NodeId>,
}

impl Row {
    pub(crate) fn new(seed: u64, cables: Vec<CableConfig>) -> Self {
        let count = cables.len() + 1;
        let mut engine = Engine::new(Seed(seed));
        let at = |node: usize, port: usize| address(&format!("192.0.{}.{}:51820", 10 + node, 1 + port));
        let key = |node: usize| [node as u8 + 1; 32];
        let nodes: Vec<NodeId> = (0..count)
            .map(|node| {
                let neighbours = [node.checked_sub(1), (node + 1 < count).then_some(node + 1)];
                let peers = neighbours.into_iter().flatten().enumerate().map(|(port, other)| PeerConfig {
                    name: format!("peer {other}"),
                    public_key: public_key(&key(other)),
                    preshared_key: None,
                    lanes: vec![LaneConfig::new(
                        PortId(port as u16),
                        Some(at(other, usize::from(other > 0 && other < node))),
                    )],
                    choice: wavelane_gateway::Choice::Bond,
                    keepalive: None,
                    allow_sources: None,
                    allow_targets: vec!["10.0.0.0/8".parse().unwrap()],
                    routes: if other > node { vec!["10.1.0.0/16".parse().unwrap()] } else { Vec::new() },
                });
                let config = Config { private_key: key(node), peers: peers.collect(), ..Config::default() };
                let clock = NodeClock::new(Span::from_millis(7 * node as u64), 20).unwrap();
                engine.add_gateway(&format!("g{node}"), clock, config).unwrap()
            })
            .collect();
        for (i, cable) in cables.into_iter().enumerate() {
            let near = Plug { node: nodes[i], address: Some(at(i, usize::from(i > 0))) };
            let far = Plug { node: nodes[i + 1], address: Some(at(i + 1, 0)) };
            engine.connect(&format!("air{i}"), cable, near, far).unwrap();
        }
        engine.listen(nodes[count - 1], server());
        Self { engine, nodes }
    }
    pub(crate) fn add(&mut self, work: Work, start: Instant, stop: Option<Instant>) -> FlowIndex {
        self.add_reader(work, start, stop, None)
    }
    /// As `add`, with a reader that stops for a while.
    pub(crate) fn add_reader(
        &mut self,
        work: Work,
        start: Instant,
        stop: Option<Instant>,
        reader_pause: Option<(Instant, Instant)>,
    ) -> FlowIndex {
        let n = self.engine.flow_count() as u16;
        self.engine.add_flow(FlowSpec {
            node: self.nodes[0],
            peer: PeerId(0),
            source: SocketAddr::from(([10, 0, 0, 10], 40_000 + n)),
            target: server(),
            work,
            start,
            stop,
            source_rate: None,
            reader_pause,
        })
    }
}

/// A cable whose queue holds a round trip.
pub(crate) fn cable(mbit: u64, rtt_ms: u64) -> CableConfig {
    CableConfig::symmetric(direction(mbit, rtt_ms / 2, mbit * 125 * rtt_ms))
}

/// Share of `mbit` that a download over `cables` gets from second `from` to second `until`, in application bytes.
fn share(name: &str, cables: Vec<CableConfig>, mbit: u64, (from, until): (u64, u64)) -> f64 {
    let mut row = Row::new(1, cables);
    let down = row.add(Work::Download(None), Instant::ZERO, Some(secs(until)));
    row.engine.run_until(secs(until));
    let log = row.engine.log(down);
    assert_eq!(log.damage, None, "{name}");
    let share = log.goodput_between(secs(from), secs(until)).as_bps() as f64 / (mbit * 1_000_000) as f64;
    println!("{name}: {share:.3}");
    share
}

/// Application bytes per IP byte of the largest packets.
const BOUND: f64 = 1_437.0 / 1_500.0 + 0.002;

#[test]
fn one_flow_fills_a_fast_and_long_way() {
    for (mbit, rtt_ms, least, window) in [(400, 600, 0.85, (5, 12)), (1_000, 100, 0.935, (2, 4))] {
        let name = format!("{mbit} Mbit/s x {rtt_ms} ms");
        let share = share(&name, vec![cable(mbit, rtt_ms)], mbit, window);
        assert!((least..=BOUND).contains(&share), "{name}: {share:.3}");
    }
}

/// 100 MB over 250 Mbit/s and back over 3, 600 ms: seconds from connecting to the last byte, with the session up and without.
/// Bound: two round trips until the first byte and 3.3 s of the link's time. The return path carries the acks.
#[test]
fn a_fast_and_long_way_starts_in_time() {
    for (numerator, up, most) in [(0, true, 6.3), (0, false, 6.9), (1, true, 8.0)] {
        let mut cable = CableConfig { forward: direction(3, 300, 225_000), reverse: direction(250, 300, 18_750_000) };
        for direction in [&mut cable.forward, &mut cable.reverse] {
            direction.loss = random_loss(numerator, 100);
        }
        let mut row = Row::new(1, vec![cable]);
        let from = if up { secs(4) } else { Instant::ZERO };
        if up {
            row.add(Work::Download(Some(100)), Instant::ZERO, None);
            row.engine.run_until(from);
        }
        let down = row.add(Work::Download(Some(100_000_000)), from, None);
        row.engine.run_until(from + Span::from_secs(12));
        let log = row.engine.log(down);
        assert!(log.is_complete(), "{:?}, {} bytes", log.end, log.octets);
        let took = log.last_byte.unwrap().since(from).as_secs_f64();
        println!("{numerator} % of loss, session up {up}: {took:.2} s");
        assert!((1.2 + 100.0 * 8.0 / 250.0..=most).contains(&took), "{numerator} %, session up {up}: {took:.2} s");
    }
}

/// The edges keep what is on its way over all hops together.
#[test]
fn one_flow_fills_a_long_way_across_a_relay() {
    let hops = [(600, 2, 10), (300, 300, 5)];
    for (near, far, from) in hops {
        let name = format!("100 Mbit/s x ({near} + {far} ms)");
        let share = share(&name, vec![cable(100, near), cable(100, far)], 100, (from, 14));
        assert!((0.85..=BOUND).contains(&share), "{name}: {share:.3}");
    }
}

/// The start sends far more than a policer lets pass, which leaves thousands of holes in what arrives.
#[test]
fn the_holes_of_a_policed_long_way_are_mended_at_once() {
    let mut cable = cable(100, 555);
    for direction in [&mut cable.forward, &mut cable.reverse] {
        direction.policer = Some(Policer { rate: Rate::from_bps(35_000_000), burst: Octets::new(200_000) });
    }
    let share = share("35 Mbit/s policer, 555 ms", vec![cable], 35, (5, 40));
    // What waited behind a hole at the fifth second is read later.
    assert!((0.85..=BOUND + 0.03).contains(&share), "{share:.3}");
}
