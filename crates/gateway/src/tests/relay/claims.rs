//! Genuine and false resume requests at a relay, and what remains of a removed neighbour's flows there.

use super::*;
use crate::shares::{Arrivals, Lending};
use wavelane_wire::frame::{OPEN_KEYS_LEN, Seal, Word};

impl Chain {
    /// The first node asks for a flow to the last with a hand-made request.
    fn ask(&mut self, passage: Option<Passage>) -> wavelane_wire::frame::FlowName {
        let (now, target) = (self.now, server(self.nodes.len() - 1));
        let node = self.node(0);
        let name = node.net.peers.blocks(PeerId(0)).open(now, CLIENT.parse().unwrap(), target, passage).unwrap();
        node.settle_peer(now, PeerId(0));
        name
    }
    /// From now on a node admits `rate` new flows a second.
    fn admit(&mut self, node: usize, rate: u64) {
        let now = self.now;
        *self.node(node).flows.arrivals() = Arrivals::new(now, rate, 2);
    }
}

#[test]
fn resumed_flows_are_rate_limited_at_a_relay() {
    let mut chain = Chain::new(3, 1);
    chain.run(Span::from_secs(1), |_| false);
    chain.admit(1, 20);
    for n in 0..200_u64 {
        let mut token = [9; 16];
        token[..8].copy_from_slice(&n.to_be_bytes());
        chain.ask(Some(Passage { token, received: Some(0), ..Passage::default() }));
    }
    chain.run(Span::from_secs(1), |_| false);
    // A second's worth at once, of its own and of the common rate, and what was earned meanwhile.
    let relayed = chain.count(1, "flows_relayed");
    assert!((10..=35).contains(&relayed), "{relayed} of 200 passed on");
    assert_eq!(chain.count(1, "refused_flow_rate"), 200 - relayed);
}

#[test]
fn flows_that_a_relay_puts_off_for_long_are_taken_up_in_the_end() {
    let mut chain = Chain::new(3, 1);
    for n in 0..40 {
        chain.talk(noise(n, 40_000), noise(n + 100, 40_000));
    }
    chain.run(Span::from_millis(300), |_| false);
    chain.boot(1);
    // Another peer's flood leaves less than one flow a second.
    chain.admit(1, 1);
    assert!(chain.run(Span::from_secs(120), Chain::all_closed));
    chain.check_complete();
    assert!(chain.count(1, "refused_flow_rate") > 0, "the test must put flows off");
    assert_eq!(chain.incoming, 40);
}

#[test]
fn flows_wait_for_room_at_a_restarted_relay() {
    let mut chain = Chain::new(3, 1);
    chain.talk(noise(1, 3_000_000), noise(2, 300_000));
    chain.run(Span::from_millis(300), |_| false);
    chain.boot(1);
    *chain.node(1).net.peers.places_lent() = Lending::new(0, 2);
    chain.run(Span::from_secs(5), |_| false);
    assert!(chain.clients[0].fate.is_none(), "{:?}", chain.clients[0].fate);
    let refused = |chain: &mut Chain| chain.node(1).net.peers.blocks(PeerId(0)).counters().refused_table_full;
    assert!(refused(&mut chain) > 1, "the test must leave no room");
    // A flow that was never established is refused as before.
    let new = chain.talk(Vec::new(), Vec::new());
    assert!(chain.run(Span::from_secs(1), |c| c.clients[new].fate.is_some()));
    assert!(
        matches!(chain.clients[new].fate, Some(GatewayEvent::Refused(_, Reason::NoRoom))),
        "{:?}",
        chain.clients[new].fate
    );
    chain.clients.pop();
    chain.answers.pop();
    *chain.node(1).net.peers.places_lent() = Lending::new(4_096, 2);
    assert!(chain.run(Span::from_secs(60), Chain::all_closed));
    chain.check_complete();
}

#[test]
fn closing_while_a_resumption_waits_leaves_no_state() {
    let mut chain = Chain::new(3, 1);
    let client = chain.talk(noise(1, 3_000_000), noise(2, 10));
    chain.run(Span::from_millis(300), |_| false);
    chain.boot(1);
    chain.admit(1, 1);
    // The initial allowance is used up.
    let now = chain.now;
    for peer in [0, 0, 1] {
        chain.node(1).flows.arrivals().admit(now, peer);
    }
    assert!(chain.run(Span::from_secs(10), |c| c.node(0).status(Instant::ZERO).flows_lost_way == 1));
    let (now, flow) = (chain.now, chain.clients[client].flow.unwrap());
    chain.node(0).reset(now, flow);
    chain.run(Span::from_secs(30), |_| false);
    let now = chain.now;
    let status = chain.node(0).status(now);
    assert_eq!((status.flows, status.flows_lost_way, status.buffered), (0, 0, 0));
}

#[test]
fn a_lost_neighbour_ends_its_flows_at_the_next_hop() {
    let mut chain = Chain::new(3, 1);
    chain.answers.push(Vec::new());
    let name = chain.ask(None);
    assert!(chain.run(Span::from_secs(5), |c| c.incoming == 1));
    chain.servers[0].reads_from = chain.now + Span::from_secs(3_600);
    // Just more than the server's gateway takes for an application that reads nothing.
    let mut left = noise(1, (256 << 10) + 2_000);
    while !left.is_empty() {
        let now = chain.now;
        let taken = chain.node(0).net.peers.blocks(PeerId(0)).write(now, name, &left);
        left.drain(..taken);
        chain.node(0).settle_peer(now, PeerId(0));
        chain.run(Span::from_millis(50), |_| false);
    }
    let now = chain.now;
    chain.node(0).net.peers.blocks(PeerId(0)).shutdown(now, name);
    assert_eq!(chain.node(0).net.peers.blocks(PeerId(0)).read(now, name, &mut [0; 9]), ReadOutcome::End);
    chain.node(0).settle_peer(now, PeerId(0));
    chain.run(Span::from_secs(10), |_| false);
    assert_eq!(chain.node(1).relays.len(), 1, "the test must leave the far side alone");
    let mut lonely = config(1, 3, chain.pool);
    lonely.peers.remove(0);
    let now = chain.now;
    chain.node(1).reload(now, lonely).unwrap();
    chain.run(Span::from_secs(5), |_| false);
    let held = chain.node(1).net.peers.blocks(PeerId(0)).status();
    assert_eq!((held.flows, held.to_send, held.unread), (0, 0, 0));
    assert_eq!(chain.node(1).relays.len(), 0);
    let status = chain.node(2).status(now);
    assert!(matches!(chain.servers[0].fate, Some(GatewayEvent::Reset(_, Reason::Aborted))), "{status:?}");
}

/// The egress is asked by another path, as after a move of the opener that this relay has not heard of yet.
#[test]
fn a_relay_whose_path_the_egress_left_does_not_shun_it() {
    let mut chain = Chain::new(3, 1);
    chain.talk(noise(1, 3_000_000), Vec::new());
    chain.run(Span::from_millis(500), |_| false);
    let id = chain.clients[0].flow.unwrap();
    let token = chain.node(0).flows.edge(id).unwrap().token;
    let (now, target) = (chain.now, server(2));
    let asked = Passage { token, hops: 1, received: Some(0), choice: true, attempt: 1, seal: None };
    let relay = chain.node(1);
    relay.net.peers.blocks(PeerId(1)).open(now, CLIENT.parse().unwrap(), target, Some(asked)).unwrap();
    relay.settle_peer(now, PeerId(1));
    assert!(chain.run(Span::from_secs(5), |c| c.count(2, "flows_resumed") > 0), "the egress takes it up");
    assert!(chain.run(Span::from_secs(5), |c| c.count(0, "flows_resumed") > 0), "the opener was still on the old path");
    let now = chain.now;
    assert_eq!(chain.node(1).net.good_way(now, Some(PeerId(0)), target.ip()), Some(PeerId(1)));
    assert!(chain.run(Span::from_secs(60), Chain::all_closed));
    chain.check_complete();
}

/// A neighbour that knows a token repeats an old request, or one with an invented word, to make the relay shun the next hop.
#[test]
fn a_stale_or_forged_request_makes_no_relay_shun_the_next_hop() {
    for sealed in [false, true] {
        let mut chain = Chain::new(3, 1);
        chain.seals = vec![sealed; 3];
        (0..3).for_each(|node| chain.boot(node));
        chain.talk(noise(1, 3_000_000), Vec::new());
        chain.run(Span::from_millis(500), |_| false);
        let id = chain.clients[0].flow.unwrap();
        let edge = chain.node(0).flows.edge(id).unwrap();
        let (token, word) = (edge.token, sealed.then_some(Seal::Word(Word { count: 7, tag: [7; 16] })));
        edge.attempt = 7;
        chain.boot(1);
        assert!(chain.run(Span::from_secs(20), |c| c.count(2, "flows_resumed") > 0), "the opener asks an eighth time");
        let refused = |c: &Chain| c.count(2, "dropped_stale_opens") + c.count(2, "dropped_words_forged");
        let before = refused(&chain);
        chain.ask(Some(Passage { token, hops: 1, received: Some(0), choice: true, attempt: 1, seal: word }));
        assert!(
            chain.run(Span::from_secs(5), |c| refused(c) > before),
            "the egress sees that it is not the other edge's"
        );
        chain.run(Span::from_millis(500), |_| false);
        let (now, target) = (chain.now, server(2).ip());
        for upstream in [Some(PeerId(0)), None] {
            assert_eq!(chain.node(1).net.good_way(now, upstream, target), Some(PeerId(1)), "sealed: {sealed}");
        }
        assert!(chain.run(Span::from_secs(60), Chain::all_closed));
        chain.check_complete();
    }
}

/// Junk in place of keys costs as much as keys do.
#[test]
fn a_flood_of_sealed_requests_is_refused_before_it_costs() {
    let mut chain = Chain::new(2, 1);
    chain.seals = vec![true; 2];
    (0..2).for_each(|node| chain.boot(node));
    chain.run(Span::from_secs(1), |_| false);
    let now = chain.now;
    let mut ask = |n: u64| {
        let mut token = [9; 16];
        token[..8].copy_from_slice(&n.to_be_bytes());
        let seal = Some(Seal::Keys([n as u8; OPEN_KEYS_LEN]));
        let side = (PeerId(0), wavelane_wire::frame::FlowName { mine: false, number: 100 + n });
        let passage = Passage { token, seal, ..Passage::default() };
        chain.node(1).incoming(now, side, (server(0), server(1)), Some(passage)).unwrap_err().reason
    };
    let reasons: Vec<Reason> = (0..1_000).map(&mut ask).collect();
    let tried = reasons.iter().filter(|reason| **reason == Reason::Prohibited).count();
    assert_eq!(tried, 256, "its own allowance and the common one");
    assert!(reasons[256..].iter().all(|reason| *reason == Reason::NoRoom));
    assert_eq!((chain.count(1, "refused_seals"), chain.count(1, "refused_key_rate")), (256, 744));
}
