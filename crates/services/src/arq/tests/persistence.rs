//! How long the sender persists, and the effect of giving up on later packets.

use super::*;

#[test]
fn persistence_ends() {
    let mut world = World::new(6, 100, 0);
    for serial in 0..100 {
        world.send(1, serial, 1_000, STRICT);
    }
    world.run_until(world.now + Span::from_secs(30));
    // Some are remembered, because the neighbour may be gone.
    let remembered = super::abandoned::ABANDONED_MAX * 1_000;
    assert_eq!((world.sender.counters().unrepaired, world.sender.octets()), (100, remembered));
    world.sender.heard();
    assert!(!world.sender.has_undelivered() && world.sender.octets() == 0);
}

#[test]
fn an_abandoned_packet_blocks_no_later_one() {
    let mut world = World::new(10, 0, 0);
    world.sender.start(world.now, packet(1, 0, 2_000), 1, STRICT);
    let (mut buf, mut pieces) = ([0; ROOM], Vec::new());
    let write = |world: &mut World, now, buf: &mut [u8], pieces: &mut Vec<Piece>| {
        let (w, budget) = (&mut Writer::new(buf), &mut world.budget);
        world.sender.write(
            now,
            &mut Datagram {
                full: ROOM,
                fresh: true,
                w,
                pieces,
                carries: Carries::All,
                compresses: false,
                wrote_media: false,
                budget,
            },
        )
    };
    let now = world.now;
    assert_eq!(write(&mut world, now, &mut buf, &mut pieces), Wrote::Frame);
    // Nothing may be sent for a second; then the first piece is declared lost, and the packet is too old to continue.
    let late = world.now + Span::from_secs(1);
    pieces.into_iter().for_each(|piece| world.sender.lost(late, piece));
    assert_eq!((world.sender.counters().unrepaired, world.sender.octets()), (1, 2_000));
    assert_eq!(write(&mut world, late, &mut buf, &mut Vec::new()), Wrote::Nothing);
    assert!(!world.sender.has_backlog());
    world.send(1, 1, 100, STRICT);
    world.run_until(late);
    assert_eq!(world.serials(1), vec![1]);
}

#[test]
fn packets_without_order_are_retransmitted_longer() {
    let mut world = World::new(9, 100, 0);
    for treatment in [STRICT, Treatment::default()] {
        world.send(1, 0, 100, treatment);
    }
    world.run_until(world.now + Span::from_millis(300));
    assert_eq!(world.sender.counters().unrepaired, 1, "its transport repeats it itself by now");
    world.loss = 0;
    world.run_until(world.now + Span::from_millis(500));
    assert_eq!(world.serials(1), vec![0]);
}

#[test]
fn an_old_acknowledgement_is_not_worth_a_repeat() {
    let mut world = World::new(7, 100, 0);
    let ack = Treatment { repair: Repair::Arq, order: Ordering::Free, only_newest: true };
    world.send(1, 0, 40, ack);
    world.loss = 0;
    world.send(1, 1, 40, ack);
    world.run_until(world.now + Span::from_secs(1));
    assert_eq!((world.serials(1), world.sender.counters().superseded), (vec![1], 1));
}

/// Nothing arrives: the layer of 1998 tries at gaps that double from the round trip to 0.1 s, and gives up within a second.
#[test]
fn tries_of_1998_double_to_a_tenth_of_a_second() {
    for (rtt_ms, first_ms) in [(8, 16), (40, 56), (90, 100), (150, 151)] {
        let mut world = World::new(5, 100, 0);
        world.sender.tries = Tries::Of1998;
        let (rtt, start) = (Span::from_millis(rtt_ms), world.now);
        world.sender.set_path(Times { rtt: Some(rtt), ..world.sender.path });
        world.send(1, 0, 500, Treatment::default());
        let (mut seen, mut at) = (0, vec![start]);
        while world.now < start + Span::from_millis(1_500) {
            world.run_until(world.now + Span::from_millis(1));
            if world.sender.counters().repeated > seen {
                assert_eq!(world.sender.counters().repeated, seen + 1, "no copies");
                seen += 1;
                at.push(world.now);
            }
        }
        let gaps: Vec<u64> = at.windows(2).map(|pair| pair[1].since(pair[0]).as_millis()).collect();
        let most = rtt_ms.max(100) + 1;
        assert!(
            gaps.windows(2).all(|pair| pair[0] <= pair[1] + 1) && gaps.iter().all(|gap| *gap <= most),
            "{rtt_ms} ms: {gaps:?}"
        );
        assert!(gaps[0].abs_diff(first_ms) <= 1 && *gaps.last().unwrap() >= most - 2, "{rtt_ms} ms: {gaps:?}");
        let lasted = at.last().unwrap().since(start).as_millis();
        assert!((1_000 - most..=1_000).contains(&lasted), "{rtt_ms} ms: {lasted} ms");
        assert_eq!(
            (world.sender.counters().unrepaired, world.sender.octets()),
            (1, 500),
            "remembered until the neighbour is heard"
        );
    }
}
