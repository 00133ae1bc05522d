//! Flows of which nothing moves.

use super::*;

const IDLE: Span = Span::from_secs(7_440);

fn idle(world: &World) -> [usize; 2] {
    [0, 1].map(|side| world.events[side].iter().filter(|e| matches!(e, HopEvent::Idle(_))).count())
}

#[test]
fn a_flow_is_reported_idle_once_nothing_moved_either_way_and_not_before() {
    let mut world = World::new(41, Pipe::default(), HopConfig { idle: Some(IDLE), ..HopConfig::default() });
    let flow = world.open_accepted();
    // A byte an hour, now this way, now that.
    for hour in 1..6 {
        let (from, name) = if hour % 2 == 0 { (0, flow) } else { (1, flow.from_other_side()) };
        assert_eq!(world.hops[from].write(world.now, name, &[1]), 1);
        world.run_until(world.now + Span::from_secs(10));
        assert_eq!(world.hops[1 - from].read(world.now, name.from_other_side(), &mut [0; 9]), ReadOutcome::Data(1));
        world.run_until(world.now + Span::from_secs(3_590));
        assert_eq!(idle(&world), [0, 0], "after {hour} hours");
    }
    let moved = world.now - Span::from_secs(3_590);
    // Seconds lie between the byte's receipt and its being read.
    world.run_until(moved + IDLE - Span::from_secs(11));
    assert_eq!(idle(&world), [0, 0]);
    world.run_until(moved + IDLE + Span::from_secs(1));
    assert_eq!(idle(&world), [1, 1]);
    // Whoever keeps it hears of it again.
    world.run_until(moved + IDLE.times(2) + Span::from_secs(2));
    assert_eq!(idle(&world), [2, 2]);
}

#[test]
fn no_flow_is_idle_where_that_is_off() {
    let mut world = World::new(42, Pipe::default(), HopConfig::default());
    world.open_accepted();
    world.run_until(world.now + IDLE.times(100));
    assert_eq!(idle(&world), [0, 0]);
    assert!(world.hops.iter().all(|hop| hop.poll_timeout().is_none()));
}
