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
