//! Outages that a configuration knows of: soon tried, and no congestion.

use super::world::{Way, World, address};
use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use wavelane_base::Streams;
use wavelane_settings::Freeze;
use wavelane_wire::tcp::{TcpHeader, TcpPacket};

/// A transfer during which nothing crosses for `outage`: its cwnd before and after, and how long after the outage the first answer came.
fn over(config: &Config, outage: Span) -> (u64, u64, Span) {
    let peer = Config { receive_buffer: 64 << 20, receive_window_initial: None, ..Config::default() };
    let config = Config { send_buffer: 64 << 20, ..config.clone() };
    let mut world = World::new([config, peer], [Way::clean(20, 10, 60_000); 2], 7);
    let flows = world.open(Instant::from_millis(200));
    // More than crosses meanwhile.
    let now = world.now;
    assert_eq!(Streams::write(&mut world.hosts[0], now, flows[0], &vec![7; 50 << 20]), 50 << 20);
    let from = Instant::from_millis(2_000);
    world.run(from);
    let cwnd = |world: &World| world.hosts[0].status(flows[0]).unwrap().cwnd;
    let before = cwnd(&world);
    world.filter = Some(|_, _, _| true);
    let end = from + outage;
    world.run(end);
    world.filter = None;
    let una = world.hosts[0].connection(flows[0]).unwrap().undelivered().unwrap();
    while world.hosts[0].connection(flows[0]).unwrap().undelivered() == Some(una) {
        assert!(world.step(end + Span::from_secs(60)));
    }
    (before, cwnd(&world), world.now.since(end))
}

#[test]
fn after_an_outage_it_goes_on_within_a_probe_with_the_window_it_had() {
    for congestion in [CongestionControl::Cubic, CongestionControl::NewReno, CongestionControl::Bbr] {
        let usual = Config::linux(congestion);
        let known = Config { probe: Some(Span::from_millis(200)), ..usual.clone() };
        for outage in [2_100, 16_000, 120_000].map(Span::from_millis) {
            let (before, after, late) = over(&known, outage);
            // Tries are no more than a 128th of the outage apart.
            let apart = Span::from_millis(200).max(outage.scale(1, 128));
            let bound = apart + Span::from_millis(20) + Span::from_millis(20).scale(6, 5);
            assert!(late <= bound, "{congestion:?}: {late} after {outage}");
            assert!(after * 10 >= before * 9, "{congestion:?}: {after} of {before} after {outage}");
        }
        let (.., late) = over(&usual, Span::from_secs(16));
        assert!(late > Span::from_secs(1), "{congestion:?} without: {late}");
    }
}

/// Of many on a side that is out only one tries, and with the first that is heard of it all go on, as with a link that comes up.
#[test]
fn one_tries_and_all_go_on() {
    const MANY: u16 = 50;
    for link in [false, true] {
        let known = Config { probe: Some(Span::from_millis(200)), ..Config::default() };
        let mut world = World::new([known, Config::default()], [Way::clean(100, 5, 1_000_000); 2], 3);
        let now = |world: &World| world.now;
        let mut flows = Vec::new();
        for n in 0..MANY {
            let from = std::net::SocketAddr::new(address(0).ip(), 40_000 + n);
            let limit = now(&world) + Span::from_secs(1);
            world.events[1].clear();
            flows.push(world.open_between(from, address(1), limit)[0]);
        }
        world.filter = Some(|_, _, _| true);
        for flow in &flows {
            let at = now(&world);
            assert_eq!(Streams::write(&mut world.hosts[0], at, *flow, &[1; 1_000]), 1_000);
        }
        let out = now(&world) + Span::from_secs(30);
        world.run(out);
        let before = world.dropped;
        world.run(out + Span::from_secs(2));
        // Those of the one that tries, and what others retransmit in their own time.
        assert!((8..=9 + u64::from(MANY)).contains(&(world.dropped - before)), "{}", world.dropped - before);
        world.filter = None;
        let back = now(&world);
        if link {
            world.hosts[0].call_back(back);
        }
        world.run(back + Span::from_millis(if link { 15 } else { 260 }));
        let waiting =
            flows.iter().filter(|flow| world.hosts[0].connection(**flow).unwrap().undelivered().is_some()).count();
        assert_eq!(waiting, 0, "link {link}");
    }
}

/// The link comes up again and again and nothing crosses: that is one outage, whose tries are no measure of its length.
#[test]
fn an_outage_that_seems_over_ends_no_connection() {
    let known = Config { probe: Some(Span::from_millis(200)), ..Config::default() };
    let mut world = World::new([known, Config::default()], [Way::clean(100, 5, 1_000_000); 2], 5);
    let flow = world.open(Instant::from_millis(200))[0];
    world.filter = Some(|_, _, _| true);
    let from = world.now;
    assert_eq!(Streams::write(&mut world.hosts[0], from, flow, &[1; 1_000]), 1_000);
    for second in [8, 9, 20, 60] {
        let at = from + Span::from_secs(second);
        world.run(at);
        world.hosts[0].call_back(at);
    }
    let at = from + Span::from_secs(80);
    world.run(at);
    world.filter = None;
    world.hosts[0].call_back(at);
    world.run(at + Span::from_secs(1));
    assert_eq!(world.hosts[0].connection(flow).and_then(|c| c.undelivered()), None);
    assert!(world.hosts[0].status(flow).is_some(), "the connection was given up");
}

/// Two addresses of one side: the second is out while the first is heard every 20 ms, or only once a second.
fn beside_another(every: Span, flows: u16, dropped_max: u64) {
    const OUT: &str = "192.0.2.3:80";
    let out: std::net::SocketAddr = OUT.parse().unwrap();
    let known = Config { probe: Some(Span::from_millis(200)), ..Config::default() };
    let mut world = World::new([known, Config::default()], [Way::clean(100, 5, 1_000_000); 2], 3);
    world.hosts[1].listen(out);
    let limit = Instant::from_secs(5);
    let busy = world.open_between(address(0), address(1), limit)[0];
    let mut lost = Vec::new();
    for n in 0..flows {
        world.events[1].clear();
        lost.push(world.open_between(std::net::SocketAddr::new(address(0).ip(), 41_000 + n), out, limit)[0]);
    }
    world.filter = Some(|_, segment, _| segment.target.ip() == OUT.parse::<std::net::SocketAddr>().unwrap().ip());
    let from = world.now;
    for flow in &lost {
        assert_eq!(Streams::write(&mut world.hosts[0], from, *flow, &[1; 1_000]), 1_000);
    }
    while world.now < from + Span::from_secs(16) {
        let now = world.now;
        assert_eq!(Streams::write(&mut world.hosts[0], now, busy, &[1; 100]), 100);
        world.run(now + every);
    }
    assert!(world.dropped <= dropped_max, "{} tries of {flows}", world.dropped);
    world.filter = None;
    let back = world.now;
    world.run(back + Span::from_millis(240));
    let waiting = lost.iter().filter(|flow| world.hosts[0].connection(**flow).unwrap().undelivered().is_some()).count();
    assert_eq!(waiting, 0, "of {flows}");
}

/// One client out beside others goes on as soon as it is back, and that costs a try every 0.2 s, whatever the others send.
#[test]
fn an_address_that_is_out_beside_others_is_tried_by_itself() {
    // Five tries a second, and what others retransmit in their own time.
    let (often, own) = (16 * 5, 12);
    for (every, flows) in [(20, 1), (20, 50), (1_000, 50)] {
        beside_another(Span::from_millis(every), flows, often + own * u64::from(flows));
    }
}

/// Connections that are gone by themselves, and addresses where nobody is any more, take the tries from none that live: after an outage of
/// the whole side all go on as soon as without them.
#[test]
fn the_dead_take_no_tries_from_the_living() {
    const DEAD: u16 = 41_000;
    const LIVING: u16 = 42_000;
    let gone: std::net::SocketAddr = "192.0.2.1:80".parse().unwrap();
    let known = Config { probe: Some(Span::from_millis(200)), ..Config::default() };
    let mut world = World::new([known, Config::default()], [Way::clean(100, 5, 1_000_000); 2], 3);
    world.hosts[1].listen(gone);
    let limit = Instant::from_secs(5);
    let open = |world: &mut World, port: u16, to| {
        world.events[1].clear();
        world.open_between(std::net::SocketAddr::new("192.0.2.9".parse().unwrap(), port), to, limit)[0]
    };
    let mut dead: Vec<_> = (0..5).map(|n| open(&mut world, DEAD + n, address(1))).collect();
    dead.push(open(&mut world, DEAD + 9, gone));
    let living: Vec<_> = (0..20).map(|n| open(&mut world, LIVING + n, address(1))).collect();
    world.filter = Some(|_, segment, _| (DEAD..LIVING).contains(&segment.source.port().max(segment.target.port())));
    for flow in &dead {
        let now = world.now;
        assert_eq!(Streams::write(&mut world.hosts[0], now, *flow, &[1; 1_000]), 1_000);
    }
    // The side is heard meanwhile.
    for _ in 0..600 {
        let now = world.now;
        assert_eq!(Streams::write(&mut world.hosts[0], now, living[0], &[1; 100]), 100);
        world.run(now + Span::from_millis(100));
    }
    world.filter = Some(|_, _, _| true);
    let from = world.now;
    for flow in &living {
        assert_eq!(Streams::write(&mut world.hosts[0], from, *flow, &[1; 1_000]), 1_000);
    }
    world.run(from + Span::from_secs(33));
    world.filter = Some(|_, segment, _| (DEAD..LIVING).contains(&segment.source.port().max(segment.target.port())));
    let back = world.now;
    // Tries are a 128th of the outage apart.
    world.run(back + Span::from_millis(300));
    let waiting = |world: &World, flows: &[wavelane_base::FlowId]| {
        flows.iter().filter(|flow| world.hosts[0].connection(**flow).unwrap().undelivered().is_some()).count()
    };
    assert_eq!((waiting(&world, &living), waiting(&world, &dead)), (0, 6));
}

/// Of more addresses than may try at once, while others of their side are heard, each has its turn.
#[test]
fn of_many_silent_addresses_each_has_its_turn() {
    const MANY: u8 = 200;
    let known = Config { probe: Some(Span::from_millis(200)), ..Config::default() };
    let mut world = World::new([known, Config::default()], [Way::clean(100, 5, 1_000_000); 2], 3);
    let limit = Instant::from_secs(5);
    let busy = world.open_between(address(0), address(1), limit)[0];
    let mut lost = Vec::new();
    for n in 0..MANY {
        let out = std::net::SocketAddr::new([198, 51, 100, n].into(), 80);
        world.hosts[1].listen(out);
        world.events[1].clear();
        lost.push(world.open_between(std::net::SocketAddr::new(address(0).ip(), 41_000), out, limit)[0]);
    }
    world.filter = Some(|_, segment, _| segment.source.port().max(segment.target.port()) == 41_000);
    let from = world.now;
    for flow in &lost {
        assert_eq!(Streams::write(&mut world.hosts[0], from, *flow, &[1; 1_000]), 1_000);
    }
    let chat = |world: &mut World, until: Instant| {
        while world.now < until {
            let now = world.now;
            assert_eq!(Streams::write(&mut world.hosts[0], now, busy, &[1; 100]), 100);
            world.run(now + Span::from_millis(20));
        }
    };
    chat(&mut world, from + Span::from_secs(16));
    // Five tries a second of each that has its turn, and what all retransmit in their own time.
    assert!(world.dropped <= 16 * 5 * 64 + 200 * 12, "{} tries", world.dropped);
    world.filter = None;
    let back = world.now;
    chat(&mut world, back + Span::from_millis(1_000));
    let waiting = lost.iter().filter(|flow| world.hosts[0].connection(**flow).unwrap().undelivered().is_some()).count();
    assert_eq!(waiting, 0);
}

/// Told of a gap, its receiver stops a sender and has it go on: cwnd before, once data crosses again, and how many losses that seemed.
fn over_a_gap(freeze: Freeze, congestion: CongestionControl, sack: bool) -> (u64, u64, u64) {
    let sender = Config { sack, ..Config::linux(congestion) };
    let receiver = Config { freeze: Some(freeze), sack, receive_buffer: 256 << 10, ..Config::default() };
    let mut world =
        World::new([Config { send_buffer: 64 << 20, ..sender }, receiver], [Way::clean(20, 20, 1_000_000); 2], 7);
    let flows = world.open(Instant::from_millis(200));
    let now = world.now;
    assert_eq!(Streams::write(&mut world.hosts[0], now, flows[0], &vec![7; 20 << 20]), 20 << 20);
    let read = |world: &mut World, until: Instant| {
        while world.now < until {
            let now = world.now;
            let mut buf = [0; 65_536];
            while matches!(
                Streams::read(&mut world.hosts[1], now, flows[1], &mut buf),
                wavelane_base::ReadOutcome::Data(_)
            ) {}
            world.run(now + Span::from_millis(5));
        }
    };
    read(&mut world, Instant::from_millis(2_000));
    let cwnd = |world: &World| world.hosts[0].status(flows[0]).unwrap().cwnd;
    let before = cwnd(&world);
    world.hosts[1].freeze();
    read(&mut world, Instant::from_millis(2_200));
    assert_eq!(world.hosts[0].status(flows[0]).unwrap().pipe, 0, "nothing is on its way");
    world.filter = Some(|_, _, _| true);
    let counters = |world: &World| world.hosts[0].status(flows[0]).unwrap().counters;
    let then = counters(&world);
    // Not longer than its timeout, after which an idle sender starts over (RFC 5681, section 4.1).
    read(&mut world, Instant::from_millis(2_250));
    world.filter = None;
    world.hosts[1].thaw();
    let back = world.now;
    read(&mut world, back + Span::from_millis(150));
    assert_eq!(counters(&world).timeouts, then.timeouts);
    (before, cwnd(&world), counters(&world).recoveries - then.recoveries)
}

#[test]
fn a_sender_told_of_a_gap_goes_on_with_its_window_or_with_half_of_it() {
    let (before, after, losses) = over_a_gap(Freeze::One, CongestionControl::Bbr, true);
    assert!(after * 10 >= before * 9 && losses == 0, "{after} of {before}, {losses} losses");
    let (.., losses) = over_a_gap(Freeze::One, CongestionControl::NewReno, false);
    assert_eq!(losses, 0);
    let (before, after, losses) = over_a_gap(Freeze::Three, CongestionControl::NewReno, false);
    assert!(after * 10 <= before * 6 && losses > 0, "{after} of {before}, {losses} losses");
}

/// What a silent connection sends, in octets on the wire.
static SENT: AtomicUsize = AtomicUsize::new(0);

/// One client that vanished leaves a thin line to the others: its tries are small, and the more rare the longer it is away.
#[test]
fn a_client_that_vanished_costs_a_thin_line_little() {
    let known = Config { probe: Some(Span::from_millis(200)), ..Config::default() };
    let mut world = World::new([known, Config::default()], [Way::clean(100, 5, 1_000_000); 2], 3);
    let flow = world.open(Instant::from_secs(5))[0];
    world.filter = Some(|_, segment, _| {
        SENT.fetch_add(40 + segment.payload.len(), Ordering::Relaxed);
        true
    });
    let from = world.now;
    assert_eq!(Streams::write(&mut world.hosts[0], from, flow, &[1; 50_000]), 50_000);
    for (until, kbit_per_second) in [(3, u64::MAX), (25, 3), (120, 2), (600, 1)] {
        let before = (world.now, SENT.load(Ordering::Relaxed));
        world.run(from + Span::from_secs(until));
        let octets = (SENT.load(Ordering::Relaxed) - before.1) as u64;
        let took = world.now.since(before.0).as_nanos() / 1_000_000_000 + 1;
        assert!(octets * 8 / 1_000 / took <= kbit_per_second, "{octets} octets in {took} s");
    }
}

/// Where small segments cross and long ones do not, and no router says so, that is no outage: segments become shorter.
#[test]
fn a_black_hole_is_not_taken_for_one_outage_after_another() {
    let known = Config { probe: Some(Span::from_millis(200)), ..Config::default() };
    let mut world = World::new([known, Config::default()], [Way::clean(100, 5, 1_000_000); 2], 3);
    let flows = world.open(Instant::from_secs(5));
    world.filter = Some(|_, segment, _| segment.payload.len() > 1_200);
    let end = world.transfer(flows, 0, 200_000, Instant::from_secs(60)).expect("a transfer");
    let status = world.hosts[0].status(flows[0]).unwrap();
    assert!(end <= Instant::from_secs(15), "{end:?}");
    // From 1,500 octets by way of 1,492 to 1,006 (RFC 1191, table 7-1).
    assert_eq!((status.counters.mtu_reductions, status.mss), (2, 1_006 - 52));
}

/// A program that asks an address each second, where many connections are dead, does not make all of these send each time.
#[test]
fn a_chat_with_an_address_does_not_wake_its_dead_connections_for_ever() {
    const DEAD: u16 = 20;
    let known = Config { probe: Some(Span::from_millis(200)), ..Config::default() };
    let mut world = World::new([known, Config::default()], [Way::clean(100, 5, 1_000_000); 2], 3);
    let limit = Instant::from_secs(5);
    let chat = world.open_between(address(0), address(1), limit)[0];
    let mut dead = Vec::new();
    for n in 0..DEAD {
        world.events[1].clear();
        let from = std::net::SocketAddr::new(address(0).ip(), 41_000 + n);
        dead.push(world.open_between(from, address(1), limit)[0]);
    }
    world.filter = Some(|_, segment, _| segment.source.port() >= 41_000);
    let from = world.now;
    for flow in &dead {
        assert_eq!(Streams::write(&mut world.hosts[0], from, *flow, &[1; 1_000]), 1_000);
    }
    for _ in 0..120 {
        let now = world.now;
        assert_eq!(Streams::write(&mut world.hosts[0], now, chat, &[1; 100]), 100);
        world.run(now + Span::from_secs(1));
    }
    // Four times at once, then each time twice as rarely, and by their own timeouts; one tries between two answers.
    assert!(world.dropped <= u64::from(DEAD) * 30 + 120 * 5, "{} of {DEAD} in 120 s", world.dropped);
    // The first that is heard of them after that goes on, and none was given up.
    world.filter = None;
    let back = world.now;
    world.run(back + Span::from_secs(60));
    let waiting = dead.iter().filter(|flow| world.hosts[0].connection(**flow).unwrap().undelivered().is_some()).count();
    assert_eq!(waiting, 0);
}

/// Whoever only knows the ends of a connection does not end its silence.
#[test]
fn numbers_that_fit_no_window_are_not_heard() {
    let known = Config { probe: Some(Span::from_millis(200)), ..Config::default() };
    let mut world = World::new([known, Config::default()], [Way::clean(100, 5, 1_000_000); 2], 3);
    let flow = world.open(Instant::from_secs(5))[0];
    world.filter = Some(|_, _, _| true);
    let from = world.now;
    assert_eq!(Streams::write(&mut world.hosts[0], from, flow, &[1; 1_000]), 1_000);
    // Its own timeout is many seconds away, and the next try a tenth of one.
    world.run(from + Span::from_secs(30));
    let repeats = |world: &World| world.hosts[0].status(flow).unwrap().counters.retransmits;
    let before = repeats(&world);
    for n in 0..50_u32 {
        let header = TcpHeader {
            seq: n.wrapping_mul(0x4321_0001),
            ack: n.wrapping_mul(0x1234_0007),
            ..script::header(script::A, 0, 0)
        };
        let garbage =
            TcpPacket { source: address(1), target: address(0), ecn: Default::default(), header, payload: b"x" };
        let now = world.now;
        world.hosts[0].handle_segment(now, &garbage);
        world.drain();
    }
    assert_eq!(repeats(&world), before);
}
