//! A reset comes after the bytes that were written before it.

use super::*;

/// Reads at `side` until the flow is over; returns how many bytes of the pattern arrived, and how it ended.
fn read_out(world: &mut World, side: usize, flow: FlowName, within: Span) -> (u64, ReadOutcome) {
    let (deadline, mut got, mut buf) = (world.now + within, 0, [0; 5_000]);
    loop {
        match world.hops[side].read(world.now, flow, &mut buf) {
            ReadOutcome::Data(n) => {
                for b in &buf[..n] {
                    assert_eq!(*b, pattern(flow.number, 1 - side, got), "byte {got} differs");
                    got += 1;
                }
            }
            ReadOutcome::Blocked => {
                assert!(world.now < deadline, "no end after {got} bytes: {:?}", world.hops[1 - side].counters());
                world.step(deadline.min(world.now + Span::from_millis(5)));
            }
            over => return (got, over),
        }
    }
}

fn written(world: &mut World, side: usize, flow: FlowName, octets: u64) {
    let bytes: Vec<u8> = (0..octets).map(|o| pattern(flow.number, side, o)).collect();
    assert_eq!(world.hops[side].write(world.now, flow, &bytes) as u64, octets);
}

/// A world with an open flow, as both sides name it.
fn opened(seed: u64, loss: Ratio) -> (World, [FlowName; 2]) {
    let mut world = World::new(seed, Pipe { loss, ..Pipe::default() }, HopConfig::default());
    let flow = world.open_accepted();
    (world, [flow, flow.from_other_side()])
}

fn settles(world: &mut World) {
    world.run_until(world.now + Span::from_secs(5));
    assert_eq!((world.hops[0].status(), world.hops[1].status()), Default::default());
    assert_eq!(world.hops[0].counters().protocol_errors + world.hops[1].counters().protocol_errors, 0);
}

#[test]
fn bytes_before_a_reset_are_read_before_it() {
    for (seed, from) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
        let (mut world, names) = opened(seed, ratio(3, 10));
        // The other side sends too, and its bytes are never read.
        world.hops[1 - from].write(world.now, names[1 - from], &[1; 100_000]);
        written(&mut world, from, names[from], 50_000);
        if seed > 1 {
            world.run_until(world.now + Span::from_millis(30));
        }
        let now = world.now;
        world.hops[from].end(now, names[from], Reason::Aborted);
        assert_eq!(world.hops[from].read(now, names[from], &mut [0; 8]), ReadOutcome::Reset);
        let (got, how) = read_out(&mut world, 1 - from, names[1 - from], Span::from_secs(20));
        assert_eq!((got, how), (50_000, ReadOutcome::Reset));
        settles(&mut world);
        let told = |side: usize| world.events[side].iter().filter(|e| matches!(e, HopEvent::Reset(..))).count();
        assert_eq!((told(from), told(1 - from)), (0, 1));
    }
}

#[test]
fn a_direction_that_had_ended_ends_before_the_reset() {
    let (mut world, names) = opened(4, ratio(1, 10));
    written(&mut world, 1, names[1], 20_000);
    world.hops[1].shutdown(world.now, names[1]);
    world.hops[1].end(world.now, names[1], Reason::Aborted);
    let (got, how) = read_out(&mut world, 0, names[0], Span::from_secs(20));
    assert_eq!((got, how), (20_000, ReadOutcome::End));
    settles(&mut world);
    assert!(world.events[0].contains(&HopEvent::Reset(names[0], Reason::Aborted)), "the other direction did not end");
}

#[test]
fn a_reset_after_stops_the_sender_before_the_bytes_arrive() {
    let (mut world, names) = opened(5, Ratio::ZERO);
    written(&mut world, 1, names[1], 100_000);
    written(&mut world, 0, names[0], 100_000);
    world.hops[1].end(world.now, names[1], Reason::Aborted);
    let asked = world.now;
    while !world.events[0].contains(&HopEvent::Ending(names[0])) {
        world.step(asked + Span::from_millis(200));
    }
    assert!(world.now.since(asked) < Span::from_millis(60), "ahead of the bytes: {:?}", world.now.since(asked));
    assert_eq!((world.hops[0].room(names[0]), world.hops[0].write(world.now, names[0], &[1])), (0, 0));
    assert_eq!(world.hops[0].status().to_send, 0);
    let (got, how) = read_out(&mut world, 0, names[0], Span::from_secs(20));
    assert_eq!((got, how), (100_000, ReadOutcome::Reset));
    settles(&mut world);
}

#[test]
fn bytes_that_overtook_the_answer_are_read_before_the_reset_too() {
    let mut world = World::new(6, Pipe::default(), HopConfig::default());
    let flow = world.hops[0].open(world.now, source(), target(), None).unwrap();
    let other = flow.from_other_side();
    while world.events[1].is_empty() {
        world.step(ms(1_000));
    }
    // The datagrams with the first answers are lost, later ones are not.
    world.eats =
        Some(|from, frames| from == 1 && frames.iter().any(|f| matches!(f, Frame::Answer { .. })) && frames.len() < 2);
    world.hops[1].accept(world.now, other, None);
    world.step(world.now + Span::from_millis(1));
    world.eats = None;
    written(&mut world, 1, other, 3_000);
    world.hops[1].end(world.now, other, Reason::Aborted);
    while !world.events[0].contains(&HopEvent::Accepted(flow, None)) {
        assert!(world.now < ms(20_000), "{:?}", world.events);
        world.step(ms(20_000));
    }
    assert!(world.eaten > 0);
    assert_eq!(read_out(&mut world, 0, flow, Span::from_secs(5)), (3_000, ReadOutcome::Reset));
    settles(&mut world);
}

#[test]
fn a_stopped_reader_may_reset_and_both_sides_forget() {
    let (mut world, names) = opened(7, Ratio::ZERO);
    written(&mut world, 1, names[1], 100_000);
    world.hops[1].end(world.now, names[1], Reason::Aborted);
    world.run_until(world.now + Span::from_secs(30));
    assert!(world.hops[0].status().unread > 0, "kept for the reader");
    world.hops[0].end(world.now, names[0], Reason::Aborted);
    settles(&mut world);
}

#[test]
fn two_resets_that_meet_end_both_sides() {
    let (mut world, names) = opened(8, ratio(2, 10));
    for (side, name) in names.into_iter().enumerate() {
        written(&mut world, side, name, 30_000);
        world.hops[side].end(world.now, name, Reason::Aborted);
    }
    settles(&mut world);
    assert!(!world.events.iter().flatten().any(|e| matches!(e, HopEvent::Reset(..))), "both owners know");
}
