//! Flows without progress.

use super::*;

const IDLE: Span = Span::from_secs(7_440);

fn idle(world: &World) -> [usize; 2] {
    [0, 1].map(|side| world.events[side].iter().filter(|e| matches!(e, HopEvent::Idle(_))).count())
}

#[test]
fn a_flow_is_idle_only_without_progress_either_way() {
    let mut world = World::new(41, Pipe::default(), HopConfig { idle: Some(IDLE), ..HopConfig::default() });
    let flow = world.open_accepted();
    // A byte an hour, in alternating directions.
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
    // It is reported repeatedly while it is kept.
    world.run_until(moved + IDLE.times(2) + Span::from_secs(2));
    assert_eq!(idle(&world), [2, 2]);
}

/// Otherwise a peer could hold the last bytes sent to it, and its place, for ever.
#[test]
fn the_last_bytes_of_an_ended_flow_time_out_as_idle() {
    let mut world = World::new(43, Pipe::default(), HopConfig { idle: Some(IDLE), ..HopConfig::default() });
    let flow = world.open_accepted();
    // More than the other side takes for a stopped reader.
    let mut left = 600_000;
    while left > 0 {
        left -= world.hops[0].write(world.now, flow, &vec![1; left]).min(left);
        let held = world.hops[0].status().to_send;
        world.run_until(world.now + Span::from_secs(1));
        if held > 0 && world.hops[0].status().to_send == held {
            break;
        }
    }
    world.hops[0].end(world.now, flow, Reason::Aborted);
    world.run_until(world.now + IDLE - Span::from_secs(60));
    assert_eq!((idle(&world), world.hops[0].status().flows), ([0, 0], 1));
    world.run_until(world.now + Span::from_secs(120));
    assert_eq!(idle(&world)[0], 1);
    world.hops[0].reset(flow, Reason::TimedOut);
    world.run_until(world.now + Span::from_secs(5));
    assert_eq!((world.hops[0].status(), world.hops[1].status()), Default::default());
}

#[test]
fn no_flow_is_idle_where_that_is_off() {
    let mut world = World::new(42, Pipe::default(), HopConfig::default());
    world.open_accepted();
    world.run_until(world.now + IDLE.times(100));
    assert_eq!(idle(&world), [0, 0]);
    assert!(world.hops.iter().all(|hop| hop.poll_timeout().is_none()));
}
