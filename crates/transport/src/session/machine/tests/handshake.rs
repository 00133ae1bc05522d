//! Which peers may connect, under which cipher, and that handshakes survive loss, duplication and reordering.

use super::*;

#[test]
fn one_round_trip_then_data_flows_both_ways() {
    let mut w = World::new(MS50);
    assert!(!w.send(0, b"too early"));
    w.want(0);
    w.run(Span::from_millis(99));
    assert!(w.nodes[0].established.is_empty());
    w.run(Span::from_millis(1));
    assert_eq!(w.nodes[0].established.len(), 1, "one round trip for the initiator");
    let e = w.nodes[0].established[0];
    assert_eq!((e.epoch, e.restarted, e.fresh, e.confirm), (200, false, true, true));
    assert!(!w.nodes[1].sessions.can_seal(w.now, 0), "the responder waits for the first data");
    assert!(w.send(0, b"hello"));
    w.run(MS50);
    let e = w.nodes[1].established[0];
    assert_eq!((e.epoch, e.restarted, e.fresh, e.confirm, e.from), (100, false, true, false, Some(address(0))));
    assert!(w.send(1, b"hello yourself"));
    w.run(MS50);
    assert_eq!(w.nodes[1].got, [(0, 0, b"".to_vec()), (0, 1, b"hello".to_vec())]);
    assert_eq!(w.nodes[0].got, [(0, 0, b"hello yourself".to_vec())]);
    assert_eq!((w.count(0, kind::HANDSHAKE_INIT), w.count(1, kind::HANDSHAKE_RESPONSE)), (1, 1));
    assert!(w.nodes.iter().all(|n| n.events.is_empty() && n.drops.is_empty()));
    assert_eq!(w.nodes[1].sessions.counters().len(), DropReason::ALL.len());
}

/// Both sides must agree on the cipher whatever either can do.
#[test]
fn the_cipher_is_aes_only_if_both_have_it() {
    for (a, b, suite) in [
        (true, true, Suite::Aes256Gcm),
        (true, false, Suite::ChaCha20Poly1305),
        (false, true, Suite::ChaCha20Poly1305),
        (false, false, Suite::ChaCha20Poly1305),
    ] {
        let configs = [SessionsConfig { aes: a, ..config(0, 1) }, SessionsConfig { aes: b, ..config(1, 1) }];
        let mut w = World::with(configs, MS50, 1);
        w.want(0);
        w.run(Span::from_millis(200));
        assert!(w.send(0, b"x") && w.send(1, b"y"));
        w.run(MS50);
        assert_eq!((w.nodes[0].got.len(), w.nodes[1].got.len()), (1, 2));
        assert!(w.nodes.iter().all(|n| n.sessions.peers[0].current.as_ref().unwrap().suite == suite));
    }
}

#[test]
fn a_wrong_key_is_reported_at_both_ends() {
    let mut stranger = config(0, 1);
    stranger.private_key = private_key(9);
    let mut w = World::with([stranger, config(1, 1)], MS50, 1);
    w.want(0);
    w.run(Span::from_secs(10));
    assert!(w.nodes[0].established.is_empty() && w.nodes[1].established.is_empty());
    let told = w.nodes[1].events.iter().all(
        |e| matches!(e, SessionEvent::UnknownPeer { public_key, .. } if *public_key == super::public_key(&private_key(9))),
    );
    assert!(told && !w.nodes[1].events.is_empty());
    assert!(w.nodes[1].events.len() <= 2 * NOTICES_PER_WINDOW_MAX as usize, "rate-limited");
    let (told, silence): (Vec<_>, Vec<_>) =
        w.nodes[0].events.iter().partition(|e| **e == SessionEvent::OwnKeyUnknown { peer: 0 });
    assert_eq!(told.len(), w.count(1, kind::UNKNOWN_KEY));
    assert!(!told.is_empty() && told.len() <= 2 * NOTICES_PER_WINDOW_MAX as usize, "rate-limited");
    assert_eq!(silence, [&SessionEvent::NoAnswer { peer: 0, address: address(1), tries: NO_ANSWER_TRIES }]);
    assert!(w.sent.iter().all(|(_, from, bytes)| *from == 0 || bytes.len() < 40), "a caller gets less than it sent");
    assert_eq!(w.count(1, kind::HANDSHAKE_RESPONSE), 0, "nothing else is said to strangers");
    assert!(w.nodes[1].drops.iter().all(|d| *d == DropReason::UnknownPeer));
}

#[test]
fn a_round_trip_longer_than_a_handshake_lives_is_reported() {
    let mut w = World::new(INIT_LIFETIME);
    w.want(0);
    w.run(Span::from_secs(100));
    assert!(w.nodes[0].established.is_empty());
    let late: Vec<_> = w.nodes[0].events.iter().filter(|e| matches!(e, SessionEvent::AnswerLate { .. })).collect();
    assert!((1..=20).contains(&late.len()), "{late:?}");
    assert!(late.iter().all(|e| matches!(e, SessionEvent::AnswerLate { peer: 0, took } if *took >= INIT_LIFETIME)));
}

#[test]
fn an_unknown_key_reply_counts_only_from_the_called_peer() {
    let mut w = World::new(MS50);
    w.want(0);
    w.run(Span::from_millis(10));
    let init = w.sent[0].2.clone();
    let message = wavelane_wire::datagram::Handshake::parse(&init).unwrap();
    let word = super::super::super::mac::MacKeys::new(&public_key(&private_key(1)))
        .unknown_key(message.sender, &message.mac1)
        .to_bytes();
    let mut say =
        |bytes: &[u8]| w.nodes[0].sessions.handle_datagram(w.now, PORT, &mut bytes.to_vec(), Some(address(1)));
    for at in 1..word.len() {
        let mut forged = word;
        forged[at] ^= 1;
        assert!(matches!(say(&forged), Incoming::Dropped(DropReason::Forged | DropReason::UnknownSession)), "{at}");
    }
    assert_eq!(say(&word[..20]), Incoming::Dropped(DropReason::Malformed));
    assert_eq!(say(&word), Incoming::Handled);
    assert_eq!(w.nodes[0].sessions.poll_event(), Some(SessionEvent::OwnKeyUnknown { peer: 0 }));
    // It changes nothing: the handshake goes on.
    w.run(Span::from_secs(1));
    assert!(w.nodes[0].sessions.can_seal(w.now, 0));
    assert_eq!(say_again(&mut w, &word), Incoming::Dropped(DropReason::UnknownSession));
}

fn say_again(w: &mut World, word: &[u8]) -> Incoming {
    w.nodes[0].sessions.handle_datagram(w.now, PORT, &mut word.to_vec(), Some(address(1)))
}

#[test]
fn a_call_with_a_wrong_peer_key_gets_no_answer() {
    let mut wrong = config(0, 1);
    wrong.peers[0].public_key = public_key(&private_key(9));
    let mut w = World::with([wrong, config(1, 1)], MS50, 1);
    w.want(0);
    w.run(Span::from_secs(70));
    assert!(w.sent.iter().all(|(_, from, _)| *from == 0));
    assert!(w.nodes[1].drops.iter().all(|d| *d == DropReason::Mac) && w.nodes[1].events.is_empty());
    assert_eq!(w.nodes[0].events.len(), 2, "told after {NO_ANSWER_TRIES} tries and {NO_ANSWER_REPEAT} more");
}

#[test]
fn the_initiator_detects_different_preshared_keys() {
    for (a, b) in [(Some([1; 32]), Some([2; 32])), (Some([1; 32]), None), (None, Some([2; 32]))] {
        let mut configs = [config(0, 1), config(1, 1)];
        configs[0].peers[0].preshared_key = a;
        configs[1].peers[0].preshared_key = b;
        let mut w = World::with(configs, MS50, 1);
        w.want(0);
        w.run(Span::from_secs(2));
        assert!(w.nodes[0].established.is_empty() && w.nodes[1].established.is_empty());
        let event = SessionEvent::AnswerUnreadable { peer: 0, from: Some(address(1)) };
        assert!(w.nodes[0].events.contains(&event));
    }
    let mut configs = [config(0, 1), config(1, 1)];
    configs.iter_mut().for_each(|c| c.peers[0].preshared_key = Some([3; 32]));
    let mut w = World::with(configs, MS50, 1);
    w.want(0);
    w.run(Span::from_secs(1));
    assert_eq!((w.nodes[0].established.len(), w.nodes[1].established.len()), (1, 1));
}

#[test]
fn handshakes_survive_loss_copies_and_reordering() {
    for seed in 0..60 {
        let mut chance = Seed(seed).chance("fate");
        let mut w = World::with([config(0, 1), config(1, 1)], MS50, seed);
        w.fate = Box::new(move |_, _, _| {
            (0..chance.below(4)).map(|_| Span::from_millis(chance.below(400))).collect() // none to three copies
        });
        w.want(0);
        if seed % 2 == 0 {
            w.want(1);
        }
        w.run(Span::from_secs(5));
        for i in 0..5 {
            w.send(0, b"a");
            w.send(1, b"b");
            w.run(Span::from_secs(1) + Span::from_millis(i));
        }
        for node in &w.nodes {
            assert!(node.sessions.can_seal(w.now, 0), "seed {seed}");
            let mut numbers: Vec<u64> = node.got.iter().map(|g| g.1).collect();
            numbers.sort_unstable();
            assert!(numbers.windows(2).all(|n| n[0] != n[1]), "seed {seed}: nothing twice");
            assert!(!node.established.iter().any(|e| e.restarted), "seed {seed}");
            assert!(node.established.iter().filter(|e| e.fresh).count() == 1, "seed {seed}");
        }
    }
}

#[test]
fn a_round_trip_longer_than_every_retry_still_completes() {
    let mut w = World::new(Span::from_secs(3));
    w.want(0);
    w.run(Span::from_secs(10));
    assert_eq!((w.nodes[0].established.len(), w.nodes[1].established.len()), (1, 1));
    assert!(w.count(0, kind::HANDSHAKE_INIT) > 4, "it was sent again meanwhile");
    assert!(w.send(1, b"x"));
    // Every copy is answered, the first one first.
    w.run(Span::from_secs(3));
    assert_eq!(w.nodes[0].sessions.peers[0].round_trip, Some(Span::from_secs(6)));
}

/// Three ways, of which the second alone carries there and the third alone carries back.
#[test]
fn an_answer_takes_every_way_in_turn() {
    let make = |node: usize| {
        let mut config = config(node, 1);
        config.peers[0].ways = (0..3).map(|port| Way { port: PortId(port), ..way(1 - node) }).collect();
        Sessions::new(Instant::ZERO, config, entropy(node, 1))
    };
    let (mut a, mut b) = (make(0), make(1));
    a.want(Instant::ZERO, 0, true);
    let (mut asked, mut answered, mut buf) = (0, [0; 3], [0; HANDSHAKE_MAX]);
    for ms in (0..3_000).step_by(10) {
        let now = Instant::from_millis(ms);
        a.handle_timeout(now);
        for port in 0..3 {
            while let Some(out) = a.poll_handshake(now, PortId(port), &mut buf) {
                if port == 1 {
                    asked += 1;
                    b.handle_datagram(now, PortId(port), &mut buf[..out.len], Some(address(0)));
                }
            }
        }
        for port in 0..3 {
            while let Some(out) = b.poll_handshake(now, PortId(port), &mut buf) {
                answered[usize::from(port)] += 1;
                if port != 2 {
                    continue;
                }
                let got = a.handle_datagram(now, PortId(port), &mut buf[..out.len], Some(address(1)));
                assert!(matches!(got, Incoming::Established(_)), "{got:?}");
                // By the way on which it was asked, and when that was of no use by the next: an answer for each question.
                assert_eq!((answered, asked), ([0, 1, 1], 2));
                return;
            }
        }
    }
    panic!("{asked} questions, {answered:?} answers");
}

/// Copies of a call from other places that arrive before the answer has left, as they do by lanes of one length or from somebody who sees
/// calls and repeats them at once, take no answer from the caller; and there is a bound to them.
#[test]
fn copies_from_elsewhere_take_no_answer_from_the_caller() {
    let now = Instant::ZERO;
    let mut w = World::new(MS50);
    let mut buf = [0; HANDSHAKE_MAX];
    w.nodes[0].sessions.want(now, 0, true);
    let init = w.nodes[0].sessions.poll_handshake(now, PORT, &mut buf).unwrap();
    let init = buf[..init.len].to_vec();
    let b = &mut w.nodes[1].sessions;
    let mut heard = |from: Address| b.handle_datagram(now, PORT, &mut init.clone(), Some(from));
    assert_eq!(heard(address(0)), Incoming::Handled);
    (7..10).for_each(|other| assert_eq!(heard(address(other)), Incoming::Handled));
    let b = &mut w.nodes[1].sessions;
    let mut answered = Vec::new();
    while let Some(out) = b.poll_handshake(now, PORT, &mut buf) {
        answered.push(out.to.unwrap());
    }
    answered.sort();
    assert_eq!(answered, [address(0), address(7), address(8), address(9)]);
    for n in 0..1_000_u16 {
        let from = crate::session::world::at([10, 0, 0, 8], 10_000 + n);
        b.handle_datagram(now, PORT, &mut init.clone(), Some(from));
    }
    let waiting = core::iter::from_fn(|| b.poll_handshake(now, PORT, &mut buf)).count();
    // Answers, and cookies to those who call too often.
    assert!(waiting <= 2 * LANES_MAX + REPLIES_MAX, "{waiting}");
}

/// Of two ways only the second leads somewhere. The peer answers a call by that one from a third place, to the port of the first.
#[test]
fn an_answer_proves_no_address_that_nobody_called() {
    let now = Instant::ZERO;
    let mut a = config(0, 1);
    let nowhere = Way { address: None, ..way(1) };
    a.peers[0].ways = vec![nowhere, Way { port: PortId(1), ..way(1) }];
    let mut a = Sessions::new(now, a, entropy(0, 1));
    let mut b = Sessions::new(now, config(1, 1), entropy(1, 1));
    a.want(now, 0, true);
    let mut buf = [0; HANDSHAKE_MAX];
    assert_eq!(a.poll_handshake(now, PORT, &mut buf), None);
    let init = a.poll_handshake(now, PortId(1), &mut buf).unwrap();
    assert_eq!(init.to, Some(address(1)));
    assert_eq!(b.handle_datagram(now, PORT, &mut buf[..init.len], Some(address(0))), Incoming::Handled);
    let answer = b.poll_handshake(now, PORT, &mut buf).unwrap();
    let took = a.handle_datagram(now, PORT, &mut buf[..answer.len], Some(address(7)));
    assert!(matches!(took, Incoming::Established(e) if !e.proven), "{took:?}");
    // Data will show where the way leads, and what comes from there will have to prove it.
    assert_eq!((a.address(0, 0), a.address(0, 1)), (None, Some(address(1))));
}

/// Both call at once, and what the one sends that leads takes 3 s.
#[test]
fn an_answered_call_delays_the_own_retransmission() {
    let mut w = World::new(MS50);
    let slow = usize::from(w.nodes[1].sessions.own_key() < w.nodes[0].sessions.own_key());
    w.fate = Box::new(move |_, from, _| vec![Span::from_millis(if from == slow { 2_950 } else { 0 })]);
    w.want(0);
    w.want(1);
    // Asked at 50 ms.
    w.run(Span::from_millis(1_540));
    assert_eq!(w.count(slow, kind::HANDSHAKE_INIT), 1);
    w.run(Span::from_secs(8));
    assert!(w.nodes.iter().all(|node| !node.established.is_empty()));
}

#[test]
fn simultaneous_initiation_ends_with_one_session_on_both_sides() {
    for offset in [0, 1, 30, 49, 50, 51, 99] {
        let mut w = World::new(MS50);
        w.want(0);
        w.run(Span::from_millis(offset));
        w.want(1);
        w.run(Span::from_secs(3));
        w.send(0, b"a");
        w.send(1, b"b");
        w.run(Span::from_secs(1));
        let current = |n: usize| {
            let s = w.nodes[n].sessions.peers[0].current.as_ref().unwrap();
            (s.index, s.peer_index, s.initiator)
        };
        let (a, b) = (current(0), current(1));
        assert_eq!((a.0, a.1, a.2), (b.1, b.0, !b.2), "offset {offset} ms: both seal under one session");
        let leader = usize::from(w.nodes[1].sessions.own_key() < w.nodes[0].sessions.own_key());
        if offset < 50 {
            assert!(current(leader).2, "offset {offset} ms: the lower key's handshake wins");
        }
        assert_eq!((w.nodes[0].established.len(), w.nodes[1].established.len()), (1, 1), "offset {offset} ms");
    }
}

/// Datagrams overtake each other, so that any order of the two handshakes happens.
#[test]
fn simultaneous_initiation_converges_whatever_overtakes_what() {
    let mut both_completed = 0;
    for seed in 0..200 {
        let mut chance = Seed(seed).chance("overtaking");
        let mut w = World::with([config(0, 1), config(1, 1)], MS50, seed);
        w.fate = Box::new(move |_, _, _| vec![Span::from_millis(chance.below(300))]);
        w.want(0);
        w.want(1);
        w.run(Span::from_secs(2));
        for _ in 0..3 {
            assert!(w.send(0, b"a") && w.send(1, b"b"), "seed {seed}");
            w.run(Span::from_secs(1));
        }
        let current = |n: usize| {
            let s = w.nodes[n].sessions.peers[0].current.as_ref().unwrap();
            (s.index, s.peer_index)
        };
        assert_eq!(current(0), (current(1).1, current(1).0), "seed {seed}: both seal under one session");
        both_completed += usize::from(w.nodes.iter().all(|n| n.established.iter().any(|e| e.confirm)));
        for node in &w.nodes {
            assert_eq!(node.got.iter().filter(|g| !g.2.is_empty()).count(), 3, "seed {seed}: nothing is lost");
        }
    }
    assert!(both_completed > 0, "the hard case never happened");
}

#[test]
fn a_hub_tells_its_peers_apart() {
    let count = 5;
    let mut c = config(1, 1);
    let keys = |i: usize| PeerKeys { public_key: public_key(&private_key(40 + i)), ..config(1, 1).peers[0].clone() };
    c.peers = (0..count).map(keys).collect();
    let mut hub = Sessions::new(Instant::ZERO, c, entropy(1, 3));
    let mut buf = [0; HANDSHAKE_MAX];
    for i in 0..count {
        let now = Instant::from_millis(i as u64);
        let c = SessionsConfig { private_key: private_key(40 + i), ..config(0, i as u64) };
        let mut spoke = Sessions::new(now, c, entropy(40 + i, 3));
        spoke.want(now, 0, true);
        let out = spoke.poll_handshake(now, PORT, &mut buf).unwrap();
        assert_eq!(hub.handle_datagram(now, PORT, &mut buf[..out.len].to_vec(), Some(address(i))), Incoming::Handled);
        let out = hub.poll_handshake(now, PORT, &mut buf).unwrap();
        assert_eq!((out.peer, out.to), (Some(i), Some(address(i))));
        let took = spoke.handle_datagram(now, PORT, &mut buf[..out.len].to_vec(), None);
        assert!(matches!(took, Incoming::Established(_)));
        let len = spoke.seal(now, 0, 3, 9, &mut buf, 2).unwrap();
        let took = hub.handle_datagram(now, PORT, &mut buf[..len].to_vec(), Some(address(i)));
        let Incoming::Data { peer, lane: 3, number: 9, established: Some(e), .. } = took else { panic!("{took:?}") };
        assert_eq!((peer, e.peer, e.epoch, hub.epoch(i)), (i, i, i as u64, Some(i as u64)));
    }
}

#[test]
fn new_keys_differ_and_fit() {
    let mut dice: Entropy = Seed(1).entropy("keys");
    let (a, b) = (generate(&mut dice), generate(&mut dice));
    assert_ne!(a, b);
    assert_eq!(public_key(&a.0), a.1);
}

/// A virtual machine that is copied while it runs: both copies go on from the same memory, and draw from a live source.
#[test]
fn two_copies_of_one_machine_make_different_keys() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static DRAWS: AtomicU64 = AtomicU64::new(0);
    fn live(out: &mut [u8]) {
        Seed(DRAWS.fetch_add(1, Ordering::Relaxed)).entropy("the operating system").fill(out);
    }
    let machine = |node| Sessions::new(Instant::ZERO, config(node, 1), Entropy::live(live));
    let out = |sessions: &mut Sessions| {
        let mut buf = [0; HANDSHAKE_MAX];
        let sent = sessions.poll_handshake(Instant::ZERO, PORT, &mut buf).unwrap();
        buf[..sent.len].to_vec()
    };
    let call = |sessions: &mut Sessions| {
        sessions.want(Instant::ZERO, 0, true);
        out(sessions)
    };
    // The ephemeral public keys, which stand in the clear, behind the headers.
    let calls = [call(&mut machine(0)), call(&mut machine(0))];
    assert_ne!(calls[0][6..38], calls[1][6..38], "two callers under one ephemeral key");
    let answer = |mut sessions: Sessions| {
        sessions.handle_datagram(Instant::ZERO, PORT, &mut calls[0].clone(), Some(address(0)));
        out(&mut sessions)
    };
    let answers = [answer(machine(1)), answer(machine(1))];
    assert_ne!(answers[0][10..42], answers[1][10..42], "two answers under one ephemeral key");
}
