//! Detection time of a dead neighbour, the events it causes, and the cost of the pings.
use super::*;

/// On a link in use a dead neighbour is detected within this time.
const NOTICED: Span = Span::from_secs(5);

fn sent(pair: &Pair) -> u64 {
    let count =
        |node: &Gateway| node.status(pair.now).counters.iter().find(|c| c.0 == "datagrams_sent").map_or(0, |c| c.1);
    pair.nodes.iter().map(count).sum()
}

/// A pair with one flow that carried a few bytes.
fn talked() -> (Pair, FlowId) {
    let mut pair = Pair::new();
    let up = |pair: &mut Pair| (0..2).all(|side| pair.saw(side, |e| *e == GatewayEvent::PeerUp(PeerId(0))));
    assert!(pair.run(Span::from_secs(5), up));
    let flow = pair.nodes[0].open(pair.now, PeerId(0), CLIENT, SERVER).unwrap();
    let incoming = |e: &GatewayEvent| matches!(e, GatewayEvent::Incoming { .. });
    assert!(pair.run(Span::from_secs(1), |pair| pair.saw(1, incoming)));
    let there = pair.events[1]
        .iter()
        .find_map(|e| if let GatewayEvent::Incoming { flow, .. } = e { Some(*flow) } else { None });
    pair.nodes[1].accept(pair.now, there.unwrap());
    assert!(pair.run(Span::from_secs(1), |pair| pair.saw(0, |e| *e == GatewayEvent::Accepted(flow))));
    pair.nodes[0].write(pair.now, flow, b"hello");
    (pair, flow)
}

#[test]
fn a_dead_neighbour_in_use_is_detected_on_a_quiet_link() {
    for quiet in [0, 500, 1_000, 5_000, 20_000] {
        let (mut pair, flow) = talked();
        pair.run(Span::from_millis(quiet), |_| false);
        pair.loss = Ratio::ONE;
        let end = pair.now;
        let down = |pair: &Pair, side| pair.saw(side, |e| *e == GatewayEvent::PeerDown(PeerId(0)));
        assert!(pair.run(NOTICED, |pair| down(pair, 0) && down(pair, 1)), "after {quiet} ms: {:?}", pair.events);
        // It is found again within the second between two calls, and the flow is still open.
        let gone = pair.now.since(end);
        pair.run(Span::from_secs(20), |_| false);
        pair.loss = Ratio::ZERO;
        pair.events.iter_mut().for_each(Vec::clear);
        let up = |pair: &mut Pair| pair.saw(0, |e| *e == GatewayEvent::PeerUp(PeerId(0)));
        assert!(pair.run(Span::from_millis(1_100), up), "gone after {gone:?}");
        assert!(!pair.saw(0, |e| matches!(e, GatewayEvent::Reset(..))));
        assert_eq!(pair.nodes[0].write(pair.now, flow, b"more"), 4);
    }
}

#[test]
fn signs_of_life_end_with_the_use_and_cost_little() {
    let (mut pair, _) = talked();
    pair.run(Span::from_secs(1), |_| false);
    let before = sent(&pair);
    pair.run(Span::from_secs(30), |_| false);
    let used = sent(&pair) - before;
    // A question and its answer every second and a half.
    assert!((20..=45).contains(&used), "{used}");
    let before = sent(&pair);
    pair.run(Span::from_secs(300), |_| false);
    assert_eq!(sent(&pair), before, "a link that nobody uses is silent");
}

#[test]
fn an_outage_shorter_than_the_patience_is_nobodys_end() {
    let (mut pair, _) = talked();
    pair.run(Span::from_secs(1), |_| false);
    pair.loss = Ratio::ONE;
    pair.run(Span::from_millis(2_500), |_| false);
    pair.loss = Ratio::ZERO;
    pair.run(Span::from_secs(10), |_| false);
    assert!((0..2).all(|side| !pair.saw(side, |e| matches!(e, GatewayEvent::PeerDown(_)))), "{:?}", pair.events);
}

#[test]
fn a_neighbour_that_never_answers_is_down() {
    let mut pair = Pair::new();
    pair.loss = Ratio::ONE;
    let flow = pair.nodes[0].open(pair.now, PeerId(0), CLIENT, SERVER).unwrap();
    assert!(pair.run(NOTICED, |pair| pair.saw(0, |e| *e == GatewayEvent::PeerDown(PeerId(0)))));
    assert!(!pair.saw(0, |e| matches!(e, GatewayEvent::Refused(..))), "only the owner knows whether anybody waits");
    pair.nodes[0].refuse_unanswered(pair.now, PeerId(0));
    pair.drain();
    assert!(pair.saw(0, |e| *e == GatewayEvent::Refused(flow, Reason::Unreachable)));
    // The far side is not asked any more once it is there.
    pair.loss = Ratio::ZERO;
    pair.run(Span::from_secs(5), |_| false);
    assert!(!pair.saw(1, |e| matches!(e, GatewayEvent::Incoming { .. })));
}

#[test]
fn refusing_unanswered_flows_spares_open_ones() {
    let (mut pair, flow) = talked();
    pair.run(Span::from_secs(1), |_| false);
    pair.nodes[0].refuse_unanswered(pair.now, PeerId(0));
    pair.run(Span::from_secs(1), |_| false);
    let over = |e: &GatewayEvent| matches!(e, GatewayEvent::Refused(f, _) | GatewayEvent::Reset(f, _) if *f == flow);
    assert!((0..2).all(|side| !pair.saw(side, over)));
}
