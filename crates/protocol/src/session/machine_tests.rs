#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use super::super::world::{PORT, World, address, config, entropy, private_key};
use super::super::*;
use proptest::prelude::*;
use wavelane_base::laws::{self, Script, Stimulus};
use wavelane_base::{Entropy, FrameMeta, Instant, Machine, Seed, Transmit, Wakeup};
use wavelane_wire::datagram::{DATA_HEADER_LEN, HANDSHAKE_MAX, Suite, TAG_LEN, kind};

const MS50: Span = Span::from_millis(50);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

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

#[test]
fn a_sealed_datagram_costs_28_bytes_and_hides_its_payload() {
    let mut w = World::new(MS50);
    w.want(0);
    w.run(Span::from_millis(200));
    let sealed = w.nodes[0].seal(w.now, &[7; 1000]).unwrap();
    assert_eq!(sealed.len(), 1000 + DATA_HEADER_LEN + TAG_LEN);
    assert!(!sealed.windows(8).any(|b| b == [7; 8]));
    let mut forged = sealed.clone();
    forged[1] ^= 1; // the clear header is authenticated: another lane
    let now = w.now;
    let mut take = |mut bytes: Vec<u8>| w.nodes[1].sessions.handle_datagram(now, PORT, &mut bytes, None);
    assert_eq!(take(forged), Incoming::Dropped(DropReason::Forged));
    assert!(matches!(take(sealed.clone()), Incoming::Data { number: 1, newest: true, .. }));
    assert_eq!(take(sealed.clone()), Incoming::Dropped(DropReason::Replayed));
    let mut lane = sealed;
    lane[1] = LANES_MAX as u8;
    assert_eq!(take(lane), Incoming::Dropped(DropReason::Lane));
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
fn a_wrong_key_is_told_at_both_ends() {
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
    assert_eq!(w.nodes[0].events, [SessionEvent::NoAnswer { peer: 0, address: address(1), tries: NO_ANSWER_TRIES }]);
    assert_eq!(w.count(1, kind::HANDSHAKE_RESPONSE), 0, "silence towards strangers");
    assert!(w.nodes[1].drops.iter().all(|d| *d == DropReason::UnknownPeer));
}

#[test]
fn calling_somebody_whose_key_we_have_wrong_is_met_with_silence() {
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
fn different_preshared_keys_are_told_to_the_initiator() {
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
fn keys_die_with_age_and_a_link_that_returns_carries_data_at_once() {
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
    assert!(w.now.since(back) <= Span::from_millis(1_000 + 2 * 100), "{:?}", w.now.since(back));
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
fn an_unwanted_peer_is_left_alone_and_an_unknown_address_is_not_called() {
    let mut c = config(0, 1);
    c.peers[0].address = None;
    let mut w = World::with([c, config(1, 1)], MS50, 1);
    w.want(0);
    w.run(Span::from_secs(5));
    assert!(w.sent.is_empty());
    assert_eq!(w.nodes[0].sessions.poll_timeout(), None);
    w.want(1);
    w.run(Span::from_secs(1));
    assert_eq!(w.nodes[0].sessions.address(0), Some(address(1)), "learned from the first data");
    w.nodes[0].sessions.want(w.now, 0, false);
    w.nodes[1].sessions.want(w.now, 0, false);
    let sent = w.sent.len();
    w.run(Span::from_secs(300));
    assert_eq!(w.sent.len(), sent, "no rekey for nothing");
    assert!(w.nodes.iter().all(|n| n.sessions.poll_timeout().is_none()));
    w.want(0);
    w.run(Span::from_secs(1));
    assert!(w.nodes[0].sessions.can_seal(w.now, 0), "the learned address can be called");
}

/// Everything that could grow, counted.
fn footprint(s: &Sessions) -> [usize; 6] {
    [
        s.due.len(),
        s.cookies.capacity(),
        s.events.capacity(),
        s.peers.iter().map(|p| p.sessions().count()).sum(),
        s.peers.iter().filter(|p| p.initiation.is_some() || p.answered.is_some()).count(),
        s.peers.len(),
    ]
}

#[test]
fn strangers_get_nothing_and_leave_nothing() {
    let many = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let mut chance = Seed(11).chance("stranger");
    let mut w = World::new(MS50);
    w.want(0);
    w.run(Span::from_secs(1));
    let genuine = w.sent[0].2.clone();
    let node = &mut w.nodes[1];
    let before = footprint(&node.sessions);
    let mut dropped = 0;
    for i in 0..many {
        let now = w.now + Span::from_micros(i);
        let len = chance.below(200) as usize;
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| chance.next_u64().to_be_bytes()).take(len).collect();
        match i % 4 {
            0 => {}
            1 => {
                if let Some(first) = bytes.first_mut() {
                    *first = (chance.below(4) + 1) as u8;
                }
            }
            // A genuine first message with one bit turned: its first mac no longer fits.
            _ => {
                bytes = genuine.clone();
                let at = chance.below(genuine.len() as u64 - 16) as usize;
                bytes[at] ^= 1 << chance.below(8);
            }
        }
        let took = node.sessions.handle_datagram(now, PORT, &mut bytes, Some(address(7)));
        assert!(matches!(took, Incoming::Dropped(_)), "{took:?}");
        dropped += 1;
        if i % 1000 == 0 {
            assert_eq!(node.sessions.poll_handshake(now, PORT, &mut [0; HANDSHAKE_MAX]), None);
        }
    }
    assert_eq!(node.sessions.poll_handshake(w.now + Span::from_secs(2), PORT, &mut [0; HANDSHAKE_MAX]), None);
    assert_eq!(node.sessions.poll_event(), None);
    assert_eq!(footprint(&node.sessions), before);
    assert_eq!(node.sessions.counters().iter().map(|c| c.1).sum::<u64>(), dropped);
}

/// First messages that pass the first mac, each from a key of its own.
fn init_from(key: usize, seed: u64) -> Vec<u8> {
    let c = SessionsConfig { private_key: private_key(key), ..config(0, 1) };
    let mut s = Sessions::new(Instant::ZERO, c, entropy(key, seed));
    s.want(Instant::ZERO, 0, true);
    let mut buf = [0; HANDSHAKE_MAX];
    let out = s.poll_handshake(Instant::ZERO, PORT, &mut buf).unwrap();
    buf[..out.len].to_vec()
}

#[test]
fn under_load_addresses_are_proven_with_cookies() {
    let mut w = World::new(MS50);
    let flood: Vec<Vec<u8>> = (0..4).map(|i| init_from(20 + i, 1)).collect();
    let node = &mut w.nodes[1];
    let mut buf = [0; HANDSHAKE_MAX];
    let mut replies = 0;
    for i in 0..400 {
        let mut bytes = flood[i % flood.len()].clone();
        let took = node.sessions.handle_datagram(w.now, PORT, &mut bytes, Some(address(7)));
        let expected = match i as u32 {
            0..HANDSHAKES_PER_SECOND_MAX => DropReason::UnknownPeer,
            n if n < HANDSHAKES_PER_SECOND_MAX + COOKIE_REPLIES_MAX as u32 => DropReason::CookieNeeded,
            _ => DropReason::Overload,
        };
        assert_eq!(took, Incoming::Dropped(expected), "handshake {i}");
    }
    while let Some(out) = node.sessions.poll_handshake(w.now, PORT, &mut buf) {
        assert_eq!((out.to, out.peer), (Some(address(7)), None));
        assert!(out.len < flood[0].len(), "no amplification");
        replies += 1;
    }
    assert_eq!(replies, COOKIE_REPLIES_MAX);
    // A configured peer gets through: its first try earns a cookie, its second shows it.
    w.want(0);
    let mut step = 0;
    while w.nodes[0].established.is_empty() {
        for bytes in flood.iter().cycle().take(20) {
            let _ = w.nodes[1].sessions.handle_datagram(w.now, PORT, &mut bytes.clone(), Some(address(7)));
        }
        // The flood's cookie replies leave towards the flooder.
        while w.nodes[1].sessions.cookies.iter().any(|c| c.to == Some(address(7))) {
            let _ = w.nodes[1].sessions.poll_handshake(w.now, PORT, &mut buf);
        }
        w.run(Span::from_millis(20));
        step += 1;
        assert!(step < 100, "shut out by the flood");
    }
    assert_eq!(w.count(1, kind::COOKIE_REPLY), 1);
    assert!(w.count(0, kind::HANDSHAKE_INIT) >= 2);
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
fn a_cookie_proves_one_address_only() {
    let mut s = Sessions::new(Instant::ZERO, config(1, 1), entropy(1, 1));
    let init = init_from(0, 5);
    for _ in 0..HANDSHAKES_PER_SECOND_MAX {
        let _ = s.handle_datagram(Instant::ZERO, PORT, &mut init_from(20, 5), None);
    }
    let mut caller = Sessions::new(Instant::ZERO, config(0, 1), entropy(0, 5));
    caller.want(Instant::ZERO, 0, true);
    let mut buf = [0; HANDSHAKE_MAX];
    let out = caller.poll_handshake(Instant::ZERO, PORT, &mut buf).unwrap();
    assert_eq!(buf[..out.len], init[..], "the same dice, the same bytes");
    let now = Instant::from_millis(100);
    assert_eq!(
        s.handle_datagram(now, PORT, &mut buf[..out.len].to_vec(), Some(address(0))),
        Incoming::Dropped(DropReason::CookieNeeded)
    );
    let out = s.poll_handshake(now, PORT, &mut buf).unwrap();
    assert_eq!(caller.handle_datagram(now, PORT, &mut buf[..out.len].to_vec(), None), Incoming::Handled);
    let later = Instant::from_millis(300);
    caller.handle_timeout(later);
    let out = caller.poll_handshake(later, PORT, &mut buf).unwrap();
    let again = buf[..out.len].to_vec();
    let mut take = |from| s.handle_datagram(later, PORT, &mut again.clone(), Some(from));
    assert_eq!(take(address(3)), Incoming::Dropped(DropReason::CookieNeeded));
    assert_eq!(take(address(0)), Incoming::Handled);
}

#[test]
fn the_same_dice_give_the_same_bytes() {
    let run = |seed| {
        let mut w = World::with([config(0, 1), config(1, 1)], MS50, seed);
        w.want(0);
        w.want(1);
        for _ in 0..300 {
            w.send(0, b"x");
            w.run(Span::from_secs(1));
        }
        w.sent
    };
    assert!(run(1) == run(1));
    assert!(run(1) != run(2));
}

/// Frozen: a change here breaks every second implementation. `vectors/check_session.py` is one, written from
/// docs/protocol/session.md.
#[test]
fn golden_handshake() {
    let preshared = [0x42; 32];
    let mut configs = [config(0, 0x1111), config(1, 0x2222)];
    configs.iter_mut().for_each(|c| c.peers[0].preshared_key = Some(preshared));
    let mut w = World::with(configs, MS50, 99);
    w.want(0);
    w.run(Span::from_millis(100));
    w.send(0, b"golden");
    w.run(MS50);
    w.send(1, b"vector");
    // The dice a node threw before its ephemeral key: the cookie secret and, for the initiator, an index.
    let ephemeral = |node: usize| {
        let mut dice = entropy(node, 99);
        let mut key = [0; 32];
        dice.fill(&mut key);
        if node == 0 {
            dice.next_u64();
        }
        dice.split().fill(&mut key);
        key
    };
    assert_eq!(public_key(&ephemeral(0)), w.sent[0].2[6..38], "the ephemeral key of the first message");
    assert_eq!(public_key(&ephemeral(1)), w.sent[1].2[10..42], "and of its answer");
    let mut text = String::from("# One session, both epochs and every secret given. All values are hexadecimal.\n");
    for (name, bytes) in [
        ("initiator_private", &private_key(0)[..]),
        ("responder_private", &private_key(1)),
        ("initiator_ephemeral", &ephemeral(0)),
        ("responder_ephemeral", &ephemeral(1)),
        ("preshared", &preshared),
        ("initiator_epoch", &0x1111u64.to_be_bytes()),
        ("responder_epoch", &0x2222u64.to_be_bytes()),
        ("init", &w.sent[0].2),
        ("response", &w.sent[1].2),
        ("data_confirm", &w.sent[2].2),
        ("data_forth", &w.sent[3].2),
        ("data_back", &w.sent[4].2),
        ("plain_forth", b"golden"),
        ("plain_back", b"vector"),
    ] {
        text += &format!("{name} = {}\n", hex(bytes));
    }
    assert_eq!(text, include_str!("../../../../vectors/session-handshake.txt"), "\n{text}");
}

/// `Sessions` with a small owner, so that the laws of machines can be checked on it.
struct Law {
    sessions: Sessions,
    next_number: u64,
    queue: usize,
}

fn law(node: usize, peers: usize) -> Law {
    let mut c = config(node, 1);
    for i in 1..peers {
        let public_key = public_key(&private_key(40 + i));
        c.peers.push(PeerKeys { public_key, address: Some(address(40 + i)), ..c.peers[0].clone() });
    }
    Law { sessions: Sessions::new(Instant::ZERO, c, entropy(node, 5)), next_number: 0, queue: 0 }
}

impl Machine for Law {
    type Event = SessionEvent;
    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        if let Incoming::Established(_) = self.sessions.handle_datagram(now, port, frame, meta.from) {
            self.queue += 1;
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.sessions.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], _: usize) -> Option<Transmit> {
        if let Some(out) = self.sessions.poll_handshake(now, port, buf) {
            return Some(Transmit { len: out.len, to: out.to, ..Transmit::default() });
        }
        if self.queue == 0 || !self.sessions.can_seal(now, 0) {
            return None;
        }
        self.queue -= 1;
        let len = self.sessions.seal(now, 0, 0, self.next_number, buf, 20)?;
        self.next_number += 1;
        Some(Transmit { len, ..Transmit::default() })
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        self.sessions.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<SessionEvent> {
        self.sessions.poll_event()
    }
}

#[test]
fn the_laws_hold() {
    // What a responder hears from a genuine initiator over three sessions, with an outage in it.
    let mut w = World::with([config(0, 1), config(1, 1)], MS50, 5);
    w.fate = Box::new(|now, _, _| {
        let outage = now > Instant::from_secs(60) && now < Instant::from_secs(64);
        if outage { Vec::new() } else { vec![Span::ZERO] }
    });
    w.want(0);
    for _ in 0..300 {
        w.send(0, b"x");
        w.run(Span::from_secs(1));
    }
    let heard = w.sent.iter().filter(|(_, from, _)| *from == 0);
    let meta = FrameMeta { from: Some(address(0)), ..FrameMeta::default() };
    let mut steps: Vec<(Instant, Stimulus<Law>)> =
        heard.map(|(at, _, bytes)| (*at + MS50, Stimulus::Frame(PORT, bytes.clone(), meta))).collect();
    for (at, command) in [
        (10, (|m, now| m.sessions.want(now, 0, true)) as fn(&mut Law, Instant)),
        (62, |m, now| m.sessions.suspect(now, 0)),
        (70, |m, _| m.queue += 3),
        (200, |m, now| m.sessions.want(now, 0, false)),
        (230, |m, now| m.sessions.want(now, 0, true)),
    ] {
        steps.push((Instant::from_secs(at), Stimulus::Command(command)));
    }
    steps.sort_by_key(|(at, _)| *at);
    laws::check(|| law(1, 1), &Script { steps, ports: vec![PORT], end: Instant::from_secs(320) });

    // An initiator whom nobody answers, with two peers.
    let steps = vec![
        (Instant::from_secs(1), Stimulus::Command((|m, now| m.sessions.want(now, 0, true)) as fn(&mut Law, Instant))),
        (Instant::from_secs(2), Stimulus::Command(|m, now| m.sessions.want(now, 1, true))),
        (Instant::from_secs(9), Stimulus::Command(|m, now| m.sessions.want(now, 1, false))),
        (Instant::from_secs(9), Stimulus::Command(|m, now| m.sessions.want(now, 1, true))),
    ];
    laws::check(|| law(0, 2), &Script { steps, ports: vec![PORT], end: Instant::from_secs(100) });
}

/// An established pair, and a genuine datagram of each kind to start from.
fn established(seed: u64) -> (World, Vec<Vec<u8>>) {
    let mut w = World::with([config(0, 1), config(1, 1)], MS50, seed);
    w.want(0);
    w.run(Span::from_secs(1));
    w.send(0, b"something");
    w.run(Span::from_millis(60));
    let kinds = w.sent.iter().map(|s| s.2.clone()).collect();
    (w, kinds)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Whatever arrives, nothing panics, nothing unauthenticated is delivered, and the session goes on.
    #[test]
    fn arbitrary_bytes_do_no_harm(
        junk in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..30),
        turns in proptest::collection::vec((0usize..4, any::<u16>(), any::<u8>(), any::<u16>()), 0..30),
        seed in any::<u64>(),
    ) {
        let (mut w, kinds) = established(seed);
        let now = w.now;
        for mut bytes in junk {
            let took = w.nodes[1].sessions.handle_datagram(now, PORT, &mut bytes, None);
            prop_assert!(matches!(took, Incoming::Dropped(_)));
        }
        for (which, at, with, cut) in turns {
            let mut bytes = kinds[which % kinds.len()].clone();
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= with;
            bytes.truncate(bytes.len() - usize::from(cut) % 3);
            for node in 0..2 {
                let took = w.nodes[node].sessions.handle_datagram(now, PORT, &mut bytes.clone(), Some(address(4)));
                let delivered = matches!(took, Incoming::Data { .. } | Incoming::Established(_));
                prop_assert!(!delivered, "a copy or a forgery was taken");
            }
        }
        prop_assert!(w.send(0, b"still"));
        w.run(Span::from_millis(60));
        prop_assert_eq!(w.nodes[1].got.last().map(|g| g.2.clone()), Some(b"still".to_vec()));
    }
}

#[test]
#[should_panic(expected = "must seal growing numbers")]
fn a_number_is_never_sealed_twice() {
    let (mut w, _) = established(1);
    w.nodes[0].next_number -= 1;
    w.send(0, b"again");
}

#[test]
fn new_keys_differ_and_fit() {
    let mut dice: Entropy = Seed(1).entropy("keys");
    let (a, b) = (generate(&mut dice), generate(&mut dice));
    assert_ne!(a, b);
    assert_eq!(public_key(&a.0), a.1);
}
