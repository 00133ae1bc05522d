//! What strangers can do: nothing that stays.

use super::*;

#[test]
fn peers_without_need_or_address_are_not_called() {
    let mut c = config(0, 1);
    c.peers[0].ways[0].address = None;
    let mut w = World::with([c, config(1, 1)], MS50, 1);
    w.want(0);
    w.run(Span::from_secs(5));
    assert!(w.sent.is_empty());
    assert_eq!(w.nodes[0].sessions.poll_timeout(), None);
    w.want(1);
    w.run(Span::from_secs(1));
    assert_eq!(w.nodes[0].sessions.address(0, 0), Some(address(1)), "learned from the first data");
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
        s.replies.capacity(),
        s.events.capacity(),
        s.peers.iter().map(|p| p.sessions().count()).sum(),
        s.peers.iter().filter(|p| p.initiation.is_some() || p.answered.is_some()).count(),
        s.peers.len(),
    ]
}

#[test]
fn unknown_senders_get_no_answer_and_no_state() {
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
                    *first = (chance.below(5) + 1) as u8;
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
            n if n < HANDSHAKES_PER_SECOND_MAX + REPLIES_MAX as u32 - NOTICES_PER_WINDOW_MAX => {
                DropReason::CookieNeeded
            }
            _ => DropReason::Overload,
        };
        assert_eq!(took, Incoming::Dropped(expected), "handshake {i}");
    }
    while let Some(out) = node.sessions.poll_handshake(w.now, PORT, &mut buf) {
        assert_eq!((out.to, out.peer), (Some(address(7)), None));
        assert!(out.len < flood[0].len(), "no amplification");
        replies += 1;
    }
    assert_eq!(replies, REPLIES_MAX);
    // A configured peer gets through: its first try earns a cookie, its second shows it.
    w.want(0);
    let mut step = 0;
    while w.nodes[0].established.is_empty() {
        for bytes in flood.iter().cycle().take(20) {
            let _ = w.nodes[1].sessions.handle_datagram(w.now, PORT, &mut bytes.clone(), Some(address(7)));
        }
        // The flood's cookie replies leave towards the flooder.
        while w.nodes[1].sessions.replies.iter().any(|c| c.to.from == Some(address(7))) {
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
    let out = loop {
        // What the stranger is told of its key is not the caller's.
        let out = s.poll_handshake(now, PORT, &mut buf).unwrap();
        if buf[0] == kind::COOKIE_REPLY {
            break out;
        }
    };
    assert_eq!(caller.handle_datagram(now, PORT, &mut buf[..out.len].to_vec(), None), Incoming::Handled);
    let later = Instant::from_millis(300);
    caller.handle_timeout(later);
    let out = caller.poll_handshake(later, PORT, &mut buf).unwrap();
    let again = buf[..out.len].to_vec();
    let mut take = |from| s.handle_datagram(later, PORT, &mut again.clone(), Some(from));
    assert_eq!(take(address(3)), Incoming::Dropped(DropReason::CookieNeeded));
    assert_eq!(take(address(0)), Incoming::Handled);
}

/// Strangers call by a port that has no room for answers: a peer's call by another one is answered.
#[test]
fn a_flooded_port_without_room_silences_no_other() {
    let mut s = Sessions::new(Instant::ZERO, config(1, 1), entropy(1, 1));
    for n in 0..200 {
        let _ = s.handle_datagram(Instant::ZERO, PortId(1), &mut init_from(20 + n % 4, 5), Some(address(7)));
    }
    assert_eq!(s.replies.len(), REPLIES_MAX, "what waits is bounded");
    let mut call = |key: usize| s.handle_datagram(Instant::ZERO, PORT, &mut init_from(key, 5), Some(address(key)));
    assert_eq!(call(0), Incoming::Handled, "it is under no load");
    for _ in 1..HANDSHAKES_PER_SECOND_MAX {
        let _ = call(20);
    }
    assert_eq!(call(0), Incoming::Dropped(DropReason::CookieNeeded));
    let mut buf = [0; HANDSHAKE_MAX];
    let mut cookies = core::iter::from_fn(|| {
        let out = s.poll_handshake(Instant::ZERO, PORT, &mut buf)?;
        Some((buf[0], out.to))
    });
    assert!(cookies.any(|out| out == (kind::COOKIE_REPLY, Some(address(0)))));
}

/// One host shows cookies of many of its ports as fast as it can: another host's call is still taken.
#[test]
fn a_host_that_proves_its_addresses_does_not_shut_others_out() {
    let mut s = Sessions::new(Instant::ZERO, config(1, 1), entropy(1, 1));
    let mut call = |bytes: &[u8], from: Address| {
        let mut bytes = bytes.to_vec();
        let end = bytes.len() - MAC_LEN;
        let shown = mac2(&s.guard.cookie(PORT, Some(from)), &bytes[..end]);
        bytes[end..].copy_from_slice(&shown);
        s.handle_datagram(Instant::ZERO, PORT, &mut bytes, Some(from))
    };
    let flood: Vec<Vec<u8>> = (0..4).map(|i| init_from(20 + i, 1)).collect();
    let took: Vec<Incoming> = (0..2_000_u16)
        .map(|n| call(&flood[usize::from(n % 4)], crate::session::world::at([10, 0, 0, 8], n)))
        .filter(|took| *took == Incoming::Dropped(DropReason::UnknownPeer))
        .collect();
    assert_eq!(took.len() as u32, HANDSHAKES_PER_SECOND_MAX + PROVEN_HANDSHAKES_PER_HOST_MAX);
    assert_eq!(call(&init_from(0, 5), address(0)), Incoming::Handled);
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
