//! Ack withholding: bytes without a grant, bytes that wait for one, and repair in rounds.

use super::*;

const BLOCK: u64 = 100_000;

fn config() -> HopConfig {
    HopConfig { withhold: true, rounds: true, block: Some(Octets::new(BLOCK)), ..HopConfig::default() }
}

/// Runs until `until` with the reader reading. The receiver grants every request if `grants`.
fn run(world: &mut World, stream: &mut Stream, until: Instant, grants: bool) -> u64 {
    let mut granted = 0;
    while world.now < until && !stream.ended {
        stream.pump(world);
        world.step(until);
        let asks: Vec<FlowName> = world.events[1]
            .drain(..)
            .filter_map(|event| match event {
                HopEvent::Asks(name) => Some(name),
                _ => None,
            })
            .collect();
        for name in asks.into_iter().filter(|_| grants) {
            granted += world.hops[1].grant(world.now, name).unwrap_or(0);
        }
    }
    stream.pump(world);
    granted
}

#[test]
fn a_large_block_waits_for_its_grant() {
    let mut world = World::new(1, Pipe::default(), config());
    let mut stream = Stream::new(world.open_accepted(), 0, 3 * BLOCK);
    run(&mut world, &mut stream, Instant::from_secs(5), false);
    // A few bytes pass: at most the bypass and what was read of it.
    assert!((4_096..=8_192 + 4_096).contains(&stream.read), "{}", stream.read);
    let before = stream.read;
    // The sender repeats its offer while it waits.
    let granted = run(&mut world, &mut stream, Instant::from_secs(60), true);
    assert!(stream.ended && granted >= stream.total - before - 4_096, "{} {granted}", stream.read);
}

#[test]
fn small_exchanges_pass_without_a_grant() {
    let mut world = World::new(2, Pipe::default(), config());
    let flow = world.open_accepted();
    let mut read = 0;
    for n in 0..100 {
        assert_eq!(world.hops[0].write(world.now, flow, &[n; 200]), 200);
        world.run_until(world.now + Span::from_millis(200));
        let mut buf = [0; 1_000];
        while let ReadOutcome::Data(n) = world.hops[1].read(world.now, flow.from_other_side(), &mut buf) {
            read += n;
        }
    }
    assert_eq!(read, 100 * 200);
    assert!(!world.events[1].iter().any(|event| matches!(event, HopEvent::Asks(_))));
}

#[test]
fn bytes_after_a_turn_are_accepted() {
    let mut world = World::new(3, Pipe::default(), config());
    let mut stream = Stream::new(world.open_accepted(), 0, BLOCK);
    run(&mut world, &mut stream, Instant::from_secs(2), false);
    let name = stream.flow.from_other_side();
    // Nothing granted now gets through for ten seconds.
    world.pipe.outages = vec![(world.now + Span::from_millis(120), world.now + Span::from_secs(10))];
    assert!(world.hops[1].grant(world.now, name).is_some_and(|octets| octets > 0));
    run(&mut world, &mut stream, Instant::from_secs(40), false);
    assert!(stream.ended, "{}", stream.read);
}

/// The receiving side of a relay: nothing of a turn is read before all of it is here, none is given while what came before is not sent on,
/// and a sender that waits for one sends nothing of what passes without.
#[test]
fn a_turn_that_goes_on_by_the_same_radio_is_read_as_a_whole() {
    let config = HopConfig { withhold: true, ..HopConfig::default() };
    let mut world = World::new(8, Pipe { delay: Span::from_millis(2), ..Pipe::default() }, config);
    let mut stream = Stream::new(world.open_accepted(), 0, 4 << 20);
    let name = stream.flow.from_other_side();
    let clear = Onward { drained: true, clear: true, receipted: 0 };
    let ms = Span::from_millis;
    while stream.read < 200_000 {
        world.hops[1].set_onward(world.now, name, clear);
        world.hops[1].grant(world.now, name);
        let until = world.now + ms(20);
        run(&mut world, &mut stream, until, false);
    }
    world.hops[0].send_whole(stream.flow);
    for _ in 0..2 {
        world.hops[1].set_onward(world.now, name, Onward::default());
        let until = world.now + ms(250);
        run(&mut world, &mut stream, until, false);
        let before = stream.read;
        assert_eq!((world.hops[1].received(name), world.hops[1].grant(world.now, name)), (before, Some(0)));
        world.hops[1].set_onward(world.now, name, Onward { drained: true, ..Onward::default() });
        let until = world.now + ms(50);
        run(&mut world, &mut stream, until, false);
        assert_eq!(
            (stream.read, world.hops[1].grant(world.now, name)),
            (before, Some(0)),
            "what passes without a turn"
        );
        world.hops[1].set_onward(world.now, name, clear);
        let turn = world.hops[1].grant(world.now, name).unwrap();
        assert!(turn >= 128 << 10, "{turn}");
        while stream.read == before {
            let received = world.hops[1].received(name);
            stream.pump(&mut world);
            assert!(stream.read == before || received >= before + turn, "{} of {turn}", received - before);
            world.step(world.now + ms(1));
        }
        assert_eq!(stream.read, before + turn);
    }
}

/// In a fade of the next hop nothing moves ahead of a relay: the air is free for turns into it, until something moves again.
#[test]
fn what_lies_ahead_and_does_not_move_holds_up_no_turn() {
    let config = HopConfig { withhold: true, ..HopConfig::default() };
    let mut world = World::new(10, Pipe { delay: Span::from_millis(2), ..Pipe::default() }, config);
    let mut stream = Stream::new(world.open_accepted(), 0, 8 << 20);
    let name = stream.flow.from_other_side();
    let ms = Span::from_millis;
    let mut receipted = 0;
    let mut turns = |world: &mut World, moves: bool| {
        let (mut given, end) = (0, world.now + Span::from_secs(1));
        while world.now < end {
            receipted += u64::from(moves);
            world.hops[1].set_onward(world.now, name, Onward { receipted, ..Onward::default() });
            given += u64::from(world.hops[1].grant(world.now, name).is_some_and(|octets| octets >= 128 << 10));
            let until = world.now + ms(50);
            run(world, &mut stream, until, false);
        }
        given
    };
    // What passes without a turn takes the flow past its first bytes.
    while world.hops[1].received(name) < 200_000 {
        turns(&mut world, false);
    }
    assert_eq!(turns(&mut world, true), 0);
    let given = turns(&mut world, false);
    assert!(given >= 3, "{given}");
    assert_eq!(turns(&mut world, true), 0);
}

/// A sender that does not withhold asks at its credit without a length, and has a turn like the others.
#[test]
fn a_sender_that_asks_for_no_turn_is_taken_to_ask_for_one() {
    let mut world = World::new(11, Pipe::default(), HopConfig { withhold: true, ..HopConfig::default() });
    world.hops[0] = Lone::new(HopConfig::default());
    let mut stream = Stream::new(world.open_accepted(), 0, 2 << 20);
    let name = stream.flow.from_other_side();
    run(&mut world, &mut stream, Instant::from_secs(8), false);
    let before = world.hops[1].received(name);
    assert_eq!(world.hops[1].grant(world.now, name), None, "{before} bytes passed without a turn");
    // Nothing passes without a turn while what lies ahead is not sent on.
    world.hops[1].set_onward(world.now, name, Onward::default());
    run(&mut world, &mut stream, Instant::from_secs(12), false);
    let granted = world.hops[1].grant(world.now, name);
    assert!(granted.is_some_and(|octets| octets >= 128 << 10), "{granted:?}, {before} bytes before");
}

#[test]
fn a_turn_that_is_given_up_is_read_as_far_as_it_came() {
    let config = HopConfig { withhold: true, ..HopConfig::default() };
    let mut world = World::new(9, Pipe { delay: Span::from_millis(2), ..Pipe::default() }, config);
    let mut stream = Stream::new(world.open_accepted(), 0, 4 << 20);
    let name = stream.flow.from_other_side();
    let clear = Onward { drained: true, clear: true, receipted: 0 };
    let mut held = false;
    while !held {
        world.hops[1].set_onward(world.now, name, clear);
        world.hops[1].grant(world.now, name);
        stream.pump(&mut world);
        world.step(world.now + Span::from_millis(1));
        held = stream.read > 200_000 && world.hops[1].received(name) > stream.read + 20_000;
    }
    let before = stream.read;
    stream.pump(&mut world);
    assert_eq!(stream.read, before);
    world.hops[1].give_up_turn(world.now, name);
    stream.pump(&mut world);
    assert!(stream.read >= before + 20_000);
}

/// Turns are shares of the medium's time: the next one carries what the last did in 100 ms, between 16 KiB and what the lane carries then;
/// of neighbours of which nothing is known, or whose last turn says nothing, no less than 128 KiB.
#[test]
fn a_turn_carries_what_the_last_one_did_in_its_time() {
    let config = HopConfig { withhold: true, ..HopConfig::default() };
    let mut world = World::new(12, Pipe { rate: Rate::from_bps(40_000_000), ..Pipe::default() }, config);
    let mut stream = Stream::new(world.open_accepted(), 0, 16 << 20);
    let name = stream.flow.from_other_side();
    let ms = Span::from_millis;
    let (least, most): (u64, u64) = (16 << 10, 128 << 10);
    // What the last turn carried, and how large the next one is at least and at most.
    let turns = [
        (None, most, 1 << 20),
        (Some((150_000, ms(300))), 50_000, 50_000),
        // No less than a pause is worth, and no more than the lane's rate.
        (Some((20_000, ms(1_000))), least, least),
        (Some((10_000_000, ms(100))), most, 625_000),
        // A turn of a moment counts as one of a millisecond.
        (Some((500, Span::ZERO)), 50_000, 50_000),
        // Nothing came for as long as a turn takes, or for less.
        (Some((0, ms(250))), least, least),
        (Some((0, ms(99))), most, 1 << 20),
        (Some((150_000, ms(300))), 50_000, 50_000),
        (Some((0, ms(1))), most, 1 << 20),
    ];
    for (noted, from, to) in turns {
        if let Some((octets, took)) = noted {
            world.hops[1].note_turn(octets, took);
        }
        // The sender offers what it has only once what was granted before is used up.
        let mut granted = 0;
        while granted == 0 {
            assert!(world.now < Instant::from_secs(60), "no turn after {noted:?}");
            let until = world.now + ms(20);
            run(&mut world, &mut stream, until, false);
            granted = world.hops[1].grant(world.now, name).unwrap_or(0);
        }
        assert!((from..=to).contains(&granted), "{granted} after {noted:?}");
    }
}

#[test]
fn a_flow_without_bytes_gets_no_grant() {
    let mut world = World::new(4, Pipe::default(), config());
    let flow = world.open_accepted().from_other_side();
    assert_eq!(world.hops[1].grant(world.now, flow), None);
}

#[test]
fn rounds_retransmit_losses_after_the_block() {
    let config = HopConfig { rounds: true, block: Some(Octets::new(BLOCK)), ..HopConfig::default() };
    let offsets = |config: HopConfig| {
        // The first data of the flow is lost, once.
        let eats: fn(usize, &[Frame<'_>]) -> bool =
            |from, frames| from == 0 && frames.iter().any(|frame| matches!(frame, Frame::Offer { block: 0, .. }));
        let mut world = World::new(5, Pipe { delay: Span::from_millis(2), ..Pipe::default() }, config);
        world.eats = Some(eats);
        let mut stream = Stream::new(world.open_accepted(), 0, 2 * BLOCK);
        let mut held = 0;
        while world.eaten == 0 {
            stream.pump(&mut world);
            world.step(world.now + Span::from_millis(1));
        }
        world.eats = None;
        while stream.read == 0 {
            stream.pump(&mut world);
            world.step(world.now + Span::from_millis(1));
            held = held.max(world.hops[1].received(stream.flow.from_other_side()));
        }
        held
    };
    let (rounds, at_once) = (offsets(config), offsets(HopConfig { rounds: false, ..config }));
    // Bytes beyond the gap when it closes: the whole block, or one RTT's worth.
    assert!(rounds >= BLOCK - 2_000 && at_once < BLOCK / 2, "{rounds} {at_once}");
}

/// Flows looked at for one answer at the sender, when the Offers of two flows and the Open of a third were lost and `others` are open
/// without any bytes that wait.
fn looks(others: u64) -> u64 {
    let mut world = World::new(6, Pipe::default(), config());
    // The offers and the Open are lost for good.
    let eats: fn(usize, &[Frame<'_>]) -> bool = |from, frames| {
        let lost = |frame: &Frame<'_>| matches!(frame, Frame::Offer { length: Some(_), .. } | Frame::Open(_));
        from == 0 && frames.iter().any(lost)
    };
    for _ in 0..others {
        world.open_accepted();
    }
    let waiting = [world.open_accepted(), world.open_accepted()];
    world.eats = Some(eats);
    let opening = world.hops[0].open(world.now, source(), target(), None).unwrap();
    for flow in waiting {
        assert!(world.hops[0].write(world.now, flow, &[7; 50_000]) > 4_096);
    }
    world.run_until(world.now + Span::from_millis(90));
    assert!(world.hops[1].may_offer());
    let hop = &mut world.hops[0];
    let before = hop.relay.looked_at();
    hop.asked(world.now + Span::from_secs(1));
    assert!(hop.flows[&opening].open.due, "its Open is repeated");
    assert!(waiting.iter().all(|flow| hop.flows[flow].out.query.due), "their Offers are repeated");
    hop.asked(world.now + Span::from_millis(1_050));
    hop.relay.looked_at() - before
}

#[test]
fn what_was_not_heard_is_repeated_when_asked_for_at_the_same_cost_among_many_flows() {
    assert_eq!(looks(1), 3);
    assert_eq!(looks(1_000), 3);
}

#[test]
fn a_sender_that_does_not_withhold_is_slow_and_never_stuck() {
    let mut world = World::new(7, Pipe::default(), config());
    world.hops[0] = Lone::new(HopConfig::default());
    let mut stream = Stream::new(world.open_accepted(), 0, 200_000);
    run(&mut world, &mut stream, Instant::from_secs(1), true);
    assert!(stream.read < 100_000, "{}: it would pay to ask for no turn", stream.read);
    run(&mut world, &mut stream, Instant::from_secs(60), true);
    assert!(stream.ended, "{} bytes of {}", stream.read, stream.total);
}
