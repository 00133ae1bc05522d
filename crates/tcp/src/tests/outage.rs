//! Outages that a configuration knows of: soon tried, and no congestion.

use super::world::{Way, World, address};
use super::*;
use wavelane_base::Streams;

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
            let bound = Span::from_millis(200 + 20) + Span::from_millis(20).scale(6, 5);
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
        // Ten of the one that tries, and what others retransmit in their own time.
        assert!((9..=9 + u64::from(MANY)).contains(&(world.dropped - before)), "{}", world.dropped - before);
        world.filter = None;
        let back = now(&world);
        if link {
            world.hosts[0].call_back(back);
        }
        world.run(back + Span::from_millis(if link { 15 } else { 240 }));
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
