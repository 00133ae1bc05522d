//! A neighbour with two uplinks to one port of ours: each of its lanes gets one of ours for the other direction.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its world should stop")]

use crate::tests::{SERVER, gateway};
use crate::{Choice, Gateway, GatewayEvent, LaneConfig, PeerId};
use std::collections::VecDeque;
use wavelane_base::{Address, FlowId, FrameMeta, Instant, Machine, PortId, ReadOutcome, Span, Streams};
use wavelane_transport::session::LANES_MAX;

const HUB: Address =
    Address::Ip(std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 100)), 4780));
const DELAY: Span = Span::from_millis(20);

fn uplink(port: u16) -> Address {
    Address::Ip(([192, 0, 2, 1 + port as u8], 4780).into())
}

/// A (two ports) and a hub without configured addresses (one port).
struct World {
    now: Instant,
    nodes: [Gateway; 2],
    /// (arrival, to, port, from, bytes).
    pipe: VecDeque<(Instant, usize, PortId, Address, Vec<u8>)>,
    /// The hub's port.
    hub_port: PortId,
    /// Uplinks that carry nothing.
    cut: Vec<u16>,
    /// Datagrams offered to each uplink, either way.
    offered: [u64; LANES_MAX],
}

impl World {
    fn new(uplinks: u16) -> Self {
        let now = Instant::from_secs(1);
        let mut a = gateway(now, 1, 2, HUB, 1).config().clone();
        a.peers[0].lanes = (0..uplinks).map(|port| LaneConfig::new(PortId(port), Some(HUB))).collect();
        let mut b = gateway(now, 2, 1, HUB, 1).config().clone();
        b.peers[0].lanes[0].address = None;
        let make =
            |config, seed: u64| Gateway::new(now, config, 1, wavelane_base::Seed(seed).entropy("lanes")).unwrap();
        let nodes = [make(a, 1), make(b, 2)];
        Self { now, nodes, pipe: VecDeque::new(), hub_port: PortId(0), cut: Vec::new(), offered: [0; LANES_MAX] }
    }

    fn drain(&mut self) {
        let mut buf = [0; 2048];
        for side in 0..2 {
            for port in 0..LANES_MAX as u16 {
                while let Some(out) = self.nodes[side].poll_transmit(self.now, PortId(port), &mut buf, 1) {
                    let to = out.to.unwrap();
                    let by = if side == 0 { port } else { u16::from(to.to_string().as_bytes()[8] - b'1') };
                    self.offered[usize::from(by)] += 1;
                    if self.cut.contains(&by) {
                        continue;
                    }
                    let (to_port, from) = if side == 0 { (self.hub_port, uplink(port)) } else { (PortId(by), HUB) };
                    self.pipe.push_back((self.now + DELAY, 1 - side, to_port, from, buf[..out.len].to_vec()));
                }
            }
        }
    }

    fn run(&mut self, limit: Span, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            self.drain();
            if done(self) {
                return true;
            }
            self.drain();
            let deadlines = self.nodes.iter().filter_map(|node| node.poll_timeout().map(|w| w.at));
            let next = deadlines.chain(self.pipe.front().map(|f| f.0)).min().unwrap_or(end);
            if next >= end {
                self.now = end;
                return false;
            }
            self.now = next.max(self.now);
            while self.pipe.front().is_some_and(|f| f.0 <= self.now) {
                let (_, to, port, from, mut bytes) = self.pipe.pop_front().unwrap();
                let at = uplink(port.0).ip().filter(|_| to == 0).map(|ip| ip.ip());
                let meta = FrameMeta { rx_time: self.now, from: Some(from), at, ..FrameMeta::default() };
                self.nodes[to].handle_frame(self.now, port, &mut bytes, meta);
            }
            self.nodes.iter_mut().for_each(|node| node.handle_timeout(self.now));
        }
    }

    /// Opens a flow from A to the hub; returns its ids at both.
    fn connect(&mut self) -> (FlowId, FlowId) {
        let ours = self.nodes[0].open(self.now, PeerId(0), "10.0.1.2:40000".parse().unwrap(), SERVER).unwrap();
        let mut theirs = None;
        let met = self.run(Span::from_secs(10), |world| {
            while let Some(event) = world.nodes[1].poll_event() {
                if let GatewayEvent::Incoming { flow, .. } = event {
                    theirs = Some(flow);
                    world.nodes[1].accept(world.now, flow);
                }
            }
            core::iter::from_fn(|| world.nodes[0].poll_event()).any(|e| e == GatewayEvent::Accepted(ours))
        });
        assert!(met);
        (ours, theirs.unwrap())
    }

    /// Writes `octets` at `side` and reads them at the other.
    fn carry(&mut self, (from, to): (FlowId, FlowId), side: usize, octets: usize) -> bool {
        let data: Vec<u8> = (0..octets as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let (mut written, mut read, mut buf) = (0, Vec::<u8>::new(), [0; 4096]);
        let done = self.run(Span::from_secs(20), |world| {
            written += world.nodes[side].write(world.now, from, &data[written..]);
            while let ReadOutcome::Data(n) = world.nodes[1 - side].read(world.now, to, &mut buf) {
                read.extend(&buf[..n]);
            }
            read.len() >= data.len()
        });
        done && read == data
    }
}

#[test]
fn a_hub_uses_every_uplink_and_survives_a_cut() {
    let mut world = World::new(2);
    let (ours, theirs) = world.connect();
    assert!(world.carry((ours, theirs), 0, 2_000_000) && world.carry((theirs, ours), 1, 2_000_000));
    for (side, addresses) in [[HUB, HUB], [uplink(0), uplink(1)]].iter().enumerate() {
        let lanes = &world.nodes[side].status(world.now).peers[0].lanes;
        let at: Vec<_> = lanes.iter().filter_map(|lane| lane.address).collect();
        assert_eq!(at.len(), 2);
        assert!(addresses.iter().all(|address| at.contains(address)), "{at:?}");
        assert!(lanes.iter().all(|lane| lane.delivered_bytes > 100_000), "{lanes:?}");
    }
    for cut in [1, 0] {
        world.cut = vec![cut];
        let up = world.carry((ours, theirs), 0, 500_000);
        assert!(up, "up without uplink {cut}: {:#?}", [0, 1].map(|side| world.nodes[side].status(world.now).peers));
        assert!(world.carry((theirs, ours), 1, 500_000), "down without uplink {cut}");
    }
}

#[test]
fn a_peer_gets_no_more_lanes_than_there_are_numbers() {
    let mut world = World::new(LANES_MAX as u16);
    let flows = world.connect();
    assert!(world.carry(flows, 0, 1_000_000));
    assert_eq!(world.nodes[1].status(world.now).peers[0].lanes.len(), LANES_MAX);
    // A moves: no lane is added, its lanes are followed.
    assert!(world.carry(flows, 0, 100_000));
    assert_eq!(world.nodes[1].status(world.now).peers[0].lanes.len(), LANES_MAX);
}

#[test]
fn a_reload_changes_lane_policies() {
    let mut world = World::new(2);
    let flow = world.connect();
    assert!(world.carry(flow, 0, 300_000));
    let spare = |world: &World| {
        let lanes = &world.nodes[0].status(world.now).peers[0].lanes;
        [lanes[0].spare, lanes[1].spare]
    };
    assert_eq!(spare(&world), [false, false]);
    let mut wanted = world.nodes[0].config().clone();
    for (choice, metered, expected) in [
        (Choice::Pinned, [false, false], [false, true]),
        (Choice::Bond, [true, false], [true, false]),
        (Choice::Bond, [false, false], [false, false]),
    ] {
        wanted.peers[0].choice = choice;
        (0..2).for_each(|lane| wanted.peers[0].lanes[lane].knobs.metered = metered[lane]);
        let now = world.now;
        world.nodes[0].reload(now, wanted.clone()).unwrap();
        assert!(world.carry(flow, 0, 300_000));
        assert_eq!(spare(&world), expected, "{choice:?} {metered:?}");
    }
}

/// One table of the hub's stands for both of its lanes.
#[test]
fn a_reload_holds_for_lanes_made_for_the_peers() {
    let mut world = World::new(2);
    let flow = world.connect();
    assert!(world.carry(flow, 0, 300_000) && world.carry((flow.1, flow.0), 1, 300_000));
    let mut wanted = world.nodes[1].config().clone();
    for metered in [true, false, true] {
        wanted.peers[0].lanes[0].knobs.metered = metered;
        let now = world.now;
        world.nodes[1].reload(now, wanted.clone()).unwrap();
        assert!(world.carry(flow, 0, 300_000) && world.carry((flow.1, flow.0), 1, 300_000));
        for (side, there) in [(0, metered), (1, false)] {
            let lanes = &world.nodes[side].status(world.now).peers[0].lanes;
            let said: Vec<_> = lanes.iter().map(|lane| (lane.metered, lane.metered_there, lane.spare)).collect();
            assert_eq!(said, [(metered, there, false); 2], "side {side}");
        }
    }
}

impl World {
    /// Reloads the near gateway with lanes on these ports.
    fn reload(&mut self, ports: &[u16]) {
        let mut wanted = self.nodes[0].config().clone();
        wanted.peers[0].lanes = ports.iter().map(|port| LaneConfig::new(PortId(*port), Some(HUB))).collect();
        self.nodes[0].reload(self.now, wanted).unwrap();
    }

    fn ports(&self, side: usize) -> Vec<u16> {
        self.nodes[side].status(self.now).peers[0].lanes.iter().map(|lane| lane.port.0).collect()
    }

    /// The addresses of the hub's lanes.
    fn led_to(&self) -> Vec<Address> {
        let mut to: Vec<_> =
            self.nodes[1].status(self.now).peers[0].lanes.iter().filter_map(|lane| lane.address).collect();
        to.sort_unstable();
        to
    }

    /// Transfers both ways, with a reload once a part has arrived.
    fn carry_during_reload(&mut self, flow: (FlowId, FlowId), ports: &[u16]) {
        assert!(self.carry(flow, 0, 100_000));
        // In flight when the lanes change.
        let more = [7; 200_000];
        let begun = self.nodes[0].write(self.now, flow.0, &more);
        self.drain();
        self.reload(ports);
        let (mut read, mut buf, mut written) = (0, [0; 4096], begun);
        let all = self.run(Span::from_secs(10), |world| {
            written += world.nodes[0].write(world.now, flow.0, &more[written..]);
            while let ReadOutcome::Data(n) = world.nodes[1].read(world.now, flow.1, &mut buf) {
                read += n;
            }
            read == more.len()
        });
        assert!(all, "{read} of {}", more.len());
        assert!(self.carry((flow.1, flow.0), 1, 300_000));
    }
}

#[test]
fn lanes_come_and_go_with_bytes_on_their_way() {
    let mut world = World::new(2);
    let flow = world.connect();
    world.carry_during_reload(flow, &[0, 1, 2]);
    assert_eq!((world.ports(0), world.led_to()), (vec![0, 1, 2], (0..3).map(uplink).collect()));
    world.carry_during_reload(flow, &[2, 1]);
    assert_eq!((world.ports(0), world.led_to()), (vec![2, 1], vec![uplink(1), uplink(2)]));
    let before = world.offered;
    assert!(world.carry(flow, 0, 500_000) && world.carry((flow.1, flow.0), 1, 500_000));
    assert_eq!(world.offered[0], before[0], "nothing goes where the lane led");
    assert!(world.offered[1] > before[1] && world.offered[2] > before[2]);
    world.carry_during_reload(flow, &[2]);
    assert_eq!((world.ports(0), world.led_to()), (vec![2], vec![uplink(2)]));
    world.carry_during_reload(flow, &[3, 2]);
    assert_eq!((world.ports(0), world.led_to()), (vec![3, 2], vec![uplink(2), uplink(3)]));
}

#[test]
fn a_lane_by_another_port_takes_the_place_of_the_only_one() {
    let mut world = World::new(1);
    let flow = world.connect();
    world.carry_during_reload(flow, &[5]);
    assert_eq!((world.ports(0), world.led_to()), (vec![5], vec![uplink(5)]));
}

#[test]
fn numbers_suffice_however_often_lanes_change() {
    let mut world = World::new(3);
    let flow = world.connect();
    for round in 0..24_u16 {
        let ports: Vec<u16> = (0..1 + round % 4).map(|i| (round * 3 + i) % LANES_MAX as u16).collect();
        world.carry_during_reload(flow, &ports);
        let mut led: Vec<_> = ports.iter().copied().map(uplink).collect();
        led.sort_unstable();
        assert_eq!((world.ports(0), world.led_to()), (ports, led), "round {round}");
    }
}

#[test]
fn a_port_without_a_socket_is_left_at_once() {
    let mut world = World::new(2);
    let flow = world.connect();
    assert!(world.carry(flow, 0, 1_000_000));
    // What is sent on it now is lost.
    world.cut = vec![1];
    let written = world.nodes[0].write(world.now, flow.0, &[1; 100_000]);
    world.drain();
    let (now, began) = (world.now, world.now);
    world.nodes[0].set_port_there(now, PortId(1), false);
    let works = |world: &World| {
        let lanes = &world.nodes[0].status(world.now).peers[0].lanes;
        [lanes[0].works, lanes[1].works]
    };
    assert_eq!(works(&world), [true, false]);
    let (mut read, mut buf) = (0, [0; 4096]);
    let all = world.run(Span::from_secs(5), |world| {
        while let ReadOutcome::Data(n) = world.nodes[1].read(world.now, flow.1, &mut buf) {
            read += n;
        }
        read == written
    });
    // No wait for a probe: one RTT, and the other lane's transfer time.
    let took = world.now.since(began);
    assert!(all && took < Span::from_millis(150), "{read} of {written} in {took}");
    world.cut.clear();
    let now = world.now;
    world.nodes[0].set_port_there(now, PortId(1), true);
    assert_eq!(works(&world), [true, true]);
    let before = world.offered[1];
    assert!(world.carry(flow, 0, 1_000_000));
    assert!(world.offered[1] > before + 50);
}

#[test]
fn a_port_with_another_socket_has_room() {
    let mut world = World::new(2);
    let flow = world.connect();
    assert!(world.carry(flow, 0, 1_000_000));
    let carries = |world: &mut World| {
        let before = world.offered[1];
        assert!(world.carry(flow, 0, 1_000_000));
        world.offered[1] - before > 50
    };
    assert!(carries(&mut world));
    let now = world.now;
    // Its socket is full when its device disappears and comes back under another index, unnoticed.
    world.nodes[0].set_port_room(now, PortId(1), false);
    assert!(!carries(&mut world));
    let now = world.now;
    world.nodes[0].set_port_there(now, PortId(1), true);
    assert!(carries(&mut world));
}

#[test]
fn a_removed_local_address_is_left_at_once() {
    let mut world = World::new(1);
    let flow = world.connect();
    assert!(world.carry(flow, 0, 100_000));
    let sent = |world: &mut World| {
        let (now, mut buf) = (world.now, [0; 2048]);
        core::iter::from_fn(|| world.nodes[0].poll_transmit(now, PortId(0), &mut buf, 1)).last()
    };
    let at: std::net::IpAddr = "192.0.2.1".parse().unwrap();
    world.nodes[0].write(world.now, flow.0, &[1; 100]);
    assert_eq!(sent(&mut world).unwrap().from, Some(at));
    let (now, other) = (world.now, "192.0.2.77".parse().unwrap());
    world.nodes[0].addresses_gone(now, &[other]);
    assert!(sent(&mut world).is_none());
    world.nodes[0].addresses_gone(now, &[at]);
    assert_eq!(sent(&mut world).expect("the peer is to see where we are").from, None);
}

#[test]
fn a_lane_without_port_takes_nothing() {
    let mut world = World::new(1);
    let flow = world.connect();
    // The hub's configured lane led to the lane removed now; the one created for the new lane remains.
    world.carry_during_reload(flow, &[0, 1]);
    world.carry_during_reload(flow, &[1]);
    let mut wanted = world.nodes[1].config().clone();
    wanted.peers[0].lanes[0].port = PortId(5);
    world.hub_port = PortId(5);
    let now = world.now;
    world.nodes[1].reload(now, wanted).unwrap();
    world.nodes[0].write(now, flow.0, &[1; 1]);
    assert!(world.carry((flow.1, flow.0), 1, 1_000_000));
    let took = world.now.since(now);
    assert!(took < Span::from_secs(5), "{took}");
}

#[test]
fn a_lane_that_changes_to_a_port_with_a_socket_works() {
    let mut world = World::new(2);
    let flow = world.connect();
    assert!(world.carry(flow, 0, 300_000));
    let now = world.now;
    world.nodes[0].set_port_there(now, PortId(1), false);
    world.carry_during_reload(flow, &[0, 2]);
    assert!(world.carry(flow, 0, 1_000_000));
    let lanes = &world.nodes[0].status(world.now).peers[0].lanes;
    assert!(lanes.iter().all(|lane| lane.works && lane.delivered_bytes > 30_000), "{lanes:?}");
}

/// A datagram that is not from the peer, to any port, is no sign of life.
#[test]
fn a_peer_is_heard_by_the_port_of_its_own_datagrams() {
    let mut world = World::new(2);
    world.connect();
    let heard = |world: &World, port| world.nodes[0].silence_by(world.now, PeerId(0), PortId(port));
    assert!(heard(&world, 0).is_some() && heard(&world, 7).is_none());
    let meta = FrameMeta { rx_time: world.now, from: Some(HUB), ..FrameMeta::default() };
    let now = world.now;
    world.nodes[0].handle_frame(now, PortId(7), &mut [0x40; 100], meta);
    assert_eq!(heard(&world, 7), None);
    let since = |world: &World| world.nodes[0].status(world.now).peers[0].lanes[0].since;
    assert_eq!(since(&world), None);
    world.nodes[0].forget_heard_by(now, PortId(0));
    assert_eq!((heard(&world, 0), since(&world)), (None, Some(now)));
}

#[test]
fn an_echo_tells_each_lanes_round_trip_or_loss() {
    let mut world = World::new(2);
    world.connect();
    let asked = |world: &mut World, side: usize, id: u32| {
        let lanes = world.nodes[side].echo(world.now, PeerId(0), id);
        let (mut ended, count) = (Vec::new(), lanes.len());
        world.run(Span::from_secs(30), |world| {
            let events = core::iter::from_fn(|| world.nodes[side].poll_event());
            ended.extend(events.filter_map(|event| match event {
                GatewayEvent::Echo { lane, id, round_trip, .. } => Some((lane, id, round_trip)),
                _ => None,
            }));
            ended.len() >= count
        });
        ended.sort_unstable();
        (lanes.into_iter().map(|(lane, _)| lane).collect::<Vec<_>>(), ended)
    };
    for side in 0..2 {
        let (lanes, ended) = asked(&mut world, side, 7);
        // There and back without a queue, and the acks wait for nothing.
        let round_trip = Some(DELAY.times(2));
        assert_eq!((lanes, ended), (vec![0, 1], vec![(0, 7, round_trip), (1, 7, round_trip)]), "side {side}");
    }
    // Several at once, as of several clients: none takes the place of another.
    for id in 100..120 {
        world.nodes[0].echo(world.now, PeerId(0), id);
    }
    let mut ended = Vec::new();
    world.run(Span::from_secs(30), |world| {
        let events = core::iter::from_fn(|| world.nodes[0].poll_event());
        ended.extend(events.filter_map(|event| match event {
            GatewayEvent::Echo { id, round_trip: Some(_), .. } => Some(id),
            _ => None,
        }));
        ended.len() >= 40
    });
    ended.sort_unstable();
    assert_eq!(ended, (100..120).flat_map(|id| [id, id]).collect::<Vec<_>>());
    world.cut = vec![1];
    let (lanes, ended) = asked(&mut world, 0, 8);
    assert_eq!((lanes, ended), (vec![0, 1], vec![(0, 8, Some(DELAY.times(2))), (1, 8, None)]));
    assert!(world.nodes[0].echo(world.now, PeerId(1), 9).is_empty(), "there is no such peer");
}

#[test]
fn a_neighbour_is_asked_about_itself_whatever_may_be_reached_there() {
    let mut world = World::new(1);
    world.connect();
    let flow = world.nodes[0].ask_about(world.now, PeerId(0)).unwrap();
    let (mut theirs, mut accepted) = (None, false);
    let met = world.run(Span::from_secs(10), |world| {
        while let Some(event) = world.nodes[1].poll_event() {
            if let GatewayEvent::Incoming { flow, source, target, .. } = event {
                assert!(crate::is_about(source, target));
                theirs = Some(flow);
                world.nodes[1].accept(world.now, flow);
            }
        }
        accepted |= core::iter::from_fn(|| world.nodes[0].poll_event()).any(|e| e == GatewayEvent::Accepted(flow));
        accepted
    });
    assert!(met && world.carry((theirs.unwrap(), flow), 1, 20_000));
    assert!(world.nodes[0].ask_about(world.now, PeerId(1)).is_err(), "there is no such peer");
    // An application's flow there is one to a target like others, which the peer may not reach.
    let target = crate::about::ENDS[1];
    world.nodes[0].open(world.now, PeerId(0), "10.0.1.2:40001".parse().unwrap(), target).unwrap();
    let refused = world.run(Span::from_secs(10), |world| {
        assert!(
            core::iter::from_fn(|| world.nodes[1].poll_event()).all(|e| !matches!(e, GatewayEvent::Incoming { .. }))
        );
        core::iter::from_fn(|| world.nodes[0].poll_event()).any(|e| matches!(e, GatewayEvent::Refused(..)))
    });
    assert!(refused);
}
