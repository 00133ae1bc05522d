//! Sessions that grow old, are replaced, or lose their peer; and numbers that are used once.

use super::*;

#[test]
fn rekeying_under_loss_loses_nothing_that_arrives() {
    let mut chance = Seed(3).chance("loss");
    let mut w = World::new(MS50);
    let arrived = std::rc::Rc::new(std::cell::RefCell::new([0usize; 2]));
    let count = arrived.clone();
    w.fate = Box::new(move |_, from, bytes| {
        if chance.happens(wavelane_base::Ratio::new(1, 5).unwrap()) {
            return Vec::new();
        }
        if bytes[0] == kind::DATA {
            count.borrow_mut()[1 - from] += 1;
        }
        vec![Span::from_millis(chance.below(60))] // reordering across the change of keys
    });
    w.want(0);
    w.want(1);
    w.run(Span::from_secs(5));
    let until = Instant::from_secs(400);
    while w.now < until {
        assert!(w.send(0, b"forth") && w.send(1, b"back"), "never without keys, at {:?}", w.now);
        w.run(Span::from_millis(20));
    }
    w.run(Span::from_secs(1));
    for (i, node) in w.nodes.iter().enumerate() {
        assert_eq!(node.got.len(), arrived.borrow()[i], "node {i} opened all that arrived: {:?}", node.drops);
        assert!((3..=5).contains(&node.established.len()), "{:?}", node.established);
        assert!(node.established[1..].iter().all(|e| !e.fresh && !e.restarted));
        assert!(node.events.is_empty());
    }
    // The window goes on across keys: a copy of the very first datagrams is refused as unknown, a late one as replayed.
    let (_, from, copy) = w.sent.iter().rev().find(|(_, _, b)| b[0] == kind::DATA).unwrap().clone();
    let got = w.nodes[1 - from].got.len();
    w.fate = Box::new(|_, _, _| vec![Span::ZERO, Span::ZERO]);
    w.fly(from, copy);
    w.run(Span::from_millis(60));
    assert!(w.nodes[1 - from].got.len() <= got + 1);
}

#[test]
fn reordering_inside_the_window_is_accepted_and_replay_refused() {
    let mut w = World::new(MS50);
    w.want(0);
    w.run(Span::from_millis(200));
    let now = w.now;
    let sealed: Vec<Vec<u8>> = (0..REPLAY_WINDOW + 2).map(|_| w.nodes[0].seal(now, b"").unwrap()).collect();
    let mut take = |i: usize| w.nodes[1].sessions.handle_datagram(now, PORT, &mut sealed[i].clone(), None);
    let last = sealed.len() - 1;
    assert!(matches!(take(last), Incoming::Data { newest: true, .. }));
    assert!(matches!(take(2), Incoming::Data { newest: false, .. }), "the oldest inside the window");
    assert_eq!(take(1), Incoming::Dropped(DropReason::Replayed), "outside");
    assert_eq!(take(2), Incoming::Dropped(DropReason::Replayed));
    assert_eq!(take(last), Incoming::Dropped(DropReason::Replayed));
    // A forgery with a new number must not move the window.
    let mut forged = sealed[3].clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(
        w.nodes[1].sessions.handle_datagram(now, PORT, &mut forged, None),
        Incoming::Dropped(DropReason::Forged)
    );
    let genuine = w.nodes[1].sessions.handle_datagram(now, PORT, &mut sealed[3].clone(), None);
    assert!(matches!(genuine, Incoming::Data { number: 4, .. }));
}

#[test]
fn keys_expire_and_a_returning_link_carries_data_at_once() {
    let mut w = World::new(MS50);
    w.want(0);
    w.run(Span::from_secs(1));
    w.fate = Box::new(|_, _, _| Vec::new());
    w.run_to(Instant::from_secs(300));
    assert!(!w.nodes[0].sessions.can_seal(w.now, 0) && !w.send(1, b"x"));
    assert!(w.nodes[0].events.contains(&SessionEvent::Expired { peer: 0 }));
    assert!(w.nodes[0].sessions.peers[0].old.is_empty());
    w.fate = Box::new(|_, _, _| vec![Span::ZERO]);
    let back = w.now;
    while !w.send(0, b"x") {
        w.run(Span::from_millis(1));
    }
    assert!(w.now.since(back) <= RETRY_FIRST + Span::from_millis(100), "{:?}", w.now.since(back));
    // The wait for the link's return is nothing that a later outage would be measured by.
    assert_eq!(w.nodes[0].sessions.peers[0].round_trip, Some(Span::from_millis(100)));
}

#[test]
fn the_wait_for_a_peer_that_boots_is_no_round_trip() {
    let mut w = World::new(MS50);
    w.fate = Box::new(|_, _, _| Vec::new());
    w.want(0);
    w.run_to(Instant::from_secs(10));
    w.fate = Box::new(|_, _, _| vec![Span::ZERO]);
    w.run(Span::from_secs(3));
    assert!(w.nodes[0].sessions.can_seal(w.now, 0));
    assert_eq!(w.nodes[0].sessions.peers[0].round_trip, Some(Span::from_millis(100)));
}

/// Calls of node 0 in the minute that ends at second `until`.
fn calls(w: &mut World, until: u64) -> usize {
    w.run_to(Instant::from_secs(until - 60));
    let before = w.count(0, kind::HANDSHAKE_INIT);
    w.run_to(Instant::from_secs(until));
    w.count(0, kind::HANDSHAKE_INIT) - before
}

/// A wait is shortened by an eighth on average.
#[test]
fn an_outage_is_called_into_as_often_as_answers_took_but_not_for_ever() {
    // Answered in 100 ms, in 600 ms, in 3 s.
    for (delay_ms, shortest_ms) in [(50, 250), (300, 600), (1_500, 1_000)] {
        let mut w = World::new(Span::from_millis(delay_ms));
        w.want(0);
        w.run(Span::from_secs(8));
        assert!(w.nodes[0].sessions.can_seal(w.now, 0));
        w.fate = Box::new(|_, _, _| Vec::new());
        let often = calls(&mut w, 300);
        let each_ms = 60_000 / often;
        assert!((shortest_ms * 3 / 4..=shortest_ms).contains(&each_ms), "{delay_ms} ms: every {each_ms} ms");
        let told = w.nodes[0].events.iter().filter(|e| matches!(e, SessionEvent::NoAnswer { .. })).count();
        assert!((2..=7).contains(&told), "{delay_ms} ms: told {told} times in five minutes");
        let rarely = calls(&mut w, 3_600);
        assert!(rarely <= if delay_ms == 1_500 { 32 } else { 80 }, "{delay_ms} ms: {rarely} calls in the last minute");
    }
}

#[test]
fn a_peer_that_was_never_reached_is_called_once_a_second() {
    let mut w = World::new(MS50);
    w.fate = Box::new(|_, _, _| Vec::new());
    w.want(0);
    let often = calls(&mut w, 120);
    assert!((60..=80).contains(&often), "{often} calls in a minute");
}

#[test]
fn a_restarted_peer_is_noticed_and_called_again() {
    let mut w = World::new(MS50);
    w.want(0);
    w.run(Span::from_secs(1));
    assert!(w.send(1, b"x"));
    w.run(MS50);
    w.restart(1, 201);
    assert!(w.send(0, b"into the void"));
    w.run(SILENCE_BEFORE_HANDSHAKE + Span::from_millis(200));
    let again = w.nodes[0].established.last().unwrap();
    assert_eq!((again.epoch, again.restarted, again.fresh), (201, true, true));
    assert_eq!(w.nodes[1].established.len(), 1);
    // The restarted peer counts its packets from zero again: a new epoch has empty windows.
    assert!(w.send(1, b"from zero"));
    w.run(MS50);
    assert_eq!(w.nodes[0].got.last().unwrap(), &(0, 0, b"from zero".to_vec()));
    // The restarted side may also be the one that calls, and its owner may know sooner than the timer.
    w.restart(0, 101);
    w.want(0);
    w.run(Span::from_secs(1));
    let seen = w.nodes[1].established.last().unwrap();
    assert_eq!((seen.epoch, seen.restarted, seen.confirm), (101, true, false));
    w.restart(1, 202);
    w.nodes[0].sessions.suspect(w.now, 0);
    w.run(Span::from_millis(200));
    assert_eq!(w.nodes[0].established.last().unwrap().epoch, 202);
}

#[test]
fn replayed_and_older_handshakes_are_refused() {
    let mut w = World::new(MS50);
    w.want(0);
    w.run(Span::from_secs(1));
    let init = w.sent[0].2.clone();
    let mut copy = init.clone();
    let took = w.nodes[1].sessions.handle_datagram(w.now, PORT, &mut copy, Some(address(0)));
    assert_eq!(took, Incoming::Dropped(DropReason::NotNewer));
    w.restart(0, 99); // its clock went back
    w.want(0);
    w.run(Span::from_secs(1));
    assert!(w.nodes[1].events.contains(&SessionEvent::EpochWentBack { peer: 0, epoch: 99, known: 100 }));
    assert!(w.nodes[0].established.is_empty());
}

#[test]
fn a_session_is_replaced_after_enough_packets() {
    let mut w = World::new(MS50);
    w.want(0);
    w.run(Span::from_secs(1));
    w.nodes[0].sessions.peers[0].current.as_mut().unwrap().sealed = REKEY_AFTER_PACKETS - 1;
    assert!(w.send(0, b"the last"));
    w.run(Span::from_secs(1));
    assert_eq!((w.nodes[0].established.len(), w.nodes[1].established.len()), (2, 2));
    w.nodes[0].sessions.peers[0].current.as_mut().unwrap().sealed = REJECT_AFTER_PACKETS;
    assert!(!w.send(0, b"one too many"));
}

#[test]
#[should_panic(expected = "must seal growing numbers")]
fn a_number_is_never_sealed_twice() {
    let (mut w, _) = established(1);
    w.nodes[0].next_number -= 1;
    w.send(0, b"again");
}
