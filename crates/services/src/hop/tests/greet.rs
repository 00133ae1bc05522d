//! A flood of Opens takes a bounded part of the lane.

use super::*;

/// A transfer of 60 kB over a modem's 33.6 kbit/s beside `opens_per_s` flows that are opened and given up 3 s later, and that the
/// far side refuses. Returns the time it took.
fn beside(opens_per_s: u64) -> Span {
    let rate = Rate::from_bps(33_600);
    let pipe = Pipe { rate, delay: Span::from_millis(100), ..Pipe::default() };
    let mut world =
        World::new(3, pipe, HopConfig { flows_max: 4_096, pool: Octets::new(4 << 20), ..HopConfig::default() });
    let flow = world.open_accepted();
    let mut stream = Stream::new(flow, 0, 60_000);
    let (began, mut given_up) = (world.now, VecDeque::new());
    let (mut opened, mut refused) = (0, 0);
    while !stream.ended {
        let now = world.now;
        assert!(now.since(began) < Span::from_secs(120), "{} bytes after two minutes", stream.read);
        while opened < now.since(began).as_millis() * opens_per_s / 1_000 {
            opened += 1;
            if let Ok(name) = world.hops[0].open(now, source(), target(), None) {
                given_up.push_back((now + Span::from_secs(3), name));
            }
        }
        while given_up.front().is_some_and(|(at, _)| *at <= now) {
            let (_, name) = given_up.pop_front().unwrap();
            world.hops[0].end(now, name, Reason::Aborted);
        }
        for event in core::mem::take(&mut world.events[1]) {
            if let HopEvent::Incoming { flow, .. } = event {
                world.hops[1].refuse(now, flow, Reason::Unreachable, None);
                refused += 1;
            }
        }
        stream.pump(&mut world);
        world.step(now + Span::from_millis(5));
    }
    assert!(opens_per_s == 0 || refused > 50, "some are asked for: {refused}");
    assert!(world.hops.iter().all(|hop| hop.flows.len() <= 4_096 && hop.over_theirs.exceptions() <= 8_192));
    world.now.since(began)
}

#[test]
fn a_flood_of_opens_leaves_the_lane_to_data() {
    let (alone, beside) = (beside(0), beside(200));
    assert!(beside < alone.scale(3, 2), "{beside}, {alone} alone");
}

#[test]
fn a_browsers_worth_of_flows_is_opened_at_once() {
    let mut world = World::new(4, Pipe::default(), HopConfig::default());
    world.hops[0].set_path(PathView { rate: Rate::from_bps(33_600), ..PathView::default() });
    let began = world.now;
    let flows: Vec<FlowName> = (0..60).map(|_| world.hops[0].open(began, source(), target(), None).unwrap()).collect();
    world.run_until(began + Span::from_millis(200));
    let asked = world.events[1].iter().filter(|e| matches!(e, HopEvent::Incoming { .. })).count();
    assert_eq!(asked, flows.len());
}

/// How many of 2,000 flows over 1 Mbit/s are asked for in a second, beside a transfer that never ends or alone.
fn asked_in_a_second(beside_bulk: bool) -> usize {
    let pipe = Pipe { rate: Rate::from_bps(1_000_000), delay: Span::from_millis(5), ..Pipe::default() };
    let config = HopConfig { flows_max: 4_096, pool: Octets::new(4 << 20), ..HopConfig::default() };
    let mut world = World::new(5, pipe, config);
    let mut stream = beside_bulk.then(|| Stream::new(world.open_accepted(), 0, 1 << 30));
    // By then it is no small exchange any more.
    let began = world.now + Span::from_secs(1);
    for opens in [0, 2_000] {
        let until = if opens == 0 { began } else { began + Span::from_secs(1) };
        (0..opens).for_each(|_| _ = world.hops[0].open(world.now, source(), target(), None).unwrap());
        world.events[1].clear();
        while world.now < until {
            stream.iter_mut().for_each(|stream| stream.pump(&mut world));
            world.step(until.min(world.now + Span::from_millis(5)));
        }
    }
    world.events[1].iter().filter(|e| matches!(e, HopEvent::Incoming { .. })).count()
}

#[test]
fn without_bulk_opens_take_half_of_the_lane() {
    let (alone, beside) = (asked_in_a_second(false), asked_in_a_second(true));
    assert!(alone > 2 * beside, "{alone} alone, {beside} beside bulk");
    assert!(alone < 2_000 && beside > 50, "{alone} alone, {beside} beside bulk");
}
