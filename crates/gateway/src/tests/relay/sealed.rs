//! Flows sealed by their edges, over misbehaving relays.

use super::*;
use crate::flows::in_tests::Sealing;
use crate::{Faults, TamperingRelay};
use std::sync::{Arc, Mutex};
use wavelane_wire::frame::{Answered, FlowName, Passage, Reach, Reason, Seal, Word};

fn sealed_chain(count: usize) -> Chain {
    let mut chain = Chain::new(count, 1);
    chain.seals = vec![true; count];
    (0..count).for_each(|node| chain.boot(node));
    chain
}

/// The octets that passed a relay.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<u8>>>);

type Deed = Box<dyn FnMut(&Witness, PeerId, &mut Vec<u8>) + Send>;

struct Relay {
    witness: Witness,
    deed: Deed,
    claims: u64,
}

impl core::fmt::Debug for Relay {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Relay")
    }
}

impl TamperingRelay for Relay {
    fn octets(&mut self, to: PeerId, octets: &mut Vec<u8>) {
        self.witness.0.lock().unwrap().extend(&*octets);
        (self.deed)(&self.witness, to, octets);
    }
    fn progress(&mut self, reach: &mut Reach) {
        reach.received += self.claims;
    }
}

impl Chain {
    fn corrupt(&mut self, node: usize, deed: impl FnMut(&Witness, PeerId, &mut Vec<u8>) + Send + 'static) -> Witness {
        let witness = Witness::default();
        let relay = Relay { witness: witness.clone(), deed: Box::new(deed), claims: 0 };
        self.node(node).set_faults(Faults { tampering: Some(Box::new(relay)), ..Faults::default() });
        witness
    }
    fn distrusted(&self, node: usize) -> u64 {
        self.nodes[node].as_ref().unwrap().status(self.now).peers.iter().map(|peer| peer.distrusted).sum()
    }
    /// The fate of the flow, if it did not close.
    fn ends_otherwise(&self) -> Option<GatewayEvent> {
        let fates = self.clients.iter().map(|talk| talk.fate.clone());
        fates.flatten().find(|fate| !matches!(fate, GatewayEvent::Closed(_)))
    }
}

/// How often each fault happens.
fn once_in(n: usize) -> impl FnMut() -> bool + Send {
    let mut left = n;
    move || {
        left = if left == 0 { n } else { left - 1 };
        left == 0
    }
}

#[test]
fn a_sealed_flow_is_opaque_to_relays_and_cheap() {
    let mut chain = sealed_chain(4);
    chain.loss = Ratio::new(1, 20).unwrap();
    let witness = chain.corrupt(1, |_, _, _| {});
    let text = b"the quick brown fox".repeat(60_000);
    chain.talk(text.clone(), noise(2, 300_000));
    chain.talk(b"hello".to_vec(), Vec::new());
    chain.talk(Vec::new(), b"banner".to_vec());
    assert!(chain.run(Span::from_secs(60), Chain::all_closed));
    chain.check_complete();
    let seen = witness.0.lock().unwrap();
    assert!(!seen.windows(10).any(|window| window == &text[..10]));
    let plain = text.len() + 300_000 + 5 + 6;
    assert!(seen.len() > plain && seen.len() as f64 <= 1.03 * plain as f64, "{} for {plain}", seen.len());
    assert_eq!((0..4).map(|node| chain.distrusted(node)).sum::<u64>(), 0);
}

#[test]
fn octets_changed_by_a_relay_are_detected_and_repaired() {
    type Fault = fn(&mut Vec<u8>);
    let faults: [(&str, Fault); 4] = [
        ("changed", |octets| octets[0] ^= 1),
        ("cut off", |octets| octets.truncate(octets.len() / 2)),
        ("doubled", |octets| octets.extend(octets.clone())),
        ("moved", |octets| octets.rotate_left(1)),
    ];
    for (what, fault) in faults {
        let mut chain = sealed_chain(3);
        let mut due = once_in(40);
        chain.corrupt(1, move |_, _, octets| {
            if !octets.is_empty() && due() {
                fault(octets);
            }
        });
        chain.talk(noise(1, 1_000_000), noise(2, 1_000_000));
        assert!(chain.run(Span::from_secs(120), Chain::all_closed), "{what}: {:?}", chain.ends_otherwise());
        chain.check_complete();
        assert!(chain.count(0, "dropped_parcels_foreign") + chain.count(2, "dropped_parcels_foreign") > 0, "{what}");
        assert!(chain.distrusted(0) + chain.distrusted(2) > 0, "{what}: the next hop is named");
    }
}

#[test]
fn without_seals_changes_are_not_detected() {
    let mut chain = Chain::new(3, 1);
    chain.corrupt(1, |_, _, octets| octets.iter_mut().take(1).for_each(|octet| *octet ^= 1));
    chain.talk(noise(1, 100_000), Vec::new());
    assert!(chain.run(Span::from_secs(60), Chain::all_closed));
    assert!(chain.servers[0].heard != chain.clients[0].data && chain.distrusted(2) == 0);
}

#[test]
fn a_relay_that_changes_all_octets_ends_the_flow() {
    let mut chain = sealed_chain(3);
    chain.corrupt(1, |_, to, octets| {
        if to == PeerId(1) {
            octets.iter_mut().for_each(|octet| *octet ^= 1);
        }
    });
    chain.talk(noise(1, 100_000), Vec::new());
    let over = |chain: &mut Chain| chain.ends_otherwise().is_some();
    assert!(chain.run(Span::from_secs(600), over));
    assert!(matches!(chain.ends_otherwise(), Some(GatewayEvent::Reset(_, _))), "{:?}", chain.ends_otherwise());
    assert!(chain.servers[0].heard.is_empty(), "nothing that is not the client's is delivered");
    assert!(chain.distrusted(2) > 0);
}

#[test]
fn withheld_octets_are_detected() {
    for honest_again in [true, false] {
        let mut chain = sealed_chain(3);
        chain.corrupt(1, move |witness, to, octets| {
            let passed = witness.0.lock().unwrap().len();
            let withheld = if honest_again { 200_000..400_000 } else { 200_000..usize::MAX };
            if to == PeerId(1) && withheld.contains(&passed) {
                octets.clear();
            }
        });
        // More than an edge keeps, so it cannot finish without the other edge's word.
        chain.talk(noise(1, 3_000_000), Vec::new());
        let over = |chain: &mut Chain| chain.all_closed() || chain.ends_otherwise().is_some();
        assert!(chain.run(Span::from_secs(900), over), "it ends either way");
        assert_eq!(chain.all_closed(), honest_again, "{:?}", chain.ends_otherwise());
        if honest_again {
            chain.check_complete();
        } else {
            assert!(chain.count(0, "flows_withheld") > 0 && chain.distrusted(0) > 0);
            assert!(matches!(chain.ends_otherwise(), Some(GatewayEvent::Reset(_, Reason::Corrupted))));
            assert_eq!(chain.count(0, "flows_corrupted") + chain.count(2, "flows_corrupted"), 1);
        }
    }
}

#[test]
fn a_relay_cannot_say_that_octets_arrived() {
    let mut chain = sealed_chain(3);
    let relay = Relay { witness: Witness::default(), deed: Box::new(|_, _, _| {}), claims: 1 };
    chain.node(1).set_faults(Faults { tampering: Some(Box::new(relay)), ..Faults::default() });
    chain.talk(noise(1, 300_000), Vec::new());
    let over = |chain: &mut Chain| chain.ends_otherwise().is_some();
    assert!(chain.run(Span::from_secs(900), over));
    assert!(chain.count(0, "dropped_words_forged") > 0);
    assert!(!chain.all_closed());
}

#[test]
fn a_stopped_reader_behind_honest_relays_is_no_deceit() {
    let mut chain = sealed_chain(3);
    chain.talk(noise(1, 10), noise(2, 3_000_000));
    chain.clients[0].reads_from = chain.now + Span::from_secs(300);
    chain.run(Span::from_secs(299), |_| false);
    assert_eq!((chain.distrusted(0), chain.distrusted(2), chain.count(0, "flows_resumed")), (0, 0, 0));
    assert!(chain.run(Span::from_secs(60), Chain::all_closed));
    chain.check_complete();
}

#[test]
fn a_sealed_flow_outlives_a_relay() {
    for at in [Span::from_millis(45), Span::from_millis(150), Span::from_millis(400), Span::from_millis(900)] {
        let mut chain = sealed_chain(3);
        chain.talk(noise(1, 1_000_000), noise(2, 500_000));
        chain.run(at, |_| false);
        chain.nodes[1] = None;
        chain.run(Span::from_millis(300), |_| false);
        chain.boot(1);
        assert!(chain.run(Span::from_secs(120), Chain::all_closed), "{at:?} {:?}", chain.ends_otherwise());
        chain.check_complete();
        assert_eq!(chain.distrusted(0) + chain.distrusted(2), 0, "a crash is no deceit");
    }
}

#[test]
fn a_sealing_edge_refuses_unsealed_relayed_flows() {
    for (seals, refused_by) in [([true, true, false], 2), ([false, false, true], 2), ([true, false, true], 9)] {
        let mut chain = Chain::new(3, 1);
        chain.seals = seals.to_vec();
        (0..3).for_each(|node| chain.boot(node));
        chain.talk(noise(1, 100_000), Vec::new());
        let over = |chain: &mut Chain| chain.all_closed() || chain.ends_otherwise().is_some();
        assert!(chain.run(Span::from_secs(60), over));
        if refused_by < 3 {
            assert!(matches!(chain.ends_otherwise(), Some(GatewayEvent::Refused(_, Reason::Prohibited))), "{seals:?}");
            assert_eq!((chain.count(refused_by, "refused_seals"), chain.incoming), (1, 0));
        } else {
            chain.check_complete();
        }
    }
}

#[test]
fn neighbours_leave_seals_out() {
    let mut chain = sealed_chain(2);
    chain.talk(noise(1, 1_000_000), noise(2, 10));
    assert!(chain.run(Span::from_secs(60), Chain::all_closed));
    chain.check_complete();
    assert_eq!(chain.count(0, "hop_first_octets"), 1_000_000);
}

/// A relay of the first way keeps the flow's first Open and replays it later, with a higher attempt number than all others.
#[test]
fn a_replayed_first_open_takes_no_flow_over() {
    let mut chain = sealed_chain(3);
    chain.talk(noise(1, 1_000_000), noise(2, 1_000_000));
    let begun = |node: &mut Gateway| {
        node.flows.of_peer(PeerId(0)).into_iter().find(|id| node.flows.edge(*id).is_some_and(|edge| edge.has_begun()))
    };
    assert!(chain.run(Span::from_secs(10), |chain| begun(chain.node(2)).is_some()));
    let (now, node) = (chain.now, chain.node(2));
    let id = begun(node).unwrap();
    let edge = node.flows.edge(id).unwrap();
    let Some(Sealing::Agreed(agreed)) = &edge.seal else { panic!("sealed") };
    let (token, keys) = (edge.token, agreed.asked_with().unwrap());
    let seal = Some(Seal::Keys(keys));
    let passage = Passage { token, hops: 1, received: None, choice: true, attempt: 1 << 61, seal };
    let side = (PeerId(0), FlowName { mine: false, number: 77 });
    let refused = node.incoming(now, side, (server(0), server(2)), Some(passage));
    assert_eq!(refused.map_err(|r| r.reason), Err(Reason::Complete));
    assert!(chain.run(Span::from_secs(120), Chain::all_closed), "{:?}", chain.ends_otherwise());
    chain.check_complete();
}

#[test]
fn the_edges_say_what_they_know_of_a_way() {
    // At the opening edge it is not known how many relays follow the first.
    for (count, asked, answered) in [
        (2, "node-1", "node-0"),
        (3, "node-1, perhaps more relays, node-2", "node-1, node-0"),
        (4, "node-1, perhaps more relays, node-3", "node-2, one more relay, node-0"),
    ] {
        let mut chain = sealed_chain(count);
        chain.talk(noise(1, 300_000), noise(2, 300_000));
        assert!(chain.run(Span::from_secs(10), |chain| chain.servers.iter().any(|server| server.heard.len() > 1_000)));
        let (client, server) = (chain.clients[0].flow.unwrap(), chain.servers[0].flow.unwrap());
        let way = |chain: &mut Chain, node, flow| chain.node(node).known_way(flow).unwrap().to_string();
        assert_eq!((way(&mut chain, 0, client), way(&mut chain, count - 1, server)), (asked.into(), answered.into()));
        // An edge that distrusts the way names it.
        if count == 3 {
            chain.corrupt(1, |_, _, octets| octets.iter_mut().take(1).for_each(|octet| *octet ^= 1));
            assert!(chain.run(Span::from_secs(10), |chain| chain.distrusted(0) > 0));
            let now = chain.now;
            let status = chain.node(0).status(now);
            let last = status.peers.iter().find_map(|peer| peer.distrusted_last.clone()).unwrap();
            assert_eq!(last.way.unwrap().to_string(), asked);
        }
    }
}

/// The whole answer and its end overtake the word that accepts the flow and brings the keys, while the client already tries to read.
#[test]
fn an_answer_that_overtakes_its_keys_waits_for_them() {
    for seed in 0..100 {
        let mut chain = Chain::new(3, seed);
        chain.seals = vec![true; 3];
        (0..3).for_each(|node| chain.boot(node));
        chain.loss = Ratio::new(1, 5).unwrap();
        chain.talk(noise(seed, 10), noise(seed + 1, 3_000));
        assert!(chain.run(Span::from_secs(60), Chain::all_closed), "{seed}");
        chain.check_complete();
        assert_eq!((chain.count(0, "dropped_parcels_foreign"), chain.count(0, "flows_resumed")), (0, 0), "{seed}");
    }
}

/// A relay that claims that a flow ended well, when its opener has everything and asks for the other edge's word.
#[test]
fn a_relay_cannot_say_that_a_flow_ended() {
    for proof in [None, Some(Answered { received: 500_000, seal: Some(Seal::Word(Word { count: 99, tag: [7; 16] })) })]
    {
        let mut chain = sealed_chain(3);
        chain.talk(noise(1, 500_000), noise(2, 10));
        // The server reads nothing more: the opener cannot have its last word.
        assert!(chain.run(Span::from_secs(10), |chain| chain.servers.first().is_some_and(|s| s.heard.len() > 100_000)));
        chain.servers[0].reads_from = Instant::from_secs(600);
        chain.boot(1);
        let mut claims = 0;
        chain.run(Span::from_secs(8), |chain| {
            let now = chain.now;
            let names: Vec<_> = chain.node(1).relays.of_peer(PeerId(0));
            for name in names {
                let side = (PeerId(0), name);
                if chain.node(1).relays.contains(side) && claims < 3 {
                    claims += 1;
                    chain.node(1).net.peers.blocks(PeerId(0)).refuse(now, name, Reason::Complete, proof);
                }
            }
            false
        });
        assert!(
            claims > 0 && chain.distrusted(0) > 0 && chain.clients[0].fate.is_none(),
            "{:?}",
            chain.clients[0].fate
        );
        chain.servers[0].reads_from = chain.now;
        assert!(chain.run(Span::from_secs(60), Chain::all_closed), "{:?}", chain.clients[0].fate);
        chain.check_complete();
    }
}

#[test]
fn a_relay_passes_on_no_more_requests_of_a_neighbour_than_its_part_once_the_next_gateway_is_short_of_time() {
    let mut chain = sealed_chain(3);
    chain.run(Span::from_secs(1), |_| false);
    // One of ten thousand neighbours is sure of one request.
    let now = chain.now;
    chain.node(1).relays.pass_on_for(now, 10_000);
    let fate = |chain: &mut Chain| {
        let talk = chain.talk(b"hello".to_vec(), Vec::new());
        chain.run(Span::from_secs(2), |chain| chain.clients[talk].fate.is_some());
        (chain.clients[talk].fate.clone(), chain.incoming)
    };
    let refused = |fate| matches!(fate, Some(GatewayEvent::Refused(_, Reason::NoRoom)));
    // Two are passed on while nothing is refused there, and the second is.
    assert!(matches!(fate(&mut chain), (Some(GatewayEvent::Closed(_)), 1)));
    chain.refuses = Some(Reason::NoRoom);
    let (second, asked) = fate(&mut chain);
    assert!(refused(second) && asked == 2);
    chain.refuses = None;
    let (third, asked) = fate(&mut chain);
    assert!(refused(third) && asked == 2, "it is not passed on");
    assert_eq!([1, 2].map(|node| chain.count(node, "refused_key_rate")), [1, 0]);
    chain.run(Span::from_secs(10), |_| false);
    assert!(matches!(fate(&mut chain), (Some(GatewayEvent::Closed(_)), 3)), "and is when that is over");
}
