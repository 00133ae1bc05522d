//! Two gateways that each have a lane by the port they listen on and one by the socket of a device, which has a port number of its
//! own: what leaves by the device comes to the listening port of the other.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its world should stop")]

use crate::tests::{SERVER, gateway};
use crate::{Gateway, GatewayEvent, LaneConfig, PeerId};
use std::collections::VecDeque;
use wavelane_base::{Address, FrameMeta, Instant, Machine, PortId, Seed, Span};

const LISTEN: u16 = 4780;
const DEVICE: u16 = 50_001;
const DELAY: Span = Span::from_millis(20);

/// The address of a node on a path.
fn place(path: u8, node: usize, port: u16) -> Address {
    Address::Ip(([192, 0, 2 + path, 1 + node as u8], port).into())
}

struct World {
    now: Instant,
    nodes: [Gateway; 2],
    /// (arrival, to, port, from, bytes).
    pipe: VecDeque<(Instant, usize, PortId, Address, Vec<u8>)>,
    /// A path that carries nothing.
    cut: Option<u8>,
    /// Datagrams that arrived by each path.
    came: [u64; 2],
}

impl World {
    fn new() -> Self {
        let now = Instant::from_secs(1);
        let nodes = [0, 1].map(|me: usize| {
            let home = |path| place(path, 1 - me, LISTEN);
            let mut config = gateway(now, 1 + me as u8, 2 - me as u8, home(0), 1).config().clone();
            config.peers[0].lanes = [0, 1].map(|path| LaneConfig::new(PortId(path.into()), Some(home(path)))).to_vec();
            Gateway::new(now, config, 1, Seed(me as u64).entropy("pairs")).unwrap()
        });
        Self { now, nodes, pipe: VecDeque::new(), cut: None, came: [0; 2] }
    }

    fn drain(&mut self) {
        let mut buf = [0; 2048];
        for side in 0..2 {
            for (port, number) in [(PortId(0), LISTEN), (PortId(1), DEVICE)] {
                while let Some(out) = self.nodes[side].poll_transmit(self.now, port, &mut buf, 1) {
                    let to = out.to.unwrap();
                    let path = u8::from(to.ip() == place(1, 1 - side, LISTEN).ip());
                    if self.cut == Some(path) || port == PortId(1) && path == 0 {
                        continue;
                    }
                    let to_port = PortId(u16::from(to.ip().is_some_and(|ip| ip.port() == DEVICE)));
                    let from = place(path, side, number);
                    self.pipe.push_back((self.now + DELAY, 1 - side, to_port, from, buf[..out.len].to_vec()));
                }
            }
        }
    }

    fn run(&mut self, time: Span) {
        let end = self.now + time;
        loop {
            self.drain();
            let deadlines = self.nodes.iter().filter_map(|node| node.poll_timeout().map(|w| w.at));
            let next = deadlines.chain(self.pipe.front().map(|f| f.0)).min().unwrap_or(end);
            if next >= end {
                self.now = end;
                return;
            }
            self.now = next.max(self.now);
            while self.pipe.front().is_some_and(|f| f.0 <= self.now) {
                let (_, to, port, from, mut bytes) = self.pipe.pop_front().unwrap();
                let path = u8::from(from.ip() == place(1, 1 - to, LISTEN).ip());
                self.came[usize::from(path)] += 1;
                let at = place(path, to, LISTEN).ip().map(|ip| ip.ip());
                let meta = FrameMeta { rx_time: self.now, from: Some(from), at, ..FrameMeta::default() };
                self.nodes[to].handle_frame(self.now, port, &mut bytes, meta);
            }
            self.nodes.iter_mut().for_each(|node| node.handle_timeout(self.now));
        }
    }

    fn lane(&self, side: usize, at: usize) -> (Option<Address>, bool) {
        let lane = &self.nodes[side].status(self.now).peers[0].lanes[at];
        (lane.address, lane.works)
    }
}

#[test]
fn a_lane_that_begins_in_an_outage_keeps_its_path() {
    let mut world = World::new();
    world.cut = Some(0);
    let ours = world.nodes[0].open(world.now, PeerId(0), "10.0.1.2:40000".parse().unwrap(), SERVER).unwrap();
    world.run(Span::from_secs(10));
    let opened =
        core::iter::from_fn(|| world.nodes[1].poll_event()).any(|e| matches!(e, GatewayEvent::Incoming { .. }));
    assert!(opened, "{ours:?} crosses by the other path");
    for side in 0..2 {
        assert_eq!(world.lane(side, 0), (Some(place(0, 1 - side, LISTEN)), false), "side {side}");
        assert_eq!(world.lane(side, 1), (Some(place(1, 1 - side, LISTEN)), true), "side {side}");
    }
    world.cut = None;
    world.run(Span::from_secs(15));
    for side in 0..2 {
        assert_eq!(world.lane(side, 0), (Some(place(0, 1 - side, LISTEN)), true), "side {side}");
    }
    world.cut = Some(1);
    let before = world.came;
    world.run(Span::from_secs(10));
    assert!(world.came[0] > before[0] && world.came[1] <= before[1] + 2, "{before:?} {:?}", world.came);
}

#[test]
fn a_lane_that_leaves_its_path_has_one_lane_made_and_not_all_that_there_can_be() {
    let mut world = World::new();
    let now = world.now;
    // The first node calls the second by two paths from the port it listens on.
    let lanes = |ports: [u16; 2]| {
        [0, 1].map(|path: u8| LaneConfig::new(PortId(ports[usize::from(path)]), Some(place(path, 1, LISTEN)))).to_vec()
    };
    for (side, lanes) in [(0, lanes([0, 0])), (1, vec![LaneConfig::new(PortId(0), None)])] {
        let mut config = world.nodes[side].config().clone();
        config.peers[0].lanes = lanes;
        world.nodes[side] = Gateway::new(now, config, 1, Seed(side as u64).entropy("pairs")).unwrap();
    }
    world.nodes[0].open(now, PeerId(0), "10.0.1.2:40000".parse().unwrap(), SERVER).unwrap();
    world.run(Span::from_secs(5));
    let counts = |world: &World| [0, 1].map(|side: usize| world.nodes[side].status(world.now).peers[0].lanes.len());
    assert_eq!(counts(&world), [2, 2]);
    // Its second lane goes by a device that is not there: the second node still answers it at the port it had.
    let mut config = world.nodes[0].config().clone();
    config.peers[0].lanes = lanes([0, 2]);
    world.nodes[0].reload(world.now, config).unwrap();
    world.nodes[0].set_port_there(world.now, PortId(2), false);
    world.run(Span::from_secs(10));
    let after = counts(&world);
    assert!(after[0] <= 3 && after[1] <= 2, "{after:?}");
    // It returns to its port: each path has lanes that work.
    let mut config = world.nodes[0].config().clone();
    config.peers[0].lanes = lanes([0, 0]);
    world.nodes[0].reload(world.now, config).unwrap();
    world.run(Span::from_secs(10));
    assert_eq!(counts(&world), after);
    for path in [0, 1] {
        assert_eq!(world.lane(0, path), (Some(place(path as u8, 1, LISTEN)), true));
        assert_eq!(world.lane(1, path), (Some(place(path as u8, 0, LISTEN)), true));
    }
}
