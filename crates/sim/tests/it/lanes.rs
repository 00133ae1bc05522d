//! Links of several lanes: bulk over all of them is never slower than over the best alone, and a lane that goes takes
//! nothing with it.

use crate::common::{Direction, address, direction, gateway_config, random_loss, secs, server};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_base::{Instant, Octets, PortId, Rate, Ratio, Span};
use wavelane_channel::{CableConfig, DirectionConfig, LossConfig, Parameter, PerUnit, QueueLimit};
use wavelane_gateway::{Choice, Config, LaneConfig, PeerConfig, PeerId};
use wavelane_run::{Backend, RunContext};
use wavelane_scenario::Scenario;
use wavelane_sim::{ChannelId, Engine, FlowIndex, FlowSpec, NodeClock, NodeId, Plug, SimBackend, Work};

/// Which ways a cable carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ways {
    Both,
    Forward,
    Reverse,
}

/// Two gateways and the cables between them, each a port of both.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) a: NodeId,
    b: NodeId,
    pub(crate) cables: Vec<ChannelId>,
    flows: u16,
}

impl World {
    pub(crate) fn new(seed: u64, cables: &[(CableConfig, Ways)]) -> Self {
        Self::with(seed, cables, |_| {})
    }

    /// Both ends know each other as `tuned` says.
    fn with(seed: u64, cables: &[(CableConfig, Ways)], tuned: impl Fn(&mut PeerConfig)) -> Self {
        Self::with_sides(seed, cables, |_, peer| tuned(peer))
    }

    /// ... and which end it is: 1, where flows begin, or 2.
    fn with_sides(seed: u64, cables: &[(CableConfig, Ways)], tuned: impl Fn(u8, &mut PeerConfig)) -> Self {
        let mut engine = Engine::new(wavelane_base::Seed(seed));
        let at = |side: u8, cable: usize| address(&format!("192.0.{cable}.{side}:51820"));
        let config = |side: u8, without: Ways| {
            let lanes = cables.iter().enumerate().filter(|(_, (_, ways))| *ways != without);
            let lanes = lanes.map(|(i, (_, ways))| LaneConfig {
                one_way: *ways != Ways::Both,
                ..LaneConfig::new(PortId(i as u16), Some(at(3 - side, i)))
            });
            let mut config: Config = gateway_config(side, 3 - side, at(3 - side, 0));
            config.peers[0].lanes = lanes.collect();
            tuned(side, &mut config.peers[0]);
            config
        };
        let clock = |ms| NodeClock::new(Span::from_millis(ms), 20).unwrap();
        let a = engine.add_gateway("a", clock(3), config(1, Ways::Reverse)).unwrap();
        let b = engine.add_gateway("b", clock(4000), config(2, Ways::Forward)).unwrap();
        let plugged = cables.iter().enumerate().map(|(i, (cable, _))| {
            let plug = |node, side| Plug { node, address: Some(at(side, i)) };
            engine.connect(&format!("cable {i}"), cable.clone(), plug(a, 1), plug(b, 2)).unwrap()
        });
        let plugged = plugged.collect();
        engine.listen(b, server());
        Self { engine, a, b, cables: plugged, flows: 0 }
    }

    pub(crate) fn add(&mut self, work: Work) -> FlowIndex {
        self.flows += 1;
        self.engine.add_flow(FlowSpec {
            node: self.a,
            peer: PeerId(0),
            source: SocketAddr::from(([10, 0, 0, 10], 40_000 + self.flows)),
            target: server(),
            work,
            start: Instant::ZERO,
            stop: None,
            source_rate: None,
            reader_pause: None,
        })
    }

    /// Bits per second of an endless upload between two times.
    fn goodput(&mut self, from: u64, until: u64) -> f64 {
        let flow = self.add(Work::Upload(None));
        self.engine.run_until(secs(from));
        let before = self.engine.log(flow).octets;
        self.engine.run_until(secs(until));
        (self.engine.log(flow).octets - before) as f64 * 8.0 / (until - from) as f64
    }

    /// IP bytes that the near gateway's lanes delivered.
    fn delivered(&self) -> Vec<u64> {
        self.engine.status(self.a).peers[0].lanes.iter().map(|lane| lane.delivered_bytes).collect()
    }

    /// Runs until a body has crossed; when it had.
    fn finish(&mut self, flow: FlowIndex, limit: u64) -> Instant {
        let step = Span::from_millis(10);
        let done = self.engine.run_while(secs(limit), step, |engine| engine.log(flow).end.is_none());
        let log = self.engine.log(flow);
        assert!(done && log.is_complete(), "{:?}, {} bytes at {limit} s", log.end, log.octets);
        self.engine.now()
    }
}

pub(crate) fn both_ways(config: DirectionConfig) -> (CableConfig, Ways) {
    (CableConfig::symmetric(config), Ways::Both)
}

fn slow(bps: u64, delay_ms: u64) -> DirectionConfig {
    DirectionConfig {
        rate: Some(Rate::from_bps(bps)),
        delay: Span::from_millis(delay_ms),
        queue: QueueLimit::Octets(Octets::new(10_000)),
        ..DirectionConfig::default()
    }
}

#[test]
fn two_lanes_are_never_slower_than_the_best() {
    let twenty = || both_ways(direction(20, 10, 100_000));
    // IP bytes less headers, tag and frame: 1,437 of 1,500 (docs/protocol/wire.md).
    let best = 20e6 * 1_437.0 / 1_500.0;
    let mut lossy = direction(5, 10, 50_000);
    lossy.loss = random_loss(1, 20);
    for (name, second, least) in [
        ("20 and 20 Mbit/s", twenty(), 0.85 * 2.0 * best),
        ("20 and 5 Mbit/s with 5 % loss", both_ways(lossy), 0.98 * best),
        ("20 Mbit/s and 30 kbit/s", both_ways(slow(30_000, 50)), 0.98 * best),
        ("20 Mbit/s over 20 ms and over 300 ms", both_ways(direction(20, 150, 500_000)), 0.85 * 2.0 * best),
    ] {
        for order in [[twenty(), second.clone()], [second.clone(), twenty()]] {
            let got = World::new(1, &order).goodput(5, 20);
            println!("{name}: {got:.0} of at least {least:.0} bit/s");
            assert!(got >= least, "{name}: {got:.0} of at least {least:.0} bit/s");
        }
    }
}

/// A transfer over a link that nothing was sent on before is no later than over the best lane alone, but for a round trip.
#[test]
fn a_slow_second_lane_does_not_hold_up_the_first_transfer() {
    let thin = |bps, delay_ms| both_ways(slow(bps, delay_ms));
    let took = |cables: &[(CableConfig, Ways)], octets| {
        let mut world = World::new(1, cables);
        let up = world.add(Work::Upload(Some(octets)));
        world.finish(up, 60).since(Instant::ZERO)
    };
    let best = || both_ways(direction(20, 10, 100_000));
    for second in [thin(30_000, 50), thin(20_000, 5), both_ways(direction(2, 400, 200_000))] {
        for octets in [100_000, 1_000_000] {
            let alone = took(&[best()], octets);
            let both = took(&[best(), second.clone()], octets);
            println!("{octets} B: {both} beside {alone}");
            assert!(both <= alone.scale(100, 98) + Span::from_millis(30), "{octets} B: {both} beside {alone}");
        }
    }
}

/// A lane of which nothing ever comes back is left after its first tail probes, whatever the policy.
#[test]
fn a_first_lane_that_is_dead_from_the_start_is_left() {
    let mut dead = direction(10, 20, 60_000);
    dead.outages = vec![(secs(0), secs(300))];
    for choice in [Choice::Bond, Choice::PinnedFallback, Choice::Delivery1998] {
        let cables = [
            (CableConfig { forward: dead.clone(), ..CableConfig::symmetric(direction(10, 20, 60_000)) }, Ways::Both),
            both_ways(direction(5, 40, 60_000)),
        ];
        let mut world = World::with(1, &cables, |peer| peer.choice = choice);
        let up = world.add(Work::Upload(Some(100_000)));
        let at = world.finish(up, 60);
        println!("{choice:?}: {at:?}");
        assert!(at < secs(5), "{choice:?}: {at:?}");
    }
}

#[test]
fn one_way_lanes_carry_flows_from_the_first_packet() {
    let radio = CableConfig::symmetric(direction(2, 50, 150_000));
    let modem = CableConfig::symmetric(slow(33_600, 50));
    let mut world = World::new(1, &[(radio.clone(), Ways::Forward), (modem.clone(), Ways::Reverse)]);
    let up = world.add(Work::Upload(Some(1_000_000)));
    let at = world.finish(up, 30);
    // A megabyte takes 4.2 s at 2 Mbit/s with headers; the handshake and a start whose acks come by 33.6 kbit/s the rest.
    assert!(at < secs(8), "{at:?}");
    let down = world.add(Work::Download(Some(20_000)));
    // 20 kB take 5 s at 33.6 kbit/s.
    let start = world.engine.now();
    let at = world.finish(down, 60);
    assert!(at.since(start) < Span::from_secs(12), "{:?}", at.since(start));
    // In the other order of cables the lanes' numbers differ, and nothing else.
    let mut world = World::new(2, &[(modem, Ways::Reverse), (radio, Ways::Forward)]);
    let up = world.add(Work::Upload(Some(1_000_000)));
    assert!(world.finish(up, 30) < secs(8));
}

#[test]
fn a_failed_lane_loses_nothing_and_returns() {
    let mut gone = direction(10, 20, 100_000);
    gone.outages = vec![(secs(4), secs(9))];
    for order in [0, 1] {
        let mut cables = [both_ways(direction(10, 20, 100_000)), both_ways(gone.clone())];
        cables.rotate_left(order);
        let mut world = World::new(1, &cables);
        let up = world.add(Work::Upload(None));
        let at = |world: &mut World, ms: u64| {
            world.engine.run_until(Instant::from_millis(ms));
            world.engine.log(up).octets
        };
        let (before, cut) = (at(&mut world, 3_000), at(&mut world, 4_000));
        assert!(cut - before > 2_000_000, "both lanes: {}", cut - before);
        // Told within three round trips and a probe, of which there are four a second.
        let (early, late) = (at(&mut world, 4_500), at(&mut world, 8_500));
        assert!(late - early > 4 * 1_100_000, "the other lane alone: {}", late - early);
        let (early, late) = (at(&mut world, 10_500), at(&mut world, 14_500));
        assert!(late - early > 4 * 2_000_000, "both again: {}", late - early);
        let lanes = &world.engine.status(world.a).peers[0].lanes;
        assert!(lanes.len() == 2 && lanes.iter().all(|lane| lane.works && lane.delivered_bytes > 5_000_000));
    }
}

/// A lane that was idle through outages carries what it carried before, and small bodies do not wait for it.
#[test]
fn outages_while_idle_do_not_slow_a_lane() {
    let mut gone = direction(10, 20, 100_000);
    gone.outages = (0..6).map(|n| (secs(12 + 5 * n), secs(14 + 5 * n))).collect();
    let mut world = World::new(1, &[both_ways(direction(5, 40, 100_000)), both_ways(gone)]);
    let mut took = |at: u64, bytes: u64| {
        world.engine.run_until(secs(at));
        let up = world.add(Work::Upload(Some(bytes)));
        world.finish(up, at + 30).since(secs(at))
    };
    let before = [took(0, 10_000_000), took(10, 1_000_000)];
    let after = [took(60, 1_000_000), took(65, 10_000_000)];
    assert!(after[0] <= before[1].scale(3, 2) && after[1] <= before[0].scale(11, 10), "{before:?}, {after:?}");
}

#[test]
fn an_outage_of_all_lanes_ends_no_flow() {
    let mut cable = direction(10, 20, 100_000);
    cable.outages = vec![(secs(2), secs(32))];
    let mut world = World::new(1, &[both_ways(cable.clone()), both_ways(cable)]);
    let up = world.add(Work::Upload(Some(5_000_000)));
    world.engine.run_until(secs(32));
    assert!(world.engine.log(up).end.is_none());
    let at = world.finish(up, 60);
    // 5 MB less what crossed before, at 20 Mbit/s, and a probe interval.
    assert!(at < secs(36), "{at:?}");
    assert!(world.engine.status(world.b).peers[0].up);
}

/// Nothing comes back by the first of two lanes back, or it is two-way by a configuration that nobody at the other end has: once
/// up, the peer stays up at both ends.
#[test]
fn a_dead_lane_beside_a_working_one_takes_no_peer_down() {
    let mut dead = direction(5, 20, 100_000);
    dead.outages = vec![(Instant::ZERO, Instant::from_secs(1_000_000))];
    let fine = || direction(5, 20, 100_000);
    for (name, first) in [("one way back", Ways::Reverse), ("both ways", Ways::Both)] {
        for seed in 1..=6 {
            let mut silent = CableConfig::symmetric(fine());
            silent.reverse = dead.clone();
            let radio = (CableConfig::symmetric(fine()), Ways::Forward);
            let modem = (CableConfig::symmetric(fine()), Ways::Reverse);
            let cables =
                if first == Ways::Both { vec![(silent, first), modem] } else { vec![radio, (silent, first), modem] };
            let mut world = World::new(seed, &cables);
            let mut changes = Vec::new();
            let mut was = [false; 2];
            for ms in (0..40_000).step_by(50) {
                world.engine.run_until(Instant::from_millis(ms));
                let up = [world.a, world.b].map(|node| world.engine.status(node).peers[0].up);
                if up != was {
                    changes.push((ms, up));
                    was = up;
                }
            }
            assert!(was == [true; 2] && changes.len() <= 2, "{name}, seed {seed}: {changes:?}");
        }
    }
}

/// Of two lanes that are both two-way by configuration one carries nothing there and the other nothing back: so keys have to be
/// renewed, and sessions to begin.
#[test]
fn two_lanes_that_fail_in_one_direction_each_are_a_link() {
    let never = Instant::from_secs(1_000_000);
    for (from, until, renewed) in [(5, 420, true), (0, 30, false)] {
        for order in [0, 1] {
            let [mut x, mut y] = [20, 40].map(|ms| CableConfig::symmetric(direction(1, ms, 50_000)));
            x.forward.outages = vec![(secs(from), never)];
            y.reverse.outages = vec![(secs(from), never)];
            let mut cables = [(x, Ways::Both), (y, Ways::Both)];
            cables.rotate_left(order);
            let mut world = World::new(1, &cables);
            let up = world.add(Work::Upload(None));
            world.engine.run_until(secs(from + 5));
            let mut before = world.engine.log(up).octets;
            for end in (from + 10..=until).step_by(5) {
                world.engine.run_until(secs(end));
                let octets = world.engine.log(up).octets;
                let told =
                    format!("out from {from} s, order {order}: {} octets in the 5 s until {end} s", octets - before);
                // 5 s of 1 Mbit/s with headers are 600,000.
                assert!(octets - before >= 500_000, "{told}");
                before = octets;
            }
            // Keys die at 180 s.
            assert_eq!(world.engine.now() > secs(2 * 180), renewed);
        }
    }
}

#[test]
fn a_metered_lane_carries_only_without_others() {
    let mut plain = direction(10, 20, 100_000);
    plain.outages = vec![(secs(60), secs(70))];
    for order in [0, 1] {
        let mut cables = [both_ways(plain.clone()), both_ways(direction(2, 20, 50_000))];
        cables.rotate_left(order);
        let (plain, metered) = (order, 1 - order);
        let mut world = World::with(1, &cables, |peer| peer.lanes[metered].knobs.metered = true);
        let up = world.add(Work::Upload(None));
        let every = Span::from_millis(100);
        world.add(Work::Echo { every, random: false, size: 64, during: None });
        let mut at = |s: u64| {
            world.engine.run_until(secs(s));
            (world.delivered(), world.engine.log(up).octets, world.engine.status(world.a).peers[0].lanes[metered].spare)
        };
        let ((start, _, _), (before, octets_before, spare)) = (at(2), at(60));
        // Two questions in a minute whether it is there, and what its handshakes need.
        assert!(spare && before[metered] - start[metered] < 1_000, "{start:?} {before:?}");
        assert!(before[plain] - start[plain] > 58 * 1_100_000, "{before:?}");
        let (during, octets_during, spare) = at(70);
        assert!(!spare && octets_during - octets_before > 9 * 200_000, "{during:?}");
        at(72);
        let ((back, _, spare), (after, _, _)) = (at(73), at(90));
        assert!(spare && after[metered] - back[metered] < 1_000, "{back:?} {after:?}");
        assert!(after[plain] - back[plain] > 17 * 1_100_000, "{after:?}");
    }
}

/// What one end says of its lane holds for the way back too: the other end, whose file says nothing of it, spares it, uses it while nothing
/// else works, and goes on sparing it when its peer has been out.
#[test]
fn a_lane_that_is_metered_at_one_end_is_spared_by_the_other() {
    let mut plain = direction(10, 20, 100_000);
    plain.outages = vec![(secs(30), secs(40))];
    for order in [0, 1] {
        let mut cables = [both_ways(plain.clone()), both_ways(direction(2, 20, 50_000))];
        cables.rotate_left(order);
        let (plain, metered) = (order, 1 - order);
        let mut world = World::with_sides(1, &cables, |side, peer| peer.lanes[metered].knobs.metered = side == 1);
        let down = world.add(Work::Download(None));
        let mut at = |s: u64| {
            world.engine.run_until(secs(s));
            let lanes = &world.engine.status(world.b).peers[0].lanes;
            let bytes: Vec<u64> = lanes.iter().map(|lane| lane.delivered_bytes).collect();
            (
                bytes,
                world.engine.log(down).octets,
                lanes[metered].spare && lanes[metered].metered_there,
                lanes[plain].metered,
            )
        };
        let ((start, ..), (before, octets_before, spare, wrong)) = (at(2), at(30));
        assert!(spare && !wrong && before[metered] - start[metered] < 1_000, "{start:?} {before:?}");
        assert!(before[plain] - start[plain] > 27 * 1_100_000, "{before:?}");
        let (during, octets_during, spare, _) = at(40);
        assert!(!spare && octets_during - octets_before > 9 * 200_000, "{during:?}");
        at(42);
        let ((back, _, spare, _), (after, ..)) = (at(43), at(60));
        assert!(spare && after[metered] - back[metered] < 1_000, "{back:?} {after:?}");
    }
}

/// It is asked every 25 s, and twice more a second apart where nothing answers.
#[test]
fn a_metered_lane_that_goes_while_in_reserve_is_known_to_have_gone() {
    for at in [30, 41, 52] {
        let mut metered = direction(2, 20, 50_000);
        metered.outages = vec![(secs(at), secs(200))];
        let mut world = World::with(1, &[both_ways(direction(10, 20, 100_000)), both_ways(metered)], |peer| {
            peer.lanes[1].knobs.metered = true;
        });
        let every = Span::from_millis(100);
        world.add(Work::Echo { every, random: false, size: 64, during: None });
        let works = |world: &mut World, s: u64| {
            world.engine.run_until(secs(s));
            world.engine.status(world.a).peers[0].lanes[1].works
        };
        assert!(works(&mut world, at));
        assert!(!works(&mut world, at + 28), "out from {at} s");
    }
}

/// One that takes no bulk is no reason to keep the metered lane in reserve.
#[test]
fn bulk_uses_a_metered_lane_if_no_other_may() {
    for order in [0, 1] {
        let mut cables = [both_ways(direction(10, 20, 100_000)), both_ways(direction(2, 20, 50_000))];
        cables.rotate_left(order);
        let (narrow, metered) = (order, 1 - order);
        let mut world = World::with(1, &cables, |peer| {
            peer.lanes[narrow].knobs.bulk = false;
            peer.lanes[metered].knobs.metered = true;
        });
        let up = world.add(Work::Upload(None));
        world.engine.run_until(secs(20));
        let octets = world.engine.log(up).octets;
        assert!(octets > 15 * 200_000, "{octets} by the metered lane of 2 Mbit/s");
    }
}

#[test]
fn pinned_lanes_fall_back_and_return() {
    let mut gone = direction(2, 50, 50_000);
    gone.outages = vec![(secs(10), secs(20))];
    for (choice, falls_back) in [(Choice::Pinned, false), (Choice::PinnedFallback, true)] {
        let cables = [both_ways(gone.clone()), both_ways(direction(10, 20, 100_000))];
        let mut world = World::with(1, &cables, |peer| peer.choice = choice);
        let up = world.add(Work::Upload(None));
        let mut at = |s: u64| {
            world.engine.run_until(secs(s));
            (world.delivered(), world.engine.log(up).octets)
        };
        let (before, _) = at(10);
        assert!(before[0] > 1_800_000 && before[1] < 30_000, "{choice:?} {before:?}");
        let ((_, early), (during, late)) = (at(12), at(20));
        assert_eq!(late - early > 7 * 1_000_000, falls_back, "{choice:?} {during:?}");
        assert_eq!(late == early, !falls_back, "{choice:?} {during:?}");
        let ((early, _), (late, _)) = (at(22), at(30));
        assert!(late[0] - early[0] > 7 * 230_000 && late[1] - early[1] < 3_000, "{choice:?} {early:?} {late:?}");
    }
}

#[test]
fn small_exchanges_take_the_short_path_and_bulk_the_long() {
    let cables = [both_ways(slow(200_000, 20)), both_ways(direction(20, 250, 1_500_000))];
    let mut world = World::with(1, &cables, |peer| {
        peer.choice = Choice::Pinned;
        peer.lanes[0].knobs.bulk = false;
    });
    let up = world.add(Work::Upload(None));
    let every = Span::from_millis(100);
    let echo = world.add(Work::Echo { every, random: false, size: 64, during: None });
    world.engine.run_until(secs(20));
    let before = world.engine.log(up).octets;
    world.engine.run_until(secs(40));
    let goodput = (world.engine.log(up).octets - before) as f64 * 8.0 / 20.0;
    let mut trips: Vec<Span> =
        world.engine.log(echo).questions.iter().filter_map(|q| Some(q.answered?.since(q.due))).collect();
    trips.sort_unstable();
    let typical = trips[trips.len() / 2];
    println!("{goodput:.0} bit/s, echo {typical}");
    assert!(goodput > 17e6 && typical < Span::from_millis(80), "{goodput:.0} bit/s, echo {typical}");
}

/// Lanes limited to bulk leave small exchanges to slower ones, and carry them while no other does.
#[test]
fn small_exchanges_keep_off_a_lane_that_is_for_bulk() {
    let mut slower = direction(2, 60, 50_000);
    slower.outages = vec![(secs(20), secs(40))];
    for choice in [Choice::Bond, Choice::PinnedFallback] {
        let cables = [both_ways(direction(20, 10, 100_000)), both_ways(slower.clone())];
        let mut world = World::with(1, &cables, |peer| {
            peer.choice = choice;
            peer.lanes[0].knobs.small = false;
        });
        let up = world.add(Work::Upload(None));
        let every = Span::from_millis(100);
        let echo = world.add(Work::Echo { every, random: false, size: 64, during: None });
        world.engine.run_until(secs(5));
        let before = world.engine.log(up).octets;
        world.engine.run_until(secs(20));
        let goodput = (world.engine.log(up).octets - before) as f64 * 8.0 / 15.0;
        world.engine.run_until(secs(50));
        let typical = |from: u64, until: u64| {
            let asked = world.engine.log(echo).questions.iter();
            let asked = asked.filter(|q| q.due >= secs(from) && q.due < secs(until));
            let mut trips: Vec<Span> = asked.filter_map(|q| Some(q.answered?.since(q.due))).collect();
            trips.sort_unstable();
            trips[trips.len() / 2]
        };
        let (beside, alone, again) = (typical(5, 20), typical(22, 40), typical(42, 50));
        println!("{choice:?}: {goodput:.0} bit/s, echo {beside}, {alone} while the other is out, {again}");
        assert!(goodput > 17e6, "{choice:?}: {goodput:.0} bit/s");
        let long = Span::from_millis(120);
        assert!(beside >= long && alone < long && again >= long, "{choice:?}: {beside} {alone} {again}");
    }
}

#[test]
fn a_scenarios_links_say_how_channels_are_used() {
    let octets = |link: &str| {
        let text = format!(
            "duration = \"20 s\"\nstacks = [\"wavelane\"]\nnodes = {{ c = \"endpoint\", a = \"gateway\", b = \"gateway\", s = \"endpoint\" }}\n\
             channels = {{ near = {{ preset = \"ethernet\", between = [\"c\", \"a\"] }}, far = {{ preset = \"ethernet\", between = [\"b\", \"s\"] }}, \
             modem = {{ between = [\"a\", \"b\"], forward = {{ rate = \"400 kbit/s\", delay = \"10 ms\", queue = \"20 kB\" }}, reverse = \"same\" }}, \
             radio = {{ between = [\"a\", \"b\"], forward = {{ rate = \"2 Mbit/s\", delay = \"10 ms\", queue = \"50 kB\" }}, reverse = \"same\" }} }}\n\
             flows = {{ up = {{ app = \"upload\", from = \"c\", to = \"s\" }} }}\n{link}\n"
        );
        let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
        let raw = crate::common::run_scenario(&scenario, scenario.stacks[0], 1);
        wavelane_run::figures::of_run(&scenario, &raw, scenario.seed)[0].bytes
    };
    // 400 kbit/s are 1.0 MB in 20 s and 2 Mbit/s are 5.0.
    let (slow, fast, both) = (700_000..1_000_000, 4_000_000..5_000_000, 5_000_000..6_000_000);
    for (link, range) in [
        ("", &both),
        ("lanes = [\"modem\"]\nchoice = \"pinned\"", &slow),
        ("lanes = [\"radio\"]\nchoice = \"pinned\"", &fast),
        ("lanes = [\"radio\"]\nchoice = \"delivery-1998\"", &fast),
        ("lanes = [\"radio\"]\nmetered = [\"radio\"]", &slow),
        ("lanes = [\"radio\"]\nno-bulk = [\"modem\"]", &fast),
        ("lanes = [\"radio\"]\nno-bulk = [\"modem\"]\nno-small = [\"radio\"]", &fast),
    ] {
        let link = if link.is_empty() { String::new() } else { format!("[links.up]\n{link}") };
        let octets = octets(&link);
        println!("{octets} B: {link}");
        assert!(range.contains(&octets), "{octets} B, not {range:?}: {link}");
    }
}

/// S0-E14: a radio that delivers 100, 30 and again 100 % towards the campus beside a modem; 300 B five times a second.
#[test]
fn the_modem_replaces_a_radio_that_fails() {
    let phases = [(0, 60, 0, true), (60, 180, 70, false), (180, 240, 0, true)];
    // What it takes to come back, at a probe a second.
    const HYSTERESIS: u64 = 20;
    for seed in 1..=5 {
        let cables = [both_ways(direction(2, 5, 50_000)), both_ways(slow(33_600, 50))];
        let mut world = World::with(seed, &cables, |peer| peer.choice = Choice::Delivery1998);
        let every = Span::from_millis(200);
        world.add(Work::Echo { every, random: false, size: 300, during: None });
        let mut switches: Vec<Instant> = Vec::new();
        let mut was = true;
        for (from, until, lost, radio) in phases {
            let loss = if lost == 0 { LossConfig::None } else { random_loss(lost, 100) };
            world.engine.set(world.cables[0], Direction::Forward, Parameter::Loss(loss)).unwrap();
            let mut carried = [0, 0];
            for step in from * 10..until * 10 {
                let now = Instant::from_millis((step + 1) * 100);
                let before = world.delivered();
                world.engine.run_until(now);
                let lanes = &world.engine.status(world.a).peers[0].lanes;
                assert!(lanes[0].spare != lanes[1].spare, "one of the two");
                if was == lanes[0].spare {
                    was = !was;
                    switches.push(now);
                }
                // Half of a window of fates, or as many probes as it takes.
                if now.since(secs(from)) > Span::from_secs(if from == 0 { 0 } else { HYSTERESIS + 5 }) {
                    assert_eq!(was, radio, "seed {seed} at {now:?}");
                    let after = world.delivered();
                    (0..2).for_each(|lane| carried[lane] += after[lane] - before[lane]);
                }
            }
            let (used, other) = if radio { (carried[0], carried[1]) } else { (carried[1], carried[0]) };
            // Five of 300 B a second; on the other a probe a second.
            assert!(used > 10 * other, "seed {seed} from {from} s: {carried:?}");
        }
        assert!(switches.windows(2).all(|pair| pair[1].since(pair[0]) > Span::from_secs(HYSTERESIS)), "{switches:?}");
        assert_eq!(switches.len(), 2, "{switches:?}");
    }
}

/// The channels have one direction each, and no stack needs more.
#[test]
fn every_stack_goes_out_by_one_channel_and_back_by_another() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/links/one-way.toml");
    let text = std::fs::read_to_string(&path).unwrap().replace("60 s", "20 s");
    let scenario = Scenario::parse(&text, path.parent().unwrap()).unwrap();
    assert_eq!(scenario.stacks.len(), 3);
    for stack in &scenario.stacks {
        let cancelled = AtomicBool::new(false);
        let mut quiet = |_| {};
        let mut context = RunContext {
            out: Path::new("."),
            label: "x".to_owned(),
            captures: wavelane_run::CaptureExtent::Off,
            progress: &mut quiet,
            cancelled: &cancelled,
        };
        let raw = SimBackend.run_stack(&scenario, *stack, scenario.seed, &mut context).unwrap();
        let octets = wavelane_run::figures::of_run(&scenario, &raw, scenario.seed)[0].bytes;
        // 2 Mbit/s less headers, and a second of it to begin.
        assert!((4_300_000..4_900_000).contains(&octets), "{stack:?}: {octets}");
    }
}

/// The other goes on with what was on its way, however slow both are.
#[test]
fn a_failed_thin_lane_loses_nothing() {
    for seed in 1..=3 {
        let mut gone = slow(33_600, 50);
        gone.outages = vec![(secs(10), secs(60))];
        let mut world = World::new(seed, &[both_ways(slow(33_600, 50)), both_ways(gone)]);
        let up = world.add(Work::Upload(None));
        world.engine.run_until(secs(10));
        let mut before = world.engine.log(up).octets;
        for until in (15..=60).step_by(5) {
            world.engine.run_until(secs(until));
            let octets = world.engine.log(up).octets;
            let told = format!("seed {seed}, {} octets in the 5 s until {until} s", octets - before);
            println!("{told}: {:?}", world.engine.status(world.a).peers[0].lanes);
            // A third of what one lane carries; of the first seconds less.
            assert!(octets - before >= if until > 15 { 7_000 } else { 1 }, "{told}");
            before = octets;
        }
        // Both again: nothing that was late for the outage is held against a slow lane.
        world.engine.run_until(secs(70));
        let before = world.engine.log(up).octets;
        world.engine.run_until(secs(90));
        let bps = (world.engine.log(up).octets - before) as f64 * 8.0 / 20.0;
        assert!(bps >= 1.4 * 33_600.0, "seed {seed}: {bps:.0} bit/s");
    }
}

/// A reader waits for what was in flight on it, but not for what left after the failure.
#[test]
fn a_thin_lane_is_left_within_seconds() {
    for (start, most) in [(10_000, 1_700), (20_000, 3_300), (30_000, 3_300), (60_000, 3_500), (90_000, 3_700)] {
        for seed in 1..=3 {
            let mut gone = slow(33_600, 50);
            gone.queue = QueueLimit::Octets(Octets::new(16_000));
            let there = gone.clone();
            gone.outages = vec![(Instant::from_millis(start), Instant::from_millis(start + 30_000))];
            let mut world = World::new(seed, &[both_ways(there), both_ways(gone)]);
            let up = world.add(Work::Upload(None));
            world.engine.run_until(Instant::from_millis(start - 200));
            let (mut octets, mut since, mut longest) = (0, start - 200, 0);
            for at in (start - 190..start + 35_000).step_by(10) {
                world.engine.run_until(Instant::from_millis(at));
                let now = world.engine.log(up).octets;
                if now > octets {
                    longest = longest.max(at - since);
                    octets = now;
                    since = at;
                }
            }
            println!("out after {start} ms, seed {seed}: the longest pause is {longest} ms");
            assert!(longest <= most, "out after {start} ms, seed {seed}: {longest} ms");
        }
    }
}

/// What is guessed of a lane that has carried nothing is far below what the other carries, and is found to be wrong.
#[test]
fn an_unmeasured_lane_is_tried_beside_a_faster_one() {
    let mut world = World::new(1, &[both_ways(direction(120, 10, 300_000)), both_ways(direction(20, 10, 100_000))]);
    let got = world.goodput(2, 4);
    assert!(got >= 1.1 * 120e6 * 1_437.0 / 1_500.0, "{got:.0} bit/s");
}

/// Small exchanges go by both lanes, so that a fade of the faster one is none of theirs; what that costs is bounded.
#[test]
fn an_echo_beside_fades_is_as_quick_as_over_the_calm_lane_alone() {
    let mut fading = direction(20, 20, 100_000);
    fading.loss = LossConfig::GilbertElliott {
        good: Span::from_secs(5),
        bad: Span::from_millis(500),
        in_good: Ratio::ZERO,
        in_bad: Ratio::ONE,
        per: PerUnit::Packet,
    };
    let calm = || both_ways(direction(5, 20, 50_000));
    let p95 = |cables: &[(CableConfig, Ways)], seed| {
        let mut world = World::new(seed, cables);
        world.add(Work::Upload(None));
        let every = Span::from_millis(50);
        let echo = world.add(Work::Echo { every, random: false, size: 64, during: None });
        world.engine.run_until(secs(60));
        let asked = world.engine.log(echo).questions.iter().filter(|q| q.due >= secs(5) && q.due < secs(58));
        let mut trips: Vec<Span> = asked.map(|q| q.answered.map_or(secs(60), |at| at).since(q.due)).collect();
        trips.sort_unstable();
        let cost = world.engine.status(world.a).counters.iter().find(|c| c.0 == "lane_double_octets").unwrap().1;
        (trips[trips.len() * 95 / 100], cost)
    };
    for seed in 1..4 {
        let (alone, none) = p95(&[calm()], seed);
        let (both, cost) = p95(&[both_ways(fading.clone()), calm()], seed);
        println!("seed {seed}: calm alone {alone}, both {both}, {cost} octets of copies");
        assert!(both <= alone.scale(11, 10) + Span::from_millis(5), "seed {seed}: {both} beside {alone}");
        // A twentieth of 5 Mbit/s for a minute.
        assert!(none == 0 && cost > 50_000 && cost < 1_875_000, "{none} {cost}");
    }
}

/// Slow lanes that work are seldom taken for failed, whatever their queues, jitter, losses and acks do: data would be sent twice.
#[test]
fn slow_lanes_that_work_are_seldom_taken_for_failed() {
    for (kbit, jitter_ms, loss) in [(10, 0, 0), (34, 0, 0), (34, 200, 0), (34, 0, 5), (128, 60, 2), (400, 30, 1)] {
        let lane = |delay_ms| {
            let mut lane = slow(kbit * 1_000, delay_ms);
            lane.queue = QueueLimit::Octets(Octets::new(16_000));
            lane.jitter = Span::from_millis(jitter_ms);
            if loss > 0 {
                lane.loss = random_loss(loss, 100);
            }
            both_ways(lane)
        };
        for seed in 1..=3 {
            let mut world = World::new(seed, &[lane(50), lane(80)]);
            let up = world.add(Work::Upload(None));
            world.add(Work::Echo { every: Span::from_millis(500), random: false, size: 64, during: None });
            world.engine.run_until(secs(60));
            let down = world.add(Work::Download(None));
            let mut failed = [0; 2];
            for at in (60_000..240_000).step_by(50) {
                world.engine.run_until(Instant::from_millis(at));
                for (node, count) in [world.a, world.b].into_iter().zip(&mut failed) {
                    *count += world.engine.status(node).peers[0].lanes.iter().filter(|lane| !lane.works).count();
                }
            }
            let name = format!("{kbit} kbit/s, jitter {jitter_ms} ms, loss {loss} %, seed {seed}");
            let octets = [up, down].map(|flow| world.engine.log(flow).octets);
            println!("{name}: failed in {failed:?} of 7200 samples, {octets:?} octets");
            // Most when the download begins: its first window delays the acks by seconds.
            assert!(failed.iter().sum::<usize>() <= 7_200 * 3 / 100, "{name}: {failed:?}");
        }
    }
}

/// The lane that carries the acks fails: the other is not taken for failed too because its acks left by that one.
#[test]
fn a_failed_lane_takes_no_acks_of_the_other_with_it() {
    let (mut failed, mut longest) = (0, Span::ZERO);
    const CUTS: u64 = 24;
    for cut in 0..CUTS {
        let at = 5_000 + cut * 37;
        let mut gone = direction(4, 30, 50_000);
        gone.outages = vec![(Instant::from_millis(at), secs(60))];
        // Either place: the lane that is first for acks is not always the first configured.
        let mut cables = [both_ways(gone), both_ways(direction(4, 30, 50_000))];
        if cut % 2 == 1 {
            cables.reverse();
        }
        let other = 1 - (cut % 2) as usize;
        let mut world = World::new(cut, &cables);
        let up = world.add(Work::Upload(None));
        let echo = world.add(Work::Echo { every: Span::from_millis(50), random: false, size: 64, during: Some(up) });
        for ms in (at..at + 1_500).step_by(10) {
            world.engine.run_until(Instant::from_millis(ms));
            let at_fault = |node| !world.engine.status(node).peers[0].lanes[other].works;
            if at_fault(world.a) || at_fault(world.b) {
                failed += 1;
                break;
            }
        }
        world.engine.run_until(Instant::from_millis(at + 3_000));
        let asked = &world.engine.log(echo).questions;
        let waits = asked
            .iter()
            .filter(|q| q.due >= Instant::from_millis(at - 500))
            .filter_map(|q| Some(q.answered?.since(q.due)));
        longest = longest.max(waits.max().unwrap_or(Span::ZERO));
    }
    println!("{failed} of {CUTS} cuts took the other lane with them; the longest echo took {longest}");
    assert!(failed <= CUTS / 12, "{failed} of {CUTS}");
}
