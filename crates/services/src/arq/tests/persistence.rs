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
            &mut Datagram { full: ROOM, fresh: true, w, pieces, carries: Carries::All, wrote_media: false, budget },
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
