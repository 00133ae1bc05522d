//! A node that starts again and knows no address of its peer but one it was told it had before.

use super::*;

/// A node without an address of its peer.
fn without_address(node: usize, epoch: u64) -> SessionsConfig {
    let mut config = config(node, epoch);
    config.peers[0].ways[0].address = None;
    config
}

/// `node` dies and starts again, remembers `place`, and has nothing but its peer in mind.
fn restart(w: &mut World, node: usize, epoch: u64, place: Option<Address>) {
    w.nodes[node] = Node::new(Sessions::new(w.now, without_address(node, epoch), entropy(node, epoch)));
    if let Some(place) = place {
        w.nodes[node].sessions.recall(w.now, 0, place, None);
    }
    w.want(node);
}

/// A standing session, and since when the node that answered is gone.
fn standing(seed: u64) -> World {
    let mut w = World::with([config(0, 100), without_address(1, 200)], MS50, seed);
    w.want(0);
    w.run(Span::from_secs(1));
    assert!(w.send(1, b"x"));
    w.run(MS50);
    w
}

#[test]
fn it_calls_at_once_and_the_peer_switches_with_its_first_data() {
    let mut w = standing(1);
    restart(&mut w, 1, 201, Some(address(0)));
    assert_eq!(w.nodes[1].sessions.address(0, 0), None, "a few calls, no more, before it answers");
    w.run(MS50.times(2));
    assert_eq!(w.nodes[1].sessions.address(0, 0), Some(address(0)));
    let e = w.nodes[1].established[0];
    assert_eq!((e.epoch, e.restarted, e.confirm, e.proven), (100, false, true, true));
    w.run(MS50);
    let e = *w.nodes[0].established.last().unwrap();
    assert_eq!((e.epoch, e.restarted, e.proven), (201, true, true));
    assert!(w.send(0, b"to") && w.send(1, b"fro"));
    w.run(MS50);
    assert_eq!(w.nodes[1].got.last().unwrap().2, b"to");
    assert_eq!(w.nodes[0].got.last().unwrap().2, b"fro");
    // Nothing is recalled of a peer that was met.
    w.nodes[1].sessions.recall(w.now, 0, address(7), None);
    assert!(w.nodes[1].sessions.peers[0].recalled.is_none());
}

#[test]
fn a_remembered_address_gets_a_bounded_number_of_calls() {
    let mut w = standing(2);
    w.fate = Box::new(|_, _, _| Vec::new());
    let before = w.count(1, kind::HANDSHAKE_INIT);
    restart(&mut w, 1, 201, Some(address(0)));
    let start = w.now;
    w.run(Span::from_secs(600));
    let calls: Vec<Instant> =
        w.sent.iter().filter(|(_, from, b)| *from == 1 && b[0] == kind::HANDSHAKE_INIT).map(|s| s.0).collect();
    assert_eq!(calls.len() - before, RECALL_CALLS as usize);
    assert!(calls.last().unwrap().since(start) <= Span::from_secs(3), "{calls:?}");
    assert!(w.nodes[1].events.is_empty(), "a peer that calls us is not looked for");
    assert!(w.nodes[1].sessions.poll_timeout().is_none(), "and costs nothing");
    w.fate = Box::new(|_, _, _| vec![Span::ZERO]);
    w.nodes[0].sessions.want(w.now, 0, false);
    w.want(0);
    w.run(Span::from_secs(2));
    assert_eq!(w.nodes[0].established.last().unwrap().epoch, 201);
    assert!(w.send(1, b"here"));
}

#[test]
fn an_answer_counts_only_from_where_it_called() {
    let mut w = standing(3);
    restart(&mut w, 1, 201, Some(address(0)));
    // The answer is caught on its way.
    w.fate = Box::new(|_, from, _| if from == 0 { Vec::new() } else { vec![Span::ZERO] });
    w.run(MS50.times(2));
    let answer = w.sent.iter().rfind(|(_, from, b)| *from == 0 && b[0] == kind::HANDSHAKE_RESPONSE).unwrap().2.clone();
    let sessions = &mut w.nodes[1].sessions;
    for from in [Some(address(7)), None] {
        let took = sessions.handle_datagram(w.now, PORT, &mut answer.clone(), from);
        assert_eq!(took, Incoming::Dropped(DropReason::UnknownSession));
        assert_eq!((sessions.address(0, 0), sessions.can_seal(w.now, 0)), (None, false));
    }
    let took = sessions.handle_datagram(w.now, PORT, &mut answer.clone(), Some(address(0)));
    assert!(matches!(took, Incoming::Established(e) if e.proven), "{took:?}");
    assert_eq!(sessions.address(0, 0), Some(address(0)));
}

/// Whichever key is the higher one, and whenever the peer itself begins to doubt.
#[test]
fn calls_from_both_sides_at_once_end_in_one_session() {
    for node in 0..2 {
        for offset in 0..40 {
            let mut w = World::with([config(0, 100), config(1, 200)], MS50, offset);
            w.want(0);
            w.want(1);
            w.run(Span::from_secs(4));
            assert!(w.send(node, b"x") && w.send(1 - node, b"y"));
            w.run(MS50);
            restart(&mut w, node, 300, Some(address(1 - node)));
            w.run(Span::from_millis(5 * offset));
            w.nodes[1 - node].sessions.suspect(w.now, 0);
            w.run(Span::from_millis(400).saturating_sub(Span::from_millis(5 * offset)));
            let restarts: Vec<u64> =
                w.nodes[1 - node].established.iter().filter(|e| e.restarted).map(|e| e.epoch).collect();
            assert_eq!(restarts, [300], "node {node}, {offset}");
            let got = [0, 1].map(|i: usize| w.nodes[i].got.len());
            assert!(w.send(0, b"to") && w.send(1, b"fro"), "node {node}, {offset}");
            w.run(MS50);
            assert!((0..2).all(|i| w.nodes[i].got.len() > got[i]), "node {node}, {offset}");
        }
    }
}

/// The calls arrive; what answers them does not come back from the called address.
#[test]
fn copies_of_an_init_do_not_delay_the_peers_own_call() {
    let mut w = standing(4);
    restart(&mut w, 1, 201, Some(address(0)));
    let start = w.now;
    w.fate = Box::new(|_, _, bytes| if bytes[0] == kind::HANDSHAKE_RESPONSE { Vec::new() } else { vec![Span::ZERO] });
    w.run(Span::from_millis(2_500));
    w.nodes[0].sessions.suspect(w.now, 0);
    w.run(Span::from_secs(10));
    let sent = |node: usize| {
        let inits = w.sent.iter().filter(|(at, from, b)| *at > start && *from == node && b[0] == kind::HANDSHAKE_INIT);
        inits.map(|s| s.0.since(start)).collect::<Vec<Span>>()
    };
    let (ours, theirs) = (sent(0), sent(1));
    assert!(theirs.iter().filter(|at| **at > Span::from_secs(1)).count() > 1, "copies must come late: {theirs:?}");
    assert!(ours[0] <= ANSWERED_WAIT + MS50.times(2), "{ours:?}");
}
