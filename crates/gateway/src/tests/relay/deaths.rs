//! Gateways of a chain that restart, or never come back.

use super::*;

#[test]
fn a_relay_crash_at_any_moment_loses_no_byte() {
    for seed in 0..24 {
        let mut chain = Chain::new(4, seed);
        chain.loss = Ratio::new(seed as u32 % 3, 20).unwrap();
        let when = Span::from_millis(40 * seed + 5);
        chain.talk(noise(1, 400_000), noise(2, 400_000));
        chain.talk(noise(3, 500), noise(4, 500));
        chain.run(when, |_| false);
        let victim = 1 + (seed as usize) % 2;
        chain.nodes[victim] = None;
        chain.run(Span::from_millis(700 * (seed % 4)), |_| false);
        chain.boot(victim);
        assert!(chain.run(Span::from_secs(120), Chain::all_closed), "seed {seed}: {:?}", chain.clients[0].fate);
        chain.check_complete();
        assert!(chain.incoming == 2, "no server saw a flow twice (seed {seed})");
    }
}

#[test]
fn relays_that_die_again_and_again_only_delay() {
    let mut chain = Chain::new(4, 5);
    chain.talk(noise(1, 6_000_000), noise(2, 6_000_000));
    for round in 0..12 {
        chain.run(Span::from_millis(600), |_| false);
        chain.boot(1 + round % 2);
    }
    assert!(chain.run(Span::from_secs(120), Chain::all_closed));
    chain.check_complete();
    assert!(chain.count(0, "flows_resumed") >= 3);
}

#[test]
fn an_edge_that_loses_its_memory_resets_the_flow_at_the_other() {
    for victim in [0, 2] {
        let mut chain = Chain::new(3, 1);
        chain.talk(noise(1, 3_000_000), noise(2, 10));
        chain.run(Span::from_millis(300), |_| false);
        chain.boot(victim);
        let other = |c: &Chain| if victim == 0 { c.servers[0].fate.clone() } else { c.clients[0].fate.clone() };
        assert!(chain.run(Span::from_secs(20), |c| other(c).is_some()), "victim {victim}");
        assert!(matches!(other(&chain), Some(GatewayEvent::Reset(..))), "{:?}", other(&chain));
        chain.run(Span::from_secs(5), |_| false);
        assert_eq!(chain.node(1).status(Instant::from_secs(100)).flows_relayed, 0);
    }
}

#[test]
fn a_relay_that_never_returns_is_given_up_in_the_end() {
    let mut chain = Chain::new(3, 1);
    chain.talk(noise(1, 3_000_000), noise(2, 10));
    chain.run(Span::from_millis(300), |_| false);
    // It returns, but its return path to the client is cut: the server's side waits to be resumed.
    chain.nodes[0] = None;
    chain.boot(1);
    chain.run(Span::from_secs(30), |_| false);
    assert_eq!(chain.node(2).status(Instant::from_secs(100)).flows_lost_way, 1);
    assert!(chain.run(Span::from_secs(700), |c| c.servers[0].fate.is_some()));
    assert!(
        matches!(chain.servers[0].fate, Some(GatewayEvent::Reset(_, Reason::TimedOut))),
        "{:?}",
        chain.servers[0].fate
    );
}

/// The first octets overtake the word that accepts the flow, the client already tries to read, and the relay restarts: the opener, which
/// was never answered, asks for all of it.
#[test]
fn octets_that_overtake_the_answer_come_once() {
    for seed in 0..150 {
        let mut chain = Chain::new(3, seed);
        chain.loss = Ratio::new(1, 5).unwrap();
        chain.talk(noise(seed, 10), noise(seed + 1, 30_000));
        let heard = chain.run(Span::from_secs(10), |chain| !chain.clients[0].heard.is_empty());
        assert!(heard, "{seed}");
        chain.boot(1);
        assert!(chain.run(Span::from_secs(60), |chain| chain.clients[0].end), "{seed}");
        assert!(chain.clients[0].heard == chain.servers[0].data, "{seed}");
    }
}

/// A relay restarts at each moment at which a flow may be ending: both owners are told that it ended well.
#[test]
fn a_relay_crash_at_the_end_of_a_flow_is_not_noticed() {
    for (count, sealed, victim, lossy) in
        [(3, false, 1, false), (3, true, 1, true), (4, true, 1, false), (4, true, 2, true)]
    {
        let begin = |seed| {
            let mut chain = Chain::new(count, seed);
            chain.seals = vec![sealed; count];
            (0..count).for_each(|node| chain.boot(node));
            chain.loss = if lossy { Ratio::new(1, 10).unwrap() } else { Ratio::ZERO };
            chain.talk(noise(1, 400), noise(2, 4_000));
            chain
        };
        for moment in 0..100 {
            let mut chain = begin(moment);
            assert!(chain.run(Span::from_secs(60), |chain| chain.servers.first().is_some_and(|server| server.end)));
            chain.run(Span::from_micros(1_700 * moment), |_| false);
            chain.boot(victim);
            let case = format!("{count} nodes, sealed {sealed}, node {victim}, moment {moment}");
            assert!(
                chain.run(Span::from_secs(60), Chain::all_closed),
                "{case}: {:?} {:?}",
                chain.clients[0].fate,
                chain.servers[0].fate
            );
            chain.check_complete();
            assert_eq!(chain.count(0, "dropped_words_forged"), 0, "{case}");
        }
    }
}

/// An opener that has the answering edge's last word closes even if nobody is left to confirm that.
#[test]
fn an_opener_that_has_everything_is_not_told_of_a_reset() {
    let mut cases = 0;
    for seed in 0..60 {
        let mut chain = Chain::new(3, seed);
        chain.loss = Ratio::new(3, 10).unwrap();
        chain.talk(noise(1, 400), noise(2, 4_000));
        let id = chain.clients[0].flow.unwrap();
        let waits =
            |chain: &mut Chain| chain.node(0).flows.edge(id).is_some_and(|edge| edge.is_done() && edge.other_finished);
        if !chain.run(Span::from_secs(10), |chain| waits(chain) || chain.clients[0].fate.is_some())
            || !waits(&mut chain)
        {
            continue;
        }
        cases += 1;
        chain.boot(1);
        chain.boot(2);
        assert!(chain.run(Span::from_secs(60), |chain| chain.clients[0].fate.is_some()), "{seed}");
        assert!(matches!(chain.clients[0].fate, Some(GatewayEvent::Closed(_))), "{seed}: {:?}", chain.clients[0].fate);
    }
    assert!(cases > 3, "{cases}");
}

/// A repeated first Open that comes after the server reset the flow, or after the flow was given up, makes no second connection.
#[test]
fn a_late_request_for_a_flow_that_was_reset_creates_none() {
    for given_up in [false, true] {
        let mut chain = Chain::new(3, 1);
        chain.talk(noise(1, 400), noise(2, 3_000_000));
        assert!(chain.run(Span::from_secs(10), |chain| chain.servers.first().is_some_and(|server| server.written > 0)));
        let (client, server) = (chain.clients[0].flow.unwrap(), chain.servers[0].flow.unwrap());
        let token = chain.node(0).flows.edge(client).unwrap().token;
        if given_up {
            chain.nodes[0] = None;
            chain.boot(1);
            assert!(chain.run(Span::from_secs(700), |chain| chain.servers[0].fate.is_some()));
        } else {
            let now = chain.now;
            chain.node(2).reset(now, server);
        }
        chain.run(Span::from_secs(1), |_| false);
        let (now, target) = (chain.now, super::server(2));
        let asked = Passage { token, hops: 1, ..Passage::default() };
        let relay = chain.node(1);
        let name = relay.net.peers.blocks(PeerId(1)).open(now, CLIENT.parse().unwrap(), target, Some(asked)).unwrap();
        relay.settle_peer(now, PeerId(1));
        chain.answers.push(Vec::new());
        chain.run(Span::from_secs(2), |_| false);
        let now = chain.now;
        let refused = chain.node(1).net.peers.blocks(PeerId(1)).read(now, name, &mut [0; 10]);
        assert_eq!((chain.incoming, refused), (1, ReadOutcome::Reset), "given up: {given_up}");
    }
}

/// Nobody asks the opening edge for a flow, so its flows leave the memory of ended ones to those that it answers.
#[test]
fn only_the_answering_edge_remembers_a_flow() {
    let mut chain = Chain::new(3, 1);
    chain.talk(noise(1, 400), noise(2, 400));
    let id = chain.clients[0].flow.unwrap();
    let token = chain.node(0).flows.edge(id).unwrap().token;
    assert!(chain.run(Span::from_secs(10), Chain::all_closed));
    assert!(!chain.node(0).flows.is_remembered(&token) && chain.node(2).flows.is_remembered(&token));
}

/// A relay says again and again that the flow was asked for by another way: the opener, which knows a choice of ways, does not ask in a loop.
#[test]
fn a_relay_that_always_says_complete_does_not_keep_the_opener_asking() {
    let mut chain = Chain::new(3, 1);
    chain.talk(noise(1, 10), noise(2, 10));
    assert!(chain.run(Span::from_secs(10), |chain| !chain.servers.is_empty()));
    chain.servers[0].reads_from = Instant::from_secs(600);
    chain.run(Span::from_secs(1), |_| false);
    let id = chain.clients[0].flow.unwrap();
    if let crate::flows::in_tests::Role::Opener { choice, routed, .. } = &mut chain.node(0).flows.edge(id).unwrap().role
    {
        *choice = true;
        *routed = true;
    }
    let mut said = 0;
    chain.run(Span::from_secs(10), |chain| {
        let ready = chain.node(0).flows.edge(id).is_some_and(|edge| !edge.awaiting);
        let (now, names) = (chain.now, chain.node(1).relays.of_peer(PeerId(0)));
        for name in names.into_iter().filter(|_| ready) {
            chain.node(1).net.peers.blocks(PeerId(0)).reset(name, Reason::Complete);
            chain.node(1).settle_peer(now, PeerId(0));
            said += 1;
        }
        false
    });
    let asked = chain.count(0, "flows_resumed");
    assert!(said > 1 && (1..20).contains(&asked), "{asked} times in 10 s");
}
