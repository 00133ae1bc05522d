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
        assert!(matches!(other(&chain), Some(Event::Reset(..))), "{:?}", other(&chain));
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
    assert!(matches!(chain.servers[0].fate, Some(Event::Reset(_, Reason::TimedOut))), "{:?}", chain.servers[0].fate);
}
