//! Safety and delivery over a bad pipe.
use super::*;

#[test]
fn both_directions_arrive_intact_and_state_is_freed() {
    let mut world = World::new(1, Pipe::default(), HopConfig::default());
    let flow = world.open_accepted();
    let mut streams = [Stream::new(flow, 0, 300_000), Stream::new(flow, 1, 2_000_000)];
    finish_all(&mut world, &mut streams, ms(10_000));
    world.run_until(world.now + Span::from_secs(1));
    for side in 0..2 {
        assert_eq!(world.hops[side].status(), HopStatus::default(), "side {side}");
        assert!(world.hops[side].poll_timeout().is_none(), "an idle hop wants no time");
        assert_eq!(world.hops[side].counters().protocol_errors, 0);
        assert_eq!(world.hops[side].counters().repair_octets, 0, "nothing was lost");
    }
    assert!(world.events[0].contains(&HopEvent::Closed(flow)));
    assert!(world.events[1].contains(&HopEvent::Closed(flow.from_other_side())));
}

#[test]
fn one_bulk_flow_fills_20_mbit_at_100_ms_under_5_percent_loss() {
    let pipe = Pipe { loss: ratio(1, 20), ..Pipe::default() };
    let mut world = World::new(2, pipe, HopConfig::default());
    let flow = world.open_accepted();
    let begin = world.now;
    let mut streams = [Stream::new(flow, 0, 20_000_000), Stream::new(flow, 1, 0)];
    finish_all(&mut world, &mut streams, ms(30_000));
    let goodput = Rate::of(Octets::new(20_000_000), world.now.since(begin)).as_bps();
    // The pipe carries 1,180 of 1,240 octets as frames and 19 of 20 datagrams: 18.1 Mbit/s at the very most.
    assert!((16_500_000..18_100_000).contains(&goodput), "{goodput} bit/s");
    let c = world.hops[0].counters();
    assert!(c.repair_octets * 100 < c.first_octets * 7, "repairs cost what was lost and no more: {c:?}");
}

#[test]
fn hostile_pipes_deliver_every_byte_once_in_order() {
    for seed in 0..12 {
        let mut dice = Seed(seed).chance("pipe's shape");
        let pipe = Pipe {
            rate: Rate::from_bps(1_000_000 + dice.below(40_000_000)),
            delay: Span::from_millis(1 + dice.below(120)),
            jitter: Span::from_millis(dice.below(60)),
            loss: ratio(dice.below(40) as u32, 100),
            duplicate: ratio(dice.below(20) as u32, 100),
            spurious: ratio(dice.below(20) as u32, 100),
            outages: vec![(ms(300), ms(300 + dice.below(4_000)))],
        };
        let mut world = World::new(seed, pipe, HopConfig::default());
        let flows: Vec<FlowName> = (0..3).map(|_| world.open_accepted()).collect();
        let mut streams: Vec<Stream> = flows
            .iter()
            .flat_map(|&f| {
                let (to, fro) = (dice.below(400_000), dice.below(2_000));
                [Stream::new(f, 0, to), Stream::new(f, 1, fro)]
            })
            .collect();
        finish_all(&mut world, &mut streams, ms(120_000));
        world.run_until(world.now + Span::from_secs(20));
        for side in 0..2 {
            let hop = &world.hops[side];
            assert_eq!(hop.status(), HopStatus::default(), "seed {seed} side {side}");
            assert_eq!(hop.counters().protocol_errors, 0, "seed {seed} side {side}");
            assert_eq!(hop.counters().resets, 0, "seed {seed} side {side}");
        }
    }
}

#[test]
fn five_minutes_without_a_link_lose_nothing_and_cost_little() {
    // A slow pipe, since its sender does not slow down for an outage as a lane would.
    let pipe = Pipe { rate: Rate::from_bps(500_000), outages: vec![(ms(500), ms(300_500))], ..Pipe::default() };
    let mut world = World::new(3, pipe, HopConfig::default());
    let flow = world.open_accepted();
    let mut streams = [Stream::new(flow, 0, 400_000), Stream::new(flow, 1, 0)];
    while world.now < ms(300_500) {
        streams.iter_mut().for_each(|s| s.pump(&mut world));
        world.step(world.now + Span::from_millis(50));
    }
    assert!(world.events.iter().flatten().all(|e| !matches!(e, HopEvent::Reset(..))), "flows do not time out");
    let before = streams[0].read;
    while streams[0].read == before {
        assert!(world.now < ms(301_000), "bytes must move within 1 s and two round trips");
        streams.iter_mut().for_each(|s| s.pump(&mut world));
        world.step(world.now + Span::from_millis(1));
    }
    finish_all(&mut world, &mut streams, ms(310_000));
}

#[test]
fn a_lost_last_receipt_neither_stalls_nor_delivers_twice() {
    let mut world = World::new(4, Pipe::default(), HopConfig::default());
    let flow = world.open_accepted();
    world.eats = Some(|from, frames| {
        let last =
            |f: &Frame<'_>| matches!(f, Frame::Receipt { state: wavelane_wire::frame::ReceiptState::Complete, .. });
        from == 1 && frames.iter().any(last)
    });
    let mut streams = [Stream::new(flow, 0, 10_000), Stream::new(flow, 1, 0)];
    finish_all(&mut world, &mut streams, ms(2_000));
    world.run_until(ms(4_000));
    assert!(world.eaten > 2, "complete receipts are repeated while their loss is reported");
    assert_eq!(world.hops[0].status().flows, 1, "the sender keeps custody");
    assert_eq!(world.hops[1].status().closing, 1, "the receiver remembers until its word arrived");
    world.eats = None;
    world.run_until(ms(6_000));
    assert_eq!(world.hops[0].status(), HopStatus::default());
    assert_eq!(world.hops[1].status(), HopStatus::default());
    assert_eq!(world.hops[1].counters().received_octets, 10_000, "nothing was taken twice");
}

#[test]
fn half_close_keeps_the_other_direction() {
    let mut world = World::new(5, Pipe::default(), HopConfig::default());
    let flow = world.open_accepted();
    let mut request = [Stream::new(flow, 0, 400)];
    finish_all(&mut world, &mut request, ms(2_000));
    assert!(!world.events[0].contains(&HopEvent::Closed(flow)));
    let mut reply = [Stream::new(flow, 1, 500_000)];
    finish_all(&mut world, &mut reply, ms(5_000));
    world.run_until(world.now + Span::from_secs(1));
    assert!(world.events[0].contains(&HopEvent::Closed(flow)));
    assert_eq!(world.hops[0].write(world.now, flow, b"late"), 0);
}

#[test]
fn a_refused_flow_has_a_reason_and_is_dropped() {
    let mut world = World::new(6, Pipe { loss: ratio(3, 10), ..Pipe::default() }, HopConfig::default());
    let flow = world.hops[0].open(world.now, source(), target(), None).unwrap();
    while world.events[1].is_empty() {
        world.step(world.now + Span::from_millis(5));
    }
    let incoming =
        HopEvent::Incoming { flow: flow.from_other_side(), source: source(), target: target(), passage: None };
    assert_eq!(world.events[1], vec![incoming]);
    world.hops[1].refuse(world.now, flow.from_other_side(), Reason::Unreachable, None);
    world.run_until(ms(5_000));
    assert_eq!(world.events[0], vec![HopEvent::Refused(flow, Reason::Unreachable, None)]);
    assert_eq!(world.events[1].len(), 1, "late copies of the Open do not ask again");
    assert_eq!((world.hops[0].status(), world.hops[1].status()), Default::default());
}

#[test]
fn a_reset_reaches_the_other_side_through_loss() {
    for from in 0..2 {
        let mut world = World::new(7, Pipe { loss: ratio(3, 10), ..Pipe::default() }, HopConfig::default());
        let flow = world.open_accepted();
        let names = [flow, flow.from_other_side()];
        world.hops[from].write(world.now, names[from], &[1; 50_000]);
        world.run_until(world.now + Span::from_millis(60));
        world.hops[from].reset(names[from], Reason::Aborted);
        assert_eq!(world.hops[from].read(world.now, names[from], &mut [0; 8]), ReadOutcome::Reset);
        world.run_until(world.now + Span::from_secs(5));
        assert!(world.events[1 - from].contains(&HopEvent::Reset(names[1 - from], Reason::Aborted)));
        assert_eq!((world.hops[0].status(), world.hops[1].status()), Default::default());
    }
}

#[test]
fn a_restarted_peer_resets_every_flow_and_new_ones_work() {
    let mut world = World::new(8, Pipe::default(), HopConfig::default());
    let old = world.open_accepted();
    world.hops[0].write(world.now, old, &[1; 50_000]);
    world.run_until(world.now + Span::from_millis(20));
    let now = world.now;
    world.hops[1] = Lone::new(HopConfig::default());
    world.hops[1].set_path(world.hops[0].path);
    // Frames sealed for the old session do not reach the new peer.
    world.queue.retain(|_, what| matches!(what, Happening::Fate(0, ..)));
    world.hops[0].peer_restarted(now);
    world.events[1].clear();
    world.run_until(now + Span::from_millis(1));
    assert!(world.events[0].contains(&HopEvent::Reset(old, Reason::Restarted)));
    let new = world.open_accepted();
    assert_eq!(new.number, 1, "our numbers go on");
    let mut streams = [Stream::new(new, 0, 100_000), Stream::new(new, 1, 0)];
    finish_all(&mut world, &mut streams, ms(10_000));
    world.run_until(world.now + Span::from_secs(1));
    assert_eq!((world.hops[0].status(), world.hops[1].status()), Default::default());
    assert_eq!(world.hops[1].over_theirs.exceptions(), 0, "the Forget closed the gap below");
}

#[test]
fn five_thousand_short_flows_leave_constant_memory() {
    let pipe = Pipe {
        delay: Span::from_millis(5),
        jitter: Span::from_millis(3),
        loss: ratio(1, 20),
        duplicate: ratio(1, 20),
        ..Pipe::default()
    };
    let mut world =
        World::new(9, pipe, HopConfig { flows_max: 64, pool: Octets::new(4 << 20), ..HopConfig::default() });
    let mut accepted = BTreeSet::new();
    let (mut open, mut opened, mut ended): (Vec<[Stream; 2]>, u64, u64) = (Vec::new(), 0, 0);
    while ended < 5_000 {
        while opened < 5_000 && open.len() < 48 {
            let flow = world.hops[0].open(world.now, source(), target(), None).unwrap();
            open.push([Stream::new(flow, 0, 100), Stream::new(flow, 1, 700)]);
            opened += 1;
        }
        world.step(world.now + Span::from_millis(5));
        for event in core::mem::take(&mut world.events[1]) {
            if let HopEvent::Incoming { flow, .. } = event {
                world.hops[1].accept(world.now, flow, None);
            }
        }
        for event in core::mem::take(&mut world.events[0]) {
            if let HopEvent::Accepted(flow, _) = event {
                accepted.insert(flow);
            }
        }
        for [request, reply] in open.iter_mut().filter(|[request, _]| accepted.contains(&request.flow)) {
            request.pump(&mut world);
            // The server answers when it has the request.
            if request.ended {
                reply.pump(&mut world);
            }
        }
        let before = open.len();
        open.retain(|[_, reply]| !reply.ended);
        ended += (before - open.len()) as u64;
        assert!(world.now < ms(600_000));
        assert!(world.hops.iter().all(|h| h.over_theirs.exceptions() <= 128 && h.flows.len() <= 128));
    }
    world.run_until(world.now + Span::from_secs(10));
    for side in 0..2 {
        assert_eq!(world.hops[side].status(), HopStatus::default(), "side {side}");
        assert_eq!(world.hops[side].counters().protocol_errors, 0);
        assert!(world.hops[side].timers.is_empty() && world.hops[side].done.len() <= 64);
    }
    assert_eq!(world.hops[1].counters().incoming, 5_000, "no duplicate Open made a second flow");
    assert_eq!(world.hops[1].over_theirs.exceptions(), 0);
}
